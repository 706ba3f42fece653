//! `floatgate serve TARGET --module`.

use super::{Args, ViolationRow, conclusion, hex, is_readable, time, violation_rows, violations_text};
use crate::common::{Failure, Outcome, grouped, grouped_count};
use crate::table::Table;
use crate::terminal::print_note;

use floatgate_host::signals::Ending;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_sim::linux_bus::{Chosen, Direction, Driver, Form, LinuxBus, REQUEST_MAX};
use floatgate_sim::rig;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Report about the operations that the kernel sent: their number, their time on the chip, and their violations of
/// the chip's rules.
#[derive(Serialize)]
struct Report {
    chip: String,
    mtd: Option<u32>,
    commands: u64,
    operations: u64,
    time_us: f64,
    wire_us: f64,
    power_cut: bool,
    chosen: Vec<ChosenRow>,
    violation_count: u64,
    violations: Vec<ViolationRow>,
}

/// An operation that the kernel chose.
#[derive(Serialize)]
struct ChosenRow {
    command: String,
    mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    addr_bytes: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dummy_cycles: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mapped: Option<bool>,
    count: u64,
    bytes: u64,
}

impl From<&Chosen> for ChosenRow {
    fn from(chosen: &Chosen) -> Self {
        let Chosen { form, count, bytes } = chosen;
        let row = |command: &[u8], mode: String| Self {
            command: hex(command),
            mode,
            name: None,
            addr_bytes: None,
            dummy_cycles: None,
            data: None,
            mapped: None,
            count: *count,
            bytes: *bytes,
        };
        match form {
            Form::Nand { commands, interface } => row(commands, interface.to_string()),
            Form::Spi { opcode, name, mode, addr_bytes, dummy_cycles, dir, mapped } => Self {
                name: Some(name),
                addr_bytes: Some(*addr_bytes),
                dummy_cycles: Some(*dummy_cycles),
                data: Some(match dir {
                    Direction::None => "none",
                    Direction::In => "in",
                    Direction::Out => "out",
                }),
                mapped: Some(*mapped),
                ..row(&[*opcode], mode.to_string())
            },
        }
    }
}

impl Concluded for Report {
    fn conclusion(&self) -> String {
        conclusion(&self.chip, self.commands, self.violation_count)
    }
}

impl Report {
    fn new(chip: &str, bus: &LinuxBus) -> Self {
        let mtd = match bus.driver() {
            Driver::Attached(number) => Some(number),
            Driver::Probing | Driver::Missing => None,
        };
        Self {
            chip: chip.to_owned(),
            mtd,
            commands: bus.operations(),
            operations: bus.changes(),
            time_us: bus.done_at().as_ns() as f64 / 1e3,
            wire_us: bus.on_wires().as_us_f64(),
            power_cut: bus.is_dead(),
            chosen: bus.chosen().iter().map(ChosenRow::from).collect(),
            violation_count: bus.violations().count(),
            violations: violation_rows(bus.violations()),
        }
    }

    fn text(&self) -> String {
        let commands = grouped_count(self.commands, "operation");
        let [whole, wires] = [self.time_us, self.wire_us].map(time);
        let mut text = format!(
            "{}: {commands}; programs, erases and register writes: {}\ntime on the real chip: {whole}, of it on the wires: {wires}\n",
            self.chip,
            grouped(self.operations)
        );
        if self.mtd.is_none() {
            text += "no driver of the kernel took the chip\n";
        }
        if self.power_cut {
            text += "power was cut as ordered\n";
        }
        if !self.chosen.is_empty() {
            text += &format!("{}\n", self.table());
        }
        text + &violations_text(self.violation_count, &self.violations)
    }

    fn table(&self) -> Table {
        let number = |value: Option<u8>| value.map_or_else(String::new, |value| value.to_string());
        let header = ["command", "mode", "address bytes", "dummy cycles", "count", "data bytes", "name"];
        let mut table = Table::new(header).numbers(2..6).optional([6]);
        for row in &self.chosen {
            let name = match (row.name, row.mapped) {
                (Some(name), Some(true)) => format!("{name}, direct mapping"),
                (name, _) => name.unwrap_or_default().to_owned(),
            };
            table.row([
                row.command.clone(),
                row.mode.clone(),
                number(row.addr_bytes),
                number(row.dummy_cycles),
                grouped(row.count),
                grouped(row.bytes),
                name,
            ]);
        }
        table
    }
}

