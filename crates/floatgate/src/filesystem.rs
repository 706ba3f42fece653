//! UBIFS or JFFS2 on flash: formatting, mounting, access by paths, and power cuts.

use crate::flash::order;
use crate::{Cut, Error, Flash, Result};
use floatgate_mtd::{Breakdown, Instant, Mtd, Nanos};
use floatgate_sim::machine::{self, Layers, OnDevice};
use floatgate_sim::rig::{Device, Rig};
use floatgate_stack::fs::{
    self, AttributeChanges, Attributes, DirEntry, FileSystem, FileType, Name, NewFile, NewKind, Rename,
};

/// Maximum number of bytes that [`Fs::read_file`] reads, because the size of a sparse file is unlimited.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A type of filesystem with its options, for formatting or mounting flash.
#[derive(Clone, Debug)]
pub struct Filesystem {
    layers: Layers,
}

impl Filesystem {
    pub(crate) const fn of(layers: Layers) -> Self {
        Self { layers }
    }

    /// Erases the flash, creates a new filesystem on it, and mounts it.
    ///
    /// # Errors
    /// [`Error::Setup`]: the flash is too small or of a kind that the filesystem does not support; [`Error::Flash`]: a block cannot be
    /// erased.
    pub fn format(&self, mut flash: Flash) -> Result<Fs> {
        let begin = flash.now();
        // Formatting for UBI includes the erase. The first mount of a JFFS2 would preserve existing files, so the flash is erased here.
        if matches!(self.layers, Layers::Jffs2(_)) {
            flash.erase_all()?;
        }
        let Rig { chip, maker, .. } = flash.rig.clone();
        let fs = machine::make(flash.rig, &self.layers)?;
        Ok(Fs::of(fs, chip, maker, begin))
    }

    /// Mounts the filesystem on the flash and, as Linux does, recovers operations that a power cut interrupted. Clone the flash before if
    /// you need it after a failure.
    ///
    /// # Errors
    /// [`Error::Mount`], with the reason.
    pub fn mount(&self, flash: Flash) -> Result<Fs> {
        let Rig { mut device, chip, maker } = flash.rig;
        let begin = device.host().now();
        let mounted = self.layers.mount(device, begin, &mut |_, _| ());
        Ok(Fs::of(mounted.map_err(|(why, _)| Error::Mount(why))?, chip, maker, begin))
    }
}

/// A mounted filesystem on flash. Paths begin at the root, and slashes separate their components; symbolic links are not followed.
///
/// Times include the flash, its driver and the filesystem's accesses. The page cache and the CPU's time for compression are modelled in
/// [`sim::vfs`](crate::sim::vfs).
///
/// A clone is an independent filesystem with the same contents.
#[derive(Clone, Debug)]
pub struct Fs {
    fs: Box<dyn OnDevice<Box<dyn Device>>>,
    chip: String,
    maker: String,
    mount_time: Nanos,
}

impl Fs {
    fn of(fs: Box<dyn OnDevice<Box<dyn Device>>>, chip: String, maker: String, begin: Instant) -> Self {
        let mount_time = fs.now().since(begin);
        Self { fs, chip, maker, mount_time }
    }

    /// Duration of the mount, including the UBI attach; after `format`, the time to create the filesystem.
    pub const fn mount_time(&self) -> Nanos {
        self.mount_time
    }

    /// Time since power-on at the end of the last call.
    pub fn now(&self) -> Instant {
        self.fs.now()
    }

    /// Time of the flash's driver by phase, since power-on. The cost of calls is the difference of two readings.
    pub fn breakdown(&self) -> Breakdown {
        self.fs.device().breakdown()
    }

