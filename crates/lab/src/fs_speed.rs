//! The speed of a filesystem on the flash of a setup: files written and read in pieces, mounted, created and removed, in virtual
//! time. What the flash and its driver take is counted; the time that the CPU needs for compression and checksums is not.

use crate::error::Error;
use crate::machine::{self, Layers, OnDevice, failed};
use crate::rig::{Device, Rig};
use crate::speed::{Corrections, Measured, pattern, printed_kib_s};
use floatgate_device::Span;
use floatgate_media::ubifs::ROOT_INODE;
use floatgate_mtd::{Breakdown, Instant, Mtd};
use floatgate_stack::fs::{FileSystem, NewFile, NewKind, Result as FsResult};
use serde::Serialize;

/// A filesystem on the simulated flash.
type Fs = Box<dyn OnDevice<Box<dyn Device>>>;

/// Sizes of the pieces in which files are written and read, bytes.
const PIECES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Files that are created and removed, and bytes in each.
const SMALL_FILES: u64 = 100;
const SMALL_BYTES: usize = 2048;

/// Most bytes of a file: a part of the blocks asked for that fits.
const SHARE_OF_FREE: u64 = 4;

/// An operation of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Attach UBI.
    Attach,
    /// Mount the filesystem on attached UBI.
    Mount,
    /// Create a file and bring it to flash (`sync`).
    Create,
    /// Write a file of 64 KiB and bring it to flash (`fsync`).
    Write,
    /// Read a file of 64 KiB after mounting.
    Read,
    /// Remove a file of 64 KiB and bring that to flash (`sync`).
    Remove,
}

/// The filesystem that was tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilesystemReport {
    /// Kind of the filesystem.
    pub kind: machine::FilesystemKind,
    /// LEBs of its volume; of a JFFS2, eraseblocks.
    pub lebs: u32,
    /// Bytes of each.
    pub leb_bytes: u32,
    /// Bytes that files could take when it was empty.
    pub free_bytes: u64,
    /// Bytes of each large file that was written and read.
    pub file_bytes: u64,
}

/// Result of the tests.
#[derive(Debug)]
pub struct Tested {
    /// The device that was tested.
    pub device: Box<dyn Device>,
    /// The filesystem.
    pub report: FilesystemReport,
    /// The tests in order.
    pub tests: Vec<Measured>,
}

/// Names of the tests in their order, and whether bytes of files count. A filesystem that is not attached has no `attach`.
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

/// Runs the tests on a new filesystem that fills the flash.
///
/// # Errors
/// There can be no filesystem; the flash or the filesystem fails.
pub fn run(rig: Rig, filesystem: machine::Filesystem, file_bytes: u64) -> Result<Tested, Error> {
    let layers = filesystem.layers()?;
    let fs = machine::make(rig, &layers)?;
    let free_bytes = fs.space().available_blocks * 4096;
    let fitting = free_bytes / SHARE_OF_FREE / PIECES[2] as u64 * PIECES[2] as u64;
    let file_bytes = file_bytes.min(fitting.max(PIECES[1] as u64));
    let (lebs, leb_bytes) = fs.eraseblocks();
    let report = FilesystemReport { kind: filesystem.kind, lebs, leb_bytes, free_bytes, file_bytes };
    let mut bench = Bench::new(fs, layers, file_bytes);
    bench.all()?;
    let fs = bench.fs.take().ok_or_else(gone)?;
    Ok(Tested { device: fs.abandon(), report, tests: bench.tests })
}

