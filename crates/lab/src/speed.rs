//! Tests of `flash_speed` on any [`floatgate_mtd::Mtd`], in virtual time: the figures that the tool prints, the exact
//! figures, and the time by phase.
//!
//! Order, units and rounding are those of `flash_speed` of mtd-utils 2.3. Each test times one loop over the selected
//! blocks. The tool prints KiB * 1000 / ms, where both the KiB of a unit and the milliseconds are rounded down.

use crate::interval::Interval;
pub use floatgate_device::timeline::Corrections;
use floatgate_device::wire::{Device, read_while_write};
use floatgate_mtd::words::count;
use floatgate_mtd::{Breakdown, Error, ErrorKind, FlashKind, Geometry, Instant, Nanos, Phase};
use floatgate_sim::machine::FilesystemKind;
use serde::{Deserialize, Serialize};
use std::sync::RwLock;

/// Options of a speed test, named as in `flash_speed`.
#[derive(Clone, Debug, Default)]
pub struct SpeedOptions {
    /// First eraseblock (`-b`).
    pub first_block: u32,
    /// Number of eraseblocks (`-c`). By default [`BLOCKS`], or all blocks of a smaller device.
    pub blocks: Option<u32>,
    /// Number of blocks skipped between two tested ones (`-s`).
    pub skip: u32,
    /// Additional read units, in pages.
    pub pages: Vec<u32>,
    /// Also read in units of 2 to 16, 32 and 64 pages, if an eraseblock has them (`-C`).
    pub continuous: bool,
    /// Secondary block of the read-while-write latency test (`-k`).
    pub secondary_block: Option<u32>,
    /// Tests to run, in this order; all tests if empty.
    pub only: Vec<Test>,
    /// Kind of the filesystem to test; `None` to test the bare flash.
    pub filesystem: Option<FilesystemKind>,
}

/// Default number of eraseblocks of a test.
pub const BLOCKS: u32 = 10;

impl SpeedOptions {
    /// Number of blocks for [`SpeedOptions::blocks`]: `None` for the default number.
    pub fn blocks_unless_usual(blocks: u32) -> Option<u32> {
        (blocks != BLOCKS).then_some(blocks)
    }

    /// Largest requested unit, in pages.
    pub fn largest_unit(&self) -> u32 {
        let unit = |test: &Test| match *test {
            Test::Write(n) | Test::Read(n) => n,
            Test::Erase(_) => 0,
        };
        self.only.iter().map(unit).chain(self.pages.iter().copied()).max().unwrap_or(0)
    }
}

/// A test of `flash_speed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Writes in units of n pages; 0 stands for a whole eraseblock.
    Write(u32),
    /// Reads in units of n pages; 0 stands for a whole eraseblock.
    Read(u32),
    /// Erases n eraseblocks per call.
    Erase(u32),
}

impl Test {
    /// Name in tables, JSON and `papers/` files: `page read`, `8 page read`, `eraseblock write`, `4x erase`.
    pub fn name(self) -> String {
        let unit = |pages: u32, what: &str| match pages {
            0 => format!("eraseblock {what}"),
            1 => format!("page {what}"),
            n => format!("{n} page {what}"),
        };
        match self {
            Self::Write(n) => unit(n, "write"),
            Self::Read(n) => unit(n, "read"),
            Self::Erase(1) => "erase".to_owned(),
            Self::Erase(n) => format!("{n}x erase"),
        }
    }

    /// Test with this name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        let (unit, what) = name.rsplit_once(' ').unwrap_or(("", name));
        let pages = match unit {
            "eraseblock" => Some(0),
            "page" => Some(1),
            other => other.strip_suffix(" page").and_then(|n| n.parse().ok()).filter(|&n| n > 0),
        };
        match what {
            "write" => pages.map(Self::Write),
            "read" => pages.map(Self::Read),
            "erase" if unit.is_empty() => Some(Self::Erase(1)),
            "erase" => {
                unit.strip_suffix('x').and_then(|n| n.parse().ok()).filter(|&n| n > 0).map(Self::Erase)
            }
            _ => None,
        }
    }
}

