//! Tests of the journal of an authenticated filesystem: nodes that HMACs cover, and nodes that a power cut left without
//! an HMAC.

use super::authentication::{sample, with_key};
use super::common::{LEB, PAGE, mount, path, walk};
use super::signer::{Chain, authenticate_masters, chain, chain_hmac, reseal};
use floatgate_media::file::{Compression, FileType};
use floatgate_media::ubifs::{
    AuthNode, Block, DataNode, Entry, EntryNode, Group, Inode, InodeNode, Key, KeyHash, NodeBody, ROOT_INODE,
    Reference, Stamp, pad,
};
use floatgate_stack::fs::FileSystem;
use floatgate_stack::ubifs::{Authenticate, Error, Result};
use sha2::Digest;

/// First LEB of the journal, after the LEBs of the sample.
const BASE: usize = 16;
const DATA: usize = 17;

/// An image whose journal is being written.
struct Journal {
    image: Vec<u8>,
    log: Chain,
    log_end: usize,
    sqnum: u64,
}

/// A LEB of the journal.
struct Bud {
    lnum: usize,
    bytes: Vec<u8>,
    hash: Chain,
}

impl Journal {
    /// Creates the state after the last commit; `dirty` if power was cut.
    fn new(dirty: bool) -> Self {
        let mut image = sample();
        image.resize(20 * LEB, 0xFF);
        for lnum in [1, 2] {
            let master = &mut image[lnum * LEB..];
            master[40] |= u8::from(dirty);
        }
        authenticate_masters(&mut image);
        let mut log = Chain::new();
        chain(&mut log, &image[3 * LEB..]);
        Self { image, log, log_end: 3 * LEB + PAGE, sqnum: 1000 }
    }

    fn emit(&mut self, node: &impl NodeBody, group: Group) -> Vec<u8> {
        let mut out = vec![0; node.node_bytes()];
        self.sqnum += 1;
        node.emit(Stamp { sqnum: self.sqnum, group }, &mut out).unwrap();
        out
    }

    /// Adds a LEB to the journal.
    fn bud(&mut self, lnum: usize, head: u32) -> Bud {
        let reference = self.emit(&Reference { lnum: lnum as u32, offset: 0, head }, Group::None);
        chain(&mut self.log, &reference);
        let at = self.log_end;
        self.image[at..at + reference.len()].copy_from_slice(&reference);
        pad(&mut self.image[at + reference.len()..at + PAGE]);
        self.log_end += PAGE;
        Bud { lnum, bytes: Vec::new(), hash: self.log.clone() }
    }

    fn add(&mut self, bud: &mut Bud, node: &impl NodeBody, group: Group) {
        let bytes = self.emit(node, group);
        chain(&mut bud.hash, &bytes);
        bud.append(&bytes);
    }

    /// Adds a new file with its name, as one group.
    fn add_file(&mut self, bud: &mut Bud, inode: u32, name: &[u8], size: u64) {
        let key = Key::entry(ROOT_INODE, KeyHash::R5.hash(name).unwrap());
        let entry = Entry { key, inode: u64::from(inode), file_type: FileType::Regular, cookie: 0 };
        self.add(bud, &EntryNode { entry, name }, Group::Member);
        let inode = Inode { key: Key::inode(inode), links: 1, mode: 0o100_644, size, ..Inode::default() };
        self.add(bud, &InodeNode { inode, data: &[] }, Group::Last);
    }

    fn add_data(&mut self, bud: &mut Bud, inode: u32, data: &[u8]) {
        let key = Key::data(inode, 0).unwrap();
        let block =
            Block { key, size: data.len() as u32, compression: Compression::None, compressed_size: 0 };
        self.add(bud, &DataNode { block, data }, Group::None);
    }

    fn authenticate(&mut self, bud: &mut Bud) {
        let hmac = chain_hmac(&bud.hash);
        let bytes = self.emit(&AuthNode { hmac: &hmac }, Group::None);
        bud.append(&bytes);
    }

    /// Writes a LEB to the image.
    fn write(&mut self, bud: &Bud) {
        let mut bytes = bud.bytes.clone();
        let end = bytes.len();
        bytes.resize(end.next_multiple_of(PAGE), 0);
        pad(&mut bytes[end..]);
        self.image[bud.lnum * LEB..][..bytes.len()].copy_from_slice(&bytes);
    }
}

impl Bud {
    fn append(&mut self, node: &[u8]) {
        self.bytes.extend_from_slice(node);
        let end = self.bytes.len();
        self.bytes.resize(end.next_multiple_of(8), 0);
        pad(&mut self.bytes[end..]);
    }
}

/// Names in the root directory that a mount with the key shows, and the number of dropped nodes.
fn read(image: &[u8]) -> Result<(Vec<String>, u32)> {
    let mut fs = mount(image, &with_key())?;
    let tree = walk(&mut fs)?;
    let of_root =
        tree.keys().filter(|path| path.len() == 1).map(|path| String::from_utf8_lossy(&path[0]).into_owned());
    let new = of_root.filter(|name| name.starts_with("new"));
    Ok((new.collect(), fs.authentication().unwrap().dropped_nodes))
}

