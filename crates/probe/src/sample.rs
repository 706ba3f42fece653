//! Samples of a probe: all requests in order, and their file format.

use crate::analysis::period::KeptFit;
use std::fmt::Write as _;

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 512;

/// Maximum number of allocation units that are written round robin: more than the 24 of a Samsung Pro (Chubb 2015).
pub(crate) const AUS_MOST: u64 = 32;
/// Length of a round-robin write, B: the largest page of a card, so that only whole pages are written.
pub(crate) const TURN_BYTES: u64 = 128 << 10;

/// Test that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// Repeated reads of the same positions.
    Noise,
    /// Positions read twice; `found` is a hash of the data.
    Again,
    /// Reads before, on and after the position `about`.
    Border,
    /// Reads before, on and after the position `about`, which is a multiple of a length below usual allocation units.
    SmallBorder,
    /// Adjacent reads without gaps; `about` is the end of each.
    Scan,
    /// Two halves of the range that ends at `about`; one of them contains a border.
    Bisect,
    /// Small reads before, on and after the position `about`.
    Page,
    /// Small reads before, on and after the position `about`, in a range that the probe wrote.
    PageWritten,
    /// The sector before the position `about`, and the one after it.
    PagePair,
    /// The sector before the position `about` and the one after it, in a range that the probe wrote.
    PagePairWritten,
    /// Long reads in order.
    Throughput,
    /// Writes after a pause; `about` is the number of the pause.
    Burst,
    /// Sectors written to `about` pages alternately, each after the previous one in its page.
    Scatter,
    /// Writes in order over a long range.
    Fill,
    /// Sequential writes that are flushed one by one.
    Through,
    /// Writes in order over the same range again.
    Refill,
    /// A sector written to test whether it is in the allocation unit whose data ends with the sector at `about`.
    Inside,
    /// Sectors of other allocation units, written to close the unit opened by `Inside`.
    Close,
    /// Two sectors in one or two allocation units, and sectors of others that close them; `about` is the number of the
    /// pass.
    Pair,
    /// Few allocation units behind a cache written round robin, each backwards; `about` is the number of the pass.
    TurnRandom,
    /// Allocation units of the FAT area, written again after others.
    TurnFat,
    /// Writes to a loop that stays in a cache, and single sectors in place of queries; `about` is the number of the
    /// pass.
    Loop,
    /// Writes that bring the card into a state before a test.
    WarmUp,
    /// Sequential writes that flush earlier data out of a cache.
    Push,
    /// `about` allocation units written round robin, each in order. Behind a cache: the unit that is rewritten after
    /// `about` - 1 others.
    OpenLinear,
    /// `about` allocation units written round robin, each in random order.
    OpenRandom,
    /// Allocation units written like in `OpenLinear`, one more than can be open; the additional one is allocation unit
    /// `about`.
    Fat,
    /// Allocation unit `about` written in order.
    FatSpeed,
    /// Small random writes; `about` is the number of the round.
    Random,
    /// Whole allocation units, or parts of a large one, written in order; `about` is the number of the unit.
    RecordUnit,
    /// Allocation units written in order, without every second record unit.
    Fragmented,
    /// Small random reads in the range that the probe wrote in order.
    AppRead,
    /// Small random writes in the range that the probe wrote in order.
    AppWrite,
    /// Sectors with their own address written over the end of the device, and read back.
    TagEnd,
    /// Sectors below the end, read in search of addresses written to the end.
    TagScan,
    /// Sectors with their own address, read after overrunning a cache.
    TagSection,
    /// The first sector that does not exist, read after a write to the last one.
    TagBeyond,
    /// The last sector, read after it was written.
    TagLast,
    /// Pieces that were written, read the `about`th time; `found` is the number of sectors with other data.
    Verify,
}

