//! One-time-programmable areas of a setup's chip: `floatgate otp`.
//!
//! The state of a device is a text file with all operations on its user area, one step per line ([`Step`]). Before each
//! command it is replayed on a new chip, so that bits stay written, locks stay locked, and programs of a page are
//! counted as on the part.

use crate::Error;
use crate::envelope::{Concluded, Reported};
use crate::show::report::{Cell, Report, Section, Table};
use floatgate_config::{Config, Library};
pub use floatgate_device::OtpArea;
use floatgate_device::{Otp, OtpRegion};
use floatgate_mtd::ErrorKind;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, set};
use floatgate_sim::rig::{self, Rig, RigOptions};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Maximum number of bytes of an OTP area that are read at once. The largest area of the parts has some hundred KiB.
const AREA_BYTES_MAX: u64 = 16 << 20;

/// A change of the user area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `write OFFSET HEX`: writes bytes.
    Write {
        /// Offset in the area, bytes.
        offset: u64,
        /// Bytes to write.
        data: Vec<u8>,
    },
    /// `erase OFFSET LENGTH`: erases a range, if the chip supports it (security registers of SPI NOR).
    Erase {
        /// Offset in the area, bytes.
        offset: u64,
        /// Number of bytes to erase.
        len: u64,
    },
    /// `lock OFFSET LENGTH`: locks a range permanently.
    Lock {
        /// Offset in the area, bytes.
        offset: u64,
        /// Number of bytes to lock.
        len: u64,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { offset, data } => {
                write!(f, "write {offset} ")?;
                data.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Erase { offset, len } => write!(f, "erase {offset} {len}"),
            Self::Lock { offset, len } => write!(f, "lock {offset} {len}"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        match words[..] {
            ["write", offset, hex] => Ok(Self::Write { offset: number(offset)?, data: bytes(hex)? }),
            ["erase", offset, len] => Ok(Self::Erase { offset: number(offset)?, len: number(len)? }),
            ["lock", offset, len] => Ok(Self::Lock { offset: number(offset)?, len: number(len)? }),
            _ => {
                Err("a step is `write OFFSET HEX`, `erase OFFSET LENGTH` or `lock OFFSET LENGTH`".to_owned())
            }
        }
    }
}

/// Parses bytes written as pairs of hexadecimal digits.
///
/// # Errors
/// Description of the error in the text.
pub fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
    match digits {
        Some(digits) if digits.is_empty() => Err("at least one byte is needed".to_owned()),
        Some(digits) if digits.len().is_multiple_of(2) => {
            Ok(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
        }
        Some(_) => Err("an odd number of hexadecimal digits".to_owned()),
        None => Err("bytes are pairs of hexadecimal digits".to_owned()),
    }
}

/// Parses all steps of a state file. Empty lines and lines that begin with `#` are ignored.
///
/// # Errors
/// Number of the wrong line, from 1, and a description of the error.
pub fn parse(text: &str) -> Result<Vec<Step>, Error> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let steps = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let step = |(number, line): (usize, &str)| {
        line.parse().map_err(|what: String| {
            Error::request(
                format!("line {number} of the state: {what}"),
                "a state file holds one step a line",
            )
        })
    };
    steps.map(step).collect()
}

/// A region of an OTP area, as printed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Region {
    /// `user` or `factory`.
    pub area: Cow<'static, str>,
    /// Offset in the area, bytes.
    pub offset: u64,
    /// Length of the region, bytes.
    pub bytes: u64,
    /// True if nothing can be written any more.
    pub locked: bool,
    /// Number of bytes that differ from FFh.
    pub written_bytes: u64,
}

/// Result of `floatgate otp info`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OtpInfo {
    /// Name of the chip.
    pub chip: String,
    /// Regions of both areas.
    pub regions: Vec<Region>,
}

impl Concluded for OtpInfo {
    /// Number of bytes in the user area, and its lock state.
    fn conclusion(&self) -> String {
        let user = || self.regions.iter().filter(|region| region.area == "user");
        let (bytes, written) = user()
            .fold((0, 0), |(bytes, written), region| (bytes + region.bytes, written + region.written_bytes));
        let locked: u64 = user().filter(|region| region.locked).map(|region| region.bytes).sum();
        match (bytes, locked) {
            (0, _) => "The chip has no OTP area for users.".to_owned(),
            (_, 0) => format!("{written} of {bytes} bytes of the user area are written, and none is locked."),
            (_, locked) if locked == bytes => {
                format!("The user area is locked; {written} of its {bytes} bytes are written.")
            }
            (_, locked) => {
                format!("{written} of {bytes} bytes of the user area are written, and {locked} are locked.")
            }
        }
    }
}

impl Reported for OtpInfo {
    const ROWS: &'static str = "regions";

    fn report(&self) -> Report {
        let rows = self.regions.iter().map(|region| {
            let numbers = [region.offset, region.bytes, region.written_bytes].map(Cell::count);
            let locked = if region.locked { "yes" } else { "no" };
            std::iter::once(Cell::from(&*region.area)).chain(numbers).chain([locked.into()]).collect()
        });
        let table = Table::new(&["area"], &["offset", "bytes", "written"], rows).then_words("locked");
        let sections = vec![Section::Table(table)];
        Report { title: self.chip.clone(), sections, ..Report::default() }
    }
}

/// Result of `floatgate otp read`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OtpBytes {
    /// Name of the chip.
    pub chip: String,
    /// `user` or `factory`.
    pub area: String,
    /// Offset in the area, bytes.
    pub offset: u64,
    /// The bytes, as hexadecimal digits.
    pub data: String,
}

/// Data has no conclusion.
impl Concluded for OtpBytes {}

