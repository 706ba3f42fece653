//! `floatgate otp`.

use crate::common::{self, Failure, Named, Outcome, SetupArgs};
use crate::output::ReportFormat;
use floatgate_host::Lock;
use floatgate_host::output::Output;
use floatgate_image::ImageError;
use floatgate_lab::otp::{self, Device, OtpArea, OtpBytes, OtpInfo, OtpStep, Region, Step};
use floatgate_lab::report::ResultKind;
use floatgate_mtd::advice::Help;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate otp info ma35d1-w25n02jw
  floatgate otp info stm32-n25q128a --json
  floatgate otp write stm32-n25q128a --state keys.otp --offset 0 00112233
  floatgate otp lock stm32-n25q128a --state keys.otp
  floatgate otp read stm32-n25q128a --state keys.otp --length 16

The state file lists the earlier changes of the area, one step per line (`write 0 00112233`, `lock 0 64`, `erase 256 256`). Each command first repeats these steps \
on a new chip. The commands write, erase and lock then add their own step, if the step succeeds. A state file can also be written by hand, as a script.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the regions of both areas: sizes, locks, bytes written
    Info(Info),
    /// Read bytes of an area, as hexadecimal digits
    Read(Read),
    /// Write to the user area; a write changes bits only from 1 to 0
    Write(Write),
    /// Erase regions of the user area, on chips that support it
    #[command(
        after_help = "Examples:\n  floatgate otp erase nor-serialised --set chip=w25q128jv --state keys.otp --offset 256 --length 256"
    )]
    Erase(Change),
    /// Lock the user area permanently
    #[command(
        after_help = "Examples:\n  floatgate otp lock stm32-n25q128a --state keys.otp\n  floatgate otp lock stm32-n25q128a --state keys.otp --offset 0 --length 64"
    )]
    Lock(Change),
}

#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    setup: SetupArgs,

    /// File with the earlier changes of this device; each change adds its step to the file
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate otp info ma35d1-w25n02jw
  floatgate otp info stm32-n25q128a --json")]
struct Info {
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate otp read stm32-n25q128a --state keys.otp --length 16
  floatgate otp read ma35d1-w25n02jw --factory")]
struct Read {
    #[command(flatten)]
    common: Common,

    /// Read the factory area (such as unique ids) instead of the user area
    #[arg(long)]
    factory: bool,

    /// First byte in the area
    #[arg(long, default_value_t = 0)]
    offset: u64,

    /// Number of bytes [default: to the end]
    #[arg(long)]
    length: Option<u64>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate otp write stm32-n25q128a --state keys.otp --offset 0 00112233")]
struct Write {
    #[command(flatten)]
    common: Common,

    /// First byte in the area
    #[arg(long, default_value_t = 0)]
    offset: u64,

    /// Bytes to write, as hexadecimal digits
    hex: String,
}

#[derive(clap::Args)]
struct Change {
    #[command(flatten)]
    common: Common,

    /// First byte in the area
    #[arg(long, default_value_t = 0)]
    offset: u64,

    /// Number of bytes [default: the whole user area]
    #[arg(long)]
    length: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Info(args) => info(args),
        Command::Read(args) => read(args),
        Command::Write(args) => {
            let data = otp::bytes(&args.hex)
                .map_err(|what| Failure::new(what, "write bytes as in 00112233, two digits each"))?;
            args.common.change(|_| Ok(Step::Write { offset: args.offset, data }))
        }
        Command::Erase(args) => {
            args.common.change(|device| Ok(Step::Erase { offset: args.offset, len: args.len(device)? }))
        }
        Command::Lock(args) => {
            args.common.change(|device| Ok(Step::Lock { offset: args.offset, len: args.len(device)? }))
        }
    }
}

/// Size of the largest state file, bytes. The steps that write each byte of an area of 64 KiB twice, one byte per step,
/// take a quarter of this size.
const STATE_BYTES_MAX: u64 = 1 << 20;

impl Common {
    /// Earlier changes of the area. With `begins`, a missing file is a state without changes.
    fn steps(&self, begins: bool) -> Result<Vec<Step>, Failure> {
        let Some(path) = &self.state else { return Ok(Vec::new()) };
        match path.try_exists() {
            Ok(false) if begins => Ok(Vec::new()),
            Ok(false) => Err(Failure::new(
                format!("{}: there is no such state", path.display()),
                "name the file that write, erase or lock made with --state; a new chip is read without --state",
            )),
            _ => Ok(otp::parse(&common::read_text(
                path,
                STATE_BYTES_MAX,
                "name a text file with one step a line",
            )?)?),
        }
    }

