//! JFFS2 as a [`FileSystem`].

use super::Jffs2;
use super::damage::Damage;
use crate::fs::{
    AttributeChanges, Attributes, BLOCK_BYTES, CompressedBlock, Compression, DirEntry, Error, FileSystem,
    FilledFile, Holds, Name, NewFile, Rename, Result, SetXattr, Space, Timestamp, Work,
};
use floatgate_mtd::{ErrorKind, Mtd};

/// Converts the damage without its position, which [`Jffs2::damaged_nodes`] contains: only the layers above know the
/// position of the flash in a dump.
impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage.fault.to_string())
    }
}

pub(super) fn failed(error: &floatgate_mtd::Error) -> Error {
    match error.kind {
        ErrorKind::PowerLost => Error::PowerLost(error.to_string()),
        _ => Error::Failed(error.to_string()),
    }
}

/// Each method calls the method of the same name of [`Jffs2`].
impl<M: Mtd + Send + 'static> FileSystem for Jffs2<M> {
    fn root(&self) -> u32 {
        floatgate_media::jffs2::ROOT_INODE
    }

    fn set_time(&mut self, time: Timestamp) {
        (**self).set_time(time);
    }

    fn is_read_only(&self) -> bool {
        (**self).is_read_only()
    }

    fn failure(&self) -> Option<Error> {
        (**self).failure().cloned()
    }

    fn damage(&self) -> Vec<Error> {
        self.damaged_nodes().iter().map(|damage| Error::Damaged(damage.to_string())).collect()
    }

    fn space(&self) -> Space {
        (**self).space()
    }

    fn holds(&self) -> Holds {
        Holds { flags: false, nanoseconds: false, acls: true }
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        (**self).attributes(inode)
    }

    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        (**self).lookup(directory, name)
    }

    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>> {
        (**self).read_dir(directory, after, max)
    }

    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        (**self).read(inode, offset, buf)
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        (**self).read_link(inode)
    }

    fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        Ok((**self).list_xattrs(inode))
    }

    fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        (**self).get_xattr(inode, name)
    }

    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        (**self).data_blocks(inode, block, max)
    }

    fn inodes(&mut self) -> Result<Vec<u32>> {
        Ok((**self).inodes())
    }

    fn check(&mut self) -> Result<Vec<String>> {
        (**self).check()
    }

    fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32> {
        (**self).create(directory, name, file)
    }

    fn create_unnamed(&mut self, directory: u32, file: &NewFile<'_>) -> Result<u32> {
        (**self).create_unnamed(directory, file)
    }

    fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        (**self).link(inode, directory, name)
    }

    fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        (**self).unlink(directory, name)
    }

    fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        (**self).remove_dir(directory, name)
    }

    fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        (**self).rename(from, to, how)
    }

    fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        (**self).write(inode, offset, data)
    }

    fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        (**self).set_attributes(inode, changes)
    }

    fn set_xattr(&mut self, inode: u32, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        (**self).set_xattr(inode, name, value, how)
    }

    fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Result<()> {
        (**self).remove_xattr(inode, name)
    }

    fn open(&mut self, inode: u32) -> Result<()> {
        (**self).open(inode)
    }

    fn close(&mut self, inode: u32) -> Result<()> {
        (**self).close(inode)
    }

    fn work(&self) -> Work {
        (**self).work()
    }

    /// Does nothing: writes go to the flash's write buffer at once.
    fn write_back(&mut self, _inode: u32) -> Result<()> {
        Ok(())
    }

    fn fsync(&mut self, _inode: u32) -> Result<()> {
        (**self).sync()
    }

    fn sync(&mut self) -> Result<()> {
        (**self).sync()
    }

    fn unmount(self: Box<Self>) -> Result<()> {
        (*self).unmount().map(drop).map_err(|(error, _)| error)
    }

    fn fill(&mut self, directory: u32, name: &[u8], file: &FilledFile<'_>) -> Result<u32> {
        (**self).fill(directory, name, file)
    }

    fn fill_link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        (**self).fill_link(inode, directory, name)
    }

    /// Fails if flags are given, which JFFS2 does not have.
    fn fill_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        (**self).set_attributes(inode, &AttributeChanges { flags: None, compression: None, ..*changes })
    }

    fn fill_blocks(&mut self, inode: u32, blocks: &[CompressedBlock<'_>]) -> Result<()> {
        for block in blocks {
            if block.compression != Compression::None {
                return Err(Error::Unsupported("data that are compressed already"));
            }
            self.fill_block(inode, u64::from(block.block) * BLOCK_BYTES as u64, block.data)?;
        }
        Ok(())
    }
}
