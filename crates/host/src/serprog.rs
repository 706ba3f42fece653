//! Server side of serprog, the protocol between flashrom (or similar programs) and a programmer of SPI or parallel flash,
//! over a socket or a serial line.
//!
//! A request is a command byte and its parameters, lowest byte first. The answer is ACK and the result, or NAK. The
//! version of the protocol is 1. Commands for a bus that the chip does not use are answered with NAK. Reads of a parallel
//! flash are executed immediately; writes and delays are collected in the operation buffer until O_EXEC.

use std::io::{self, BufRead, BufReader, Read, Write};

/// Type of bus between a programmer and its chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// SPI, on one data line in each direction.
    Spi,
    /// Address lines and eight data lines.
    Parallel,
}

impl Bus {
    /// Bit of the bus in sets of buses.
    const fn bit(self) -> u8 {
        match self {
            Self::Parallel => 1 << 0,
            Self::Spi => 1 << 3,
        }
    }

    /// Commands that only this bus supports.
    const fn commands(self) -> &'static [u8] {
        match self {
            Self::Spi => &[O_SPIOP, S_SPI_FREQ],
            Self::Parallel => &[Q_WRNMAXLEN, R_BYTE, R_NBYTES, O_WRITEB, O_WRITEN, Q_RDNMAXLEN],
        }
    }
}

/// A programmer with a flash chip.
pub trait Programmer {
    /// Bus of the chip.
    fn bus(&self) -> Bus {
        Bus::Spi
    }

    /// SPI: selects the chip (CS# low), sends bytes to it, receives bytes, and deselects it.
    fn transfer(&mut self, sent: &[u8], received: &mut [u8]);

    /// Parallel: reads bytes from `address` on.
    fn read(&mut self, address: u32, received: &mut [u8]) {
        let _ = address;
        received.fill(0xFF);
    }

    /// Parallel: writes bytes from `address` on, one cycle for each byte.
    fn write(&mut self, address: u32, sent: &[u8]) {
        let _ = (address, sent);
    }

    /// Sets the clock, Hz; returns the actual frequency.
    fn set_clock(&mut self, hz: u32) -> u32;

    /// Waits for a time in us.
    fn delay(&mut self, us: u64);

    /// False if the programmer was removed, which ends the connection.
    fn is_connected(&self) -> bool {
        true
    }
}

const ACK: u8 = 0x06;
const NAK: u8 = 0x15;

/// Version of the protocol.
const VERSION: u16 = 1;
/// Name of the programmer that clients show; 16 bytes.
const NAME: &[u8; 16] = b"floatgate\0\0\0\0\0\0\0";
/// Number of bytes that a client may send without waiting for answers, and size of the operation buffer.
const BUFFER_BYTES: u16 = u16::MAX;
/// Maximum length of one O_WRITEN and of one R_NBYTES, bytes.
const RUN_BYTES: u32 = 0x8000;

/// Commands that every bus supports.
const COMMANDS: [u8; 13] = [
    NOP,
    Q_IFACE,
    Q_CMDMAP,
    Q_PGMNAME,
    Q_SERBUF,
    Q_BUSTYPE,
    Q_OPBUF,
    O_INIT,
    O_DELAY,
    O_EXEC,
    SYNCNOP,
    S_BUSTYPE,
    S_PIN_STATE,
];
const NOP: u8 = 0x00;
const Q_IFACE: u8 = 0x01;
const Q_CMDMAP: u8 = 0x02;
const Q_PGMNAME: u8 = 0x03;
const Q_SERBUF: u8 = 0x04;
const Q_BUSTYPE: u8 = 0x05;
const Q_OPBUF: u8 = 0x07;
const Q_WRNMAXLEN: u8 = 0x08;
const R_BYTE: u8 = 0x09;
const R_NBYTES: u8 = 0x0A;
const O_INIT: u8 = 0x0B;
const O_WRITEB: u8 = 0x0C;
const O_WRITEN: u8 = 0x0D;
const O_DELAY: u8 = 0x0E;
const O_EXEC: u8 = 0x0F;
const SYNCNOP: u8 = 0x10;
const Q_RDNMAXLEN: u8 = 0x11;
const S_BUSTYPE: u8 = 0x12;
const O_SPIOP: u8 = 0x13;
const S_SPI_FREQ: u8 = 0x14;
const S_PIN_STATE: u8 = 0x15;

