//! Speed of a filesystem on the flash of a setup, in virtual time: files are written and read in pieces, mounted,
//! created and removed. Programs use the filesystem through [`floatgate_sim::vfs`]. As in [`crate::fs_compare`], files
//! are written and read on a copy of the empty filesystem, so both give the same figures.

use crate::fs_compare::contents::{RANDOM, data};
use crate::fs_compare::mounted::{file_bytes, read_file, write_file};
use crate::speed::{Corrections, FilesystemReport, Measured, printed_kib_s};
use floatgate_config::Config;
use floatgate_device::Record;
use floatgate_device::host::HostProfile;
use floatgate_media::ubifs::ROOT_INODE;
use floatgate_mtd::{Breakdown, Counted, Instant, Mtd, Phase};
use floatgate_sim::cpu::Cpu;
use floatgate_sim::error::Error;
use floatgate_sim::machine::{self, Layers, failed};
use floatgate_sim::page_cache::PageCacheProfile;
use floatgate_sim::rig::{Device, Rig};
use floatgate_sim::vfs::{Flash, Vfs};
use floatgate_stack::fs::Result as FsResult;

/// Sizes of the pieces in which files are written and read, bytes.
const PIECES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Number of files that are created and removed, and their size in bytes.
const SMALL_FILES: u64 = 100;
const SMALL_BYTES: usize = 2048;

/// Operation of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Attaches UBI.
    Attach,
    /// Mounts the filesystem on an attached UBI device.
    Mount,
    /// Creates a file and writes it to flash (`sync`).
    Create,
    /// Writes a file of 64 KiB and syncs it (`fsync`).
    Write,
    /// Reads a file of 64 KiB after a mount.
    Read,
    /// Removes a file of 64 KiB and writes the change to flash (`sync`).
    Remove,
}

/// Result of the tests of a filesystem.
#[derive(Debug)]
pub struct Tested {
    /// The device that was tested.
    pub device: Box<dyn Device>,
    /// Kind, sizes and space of the filesystem.
    pub report: FilesystemReport,
    /// The tests in order.
    pub tests: Vec<Measured>,
}

/// Names of the tests in order, and whether they count bytes of files. A filesystem without UBI has no `attach`.
pub(crate) fn tests() -> Vec<(String, bool)> {
    let of_pieces = |what: &'static str| PIECES.map(|piece| (format!("{what} {}", name_of(piece)), true));
    let others = |all: &[(&str, bool)]| -> Vec<(String, bool)> {
        all.iter().map(|(name, moves_bytes)| ((*name).to_owned(), *moves_bytes)).collect()
    };
    let mut all = of_pieces("write").to_vec();
    all.extend(others(&[("write zeros", true), ("create files", true), ("attach", false), ("mount", false)]));
    all.extend(of_pieces("read"));
    all.extend(others(&[("list files", false), ("remove files", false)]));
    all
}

/// Runs all tests on a new filesystem that fills the flash.
///
/// # Errors
/// The filesystem is impossible; the flash or the filesystem fails.
pub fn run(rig: Rig, config: &Config, kind: machine::FilesystemKind, asked: u64) -> Result<Tested, Error> {
    let (mut bench, empty) = Bench::new(rig, config, kind)?;
    let free_bytes = empty.space().available_blocks * 4096;
    let file_bytes = file_bytes(&empty, asked);
    let (lebs, leb_bytes) = empty.eraseblocks();
    let cpu_is_known = bench.cpu.is_known();
    let report = FilesystemReport { kind, lebs, leb_bytes, free_bytes, file_bytes, cpu_is_known };
    let fs = bench.all(&empty, file_bytes)?;
    Ok(Tested { device: fs.into_fs().abandon().into_inner(), report, tests: bench.tests })
}

/// Runs one operation on a new filesystem. Returns its measurement, its start, and the activity of every resource.
///
/// # Errors
/// The errors of [`run`].
pub fn trace(
    rig: Rig,
    config: &Config,
    kind: machine::FilesystemKind,
    operation: FileOperation,
) -> Result<(Measured, Instant, Record), Error> {
    let (mut bench, mut fs) = Bench::new(rig, config, kind)?;
    let (bytes, random) = (PIECES[1], data(RANDOM));
    if operation != FileOperation::Write {
        write_file(&mut fs, b"file", bytes, &random, bytes).map_err(failed("write"))?;
    }
    bench.is_recorded = true;
    match operation {
        FileOperation::Attach | FileOperation::Mount => drop(bench.mount_again(fs)?),
        FileOperation::Create => bench.test(&mut fs, "create-file", 0, |fs| {
            fs.create(ROOT_INODE, b"new")?;
            fs.sync().map(|()| 1)
        })?,
        FileOperation::Write => bench.test(&mut fs, "write-file", bytes, |fs| {
            write_file(fs, b"file", bytes, &random, bytes).map(|_| 1)
        })?,
        FileOperation::Read => {
            let mut fs = bench.mount_again(fs)?;
            bench.test(&mut fs, "read-file", bytes, |fs| read_file(fs, b"file", bytes as usize))?;
        }
        FileOperation::Remove => bench.test(&mut fs, "remove-file", 0, |fs| {
            fs.unlink(ROOT_INODE, b"file")?;
            fs.sync().map(|()| 1)
        })?,
    }
    if operation == FileOperation::Attach && kind != machine::FilesystemKind::Ubifs {
        return Err(Error::request("nothing is attached below this filesystem", "trace `mount` instead"));
    }
    // Attach and mount are two consecutive tests.
    let last = if operation == FileOperation::Attach { 0 } else { bench.tests.len() - 1 };
    let mut records = bench.records;
    let (start, record) = records.swap_remove(last);
    Ok((bench.tests.swap_remove(last), start, record))
}