/// Result of one test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the test, see [`Test::name`].
    pub name: String,
    /// Number of bytes moved or erased.
    pub bytes: u64,
    /// Number of calls.
    pub calls: u64,
    /// Elapsed virtual time, ns.
    pub ns: u64,
    /// Speed that `flash_speed` prints, KiB/s.
    pub printed_kib_s: u64,
    /// Speed without rounding, KiB/s.
    pub exact_kib_s: f64,
    /// 80 % interval of `exact_kib_s` or, for a test that moves no bytes, of the milliseconds. It follows from the
    /// chip, controller and host of a setup; a bare device has none.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Energy of the chip per MiB, mJ; `None` if its part does not state the currents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mj_per_mib: Option<f64>,
    /// Time by phase, ns; the sum is `ns`.
    #[serde(serialize_with = "breakdown_ns", deserialize_with = "crate::stored::breakdown")]
    pub breakdown_ns: Breakdown,
    /// Corrected bit errors in pages that were read.
    #[serde(flatten)]
    pub corrected: Corrections,
}

impl Measured {
    /// Time per call, us.
    pub fn us_per_call(&self) -> f64 {
        self.ns as f64 / 1e3 / self.calls.max(1) as f64
    }

    /// Share of a phase in the time, 0 to 1.
    pub fn share(&self, phase: Phase) -> f64 {
        self.breakdown_ns[phase].as_ns() as f64 / self.ns.max(1) as f64
    }
}

/// Serialises times in ns by phase name; for `serialize_with`.
pub(crate) fn breakdown_ns<S: serde::Serializer>(b: &Breakdown, s: S) -> Result<S::Ok, S::Error> {
    s.collect_map(b.iter().map(|(phase, time)| (phase.name(), time.as_ns())))
}

/// Result of the read-while-write latency test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Number of the block that is written.
    pub write_block: u32,
    /// Number of the block that is read at the same time.
    pub read_block: u32,
    /// Time until both operations ended, ns ("read while write took").
    pub took_ns: u64,
    /// Time until the read ended, ns ("read ended after").
    pub read_ended_ns: u64,
}

/// The filesystem that was tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesystemReport {
    /// Kind of the filesystem.
    pub kind: FilesystemKind,
    /// Number of LEBs of its volume; for JFFS2, of eraseblocks.
    pub lebs: u32,
    /// Size of a LEB or eraseblock, bytes.
    pub leb_bytes: u32,
    /// Free space for files when it was empty, bytes.
    pub free_bytes: u64,
    /// Size of each large file that was written and read, bytes.
    pub file_bytes: u64,
    /// False if the setup does not state the speed of the CPU; CPU time is then missing.
    pub cpu_is_known: bool,
}

/// Result of `speed` on one setup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpeedReport {
    /// Size of a page, bytes: the write unit on NAND, 512 on NOR.
    pub page_bytes: u32,
    /// Size of an eraseblock, bytes.
    pub eraseblock_bytes: u32,
    /// Number of good blocks among the selected ones.
    pub good_blocks: u32,
    /// Results of the tests, in order.
    pub tests: Vec<Measured>,
    /// Result of the latency test, if requested.
    pub latency: Option<Latency>,
    /// The filesystem, if one was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemReport>,
}

/// Page size that `flash_speed` assumes if sub-pages are single bytes.
const NOR_PAGE_BYTES: u32 = 512;

/// Page size that `flash_speed` uses, bytes: the write unit, or 512 on NOR.
pub fn page_bytes(geometry: &Geometry) -> u32 {
    if geometry.kind == FlashKind::Nor { NOR_PAGE_BYTES } else { geometry.write_bytes }
}

/// Speed that `flash_speed` prints for `kib` KiB in `time`: both are rounded down before dividing.
pub fn printed_kib_s(kib: u64, time: Nanos) -> u64 {
    let ms = time.as_ns() / 1_000_000;
    (kib * 1000).checked_div(ms).unwrap_or(0)
}

/// Runs the tests on `mtd`, starting at `now`.
///
/// # Errors
/// The first error of the device; `OutOfRange` if the selected blocks extend beyond the device.
pub fn run(mtd: &mut dyn Device, now: Instant, options: &SpeedOptions) -> Result<SpeedReport, Error> {
    let mut bench = Bench::prepare(mtd, now, options)?;
    let tests = plan(options, bench.pages_per_block());
    let tests: Result<Vec<Measured>, Error> = tests.into_iter().map(|t| bench.test(t)).collect();
    let latency = options.secondary_block.map(|k| bench.latency(options.first_block, k)).transpose()?;
    Ok(SpeedReport {
        page_bytes: bench.page,
        eraseblock_bytes: bench.block,
        good_blocks: bench.good.len() as u32,
        tests: tests?,
        latency,
        filesystem: None,
    })
}

