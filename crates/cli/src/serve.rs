//! `floatgate serve TARGET`: a simulated chip for drivers and tools of other projects.

mod module;
mod serprog;

use crate::common::{Failure, Outcome, SetupArgs, grouped_count};
use crate::output::{ReportFormat, bug};
use floatgate_host::output::{Output, write_file};
use floatgate_host::{Lock, LockError};
use floatgate_mtd::Nanos;
use floatgate_sim::socket::{Socket, ViolationLog};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;
use serprog::Endpoint;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("client").required(true).args(["serprog", "module"])), after_help = "Examples:
  floatgate serve w25q128jv --serprog 4000
  flashrom -p serprog:ip=127.0.0.1:4000 -w image.bin
  floatgate serve w25q128jv --serprog 4000 --state chip.bin --once --json
  floatgate serve mx25l25645g --serprog 4000 --cut-power 100
  floatgate serve w25q64jv --serprog 4000 --wp-low
  floatgate serve s29gl128p --serprog 4000
  floatgate serve w25q128jv --serprog - < requests > answers
  floatgate serve w25n01gv --module --state dump.nand
  floatgate serve w25n01gv --module --state dump.nand --flip 0x20800.3 --bad 0x40000

serve runs in the foreground; Ctrl-C ends it. It then prints the time that the real chip would have taken, and the violations: commands that the chip does not \
have, or that came at a time when they are not allowed. The simulated chip ignores such commands or answers FFh, as silicon does.

With --serprog, the server acts as a programmer with a SPI NOR, or a parallel NOR on eight data lines, in its socket. If PORT has no host, the server listens on \
the loopback interface; port 0 chooses a free port. Clients are served one after the other. With `--serprog -` it serves one client on stdin and stdout, and \
prints the report on stderr.

With --module, a SPI NOR, SPI NAND or raw NAND becomes an MTD device of the running Linux kernel, through the kernel module in hosts/linux-module. The kernel's \
own drivers detect and drive it. The controller of the setup sets the possible lanes, rates, lengths and clocks; the report lists the operations that the kernel \
chose. If DEVICE is a Unix socket (SOCK_SEQPACKET), a program behind it takes the place of the kernel.

The file of --state is read at the start, if it exists. For a NOR it is an image of the chip, or a file that serve wrote, which has the registers and the OTP \
area behind the image. For a NAND it is a dump of all pages with OOB. With --serprog, the whole file is replaced whenever a client disconnects, and every 5 s \
while a client writes. With --module, it is replaced at the end. A server that is killed leaves the file as it was last replaced.")]
pub(crate) struct Args {
    #[command(flatten)]
    setup: SetupArgs,

    /// Serve a SPI NOR or a parallel NOR to flashrom on this TCP port; - is stdin and stdout
    #[arg(long, value_name = "[HOST:]PORT")]
    serprog: Option<Endpoint>,

    /// Serve a SPI NOR, SPI NAND or raw NAND to the kernel's own drivers through its module [default device: /dev/floatgate]
    #[arg(long, value_name = "DEVICE", num_args = 0..=1, require_equals = true, default_missing_value = "/dev/floatgate")]
    module: Option<PathBuf>,

    /// Keep the contents of the chip in this file between runs
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// End after the first client
    #[arg(long, conflicts_with = "module")]
    once: bool,

    /// Cut the power in the middle of this program or erase, counted from 1. With --serprog the client is disconnected, and the next client finds the power restored. With --module the chip is gone
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=u64::MAX))]
    cut_power: Option<u64>,

    /// Let programs and erases of the block at this address fail (repeatable)
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    bad: Vec<u64>,

    /// Let a bit of a NOR always read the same value (repeatable): --stuck 0x1000.3=0
    #[arg(long, value_name = "ADDRESS.BIT=0|1")]
    stuck: Vec<Stuck>,

    /// Invert a bit until its block is erased (repeatable): --flip 0x1000.3
    #[arg(long, value_name = "ADDRESS.BIT")]
    flip: Vec<Bit>,

    /// Hold the pin WP# of a SPI NOR low. After the bit SRP (SRWD) is set, its status registers then cannot be written
    #[arg(long)]
    wp_low: bool,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match (&args.serprog, &args.module) {
        (Some(endpoint), _) => serprog::run(args, endpoint),
        (None, Some(device)) => module::run(args, device),
        // Clap requires one of both options.
        (None, None) => Err(bug("serve without a client")),
    }
}

