//! Score card of a driver in C: a shared object with the functions `floatgate_driver_*` of `floatgate.h`, tested on chips at their pins.
//!
//! Each check ([`Check`]) runs in its own process with its own chip. It examines the array directly, without the driver, and lets time pass
//! after each call. Therefore a single fault of a driver fails only the check for that fault.

use crate::c::{self, Geometry, Handle};
use crate::device::Device;
use crate::object::{self, Driver, LoadError};
use crate::printed::Printed;
use crate::process::{self, End};
use floatgate_config::{Config, ConfigError};
use floatgate_device::power::PowerCut;
use floatgate_device::spec::ChipSpec;
use floatgate_device::violation::{Recorded, Violation};
use floatgate_mtd::Nanos;
use floatgate_sim::rig::{self, Pins, RigOptions};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io::{PipeWriter, Write as _};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// A check of the score card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The driver identifies the chip.
    Found,
    /// The driver reports the right sizes of the chip.
    Geometry,
    /// A program writes the right bytes to the array.
    Program,
    /// A read returns the bytes of the array.
    Read,
    /// An erase erases the addressed block and no other block.
    Erase,
    /// The chip is ready when the driver returns from a program or erase.
    Polling,
    /// The driver violates no rule of the chip.
    NoViolation,
    /// The driver reports factory bad blocks.
    BadBlocks,
    /// The driver corrects a single wrong bit.
    WrongBit,
    /// The driver reports uncorrectable bit errors.
    Uncorrectable,
    /// The driver reports failed programs and erases.
    FailedBlock,
    /// The driver can use the chip after a power cut in a program.
    CutInProgram,
    /// The driver can use the chip after a power cut in an erase.
    CutInErase,
    /// The chip expects three address bytes after a warm reset, so that a boot ROM can read it.
    AddressMode,
    /// The driver reports the program of a locked block as failed.
    LockedBlock,
}

impl Check {
    /// All checks, in the order of the score card.
    pub const ALL: [Self; 15] = [
        Self::Found,
        Self::Geometry,
        Self::Program,
        Self::Read,
        Self::Erase,
        Self::Polling,
        Self::NoViolation,
        Self::BadBlocks,
        Self::WrongBit,
        Self::Uncorrectable,
        Self::FailedBlock,
        Self::CutInProgram,
        Self::CutInErase,
        Self::AddressMode,
        Self::LockedBlock,
    ];
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "result", content = "why")]
pub enum Verdict {
    /// The driver passes the check.
    Passed,
    /// The driver fails the check, for this reason.
    Failed(String),
    /// The chip does not have the checked function, for this reason.
    Skipped(String),
}

/// A check with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Check that was run, or skipped.
    pub check: Check,
    /// Its result.
    pub verdict: Verdict,
    /// Output of the driver during this check.
    pub printed: Printed,
}

