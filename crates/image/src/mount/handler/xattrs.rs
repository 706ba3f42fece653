//! Extended attributes.

use floatgate_stack::fs::{Error, SetXattr};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::{Answer, Handler, number};

/// An error where an attribute is meant.
fn of_xattr(error: Error) -> Errno {
    match error {
        Error::NotFound => Errno::NODATA,
        Error::TooLarge { .. } => Errno::TOOBIG,
        Error::BadName => Errno::RANGE,
        other => number(other),
    }
}

impl Handler {
    /// Sets an attribute, with the flags of `setxattr`.
    ///
    /// # Errors
    /// A name that the filesystem does not have; as the flags say.
    pub fn set_xattr(&mut self, inode: u32, name: &[u8], value: &[u8], flags: XattrFlags) -> Answer<()> {
        if !self.fs.holds().xattr(name) {
            return Err(Errno::OPNOTSUPP);
        }
        let how = if flags.contains(XattrFlags::CREATE) {
            SetXattr::Create
        } else if flags.contains(XattrFlags::REPLACE) {
            SetXattr::Replace
        } else {
            SetXattr::Any
        };
        self.changing().set_xattr(inode, name, value, how).map_err(of_xattr)
    }

    /// The value of an attribute.
    ///
    /// # Errors
    /// None of this name.
    pub fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Answer<Vec<u8>> {
        if !self.fs.holds().xattr(name) {
            return Err(Errno::OPNOTSUPP);
        }
        self.fs.get_xattr(inode, name).map_err(of_xattr)
    }

    /// Names of attributes, each with the zero after it.
    ///
    /// # Errors
    /// Not there, damage.
    pub fn list_xattrs(&mut self, inode: u32) -> Answer<Vec<u8>> {
        let holds = self.fs.holds();
        let names = self.fs.list_xattrs(inode).map_err(number)?;
        Ok(names
            .into_iter()
            .filter(|name| holds.xattr(name))
            .flat_map(|name| [name, vec![0]].concat())
            .collect())
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// None of this name.
    pub fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Answer<()> {
        self.changing().remove_xattr(inode, name).map_err(of_xattr)
    }
}