/// Requested tests, or all tests in the order of `flash_speed`, with the two-page tests of its earlier releases.
pub(crate) fn plan(options: &SpeedOptions, pages_per_block: u32) -> Vec<Test> {
    if !options.only.is_empty() {
        return options.only.clone();
    }
    let mut plan =
        vec![Test::Write(0), Test::Read(0), Test::Write(1), Test::Read(1), Test::Write(2), Test::Read(2)];
    plan.retain(|t| !matches!(t, Test::Write(2) | Test::Read(2)) || pages_per_block >= 2);
    let mut pages = options.pages.clone();
    if options.continuous {
        pages.extend((2..=16).chain([32, 64]));
    }
    pages.retain(|&n| n > 2 && n <= pages_per_block);
    pages.sort_unstable();
    pages.dedup();
    plan.extend(pages.into_iter().map(Test::Read));
    plan.push(Test::Erase(1));
    if options.skip == 0 {
        plan.extend((1..=6).map(|k| Test::Erase(1 << k)));
    }
    plan
}

impl SpeedOptions {
    /// Number of blocks to test on a device with `all` blocks. The default number is limited to the existing blocks; a
    /// given number is not.
    fn blocks_of(&self, all: u64) -> u32 {
        let behind = all.saturating_sub(self.first_block.into());
        let there = behind.div_ceil(u64::from(self.skip) + 1);
        self.blocks.unwrap_or_else(|| BLOCKS.min(u32::try_from(there.max(1)).unwrap_or(BLOCKS)))
    }
}

struct Bench<'a> {
    mtd: &'a mut dyn Device,
    now: Instant,
    page: u32,
    block: u32,
    /// Addresses of the good blocks to test.
    good: Vec<u64>,
    buf: Vec<u8>,
    /// True if the blocks contain data.
    written: bool,
}

impl<'a> Bench<'a> {
    fn prepare(mtd: &'a mut dyn Device, now: Instant, options: &SpeedOptions) -> Result<Self, Error> {
        let geometry = mtd.geometry();
        let (block, size, page) = (geometry.erase_bytes, geometry.size_bytes, page_bytes(geometry));
        let mut bench =
            Self { mtd, now, page, block, good: Vec::new(), buf: pattern(block as usize), written: false };
        for i in 0..options.blocks_of(size / u64::from(block)) {
            let index = u64::from(options.first_block) + u64::from(i) * (u64::from(options.skip) + 1);
            let addr = index * u64::from(block);
            floatgate_mtd::device::check_range(now, addr, u64::from(block), size)?;
            let (bad, at) = bench.mtd.is_bad(bench.now, addr)?;
            bench.now = at;
            if !bad {
                bench.good.push(addr);
            }
        }
        Ok(bench)
    }

    fn pages_per_block(&self) -> u32 {
        self.block / self.page
    }

    fn test(&mut self, test: Test) -> Result<Measured, Error> {
        match test {
            Test::Write(_) => {
                self.erase_all(1)?;
            }
            // `flash_speed` erases after its writes, and erasing a blank block may take less time.
            Test::Erase(1) if !self.written => {
                self.erase_all(1)?;
                self.transfer(0, true)?;
            }
            _ => {}
        }
        self.written = matches!(test, Test::Write(_)) || self.written && matches!(test, Test::Read(_));
        let (start, before) = (self.now, self.mtd.breakdown());
        let (bytes, calls, kib, corrected) = match test {
            Test::Write(n) => self.transfer(n, true)?,
            Test::Read(n) => self.transfer(n, false)?,
            Test::Erase(n) => self.erase_all(n)?,
        };
        let elapsed = self.now.since(start);
        Ok(Measured {
            name: test.name(),
            bytes,
            calls,
            ns: elapsed.as_ns(),
            printed_kib_s: printed_kib_s(kib, elapsed),
            exact_kib_s: bytes as f64 / 1024.0 / elapsed.as_secs_f64().max(1e-9),
            interval: None,
            mj_per_mib: None,
            breakdown_ns: self.mtd.breakdown() - before,
            corrected,
        })
    }