    /// Writes a whole file; an existing file is replaced. The data may stay in memory until [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`Error::File`]: no such directory, not a regular file, no space, no power.
    pub fn write_file(&mut self, path: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Result<()> {
        self.at(path.as_ref(), |fs, path| {
            let inode = match fs.resolve(path) {
                Err(fs::Error::NotFound) => create(fs, path, NewKind::Regular, 0o644)?,
                found => truncate(fs, found?)?,
            };
            fs.write(inode, 0, data.as_ref())
        })
    }

    /// Reads a whole regular file.
    ///
    /// # Errors
    /// [`Error::File`]: not found, not a regular file, damage, more than 1 GiB, no power.
    pub fn read_file(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.at(path.as_ref(), |fs, path| {
            let inode = fs.resolve(path)?;
            let len = fs.attributes(inode)?.size;
            if len > FILE_BYTES_MAX {
                return Err(fs::Error::TooLarge { what: "file", len });
            }
            let mut data = vec![0; usize::try_from(len).unwrap_or_default()];
            let len = fs.read(inode, 0, &mut data)?;
            data.truncate(len);
            Ok(data)
        })
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// [`Error::File`]: the name exists, no such parent directory, no space, no power.
    pub fn create_dir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        self.at(path.as_ref(), |fs, path| create(fs, path, NewKind::Directory, 0o755).map(drop))
    }

    /// Entries of a directory, sorted by name.
    ///
    /// # Errors
    /// [`Error::File`]: not found, not a directory, damage, no power.
    pub fn read_dir(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<DirEntry>> {
        self.at(path.as_ref(), |fs, path| {
            let directory = fs.resolve(path)?;
            let mut entries = fs.read_dir(directory, None, usize::MAX)?;
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        })
    }

    /// Attributes of a file or directory: type, size in bytes, mode, owner and times.
    ///
    /// # Errors
    /// [`Error::File`]: not found, damage, no power.
    pub fn attributes(&mut self, path: impl AsRef<[u8]>) -> Result<Attributes> {
        self.at(path.as_ref(), |fs, path| {
            let inode = fs.resolve(path)?;
            fs.attributes(inode)
        })
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// [`Error::File`]: not found, a directory that is not empty, no space, no power.
    pub fn remove(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        self.at(path.as_ref(), |fs, path| {
            let name = name_of(fs, path)?;
            let inode = fs.lookup(name.directory, name.name)?;
            match fs.attributes(inode)?.file_type {
                FileType::Directory => fs.remove_dir(name.directory, name.name),
                _ => fs.unlink(name.directory, name.name),
            }
        })
    }

    /// Renames a file or directory; a file at the new path is replaced.
    ///
    /// # Errors
    /// [`Error::File`]: not found, a target that cannot be replaced, no space, no power.
    pub fn rename(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.at(from.as_ref(), |fs, from| {
            let (from, to) = (name_of(fs, from)?, name_of(fs, to.as_ref())?);
            fs.rename(from, to, Rename::Replace)
        })
    }

    /// Writes all changes to flash.
    ///
    /// # Errors
    /// [`Error::File`]: no space, no power.
    pub fn sync(&mut self) -> Result<()> {
        self.at(b"/", |fs, _| fs.sync())
    }

    /// Writes all changes to flash, unmounts, and returns the flash.
    ///
    /// # Errors
    /// [`Error::Mount`]: it cannot be unmounted.
    pub fn unmount(self) -> Result<Flash> {
        let Self { fs, chip, maker, .. } = self;
        let (mut device, now) = fs.into_device().map_err(|(why, _)| Error::Mount(why))?;
        device.host().resume(now);
        Ok(Flash::of(Rig { device, chip, maker }))
    }

    /// Advances virtual time. The filesystem does its background work in this time.
    pub fn wait(&mut self, time: Nanos) {
        self.fs.wait_until(self.fs.now() + time);
    }

    /// Starts a [`sync`](Self::sync), cuts power during it, restores power, and returns the flash. Clone the filesystem before the call to
    /// try another cut.
    ///
    /// # Errors
    /// [`Error::CutNotReached`]: `sync` ended before the cut. [`Error::Cut`]: an invalid cut. [`Error::Restart`].
    pub fn power_cut(mut self, cut: Cut) -> Result<Flash> {
        self.fs.device_mut().power_mut().count_operations();
        let before = self.fs.device().power().operations();
        self.order_cut(cut)?;
        let synced = self.sync();
        let power = self.fs.device().power();
        match synced {
            _ if power.is_lost() => self.power_off(),
            Ok(()) => Err(Error::CutNotReached { operations: power.operations() - before }),
            Err(error) => Err(error),
        }
    }

    /// Schedules a power cut. The call in which power is lost fails, and so do all later calls. [`power_off`](Self::power_off) returns the
    /// flash.
    ///
    /// # Errors
    /// [`Error::Cut`]: operation 0, or a share that is not between 0 and 1.
    pub fn order_cut(&mut self, cut: Cut) -> Result<()> {
        let now = self.fs.now();
        order(self.fs.device_mut().as_mut(), now, cut)
    }

    /// Switches power off without any write, unless it is off already, and on again. Returns the flash.
    ///
    /// # Errors
    /// [`Error::Restart`]: the driver cannot use the chip any more.
    pub fn power_off(self) -> Result<Flash> {
        let Self { fs, chip, maker, .. } = self;
        let now = fs.now();
        let mut flash = Flash::of(Rig { device: fs.abandon(), chip, maker });
        flash.device().host().resume(now);
        flash.restart()?;
        Ok(flash)
    }

    /// Access to the filesystem by inode numbers: links, attributes, extended attributes, space, checks.
    pub fn filesystem(&mut self) -> &mut dyn FileSystem {
        &mut *self.fs
    }

    /// Calls `work`; an error gets the path.
    fn at<T>(
        &mut self,
        path: &[u8],
        work: impl FnOnce(&mut dyn FileSystem, &[u8]) -> fs::Result<T>,
    ) -> Result<T> {
        let named = |error| Error::File { path: String::from_utf8_lossy(path).into_owned(), error };
        work(&mut *self.fs, path).map_err(named)
    }
}

/// Splits a path into directory and name.
fn name_of<'p>(fs: &mut dyn FileSystem, path: &'p [u8]) -> fs::Result<Name<'p>> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let path = path.get(..end).unwrap_or_default();
    let begin = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (above, name) = path.split_at(begin);
    if name.is_empty() {
        return Err(fs::Error::Invalid("the path names the root"));
    }
    Ok(Name { directory: fs.resolve(above)?, name })
}

fn create(fs: &mut dyn FileSystem, path: &[u8], kind: NewKind<'_>, permissions: u32) -> fs::Result<u32> {
    let Name { directory, name } = name_of(fs, path)?;
    fs.create(directory, name, &NewFile { kind, permissions, uid: 0, gid: 0 })
}

/// Truncates a regular file to length 0.
fn truncate(fs: &mut dyn FileSystem, inode: u32) -> fs::Result<u32> {
    match fs.attributes(inode)?.file_type {
        FileType::Regular => {
            fs.set_attributes(inode, &AttributeChanges { size: Some(0), ..AttributeChanges::default() })?;
            Ok(inode)
        }
        FileType::Directory => Err(fs::Error::IsDirectory),
        _ => Err(fs::Error::Invalid("not a regular file")),
    }
}