/// Serves one client until it disconnects or the programmer is removed.
///
/// # Errors
/// Failures of the connection. A client that disconnects in the middle of a request is not an error.
pub fn serve(
    requests: impl Read,
    mut answers: impl Write,
    programmer: &mut impl Programmer,
) -> io::Result<()> {
    let mut session =
        Session { programmer, waiting: Vec::new(), waiting_bytes: 0, sent: Vec::new(), answer: Vec::new() };
    let mut requests = BufReader::with_capacity(64 << 10, requests);
    while !requests.fill_buf()?.is_empty() {
        match session.request(&mut requests) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            outcome => outcome?,
        }
        if !session.programmer.is_connected() {
            return Ok(());
        }
        // If a client sends several requests without waiting, the answers are sent together.
        if requests.buffer().is_empty() || session.answer.len() > ANSWERS_MAX {
            answers.write_all(&session.answer)?;
            answers.flush()?;
            session.answer.clear();
        }
    }
    answers.write_all(&session.answer)?;
    answers.flush()
}

/// Size of pending answers, B, at which they are sent even if more requests are available.
const ANSWERS_MAX: usize = 64 << 10;

/// An operation in the operation buffer.
enum Waiting {
    /// A delay of this time, us.
    Delay(u64),
    /// Write cycles of these bytes, from an address on.
    Write(u32, Vec<u8>),
}

/// State of one connection.
struct Session<'p, P> {
    programmer: &'p mut P,
    /// Operations that wait for O_EXEC.
    waiting: Vec<Waiting>,
    /// Number of bytes of [`BUFFER_BYTES`] that the operations use.
    waiting_bytes: usize,
    /// Bytes to send to the chip in the current CS# window.
    sent: Vec<u8>,
    /// Answers that have not been sent yet.
    answer: Vec<u8>,
}

