//! Requests for the contents of files.

use floatgate_stack::fs::{AttributeChanges, Attributes, Error, FileFlags, FileType, Timestamp};
use rustix::io::Errno;

use super::{Answer, Handler, errno, number};

/// Size of a block of a file, bytes.
const BLOCK: u64 = 4096;

/// Largest number of blocks that a search for a hole examines at a time.
const BATCH: usize = 1024;

/// Flags of `FS_IOC_GETFLAGS` (Linux, `include/uapi/linux/fs.h`), with the flags of UBIFS.
const FLAGS: [(u32, FileFlags); 5] = [
    (0x4, FileFlags::COMPRESS),
    (0x8, FileFlags::SYNC),
    (0x10, FileFlags::IMMUTABLE),
    (0x20, FileFlags::APPEND),
    (0x1_0000, FileFlags::DIRSYNC),
];

/// Flags of `FS_IOC_FSGETXATTR`, which supports only these.
const XFLAGS: [(u32, FileFlags); 3] =
    [(0x8, FileFlags::IMMUTABLE), (0x10, FileFlags::APPEND), (0x20, FileFlags::SYNC)];

/// Times to set; `None` for a time that does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time of the last read.
    pub atime: Option<Option<Timestamp>>,
    /// Time of the last change of the data; `Some(None)` is the present time.
    pub mtime: Option<Option<Timestamp>>,
}

/// Bits that a change of owner or contents removes: set-user-ID, and set-group-ID if the group may execute the file.
/// Linux: `setattr_should_drop_suidgid`.
const fn set_id_bits(mode: u32) -> u32 {
    let group = if mode & 0o010 != 0 { 0o2000 } else { 0 };
    mode & (0o4000 | group)
}

impl Handler {
    /// Changes attributes and times. A change of the owner removes the set-user-ID and set-group-ID bits.
    ///
    /// # Errors
    /// Flags of the file forbid it, or there is no space.
    pub fn set_attributes(
        &mut self,
        inode: u32,
        changes: &AttributeChanges,
        times: Times,
    ) -> Answer<Attributes> {
        let now = (self.clock)();
        let mut changes = AttributeChanges {
            atime: times.atime.map(|time| time.unwrap_or(now)),
            mtime: times.mtime.map(|time| time.unwrap_or(now)),
            ..*changes
        };
        if changes.uid.is_some() || changes.gid.is_some() {
            changes.permissions = changes.permissions.or(self.without_set_id(inode)?);
        }
        self.changing().set_attributes(inode, &changes).map_err(number)?;
        self.attributes(inode)
    }

    /// Permissions of a file without the set-user-ID and set-group-ID bits; `None` if it has no such bits.
    fn without_set_id(&mut self, inode: u32) -> Answer<Option<u32>> {
        let Attributes { mode, file_type, .. } = self.attributes(inode)?;
        let lost = if file_type == FileType::Directory { 0 } else { set_id_bits(mode) };
        Ok((lost != 0).then_some(mode & 0o7777 & !lost))
    }