impl Reported for OtpBytes {
    fn report(&self) -> Report {
        let lines = (self.offset..).step_by(LINE_BYTES).zip(self.data.as_bytes().chunks(2 * LINE_BYTES));
        let line = |(at, digits): (u64, &[u8])| {
            let bytes: Vec<_> = digits.chunks(2).map(String::from_utf8_lossy).collect();
            format!("{at:06x}  {}", bytes.join(" "))
        };
        Report { sections: vec![Section::Text(lines.map(line).collect())], ..Report::default() }
    }
}

/// Number of bytes in a line of text.
const LINE_BYTES: usize = 16;

/// Step that the chip has accepted: result of `floatgate otp write`, `erase` and `lock`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OtpStep {
    /// Name of the chip.
    pub chip: String,
    /// The step, as in the state file.
    pub step: String,
}

/// A single line has no conclusion.
impl Concluded for OtpStep {}

impl Reported for OtpStep {
    fn report(&self) -> Report {
        Report { title: format!("{}: {}", self.chip, self.step), ..Report::default() }
    }
}

/// Chip of a setup, with the state of its OTP areas.
pub struct Device {
    rig: Rig,
}

impl Device {
    /// Builds the setup, and replays `steps` on the new chip.
    ///
    /// # Errors
    /// Errors of the setup; the chip has no OTP area; a step fails.
    pub fn open(
        library: &Library,
        config: &Config,
        options: RigOptions,
        steps: &[Step],
    ) -> Result<Self, Error> {
        let rig = rig::wire(library, config, options)?;
        let mut device = Self { rig };
        device.areas()?;
        for (number, step) in (1..).zip(steps) {
            device.run(step).map_err(|error| error.within(format!("step {number} of the state")))?;
        }
        Ok(device)
    }

    /// OTP areas of the chip.
    fn areas(&mut self) -> Result<&mut dyn Otp, Error> {
        let Rig { device, chip, .. } = &mut self.rig;
        device.otp().ok_or_else(|| {
            Error::request(
                format!("{chip} has no OTP area, or none that its driver can use"),
                advice! { "set another chip: ", set("chip", "NAME") },
            )
        })
    }

    /// Name of the chip.
    pub fn chip(&self) -> &str {
        &self.rig.chip
    }

    /// Executes one step.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn run(&mut self, step: &Step) -> Result<(), Error> {
        let now = self.rig.now();
        let areas = self.areas()?;
        let done = match step {
            Step::Write { offset, data } => areas.otp_write(now, *offset, data),
            Step::Erase { offset, len } => areas.otp_erase(now, *offset, *len),
            Step::Lock { offset, len } => areas.otp_lock(now, *offset, *len),
        };
        done.map(|_| ()).map_err(failed(format!("otp: {}", name(step))))
    }

    /// All regions of both areas.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn regions(&mut self) -> Result<Vec<Region>, Error> {
        let mut all = Vec::new();
        for (name, area) in AREAS {
            for index in 0..self.areas()?.otp_regions(area) {
                let now = self.rig.now();
                let (region, _) = self.areas()?.otp_info(now, area, index).map_err(failed("otp info"))?;
                all.push(self.region(name, area, &region)?);
            }
        }
        Ok(all)
    }

    fn region(&mut self, name: &'static str, area: OtpArea, region: &OtpRegion) -> Result<Region, Error> {
        let data = self.read(area, region.start, Some(region.len))?;
        let written_bytes = data.iter().filter(|byte| **byte != 0xFF).count() as u64;
        Ok(Region {
            area: name.into(),
            offset: region.start,
            bytes: region.len,
            locked: region.locked,
            written_bytes,
        })
    }

    /// Reads `len` bytes of an area, or all that follow.
    ///
    /// # Errors
    /// Errors of the device; an offset beyond the end.
    pub fn read(&mut self, area: OtpArea, offset: u64, len: Option<u64>) -> Result<Vec<u8>, Error> {
        let end = self.end(area)?;
        let len = len.unwrap_or_else(|| end.saturating_sub(offset));
        let reaches = offset.checked_add(len).is_none_or(|last| last > end);
        let now = self.rig.now();
        if reaches || len > AREA_BYTES_MAX {
            let error = ErrorKind::OutOfRange { len, size: end }.at(offset, now);
            return Err(failed("otp read")(error));
        }
        let mut data = vec![0; len as usize];
        self.areas()?.otp_read(now, area, offset, &mut data).map_err(failed("otp read"))?;
        Ok(data)
    }

    /// End offset of an area, bytes.
    fn end(&mut self, area: OtpArea) -> Result<u64, Error> {
        let mut end = 0;
        for index in 0..self.areas()?.otp_regions(area) {
            let now = self.rig.now();
            let (region, _) = self.areas()?.otp_info(now, area, index).map_err(failed("otp info"))?;
            end = end.max(region.start.saturating_add(region.len));
        }
        Ok(end)
    }
}

const AREAS: [(&str, OtpArea); 2] = [("user", OtpArea::User), ("factory", OtpArea::Factory)];

fn name(step: &Step) -> &'static str {
    match step {
        Step::Write { .. } => "write",
        Step::Erase { .. } => "erase",
        Step::Lock { .. } => "lock",
    }
}

/// Converts the failure of an operation on an OTP area.
fn failed(what: impl std::fmt::Display) -> impl FnOnce(floatgate_mtd::Error) -> Error {
    move |error| {
        match error.kind {
            // An operation that the chip does not support fails at every offset.
            ErrorKind::Unsupported(_) => Error::request(
                format!("{what}: {}", error.kind),
                advice! { "take another chip: ", Command::OtpInfo, " shows which areas one has" },
            ),
            _ => Error::request(
                format!("{what}: {error}"),
                advice! { Command::OtpInfo, " shows the regions of the chip with their sizes and locks" },
            ),
        }
    }
}
