//! `floatgate serve TARGET --serprog ADDRESS`.

use super::{
    Args, State, TICK, ViolationRow, conclusion, is_readable, time, violation_rows, violations_text,
};
use crate::common::{Failure, Outcome, count, grouped, grouped_count};
use crate::terminal::print_note;
use floatgate_host::output::Output;
use floatgate_host::serprog::{self, Bus};
use floatgate_host::signals::Ending;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_mtd::Nanos;
use floatgate_sim::programmer::Programmer;
use floatgate_sim::rig;
use serde::Serialize;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Connection on which clients are served.
#[derive(Clone)]
pub(super) enum Endpoint {
    Stdio,
    Tcp(Vec<SocketAddr>),
}

impl FromStr for Endpoint {
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

/// Report about the commands of all clients: the chip's time, and the violations.
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

impl Concluded for Report {
    fn conclusion(&self) -> String {
        conclusion(&self.chip, self.commands, self.violation_count)
    }
}

impl Report {
    fn new(chip: &str, clients: u64, programmer: &Programmer, power_cut: bool) -> Self {
        let log = programmer.violations();
        Self {
            chip: chip.to_owned(),
            clients,
            commands: programmer.accesses(),
            operations: programmer.operations(),
            time_us: programmer.done_at().as_ns() as f64 / 1e3,
            wire_us: programmer.on_wires().as_us_f64(),
            power_cut,
            violation_count: log.count(),
            violations: violation_rows(log),
        }
    }

    fn text(&self) -> String {
        let Self { chip, clients, .. } = self;
        let clients = count(*clients as usize, "client");
        let commands = grouped_count(self.commands, "command");
        let operations = grouped(self.operations);
        let [whole, wires] = [self.time_us, self.wire_us].map(time);
        let mut text = format!(
            "{chip}: {clients}, {commands}; programs, erases and register writes: {operations}\ntime on the real chip: {whole}, of it on the wires: {wires}\n"
        );
        if self.power_cut {
            text += "power was cut as ordered\n";
        }
        text += &violations_text(self.violation_count, &self.violations);
        text
    }
}

pub(super) fn run(args: &Args, endpoint: &Endpoint) -> Outcome {
    if matches!(endpoint, Endpoint::Stdio) && args.format.is_for_programs() {
        let message =
            "--serprog -: stdout carries the protocol, so there is no place for a report in JSON or CSV";
        return Err(Failure::new(message, "serve a TCP port: --serprog 0"));
    }
    let named = args.setup.open()?;
    let config = named.config()?;
    let mut programmer = rig::programmer(&config, named.options)?;
    let state = args.prepare(&mut programmer)?;
    let mut server = Server { programmer, state, clients: 0, power_cut: false, ending: Ending::new() };
    let chip = &config.part().name;
    let served = match endpoint {
        Endpoint::Stdio => server.serve(Stdin, Output::stdout()?.file()).map(drop),
        Endpoint::Tcp(addresses) => server.listen(addresses, chip, args.once),
    };
    let saved = server.state.as_mut().map_or(Ok(()), State::finish);
    if server.clients == 0 && served.is_err() {
        return served.map(|()| std::process::ExitCode::SUCCESS);
    }
    // The report is also printed if the contents cannot be saved.
    let report = Report::new(chip, server.clients, &server.programmer, server.power_cut);
    if matches!(endpoint, Endpoint::Stdio) {
        print_note(report.text().trim_end());
    } else {
        args.format
            .print(&named.origin(ResultKind::ServeSerprog), &report, "violations", || report.text())?;
    }
    served.and(saved).map(|()| std::process::ExitCode::SUCCESS)
}

/// The chip, and the statistics of its clients.
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
        print_note(&format!("{chip} is served on {address} (serprog): Ctrl-C ends it"));
        while !self.ending.is_asked() {
            match is_readable(&listener) {
                Ok(true) => {}
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(refused(error)),
                Ok(false) | Err(_) => continue,
            }
            let client = match listener.accept() {
                // The client disconnected before it was served.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                accepted => accepted.map_err(refused)?.0,
            };
            // Answers are short, and clients wait for them.
            client.set_nodelay(true).and_then(|()| client.set_read_timeout(Some(TICK))).map_err(refused)?;
            let failed = self.serve(&client, &client)?;
            if failed || self.ending.is_asked() {
                // The client still waits for an answer. flashrom treats a reset as an error, but the end of the
                // stream as a pause.
                rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO))
                    .map_err(|error| refused(error.into()))?;
            }
            if once {
                break;
            }
        }
        Ok(())
    }

    /// Serves a client until it disconnects, power fails, or a signal arrives. Returns true if power failed.
    fn serve(&mut self, requests: impl Read, answers: impl Write) -> Result<bool, Failure> {
        self.clients += 1;
        let requests = InterruptibleReader { inner: requests, ending: &self.ending };
        let mut served = Served::new(&mut self.programmer, self.state.as_mut());
        if let Err(error) = serprog::serve(requests, answers, &mut served) {
            print_note(&format!("the connection of client {} failed: {error}", self.clients));
        }
        served.saved?;
        // A programmer switches off the socket's power when its client disconnects.
        let failed = self.programmer.power_cycle();
        self.power_cut |= failed;
        self.state.as_mut().map_or(Ok(()), |state| state.save(&self.programmer))?;
        Ok(failed)
    }
}

