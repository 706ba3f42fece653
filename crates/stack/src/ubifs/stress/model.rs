//! Model of the filesystem's contents, and random changes to it.

use floatgate_mtd::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use floatgate_media::file::{FileFlags, FileType};
use floatgate_media::ubifs::{
    BLOCK_BYTES, Block, DataNode, Entry, EntryNode, Inode, InodeNode, Key, Node, NodeType, Truncation,
};

use super::super::core::Core;
use super::super::error::{Error, Result};
use super::super::journal::Change;
use super::super::layout::Head;
use super::super::space::BudgetRequest;
use super::super::testing::TestVolume;

pub(super) const ROOT: u32 = 1;

type Fs = Core<TestVolume>;

/// Inode of a directory of this size.
pub(super) fn directory(number: u32, size: u64) -> InodeNode<'static> {
    let inode = Inode { key: Key::inode(number), size, links: 2, mode: 0o40_755, ..Inode::default() };
    InodeNode { inode, data: &[] }
}

fn hash(fs: &Fs, name: &[u8]) -> u32 {
    fs.io.layout().superblock.key_hash.hash(name).unwrap()
}

/// Visible state of a filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Inodes with their attached data, by inode number.
    pub(super) inodes: BTreeMap<u32, (Inode, Vec<u8>)>,
    /// Inode numbers by name in the root directory.
    pub(super) names: BTreeMap<Vec<u8>, u32>,
    /// Inodes of attribute values, by inode and attribute name.
    pub(super) attributes: BTreeMap<(u32, Vec<u8>), u32>,
    /// Data of files, by inode and block.
    pub(super) blocks: BTreeMap<(u32, u32), Rc<[u8]>>,
    /// Open inodes without a name.
    pub(super) open: BTreeSet<u32>,
}

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Write,
    Inode,
    Link,
    Rename,
    Unlink,
    Close,
    Truncate,
    SetAttribute,
    RemoveAttribute,
}

pub(super) struct Model {
    pub(super) state: State,
    pub(super) random: Random,
    /// Number of files to create.
    pub(super) files: usize,
    /// Highest block number to be written.
    pub(super) blocks: u32,
    /// States after each change; `None` if they are not kept.
    pub(super) history: Option<Vec<State>>,
}

impl Model {
    pub(super) fn new(seed: u64) -> Self {
        let mut state = State::default();
        state.inodes.insert(ROOT, (directory(ROOT, 0).inode, Vec::new()));
        Self { state, random: Random::new(seed), files: 60, blocks: 12, history: None }
    }

    fn pick<T: Clone>(&mut self, from: impl IntoIterator<Item = T>) -> Option<T> {
        let all: Vec<T> = from.into_iter().collect();
        let at = usize::try_from(self.random.below(all.len() as u64)).unwrap();
        all.get(at).cloned()
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let len = self.random.below(most) + 1;
        (0..len).map(|_| u8::try_from(self.random.bits() & 0xFF).unwrap()).collect()
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.random.below(10_000);
        let pad = usize::try_from(self.random.below(40)).unwrap();
        format!("name {number}{}", "x".repeat(pad)).into_bytes()
    }

    /// Makes one random change.
    pub(super) fn step(&mut self, fs: &mut Fs) -> Result<()> {
        use Operation::{
            Close, Create, Inode, Link, RemoveAttribute, Rename, SetAttribute, Truncate, Unlink, Write,
        };
        let few = self.state.names.len() < self.files;
        let operation = match self.random.below(20) {
            0..3 => {
                if few {
                    Create
                } else {
                    Unlink
                }
            }
            3..10 => Write,
            10 => Inode,
            11 => Link,
            12..14 => Rename,
            14 => Unlink,
            15 => Close,
            16 => Truncate,
            17..19 => SetAttribute,
            _ => RemoveAttribute,
        };
        self.run(fs, operation)
    }

