//! `floatgate serve TARGET --serprog ADDRESS`.

use crate::common::{Failure, Outcome, SetupArgs, count, grouped, grouped_count};
use crate::output::{ReportFormat, tell};
use floatgate_host::output::{Output, write_file};
use floatgate_host::serprog;
use floatgate_host::signals::Ending;
use floatgate_host::{Lock, LockError};
use floatgate_lab::report::ResultKind;
use floatgate_mtd::Nanos;
use floatgate_sim::programmer::Programmer;
use floatgate_sim::rig;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate serve w25q128jv --serprog 4000
  flashrom -p serprog:ip=127.0.0.1:4000 -w image.bin
  floatgate serve w25q128jv --serprog 4000 --state chip.bin --once --json
  floatgate serve mx25l25645g --serprog 4000 --cut-power 100
  floatgate serve w25q128jv --serprog - < requests > answers

The simulated SPI NOR sits in the socket of a programmer that speaks serprog. Stays in the foreground; Ctrl-C ends it, and the time that the real chip would have taken is \
printed, with the violations: commands that this chip does not have, or that came when they may not. They are answered with FFh or ignored, as by silicon.

Without a host in ADDRESS the port is on the loopback interface; port 0 takes a free one. Clients are served one after the other. - serves one client on stdin and stdout, and \
the report goes to stderr.

The file of --state is read at the start, where it exists: an image of the chip, or a file that --state wrote, which holds its registers and its OTP area behind the image. It is \
replaced as a whole whenever a client leaves, so a server that is killed leaves the contents of then.")]
pub(crate) struct Args {
    #[command(flatten)]
    setup: SetupArgs,

    /// Serve a SPI NOR to flashrom on this TCP port; - is stdin and stdout
    #[arg(long, value_name = "[HOST:]PORT")]
    serprog: Place,

    /// Keep the contents of the chip in this file
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// End after the first client
    #[arg(long)]
    once: bool,

    /// Cut the power in the middle of this program or erase, counted from 1; the client is disconnected, the next one finds power restored
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cut_power: Option<u64>,

    /// Programs and erases of the block at this address fail (repeatable)
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    bad: Vec<u64>,

    /// A bit of a byte always reads the same (repeatable): --stuck 0x1000.3=0
    #[arg(long, value_name = "ADDRESS.BIT=0|1")]
    stuck: Vec<Stuck>,

    #[command(flatten)]
    format: ReportFormat,
}

/// Where clients are served.
#[derive(Clone)]
enum Place {
    Stdio,
    Tcp(Vec<SocketAddr>),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::Stdio);
        }
        let found = match text.parse::<u16>() {
            Ok(port) => ("127.0.0.1", port).to_socket_addrs(),
            Err(_) => text.to_socket_addrs(),
        };
        let found = found.map_err(|error| format!("{error}; write PORT, HOST:PORT or -"))?;
        Ok(Self::Tcp(found.collect()))
    }
}

/// A number in decimal, or in hexadecimal behind 0x.
fn address(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "write an address in decimal, or in hexadecimal behind 0x".to_owned())
}

/// A bit that always reads the same.
#[derive(Clone, Copy)]
struct Stuck {
    address: u64,
    bit: u8,
    value: bool,
}

impl FromStr for Stuck {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write ADDRESS.BIT=VALUE with a bit from 0 to 7 and a value of 0 or 1".to_owned();
        let (place, value) = text.split_once('=').ok_or_else(wrong)?;
        let (at, bit) = place.split_once('.').ok_or_else(wrong)?;
        let bit = bit.parse().ok().filter(|bit| *bit < 8).ok_or_else(wrong)?;
        match value {
            "0" | "1" => Ok(Self { address: address(at)?, bit, value: value == "1" }),
            _ => Err(wrong()),
        }
    }
}

/// Commands of all clients, and the chip's answer in time and violations.
#[derive(Serialize)]
struct Report {
    chip: String,
    clients: u64,
    commands: u64,
    operations: u64,
    time_us: f64,
    wire_us: f64,
    power_cut: bool,
    violation_count: u64,
    violations: Vec<ViolationRow>,
}

/// All violations of one rule.
#[derive(Serialize)]
struct ViolationRow {
    rule: String,
    count: u64,
    first_us: f64,
    first_bytes: String,
}

impl Report {
    fn new(chip: &str, clients: u64, programmer: &Programmer, power_cut: bool) -> Self {
        let log = programmer.wire().violations();
        let mut violations: Vec<ViolationRow> = Vec::new();
        for one in log.kept() {
            let rule = one.rule.to_string();
            match violations.iter_mut().find(|row| row.rule == rule) {
                Some(row) => row.count += 1,
                None => violations.push(ViolationRow {
                    rule,
                    count: 1,
                    first_us: one.at.as_ns() as f64 / 1e3,
                    first_bytes: hex(&one.bytes),
                }),
            }
        }
        Self {
            chip: chip.to_owned(),
            clients,
            commands: programmer.windows(),
            operations: programmer.operations(),
            time_us: programmer.done_at().as_ns() as f64 / 1e3,
            wire_us: programmer.on_wires().as_us_f64(),
            power_cut,
            violation_count: log.count(),
            violations,
        }
    }