/// Parser of a number in decimal, or in hexadecimal after 0x.
fn address(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "write an address in decimal, or in hexadecimal behind 0x".to_owned())
}

/// A bit in a byte of the chip.
#[derive(Clone, Copy)]
struct Bit {
    address: u64,
    bit: u8,
}

impl FromStr for Bit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write ADDRESS.BIT with a bit from 0 to 7".to_owned();
        let (at, bit) = text.split_once('.').ok_or_else(wrong)?;
        let bit = bit.parse().ok().filter(|bit| *bit < 8).ok_or_else(wrong)?;
        Ok(Self { address: address(at)?, bit })
    }
}

/// A bit that always reads as the same value.
#[derive(Clone, Copy)]
struct Stuck {
    at: Bit,
    value: bool,
}

impl FromStr for Stuck {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write ADDRESS.BIT=VALUE with a bit from 0 to 7 and a value of 0 or 1".to_owned();
        let (at, value) = text.split_once('=').ok_or_else(wrong)?;
        match value {
            "0" | "1" => Ok(Self { at: at.parse().map_err(|_: String| wrong())?, value: value == "1" }),
            _ => Err(wrong()),
        }
    }
}

/// All violations of one rule.
#[derive(Serialize)]
struct ViolationRow {
    rule: String,
    count: u64,
    first_us: f64,
    first_bytes: String,
}

/// Violated rules, each with its first violation.
fn violation_rows(log: &ViolationLog) -> Vec<ViolationRow> {
    let mut rows: Vec<ViolationRow> = Vec::new();
    for one in log.recorded() {
        let rule = one.rule.to_string();
        match rows.iter_mut().find(|row| row.rule == rule) {
            Some(row) => row.count += 1,
            None => rows.push(ViolationRow {
                rule,
                count: 1,
                first_us: one.at.as_ns() as f64 / 1e3,
                first_bytes: hex(&one.bytes),
            }),
        }
    }
    rows
}

/// Conclusion of a report: the number of commands, and whether they broke a rule of the chip.
fn conclusion(chip: &str, commands: u64, violations: u64) -> String {
    let commands = grouped_count(commands, "command");
    match violations {
        0 => format!("{chip}: {commands}, no rule of the chip was broken."),
        _ => format!("{chip}: {commands}, {}.", grouped_count(violations, "violation")),
    }
}

fn violations_text(count: u64, rows: &[ViolationRow]) -> String {
    let mut text = format!("{}\n", grouped_count(count, "violation"));
    for row in rows {
        let at = time(row.first_us);
        text += &format!("  {} x {}; first after {at}: {}\n", row.count, row.rule, row.first_bytes);
    }
    text
}