    /// Makes a change of this kind; does nothing if no object for it exists.
    pub(super) fn run(&mut self, fs: &mut Fs, operation: Operation) -> Result<()> {
        match operation {
            Operation::Create => self.create(fs),
            Operation::Write => self.write(fs),
            Operation::Inode => self.inode(fs),
            Operation::Link => self.link(fs),
            Operation::Rename => self.rename(fs),
            Operation::Unlink => self.unlink(fs),
            Operation::Close => self.close(fs),
            Operation::Truncate => self.truncate(fs),
            Operation::SetAttribute => self.set_attribute(fs),
            Operation::RemoveAttribute => self.remove_attribute(fs),
        }
    }

    /// Writes changes with a budget, like the file layer, and applies them to the model.
    fn apply(
        &mut self,
        fs: &mut Fs,
        head: Head,
        request: &BudgetRequest,
        changes: &[Change<'_>],
        deletes: bool,
    ) -> Result<()> {
        let cost = match fs.reserve_space(request, true) {
            Ok(cost) => Some(cost),
            // Deletions are allowed without a budget.
            Err(Error::NoSpace) if deletes => None,
            Err(error) => return Err(error),
        };
        let mut next = self.state.clone();
        changes.iter().for_each(|change| next.change(change));
        self.remember(&next);
        let outcome = fs.apply(head, changes);
        if let Some(cost) = cost {
            if outcome.is_ok() { fs.space.release(cost) } else { fs.space.withdraw(cost) }
        }
        outcome?;
        self.state = next;
        Ok(())
    }

    /// Records a state that a power cut can leave from now on.
    fn remember(&mut self, state: &State) {
        if let Some(history) = &mut self.history {
            history.push(state.clone());
        }
    }

    /// Inodes of files with a name.
    fn files(&self) -> Vec<u32> {
        self.state.names.values().copied().collect()
    }

    fn root(&self) -> Change<'static> {
        let inode = Inode { size: self.state.names.len() as u64, ..self.state.inodes[&ROOT].0 };
        Change::Inode(InodeNode { inode, data: &[] })
    }

    fn node(&self, number: u32) -> Inode {
        self.state.inodes[&number].0
    }

    fn create(&mut self, fs: &mut Fs) -> Result<()> {
        let (number, created_sqnum) = fs.new_inode()?;
        let name = self.name();
        if self.state.names.contains_key(&name) {
            return Ok(());
        }
        let inode =
            Inode { key: Key::inode(number), created_sqnum, links: 1, mode: 0o100_644, ..Inode::default() };
        let request =
            BudgetRequest { new_inodes: 1, new_entries: 1, changed_inodes: 1, ..BudgetRequest::default() };
        let changes = [entry(fs, &name, number), Change::Inode(InodeNode { inode, data: &[] }), self.root()];
        self.apply(fs, Head::Base, &request, &changes, false)
    }

    fn write(&mut self, fs: &mut Fs) -> Result<()> {
        let files = self.files().into_iter().chain(self.state.open.iter().copied()).collect::<Vec<_>>();
        let Some(number) = self.pick(files) else { return Ok(()) };
        let block = u32::try_from(self.random.below(u64::from(self.blocks))).unwrap();
        let data = self.bytes(u64::from(BLOCK_BYTES));
        let size = u32::try_from(data.len()).unwrap();
        let key = Key::data(number, block).unwrap();
        let node = DataNode { block: Block { key, size, ..Block::default() }, data: &data };
        let new = u32::from(!self.state.blocks.contains_key(&(number, block)));
        let request = BudgetRequest { new_blocks: new, changed_blocks: 1 - new, ..BudgetRequest::default() };
        self.apply(fs, Head::Data, &request, &[Change::Data(node)], false)
    }

    fn inode(&mut self, fs: &mut Fs) -> Result<()> {
        let files = self.files();
        let Some(number) = self.pick(files) else { return Ok(()) };
        let inode = Inode { mtime_s: self.random.bits().cast_signed(), ..self.node(number) };
        let request = BudgetRequest { changed_inodes: 1, ..BudgetRequest::default() };
        let changes = [Change::Inode(InodeNode { inode, data: &[] })];
        self.apply(fs, Head::Base, &request, &changes, false)
    }