/// Runs one operation on a new filesystem; returns what it took, its start and what every resource did meanwhile.
///
/// # Errors
/// As [`run`].
pub fn trace(
    rig: Rig,
    filesystem: machine::Filesystem,
    operation: FileOperation,
) -> Result<(Measured, Instant, Vec<Span>), Error> {
    let layers = filesystem.layers()?;
    let mut fs = machine::make(rig, &layers)?;
    let file_bytes = PIECES[1] as u64;
    let data = pattern(PIECES[1]);
    if operation != FileOperation::Write {
        write_file(&mut *fs, b"file", file_bytes, &data).map_err(failed("write"))?;
    }
    let mut bench = Bench::new(fs, layers, file_bytes);
    bench.is_recorded = true;
    match operation {
        FileOperation::Attach | FileOperation::Mount => bench.mount_again()?,
        FileOperation::Create => bench.test("create-file", 0, |fs| {
            fs.create(ROOT_INODE, b"new", &FILE)?;
            fs.sync().map(|()| 1)
        })?,
        FileOperation::Write => {
            bench.test("write-file", file_bytes, |fs| write_file(fs, b"file", file_bytes, &data))?;
        }
        FileOperation::Read => {
            bench.mount_again()?;
            bench.test("read-file", file_bytes, |fs| read_file(fs, b"file", PIECES[1]))?;
        }
        FileOperation::Remove => bench.test("remove-file", 0, |fs| {
            fs.unlink(ROOT_INODE, b"file")?;
            fs.sync().map(|()| 1)
        })?,
    }
    if operation == FileOperation::Attach && filesystem.kind != machine::FilesystemKind::Ubifs {
        return Err(Error::asked("nothing is attached below this filesystem", "trace `mount` instead"));
    }
    // Attaching and mounting are one behind the other.
    let last = if operation == FileOperation::Attach { 0 } else { bench.tests.len() - 1 };
    let mut records = bench.records;
    let (start, spans) = records.swap_remove(last);
    Ok((bench.tests.swap_remove(last), start, spans))
}

struct Bench {
    /// Away only while it is mounted anew.
    fs: Option<Fs>,
    layers: Layers,
    file_bytes: u64,
    tests: Vec<Measured>,
    /// True when each test is recorded.
    is_recorded: bool,
    /// Start of each test that was recorded, and what every resource did in it.
    records: Vec<(Instant, Vec<Span>)>,
}

fn gone() -> Error {
    Error::asked("the filesystem did not come back", "this is a fault of floatgate: please report it")
}

/// Name of the file that is written in pieces of this size.
fn name_of(piece: usize) -> String {
    if piece >= 1 << 20 { format!("{} MiB", piece >> 20) } else { format!("{} KiB", piece >> 10) }
}

impl Bench {
    const fn new(fs: Fs, layers: Layers, file_bytes: u64) -> Self {
        Self { fs: Some(fs), layers, file_bytes, tests: Vec::new(), is_recorded: false, records: Vec::new() }
    }

    /// Starts to record what the device does.
    fn begin(&self, device: &mut dyn Device) {
        device.host().record(self.is_recorded);
    }

    /// A test has ended.
    fn end(&mut self, device: &mut dyn Device, start: Instant, test: Measured) {
        if self.is_recorded {
            self.records.push((start, device.host().take_spans()));
            device.host().record(false);
        }
        self.tests.push(test);
    }

    fn all(&mut self) -> Result<(), Error> {
        let random = pattern(PIECES[2]);
        for piece in PIECES {
            let (name, bytes) = (name_of(piece), self.file_bytes);
            let random = &random[..piece];
            self.test(&format!("write {name}"), bytes, |fs| write_file(fs, name.as_bytes(), bytes, random))?;
        }
        let bytes = self.file_bytes;
        self.test("write zeros", bytes, |fs| write_file(fs, b"zeros", bytes, &vec![0; PIECES[1]]))?;
        self.test("create files", SMALL_FILES * SMALL_BYTES as u64, |fs| create_files(fs, &random))?;
        self.mount_again()?;
        for piece in PIECES {
            let name = name_of(piece);
            self.test(&format!("read {name}"), bytes, |fs| read_file(fs, name.as_bytes(), piece))?;
        }
        self.test("list files", 0, list_files)?;
        self.test("remove files", 0, remove_files)
    }

    /// Times something. `bytes` are those of the files; the calls are counted by `work`.
    fn test(
        &mut self,
        name: &str,
        bytes: u64,
        work: impl FnOnce(&mut dyn FileSystem) -> FsResult<u64>,
    ) -> Result<(), Error> {
        let mut fs = self.fs.take().ok_or_else(gone)?;
        let before = Clock::of(&mut fs);
        self.begin(fs.device_mut().as_mut());
        let calls = work(&mut *fs).map_err(failed(name))?;
        let test = before.measured(name, bytes, calls, &Clock::of(&mut fs));
        self.end(fs.device_mut().as_mut(), before.now, test);
        self.fs = Some(fs);
        Ok(())
    }