impl<P: Programmer> Session<'_, P> {
    fn request(&mut self, requests: &mut impl Read) -> io::Result<()> {
        let [command] = parameters(requests)?;
        let bus = self.programmer.bus();
        if !COMMANDS.contains(&command) && !bus.commands().contains(&command) {
            self.answer.push(NAK);
            return Ok(());
        }
        match command {
            NOP | S_PIN_STATE => {
                if command == S_PIN_STATE {
                    let [_] = parameters(requests)?;
                }
                self.ack(&[]);
            }
            Q_IFACE => self.ack(&VERSION.to_le_bytes()),
            Q_CMDMAP => self.ack(&command_map(bus)),
            Q_PGMNAME => self.ack(NAME),
            Q_SERBUF | Q_OPBUF => self.ack(&BUFFER_BYTES.to_le_bytes()),
            Q_BUSTYPE => self.ack(&[bus.bit()]),
            Q_WRNMAXLEN | Q_RDNMAXLEN => self.ack(&RUN_BYTES.to_le_bytes()[..3]),
            SYNCNOP => self.answer.extend([NAK, ACK]),
            S_BUSTYPE => {
                let [buses] = parameters(requests)?;
                self.answer.push(if buses & bus.bit() != 0 { ACK } else { NAK });
            }
            O_INIT => {
                (self.waiting, self.waiting_bytes) = (Vec::new(), 0);
                self.ack(&[]);
            }
            O_DELAY => self.delay(u32::from_le_bytes(parameters(requests)?).into()),
            O_EXEC => self.execute(),
            O_SPIOP => self.spi(requests)?,
            S_SPI_FREQ => match u32::from_le_bytes(parameters(requests)?) {
                0 => self.answer.push(NAK),
                hz => {
                    let made = self.programmer.set_clock(hz);
                    self.ack(&made.to_le_bytes());
                }
            },
            R_BYTE => {
                let address = u24(parameters(requests)?);
                self.read(address, 1);
            }
            R_NBYTES => {
                let address = u24(parameters(requests)?);
                let length = u24(parameters(requests)?);
                self.read(address, length);
            }
            O_WRITEB => {
                let address = u24(parameters(requests)?);
                let [byte] = parameters(requests)?;
                self.wait_for_exec(Waiting::Write(address, vec![byte]), 5);
            }
            O_WRITEN => self.write(requests)?,
            _ => self.answer.push(NAK),
        }
        Ok(())
    }

    /// Adds an operation of this length to the operation buffer, if there is room.
    fn wait_for_exec(&mut self, operation: Waiting, bytes: usize) {
        if self.waiting_bytes + bytes > usize::from(BUFFER_BYTES) {
            self.answer.push(NAK);
            return;
        }
        self.waiting_bytes += bytes;
        self.waiting.push(operation);
        self.ack(&[]);
    }

    /// Adds a delay; consecutive delays are combined.
    fn delay(&mut self, us: u64) {
        if let Some(Waiting::Delay(before)) = self.waiting.last_mut() {
            *before = before.saturating_add(us);
            self.ack(&[]);
        } else {
            self.wait_for_exec(Waiting::Delay(us), 5);
        }
    }

    fn execute(&mut self) {
        for operation in std::mem::take(&mut self.waiting) {
            match operation {
                Waiting::Delay(us) => self.programmer.delay(us),
                Waiting::Write(address, bytes) => self.programmer.write(address, &bytes),
            }
        }
        self.waiting_bytes = 0;
        self.ack(&[]);
    }

    /// Reads a parallel flash. A length of 0 means 2^24, which exceeds the limit.
    fn read(&mut self, address: u32, length: u32) {
        if length == 0 || length > RUN_BYTES {
            self.answer.push(NAK);
            return;
        }
        self.answer.push(ACK);
        let at = self.answer.len();
        self.answer.resize(at + length as usize, 0);
        self.programmer.read(address, &mut self.answer[at..]);
    }

    /// Adds a run of write cycles to the operation buffer.
    fn write(&mut self, requests: &mut impl Read) -> io::Result<()> {
        let length = u24(parameters(requests)?);
        let address = u24(parameters(requests)?);
        let mut bytes = Vec::new();
        let got = requests.take(length.into()).read_to_end(&mut bytes)?;
        if got < length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if length > RUN_BYTES {
            self.answer.push(NAK);
        } else {
            self.wait_for_exec(Waiting::Write(address, bytes), 7 + got);
        }
        Ok(())
    }

    fn ack(&mut self, result: &[u8]) {
        self.answer.push(ACK);
        self.answer.extend_from_slice(result);
    }

    /// Executes a CS# window of an SPI chip. Both lengths have 24 bits.
    fn spi(&mut self, requests: &mut impl Read) -> io::Result<()> {
        let sent = u24(parameters(requests)?);
        let received = u24(parameters(requests)?);
        self.sent.clear();
        // The buffer grows as bytes arrive, so a client that announces a large length and disconnects costs no memory.
        let got = requests.take(sent.into()).read_to_end(&mut self.sent)?;
        if got < sent as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.answer.push(ACK);
        let at = self.answer.len();
        self.answer.resize(at + received as usize, 0);
        self.programmer.transfer(&self.sent, &mut self.answer[at..]);
        Ok(())
    }
}