/// Names of the tests in files.
const NAMES: [(Test, &str); 39] = [
    (Test::Noise, "noise"),
    (Test::Again, "again"),
    (Test::Border, "border"),
    (Test::SmallBorder, "small-border"),
    (Test::Scan, "scan"),
    (Test::Bisect, "bisect"),
    (Test::Page, "page"),
    (Test::PageWritten, "page-written"),
    (Test::PagePair, "page-pair"),
    (Test::PagePairWritten, "page-pair-written"),
    (Test::Throughput, "throughput"),
    (Test::Burst, "burst"),
    (Test::Scatter, "scatter"),
    (Test::Fill, "fill"),
    (Test::Through, "through"),
    (Test::Refill, "refill"),
    (Test::Inside, "inside"),
    (Test::Close, "close"),
    (Test::Pair, "pair"),
    (Test::TurnRandom, "turn-random"),
    (Test::TurnFat, "turn-fat"),
    (Test::Loop, "loop"),
    (Test::WarmUp, "warm-up"),
    (Test::Push, "push"),
    (Test::OpenLinear, "open-linear"),
    (Test::OpenRandom, "open-random"),
    (Test::Fat, "fat"),
    (Test::FatSpeed, "fat-speed"),
    (Test::Random, "random"),
    (Test::RecordUnit, "record-unit"),
    (Test::Fragmented, "fragmented"),
    (Test::AppRead, "app-read"),
    (Test::AppWrite, "app-write"),
    (Test::TagEnd, "tag-end"),
    (Test::TagScan, "tag-scan"),
    (Test::TagSection, "tag-section"),
    (Test::TagBeyond, "tag-beyond"),
    (Test::TagLast, "tag-last"),
    (Test::Verify, "verify"),
];

impl Test {
    /// Name in files.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(test, _)| *test == self).map_or("", |(_, name)| name)
    }

    fn of_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(test, _)| *test)
    }
}

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// One request. Requests are in order in [`Samples::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Test that it belongs to.
    pub test: Test,
    /// Parameter of the test: a position in bytes or a number.
    pub about: u64,
    /// Direction of a request.
    pub kind: Kind,
    /// First byte.
    pub position: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Time that it took, ns.
    pub ns: u64,
    /// Address or hash that was read, if the test has one.
    pub found: Option<u64>,
}

/// Time and bytes of all requests of a probe, including those without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Device time in ns, including pauses.
    pub ns: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.ns = self.ns.saturating_add(other.ns);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
    }
}

/// All requests of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Capacity that the device reports, B.
    pub capacity: u64,
    /// True for an image, a file or a loop device: times are those of the disk that holds it, not of a card.
    pub is_image: bool,
    /// Time and bytes of the probe.
    pub cost: Cost,
    /// Requests in order.
    pub all: Vec<Sample>,
    /// Fits to the reads across borders.
    pub(crate) fits: Fits,
}

/// Fits that several questions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fits {
    pub(crate) read: KeptFit,
    pub(crate) small: KeptFit,
}

/// A samples file that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadSamples {
    /// Line, counted from 1.
    pub line: usize,
    /// Description of the fault.
    pub reason: &'static str,
}

/// Start of the first line of a samples file.
pub const HEAD: &str = "# floatgate probe, capacity_bytes=";
/// End of that line if the times are not those of a card.
const OF_IMAGE: &str = ", times of an image";
const COLUMNS: &str = "order,test,about,kind,position,bytes,ns,found";
/// Maximum capacity of a device, B: sums of positions do not overflow.
const CAPACITY_MAX: u64 = 1 << 60;
/// Maximum length of a request, B, and its maximum time, ns: sums over all samples do not overflow.
const REQUEST_MAX: u64 = 1 << 30;
const NS_MAX: u64 = 1 << 40;

impl Samples {
    /// Samples of one test in order.
    pub fn with_test(&self, test: Test) -> impl Iterator<Item = &Sample> + Clone {
        self.all.iter().filter(move |sample| sample.test == test)
    }

    /// Formats the samples as CSV, with capacity and cost in a comment before the header.
    pub fn to_csv(&self) -> String {
        let Cost { ns, read_bytes, written_bytes } = self.cost;
        let image = if self.is_image { OF_IMAGE } else { "" };
        let mut text = format!(
            "{HEAD}{}, time_ns={ns}, read_bytes={read_bytes}, written_bytes={written_bytes}{image}\n{COLUMNS}\n",
            self.capacity
        );
        for (order, sample) in self.all.iter().enumerate() {
            let Sample { test, about, kind, position, bytes, ns, found } = *sample;
            let kind = if kind == Kind::Read { "read" } else { "write" };
            let found = found.map_or_else(String::new, |found| found.to_string());
            let _ = writeln!(text, "{order},{},{about},{kind},{position},{bytes},{ns},{found}", test.name());
        }
        text
    }