/// Converts a time in us; its text has a suitable unit.
fn time(us: f64) -> Nanos {
    Nanos::from_ns((us * 1e3).round() as u64)
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

impl Args {
    /// Loads the contents of a chip, and adds the defects that the options state.
    fn prepare(&self, chip: &mut impl Socket) -> Result<Option<State>, Failure> {
        self.check(chip.size())?;
        for Stuck { at, value } in &self.stuck {
            if !chip.stick(at.address, at.bit, *value) {
                return Err(Failure::new(
                    "--stuck: only a SPI NOR has stuck bits",
                    "invert a bit of it: --flip ADDRESS.BIT",
                ));
            }
        }
        if self.wp_low && !chip.set_wp_low() {
            return Err(Failure::new(
                "--wp-low: only a SPI NOR has status registers that WP# locks",
                "leave the option out",
            ));
        }
        let state = self.state.as_deref().map(|path| State::open(path, chip)).transpose()?;
        self.bad.iter().for_each(|address| chip.break_block(*address));
        self.flip.iter().for_each(|at| chip.flip(at.address, at.bit));
        if let Some(operation) = self.cut_power {
            chip.cut_power(operation);
        }
        Ok(state)
    }

    /// Refuses addresses beyond the end of the chip.
    fn check(&self, size: u64) -> Result<(), Failure> {
        let bits = self.stuck.iter().map(|stuck| &stuck.at).chain(&self.flip).map(|at| at.address);
        match self.bad.iter().copied().chain(bits).find(|address| *address >= size) {
            Some(beyond) => {
                let message = format!("{beyond:#x} is beyond the end of the chip");
                Err(Failure::new(message, format!("the chip ends at {size:#x}")))
            }
            None => Ok(()),
        }
    }
}

/// File with the contents of a chip, locked against other servers.
struct State {
    path: PathBuf,
    saved: Vec<u8>,
    /// Lock on the file.
    lock: Option<Lock>,
    /// Thread that replaces the file, so that a client need not wait while a large file is written.
    replacement: Option<JoinHandle<Result<Lock, Failure>>>,
}

impl Drop for State {
    /// Waits for the replacement, whose result [`State::finish`] returns.
    fn drop(&mut self) {
        drop(self.finish());
    }
}

impl State {
    /// Reads the file, or creates it.
    fn open(path: &Path, chip: &mut impl Socket) -> Result<Self, Failure> {
        let refused =
            |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()), STATE_HELP);
        if !path.exists() {
            write_file(path, &chip.contents())?;
        }
        let lock = lock(path)?;
        let mut saved = Vec::new();
        // Limit of one byte more than the chip's size, so that an endless file is refused.
        let most = chip.contents().len() as u64 + 1;
        let file = floatgate_host::open::open_file(path, false).map_err(|error| refused(&error))?;
        file.take(most).read_to_end(&mut saved).map_err(|error| refused(&error))?;
        chip.set_contents(&saved).map_err(|error| refused(&error))?;
        Ok(Self { path: path.to_owned(), saved, lock: Some(lock), replacement: None })
    }

    /// Starts to replace the file if the contents have changed, after the end of an earlier replacement.
    fn save(&mut self, chip: &impl Socket) -> Result<(), Failure> {
        self.finish()?;
        let contents = chip.contents();
        if contents == self.saved {
            return Ok(());
        }
        self.saved.clone_from(&contents);
        let path = self.path.clone();
        self.replacement = Some(thread::spawn(move || replace(&path, &contents)));
        Ok(())
    }

    /// Waits until the file is replaced.
    fn finish(&mut self) -> Result<(), Failure> {
        if let Some(replacement) = self.replacement.take() {
            self.lock = Some(replacement.join().unwrap_or_else(|_| Err(bug("saving the state")))?);
        }
        Ok(())
    }
}

/// Replaces a file, and locks the new file.
fn replace(path: &Path, contents: &[u8]) -> Result<Lock, Failure> {
    let mut output = Output::replace(path)?;
    output.write_all(contents).map_err(|error| output.failed(error))?;
    output.finish()?;
    lock(path)
}

const STATE_HELP: &str = "name a file that --state wrote for this chip, an image of its size, or a new file";

fn lock(path: &Path) -> Result<Lock, Failure> {
    let help = |error: &LockError| match error {
        LockError::InUse => "end the other one, or name another file",
        LockError::Host(_) => STATE_HELP,
    };
    Lock::new(path, true).map_err(|error| Failure::new(format!("{}: {error}", path.display()), help(&error)))
}

/// Interval at which a wait checks for signals.
const TICK: Duration = Duration::from_millis(100);

/// True if the source becomes readable within a tick.
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
        assert_eq!((stuck.at.address, stuck.at.bit, stuck.value), (0x1000, 7, true));
        for wrong in ["", "0x", "1.8=0", "1.0=2", "1.0", "1=0", "-1.0=0"] {
            assert!(wrong.parse::<Stuck>().is_err(), "{wrong}");
        }
        for wrong in ["", "1", "1.8", "x.0"] {
            assert!(wrong.parse::<Bit>().is_err(), "{wrong}");
        }
        assert!(matches!("-".parse(), Ok(Endpoint::Stdio)));
        for wrong in ["", "70000", "localhost", "localhost:x"] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
