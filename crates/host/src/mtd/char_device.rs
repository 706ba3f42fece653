//! Linux's MTD character devices `/dev/mtdN`, their folder in sysfs, and the three ioctls for operations other than read and write.

use super::users::number;
use super::{Counters, Flash, Shape};
use crate::holders::holders_of;
use crate::node::open_same;
use crate::target::TargetError;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Maximum plausible eraseblock size, B; it limits the size of buffers.
const ERASE_MAX: u64 = 64 << 20;

/// Maximum OOB size of a page that Linux reads at once, B.
const OOB_MAX: u64 = 4096;

/// An MTD character device.
#[derive(Debug)]
pub struct CharDevice {
    file: File,
    folder: PathBuf,
    shape: Shape,
}

impl CharDevice {
    /// True if the path is an MTD character device.
    pub fn is_one(path: &Path) -> bool {
        let is_one = |node: Metadata| node.file_type().is_char_device() && number(&node).is_some();
        path.metadata().is_ok_and(is_one)
    }

    /// Opens a device, for writing too if `writes` is set.
    ///
    /// # Errors
    /// An error of the operating system; `InvalidData` if sysfs lacks the sizes of the device; `ReadOnlyFilesystem` for writing to a
    /// read-only node.
    pub fn open(path: &Path, writes: bool) -> io::Result<Self> {
        // The node is examined before it is opened, because opening some other devices has side effects, and again when it is open.
        let before = path.metadata()?;
        let number = number(&before).filter(|_| before.file_type().is_char_device());
        let number =
            number.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "no MTD character device"))?;
        if writes && !rustix::fs::minor(before.rdev()).is_multiple_of(2) {
            let why = format!("this node is read-only: /dev/mtd{number} is the one to be written");
            return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, why));
        }
        let (file, _) = open_same(&before, || OpenOptions::new().read(true).write(writes).open(path))?;
        let folder = PathBuf::from(format!("/sys/class/mtd/mtd{number}"));
        let shape = shape(&folder)?;
        Ok(Self { file, folder, shape })
    }
}

/// Sizes of the device, read from its folder in sysfs.
fn shape(folder: &Path) -> io::Result<Shape> {
    let text = |name: &str| {
        let path = folder.join(name);
        // The node exists, so an error must name the missing file in sysfs.
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Ok::<_, io::Error>(std::fs::read_to_string(&path).map_err(failed)?.trim().to_owned())
    };
    let number = |name: &str, least: u64, most: u64| {
        let wrong = || {
            let path = folder.join(name);
            let why = format!("{}: no size from {least} to {most}", path.display());
            io::Error::new(ErrorKind::InvalidData, why)
        };
        text(name)?.parse::<u64>().ok().filter(|value| (least..=most).contains(value)).ok_or_else(wrong)
    };
    Ok(Shape {
        kind: text("type")?,
        name: text("name")?,
        size_bytes: number("size", 1, u64::MAX)?,
        erase_bytes: number("erasesize", 1, ERASE_MAX)? as u32,
        write_bytes: number("writesize", 1, ERASE_MAX)? as u32,
        oob_bytes: number("oobsize", 0, OOB_MAX)? as u32,
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
            // NOR flash has no bad blocks.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOTTY) => Ok(false),
            other => other.map_err(|error| failed("bad block test", position, 0, &error)),
        }
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        let bytes = buf.len() as u64;
        timed(|| self.file.read_exact_at(buf, position))
            .map_err(|error| failed("read", position, bytes, &error))
    }

    fn read_oob(&mut self, position: u64, oob: &mut [u8]) -> Result<(), TargetError> {
        let bytes = oob.len() as u64;
        ioctl::read_oob(&self.file, position, oob)
            .map_err(|error| failed("read of OOB", position, bytes, &error))
    }

    fn holders(&mut self) -> Result<Vec<String>, TargetError> {
        let users = self.file.metadata().and_then(|node| holders_of(&node));
        users.map_err(|error| failed("search for users", 0, 0, &error))
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

/// Pins this thread to the first CPU that it may use, and raises its priority if permitted. Returns a description of each step that
/// failed.
pub fn raise_priority() -> Vec<String> {
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

/// System load above which other processes disturb the measured times.
const LOAD_MAX: f64 = 0.5;

/// Conditions of the machine that falsify times, one sentence each: the CPU frequency governor, and the load of other processes.
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
    #![allow(unsafe_code, reason = "the argument of an ioctl depends on its number; three are made here")]

    use rustix::io::Errno;
    use rustix::io::Result;
    use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, Updater, ioctl, opcode};
    use std::ffi::c_void;
    use std::fs::File;

    /// Erase request, `struct erase_info_user64`.
    #[repr(C)]
    struct EraseInfo {
        start: u64,
        length: u64,
    }

    /// OOB request, `struct mtd_oob_buf64`.
    #[repr(C)]
    struct OobBuf {
        start: u64,
        pad: u32,
        length: u32,
        /// Address of the data.
        data: u64,
    }

    const MEMGETBADBLOCK: Opcode = opcode::write::<i64>(b'M', 11);
    const MEMERASE64: Opcode = opcode::write::<EraseInfo>(b'M', 20);
    const MEMREADOOB64: Opcode = opcode::read_write::<OobBuf>(b'M', 22);

    /// Request whether the eraseblock at an offset is bad; the answer is the return value of the call.
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
        let offset = i64::try_from(position).map_err(|_| Errno::OVERFLOW)?;
        // SAFETY: the argument has the type that this ioctl number requires.
        unsafe { ioctl(file, GetBadBlock(offset)) }
    }

    pub(super) fn read_oob(file: &File, start: u64, oob: &mut [u8]) -> Result<()> {
        let length = u32::try_from(oob.len()).map_err(|_| Errno::OVERFLOW)?;
        let mut request = OobBuf { start, pad: 0, length, data: oob.as_mut_ptr().expose_provenance() as u64 };
        // SAFETY: MEMREADOOB64 reads and writes a `struct mtd_oob_buf64`, and writes at most `length` bytes at `data`, which `oob` has.
        unsafe { ioctl(file, Updater::<MEMREADOOB64, OobBuf>::new(&mut request)) }?;
        if request.length == length { Ok(()) } else { Err(Errno::IO) }
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
            ("oobsize", "64\n"),
        ] {
            let missing = shape(folder.path()).unwrap_err().to_string();
            assert!(missing.contains(&format!("/{name}: No such file")), "{missing}");
            put(name, text);
        }
        let found = shape(folder.path()).unwrap();
        assert_eq!((found.blocks(), found.write_bytes, found.name.as_str()), (1024, 2048, "root"));
        assert_eq!(found.oob_bytes, 64);
        put("oobsize", "0");
        assert_eq!(shape(folder.path()).unwrap().oob_bytes, 0);
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