    fn text(&self) -> String {
        let Self { chip, clients, .. } = self;
        let clients = count(*clients as usize, "client");
        let commands = grouped_count(self.commands, "command");
        let operations = grouped(self.operations);
        let violations = grouped_count(self.violation_count, "violation");
        let [whole, wires] = [self.time_us, self.wire_us].map(time);
        let mut text = format!(
            "{chip}: {clients}, {commands}; programs, erases and register writes: {operations}\ntime on the real chip: {whole}, of it on the wires: {wires}\n"
        );
        if self.power_cut {
            text += "power was cut as ordered\n";
        }
        text += &format!("{violations}\n");
        for row in &self.violations {
            let at = time(row.first_us);
            text += &format!("  {} x {}; first after {at}: {}\n", row.count, row.rule, row.first_bytes);
        }
        text
    }
}

/// A time in us, in the unit that suits it.
fn time(us: f64) -> Nanos {
    Nanos::from_ns((us * 1e3).round() as u64)
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

pub(crate) fn run(args: &Args) -> Outcome {
    if matches!(args.serprog, Place::Stdio) && args.format.is_for_programs() {
        let message =
            "--serprog -: stdout carries the protocol, so there is no place for a report in JSON or CSV";
        return Err(Failure::new(message, "serve a TCP port: --serprog 0"));
    }
    let named = args.setup.open()?;
    let config = named.config()?;
    let mut programmer = Programmer::new(rig::spi_nor_wire(&config, named.options)?);
    args.prepare(&mut programmer)?;
    let state = args.state.as_deref().map(|path| State::open(path, &mut programmer)).transpose()?;
    let mut server = Server { programmer, state, clients: 0, power_cut: false, ending: Ending::new() };
    let chip = &config.part().name;
    match &args.serprog {
        Place::Stdio => drop(server.serve(Stdin, Output::stdout()?.file())?),
        Place::Tcp(addresses) => server.listen(addresses, chip, args.once)?,
    }
    let report = Report::new(chip, server.clients, &server.programmer, server.power_cut);
    if matches!(args.serprog, Place::Stdio) {
        tell(report.text().trim_end());
        return Ok(std::process::ExitCode::SUCCESS);
    }
    let origin = args.setup.origin(ResultKind::ServeSerprog);
    args.format.finish(&origin, &report, "violations", || report.text())
}

impl Args {
    /// Breaks the chip as ordered.
    fn prepare(&self, programmer: &mut Programmer) -> Result<(), Failure> {
        let size = programmer.size();
        let addresses = self.bad.iter().chain(self.stuck.iter().map(|stuck| &stuck.address));
        if let Some(beyond) = addresses.copied().find(|address| *address >= size) {
            let message = format!("{beyond:#x} is beyond the end of the chip");
            return Err(Failure::new(message, format!("the chip ends at {size:#x}")));
        }
        self.bad.iter().for_each(|address| programmer.break_block(*address));
        self.stuck.iter().for_each(|s| programmer.stick(s.address, s.bit, s.value));
        if let Some(operation) = self.cut_power {
            programmer.cut_power(operation);
        }
        Ok(())
    }
}

/// A file with the contents of a chip, locked against other servers.
struct State {
    path: PathBuf,
    saved: Vec<u8>,
    lock: Lock,
}

impl State {
    /// Reads the file, or makes it.
    fn open(path: &Path, programmer: &mut Programmer) -> Result<Self, Failure> {
        let refused =
            |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()), STATE_HELP);
        if !path.exists() {
            write_file(path, &programmer.contents())?;
        }
        let lock = lock(path)?;
        let mut saved = Vec::new();
        // A byte more than there can be, so that an endless file is refused.
        let most = programmer.contents().len() as u64 + 1;
        let file = floatgate_host::open::open_file(path, false).map_err(|error| refused(&error))?;
        file.take(most).read_to_end(&mut saved).map_err(|error| refused(&error))?;
        programmer.set_contents(&saved).map_err(|error| refused(&error))?;
        Ok(Self { path: path.to_owned(), saved, lock })
    }

    /// Replaces the file, if the contents have changed.
    fn save(&mut self, programmer: &Programmer) -> Result<(), Failure> {
        let contents = programmer.contents();
        if contents == self.saved {
            return Ok(());
        }
        let mut output = Output::replace(&self.path)?;
        output.write_all(&contents).map_err(|error| output.failed(error))?;
        output.finish()?;
        self.lock = lock(&self.path)?;
        self.saved = contents;
        Ok(())
    }
}

const STATE_HELP: &str = "name a file that --state wrote for this chip, an image of its size, or a new file";

