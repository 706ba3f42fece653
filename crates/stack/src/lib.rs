//! Linux's filesystems for raw flash, in user space: live, read and write, over any [`Mtd`](floatgate_mtd::Mtd).
//!
//! In the order data flows:
//!
//! - [`fs`]: the [`FileSystem`](fs::FileSystem) trait and its types, common to all filesystems.
//! - [`ubifs`]: a filesystem over any [`Volume`].
//! - [`jffs2`]: a filesystem over any Mtd, without UBI.
//! - [`volume`]: the [`Volume`] trait, logical eraseblocks (LEBs) as a filesystem sees them, and two volumes that need no
//!   UBI: in memory, and the bytes of a bare UBIFS image.
//! - [`codec`]: deflate and Zstandard.
//! - [`fscrypt`]: names and contents that Linux has encrypted, with their keys.
//! - [`store`]: the file or memory behind an image; [`store_flash`]: flash backed by a store.
//! - [`ubi`]: volumes on flash: the mapping of LEBs to physical eraseblocks (PEBs), wear levelling, bad blocks.
//!
//! The same implementation is used everywhere: an image is built by the live filesystem on a device in memory, and
//! extracted by the live filesystem mounted read-only.
//!
//! Each handle carries its time: a volume has a clock that its operations advance, so that code above it need not pass
//! times around.

//! # Example
//!
//! ```
//! use floatgate_stack::fs::{FileSystem, NewFile, NewKind};
//! use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, Ubifs};
//! use floatgate_stack::{RamVolume, VolumeGeometry};
//!
//! let geometry = VolumeGeometry {
//!     lebs: 64,
//!     leb_bytes: 126_976,
//!     min_io_bytes: 2048,
//!     max_write_bytes: 2048,
//!     leb_start: 4096,
//!     read_only: false,
//! };
//! let volume = RamVolume::new(geometry);
//! let mut fs = Ubifs::format(volume, &FormatOptions::default(), Behaviour::default()).map_err(|(error, _)| error)?;
//! let file = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
//! let root = fs.root();
//! let inode = fs.create(root, b"greeting", &file)?;
//! fs.write(inode, 0, b"hello")?;
//! let volume = fs.unmount().map_err(|(error, _)| error)?;
//!
//! let mut fs = Ubifs::mount(volume, &MountOptions::default(), Behaviour::default()).map_err(|(error, _)| error)?;
//! let inode = FileSystem::resolve(&mut fs, b"/greeting")?;
//! let mut text = [0; 5];
//! assert_eq!(fs.read(inode, 0, &mut text)?, 5);
//! assert_eq!(&text, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
/// Lets methods of `$name<dyn $below>` be called on `$name<T>`.
///
/// The layer below (a flash or a volume) has a concrete type only where a device or filesystem is created and returned.
/// All other code uses `$name<dyn $below>`: `&mut $name<T>` coerces to it, because the layer below is the last field of
/// each struct. So this code is compiled once, and not for each kind of flash in each crate.
macro_rules! forward_to_dyn {
    ($name:ident: $below:ident) => {
        impl<T: $below + 'static> core::ops::Deref for $name<T> {
            type Target = $name<dyn $below>;

            fn deref(&self) -> &Self::Target {
                self
            }
        }

        impl<T: $below + 'static> core::ops::DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut Self::Target {
                self
            }
        }
    };
}

pub mod codec;
pub mod fs;
pub mod fscrypt;
pub mod jffs2;
pub mod store;
pub mod store_flash;
pub mod ubi;
pub mod ubifs;
pub mod volume;

pub use store::{FileStore, Store, StoreError};
pub use store_flash::{StoreFlash, StoreMode};
pub use volume::{BareVolume, RamVolume, Volume, VolumeError, VolumeFault, VolumeGeometry};