/// Creates a new filesystem that fills the flash.
///
/// # Errors
/// The errors of [`run`].
pub(crate) fn empty(rig: Rig, config: &Config, kind: machine::FilesystemKind) -> Result<Vfs, Error> {
    Bench::new(rig, config, kind).map(|(_, fs)| fs)
}

struct Bench {
    layers: Layers,
    cpu: Cpu,
    page_cache: PageCacheProfile,
    tests: Vec<Measured>,
    /// True if each test is recorded.
    is_recorded: bool,
    /// Start of each recorded test, and the activity of every resource in it.
    records: Vec<(Instant, Record)>,
}

/// Name of the tests with pieces of this size.
fn name_of(piece: u64) -> String {
    if piece >= 1 << 20 { format!("{} MiB", piece >> 20) } else { format!("{} KiB", piece >> 10) }
}

impl Bench {
    /// Creates the tests with a new filesystem.
    fn new(rig: Rig, config: &Config, kind: machine::FilesystemKind) -> Result<(Self, Vfs), Error> {
        let Rig { mut device, chip, .. } = rig;
        let now = device.host().now();
        let layers = machine::Filesystem { kind, ..machine::Filesystem::of_setup(config)? }.layers()?;
        let fs = machine::make_on(&chip, Counted::new(device), now, &layers)?;
        let bench = Self {
            layers,
            cpu: Cpu::of(&config.extract_or_default::<HostProfile>("host")?),
            page_cache: config.extract_or_default("page_cache")?,
            tests: Vec::new(),
            is_recorded: false,
            records: Vec::new(),
        };
        let fs = Vfs::on_new(fs, bench.cpu, bench.page_cache).map_err(failed("sync"))?;
        Ok((bench, fs))
    }

    /// Starts to record the activity of the device.
    fn begin(&self, flash: &mut Flash) {
        flash.inner_mut().host().record(self.is_recorded);
    }

    /// Records the end of a test.
    fn end(&mut self, flash: &mut Flash, start: Instant, test: Measured) {
        if self.is_recorded {
            let host = flash.inner_mut().host();
            self.records.push((start, host.take_record()));
            host.record(false);
        }
        self.tests.push(test);
    }

    /// Runs all tests; returns the filesystem of the last one.
    fn all(&mut self, empty: &Vfs, bytes: u64) -> Result<Vfs, Error> {
        let (random, zeros) = (data(RANDOM), data("zeros"));
        let cases = PIECES.map(|piece| (format!("write {}", name_of(piece)), piece, &random));
        for (name, piece, content) in cases.into_iter().chain([("write zeros".to_owned(), PIECES[1], &zeros)])
        {
            self.test(&mut empty.clone(), &name, bytes, |fs| {
                write_file(fs, b"file", bytes, content, piece).map(|_| bytes.div_ceil(piece))
            })?;
        }
        let mut small = empty.clone();
        self.test(&mut small, "create files", SMALL_FILES * SMALL_BYTES as u64, |fs| {
            create_files(fs, &random)
        })?;
        let mut small = self.mount_again(small)?;
        let mut large = empty.clone();
        write_file(&mut large, b"file", bytes, &random, PIECES[1])
            .map_err(failed("writing the file to read"))?;
        let mut large = self.mounted_again(large, &mut |_, _, _| ())?;
        // After this, JFFS2 does not read again what it has already checked.
        large.finish_background_work().map_err(failed("checking after the mount"))?;
        for piece in PIECES {
            self.test(&mut large.clone(), &format!("read {}", name_of(piece)), bytes, |fs| {
                read_file(fs, b"file", piece as usize)
            })?;
        }
        self.test(&mut small, "list files", 0, list_files)?;
        self.test(&mut small, "remove files", 0, remove_files)?;
        Ok(small)
    }