    /// Opens the chip with its setup.
    fn open(&self, steps: &[Step]) -> Result<(Device, Named), Failure> {
        let named = self.setup.open()?;
        Ok((Device::open(&named.library, &named.config()?, named.options, steps)?, named))
    }

    /// Executes a step, and adds it to the state after the chip accepted it. If two processes do this at the same
    /// time, one of them is refused.
    fn change(&self, step: impl FnOnce(&mut Device) -> Result<Step, Failure>) -> Outcome {
        let Some(path) = self.state.as_deref().filter(|path| can_lock(path)) else {
            return self.change_unlocked(step, common::write_file);
        };
        let failed = |error: ImageError| Failure::new(format!("{}: {error}", path.display()), error.help());
        // A new state starts as an empty file, so that two processes that start it at the same time see each other.
        let begins = File::options().write(true).create_new(true).open(path).is_ok();
        let _lock = Lock::new(path, true).map_err(|error| failed(error.into()))?;
        let outcome = self.change_unlocked(step, |path, text| {
            let mut output = Output::replace(path)?;
            output.write_all(text.as_bytes()).map_err(|error| output.failed(error))?;
            common::finish(output)
        });
        // Only an empty new file is removed: if just the report of a step cannot be printed, the step is still done.
        if begins && std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
            let _ = std::fs::remove_file(path);
        }
        outcome
    }

    fn change_unlocked(
        &self,
        step: impl FnOnce(&mut Device) -> Result<Step, Failure>,
        write: impl FnOnce(&Path, &str) -> Result<(), Failure>,
    ) -> Outcome {
        let earlier = self.steps(true)?;
        let (mut device, named) = self.open(&earlier)?;
        let step = step(&mut device)?;
        device.run(&step)?;
        if let Some(path) = &self.state {
            let steps: Vec<String> = earlier.iter().chain([&step]).map(|step| format!("{step}\n")).collect();
            write(path, &steps.concat())?;
        }
        let done = OtpStep { chip: device.chip().to_owned(), step: step.to_string() };
        self.format.finish_report(&named.origin(ResultKind::OtpWrite), &done)
    }
}

/// True for a state that can be locked: a regular file, or a name without a file.
fn can_lock(path: &Path) -> bool {
    std::fs::metadata(path).map_or_else(|_| !path.is_symlink(), |metadata| metadata.is_file())
}

impl Change {
    fn len(&self, device: &mut Device) -> Result<u64, Failure> {
        let user = |region: &Region| region.area == "user";
        let end = |region: &Region| region.offset + region.bytes;
        let regions = device.regions()?;
        let last = regions.iter().filter(|region| user(region)).map(end).max().unwrap_or(0);
        Ok(self.length.unwrap_or_else(|| last.saturating_sub(self.offset)))
    }
}

fn info(args: &Info) -> Outcome {
    let (mut device, named) = args.common.open(&args.common.steps(false)?)?;
    let found = OtpInfo { chip: device.chip().to_owned(), regions: device.regions()? };
    args.common.format.finish_report(&named.origin(ResultKind::OtpInfo), &found)
}

fn read(args: &Read) -> Outcome {
    let area = if args.factory { OtpArea::Factory } else { OtpArea::User };
    let (mut device, named) = args.common.open(&args.common.steps(false)?)?;
    let data = device.read(area, args.offset, args.length)?;
    let read = OtpBytes {
        chip: device.chip().to_owned(),
        area: if args.factory { "factory" } else { "user" }.to_owned(),
        offset: args.offset,
        data: data.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    args.common.format.finish_report(&named.origin(ResultKind::OtpRead), &read)
}