    /// Unmounts, attaches and mounts: two tests.
    fn mount_again(&mut self) -> Result<(), Error> {
        let in_words = |why: String| Error::asked(why, "this is a fault of floatgate: please report it");
        let fs = self.fs.take().ok_or_else(gone)?;
        let (mut device, now) = fs.give_back().map_err(|(why, _)| in_words(why))?;
        let mut start = Clock::at(now, device.as_mut());
        self.begin(device.as_mut());
        let layers = self.layers.clone();
        let mounted = layers.mount(device, now, &mut |device, now| {
            let attached = Clock::at(now, device.as_mut());
            self.end(device.as_mut(), start.now, start.measured("attach", 0, 1, &attached));
            self.begin(device.as_mut());
            start = attached;
        });
        let mut fs = mounted.map_err(|(why, _)| in_words(why))?;
        let test = start.measured("mount", 0, 1, &Clock::of(&mut fs));
        self.end(fs.device_mut().as_mut(), start.now, test);
        self.fs = Some(fs);
        Ok(())
    }
}

/// A moment, where the time went up to it, and what was corrected.
struct Clock {
    now: Instant,
    spent: Breakdown,
    corrected: Corrections,
}

impl Clock {
    fn of(fs: &mut Fs) -> Self {
        Self::at(fs.now(), fs.device_mut().as_mut())
    }

    fn at(now: Instant, device: &mut dyn Device) -> Self {
        Self { now, spent: device.breakdown(), corrected: device.host().corrections() }
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
            breakdown_ns: end.spent - self.spent,
            corrected: end.corrected - self.corrected,
        }
    }
}

const FILE: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

/// Writes a file in pieces and brings it to flash (`dd conv=fsync`).
fn write_file(fs: &mut dyn FileSystem, name: &[u8], bytes: u64, piece: &[u8]) -> FsResult<u64> {
    let inode = fs.create(ROOT_INODE, name, &FILE)?;
    let (mut at, mut calls) = (0, 0);
    while at < bytes {
        let piece = &piece[..piece.len().min((bytes - at) as usize)];
        fs.write(inode, at, piece)?;
        (at, calls) = (at + piece.len() as u64, calls + 1);
    }
    fs.fsync(inode)?;
    Ok(calls)
}

fn read_file(fs: &mut dyn FileSystem, name: &[u8], piece: usize) -> FsResult<u64> {
    let inode = fs.lookup(ROOT_INODE, name)?;
    let (mut buffer, mut at, mut calls) = (vec![0; piece], 0, 0);
    loop {
        match fs.read(inode, at, &mut buffer)? {
            0 => return Ok(calls),
            read => (at, calls) = (at + read as u64, calls + 1),
        }
    }
}

fn small_name(number: u64) -> Vec<u8> {
    format!("small {number}").into_bytes()
}

/// Small files in one directory, brought to flash at the end (`sync`).
fn create_files(fs: &mut dyn FileSystem, data: &[u8]) -> FsResult<u64> {
    for number in 0..SMALL_FILES {
        let inode = fs.create(ROOT_INODE, &small_name(number), &FILE)?;
        fs.write(inode, 0, &data[..SMALL_BYTES])?;
    }
    fs.sync()?;
    Ok(SMALL_FILES)
}

/// `ls -l`.
fn list_files(fs: &mut dyn FileSystem) -> FsResult<u64> {
    let entries = fs.read_dir(ROOT_INODE, None, usize::MAX)?;
    for entry in &entries {
        fs.attributes(entry.inode)?;
    }
    Ok(entries.len() as u64)
}

fn remove_files(fs: &mut dyn FileSystem) -> FsResult<u64> {
    for number in 0..SMALL_FILES {
        fs.unlink(ROOT_INODE, &small_name(number))?;
    }
    fs.sync()?;
    Ok(SMALL_FILES)
}
