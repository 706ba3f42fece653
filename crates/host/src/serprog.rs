//! Server side of serprog, the protocol between flashrom (or similar programs) and a SPI programmer, over a socket or a
//! serial line.
//!
//! A request is a command byte and its parameters, lowest byte first; the answer is ACK and the result, or NAK. Version
//! 1, only for SPI; commands of other buses get NAK.

use std::io::{self, BufRead, BufReader, Read, Write};

/// A SPI programmer with a chip.
pub trait Programmer {
    /// Runs a CS# window: sends bytes to the chip, then receives bytes.
    fn transfer(&mut self, sent: &[u8], received: &mut [u8]);

    /// Sets the clock in Hz; returns the actual one.
    fn set_clock(&mut self, hz: u32) -> u32;

    /// Waits for this time, us.
    fn delay(&mut self, us: u64);

    /// False if the programmer is gone, which ends the connection.
    fn is_connected(&self) -> bool {
        true
    }
}

const ACK: u8 = 0x06;
const NAK: u8 = 0x15;

/// Version of the protocol.
const VERSION: u16 = 1;
/// Name of the programmer, as clients show it; 16 bytes.
const NAME: &[u8; 16] = b"floatgate\0\0\0\0\0\0\0";
/// The bus type SPI, a bit of the sets of buses.
const SPI: u8 = 1 << 3;
/// Number of unanswered bytes that a client may send, and size of the delay buffer: a socket has room.
const BUFFER_BYTES: u16 = u16::MAX;

/// Supported commands.
const COMMANDS: [u8; 15] = [
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
    O_SPIOP,
    S_SPI_FREQ,
    S_PIN_STATE,
];
const NOP: u8 = 0x00;
const Q_IFACE: u8 = 0x01;
const Q_CMDMAP: u8 = 0x02;
const Q_PGMNAME: u8 = 0x03;
const Q_SERBUF: u8 = 0x04;
const Q_BUSTYPE: u8 = 0x05;
const Q_OPBUF: u8 = 0x07;
const O_INIT: u8 = 0x0B;
const O_DELAY: u8 = 0x0E;
const O_EXEC: u8 = 0x0F;
const SYNCNOP: u8 = 0x10;
const S_BUSTYPE: u8 = 0x12;
const O_SPIOP: u8 = 0x13;
const S_SPI_FREQ: u8 = 0x14;
const S_PIN_STATE: u8 = 0x15;

/// Serves one client until it disconnects, or the programmer is gone.
///
/// # Errors
/// Failures of the connection. A client that disconnects in the middle of a request is not an error.
pub fn serve(
    requests: impl Read,
    mut answers: impl Write,
    programmer: &mut impl Programmer,
) -> io::Result<()> {
    let mut session = Session { programmer, delays_us: 0, sent: Vec::new(), answer: Vec::new() };
    let mut requests = BufReader::with_capacity(64 << 10, requests);
    while !requests.fill_buf()?.is_empty() {
        match session.request(&mut requests) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            outcome => outcome?,
        }
        if !session.programmer.is_connected() {
            return Ok(());
        }
        // A client that sends requests ahead gets their answers together.
        if requests.buffer().is_empty() || session.answer.len() > ANSWERS_MAX {
            answers.write_all(&session.answer)?;
            answers.flush()?;
            session.answer.clear();
        }
    }
    answers.write_all(&session.answer)?;
    answers.flush()
}

/// Size of pending answers that forces sending, even if more requests are available, B.
const ANSWERS_MAX: usize = 64 << 10;

/// State of one connection.
struct Session<'p, P> {
    programmer: &'p mut P,
    /// Delays in the operation buffer, us.
    delays_us: u64,
    /// Bytes of the window being received.
    sent: Vec<u8>,
    /// Answers that are not sent yet.
    answer: Vec<u8>,
}

impl<P: Programmer> Session<'_, P> {
    fn request(&mut self, requests: &mut impl Read) -> io::Result<()> {
        let [command] = parameters(requests)?;
        match command {
            NOP => self.ack(&[]),
            Q_IFACE => self.ack(&VERSION.to_le_bytes()),
            Q_CMDMAP => self.ack(&command_map()),
            Q_PGMNAME => self.ack(NAME),
            Q_SERBUF | Q_OPBUF => self.ack(&BUFFER_BYTES.to_le_bytes()),
            Q_BUSTYPE => self.ack(&[SPI]),
            SYNCNOP => self.answer.extend([NAK, ACK]),
            S_BUSTYPE => {
                let [buses] = parameters(requests)?;
                self.answer.push(if buses & SPI != 0 { ACK } else { NAK });
            }
            O_INIT => {
                self.delays_us = 0;
                self.ack(&[]);
            }
            O_DELAY => {
                let us = u32::from_le_bytes(parameters(requests)?);
                self.delays_us = self.delays_us.saturating_add(us.into());
                self.ack(&[]);
            }
            O_EXEC => {
                self.programmer.delay(std::mem::take(&mut self.delays_us));
                self.ack(&[]);
            }
            O_SPIOP => self.spi(requests)?,
            S_SPI_FREQ => match u32::from_le_bytes(parameters(requests)?) {
                0 => self.answer.push(NAK),
                hz => {
                    let made = self.programmer.set_clock(hz);
                    self.ack(&made.to_le_bytes());
                }
            },
            S_PIN_STATE => {
                let [_] = parameters(requests)?;
                self.ack(&[]);
            }
            _ => self.answer.push(NAK),
        }
        Ok(())
    }

    fn ack(&mut self, result: &[u8]) {
        self.answer.push(ACK);
        self.answer.extend_from_slice(result);
    }

    /// Executes a CS# window. Both lengths have 24 bits.
    fn spi(&mut self, requests: &mut impl Read) -> io::Result<()> {
        let [a, b, c, d, e, f] = parameters(requests)?;
        let [sent, received] = [[a, b, c, 0], [d, e, f, 0]].map(u32::from_le_bytes);
        self.sent.clear();
        // Grows as the bytes come in: a client that announces many and leaves costs nothing.
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

/// A bit for each command.
fn command_map() -> [u8; 32] {
    let mut map = [0; 32];
    for command in COMMANDS {
        map[usize::from(command) / 8] |= 1 << (command % 8);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces the programmer's answers in a test by the number of bytes sent, and records the delays.
    #[derive(Default)]
    struct Counter {
        delays_us: u64,
        windows: u64,
    }

    impl Programmer for Counter {
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
        let (mut out, mut programmer) = (Vec::new(), Counter::default());
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
    fn the_map_has_the_commands_that_are_answered() {
        let (out, _) = answers(&[Q_CMDMAP]);
        for command in (0..=u8::MAX).filter(|command| *command != SYNCNOP) {
            let listed = out[1 + usize::from(command) / 8] >> (command % 8) & 1 == 1;
            let mut request = vec![command];
            // S_BUSTYPE and S_SPI_FREQ refuse zeros.
            request.extend(if command == O_SPIOP { [0; 8] } else { [8; 8] });
            let (answer, _) = answers(&request);
            assert_eq!(answer.first() == Some(&ACK), listed, "{command:#04x}");
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
