//! Raw flash behind an MTD character device: speeds, bad, blank and written eraseblocks, and corrected bits.
//!
//! - [`Flash`] is the device under test; each call returns its measured time.
//!   [`CharDevice`](floatgate_host::mtd::CharDevice) is Linux's `/dev/mtdN`, [`Simulated`] any simulated [`Mtd`] in
//!   virtual time.
//! - [`measure`] reads the whole device once, like `ubihealthd`, and runs the read tests of `flash_speed`. If writes
//!   are allowed, it also runs the write tests on blank blocks and erases them again. It never writes to a block with
//!   data in its pages or OOB, or to a device in use.

use floatgate_host::TargetError;
use floatgate_host::mtd::{Counters, Flash, Shape};
use floatgate_mtd::{Instant, Mtd, OobMode};
use serde::Serialize;

/// Result of a speed test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Name as `flash_speed` prints it.
    pub name: &'static str,
    /// State of the tested blocks: `written` or `blank`.
    pub blocks: &'static str,
    /// Bytes that were read, written or erased.
    pub bytes: u64,
    /// Time of all calls, ns.
    pub ns: u64,
    /// Speed, KiB/s, rounded down as `flash_speed` does.
    pub kib_s: u64,
}

/// An eraseblock with bitflips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Weak {
    /// Number of the eraseblock.
    pub block: u64,
    /// Bits that were corrected in one read.
    pub corrected: u64,
    /// ECC steps that could not be corrected.
    pub failed: u64,
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MtdReport {
    /// Sizes of the device.
    #[serde(flatten)]
    pub shape: Shape,
    /// Eraseblocks that were read.
    pub read_blocks: u64,
    /// Numbers of the bad eraseblocks.
    pub bad_blocks: Vec<u64>,
    /// Number of eraseblocks that contain only 0xFF, including their OOB.
    pub blank_blocks: u64,
    /// True when the driver counts corrected bits.
    pub counts_bits: bool,
    /// Eraseblocks with bitflips.
    pub weak_blocks: Vec<Weak>,
    /// Longest read time of an eraseblock, ns, and its number.
    pub slowest_block: Option<(u64, u64)>,
    /// Results of the speed tests, in the order in which they ran.
    pub speeds: Vec<Speed>,
    /// False if the measurement was interrupted.
    pub complete: bool,
}

/// Maximum number of blocks per speed test.
const SPEED_BLOCKS: usize = 16;