/// Creates two files, both authenticated, one with data in another LEB.
fn two_files(dirty: bool) -> (Journal, Bud, Bud) {
    let mut journal = Journal::new(dirty);
    let mut base = journal.bud(BASE, 1);
    journal.add_file(&mut base, 500, b"new1", 4);
    journal.authenticate(&mut base);
    let mut data = journal.bud(DATA, 2);
    journal.add_data(&mut data, 500, b"data");
    journal.authenticate(&mut data);
    journal.add_file(&mut base, 501, b"new2", 0);
    journal.authenticate(&mut base);
    (journal, base, data)
}

#[test]
fn authenticated_nodes_count() {
    for dirty in [false, true] {
        let (mut journal, base, data) = two_files(dirty);
        [&base, &data].into_iter().for_each(|bud| journal.write(bud));
        assert_eq!(read(&journal.image), Ok((vec!["new1".to_owned(), "new2".to_owned()], 0)));
        let tree = walk(&mut mount(&journal.image, &with_key()).unwrap()).unwrap();
        assert_eq!(tree[&path(&["new1"])].contents.as_deref(), Some(&b"data"[..]));
        assert_eq!(tree, walk(&mut mount(&journal.image, &Authenticate::No).unwrap()).unwrap());
    }
}

#[test]
fn nodes_behind_the_last_hmac_are_left_out() {
    for dirty in [false, true] {
        let (mut journal, mut base, data) = two_files(dirty);
        journal.add_file(&mut base, 502, b"new3", 0);
        [&base, &data].into_iter().for_each(|bud| journal.write(bud));
        assert_eq!(read(&journal.image), Ok((vec!["new1".to_owned(), "new2".to_owned()], 2)));
    }
}

/// Linux counts nodes down to the last authentic one. If none is authentic, its counter passes the end and all nodes
/// are accepted.
#[test]
fn a_leb_without_any_hmac_is_left_out() {
    let mut journal = Journal::new(true);
    let mut base = journal.bud(BASE, 1);
    journal.add_file(&mut base, 500, b"new1", 0);
    journal.write(&base);
    assert_eq!(read(&journal.image), Ok((vec![], 2)));
    assert!(mount(&journal.image, &Authenticate::No).unwrap().resolve(b"new1").is_ok());
}

#[test]
fn only_the_last_leb_of_a_head_may_end_without_one() {
    let mut journal = Journal::new(true);
    let mut first = journal.bud(BASE, 1);
    journal.add_file(&mut first, 500, b"new1", 0);
    let mut second = journal.bud(BASE + 2, 1);
    journal.add_file(&mut second, 501, b"new2", 0);
    journal.authenticate(&mut second);
    [&first, &second].into_iter().for_each(|bud| journal.write(bud));
    let what = "nodes of the journal that nothing authenticates";
    let expected = Error::Unauthentic { lnum: BASE as u32, offset: 0, what };
    assert_eq!(read(&journal.image), Err(expected));
}

/// Changes each byte of the log and the journal, except padding: nothing can be changed or moved undetected. Only the
/// end of the journal can be removed, as by a power cut: a last reference to an empty LEB has no effect.
#[test]
fn nothing_can_be_changed() {
    let (mut journal, base, data) = two_files(true);
    [&base, &data].into_iter().for_each(|bud| journal.write(bud));
    let (image, whole) = (&journal.image, read(&journal.image));
    let starts = [3 * LEB, 3 * LEB + PAGE];
    let in_leb = |bud: &Bud| {
        let magic = 0x0610_1831_u32.to_le_bytes();
        let found = (0..bud.bytes.len()).step_by(8).filter(|&at| bud.bytes[at..].starts_with(&magic));
        found.map(|at| bud.lnum * LEB + at).collect::<Vec<_>>()
    };
    let mut noticed = 0;
    for start in starts.into_iter().chain(in_leb(&base)).chain(in_leb(&data)) {
        for at in [8, 24, 28] {
            let mut forged = image.clone();
            let node = &mut forged[start..];
            node[at] ^= 2;
            reseal(node);
            // Nothing covers the header of an authentication node.
            let covered = node[20] != 12 || at >= 24;
            let outcome = read(&forged);
            assert!(outcome.is_err() || !covered && outcome == whole, "{at} of {start:#x}: {outcome:?}");
            noticed += u32::from(matches!(outcome, Err(Error::Unauthentic { .. })));
        }
    }
    assert!(noticed >= 20, "{noticed}");
}

/// A journal LEB from another state of the log is refused.
#[test]
fn nothing_can_be_replayed() {
    let (mut journal, base, data) = two_files(true);
    [&base, &data].into_iter().for_each(|bud| journal.write(bud));
    let mut later = Journal::new(true);
    later.sqnum = 2000;
    for (lnum, head) in [(BASE, 1), (DATA, 2)] {
        later.bud(lnum, head);
    }
    later.image[BASE * LEB..].copy_from_slice(&journal.image[BASE * LEB..]);
    assert!(matches!(read(&later.image), Err(Error::Unauthentic { .. })));
}