    fn link(&mut self, fs: &mut Fs) -> Result<()> {
        let files = self.files();
        let name = self.name();
        let Some(number) = self.pick(files).filter(|_| !self.state.names.contains_key(&name)) else {
            return Ok(());
        };
        let old = self.node(number);
        let inode = Inode { links: old.links + 1, ..old };
        let request = BudgetRequest { new_entries: 1, changed_inodes: 2, ..BudgetRequest::default() };
        let changes = [entry(fs, &name, number), Change::Inode(InodeNode { inode, data: &[] }), self.root()];
        self.apply(fs, Head::Base, &request, &changes, false)
    }

    fn rename(&mut self, fs: &mut Fs) -> Result<()> {
        let names: Vec<Vec<u8>> = self.state.names.keys().cloned().collect();
        let replace = self.random.below(2) == 0;
        let new = if replace { self.pick(names.clone()) } else { Some(self.name()) };
        let (Some(old), Some(new)) = (self.pick(names), new) else { return Ok(()) };
        let number = self.state.names[&old];
        let target = self.state.names.get(&new).copied();
        if old == new || target == Some(number) {
            return Ok(());
        }
        let mut changes = vec![entry(fs, &new, number), entry(fs, &old, 0)];
        if let Some(target) = target {
            let replaced = self.node(target);
            let inode = Inode { links: replaced.links - 1, ..replaced };
            changes.push(Change::Inode(InodeNode { inode, data: &[] }));
        }
        changes.push(self.root());
        let request = BudgetRequest {
            new_entries: 1,
            changed_entries: 1,
            changed_inodes: 2,
            ..BudgetRequest::default()
        };
        self.apply(fs, Head::Base, &request, &changes, false)
    }

    fn unlink(&mut self, fs: &mut Fs) -> Result<()> {
        let names: Vec<Vec<u8>> = self.state.names.keys().cloned().collect();
        let Some(name) = self.pick(names) else { return Ok(()) };
        let number = self.state.names[&name];
        let old = self.node(number);
        let inode = Inode { links: old.links - 1, ..old };
        let request = BudgetRequest { changed_entries: 1, changed_inodes: 2, ..BudgetRequest::default() };
        let changes = [entry(fs, &name, 0), Change::Inode(InodeNode { inode, data: &[] }), self.root()];
        self.apply(fs, Head::Base, &request, &changes, true)?;
        if inode.links == 0 && self.random.below(3) > 0 {
            return self.delete(fs, number);
        }
        Ok(())
    }

    fn close(&mut self, fs: &mut Fs) -> Result<()> {
        match self.pick(self.state.open.clone()) {
            Some(number) => self.delete(fs, number),
            None => Ok(()),
        }
    }

    fn delete(&mut self, fs: &mut Fs, number: u32) -> Result<()> {
        let inode = self.node(number);
        let mut next = self.state.clone();
        next.forget(number);
        self.remember(&next);
        fs.delete_inode(&inode)?;
        self.state = next;
        Ok(())
    }

    /// Truncates a file inside an existing block, or between blocks.
    fn truncate(&mut self, fs: &mut Fs) -> Result<()> {
        let files = self.files();
        let Some(number) = self.pick(files) else { return Ok(()) };
        let block_bytes = u64::from(BLOCK_BYTES);
        let old_size = u64::from(self.blocks) * block_bytes;
        let new_size = self.random.below(old_size);
        let inode = self.node(number);
        let truncation = Truncation { inode: number, old_size, new_size };
        let mut changes = vec![Change::Inode(InodeNode { inode, data: &[] }), Change::Truncation(truncation)];
        let block = u32::try_from(new_size / block_bytes).unwrap();
        let rest = usize::try_from(new_size % block_bytes).unwrap();
        let cut =
            self.state.blocks.get(&(number, block)).filter(|data| rest > 0 && data.len() > rest).cloned();
        if let Some(data) = &cut {
            let size = u32::try_from(rest).unwrap();
            let key = Key::data(number, block).unwrap();
            changes.push(Change::Data(DataNode {
                block: Block { key, size, ..Block::default() },
                data: &data[..rest],
            }));
        }
        let request = BudgetRequest { changed_inodes: 1, changed_blocks: 1, ..BudgetRequest::default() };
        self.apply(fs, Head::Base, &request, &changes, true)
    }

