//! Changes of files and names.

use super::super::blocks::Owner;
use super::super::file::File;
use super::super::log::Purpose;
use super::super::names::Directory;
use super::super::xattrs::SupersededNode;
use super::super::{Cached, Jffs2};
use super::{TARGET_MAX, VALUE_MAX, check_name, short_id, stored};
use crate::fs::{
    ACL_ACCESS, ACL_DEFAULT, Acl, AttributeChanges, BLOCK_BYTES, Error, FileFlags, FileType, FilledFile,
    LINK_TARGET, Name, NewFile, NewKind, Rename, Result, SetXattr,
};
use floatgate_media::jffs2::{
    Compressor, Dirent, DirentNode, Entry, Inode, NODE_ALIGN, ROOT_INODE, Xattr, XattrNode, XattrPrefix,
    Xref, acl_bytes, dirent_type, emit_acl, emit_device_number, file_type,
};
use floatgate_mtd::Mtd;
use std::collections::BTreeSet;
use std::ops::Range;

impl Jffs2<dyn Mtd> {
    fn begin(&mut self, purpose: Purpose) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.empty_unsettled()?;
        self.reserve(purpose)
    }

    fn new_inode(&mut self, file: &NewFile<'_>) -> Result<Inode> {
        let fields = Inode {
            inode: self.free_number()?,
            mode: file.kind.mode() | file.permissions & 0o7777,
            uid: short_id(file.uid)?,
            gid: short_id(file.gid)?,
            atime_s: self.time,
            mtime_s: self.time,
            ctime_s: self.time,
            ..Inode::default()
        };
        Ok(fields)
    }

    /// Number for a new inode: the highest one plus one. At the end of the range, the lowest number without any node on
    /// flash, including obsolete ones.
    fn free_number(&self) -> Result<u32> {
        if let Some(next) = self.highest_inode.checked_add(1) {
            return Ok(next);
        }
        let on_flash = self.blocks.owners().filter_map(|owner| match owner {
            Owner::Inode(inode) | Owner::Dirent(inode) | Owner::Xref(inode) => Some(inode),
            Owner::Xattr(_) => None,
        });
        let mut used: BTreeSet<u32> = on_flash.chain(self.nodes.keys().copied()).collect();
        used.extend(self.names.inodes());
        let free = (ROOT_INODE + 1..u32::MAX).find(|number| !used.contains(number));
        free.ok_or(Error::Invalid("the inode numbers are used up"))
    }

    /// Data attached to the inode of a new file.
    fn attachment(&self, kind: &NewKind<'_>) -> Result<Vec<u8>> {
        Ok(match kind {
            NewKind::Symlink(target) if target.is_empty() || target.len() > TARGET_MAX => {
                return Err(Error::TooLarge { what: LINK_TARGET, len: target.len() as u64 });
            }
            NewKind::Symlink(target) => target.to_vec(),
            NewKind::BlockDevice(number) | NewKind::CharacterDevice(number) => {
                let bytes = emit_device_number(*number, self.endian);
                bytes.ok_or(Error::Invalid("a device number with too many bits"))?.to_vec()
            }
            _ => Vec::new(),
        })
    }

    fn make(&mut self, fields: &Inode, attached: &[u8]) -> Result<()> {
        let len = attached.len() as u32;
        let is_link = fields.file_type() == Some(FileType::Symlink);
        let file_bytes = if is_link { len } else { fields.file_bytes };
        self.highest_inode = self.highest_inode.max(fields.inode);
        self.nodes.insert(fields.inode, Cached { checked: true, ..Cached::default() });
        self.files.insert(fields.inode, File::default());
        let written =
            self.write_inode(&Inode { file_bytes, file_len: len, ..*fields }, Compressor::None, attached);
        if written.is_err() {
            self.release(fields.inode)?;
        }
        written
    }

    fn check_new_name(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.directory_inode(directory)?;
        check_name(name)?;
        if self.names.get(directory, name).is_some() { Err(Error::Exists) } else { Ok(()) }
    }

    pub(in super::super) fn create(
        &mut self,
        directory: u32,
        name: &[u8],
        file: &NewFile<'_>,
    ) -> Result<u32> {
        self.begin(Purpose::Change)?;
        self.check_new_name(directory, name)?;
        let fields = self.new_inode(file)?;
        let attached = self.attachment(&file.kind)?;
        self.make(&fields, &attached)?;
        let named = self
            .reserve(Purpose::Change)
            .and_then(|()| self.write_dirent(directory, name, (fields.inode, dirent_type(fields.mode))));
        if let Err(error) = named {
            self.release(fields.inode)?;
            return Err(error);
        }
        Ok(fields.inode)
    }

    pub(in super::super) fn create_unnamed(&mut self, directory: u32, file: &NewFile<'_>) -> Result<u32> {
        self.begin(Purpose::Change)?;
        self.directory_inode(directory)?;
        let fields = self.new_inode(file)?;
        self.open.insert(fields.inode, 1);
        if let Err(error) = self.make(&fields, &[]) {
            self.open.remove(&fields.inode);
            return Err(error);
        }
        Ok(fields.inode)
    }

    pub(in super::super) fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Change)?;
        let (newest, of_type) = self.typed(inode)?;
        if of_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        self.check_new_name(directory, name)?;
        self.write_dirent(directory, name, (inode, dirent_type(newest.mode)))
    }

    fn named(&mut self, directory: u32, name: &[u8]) -> Result<(u32, FileType)> {
        let inode = self.lookup(directory, name)?;
        // A file whose nodes cannot be read can still be removed.
        let of_type = self.typed(inode).map_or(FileType::Regular, |(_, of_type)| of_type);
        Ok((inode, of_type))
    }

    pub(in super::super) fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Deletion)?;
        let (inode, of_type) = self.named(directory, name)?;
        if of_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        self.write_dirent(directory, name, (0, 0))?;
        self.release(inode)?;
        Ok(())
    }

    fn is_empty(&self, directory: u32) -> bool {
        self.names.directory(directory).is_none_or(Directory::is_empty)
    }

    pub(in super::super) fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Deletion)?;
        let (inode, of_type) = self.named(directory, name)?;
        if of_type != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        if !self.is_empty(inode) {
            return Err(Error::NotEmpty);
        }
        self.write_dirent(directory, name, (0, 0))?;
        self.release(inode)?;
        Ok(())
    }

    /// True if a directory equals another one or contains it.
    fn is_above(&self, directory: u32, below: u32) -> bool {
        let (mut seen, mut ahead) = (BTreeSet::new(), vec![directory]);
        while let Some(next) = ahead.pop() {
            if seen.insert(next) {
                let names = self.names.directory(next).into_iter().flat_map(Directory::names);
                let inside =
                    names.filter(|(_, named)| file_type(named.dirent_type) == Some(FileType::Directory));
                ahead.extend(inside.map(|(_, named)| named.inode));
            }
        }
        seen.contains(&below)
    }

    /// Renames a file. The new name is written before the old one is removed, as in Linux, so a power cut in between
    /// leaves both.
    pub(in super::super) fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        if matches!(how, Rename::Exchange | Rename::Whiteout) {
            return Err(Error::Unsupported("JFFS2 neither exchanges names nor leaves whiteouts"));
        }
        self.begin(Purpose::Change)?;
        let (inode, of_type) = self.named(from.directory, from.name)?;
        self.directory_inode(to.directory)?;
        check_name(to.name)?;
        let is_directory = of_type == FileType::Directory;
        if is_directory && self.is_above(inode, to.directory) {
            return Err(Error::Invalid("a directory cannot be moved below itself"));
        }
        let target = self.names.get(to.directory, to.name).map(|named| named.inode);
        if let Some(target) = target {
            if how == Rename::KeepTarget {
                return Err(Error::Exists);
            }
            if target == inode {
                return Ok(());
            }
            match (is_directory, self.named(to.directory, to.name)?.1 == FileType::Directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !self.is_empty(target) => return Err(Error::NotEmpty),
                _ => {}
            }
        }
        let mode = self.newest(inode).map_or(0o100_000, |newest| newest.mode);
        self.write_dirent(to.directory, to.name, (inode, dirent_type(mode)))?;
        if let Some(target) = target {
            self.release(target)?;
        }
        self.reserve(Purpose::Deletion)?;
        self.write_dirent(from.directory, from.name, (0, 0))
    }

    pub(in super::super) fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        self.begin(Purpose::Change)?;
        let newest = self.regular(inode)?;
        let end = offset + data.len() as u64;
        if end > u64::from(u32::MAX) {
            return Err(Error::TooLarge { what: "file", len: end });
        }
        let now = Inode { mtime_s: self.time, ctime_s: self.time, ..newest };
        if data.is_empty() {
            return Ok(());
        }
        if offset > u64::from(newest.file_bytes) {
            self.write_hole(&now, offset as u32)?;
        }
        // The data is written page by page, as Linux writes its page cache.
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let page_end = (at / BLOCK_BYTES as u64 + 1) * BLOCK_BYTES as u64;
            let len = ((page_end - at) as usize).min(data.len() - done);
            self.write_page(inode, at, &data[done..done + len], &now)?;
            done += len;
        }
        Ok(())
    }

    /// Writes data inside a page. A write up to the end of the page writes the whole page, which reduces the number of
    /// nodes of a file that grows in small pieces (Linux: `jffs2_write_end`).
    fn write_page(&mut self, inode: u32, at: u64, data: &[u8], now: &Inode) -> Result<()> {
        self.reserve(Purpose::Change)?;
        let size = self.newest(inode)?.file_bytes;
        let end = at + data.len() as u64;
        let ends_page = end.is_multiple_of(BLOCK_BYTES as u64);
        let start = if ends_page {
            at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
        } else {
            at - at % u64::from(NODE_ALIGN)
        };
        let mut bytes = vec![0; (end - start) as usize];
        let before = (at - start) as usize;
        if before > 0 {
            self.read_bytes(inode, start, &mut bytes[..before])?;
        }
        bytes[before..].copy_from_slice(data);
        let fields = Inode { file_bytes: size.max(end as u32), ..*now };
        self.write_data(inode, start, &bytes, Some(&fields))
    }

    /// Extends a file by a hole.
    fn write_hole(&mut self, now: &Inode, size: u32) -> Result<()> {
        let from = now.file_bytes;
        let fields = Inode { file_bytes: size, offset: from, file_len: size - from, ..*now };
        self.write_inode(&fields, Compressor::Zero, &[])
    }

    pub(in super::super) fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        let grows = changes.size.is_some();
        self.begin(if grows { Purpose::Change } else { Purpose::Deletion })?;
        let (newest, of_type) = self.typed(inode)?;
        if changes.flags.is_some_and(|flags| flags != FileFlags::default()) || changes.compression.is_some() {
            return Err(Error::Unsupported("JFFS2 has no flags"));
        }
        let mut now = newest;
        now.mode = changes.permissions.map_or(now.mode, |bits| now.mode & !0o7777 | bits & 0o7777);
        now.uid = changes.uid.map_or(Ok(now.uid), short_id)?;
        now.gid = changes.gid.map_or(Ok(now.gid), short_id)?;
        now.atime_s = changes.atime.map_or(now.atime_s, stored);
        let is_resized = changes.size.is_some();
        let changed = if of_type == FileType::Directory { self.changed(inode)? } else { None };
        let mtime = changed.unwrap_or(if is_resized { self.time } else { now.mtime_s });
        now.mtime_s = changes.mtime.map_or(mtime, stored);
        now.ctime_s = changes.ctime.map_or(self.time, stored);
        if let Some(permissions) = changes.permissions {
            self.change_acl(inode, permissions)?;
            self.reserve(Purpose::Deletion)?;
        }
        let Some(size) = changes.size else { return self.write_attributes(&now) };
        if of_type != FileType::Regular {
            let error = if of_type == FileType::Directory {
                Error::IsDirectory
            } else {
                Error::Invalid("not a regular file")
            };
            return Err(error);
        }
        let size = u32::try_from(size).map_err(|_| Error::TooLarge { what: "file", len: size })?;
        if size > now.file_bytes {
            return self.write_hole(&now, size);
        }
        self.write_attributes(&Inode { file_bytes: size, ..now })
    }

    pub(in super::super) fn set_xattr(
        &mut self,
        inode: u32,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.begin(Purpose::Change)?;
        let (fields, of_type) = self.typed(inode)?;
        let unknown =
            Error::Unsupported("JFFS2 has attributes in user., trusted., security. and of POSIX ACLs");
        let (prefix, rest) = XattrPrefix::split(name).ok_or(unknown)?;
        match (how, self.xattrs.find(inode, name)) {
            (SetXattr::Create, Some(_)) => return Err(Error::Exists),
            (SetXattr::Replace, None) => return Err(Error::NotFound),
            _ => {}
        }
        if rest.len() > usize::from(u8::MAX) {
            return Err(Error::TooLarge { what: "name of an attribute", len: rest.len() as u64 });
        }
        if !prefix.is_acl() {
            return self.write_xattr(inode, name, value);
        }
        Acl::check_type(name, of_type)?;
        let acl = Acl::of_xattr(value)?;
        self.write_acl(inode, name, acl.as_ref())?;
        if let Some(permissions) = acl.filter(|_| name == ACL_ACCESS).map(|acl| acl.permissions()) {
            let permissions = fields.mode & 0o7000 | permissions;
            if permissions != fields.mode & 0o7777 {
                let changes =
                    AttributeChanges { permissions: Some(permissions), ..AttributeChanges::default() };
                return self.set_attributes(inode, &changes);
            }
        }
        Ok(())
    }

    /// Replaces the ACL of an inode. An ACL that is equivalent to the mode is not stored (Linux:
    /// `posix_acl_update_mode`).
    fn write_acl(&mut self, inode: u32, name: &[u8], acl: Option<&Acl>) -> Result<()> {
        let is_stored = |acl: &&Acl| name == ACL_DEFAULT || !acl.is_permissions_only();
        if let Some(acl) = acl.filter(is_stored) {
            let mut stored = vec![0; acl_bytes(acl.entries())];
            emit_acl(acl.entries(), self.endian, &mut stored);
            return self.write_xattr(inode, name, &stored);
        }
        match self.xattrs.find(inode, name) {
            Some(xid) => self.take_xattr(inode, xid),
            None => Ok(()),
        }
    }

    /// Updates an inode's ACL after a change of its permissions (Linux: `posix_acl_chmod`). A malformed ACL stays as it
    /// is.
    fn change_acl(&mut self, inode: u32, permissions: u32) -> Result<()> {
        let Some(Ok(value)) = self.xattrs.value(inode, ACL_ACCESS, self.endian) else { return Ok(()) };
        let Ok(Some(acl)) = Acl::of_xattr(&value) else { return Ok(()) };
        let changed = acl.with_permissions(permissions);
        if changed == acl { Ok(()) } else { self.write_acl(inode, ACL_ACCESS, Some(&changed)) }
    }

    /// Writes or replaces an attribute of an inode, with the value in on-flash format.
    fn write_xattr(&mut self, inode: u32, name: &[u8], value: &[u8]) -> Result<()> {
        let Some((prefix, rest)) = XattrPrefix::split(name) else { return Err(Error::BadName) };
        let most = VALUE_MAX.min(self.blocks.erase_bytes as usize / 2);
        if value.len() > most {
            return Err(Error::TooLarge { what: "value of an attribute", len: value.len() as u64 });
        }
        let before = self.xattrs.find(inode, name);
        let (xid, sequence) = self.xattrs.next();
        let xattr = Xattr { xid, version: 1, prefix, ..Xattr::default() };
        let node = XattrNode { xattr, name: rest, value };
        let mut bytes = vec![0; node.size()];
        node.emit(self.endian, &mut bytes);
        let entry = Entry::Xattr { xid, version: 1, offset: 0, len: bytes.len() as u32 };
        let at = self.write_node(&bytes, Owner::Xattr(xid), entry)?;
        self.xattrs.add(&node, at);
        self.reserve(Purpose::Change)?;
        self.write_xref(&Xref { inode, xid, sequence, ..Xref::default() })?;
        if let Some(before) = before {
            self.reserve(Purpose::Deletion)?;
            self.take_xattr(inode, before)?;
        }
        Ok(())
    }

    fn write_xref(&mut self, xref: &Xref) -> Result<()> {
        let mut bytes = [0; Xref::SIZE];
        xref.emit(self.endian, &mut bytes);
        let at = self.write_node(&bytes, Owner::Xref(xref.inode), Entry::Xref { offset: 0 })?;
        if let Some(SupersededNode { at: before, .. }) = self.xattrs.refer(xref, at) {
            self.obsolete(before)?;
        }
        Ok(())
    }

    /// Removes an attribute from an inode.
    pub(in super::super) fn take_xattr(&mut self, inode: u32, xid: u32) -> Result<()> {
        let sequence = self.xattrs.next().1 | Xref::DELETED;
        self.write_xref(&Xref { inode, xid, sequence, ..Xref::default() })?;
        for at in self.xattrs.forget_unused() {
            self.obsolete(at)?;
        }
        Ok(())
    }

    pub(in super::super) fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Deletion)?;
        let xid = self.xattrs.find(inode, name).ok_or(Error::NotFound)?;
        self.take_xattr(inode, xid)
    }

    pub(in super::super) fn open(&mut self, inode: u32) -> Result<()> {
        self.newest(inode)?;
        *self.open.entry(inode).or_default() += 1;
        Ok(())
    }

    pub(in super::super) fn close(&mut self, inode: u32) -> Result<()> {
        if let Some(count) = self.open.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&inode);
                if self.nodes.contains_key(&inode) {
                    self.release(inode)?;
                }
            }
        }
        Ok(())
    }

    pub(in super::super) fn sync(&mut self) -> Result<()> {
        if self.is_read_only() {
            return self.failure.clone().map_or(Ok(()), Err);
        }
        while let Some((&inode, &end)) = self.filling.first_key_value() {
            self.filling.remove(&inode);
            let fields = self.newest(inode)?;
            self.fill_hole(&fields, end..fields.file_bytes)?;
        }
        while let Some((&inode, &fields)) = self.pending.first_key_value() {
            self.reserve(Purpose::Change)?;
            self.pending.remove(&inode);
            self.write_attributes(&fields)?;
        }
        self.flush()
    }

    /// Adds a file. Its first node is written together with its data, so that no node becomes obsolete. A file without
    /// data gets its node with the next [`sync`](Self::sync).
    pub(in super::super) fn fill(
        &mut self,
        directory: u32,
        name: &[u8],
        file: &FilledFile<'_>,
    ) -> Result<u32> {
        self.begin(Purpose::Change)?;
        self.check_new_name(directory, name)?;
        let parent = self.attributes(directory)?;
        let times = Inode {
            atime_s: stored(file.atime),
            mtime_s: stored(file.mtime),
            ctime_s: stored(file.ctime),
            ..self.new_inode(&file.file)?
        };
        let attached = self.attachment(&file.file.kind)?;
        let inode = times.inode;
        if matches!(file.file.kind, NewKind::Regular) {
            let size =
                u32::try_from(file.size).map_err(|_| Error::TooLarge { what: "file", len: file.size })?;
            self.highest_inode = self.highest_inode.max(inode);
            self.nodes.insert(inode, Cached { checked: true, ..Cached::default() });
            self.files.insert(inode, File::default());
            self.pending.insert(inode, Inode { file_bytes: size, ..times });
            if size > 0 {
                self.filling.insert(inode, 0);
            }
        } else {
            self.make(&times, &attached)?;
        }
        self.reserve(Purpose::Change)?;
        let of_type = dirent_type(times.mode);
        self.write_dirent_at(directory, name, (inode, of_type), stored(parent.mtime))?;
        for (name, value) in file.xattrs {
            self.set_xattr(inode, name, value, SetXattr::Any)?;
        }
        Ok(inode)
    }

    pub(in super::super) fn fill_link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Change)?;
        let (newest, of_type) = self.typed(inode)?;
        if of_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        self.check_new_name(directory, name)?;
        let time = stored(self.attributes(directory)?.mtime);
        self.write_dirent_at(directory, name, (inode, dirent_type(newest.mode)), time)
    }

    pub(in super::super) fn fill_block(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        self.begin(Purpose::Change)?;
        let fields = self.newest(inode)?;
        let (offset_bytes, size) = (offset as u32, fields.file_bytes);
        if let Some(end) = self.filling.get(&inode).copied() {
            self.fill_hole(&fields, end..offset_bytes)?;
            let end = end.max(offset_bytes.saturating_add(data.len() as u32));
            if end < size {
                self.filling.insert(inode, end);
            } else {
                self.filling.remove(&inode);
            }
        }
        self.write_data(inode, offset, data, Some(&fields))
    }

    /// Writes a hole node for a range without data of a file that is being added, as Linux does, so that a node covers
    /// every byte.
    fn fill_hole(&mut self, newest: &Inode, bytes: Range<u32>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.reserve(Purpose::Change)?;
        let fields = Inode { offset: bytes.start, file_len: bytes.end - bytes.start, ..*newest };
        self.write_inode(&fields, Compressor::Zero, &[])
    }

    /// Counters and lists that contradict the flash, as text.
    pub(in super::super) fn check(&mut self) -> Result<Vec<String>> {
        let mut wrong = self.blocks.check();
        let all: Vec<u32> = self.nodes.keys().copied().collect();
        for inode in all {
            let mut places: Vec<u32> = self.file(inode)?.places().collect();
            let mut refs: Vec<u32> = self
                .nodes
                .get(&inode)
                .map_or(Vec::new(), |cached| cached.refs.iter().map(|node| node.at).collect());
            places.sort_unstable();
            refs.sort_unstable();
            if places != refs {
                wrong.push(format!(
                    "inode {inode}: nodes at {refs:x?} are remembered, {places:x?} hold something"
                ));
            }
            wrong.extend(
                places
                    .iter()
                    .filter(|at| !self.blocks.is_live(**at))
                    .map(|at| format!("inode {inode}: its node at {at:#x} is counted as dirt")),
            );
        }
        for (parent, name, named) in self.names.all() {
            let mut bytes = vec![0; Dirent::SIZE + name.len()];
            self.read_flash(named.at, &mut bytes)?;
            let is_there = DirentNode::parse(&bytes, self.endian).is_ok_and(|node| {
                let fields = node.dirent;
                node.name == name && (fields.parent, fields.version) == (parent, named.version)
            });
            if !is_there || !self.blocks.is_live(named.at) {
                let name = name.escape_ascii();
                wrong.push(format!(
                    "name {name} in {parent}: its node is not at {:#x}, or counted as dirt",
                    named.at
                ));
            }
        }
        Ok(wrong)
    }
}