    /// Moves every good block in units of `pages` pages. A remainder of a block is neither moved nor counted.
    fn transfer(&mut self, pages: u32, write: bool) -> Result<(u64, u64, u64, Corrections), Error> {
        let pages = if pages == 0 { self.pages_per_block() } else { pages };
        if pages > self.pages_per_block() {
            let len = u64::from(pages) * u64::from(self.page);
            return Err(ErrorKind::OutOfRange { len, size: u64::from(self.block) }.at(0, self.now));
        }
        let unit = (pages * self.page) as usize;
        let units = self.pages_per_block() / pages;
        let geometry = self.mtd.geometry().clone();
        let mut corrected = Corrections::default();
        for i in 0..self.good.len() {
            for u in 0..units as usize {
                let addr = self.good[i] + (u * unit) as u64;
                let done = if write {
                    self.mtd.write(self.now, addr, &self.buf[u * unit..][..unit])?
                } else {
                    self.mtd.read(self.now, addr, &mut self.buf[u * unit..][..unit])?
                };
                self.now = done.at;
                corrected.add(&done, &geometry);
            }
        }
        let blocks = self.good.len() as u64;
        let per_block = u64::from(units) * unit as u64;
        Ok((blocks * per_block, blocks * u64::from(units), blocks * (per_block / 1024), corrected))
    }

    /// Erases every good block, `at_once` adjacent blocks per call.
    fn erase_all(&mut self, at_once: u32) -> Result<(u64, u64, u64, Corrections), Error> {
        let block = u64::from(self.block);
        let mut calls = 0;
        let mut i = 0;
        while i < self.good.len() {
            let mut n = 1;
            while n < at_once as usize
                && self.good.get(i + n).is_some_and(|&next| next == self.good[i] + n as u64 * block)
            {
                n += 1;
            }
            self.now = self.mtd.erase(self.now, self.good[i], n as u64 * block)?.at;
            calls += 1;
            i += n;
        }
        let blocks = self.good.len() as u64;
        Ok((blocks * block, calls, blocks * (block / 1024), Corrections::default()))
    }

    /// Writes one block while it reads another.
    fn latency(&mut self, write_block: u32, read_block: u32) -> Result<Latency, Error> {
        let block = u64::from(self.block);
        let (w, r) = (u64::from(write_block) * block, u64::from(read_block) * block);
        for addr in [w, r] {
            floatgate_mtd::device::check_range(self.now, addr, block, self.mtd.geometry().size_bytes)?;
            self.now = self.mtd.erase(self.now, addr, block)?.at;
        }
        let start = self.now;
        let data = std::mem::take(&mut self.buf);
        let mut got = vec![0; data.len()];
        let outcome = read_while_write(self.mtd, start, (w, &data), (r, &mut got));
        self.buf = data;
        let (written, read) = outcome?;
        self.now = written.at.max(read.at);
        Ok(Latency {
            write_block,
            read_block,
            took_ns: self.now.since(start).as_ns(),
            read_ended_ns: read.at.since(start).as_ns(),
        })
    }
}

/// Data that is neither blank nor constant, like the pseudo-random bytes of `flash_speed`.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let made = |longest: &Vec<u8>| longest.get(..len).map(<[u8]>::to_vec);
    let known = LONGEST.read().ok().and_then(|longest| made(&longest));
    known.unwrap_or_else(|| {
        let data = pseudo_random(len);
        if let Ok(mut longest) = LONGEST.write() {
            longest.clone_from(&data);
        }
        data
    })
}

/// Longest pattern generated so far; shorter patterns are its prefixes. Generating it takes longer than measuring a
/// design of a sweep.
static LONGEST: RwLock<Vec<u8>> = RwLock::new(Vec::new());

/// Bytes of a xorshift generator (Marsaglia 2003).
fn pseudo_random(len: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Text of an error that the selection of blocks explains; `None` for other errors.
pub fn explained(error: &Error, block_bytes: u32) -> Option<String> {
    let block = error.addr / u64::from(block_bytes);
    match error.kind {
        ErrorKind::OutOfRange { size, .. } => Some(format!(
            "block {block} does not exist: the device has {}, from 0",
            count(size / u64::from(block_bytes), "block")
        )),
        ErrorKind::BadBlock => Some(format!("block {block} is bad")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_flash_speed_does() {
        // Raynal (2025): for 2560 KiB in 239.x ms, the tool prints 10711.
        assert_eq!(printed_kib_s(2560, Nanos::from_ns(239_999_999)), 10711);
        assert_eq!(printed_kib_s(2560, Nanos::from_us(900)), 0);
    }

    #[test]
    fn names_round_trip() {
        for test in
            [Test::Write(0), Test::Write(1), Test::Read(2), Test::Read(64), Test::Erase(1), Test::Erase(64)]
        {
            assert_eq!(Test::from_name(&test.name()), Some(test), "{}", test.name());
        }
        for nonsense in ["page fault", "0 page read", "-1 page read", "0x erase", "read", ""] {
            assert_eq!(Test::from_name(nonsense), None, "{nonsense}");
        }
    }
}