    fn set_attribute(&mut self, fs: &mut Fs) -> Result<()> {
        let files = self.files();
        let Some(host) = self.pick(files) else { return Ok(()) };
        let name = format!("user.{}", self.random.below(4)).into_bytes();
        let value = self.bytes(300);
        let known = self.state.attributes.get(&(host, name.clone())).copied();
        let (number, created_sqnum) = match known {
            Some(number) => (number, self.node(number).created_sqnum),
            None => fs.new_inode()?,
        };
        let inode = Inode {
            key: Key::inode(number),
            created_sqnum,
            links: 1,
            mode: 0o100_777,
            flags: FileFlags::XATTR,
            size: value.len() as u64,
            data_len: u32::try_from(value.len()).unwrap(),
            ..Inode::default()
        };
        let node = Change::Inode(InodeNode { inode, data: &value });
        let old = self.node(host);
        let grown = Inode { xattr_count: old.xattr_count + u32::from(known.is_none()), ..old };
        let host_change = Change::Inode(InodeNode { inode: grown, data: &[] });
        let bytes = inode.data_len.next_multiple_of(8);
        if known.is_some() {
            let request =
                BudgetRequest { changed_inodes: 2, changed_inode_bytes: bytes, ..BudgetRequest::default() };
            return self.apply(fs, Head::Base, &request, &[host_change, node], false);
        }
        let request = BudgetRequest {
            new_inodes: 1,
            new_entries: 1,
            changed_inodes: 1,
            new_inode_bytes: bytes,
            ..BudgetRequest::default()
        };
        let changes = [attribute(fs, host, &name, number), node, host_change];
        self.apply(fs, Head::Base, &request, &changes, false)
    }

    fn remove_attribute(&mut self, fs: &mut Fs) -> Result<()> {
        let known: Vec<(u32, Vec<u8>)> = self.state.attributes.keys().cloned().collect();
        let Some((host, name)) = self.pick(known) else { return Ok(()) };
        let number = self.state.attributes[&(host, name.clone())];
        if self.state.open.contains(&host) {
            return Ok(());
        }
        let inode = Inode { links: 0, ..self.node(number) };
        let old = self.node(host);
        let shrunk = Inode { xattr_count: old.xattr_count - 1, ..old };
        let changes = [
            attribute(fs, host, &name, 0),
            Change::Inode(InodeNode { inode, data: &[] }),
            Change::Inode(InodeNode { inode: shrunk, data: &[] }),
        ];
        let request = BudgetRequest { changed_entries: 1, changed_inodes: 2, ..BudgetRequest::default() };
        self.apply(fs, Head::Base, &request, &changes, true)
    }
}

fn entry<'n>(fs: &Fs, name: &'n [u8], number: u32) -> Change<'n> {
    named(Key::entry(ROOT, hash(fs, name)), name, number)
}

fn attribute<'n>(fs: &Fs, host: u32, name: &'n [u8], number: u32) -> Change<'n> {
    named(Key::xattr_entry(host, hash(fs, name)), name, number)
}

fn named(key: Key, name: &[u8], number: u32) -> Change<'_> {
    let entry = Entry { key, inode: u64::from(number), file_type: FileType::Regular, ..Entry::default() };
    Change::Entry(EntryNode { entry, name })
}

impl State {
    /// Applies a change to the state.
    fn change(&mut self, change: &Change<'_>) {
        match change {
            Change::Inode(node) => self.change_inode(node),
            Change::Entry(node) => self.change_name(node),
            Change::Data(node) => {
                let key = node.block.key;
                self.blocks.insert((key.inum(), key.block()), node.data.into());
            }
            Change::Truncation(node) => {
                let first = u32::try_from(node.new_size.div_ceil(u64::from(BLOCK_BYTES))).unwrap();
                self.blocks.retain(|&(inode, block), _| inode != node.inode || block < first);
            }
        }
    }

