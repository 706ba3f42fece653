//! Linux's MTD character devices: `/dev/mtdN`, their folder in sysfs, and the two ioctls that reads and writes do not replace.

use super::{Counters, Flash, Shape};
use crate::target::TargetError;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Major number of MTD character devices (Linux: `MTD_CHAR_MAJOR`).
const MAJOR: u32 = 90;

/// Largest eraseblock that is believed, in bytes: buffers have its size.
const ERASE_MAX: u64 = 64 << 20;

/// An MTD character device.
#[derive(Debug)]
pub struct CharDevice {
    file: File,
    folder: PathBuf,
    shape: Shape,
}

impl CharDevice {
    /// True for the path of an MTD character device.
    pub fn is_one(path: &Path) -> bool {
        path.metadata().is_ok_and(|metadata| {
            metadata.file_type().is_char_device() && rustix::fs::major(metadata.rdev()) == MAJOR
        })
    }

    /// Opens a device, to write as well when `writes` is set.
    ///
    /// # Errors
    /// An error of the operating system; `InvalidData` when sysfs has no sizes of the device.
    pub fn open(path: &Path, writes: bool) -> io::Result<Self> {
        let metadata = path.metadata()?;
        // Two numbers for each device: the odd one is read-only.
        let number = rustix::fs::minor(metadata.rdev()) / 2;
        let folder = PathBuf::from(format!("/sys/class/mtd/mtd{number}"));
        let shape = shape(&folder)?;
        let file = OpenOptions::new().read(true).write(writes).open(path)?;
        Ok(Self { file, folder, shape })
    }
}

/// The sizes in a folder of sysfs.
fn shape(folder: &Path) -> io::Result<Shape> {
    let text = |name: &str| Ok::<_, io::Error>(std::fs::read_to_string(folder.join(name))?.trim().to_owned());
    let number = |name: &str, most: u64| {
        let wrong = || {
            let path = folder.join(name);
            io::Error::new(ErrorKind::InvalidData, format!("{}: no size from 1 to {most}", path.display()))
        };
        text(name)?.parse::<u64>().ok().filter(|value| (1..=most).contains(value)).ok_or_else(wrong)
    };
    Ok(Shape {
        kind: text("type")?,
        name: text("name")?,
        size_bytes: number("size", u64::MAX)?,
        erase_bytes: number("erasesize", ERASE_MAX)? as u32,
        write_bytes: number("writesize", ERASE_MAX)? as u32,
    })
}

fn failed(operation: &'static str, position: u64, bytes: u64, error: &impl ToString) -> TargetError {
    TargetError { operation, position, bytes, reason: error.to_string() }
}

#[expect(clippy::disallowed_methods, reason = "the edge: this is the clock of real devices")]
fn timed(call: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
    let start = Instant::now();
    call()?;
    Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

impl Flash for CharDevice {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn is_bad(&mut self, block: u64) -> Result<bool, TargetError> {
        let position = block * u64::from(self.shape.erase_bytes);
        match ioctl::is_bad(&self.file, position) {
            // A NOR has no bad blocks.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOTTY) => Ok(false),
            other => other.map_err(|error| failed("bad block test", position, 0, &error)),
        }
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        let bytes = buf.len() as u64;
        timed(|| self.file.read_exact_at(buf, position))
            .map_err(|error| failed("read", position, bytes, &error))
    }

    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        let bytes = data.len() as u64;
        timed(|| self.file.write_all_at(data, position))
            .map_err(|error| failed("write", position, bytes, &error))
    }

    fn erase(&mut self, block: u64) -> Result<u64, TargetError> {
        let bytes = u64::from(self.shape.erase_bytes);
        let erased = timed(|| Ok(ioctl::erase(&self.file, block * bytes, bytes)?));
        erased.map_err(|error| failed("erase", block * bytes, bytes, &error))
    }

    fn counters(&mut self) -> Option<Counters> {
        let number =
            |name: &str| std::fs::read_to_string(self.folder.join(name)).ok()?.trim().parse::<u64>().ok();
        Some(Counters { corrected: number("corrected_bits")?, failed: number("ecc_failures")? })
    }
}

