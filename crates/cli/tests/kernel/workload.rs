//! Random operations on floatgate's UBIFS, of every kind.

use crate::flips::Random;
use crate::live::Live;
use floatgate_stack::fs::{
    AttributeChanges, Compression, DeviceNumber, FileFlags, Name, NewFile, NewKind, Rename, SetXattr,
    Timestamp,
};
use floatgate_stack::ubifs::{Error, Result};

/// A name that exists.
#[derive(Clone, Debug)]
struct Known {
    directory: u32,
    name: Vec<u8>,
    inode: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    Directory,
    Other,
}

/// A filesystem at work.
pub(crate) struct Workload {
    pub(crate) live: Live,
    random: Random,
    names: Vec<Known>,
    /// Files without a name.
    open: Vec<u32>,
    steps: u64,
}

/// 3 September 2022, as good as any.
const START: i64 = 1_662_163_200;

impl Workload {
    pub(crate) fn new(live: Live, seed: u64) -> Self {
        Self { live, random: Random(seed), names: Vec::new(), open: Vec::new(), steps: 0 }
    }

    /// Does so many operations, or fewer when power goes away: then false. What the filesystem refuses is no failure.
    pub(crate) fn run(&mut self, operations: usize) -> bool {
        (0..operations).all(|_| match self.step() {
            Err(error) if error.is_power_loss() => false,
            Err(
                error @ (Error::Volume(_)
                | Error::Node { .. }
                | Error::WrongNode { .. }
                | Error::Corrupt { .. }),
            ) => {
                panic!("operation {}: {error}", self.steps)
            }
            _ => true,
        })
    }

