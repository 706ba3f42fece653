//! UBIFS as a [`FileSystem`].

use super::error::Error;
use super::files::Ubifs;
use crate::fs::{
    self, AttributeChanges, Attributes, BLOCK_BYTES, CompressedBlock, DirEntry, FileSystem, FilledFile, Name,
    NewFile, NodePos, Rename, Result, SetXattr, Space, Timestamp, Work,
};
use crate::fscrypt::Units;
use crate::volume::{Volume, VolumeFault};

impl From<Error> for fs::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::ReadOnly => Self::ReadOnly,
            Error::NoSpace => Self::NoSpace,
            Error::NotFound => Self::NotFound,
            Error::Exists => Self::Exists,
            Error::NotDirectory => Self::NotDirectory,
            Error::IsDirectory => Self::IsDirectory,
            Error::NotEmpty => Self::NotEmpty,
            Error::BadName => Self::BadName,
            Error::NameTooLong(most) => Self::NameTooLong(most),
            Error::TooLarge { what, len } => Self::TooLarge { what, len },
            Error::Invalid(why) => Self::Invalid(why),
            Error::NotPermitted => Self::NotPermitted,
            Error::TooManyLinks => Self::TooManyLinks,
            Error::Unsupported(what) => Self::Unsupported(what),
            error if error.is_damage() => Self::Damaged(error.to_string()),
            error if error.is_power_loss() => Self::PowerLost(error.to_string()),
            Error::Volume(below) if below.fault == VolumeFault::NoSpace => Self::NoSpace,
            Error::Volume(below) if below.fault == VolumeFault::ReadOnly => Self::ReadOnly,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Converts a list of errors.
fn neutral(errors: Vec<Error>) -> Vec<fs::Error> {
    errors.into_iter().map(fs::Error::from).collect()
}

/// Each method calls the method of the same name of [`Ubifs`].
impl<V: Volume + 'static> FileSystem for Ubifs<V> {
    fn root(&self) -> u32 {
        (**self).root()
    }

    fn set_time(&mut self, time: Timestamp) {
        (**self).set_time(time);
    }

    fn is_read_only(&self) -> bool {
        (**self).is_read_only()
    }

    fn failure(&self) -> Option<fs::Error> {
        (**self).failure().cloned().map(fs::Error::from)
    }

    fn damage(&self) -> Vec<fs::Error> {
        neutral((**self).damage().cloned().collect())
    }

    fn space(&self) -> Space {
        (**self).space()
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        Ok((**self).attributes(inode)?)
    }

    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        Ok((**self).lookup(directory, name)?)
    }

    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>> {
        Ok((**self).read_dir(directory, after, max)?)
    }

    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok((**self).read(inode, offset, buf)?)
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        Ok((**self).read_link(inode)?)
    }

    fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        Ok((**self).list_xattrs(inode)?)
    }

    fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        Ok((**self).get_xattr(inode, name)?)
    }

    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        Ok((**self).data_blocks(inode, block, max)?)
    }

    fn inodes(&mut self) -> Result<Vec<u32>> {
        Ok((**self).inodes()?)
    }

    fn check(&mut self) -> Result<Vec<String>> {
        Ok((**self).check()?.iter().map(ToString::to_string).collect())
    }

    fn readable_entries(&mut self, directory: u32) -> Result<(Vec<DirEntry>, Vec<fs::Error>)> {
        let (entries, damage) = (**self).readable_entries(directory)?;
        Ok((entries, neutral(damage)))
    }

    fn readable_xattrs(&mut self, inode: u32) -> Result<(Vec<Vec<u8>>, Vec<fs::Error>)> {
        let (names, damage) = (**self).readable_xattrs(inode)?;
        Ok((names, neutral(damage)))
    }

    fn stored_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>> {
        Ok((**self).stored_blocks(inode, block, max)?)
    }

    fn read_stored(
        &mut self,
        inode: u32,
        block: u32,
        place: NodePos,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<()> {
        Ok((**self).read_stored(inode, block, place, out)?)
    }

    fn read_encrypted(
        &mut self,
        inode: u32,
        block: u32,
        decrypt: &mut Units<'_>,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<()> {
        Ok((**self).read_encrypted(inode, block, decrypt, out)?)
    }

    fn stored_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        Ok((**self).stored_link(inode)?)
    }

    fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32> {
        Ok((**self).create(directory, name, file)?)
    }

    fn create_unnamed(&mut self, directory: u32, file: &NewFile<'_>) -> Result<u32> {
        Ok((**self).create_unnamed(directory, file)?)
    }

    fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        Ok((**self).link(inode, directory, name)?)
    }

    fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        Ok((**self).unlink(directory, name)?)
    }

    fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        Ok((**self).remove_dir(directory, name)?)
    }

    fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        Ok((**self).rename(from, to, how)?)
    }

    fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        Ok((**self).write(inode, offset, data)?)
    }

    fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        Ok((**self).set_attributes(inode, changes)?)
    }

    fn set_xattr(&mut self, inode: u32, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        Ok((**self).set_xattr(inode, name, value, how)?)
    }

    fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Result<()> {
        Ok((**self).remove_xattr(inode, name)?)
    }

    fn open(&mut self, inode: u32) -> Result<()> {
        Ok((**self).open(inode)?)
    }

    fn close(&mut self, inode: u32) -> Result<()> {
        Ok((**self).close(inode)?)
    }

    fn work(&self) -> Work {
        (**self).work()
    }

    fn delays_writes(&self) -> bool {
        true
    }

    fn write_back(&mut self, inode: u32) -> Result<()> {
        Ok((**self).write_back_of(inode)?)
    }

    fn fsync(&mut self, inode: u32) -> Result<()> {
        Ok((**self).fsync(inode)?)
    }

    fn sync(&mut self) -> Result<()> {
        Ok((**self).sync()?)
    }

    fn end_change(&mut self) -> Result<()> {
        Ok((**self).end_change()?)
    }

    fn unmount(self: Box<Self>) -> Result<()> {
        (*self).unmount().map(drop).map_err(|(error, _)| error.into())
    }

    fn fill(&mut self, directory: u32, name: &[u8], file: &FilledFile<'_>) -> Result<u32> {
        Ok((**self).fill(directory, name, file)?)
    }

    fn fill_link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        Ok((**self).fill_link(inode, directory, name)?)
    }

    fn fill_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        Ok((**self).fill_attributes(inode, changes)?)
    }

    fn fill_blocks(&mut self, inode: u32, blocks: &[CompressedBlock<'_>]) -> Result<()> {
        Ok((**self).fill_blocks(inode, blocks)?)
    }
}