fn parameters<const N: usize>(requests: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    requests.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A number of three bytes, lowest byte first.
const fn u24([low, mid, high]: [u8; 3]) -> u32 {
    u32::from_le_bytes([low, mid, high, 0])
}

/// Bit map of the supported commands.
fn command_map(bus: Bus) -> [u8; 32] {
    let mut map = [0; 32];
    for command in COMMANDS.iter().chain(bus.commands()).copied() {
        map[usize::from(command) / 8] |= 1 << (command % 8);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPI: u8 = Bus::Spi.bit();

    /// A test programmer that answers with the number of bytes sent and records the delays.
    #[derive(Default)]
    struct Counter {
        delays_us: u64,
        windows: u64,
        /// True for a parallel flash, false for SPI.
        parallel: bool,
        written: Vec<(u32, Vec<u8>)>,
    }

    impl Programmer for Counter {
        fn bus(&self) -> Bus {
            if self.parallel { Bus::Parallel } else { Bus::Spi }
        }

        fn read(&mut self, address: u32, received: &mut [u8]) {
            for (byte, at) in received.iter_mut().zip(address..) {
                *byte = at as u8;
            }
        }

        fn write(&mut self, address: u32, sent: &[u8]) {
            self.written.push((address, sent.to_vec()));
        }

        fn transfer(&mut self, sent: &[u8], received: &mut [u8]) {
            self.windows += 1;
            received.fill(sent.len() as u8);
        }

        fn set_clock(&mut self, hz: u32) -> u32 {
            hz / 2
        }

        fn delay(&mut self, us: u64) {
            self.delays_us += us;
        }

        fn is_connected(&self) -> bool {
            self.windows < 3
        }
    }

    fn answers(requests: &[u8]) -> (Vec<u8>, Counter) {
        answers_on(Bus::Spi, requests)
    }

    fn answers_on(bus: Bus, requests: &[u8]) -> (Vec<u8>, Counter) {
        let parallel = bus == Bus::Parallel;
        let (mut out, mut programmer) = (Vec::new(), Counter { parallel, ..Counter::default() });
        serve(requests, &mut out, &mut programmer).unwrap();
        (out, programmer)
    }

    #[test]
    fn requests_are_answered_in_order() {
        let requests = [
            vec![SYNCNOP, Q_BUSTYPE, S_BUSTYPE, SPI, S_BUSTYPE, 1],
            vec![O_INIT, O_DELAY, 10, 0, 0, 0, O_DELAY, 5, 1, 0, 0, O_EXEC, O_EXEC],
            vec![O_SPIOP, 2, 0, 0, 3, 0, 0, 0x9F, 0, S_SPI_FREQ, 8, 0, 0, 0, S_SPI_FREQ, 0, 0, 0, 0, 0x77],
        ];
        let (out, programmer) = answers(&requests.concat());
        let mut wanted = vec![NAK, ACK, ACK, SPI, ACK, NAK];
        wanted.extend([ACK; 5]);
        wanted.extend([ACK, 2, 2, 2, ACK, 4, 0, 0, 0, NAK, NAK]);
        assert_eq!(out, wanted);
        assert_eq!(programmer.delays_us, 10 + 261);
    }

    #[test]
    fn writes_of_a_parallel_flash_wait_for_their_execution() {
        let requests = [
            vec![Q_BUSTYPE, O_INIT, O_WRITEB, 0xAA, 0x0A, 0, 0xAA, O_DELAY, 7, 0, 0, 0],
            vec![O_WRITEN, 2, 0, 0, 0, 0, 0xFF, 1, 2, R_BYTE, 5, 0, 1, O_EXEC],
            vec![R_NBYTES, 0xFE, 0, 0, 3, 0, 0, R_NBYTES, 0, 0, 0, 0, 0, 0, O_SPIOP],
        ];
        let (out, programmer) = answers_on(Bus::Parallel, &requests.concat());
        let wanted = [ACK, 1, ACK, ACK, ACK, ACK, ACK, 5, ACK, ACK, 0xFE, 0xFF, 0, NAK, NAK];
        assert_eq!(out, wanted);
        assert_eq!(programmer.written, [(0xAAA, vec![0xAA]), (0xFF_0000, vec![1, 2])]);
        assert_eq!(programmer.delays_us, 7);
        // A run that exceeds the operation buffer is rejected.
        let run = [&[O_WRITEN, 0, 0x80, 0, 0, 0, 0][..], &[0; 0x8000]].concat();
        assert_eq!(answers_on(Bus::Parallel, &run.repeat(2)).0, [ACK, NAK]);
    }

    #[test]
    fn the_map_has_the_commands_that_are_answered() {
        for bus in [Bus::Spi, Bus::Parallel] {
            let (out, _) = answers_on(bus, &[Q_CMDMAP]);
            for command in (0..=u8::MAX).filter(|command| *command != SYNCNOP) {
                let listed = out[1 + usize::from(command) / 8] >> (command % 8) & 1 == 1;
                let mut request = vec![command];
                // S_BUSTYPE, S_SPI_FREQ and R_NBYTES reject zeros.
                request.extend(match command {
                    O_SPIOP | O_WRITEN => vec![0; 8],
                    R_NBYTES => vec![1, 0, 0, 1, 0, 0],
                    _ => vec![bus.bit(); 8],
                });
                let (answer, _) = answers_on(bus, &request);
                assert_eq!(answer.first() == Some(&ACK), listed, "{bus:?} {command:#04x}");
            }
        }
    }

    #[test]
    fn a_client_that_leaves_early_and_a_programmer_that_is_gone_end_the_session() {
        let window = [O_SPIOP, 1, 0, 0, 1, 0, 0, 5];
        for length in 0..window.len() {
            let (out, programmer) = answers(&[&[NOP][..], &window[..length]].concat());
            assert_eq!((programmer.windows, &out[..]), (0, &[ACK][..]), "{length}");
        }
        let (out, programmer) = answers(&window.repeat(5));
        assert_eq!((programmer.windows, out.len()), (3, 0), "pending answers go with the connection");
    }
}