fn lock(path: &Path) -> Result<Lock, Failure> {
    let help = |error: &LockError| match error {
        LockError::InUse => "end the other one, or name another file",
        LockError::Host(_) => STATE_HELP,
    };
    Lock::new(path, true).map_err(|error| Failure::new(format!("{}: {error}", path.display()), help(&error)))
}

/// The chip, and what clients did to it.
struct Server {
    programmer: Programmer,
    state: Option<State>,
    clients: u64,
    power_cut: bool,
    ending: Ending,
}

impl Server {
    fn listen(&mut self, addresses: &[SocketAddr], chip: &str, once: bool) -> Result<(), Failure> {
        let named = addresses.first().map_or_else(String::new, ToString::to_string);
        let refused = |error: io::Error| {
            Failure::new(format!("{named}: {error}"), "name a free port, or 0 for any: --serprog 0")
        };
        let listener = TcpListener::bind(addresses).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        tell(&format!("{chip} is served on {address} (serprog): Ctrl-C ends it"));
        while !self.ending.is_asked() {
            match is_readable(&listener) {
                Ok(true) => {}
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(refused(error)),
                Ok(false) | Err(_) => continue,
            }
            let client = match listener.accept() {
                // The client left before it was served.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                accepted => accepted.map_err(refused)?.0,
            };
            // Answers are short, and clients wait for them.
            client.set_nodelay(true).and_then(|()| client.set_read_timeout(Some(TICK))).map_err(refused)?;
            let failed = self.serve(&client, &client)?;
            if failed || self.ending.is_asked() {
                // The client still waits for an answer: flashrom takes a reset for an error, and an end of the stream for a pause.
                rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO))
                    .map_err(|error| refused(error.into()))?;
            }
            if once {
                break;
            }
        }
        Ok(())
    }

    /// Serves a client until it leaves, power fails, or a signal comes. True when power failed.
    fn serve(&mut self, requests: impl Read, answers: impl Write) -> Result<bool, Failure> {
        self.clients += 1;
        let requests = Patient { inner: requests, ending: &self.ending };
        if let Err(error) = serprog::serve(requests, answers, &mut Socket(&mut self.programmer)) {
            tell(&format!("the connection of client {} failed: {error}", self.clients));
        }
        // A programmer takes power off the socket when its client leaves.
        let failed = self.programmer.power_cycle();
        self.power_cut |= failed;
        self.state.as_mut().map_or(Ok(()), |state| state.save(&self.programmer))?;
        Ok(failed)
    }
}

/// Slowest clock that a client gets, in Hz.
const SLOWEST_HZ: u32 = 10_000;

/// Longest wait at once, in us: a day.
const LONGEST_WAIT_US: u64 = 86_400_000_000;

/// The programmer as the protocol sees it.
struct Socket<'p>(&'p mut Programmer);

impl serprog::Programmer for Socket<'_> {
    fn transfer(&mut self, sent: &[u8], received: &mut [u8]) {
        self.0.transfer(sent, received);
    }

    fn set_clock(&mut self, hz: u32) -> u32 {
        let made = hz.max(SLOWEST_HZ);
        self.0.set_clock(made);
        made
    }

    fn delay(&mut self, us: u64) {
        self.0.wait(Nanos::from_us(us.min(LONGEST_WAIT_US)));
    }

    fn is_connected(&self) -> bool {
        !self.0.is_dead()
    }
}

/// A connection. A signal that ends the command ends its reads.
struct Patient<'e, R> {
    inner: R,
    ending: &'e Ending,
}

impl<R: Read> Read for Patient<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while !self.ending.is_asked() {
            match self.inner.read(bytes) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                done => return done,
            }
        }
        Ok(0)
    }
}

/// Standard input. A read fails with `WouldBlock` when nothing comes for a [`TICK`].
struct Stdin;

impl Read for Stdin {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if is_readable(&rustix::stdio::stdin())? {
            io::stdin().read(bytes)
        } else {
            Err(ErrorKind::WouldBlock.into())
        }
    }
}

/// Time after which a wait looks whether a signal asks for the end.
const TICK: Duration = Duration::from_millis(100);

/// Waits for something to read, for a tick at most.
fn is_readable(source: &impl AsFd) -> io::Result<bool> {
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
    Ok(rustix::event::poll(&mut [PollFd::new(source, PollFlags::IN)], Some(&tick))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_bits_are_read_as_written() {
        assert_eq!((address("0x10"), address("16")), (Ok(16), Ok(16)));
        let stuck: Stuck = "0x1000.7=1".parse().unwrap();
        assert_eq!((stuck.address, stuck.bit, stuck.value), (0x1000, 7, true));
        for wrong in ["", "0x", "1.8=0", "1.0=2", "1.0", "1=0", "-1.0=0"] {
            assert!(wrong.parse::<Stuck>().is_err(), "{wrong}");
        }
        assert!(matches!("-".parse(), Ok(Place::Stdio)));
        for wrong in ["", "70000", "localhost", "localhost:x"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