/// Pins this thread to the first CPU it may use, and raises its priority where that is allowed. Returns what could not be done.
pub fn give_priority() -> Vec<String> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let mut trouble = Vec::new();
    let pinned = sched_getaffinity(None).and_then(|allowed| {
        let mut one = CpuSet::new();
        (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).into_iter().for_each(|cpu| one.set(cpu));
        sched_setaffinity(None, &one)
    });
    if let Err(error) = pinned {
        trouble.push(format!("not pinned to one CPU: {error}"));
    }
    if let Err(error) = rustix::process::setpriority_process(None, -20) {
        trouble.push(format!("priority not raised: {error}"));
    }
    trouble
}

/// Load above which times are not the flash's alone.
const LOAD_MAX: f64 = 0.5;

/// Conditions of the machine that make times wrong, a sentence each: the governor of the CPU's clock, and other work.
pub fn conditions() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let governor = governor.as_deref().map(str::trim).filter(|governor| *governor != "performance");
    let load = read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let governor = governor.map(|name| {
        format!("the CPU's clock follows the governor {name}: `performance` gives the same figures each time")
    });
    let load = load
        .filter(|load| *load > LOAD_MAX)
        .map(|load| format!("other programs use the CPU (load {load:.1}): end them, or times are too long"));
    governor.into_iter().chain(load).collect()
}

/// The ioctls of `<mtd/mtd-abi.h>`.
mod ioctl {
    #![allow(
        unsafe_code,
        reason = "an ioctl is a call whose argument only its number tells; two are made here"
    )]

    use rustix::io::Result;
    use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};
    use std::ffi::c_void;
    use std::fs::File;

    /// `struct erase_info_user64`.
    #[repr(C)]
    struct EraseInfo {
        start: u64,
        length: u64,
    }

    const MEMGETBADBLOCK: Opcode = opcode::write::<i64>(b'M', 11);
    const MEMERASE64: Opcode = opcode::write::<EraseInfo>(b'M', 20);

    /// Asks whether the eraseblock at an offset is bad: the result of the call is the answer.
    struct GetBadBlock(i64);

    // SAFETY: MEMGETBADBLOCK reads a 64-bit offset and writes nothing.
    unsafe impl Ioctl for GetBadBlock {
        type Output = bool;
        const IS_MUTATING: bool = false;

        fn opcode(&self) -> Opcode {
            MEMGETBADBLOCK
        }

        fn as_ptr(&mut self) -> *mut c_void {
            std::ptr::from_mut(&mut self.0).cast()
        }

        unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> Result<bool> {
            Ok(output > 0)
        }
    }

    pub(super) fn is_bad(file: &File, position: u64) -> Result<bool> {
        let offset = i64::try_from(position).map_err(|_| rustix::io::Errno::OVERFLOW)?;
        // SAFETY: the argument is what this number takes.
        unsafe { ioctl(file, GetBadBlock(offset)) }
    }

    pub(super) fn erase(file: &File, start: u64, length: u64) -> Result<()> {
        // SAFETY: MEMERASE64 reads a `struct erase_info_user64` and writes nothing.
        unsafe { ioctl(file, Setter::<MEMERASE64, EraseInfo>::new(EraseInfo { start, length })) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_from_sysfs_and_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        for (name, text) in [
            ("type", "nand\n"),
            ("name", "root\n"),
            ("size", "134217728\n"),
            ("erasesize", "131072\n"),
            ("writesize", "2048\n"),
        ] {
            assert!(shape(folder.path()).is_err());
            put(name, text);
        }
        let found = shape(folder.path()).unwrap();
        assert_eq!((found.blocks(), found.write_bytes, found.name.as_str()), (1024, 2048, "root"));
        for wrong in ["0", "-1", "99999999999999", "many"] {
            put("erasesize", wrong);
            assert_eq!(shape(folder.path()).unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_file_is_no_character_device() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!CharDevice::is_one(file.path()) && !CharDevice::is_one(Path::new("/dev/null")));
    }
}