    /// Parses the output of [`Self::to_csv`].
    ///
    /// # Errors
    /// The first line that is not a sample.
    pub fn from_csv(text: &str) -> Result<Self, BadSamples> {
        let mut lines = text.lines();
        let head = lines.next().and_then(|line| line.strip_prefix(HEAD)).unwrap_or_default();
        let of_image = head.strip_suffix(OF_IMAGE);
        let mut fields = of_image.unwrap_or(head).split(", ");
        let capacity = fields.next().and_then(|capacity| capacity.parse().ok());
        let capacity = capacity.filter(|bytes| *bytes <= CAPACITY_MAX);
        let capacity = capacity.ok_or(BadSamples { line: 1, reason: "no capacity in bytes" })?;
        let cost =
            cost(fields).ok_or(BadSamples { line: 1, reason: "the cost of the probe is not a number" })?;
        if lines.next() != Some(COLUMNS) {
            return Err(BadSamples { line: 2, reason: "not the columns of samples" });
        }
        let rows = lines.zip(3..).map(|(text, line)| row(text).map_err(|reason| BadSamples { line, reason }));
        let all: Vec<Sample> = rows.collect::<Result<_, _>>()?;
        Ok(Self { capacity, is_image: of_image.is_some(), cost, all, fits: Fits::default() })
    }
}

/// Time and bytes of the probe; files of earlier versions do not contain them.
fn cost<'a>(fields: impl Iterator<Item = &'a str>) -> Option<Cost> {
    let mut cost = Cost::default();
    for field in fields {
        let (name, value) = field.split_once('=')?;
        let place = match name {
            "time_ns" => &mut cost.ns,
            "read_bytes" => &mut cost.read_bytes,
            "written_bytes" => &mut cost.written_bytes,
            _ => return None,
        };
        *place = value.parse().ok()?;
    }
    Some(cost)
}

fn row(line: &str) -> Result<Sample, &'static str> {
    let cells: Vec<&str> = line.split(',').collect();
    let [_, test, about, kind, position, bytes, ns, found] = cells[..] else {
        return Err("not eight columns");
    };
    let number = |text: &str, reason| text.parse::<u64>().map_err(|_| reason);
    let sample = Sample {
        test: Test::of_name(test).ok_or("unknown test")?,
        about: number(about, "`about` is not a number")?,
        kind: match kind {
            "read" => Kind::Read,
            "write" => Kind::Write,
            _ => return Err("`kind` is neither read nor write"),
        },
        position: number(position, "`position` is not a number")?,
        bytes: number(bytes, "`bytes` is not a number")?,
        ns: number(ns, "`ns` is not a number")?,
        found: match found {
            "" => None,
            found => Some(number(found, "`found` is not a number")?),
        },
    };
    let is_possible = sample.position.max(sample.about) <= CAPACITY_MAX
        && (1..=REQUEST_MAX).contains(&sample.bytes)
        && sample.ns <= NS_MAX;
    if is_possible { Ok(sample) } else { Err("beyond the largest device or time") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let sample = Sample {
            test: Test::Border,
            about: 4 << 20,
            kind: Kind::Read,
            position: 12_288,
            bytes: 4096,
            ns: 612_345,
            found: None,
        };
        let tag = Sample { test: Test::TagEnd, kind: Kind::Write, found: Some(7), ..sample };
        Samples {
            capacity: 1 << 30,
            is_image: false,
            cost: Cost { ns: 7, read_bytes: 8, written_bytes: 9 },
            all: vec![sample, tag],
            fits: Fits::default(),
        }
    }

    #[test]
    fn a_file_holds_all_samples() {
        for is_image in [false, true] {
            let samples = Samples { is_image, ..samples() };
            assert_eq!(Samples::from_csv(&samples.to_csv()), Ok(samples));
        }
    }

    #[test]
    fn broken_files_name_line_and_reason() {
        let good = samples().to_csv();
        let broken =
            |from: &str, to: &str| Samples::from_csv(&good.replace(from, to)).unwrap_err().to_string();
        assert_eq!(broken("border", "boarder"), "line 3: unknown test");
        assert_eq!(broken(",read,", ",erase,"), "line 3: `kind` is neither read nor write");
        assert_eq!(broken(",7\n", "\n"), "line 4: not eight columns");
        assert_eq!(broken("capacity_bytes=", "capacity="), "line 1: no capacity in bytes");
        assert_eq!(broken("time_ns=7", "time_ns="), "line 1: the cost of the probe is not a number");
        let old = Samples::from_csv(&good.replace(", time_ns=7, read_bytes=8, written_bytes=9", "")).unwrap();
        assert_eq!(old, Samples { cost: Cost::default(), ..samples() });
        assert_eq!(broken("order,", ""), "line 2: not the columns of samples");
        let far = u64::MAX.to_string();
        assert_eq!(broken("612345", &far), "line 3: beyond the largest device or time");
        assert!(Samples::from_csv("").is_err());
    }
}
