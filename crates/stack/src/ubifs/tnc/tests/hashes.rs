//! Tests of authentication: each node must have the hash stored in its branch.

use floatgate_media::ubifs::{Branch, HashAlgorithm, IndexNode, SuperblockFlags};

use super::*;
use crate::ubifs::auth::Hasher;

fn hash(node: &[u8]) -> [u8; 32] {
    hasher().hash(node)[..].try_into().unwrap()
}

fn hasher() -> Hasher {
    Hasher::new(HashAlgorithm::Sha256).unwrap()
}

/// Creates an index with space for hashes.
fn bench() -> Bench {
    let mut bench = Bench::new(USUAL);
    let mut layout = Layout::clone(bench.io.layout());
    layout.superblock.hash_algorithm = HashAlgorithm::Sha256;
    layout.superblock.flags = SuperblockFlags::AUTHENTICATION | layout.superblock.flags;
    layout.limits.hash_bytes = 32;
    bench.io = Io::new(bench.io.into_volume(), Arc::new(layout), true);
    bench
}

/// Writes an index node whose branches contain the hashes of the nodes at their positions.
fn write_node(bench: &mut Bench, offset: u32, level: u16, leaves: &[(Key, NodePos)]) -> (Key, NodePos) {
    let mut bytes = Vec::new();
    for &(key, NodePos { lnum, offset, len }) in leaves {
        let hash = hash(bench.io.volume_mut().at(lnum, offset, len as usize).unwrap());
        let mut room = [0; 52];
        Branch { lnum, offset, len, key, hash: &hash }.emit(&mut room).unwrap();
        bytes.extend(room);
    }
    let mut out = Vec::new();
    let node = IndexNode::new(level, 32, &bytes).unwrap();
    let len = bench.io.append_node(&node, Group::None, &mut out).unwrap();
    let lnum = bench.io.layout().limits.main.start + LEAF_LEBS;
    bench.io.volume_mut().at(lnum, offset, out.len()).unwrap().copy_from_slice(&out);
    // The LEB counts as full.
    bench.space.set(lnum, LebSpace { index: true, ..LebSpace::default() }).unwrap();
    (leaves[0].0, NodePos { lnum, offset, len })
}

/// Creates a tree of two levels over entries, and returns its root, too.
fn tree() -> (Bench, Vec<(Key, NodePos)>, NodePos) {
    let mut bench = bench();
    let mut leaves = Vec::new();
    for inode in 64..70 {
        let key = entry_key(inode, b"name");
        leaves.push((key, bench.write_entry(key, b"name", 77)));
    }
    let left = write_node(&mut bench, 0, 0, &leaves[..3]);
    let right = write_node(&mut bench, 4096, 0, &leaves[3..]);
    let (_, root) = write_node(&mut bench, 8192, 1, &[left, right]);
    (bench, leaves, root)
}

fn root_hash(bench: &Bench, root: NodePos) -> [u8; 32] {
    hash(bench.clone().io.volume_mut().at(root.lnum, root.offset, root.len as usize).unwrap())
}

/// Opens the index and searches all names.
fn find_all(bench: &Bench, leaves: &[(Key, NodePos)], root: NodePos, root_hash: &[u8]) -> Vec<bool> {
    let mut bench = bench.reopened(root);
    bench.tnc.authenticate(root_hash, hasher());
    let mut out = Vec::new();
    let mut found =
        |&(key, place): &(Key, NodePos)| match bench.tnc.find_name(&mut bench.io, key, b"name", &mut out) {
            Ok(found) => found == Some(place),
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                false
            }
        };
    leaves.iter().map(&mut found).collect()
}

#[test]
fn nodes_with_their_hashes_are_found() {
    let (bench, leaves, root) = tree();
    assert_eq!(find_all(&bench, &leaves, root, &root_hash(&bench, root)), [true; 6]);
    assert_eq!(find_all(&bench, &leaves, root, &[7; 32]), [false; 6]);
}

/// Changes a byte of a node, and corrects its CRC.
fn replace(bench: &mut Bench, NodePos { lnum, offset, len }: NodePos, at: usize) {
    let node = bench.io.volume_mut().at(lnum, offset, len as usize).unwrap();
    node[at] ^= 1;
    let crc = !crc32fast::hash(&node[8..]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_replaced_node_is_an_error() {
    let (bench, leaves, root) = tree();
    let good = root_hash(&bench, root);
    let mut entry = bench.clone();
    replace(&mut entry, leaves[1].1, 40);
    assert_eq!(find_all(&entry, &leaves, root, &good), [true, false, true, true, true, true]);
    let mut node = bench.clone();
    let right = NodePos { offset: 4096, len: 28 + 3 * 52, ..root };
    // This field is the hash of the first entry.
    replace(&mut node, right, 28 + 20);
    assert_eq!(find_all(&node, &leaves, root, &good), [true, true, true, false, false, false]);
}

#[test]
fn a_node_of_the_journal_has_no_hash_in_the_index() {
    let (bench, leaves, root) = tree();
    let mut bench = bench.reopened(root);
    bench.tnc.authenticate(&root_hash(&bench, root), hasher());
    let (key, old) = leaves[2];
    // The new node has exactly the position of another, older node.
    let mut new = bench.clone();
    replace(&mut new, old, 40);
    new.tnc.start_replay(std::collections::BTreeMap::from([(old.lnum, 0)]));
    new.tnc.insert_name(&mut new.io, &mut new.space, key, b"name", old).unwrap();
    assert!(!new.tnc.end_replay());
    let mut out = Vec::new();
    assert_eq!(new.tnc.find_name(&mut new.io, key, b"name", &mut out), Ok(Some(old)));
    assert_eq!(new.commit(), Err(Error::ReadOnly));
}