    /// Removes the set-user-ID and set-group-ID bits of a file, before a write by a user without the right to keep
    /// them.
    ///
    /// # Errors
    /// Flags of the file forbid it, or there is no space.
    pub fn drop_set_id(&mut self, inode: u32) -> Answer<()> {
        let permissions = self.without_set_id(inode)?;
        if permissions.is_none() {
            return Ok(());
        }
        let changes = AttributeChanges { permissions, ..AttributeChanges::default() };
        self.set_attributes(inode, &changes, Times::default()).map(drop)
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// Not a symbolic link, or an encrypted one.
    pub fn read_link(&mut self, inode: u32) -> Answer<Vec<u8>> {
        self.fs.read_link(inode).map_err(number)
    }

    /// Opens a file. It exists as long as it is open, even without a name.
    ///
    /// # Errors
    /// The file does not exist, or is encrypted.
    pub fn open(&mut self, inode: u32) -> Answer<()> {
        if self.attributes(inode)?.is_encrypted() {
            return Err(Errno::OPNOTSUPP);
        }
        self.fs.open(inode).map_err(number)
    }

    /// Closes a file.
    ///
    /// # Errors
    /// Failures of the volume, if the file was removed while it was open.
    pub fn close(&mut self, inode: u32) -> Answer<()> {
        self.fs.close(inode).map_err(number)
    }

    /// Reads up to `len` bytes.
    ///
    /// # Errors
    /// Damage.
    pub fn read(&mut self, inode: u32, offset: u64, len: u32) -> Answer<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        let read = self.fs.read(inode, offset, &mut bytes).map_err(number)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Writes data, and returns the number of written bytes, which is smaller if the space ends. With `sync`, the
    /// data is on flash at the end.
    ///
    /// # Errors
    /// No space for any byte, or the file is too large.
    pub fn write(&mut self, inode: u32, offset: u64, data: &[u8], sync: bool) -> Answer<u32> {
        let mut written = 0;
        // Blocks are written one by one, so that the number of written bytes is known after an error.
        while written < data.len() {
            let at = offset + written as u64;
            let part = usize::try_from(BLOCK - at % BLOCK).unwrap_or(usize::MAX).min(data.len() - written);
            match self.changing().write(inode, at, &data[written..written + part]) {
                Err(Error::NoSpace) if written > 0 => break,
                outcome => outcome.map_err(number)?,
            }
            written += part;
        }
        if sync {
            self.fsync(inode)?;
        }
        Ok(u32::try_from(written).unwrap_or(u32::MAX))
    }

    /// Writes all data of a file or a directory to flash.
    ///
    /// # Errors
    /// No space, or failures of the volume. After these, each later call fails as well, because the data in memory is
    /// never written.
    pub fn fsync(&mut self, inode: u32) -> Answer<()> {
        if let Some(error) = self.fs.failure() {
            return Err(errno(&error));
        }
        if self.fs.is_read_only() { Ok(()) } else { self.fs.fsync(inode).map_err(number) }
    }

    /// Offset of the next byte in a hole, or outside holes (`lseek` with `SEEK_HOLE` and `SEEK_DATA`). The end of a
    /// file is a hole.
    ///
    /// # Errors
    /// There is no such byte.
    pub fn seek(&mut self, inode: u32, offset: u64, hole: bool) -> Answer<u64> {
        // Data in memory is not yet recorded as data.
        if self.fs.failure().is_none() {
            self.fsync(inode)?;
        }
        let size = self.attributes(inode)?.size;
        if offset >= size {
            return Err(Errno::NXIO);
        }
        let found = if hole { self.next_hole(inode, offset, size)? } else { self.next_data(inode, offset)? };
        match found {
            Some(at) if at < size => Ok(at.max(offset)),
            _ if hole => Ok(size),
            _ => Err(Errno::NXIO),
        }
    }

    fn blocks(&mut self, inode: u32, from: u64, max: usize) -> Answer<Vec<u32>> {
        let Ok(block) = u32::try_from(from) else { return Ok(Vec::new()) };
        self.fs.data_blocks(inode, block, max).map_err(number)
    }

    fn next_data(&mut self, inode: u32, offset: u64) -> Answer<Option<u64>> {
        let next = self.blocks(inode, offset / BLOCK, 1)?;
        Ok(next.first().map(|&block| u64::from(block) * BLOCK))
    }

    fn next_hole(&mut self, inode: u32, offset: u64, size: u64) -> Answer<Option<u64>> {
        let mut expected = offset / BLOCK;
        while expected * BLOCK < size {
            let blocks = self.blocks(inode, expected, BATCH)?;
            for block in &blocks {
                if u64::from(*block) != expected {
                    return Ok(Some(expected * BLOCK));
                }
                expected += 1;
            }
            if blocks.is_empty() {
                return Ok(Some(expected * BLOCK));
            }
        }
        Ok(None)
    }

    /// Flags in the form of `lsattr`.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn flags(&mut self, inode: u32) -> Answer<u32> {
        let own = self.attributes(inode)?.flags;
        Ok(FLAGS.iter().filter(|(_, flag)| own.contains(*flag)).fold(0, |bits, (bit, _)| bits | bit))
    }

    /// Flags in the form of `FS_IOC_FSGETXATTR`.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn xflags(&mut self, inode: u32) -> Answer<u32> {
        let own = self.attributes(inode)?.flags;
        Ok(XFLAGS.iter().filter(|(_, flag)| own.contains(*flag)).fold(0, |bits, (bit, _)| bits | bit))
    }

    /// Sets flags, as `chattr` does.
    ///
    /// # Errors
    /// Flags that UBIFS does not have, or that do not apply to files.
    pub fn set_flags(&mut self, inode: u32, bits: u32) -> Answer<()> {
        let known = FLAGS.iter().fold(0, |known, (bit, _)| known | bit);
        if bits & !known != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let flags =
            FLAGS.iter().filter(|(bit, _)| bits & bit != 0).fold(0, |flags, (_, flag)| flags | flag.bits());
        let flags = Some(FileFlags::from_bits(flags));
        let changes = AttributeChanges { flags, ..AttributeChanges::default() };
        match self.changing().set_attributes(inode, &changes) {
            Err(Error::Invalid(_)) => Err(Errno::NOTTY),
            outcome => outcome.map_err(number),
        }
    }
}