    /// Measures an operation. `bytes` is the amount of file data; `work` returns the number of calls.
    fn test(
        &mut self,
        fs: &mut Vfs,
        name: &str,
        bytes: u64,
        work: impl FnOnce(&mut Vfs) -> FsResult<u64>,
    ) -> Result<(), Error> {
        let before = Clock::of(fs);
        self.begin(fs.flash_mut());
        let calls = work(fs).map_err(failed(name))?;
        let test = before.measured(name, bytes, calls, &Clock::of(fs));
        self.end(fs.flash_mut(), before.now, test);
        Ok(())
    }

    /// Unmounts, attaches and mounts; this makes two tests.
    fn mount_again(&mut self, fs: Vfs) -> Result<Vfs, Error> {
        let mut start = None;
        let mut fs = self.mounted_again(fs, &mut |bench, flash, now| {
            let clock = Clock::at(now, flash);
            if let Some(before) = start.replace(clock) {
                let scan = bench.cpu.headers(clock.reads - before.reads);
                let mut test = before.measured("attach", 0, 1, &clock);
                test.ns += scan.as_ns();
                test.breakdown_ns.add(Phase::Cpu, scan);
                bench.end(flash, before.now, test);
            }
            bench.begin(flash);
        })?;
        if let Some(before) = start {
            let test = before.measured("mount", 0, 1, &Clock::of(&mut fs));
            self.end(fs.flash_mut(), before.now, test);
        }
        Ok(fs)
    }

    /// Unmounts, attaches and mounts. `step` is called before the attach, and after UBI is attached.
    fn mounted_again(
        &mut self,
        mut fs: Vfs,
        step: &mut dyn FnMut(&mut Self, &mut Flash, Instant),
    ) -> Result<Vfs, Error> {
        let in_words = |why: String| Error::request(why, "this is a fault of floatgate: please report it");
        fs.sync().map_err(failed("sync"))?;
        let (mut flash, now) = fs.into_fs().into_device().map_err(|(why, _)| in_words(why))?;
        let before = flash.operations();
        flash.inner_mut().forget_bad_blocks();
        step(self, &mut flash, now);
        let layers = self.layers.clone();
        let mounted = layers.mount(flash, now, &mut |flash, now| step(self, flash, now));
        let fs = mounted.map_err(|(why, _)| in_words(why))?;
        Ok(Vfs::new(fs, self.cpu, self.page_cache, before))
    }
}

/// A moment, with the times by phase up to it and the number of corrected bits.
#[derive(Clone, Copy)]
struct Clock {
    now: Instant,
    spent: Breakdown,
    corrected: Corrections,
    /// Number of read calls.
    reads: u64,
}

impl Clock {
    fn of(fs: &mut Vfs) -> Self {
        let now = fs.moment().now;
        Self::at(now, fs.flash_mut())
    }

    fn at(now: Instant, flash: &mut Flash) -> Self {
        let reads = flash.operations().reads;
        Self { now, spent: flash.breakdown(), corrected: flash.inner_mut().host().corrections(), reads }
    }

    fn measured(&self, name: &str, bytes: u64, calls: u64, end: &Self) -> Measured {
        let elapsed = end.now.since(self.now);
        Measured {
            name: name.to_owned(),
            bytes,
            calls,
            ns: elapsed.as_ns(),
            printed_kib_s: printed_kib_s(bytes / 1024, elapsed),
            exact_kib_s: bytes as f64 / 1024.0 / elapsed.as_secs_f64().max(1e-9),
            interval: None,
            mj_per_mib: None,
            breakdown_ns: end.spent - self.spent,
            corrected: end.corrected - self.corrected,
        }
    }
}

fn small_name(number: u64) -> Vec<u8> {
    format!("small {number}").into_bytes()
}

/// Creates small files in one directory, and syncs them at the end (`sync`).
fn create_files(fs: &mut Vfs, data: &[u8]) -> FsResult<u64> {
    for number in 0..SMALL_FILES {
        let inode = fs.create(ROOT_INODE, &small_name(number))?;
        fs.write(inode, 0, &data[..SMALL_BYTES])?;
    }
    fs.sync()?;
    Ok(SMALL_FILES)
}

/// Lists files like `ls -l`.
fn list_files(fs: &mut Vfs) -> FsResult<u64> {
    let entries = fs.call(|fs| fs.read_dir(ROOT_INODE, None, usize::MAX))?;
    for entry in &entries {
        fs.call(|fs| fs.attributes(entry.inode))?;
    }
    Ok(entries.len() as u64)
}

fn remove_files(fs: &mut Vfs) -> FsResult<u64> {
    for number in 0..SMALL_FILES {
        fs.unlink(ROOT_INODE, &small_name(number))?;
    }
    fs.sync()?;
    Ok(SMALL_FILES)
}