/// Reason why the score card cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The setup is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The chip cannot be connected.
    #[error(transparent)]
    Rig(#[from] floatgate_sim::Error),
    /// The operating system cannot create a process or a pipe.
    #[error("no child process: {0}")]
    Process(#[from] std::io::Error),
}

/// Runs all checks of a driver on the chip of a setup, and calls `on_printed` for each line that the driver prints. The calling process
/// must have only one thread.
///
/// # Errors
/// The driver cannot be loaded, or the setup is invalid.
pub fn check(
    driver: &Path,
    config: &Config,
    limit: Duration,
    on_printed: &mut dyn FnMut(Check, &str),
) -> Result<Vec<Checked>, Error> {
    let spec = config.chip()?;
    let bad_blocks = spec.facts().max_bad_blocks_per_lun().min(1);
    let pins = rig::pins(config, RigOptions { bad_blocks, ..RigOptions::default() })?;
    // A driver that cannot be loaded is an error, not a failed check.
    if let Some(why) = load_error(driver, limit)? {
        return Err(why);
    }
    let mut all: Vec<Checked> = Vec::new();
    for check in Check::ALL {
        let is_found = all.first().is_none_or(|found| found.verdict == Verdict::Passed);
        all.push(match is_found {
            true => run(driver, check, &spec, &pins, limit, on_printed)?,
            false => {
                let verdict = Verdict::Skipped("the driver does not find the chip".to_owned());
                Checked { check, verdict, printed: Printed::default() }
            }
        });
    }
    Ok(all)
}

/// Loads the driver in a child process to find load errors.
fn load_error(driver: &Path, limit: Duration) -> Result<Option<Error>, Error> {
    let child = process::fork_heard(|mut pipe| {
        if let Err(error) = object::load_driver(driver) {
            let _ = pipe.write_all(format!("{error}\n").as_bytes());
        }
    })?;
    let (mut why, mut last) = (None, None);
    let text = |line: &[u8]| Some(String::from_utf8_lossy(line).into_owned());
    let end = child.watch_heard(limit, |line| why = text(line), |line| last = text(line))?;
    let refused = |what: &str| {
        let printed = last.map_or_else(String::new, |last| format!("; its last line of output: {last}"));
        Error::Load(LoadError::Refused { path: driver.to_owned(), why: format!("{what}{printed}") })
    };
    Ok(match (why, end) {
        (Some(why), _) => Some(Error::Load(LoadError::Message(why))),
        (None, End::Exited(0)) => None,
        (None, End::TimedOut) => Some(refused("it hangs when it is loaded")),
        (None, End::Signal(_)) => Some(refused("it crashes when it is loaded")),
        (None, End::Exited(_)) => Some(refused("it ends the process when it is loaded")),
    })
}

/// Runs one check in a child process.
fn run(
    driver: &Path,
    check: Check,
    spec: &ChipSpec,
    pins: &Pins,
    limit: Duration,
    on_printed: &mut dyn FnMut(Check, &str),
) -> Result<Checked, Error> {
    let child = process::fork_heard(|mut pipe| {
        process::limit_memory();
        match object::load_driver(driver) {
            Ok(driver) => Bench::new(driver, spec.clone(), pins.clone(), pipe).run(check),
            Err(error) => send(&mut pipe, &Verdict::Failed(error.to_string())),
        }
    })?;
    let (mut verdict, mut printed) = (None, Printed::default());
    let end = child.watch_heard(
        limit,
        |line| verdict = serde_json::from_slice(line).ok(),
        |line| on_printed(check, printed.add(line)),
    )?;
    let failed = |why: String| Verdict::Failed(why);
    let verdict = verdict.unwrap_or_else(|| match end {
        End::TimedOut => failed(format!("the driver hung: no end after {} s", limit.as_secs_f64())),
        End::Signal(signal) => failed(format!("the driver crashed: {}", process::signal_name(signal))),
        End::Exited(status) => failed(format!("the driver ended the process with status {status}")),
    });
    Ok(Checked { check, verdict, printed })
}

/// Sends a verdict to the parent, and ends the process.
fn send(pipe: &mut PipeWriter, verdict: &Verdict) {
    let mut line = serde_json::to_vec(verdict).unwrap_or_default();
    line.push(b'\n');
    process::flush();
    let _ = pipe.write_all(&line);
    process::exit(0)
}

/// A driver with the chip on which it is tested.
struct Bench {
    driver: Driver,
    spec: ChipSpec,
    chip: *mut Handle,
    pipe: RefCell<PipeWriter>,
}

/// Reason why a check ends without a pass.
enum Stop {
    Failed(String),
    Skipped(&'static str),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

type Done = Result<(), Stop>;

fn failed<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(why.into()))
}

impl Bench {
    fn new(driver: Driver, spec: ChipSpec, pins: Pins, pipe: PipeWriter) -> Rc<Self> {
        let chip = Box::into_raw(Box::new(Handle::new(Device::at_pins(pins))));
        Rc::new(Self { driver, spec, chip, pipe: RefCell::new(pipe) })
    }

    /// Runs a check, and ends the process.
    fn run(self: &Rc<Self>, check: Check) {
        self.end(check, self.outcome(check));
    }

    fn end(&self, check: Check, outcome: Done) {
        let verdict = match outcome {
            Ok(()) => Verdict::Passed,
            Err(Stop::Failed(why)) => {
                let rule = self.violation(|one| is_fault(check, one));
                // A driver that does not wait may find the fault itself, when it verifies its data.
                let rule = rule.or_else(|| self.violation(|one| one.rule == Violation::Busy));
                Verdict::Failed(match rule {
                    Some(rule) if !why.starts_with(&rule) => format!("{rule}; {why}"),
                    _ => why,
                })
            }
            Err(Stop::Skipped(why)) => Verdict::Skipped(why.to_owned()),
        };
        send(&mut self.pipe.borrow_mut(), &verdict);
    }

    fn outcome(self: &Rc<Self>, check: Check) -> Done {
        match check {
            Check::Found => self.driver.probe(self.chip).map(drop).map_err(Stop::Failed),
            Check::Geometry => self.geometry(),
            Check::Program => self.program(),
            Check::Read => self.read(),
            Check::Erase => self.erase(),
            Check::Polling => self.polling(),
            Check::NoViolation => self.no_violation(),
            Check::BadBlocks => self.bad_blocks(),
            Check::WrongBit => self.wrong_bit(),
            Check::Uncorrectable => self.uncorrectable(),
            Check::FailedBlock => self.failed_block(),
            Check::CutInProgram => {
                self.cut(check, |bench, at, page| bench.driver.program(bench.chip, at, page))
            }
            Check::CutInErase => self.cut(check, |bench, at, _| bench.driver.erase(bench.chip, at)),
            Check::AddressMode => self.address_mode(),
            Check::LockedBlock => self.locked_block(),
        }
    }

    fn handle<T>(&self, work: impl FnOnce(&mut Handle) -> T) -> T {
        c::with(self.chip, work)
    }

    fn chip<T>(&self, work: impl FnOnce(&mut Device) -> T) -> T {
        self.handle(|handle| work(&mut handle.device))
    }

    /// Advances time until the chip is ready, even if the driver did not wait.
    fn rest(&self) {
        self.chip(|chip| {
            let left = chip.busy_until().since(chip.now());
            // A time of more than a century is rejected; in that case the time is not advanced.
            let _ = chip.advance((left + Nanos::from_ms(1)).as_ns());
        });
    }

    /// Probes the chip with the driver and returns its sizes, after a check that they are usable.
    fn probe(&self) -> Result<Geometry, Stop> {
        let geometry = self.driver.probe(self.chip)?;
        self.rest();
        let Geometry { size_bytes, erase_bytes, write_bytes, .. } = geometry;
        let is_usable = write_bytes > 0
            && write_bytes <= 1 << 20
            && erase_bytes >= write_bytes
            && u64::from(erase_bytes) * 4 <= size_bytes
            && size_bytes <= self.spec.facts().size_bytes;
        if is_usable {
            return Ok(geometry);
        }
        failed(format!(
            "unusable sizes: {size_bytes} bytes, eraseblocks of {erase_bytes} bytes, pages of {write_bytes} bytes"
        ))
    }

    /// Contents for a program: a page of a NAND or SPI NOR, the program buffer of a parallel NOR.
    fn page(&self, geometry: &Geometry) -> Vec<u8> {
        let of_chip = match &self.spec {
            ChipSpec::SpiNor(spec) => spec.geometry.page_bytes,
            ChipSpec::ParallelNor(spec) => spec.geometry.buffer_bytes.clamp(16, 1024) as u32,
            ChipSpec::SpiNand(_) | ChipSpec::RawNand(_) => geometry.write_bytes,
        };
        let bytes = of_chip.max(geometry.write_bytes).min(geometry.erase_bytes);
        (0..bytes).map(|at| (at * 7 + at / 256 + 1) as u8).collect()
    }

    /// Size of a row of the array, bytes: a page of NAND.
    fn page_bytes(&self) -> u64 {
        let facts = self.spec.facts();
        let rows = || {
            self.chip(|chip| {
                chip.with_oracle(|oracle| oracle.array(0).map_or(1, |array| array.rows() as u64))
            })
        };
        facts
            .nand
            .map_or_else(|| facts.size_bytes / rows().unwrap_or(1).max(1), |nand| nand.page_bytes.into())
    }

    const fn is_nand(&self) -> bool {
        self.spec.kind().is_nand()
    }

    const fn need_nand(&self) -> Done {
        if self.is_nand() { Ok(()) } else { Err(Stop::Skipped("a NOR has no ECC and no bad blocks")) }
    }

    /// Address of the last good eraseblock, which needs all address bytes.
    fn last_block(&self, geometry: &Geometry) -> u64 {
        let erase_bytes = u64::from(geometry.erase_bytes);
        let bad: Vec<u64> = self.factory_bad(erase_bytes);
        let last = geometry.size_bytes / erase_bytes;
        (0..last).rev().map(|block| block * erase_bytes).find(|at| !bad.contains(at)).unwrap_or(0)
    }

    /// Address of the last good eraseblock between two good ones.
    fn block_between(&self, geometry: &Geometry) -> u64 {
        let erase_bytes = u64::from(geometry.erase_bytes);
        let bad: Vec<u64> = self.factory_bad(erase_bytes);
        let is_good = |block: u64| !bad.contains(&(block * erase_bytes));
        let last = geometry.size_bytes / erase_bytes - 1;
        let between = (1..last).rev().find(|block| (*block - 1..=*block + 1).all(is_good));
        between.unwrap_or(1) * erase_bytes
    }

    /// Addresses of the factory bad blocks.
    fn factory_bad(&self, erase_bytes: u64) -> Vec<u64> {
        let bad = self.chip(|chip| chip.with_oracle(|oracle| oracle.factory_bad()).unwrap_or_default());
        bad.into_iter().map(|block| u64::from(block) * erase_bytes).collect()
    }

    /// Bytes of the array, without the driver.
    fn array(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let page_bytes = self.page_bytes();
        let _ = self.chip(|chip| {
            chip.with_oracle(|oracle| {
                for (number, piece) in bytes.chunks_mut(page_bytes as usize).enumerate() {
                    let page = at / page_bytes + number as u64;
                    let rows = oracle.array(0).map_or(1, |array| array.rows() as u64);
                    if let Some(array) = oracle.array((page / rows) as usize) {
                        array.read((page % rows) as usize, (at % page_bytes) as usize, piece);
                    }
                }
            })
        });
        bytes
    }

    /// Programs a page of the last block with the driver. Returns the geometry, and the address and bytes of the page.
    fn programmed(&self) -> Result<(Geometry, u64, Vec<u8>), Stop> {
        let geometry = self.probe()?;
        let (at, page) = (self.last_block(&geometry), self.page(&geometry));
        self.driver.program(self.chip, at, &page)?;
        self.rest();
        Ok((geometry, at, page))
    }

    fn geometry(&self) -> Done {
        let found = self.driver.probe(self.chip)?;
        let size = self.spec.facts().size_bytes;
        let erase_bytes = erase_bytes(&self.spec);
        if found.size_bytes != size {
            return failed(format!(
                "the driver says {} bytes, and the chip has {size} bytes",
                found.size_bytes
            ));
        }
        if !erase_bytes.contains(&u64::from(found.erase_bytes)) {
            return failed(format!(
                "the driver says eraseblocks of {} bytes, and those of the chip have {} bytes",
                found.erase_bytes,
                erase_bytes.iter().map(u64::to_string).collect::<Vec<String>>().join(" or ")
            ));
        }
        let page = self.page_bytes();
        if self.is_nand() && u64::from(found.write_bytes) != page {
            return failed(format!(
                "the driver says pages of {} bytes, and those of the chip have {page} bytes",
                found.write_bytes
            ));
        }
        Ok(())
    }

    fn program(&self) -> Done {
        let (_, at, page) = self.programmed()?;
        let there = self.array(at, page.len());
        match page.iter().zip(&there).position(|(programmed, there)| programmed != there) {
            None => Ok(()),
            Some(first) => {
                let (at, bytes) = (at + first as u64, page.len());
                failed(format!("after a program of {bytes} bytes the array has other bytes from {at:#x} on"))
            }
        }
    }

    fn read(&self) -> Done {
        let (_, at, page) = self.programmed()?;
        let there = self.array(at, page.len());
        let read = self.driver.read(self.chip, at, page.len())?;
        if read == there {
            Ok(())
        } else {
            failed(format!("the read returned other bytes than the array has at {at:#x}"))
        }
    }

    fn erase(&self) -> Done {
        let geometry = self.probe()?;
        let (block, page) = (self.block_between(&geometry), self.page(&geometry));
        let erase_bytes = u64::from(geometry.erase_bytes);
        let offsets = page_offsets(erase_bytes, page.len() as u64);
        let pages = |block: u64| offsets.iter().map(move |offset| block + *offset);
        let neighbours = [block - erase_bytes, block + erase_bytes];
        for at in [neighbours[0], block, neighbours[1]].into_iter().flat_map(pages) {
            self.driver.program(self.chip, at, &page)?;
            self.rest();
        }
        let array = |at: u64| self.array(at, page.len());
        let kept: Vec<(u64, Vec<u8>)> =
            neighbours.into_iter().flat_map(pages).map(|at| (at, array(at))).collect();
        self.driver.erase(self.chip, block)?;
        self.rest();
        let left = pages(block).find(|at| array(*at).iter().any(|byte| *byte != 0xFF));
        if let Some(at) = left {
            return failed(format!(
                "the block of {erase_bytes} bytes at {block:#x} is not erased: its page at {at:#x} has data"
            ));
        }
        let changed = kept.iter().find(|(at, before)| array(*at) != *before);
        if let Some((at, _)) = changed {
            return failed(format!(
                "the erase of the block of {erase_bytes} bytes at {block:#x} changed the page at {at:#x} of another block"
            ));
        }
        Ok(())
    }

    fn polling(&self) -> Done {
        let geometry = self.probe()?;
        let (at, page) = (self.last_block(&geometry), self.page(&geometry));
        self.driver.program(self.chip, at, &page)?;
        self.is_ready("program")?;
        self.rest();
        self.driver.erase(self.chip, at)?;
        self.is_ready("erase")
    }

    fn is_ready(&self, operation: &str) -> Done {
        let left = self.chip(|chip| chip.busy_until().since(chip.now()));
        if left == Nanos::ZERO {
            Ok(())
        } else {
            failed(format!("the {operation} returned {left} before its end"))
        }
    }

    fn no_violation(&self) -> Done {
        let (_, at, page) = self.programmed()?;
        self.driver.read(self.chip, at, page.len())?;
        self.rest();
        self.driver.erase(self.chip, at)?;
        self.rest();
        self.driver.release(self.chip)?;
        self.violation(|one| is_fault(Check::NoViolation, one)).map_or(Ok(()), failed)
    }

    /// First violation of a kind that the driver caused in a check, with the bytes of the command.
    fn violation(&self, is_wanted: impl Fn(&Recorded) -> bool) -> Option<String> {
        let first =
            self.chip(|chip| chip.violations()?.recorded().iter().find(|one| is_wanted(one)).cloned())?;
        let bytes: Vec<String> = first.bytes.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Some(format!("{}: {}", first.rule, bytes.join(" ")))
    }

    fn bad_blocks(&self) -> Done {
        self.need_nand()?;
        let geometry = self.probe()?;
        let bad = self.factory_bad(u64::from(geometry.erase_bytes));
        for at in bad.iter().copied().chain([self.last_block(&geometry)]) {
            let (is, says) = (bad.contains(&at), self.driver.is_bad(self.chip, at)?);
            if is != says {
                let word = |bad| if bad { "bad" } else { "good" };
                return failed(format!(
                    "the block at {at:#x} is {}, and the driver says {}",
                    word(is),
                    word(says)
                ));
            }
        }
        Ok(())
    }

    fn flip(&self, at: u64, bits: impl Iterator<Item = u32>) {
        let page = (at / self.page_bytes()) as u32;
        bits.for_each(|bit| drop(self.chip(|chip| chip.flip_bit(page, bit))));
    }

    fn wrong_bit(&self) -> Done {
        self.need_nand()?;
        let (_, at, page) = self.programmed()?;
        self.flip(at, [5].into_iter());
        let read = self.driver.read(self.chip, at, page.len())?;
        if read == page { Ok(()) } else { failed("a wrong bit was not corrected") }
    }

    fn uncorrectable(&self) -> Done {
        self.need_nand()?;
        let (_, at, page) = self.programmed()?;
        self.flip(at, (0..2000).map(|number| number * 2));
        match self.driver.read(self.chip, at, page.len()) {
            Ok(_) => failed("2000 wrong bits of a page were read without an error"),
            Err(_) => Ok(()),
        }
    }

    fn failed_block(&self) -> Done {
        let geometry = self.probe()?;
        let (at, page) = (self.last_block(&geometry), self.page(&geometry));
        let broken = self.chip(|chip| chip.break_block(at, true));
        if broken.is_err() {
            return Err(Stop::Skipped("blocks of this chip do not fail"));
        }
        let programmed = self.driver.program(self.chip, at, &page);
        self.rest();
        if programmed.is_ok() && self.array(at, page.len()) != page {
            return failed("a failed program was not reported");
        }
        let erased = self.driver.erase(self.chip, at);
        if erased.is_ok() && self.is_nand() { failed("a failed erase was not reported") } else { Ok(()) }
    }

    /// Cuts power in an operation. The driver's call does not return: the remaining part of the check runs inside this call.
    fn cut(self: &Rc<Self>, check: Check, operation: fn(&Self, u64, &[u8]) -> Result<(), String>) -> Done {
        let (_, at, page) = self.programmed()?;
        self.driver.erase(self.chip, at)?;
        self.rest();
        let (bench, bytes) = (Rc::clone(self), page.clone());
        let power_lost = move |_| bench.end(check, bench.use_after_cut(at, &bytes));
        self.handle(|handle| {
            handle.power_lost = Some(Rc::new(power_lost));
            handle.device.order_cut(Some(PowerCut::During { operation: 1, share: 0.5 }));
        });
        operation(self, at, &page)?;
        // A driver that does not wait for the operation has returned before the cut.
        self.rest();
        if self.chip(|chip| chip.power_lost()) {
            return self.use_after_cut(at, &page);
        }
        Err(Stop::Skipped("the driver did not begin the operation"))
    }

    /// Boots after a power cut, and uses the block in which the cut happened.
    fn use_after_cut(&self, at: u64, page: &[u8]) -> Done {
        self.chip(Device::restore_power).map_err(|failure| failure.message)?;
        self.rest();
        self.probe()?;
        self.driver.erase(self.chip, at)?;
        self.rest();
        self.driver.program(self.chip, at, page)?;
        self.rest();
        let read = self.driver.read(self.chip, at, page.len())?;
        if read == page {
            Ok(())
        } else {
            failed("after the power cut other bytes were read than were programmed")
        }
    }

    fn address_mode(&self) -> Done {
        const THREE_BYTES: u64 = 16 << 20;
        if self.is_nand() || !self.spec.kind().is_spi() || self.spec.facts().size_bytes <= THREE_BYTES {
            return Err(Stop::Skipped("the chip has no four address bytes"));
        }
        let (_, at, page) = self.programmed()?;
        self.driver.read(self.chip, at, page.len())?;
        self.driver.program(self.chip, 0, &page)?;
        self.rest();
        self.driver.release(self.chip)?;
        self.rest();
        let mut read = vec![0; page.len()];
        self.chip(|chip| {
            chip.spi_clock(BOOT_ROM_HZ)?;
            chip.spi_command(&READ_AT_0, &mut read)
        })
        .map_err(|failure| failure.message)?;
        if read == self.array(0, read.len()) {
            Ok(())
        } else {
            failed("the chip does not take READ 03h with three address bytes any more")
        }
    }

    fn locked_block(&self) -> Done {
        /// Block protection bits 0 to 2 of the status register, all set.
        const ALL_LOCKED: u8 = 0x1C;
        if !matches!(&self.spec, ChipSpec::SpiNor(_)) {
            return Err(Stop::Skipped("the chip has no block protection bits in a status register"));
        }
        let geometry = self.probe()?;
        let (at, page) = (self.last_block(&geometry), self.page(&geometry));
        for command in [&[0x06][..], &[0x01, ALL_LOCKED]] {
            self.chip(|chip| chip.spi_command(command, &mut [])).map_err(|failure| failure.message)?;
        }
        self.rest();
        let programmed = self.driver.program(self.chip, at, &page);
        self.rest();
        match (self.array(at, page.len()) == page, programmed) {
            (true, _) => Err(Stop::Skipped("these bits do not lock the last block")),
            (false, Ok(())) => {
                failed(format!("the program of a locked block at {at:#x} was reported as done"))
            }
            (false, Err(_)) => Ok(()),
        }
    }
}

/// Clock of a boot ROM that does not know the chip, Hz.
const BOOT_ROM_HZ: u32 = 1_000_000;

/// READ 03h at address 0, as boot ROMs send it.
const READ_AT_0: [u8; 4] = [0x03, 0, 0, 0];

/// True for a violation that explains a failed check. Other checks cover commands to a busy chip. A chip that loses power, a lock and the
/// command of a boot ROM belong to their checks.
fn is_fault(check: Check, one: &Recorded) -> bool {
    match one.rule {
        Violation::Busy | Violation::NoPower => false,
        Violation::Protected => check != Check::LockedBlock,
        _ => check != Check::AddressMode || !one.bytes.starts_with(&READ_AT_0),
    }
}

/// Offsets of the first, a middle and the last page of a block.
fn page_offsets(erase_bytes: u64, page_bytes: u64) -> Vec<u64> {
    let pages = erase_bytes / page_bytes;
    let mut offsets = vec![0, pages / 2 * page_bytes, pages.saturating_sub(1) * page_bytes];
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

/// Sizes of the blocks that the chip can erase, bytes.
fn erase_bytes(spec: &ChipSpec) -> Vec<u64> {
    match spec {
        ChipSpec::SpiNor(spec) => spec.erase_types().iter().map(|kind| kind.bytes.into()).collect(),
        ChipSpec::ParallelNor(spec) => {
            spec.geometry.regions.iter().map(|region| region.block_bytes).collect()
        }
        ChipSpec::SpiNand(_) | ChipSpec::RawNand(_) => spec
            .facts()
            .nand
            .iter()
            .map(|nand| u64::from(nand.page_bytes) * u64::from(nand.pages_per_block))
            .collect(),
    }
}
