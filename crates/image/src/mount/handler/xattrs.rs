//! Extended attributes.

use floatgate_stack::fs::{Error, SetXattr};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::{Answer, Handler, number};

/// Number of an error about an attribute.
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
    /// A name that the filesystem does not support, or the errors of the flags.
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

    /// Value of an attribute.
    ///
    /// # Errors
    /// There is no such attribute.
    pub fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Answer<Vec<u8>> {
        if !self.fs.holds().xattr(name) {
            return Err(Errno::OPNOTSUPP);
        }
        self.fs.get_xattr(inode, name).map_err(of_xattr)
    }

    /// Names of attributes, each followed by a zero.
    ///
    /// # Errors
    /// The file does not exist, or damage.
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
    /// There is no such attribute.
    pub fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Answer<()> {
        self.changing().remove_xattr(inode, name).map_err(of_xattr)
    }
}