pub(super) fn run(args: &Args, path: &Path) -> Outcome {
    let named = args.setup.open()?;
    let config = named.config()?;
    let mut bus = rig::linux_bus(&config, named.options)?;
    let mut state = args.prepare(&mut bus)?;
    let device = open(path)?;
    let chip = &config.part().name;
    let served = Server { bus: &mut bus, device, path, chip }.serve();
    let saved = state.as_mut().map_or(Ok(()), |state| state.save(&bus).and_then(|()| state.finish()));
    served?;
    // The report is also printed if the contents cannot be saved.
    let report = Report::new(chip, &bus);
    args.format.print(&named.origin(ResultKind::ServeModule), &report, "chosen", || report.text())?;
    saved.map(|()| std::process::ExitCode::SUCCESS)
}

/// Major number of Linux's miscellaneous devices, to which the module's device belongs.
const MISC_MAJOR: u32 = 10;

/// Opens the module's device, or connects to a program that replaces the kernel.
fn open(path: &Path) -> Result<File, Failure> {
    let refused = |error: &dyn std::fmt::Display| {
        let help = "load the module of hosts/linux-module (insmod floatgate.ko), and run as root";
        Failure::new(format!("{}: {error}", path.display()), help)
    };
    let metadata = std::fs::metadata(path).map_err(|error| refused(&error))?;
    if metadata.file_type().is_socket() {
        let help = "a program that plays the kernel listens on a Unix socket of type SOCK_SEQPACKET";
        return connect(path).map_err(|error| Failure::new(format!("{}: {error}", path.display()), help));
    }
    let is_misc = rustix::fs::major(metadata.rdev()) == MISC_MAJOR;
    if !metadata.file_type().is_char_device() || !is_misc {
        return Err(refused(&"not a device of the kernel module"));
    }
    OpenOptions::new().read(true).write(true).open(path).map_err(|error| refused(&error))
}

fn connect(path: &Path) -> io::Result<File> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// The chip, and the connection to the kernel.
struct Server<'a> {
    bus: &'a mut LinuxBus,
    device: File,
    path: &'a Path,
    chip: &'a str,
}

impl Server<'_> {
    /// Answers requests until a signal arrives, power fails, or the other side disconnects.
    fn serve(&mut self) -> Result<(), Failure> {
        let ending = Ending::new();
        let config = self.bus.config();
        self.device.write_all(&config).map_err(|error| self.failed(error))?;
        print_note(&format!("{} is on the bus of {}: Ctrl-C ends it", self.chip, self.path.display()));
        let mut request = vec![0; REQUEST_MAX];
        while !ending.is_asked() && !self.bus.is_dead() {
            match self.receive(&mut request) {
                Ok(Some(0)) => break,
                Ok(Some(length)) => self.answer(&request[..length])?,
                Ok(None) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Next request; `None` if none has arrived yet.
    fn receive(&mut self, request: &mut [u8]) -> io::Result<Option<usize>> {
        let received = match is_readable(&self.device) {
            Ok(true) => self.device.read(request).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        match received {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            received => received,
        }
    }

    fn answer(&mut self, request: &[u8]) -> Result<(), Failure> {
        let before = self.bus.driver();
        let answer = self.bus.answer(request).map_err(|error| {
            let help = "build the module from the sources of this version of floatgate";
            Failure::new(format!("{}: {error}", self.path.display()), help)
        })?;
        match self.device.write_all(&answer) {
            // The caller no longer waits for the answer: it was killed, or the module's time limit has passed.
            Err(error) if error.raw_os_error() == Some(ESTALE) => {}
            sent => sent.map_err(|error| self.failed(error))?,
        }
        if self.bus.driver() != before {
            self.print_driver();
        }
        Ok(())
    }

    fn print_driver(&self) {
        match self.bus.driver() {
            Driver::Attached(number) => print_note(&format!("{} is /dev/mtd{number}", self.chip)),
            Driver::Missing => print_note(&format!(
                "no driver of the kernel has taken {}: load {}, and see dmesg",
                self.chip,
                self.bus.driver_name()
            )),
            Driver::Probing => {}
        }
    }

    fn failed(&self, error: io::Error) -> Failure {
        let help = "check that it is the device of the kernel module in hosts/linux-module, of the same version as floatgate";
        Failure::new(format!("{}: {error}", self.path.display()), help)
    }
}

/// Linux's error number for an answer that arrives too late.
const ESTALE: i32 = 116;