    fn change_inode(&mut self, node: &InodeNode<'_>) {
        let number = node.inode.key.inum();
        if node.inode.links == 0 && node.inode.is_xattr() {
            self.inodes.remove(&number);
            return;
        }
        if node.inode.links == 0 {
            self.open.insert(number);
        }
        self.inodes.insert(number, (node.inode, node.data.to_vec()));
    }

    fn change_name(&mut self, node: &EntryNode<'_>) {
        let (host, name) = (node.entry.key.inum(), node.name.to_vec());
        let number = u32::try_from(node.entry.inode).unwrap();
        if host == ROOT {
            self.names.remove(&name);
            if number > 0 {
                self.names.insert(name, number);
            }
            return;
        }
        self.attributes.remove(&(host, name.clone()));
        if number > 0 {
            self.attributes.insert((host, name), number);
        }
    }

    /// Removes an inode with all its data, names and attributes.
    pub(super) fn forget(&mut self, number: u32) {
        self.open.remove(&number);
        self.inodes.remove(&number);
        self.blocks.retain(|&(inode, _), _| inode != number);
        let gone: Vec<u32> = self
            .attributes
            .iter()
            .filter(|((host, _), _)| *host == number)
            .map(|(_, attribute)| *attribute)
            .collect();
        self.attributes.retain(|(host, _), _| *host != number);
        gone.iter().for_each(|attribute| drop(self.inodes.remove(attribute)));
    }

    /// State without inodes that have no name, as after a power cut.
    pub(super) fn without_open(&self) -> Self {
        let mut state = self.clone();
        self.open.iter().for_each(|&number| state.forget(number));
        state
    }

    /// Reads the state of a filesystem.
    pub(super) fn read(fs: &mut Fs) -> Result<Self> {
        let mut leaves = Vec::new();
        let (from, to) = (Key::from_bits(0), Key::from_bits(u64::MAX));
        fs.tnc.leaves(&mut fs.io, from, to, usize::MAX, &mut leaves)?;
        let mut state = Self::default();
        let mut out = Vec::new();
        for (key, place) in leaves {
            let frame = fs.io.read_node(place, None, &mut out)?;
            let expected = NodeType::from_code(key.key_type().code());
            assert_eq!(frame.node_type, expected, "{key:?}");
            match frame.node().unwrap() {
                Node::Inode(node) => {
                    assert_eq!(node.inode.key, key);
                    state.change_inode(&node);
                }
                Node::Entry(node) => {
                    assert_eq!(node.entry.key, key);
                    assert!(!node.is_deletion());
                    state.change_name(&node);
                }
                Node::Data(node) => {
                    assert_eq!(node.block.key, key);
                    state.blocks.insert((key.inum(), key.block()), node.data.into());
                }
                other => panic!("{key:?} leads to {other:?}"),
            }
        }
        Ok(state)
    }

    /// Short description of the difference between two states.
    pub(super) fn difference(&self, other: &Self) -> String {
        let mut out = String::new();
        let mut note = |what: &str, a: usize, b: usize| out.push_str(&format!("{what} {a} and {b}; "));
        note("inodes", self.inodes.len(), other.inodes.len());
        note("names", self.names.len(), other.names.len());
        note("attributes", self.attributes.len(), other.attributes.len());
        note("blocks", self.blocks.len(), other.blocks.len());
        for (number, inode) in &self.inodes {
            if other.inodes.get(number) != Some(inode) {
                out.push_str(&format!("inode {number}: {inode:?} and {:?}; ", other.inodes.get(number)));
                break;
            }
        }
        for (at, data) in &self.blocks {
            if other.blocks.get(at) != Some(data) {
                out.push_str(&format!("block {at:?}; "));
                break;
            }
        }
        out
    }
}