    /// Closes the files without a name.
    pub(crate) fn close_all(&mut self) {
        self.open.drain(..).for_each(|inode| self.live.close(inode).unwrap());
    }

    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        let nanoseconds = self.random.below(1_000_000_000) as u32;
        self.live.set_time(Timestamp { seconds: START + self.steps.cast_signed(), nanoseconds });
        match self.random.below(25) {
            0..=4 => self.create(),
            5 => self.link(),
            6..=8 => self.rename(),
            9..=10 => self.remove(),
            11..=14 => self.write(),
            15 => self.truncate(),
            16 => self.change(),
            17..=18 => self.set_attribute(),
            19 => self.remove_attribute(),
            20 => self.change_flags(),
            21 => self.unlink_open(),
            22 => self.collide(),
            23 => self.fsync(),
            _ if self.random.below(6) == 0 => self.live.sync(),
            _ => self.append(),
        }
    }

    fn pick(&mut self, wanted: impl Fn(Kind) -> bool) -> Option<usize> {
        let found: Vec<_> = (0..self.names.len()).filter(|index| wanted(self.names[*index].kind)).collect();
        (!found.is_empty()).then(|| found[self.random.below(found.len())])
    }

    fn directory(&mut self) -> u32 {
        let found = self.pick(|kind| kind == Kind::Directory).filter(|_| self.random.below(4) > 0);
        found.map_or(self.live.root(), |index| self.names[index].inode)
    }

    fn name(&mut self) -> Vec<u8> {
        let len = if self.random.below(12) == 0 { 255 } else { 1 + self.random.below(14) };
        let byte = |random: &mut Random| match random.below(8) {
            0 => 0x80 | random.next() as u8,
            _ => b'a' + random.below(26) as u8,
        };
        (0..len).map(|_| byte(&mut self.random)).collect()
    }

    fn bytes(&mut self, end: usize) -> Vec<u8> {
        let len = self.random.below(end);
        let noise = self.random.below(3);
        let byte = |random: &mut Random, at: usize| match noise {
            0 => random.next() as u8,
            1 => (at / 97) as u8,
            _ => b"words of a text, "[at % 17],
        };
        (0..len).map(|at| byte(&mut self.random, at)).collect()
    }

    fn create(&mut self) -> Result<()> {
        let (directory, name, target) = (self.directory(), self.name(), self.bytes(4000));
        let wide = self.random.below(2) == 0;
        let (major, minor) = if wide { (1 << 12, 1 << 20) } else { (256, 256) };
        let device =
            DeviceNumber { major: self.random.below(major) as u32, minor: self.random.below(minor) as u32 };
        let target: Vec<u8> = target.into_iter().filter(|byte| *byte != 0).chain(*b"x").collect();
        let kinds = [
            (NewKind::Directory, Kind::Directory),
            (NewKind::Directory, Kind::Directory),
            (NewKind::Symlink(&target), Kind::Other),
            (NewKind::BlockDevice(device), Kind::Other),
            (NewKind::CharacterDevice(device), Kind::Other),
            (NewKind::Fifo, Kind::Other),
            (NewKind::Socket, Kind::Other),
        ];
        let (new, kind) =
            kinds.get(self.random.below(14)).cloned().unwrap_or((NewKind::Regular, Kind::Regular));
        let permissions = self.random.below(0o10000) as u32;
        let (uid, gid) = (self.random.next() as u32, self.random.below(1000) as u32);
        let inode = self.live.create(directory, &name, &NewFile { kind: new, permissions, uid, gid })?;
        self.names.push(Known { directory, name, inode, kind });
        if kind == Kind::Regular { self.write_to(inode, 0) } else { Ok(()) }
    }

    fn link(&mut self) -> Result<()> {
        let Some(index) = self.pick(|kind| kind != Kind::Directory) else { return Ok(()) };
        let (directory, name) = (self.directory(), self.name());
        let Known { inode, kind, .. } = self.names[index];
        self.live.link(inode, directory, &name)?;
        self.names.push(Known { directory, name, inode, kind });
        Ok(())
    }

    fn rename(&mut self) -> Result<()> {
        let Some(index) = self.pick(|_| true) else { return Ok(()) };
        let target = self.pick(|_| true).filter(|_| self.random.below(2) == 0);
        let (directory, name) = match target {
            Some(target) => (self.names[target].directory, self.names[target].name.clone()),
            None => (self.directory(), self.name()),
        };
        let hows = [Rename::Replace, Rename::Replace, Rename::KeepTarget, Rename::Exchange, Rename::Whiteout];
        let how = hows[self.random.below(hows.len())];
        let from = self.names[index].clone();
        let to = Name { directory, name: &name };
        self.live.rename(Name { directory: from.directory, name: &from.name }, to, how)?;
        self.renamed(index, target, how);
        let known = &mut self.names[index];
        (known.directory, known.name) = (directory, name);
        if let Some(target) = target.filter(|target| *target != index) {
            self.over(index, target, from, how);
        }
        Ok(())
    }

    /// A whiteout is a name of its own, which nobody remembers.
    fn renamed(&self, index: usize, target: Option<usize>, how: Rename) {
        assert!(how != Rename::KeepTarget || target.is_none_or(|target| target == index));
    }

    /// What had the new name has the old one or none; two names of one file stay.
    fn over(&mut self, index: usize, target: usize, from: Known, how: Rename) {
        if how == Rename::Exchange {
            (self.names[target].directory, self.names[target].name) = (from.directory, from.name);
        } else if self.names[target].inode == from.inode {
            self.names[index] = from;
        } else {
            self.names.swap_remove(target);
        }
    }

    fn remove(&mut self) -> Result<()> {
        let Some(index) = self.pick(|_| true) else { return Ok(()) };
        let Known { directory, name, kind, .. } = self.names[index].clone();
        if kind == Kind::Directory {
            self.live.remove_dir(directory, &name)?;
        } else {
            self.live.unlink(directory, &name)?;
        }
        self.names.swap_remove(index);
        Ok(())
    }

    fn regular(&mut self) -> Option<u32> {
        let open = self.open.len();
        if open > 0 && self.random.below(8) == 0 {
            return Some(self.open[self.random.below(open)]);
        }
        self.pick(|kind| kind == Kind::Regular).map(|index| self.names[index].inode)
    }

    fn write_to(&mut self, inode: u32, offset: u64) -> Result<()> {
        let end = if self.random.below(8) == 0 { 60_000 } else { 6_000 };
        let bytes = self.bytes(end);
        self.live.write(inode, offset, &bytes)
    }

    fn write(&mut self) -> Result<()> {
        let Some(inode) = self.regular() else { return Ok(()) };
        let size = self.live.attributes(inode)?.size as usize;
        let hole = if self.random.below(20) == 0 { 1 << 20 } else { 5_000 };
        let offset = self.random.below(size + hole) as u64;
        self.write_to(inode, offset)
    }

    fn append(&mut self) -> Result<()> {
        let Some(inode) = self.regular() else { return Ok(()) };
        let size = self.live.attributes(inode)?.size;
        self.write_to(inode, size)
    }

    fn truncate(&mut self) -> Result<()> {
        let Some(inode) = self.regular() else { return Ok(()) };
        let old = self.live.attributes(inode)?.size as usize;
        let size = Some(self.random.below(old + 9_000) as u64);
        self.live.set_attributes(inode, &AttributeChanges { size, ..AttributeChanges::default() })
    }

    fn any(&mut self) -> Option<u32> {
        self.pick(|_| true).map(|index| self.names[index].inode)
    }

    fn change(&mut self) -> Result<()> {
        let Some(inode) = self.any() else { return Ok(()) };
        let seconds = (self.random.next() >> 31).cast_signed() - (1 << 31);
        let time = Some(Timestamp { seconds, nanoseconds: self.random.below(1_000_000_000) as u32 });
        let changes = [
            AttributeChanges { permissions: Some(self.random.below(0o10000) as u32), ..Default::default() },
            AttributeChanges { uid: Some(self.random.next() as u32), gid: Some(77), ..Default::default() },
            AttributeChanges { mtime: time, atime: time, ..Default::default() },
        ];
        self.live.set_attributes(inode, &changes[self.random.below(changes.len())])
    }

    fn set_attribute(&mut self) -> Result<()> {
        let Some(index) = self.pick(|_| true) else { return Ok(()) };
        let Known { inode, kind, .. } = self.names[index];
        let spaces =
            if kind == Kind::Other { &["trusted", "security"][..] } else { &["user", "trusted"][..] };
        let name = format!("{}.number-{}", spaces[self.random.below(2)], self.random.below(40));
        let end = if self.random.below(6) == 0 { 4096 } else { 120 };
        let value = self.bytes(end);
        let hows = [SetXattr::Any, SetXattr::Any, SetXattr::Create, SetXattr::Replace];
        self.live.set_xattr(inode, name.as_bytes(), &value, hows[self.random.below(4)])
    }

    fn remove_attribute(&mut self) -> Result<()> {
        let Some(inode) = self.any() else { return Ok(()) };
        let names = self.live.list_xattrs(inode)?;
        if names.is_empty() {
            return Ok(());
        }
        self.live.remove_xattr(inode, &names[self.random.below(names.len())])
    }

    fn change_flags(&mut self) -> Result<()> {
        let Some(index) = self.pick(|kind| kind != Kind::Other) else { return Ok(()) };
        let Known { inode, kind, .. } = self.names[index];
        let mut all = vec![FileFlags::default(), FileFlags::COMPRESS, FileFlags::COMPRESS | FileFlags::SYNC];
        match kind {
            Kind::Directory => all.push(FileFlags::DIRSYNC),
            _ => all.extend([FileFlags::IMMUTABLE, FileFlags::APPEND | FileFlags::COMPRESS]),
        }
        let compressions = [Compression::None, Compression::Lzo, Compression::Zlib, Compression::Zstd];
        let flags = Some(all[self.random.below(all.len())]);
        let compression = Some(compressions[self.random.below(4)]);
        self.live.set_attributes(inode, &AttributeChanges { flags, compression, ..Default::default() })
    }

    fn unlink_open(&mut self) -> Result<()> {
        let Some(index) = self.pick(|kind| kind == Kind::Regular) else { return Ok(()) };
        let Known { directory, name, inode, .. } = self.names[index].clone();
        let links = self.names.iter().filter(|known| known.inode == inode).count();
        // Of an orphan with attributes, Linux 6.1 removes the inode only, of its own images, too.
        if links > 1 || self.open.len() > 12 || !self.live.list_xattrs(inode)?.is_empty() {
            return Ok(());
        }
        self.live.open(inode)?;
        if let Err(error) = self.live.unlink(directory, &name) {
            self.live.close(inode)?;
            return Err(error);
        }
        self.names.swap_remove(index);
        self.open.push(inode);
        Ok(())
    }

    /// Names with one hash: one more in a byte is eleven less in the next.
    fn collide(&mut self) -> Result<()> {
        let directory = self.directory();
        let first = self.random.below(1 << 16);
        for index in first..first + self.random.below(12) {
            let name: Vec<u8> =
                (0..16).flat_map(|bit| if index >> bit & 1 == 0 { *b"ao" } else { *b"bd" }).collect();
            let file = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
            let inode = self.live.create(directory, &name, &file)?;
            self.names.push(Known { directory, name, inode, kind: Kind::Regular });
        }
        Ok(())
    }

    fn fsync(&mut self) -> Result<()> {
        let Some(inode) = self.any() else { return Ok(()) };
        self.live.fsync(inode)
    }
}