/// Time of a byte on the link between a client and a programmer of parallel flash: 10 bits at 2 Mbit/s, a speed of
/// fast serial lines. Without this time, a polling client would send some hundred polls for each byte that it
/// programs.
const LINK_BYTE: Nanos = Nanos::from_us(5);

/// Number of bytes on the link for a read, without the data.
const READ_BYTES: u64 = 6;

/// Lowest clock that a client can set, Hz.
const SLOWEST_HZ: u32 = 10_000;

/// Longest single wait, us: a day.
const LONGEST_WAIT_US: u64 = 86_400_000_000;

/// Interval between two saves of the contents while a client is served. A killed server loses the changes of at most
/// this time.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// The programmer with the interface of the protocol; its contents are saved periodically.
struct Served<'p> {
    programmer: &'p mut Programmer,
    state: Option<&'p mut State>,
    saved_at: Instant,
    /// Result of the saves so far; after a failure the client is disconnected.
    saved: Result<(), Failure>,
}

/// Time of the host's clock.
#[expect(clippy::disallowed_methods, reason = "the edge: contents are saved by the host's clock")]
fn wall_clock() -> Instant {
    Instant::now()
}

impl<'p> Served<'p> {
    fn new(programmer: &'p mut Programmer, state: Option<&'p mut State>) -> Self {
        Self { programmer, state, saved_at: wall_clock(), saved: Ok(()) }
    }

    /// Saves the contents if [`SAVE_EVERY`] has passed since the last save.
    fn save(&mut self) {
        if let Some(state) = &mut self.state
            && self.saved_at.elapsed() >= SAVE_EVERY
            && self.saved.is_ok()
        {
            self.saved = state.save(self.programmer);
            self.saved_at = wall_clock();
        }
    }
}

impl serprog::Programmer for Served<'_> {
    fn bus(&self) -> Bus {
        if self.programmer.is_parallel() { Bus::Parallel } else { Bus::Spi }
    }

    fn read(&mut self, address: u32, received: &mut [u8]) {
        self.programmer.wait(LINK_BYTE * (READ_BYTES + received.len() as u64));
        self.programmer.read(address, received);
        self.save();
    }

    fn write(&mut self, address: u32, sent: &[u8]) {
        self.programmer.write(address, sent);
        self.save();
    }

    fn transfer(&mut self, sent: &[u8], received: &mut [u8]) {
        self.programmer.transfer(sent, received);
        self.save();
    }

    fn set_clock(&mut self, hz: u32) -> u32 {
        let made = hz.max(SLOWEST_HZ);
        self.programmer.set_clock(made);
        made
    }

    fn delay(&mut self, us: u64) {
        self.programmer.wait(Nanos::from_us(us.min(LONGEST_WAIT_US)));
    }

    fn is_connected(&self) -> bool {
        !self.programmer.is_dead() && self.saved.is_ok()
    }
}

/// A connection whose reads end when a signal ends the command.
struct InterruptibleReader<'e, R> {
    inner: R,
    ending: &'e Ending,
}

impl<R: Read> Read for InterruptibleReader<'_, R> {
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

/// Standard input. A read fails with `WouldBlock` if no data arrives within a [`TICK`].
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