/// Reads the whole flash and measures speeds; `writes` allows tests that write and erase blank blocks. `watch` receives
/// the number of eraseblocks read and their total, and returns true to interrupt the measurement.
///
/// # Errors
/// A call that fails; the message contains the position. A failed write test erases its blocks if the device still can.
pub fn measure(
    flash: &mut dyn Flash,
    writes: bool,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<MtdReport, TargetError> {
    let mut found = MtdReport {
        shape: flash.shape().clone(),
        read_blocks: 0,
        bad_blocks: Vec::new(),
        blank_blocks: 0,
        counts_bits: flash.counters().is_some(),
        weak_blocks: Vec::new(),
        slowest_block: None,
        speeds: Vec::new(),
        complete: false,
    };
    let mut chosen = Chosen::default();
    for block in 0..found.shape.blocks() {
        if watch(block, found.shape.blocks()) {
            return Ok(found);
        }
        found.look_at(flash, block, &mut chosen)?;
    }
    for (blocks, state) in [(&chosen.written, "written"), (&chosen.blank, "blank")] {
        found.read_speeds(flash, blocks, state)?;
    }
    if writes {
        require_unused(flash)?;
        let written = found.write_speeds(flash, &chosen.blank);
        let erased = make_blank(flash, &chosen.blank);
        written.and(erased)?;
    }
    found.complete = true;
    Ok(found)
}

/// Returns an error if the device is in use by now.
fn require_unused(flash: &mut dyn Flash) -> Result<(), TargetError> {
    let users = flash.holders()?;
    if users.is_empty() {
        return Ok(());
    }
    Err(failed("write", 0, 0, &format!("it is in use by now: {}; nothing was written", users.join("; "))))
}

/// Blocks for the speed tests: the first ones of each kind.
#[derive(Default)]
struct Chosen {
    written: Vec<u64>,
    blank: Vec<u64>,
}

/// Call at a position with a buffer, which returns its time, ns.
type Call<'a> = dyn FnMut(u64, &mut [u8]) -> Result<u64, TargetError> + 'a;

impl MtdReport {
    /// Reads a block once.
    fn look_at(&mut self, flash: &mut dyn Flash, block: u64, chosen: &mut Chosen) -> Result<(), TargetError> {
        if flash.is_bad(block)? {
            self.bad_blocks.push(block);
            return Ok(());
        }
        let mut buf = vec![0; self.shape.erase_bytes as usize];
        let before = flash.counters().unwrap_or_default();
        let ns = flash.read(block * u64::from(self.shape.erase_bytes), &mut buf)?;
        let after = flash.counters().unwrap_or_default();
        let weak = Weak {
            block,
            corrected: after.corrected.saturating_sub(before.corrected),
            failed: after.failed.saturating_sub(before.failed),
        };
        if weak.corrected + weak.failed > 0 {
            self.weak_blocks.push(weak);
        }
        self.read_blocks += 1;
        self.slowest_block = Some((ns, block)).max(self.slowest_block);
        let is_blank = is_blank(&buf) && self.has_blank_oob(flash, block)?;
        self.blank_blocks += u64::from(is_blank);
        let list = if is_blank { &mut chosen.blank } else { &mut chosen.written };
        if list.len() < SPEED_BLOCKS {
            list.push(block);
        }
        Ok(())
    }

    /// True when the OOB of a block is blank too. Clean markers of JFFS2 and tags of YAFFS2 are in the OOB of pages
    /// that look erased. Any byte counts: a bad block marker that the driver does not recognise must survive.
    fn has_blank_oob(&self, flash: &mut dyn Flash, block: u64) -> Result<bool, TargetError> {
        let Shape { erase_bytes, write_bytes, oob_bytes, .. } = self.shape;
        let mut oob = vec![0; oob_bytes as usize];
        if oob.is_empty() {
            return Ok(true);
        }
        let start = block * u64::from(erase_bytes);
        for page in 0..erase_bytes / write_bytes.max(1) {
            flash.read_oob(start + u64::from(page) * u64::from(write_bytes), &mut oob)?;
            if !is_blank(&oob) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the time of `calls` of `unit` bytes over some blocks.
    fn time(
        &mut self,
        (name, state): (&'static str, &'static str),
        blocks: &[u64],
        unit: u32,
        call: &mut Call<'_>,
    ) -> Result<(), TargetError> {
        let erase_bytes = u64::from(self.shape.erase_bytes);
        // An eraseblock may have an odd number of pages. The tests of page pairs then leave out its last page.
        let unit = u64::from(unit).min(erase_bytes);
        if blocks.is_empty() || unit == 0 {
            return Ok(());
        }
        let mut buf = vec![0; unit as usize];
        let (mut bytes, mut ns) = (0, 0);
        for block in blocks {
            for at in 0..erase_bytes / unit {
                ns += call(block * erase_bytes + at * unit, &mut buf)?;
                bytes += unit;
            }
        }
        let kib_s = u128::from(bytes) * 1_000_000_000 / 1024 / u128::from(ns.max(1));
        let kib_s = u64::try_from(kib_s).unwrap_or(u64::MAX);
        self.speeds.push(Speed { name, blocks: state, bytes, ns, kib_s });
        Ok(())
    }

    fn read_speeds(
        &mut self,
        flash: &mut dyn Flash,
        blocks: &[u64],
        state: &'static str,
    ) -> Result<(), TargetError> {
        let page = self.shape.page_bytes();
        let tests =
            [("eraseblock read", self.shape.erase_bytes), ("page read", page), ("2 page read", 2 * page)];
        for (name, unit) in tests {
            self.time((name, state), blocks, unit, &mut |at, buf| flash.read(at, buf))?;
        }
        Ok(())
    }

    /// Tests writes and erases on blank blocks.
    fn write_speeds(&mut self, flash: &mut dyn Flash, blank: &[u64]) -> Result<(), TargetError> {
        let page = self.shape.page_bytes();
        let (erase_bytes, state) = (self.shape.erase_bytes, "blank");
        let tests = [("eraseblock write", erase_bytes), ("page write", page), ("2 page write", 2 * page)];
        for (name, unit) in tests {
            self.time((name, state), blank, unit, &mut |at, buf| {
                fill(buf, at);
                flash.write(at, buf)
            })?;
            check(flash, blank, unit, erase_bytes)?;
            if name == "eraseblock write" {
                self.read_speeds(flash, blank, "just written")?;
            }
            self.time(("erase", state), blank, erase_bytes, &mut |at, _| {
                flash.erase(at / u64::from(erase_bytes))
            })?;
        }
        // Each test erases the blocks. Only the first result is kept.
        let mut erases = 0;
        self.speeds.retain(|speed| {
            erases += u32::from(speed.name == "erase");
            speed.name != "erase" || erases == 1
        });
        Ok(())
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xFF)
}

/// Fills a buffer with data that depends on the position and compresses badly.
fn fill(buf: &mut [u8], position: u64) {
    for (byte, at) in buf.iter_mut().zip(position..) {
        *byte = (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    }
}

/// Verifies the data of a write test.
fn check(flash: &mut dyn Flash, blocks: &[u64], unit: u32, erase_bytes: u32) -> Result<(), TargetError> {
    let unit = unit.min(erase_bytes).max(1);
    let (mut got, mut wanted) = (vec![0; unit as usize], vec![0; unit as usize]);
    for block in blocks {
        let start = block * u64::from(erase_bytes);
        for position in (0..erase_bytes / unit).map(|at| start + u64::from(at) * u64::from(unit)) {
            flash.read(position, &mut got)?;
            fill(&mut wanted, position);
            if got != wanted {
                let reason = "other bytes are read than were written".to_owned();
                return Err(TargetError { operation: "read", position, bytes: u64::from(unit), reason });
            }
        }
    }
    Ok(())
}

/// Erases the blocks that are not blank, also after a failed test.
fn make_blank(flash: &mut dyn Flash, blocks: &[u64]) -> Result<(), TargetError> {
    let erase_bytes = flash.shape().erase_bytes;
    let mut buf = vec![0; erase_bytes as usize];
    let mut result = Ok(());
    for &block in blocks {
        let read = flash.read(block * u64::from(erase_bytes), &mut buf);
        if read.is_err() || !is_blank(&buf) {
            result = result.and(flash.erase(block).map(|_| ()));
        }
    }
    result
}

/// A simulated flash device in virtual time.
#[derive(Debug)]
pub struct Simulated<M> {
    device: M,
    now: Instant,
    shape: Shape,
    counters: Counters,
}

impl<M: Mtd> Simulated<M> {
    /// Wraps `device` at virtual time `now`.
    pub fn new(device: M, now: Instant, name: &str) -> Self {
        let geometry = device.geometry();
        let shape = Shape {
            kind: format!("{:?}", geometry.kind).to_lowercase(),
            name: name.to_owned(),
            size_bytes: geometry.size_bytes,
            erase_bytes: geometry.erase_bytes,
            write_bytes: geometry.write_bytes,
            oob_bytes: geometry.oob_bytes,
        };
        Self { device, now, shape, counters: Counters::default() }
    }

    /// The simulated device.
    pub const fn device(&self) -> &M {
        &self.device
    }

    fn took(&mut self, end: Instant) -> u64 {
        let ns = end.since(self.now).as_ns();
        self.now = end;
        ns
    }
}

fn failed(operation: &'static str, position: u64, bytes: u64, error: &impl ToString) -> TargetError {
    TargetError { operation, position, bytes, reason: error.to_string() }
}

impl<M: Mtd> Flash for Simulated<M> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn is_bad(&mut self, block: u64) -> Result<bool, TargetError> {
        let position = block * u64::from(self.shape.erase_bytes);
        let answer = self.device.is_bad(self.now, position);
        let (bad, end) = answer.map_err(|error| failed("bad block test", position, 0, &error))?;
        self.now = end;
        Ok(bad)
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        let done = match self.device.read(self.now, position, buf) {
            Ok(done) => done,
            // As in Linux, the read returns the data, and the counter records the failure.
            Err(error) if error.kind == floatgate_mtd::ErrorKind::Uncorrectable => {
                self.counters.failed += 1;
                return Ok(self.took(error.at));
            }
            Err(error) => return Err(failed("read", position, buf.len() as u64, &error)),
        };
        self.counters.corrected += u64::from(done.bitflips);
        Ok(self.took(done.at))
    }

    fn read_oob(&mut self, position: u64, oob: &mut [u8]) -> Result<(), TargetError> {
        let bytes = oob.len() as u64;
        let done = self.device.read_oob(self.now, position, &mut [], oob, OobMode::Raw);
        self.now = done.map_err(|error| failed("read of OOB", position, bytes, &error))?.at;
        Ok(())
    }

    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        let done = self.device.write(self.now, position, data);
        let done = done.map_err(|error| failed("write", position, data.len() as u64, &error))?;
        Ok(self.took(done.at))
    }

    fn erase(&mut self, block: u64) -> Result<u64, TargetError> {
        let bytes = u64::from(self.shape.erase_bytes);
        let done = self.device.erase(self.now, block * bytes, bytes);
        let done = done.map_err(|error| failed("erase", block * bytes, bytes, &error))?;
        Ok(self.took(done.at))
    }

    fn counters(&mut self) -> Option<Counters> {
        Some(self.counters)
    }
}

#[cfg(test)]
mod tests;
