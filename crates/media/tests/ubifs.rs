//! Tests of UBIFS nodes: nodes of `mkfs.ubifs` and of the kernel, and invented ones.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::mangle;
use floatgate_media::file::{Compression, DeviceNumber, FileFlags, FileType, Timestamp};
use floatgate_media::ubifs::{
    AuthNode, Block, Branch, CommitStart, DataNode, Entry, EntryNode, Frame, Group, HashAlgorithm, IndexNode,
    Inode, InodeNode, Key, KeyHash, KeyType, Limits, Master, MasterFlags, Node, NodeBody, NodeType,
    OrphanNode, PADDING_BYTE, PaddingNode, Reference, SignatureNode, SignatureType, Stamp, Superblock,
    SuperblockFlags, Truncation, hmac_parts, pad, padding_bytes,
};
use floatgate_media::{MediaError, Reason};
use proptest::prelude::*;

/// All nodes of an image, concatenated; see `samples/README.md`.
const MKFS: &[u8] = include_bytes!("samples/ubifs/small_nodes.bin");
const KERNEL: &[u8] = include_bytes!("samples/ubifs/kernel_nodes.bin");

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("samples/ubifs_node/", $name, ".bin"))
    };
}

fn parse(bytes: &[u8]) -> Result<(Stamp, Node<'_>), MediaError> {
    let frame = Frame::parse(bytes)?;
    Ok((frame.stamp, frame.node()?))
}

fn emit(stamp: Stamp, node: &impl NodeBody) -> Vec<u8> {
    let mut out = vec![0xAA; node.node_bytes() + 3];
    let len = node.emit(stamp, &mut out).unwrap();
    assert_eq!(out.split_off(len), [0xAA; 3]);
    out
}

fn superblock(bytes: &[u8]) -> Superblock {
    match parse(bytes).unwrap().1 {
        Node::Superblock(superblock) => superblock,
        other => panic!("{other:?}"),
    }
}

/// The limits of the image of `mkfs.ubifs`, on a volume of 60 LEBs.
fn limits() -> Limits {
    Limits::new(&superblock(MKFS).grown(60)).unwrap()
}

/// Parses every node of a sample.
fn frames(mut bytes: &[u8]) -> Vec<Frame<'_>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        // The 64 bytes that mkfs.ubifs writes behind the superblock have the type of an inode and an impossible
        // length.
        if let Ok(frame) = Frame::parse(bytes) {
            out.push(frame);
        } else {
            assert_eq!(bytes[..64], *sample!("mkfs_empty_signature"));
        }
        let len = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
        bytes = &bytes[len.next_multiple_of(8)..];
    }
    out
}

fn count(frames: &[Frame<'_>], node_type: NodeType) -> usize {
    frames.iter().filter(|frame| frame.node_type == node_type).count()
}

#[test]
fn every_node_of_mkfs_and_of_the_kernel_reads_checks_and_writes() {
    for sample in [MKFS, KERNEL] {
        let frames = frames(sample);
        let limits = Limits::new(&superblock(sample).grown(u32::MAX)).unwrap();
        for frame in &frames {
            let node = frame.node().unwrap();
            assert_eq!(node.node_type(), frame.node_type);
            if !matches!(node, Node::Superblock(_)) {
                assert_eq!(node.check(&limits), Ok(()), "{node:?}");
            }
            assert_eq!(emit(frame.stamp, &node), frame.as_bytes());
        }
    }
}

#[test]
fn samples_have_the_nodes_they_should() {
    let mkfs = frames(MKFS);
    assert_eq!((count(&mkfs, NodeType::Inode), count(&mkfs, NodeType::Entry)), (16, 16));
    assert_eq!((count(&mkfs, NodeType::Data), count(&mkfs, NodeType::Index)), (4, 6));
    let kernel = frames(KERNEL);
    let journal = [NodeType::Truncation, NodeType::Reference, NodeType::Orphan, NodeType::CommitStart];
    assert_eq!(journal.map(|node_type| count(&kernel, node_type)), [1, 2, 1, 1]);
    assert!(count(&kernel, NodeType::Padding) > 0);
    assert!(kernel.iter().any(|frame| frame.stamp.group == Group::Last));
}

#[test]
fn superblock_of_mkfs_grows_to_its_volume() {
    let stored = superblock(MKFS);
    assert_eq!((stored.leb_count, stored.max_leb_count, stored.format_version), (13, 60, 4));
    assert_eq!((stored.min_io_bytes, stored.leb_bytes, stored.fanout), (8, 15872, 8));
    assert_eq!(stored.compression, Compression::Zlib);
    // The image has too few LEBs for a main area.
    assert_eq!(stored.check().unwrap_err(), Reason::OutOfRange { field: "LEBs", value: 13 }.at(40));
    assert_eq!((stored.grown(50).leb_count, stored.grown(5).leb_count), (50, 13));
    let limits = limits();
    assert_eq!((limits.log, limits.lpt, limits.orphans, limits.main), (3..7, 7..9, 9..10, 10..60));
    assert_eq!((limits.heads, limits.hash_bytes), (3, 0));
}

#[test]
fn superblock_of_the_kernel_is_format_5() {
    let stored = superblock(sample!("superblock_kernel"));
    assert_eq!(stored.check(), Ok(()));
    assert_eq!((stored.format_version, stored.flags), (5, SuperblockFlags::DOUBLE_HASH));
    assert_eq!((stored.leb_count, stored.max_leb_count), (199, 199));
    assert_eq!(stored.uuid[..4], [0xC6, 0xCC, 0x22, 0x84]);
    assert_eq!(stored.time_granularity_ns, 1_000_000_000);
}

#[test]
fn signed_image_has_hashes_and_a_signature() {
    let signed = superblock(sample!("superblock_signed"));
    assert!(signed.has(SuperblockFlags::AUTHENTICATION));
    assert_eq!((signed.hash_algorithm, signed.hash_bytes()), (HashAlgorithm::Sha256, 32));
    let (_, node) = parse(sample!("signature")).unwrap();
    let Node::Signature(signature) = node else { panic!("{node:?}") };
    assert_eq!((signature.signature_type, signature.signature.len()), (SignatureType::Pkcs7, 330 - 64));
    let (stamp, node) = parse(sample!("index_hashed")).unwrap();
    let Node::Index(index) = node else { panic!("{node:?}") };
    assert_eq!((index.hash_bytes(), index.child_count(), index.level()), (32, 3, 1));
    assert_eq!(emit(stamp, &index), sample!("index_hashed"));
    let limits = Limits::new(&signed.grown(60)).unwrap();
    assert_eq!(index.check(&limits), Ok(()));
    assert_eq!(limits.index_lengths(), 28 + 52..=28 + 8 * 52);
    // A hash in a filesystem without authentication.
    assert_eq!(index.check(&self::limits()).unwrap_err().offset, 28);
    let (before, after) = hmac_parts(sample!("superblock_signed"), Superblock::HMAC_AT, 32).unwrap();
    assert_eq!((before.len(), after.len()), (120, 4096 - 160));
    assert_eq!(hmac_parts(&[0; 300], Master::HMAC_AT, 32), None);
}

#[test]
fn files_of_mkfs_are_what_they_were() {
    let inode = |bytes| match parse(bytes).unwrap().1 {
        Node::Inode(inode) => inode,
        other => panic!("{other:?}"),
    };
    let link = inode(sample!("inode_symlink"));
    assert_eq!((link.inode.file_type(), link.data), (Some(FileType::Symlink), &b"../short"[..]));
    assert_eq!(link.inode.mtime(), Timestamp { seconds: 1_700_000_000, nanoseconds: 0 });
    let console = inode(sample!("inode_character_device"));
    assert_eq!(DeviceNumber::parse(console.data), Some(DeviceNumber { major: 5, minor: 1 }));
    let disk = inode(sample!("inode_block_device"));
    assert_eq!(DeviceNumber::parse(disk.data), Some(DeviceNumber { major: 259, minor: 70_000 }));
    let (_, node) = parse(sample!("data_plain")).unwrap();
    let Node::Data(data) = node else { panic!("{node:?}") };
    assert_eq!((data.block.compression, data.block.size), (Compression::None, 13));
    let entries = frames(MKFS).into_iter().filter_map(|frame| match frame.node() {
        Ok(Node::Entry(entry)) => Some(entry),
        _ => None,
    });
    let mut names = Vec::new();
    for entry in entries {
        assert_eq!(Some(entry.entry.key.hash()), KeyHash::R5.hash(entry.name));
        names.push(entry.name);
    }
    assert!(names.contains(&&b"caf\xE9"[..]));
}

#[test]
fn encrypted_files_keep_what_cannot_be_read() {
    for sample in [
        &sample!("entry_xattr")[..],
        sample!("inode_xattr"),
        sample!("entry_encrypted"),
        sample!("data_encrypted"),
    ] {
        let (stamp, node) = parse(sample).unwrap();
        assert_eq!(node.check(&limits()), Ok(()));
        assert_eq!(emit(stamp, &node), sample);
    }
    let Node::Entry(context) = parse(sample!("entry_xattr")).unwrap().1 else { panic!("no entry") };
    // The attribute "c" contains the encryption context that Linux needs in addition to the key.
    assert_eq!((context.entry.key.key_type(), context.name), (KeyType::XattrEntry, &b"c"[..]));
    let Node::Inode(value) = parse(sample!("inode_xattr")).unwrap().1 else { panic!("no inode") };
    assert!(value.inode.is_xattr() && u64::from(value.inode.key.inum()) == context.entry.inode);
    assert_eq!(value.data.len(), 28);
    let Node::Data(data) = parse(sample!("data_encrypted")).unwrap().1 else { panic!("no data") };
    assert_eq!((data.block.size, data.block.compressed_size, data.data.len()), (13, 13, 16));
}

#[test]
fn erased_corrupt_and_impossible_nodes_are_told_apart() {
    let good = sample!("commit_start");
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.to_vec();
        change(&mut bytes);
        Frame::parse(&bytes).unwrap_err()
    };
    assert_eq!(error(&|bytes| bytes.fill(0xFF)), Reason::Erased.at(0));
    assert_eq!(Frame::parse(&[0xFF; 8]), Err(Reason::Erased.at(0)));
    assert_eq!(Frame::parse(&[0xFF; 3]), Err(Reason::Truncated { need: 4, have: 3 }.at(0)));
    assert_eq!(
        error(&|bytes| bytes.fill(0xCE)),
        Reason::BadMagic { what: "node", expected: 0x0610_1831, found: 0xCECE_CECE }.at(0)
    );
    assert_eq!(error(&|bytes| bytes[20] = 14), Reason::OutOfRange { field: "node type", value: 14 }.at(20));
    assert_eq!(error(&|bytes| bytes[16] = 33), Reason::OutOfRange { field: "node length", value: 33 }.at(16));
    assert_eq!(error(&|bytes| bytes.truncate(31)), Reason::Truncated { need: 32, have: 31 }.at(0));
    assert!(matches!(
        error(&|bytes| bytes[30] ^= 1),
        MediaError { offset: 4, reason: Reason::BadCrc32 { what: "node", .. } }
    ));
    mangle(good, |bytes| assert!(Frame::parse(bytes).is_err()));
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let refused = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        let sum = floatgate_media::crc::ubi(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Frame::parse(&bytes).unwrap().node().unwrap_err().offset, at, "{at}");
    };
    refused(sample!("inode_symlink"), 112);
    refused(sample!("entry"), 50);
    refused(sample!("index_leaf"), 24);
    refused(sample!("signature"), 28);
    let entry = sample!("entry");
    refused(entry, entry.len() - 1);
}

/// Changes one field of an inode and checks that the error is at that field.
#[test]
fn impossible_inodes_are_refused() {
    let Node::Inode(good) = parse(sample!("inode_regular")).unwrap().1 else { panic!("no inode") };
    let file = good.inode;
    let cases = [
        (Inode { size: (1 << 41) + 1, ..file }, 48),
        (Inode { compression: Compression::Other(4), ..file }, 132),
        (Inode { xattr_names_bytes: 65_536, xattr_count: 1, ..file }, 128),
        (Inode { data_len: 4097, ..file }, 112),
        (Inode { mode: 0o644, ..file }, 104),
        (Inode { data_len: 4, ..file }, 112),
        (Inode { mode: 0o120_777, ..file }, 112),
        (Inode { mode: 0o020_600, data_len: 5, ..file }, 112),
        (Inode { mode: 0o040_755, flags: FileFlags::XATTR, ..file }, 104),
    ];
    for (inode, offset) in cases {
        assert_eq!(InodeNode { inode, data: &[] }.check().unwrap_err().offset, offset, "{inode:?}");
    }
    // A deleted inode retains the number of bytes without the bytes.
    let deleted = InodeNode { inode: Inode { links: 0, data_len: 8, ..file }, data: &[] };
    assert_eq!(parse(&emit(Stamp::new(1), &deleted)).unwrap().1, Node::Inode(deleted));
    let lost = InodeNode { inode: Inode { links: 1, data_len: 8, ..file }, data: &[] };
    assert_eq!(lost.emit(Stamp::new(1), &mut [0; 200]).unwrap_err().offset, 112);
}

/// A value that its field cannot hold is an error; nothing is written.
#[test]
fn a_value_that_its_field_cannot_hold_is_no_other_value_on_flash() {
    let mut out = vec![0; 3 << 20];
    let entry = Entry { key: Key::entry(65, 9), inode: 66, file_type: FileType::Regular, cookie: 0 };
    for len in [256, 65_535, 65_536, 70_000] {
        let node = EntryNode { entry, name: &vec![b'n'; len] };
        let error = node.emit(Stamp::new(1), &mut out).unwrap_err();
        assert!(matches!(error.reason, Reason::OutOfRange { field: "node length", .. }), "{len}: {error}");
    }
    let branches = vec![0; 65_536 * Branch::bytes(0)];
    let error = IndexNode::new(0, 0, &branches).unwrap_err();
    assert!(matches!(error.reason, Reason::OutOfRange { field: "bytes of branches", .. }), "{error}");
    // The maximum value of the field is written unchanged.
    let node = IndexNode::new(0, 0, &branches[Branch::bytes(0)..]).unwrap();
    let len = node.emit(Stamp::new(1), &mut out).unwrap();
    assert_eq!((len, &out[24..26]), (28 + 65_535 * Branch::bytes(0), &[0xFF, 0xFF][..]));
    // The size field of an inode must equal the number of attached bytes.
    let inode =
        Inode { key: Key::inode(66), links: 1, mode: 0o120_777, data_len: 65_535, ..Inode::default() };
    let error = InodeNode { inode, data: b"target" }.emit(Stamp::new(1), &mut out).unwrap_err();
    assert!(matches!(error.reason, Reason::OutOfRange { field: "attached bytes", value: 65_535 }), "{error}");
    assert!(out[..200].iter().any(|&byte| byte != 0), "the index node is still there");
}

#[test]
fn impossible_fields_of_other_nodes_are_refused() {
    let limits = limits();
    let block = Block {
        key: Key::data(65, 0).unwrap(),
        size: 10,
        compression: Compression::None,
        compressed_size: 0,
    };
    let entry = Entry { key: Key::xattr_entry(65, 9), inode: 66, file_type: FileType::Regular, cookie: 0 };
    let cases: [(Node<'_>, usize); 12] = [
        (Node::Data(DataNode { block: Block { size: 0, ..block }, data: &[] }), 40),
        (Node::Data(DataNode { block: Block { size: 4097, ..block }, data: &[] }), 40),
        (
            Node::Data(DataNode { block: Block { compression: Compression::Other(9), ..block }, data: &[] }),
            44,
        ),
        (Node::Entry(EntryNode { entry: Entry { inode: 1 << 32, ..entry }, name: b"a" }), 40),
        (Node::Entry(EntryNode { entry: Entry { file_type: FileType::Other(7), ..entry }, name: b"a" }), 49),
        (Node::Entry(EntryNode { entry, name: b"a\0" }), 57),
        (Node::Truncation(Truncation { inode: 65, old_size: 1, new_size: 1 }), 48),
        (Node::Padding(PaddingNode { pad_len: 5 }), 24),
        (Node::Padding(PaddingNode { pad_len: 15_876 }), 24),
        (Node::Reference(Reference { lnum: 9, offset: 0, head: 2 }), 24),
        (Node::Reference(Reference { lnum: 10, offset: 4, head: 2 }), 28),
        (Node::Reference(Reference { lnum: 10, offset: 8, head: 3 }), 32),
    ];
    for (node, offset) in cases {
        assert_eq!(node.check(&limits).unwrap_err().offset, offset, "{node:?}");
    }
}

#[test]
fn impossible_superblocks_are_refused() {
    let good = superblock(sample!("superblock_kernel"));
    let with = |change: fn(&mut Superblock)| {
        let mut superblock = good;
        change(&mut superblock);
        superblock.check().map_err(|error| error.offset)
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|sb| sb.format_version = 6), Err(80));
    assert_eq!(with(|sb| sb.format_version = 2), Err(80));
    assert_eq!(with(|sb| sb.flags = SuperblockFlags::from_bits(0x88)), Err(28));
    assert_eq!(with(|sb| sb.flags = SuperblockFlags::BIG_LPT), Err(28));
    assert_eq!(with(|sb| sb.key_hash = KeyHash::Other(2)), Err(26));
    assert_eq!(with(|sb| sb.key_format = 1), Err(27));
    assert_eq!(with(|sb| sb.min_io_bytes = 500), Err(32));
    assert_eq!(with(|sb| sb.leb_bytes = 15_000), Err(36));
    assert_eq!(with(|sb| sb.log_lebs = 1), Err(56));
    assert_eq!(with(|sb| sb.lpt_lebs = 1), Err(60));
    assert_eq!(with(|sb| sb.orphan_lebs = 0), Err(64));
    assert_eq!(with(|sb| sb.orphan_lebs = u32::MAX), Err(40));
    assert_eq!(with(|sb| sb.max_leb_count = 198), Err(44));
    assert_eq!(with(|sb| sb.lsave_count = 257), Err(76));
    assert_eq!(with(|sb| sb.max_journal_bytes = 40_000), Err(48));
    assert_eq!(with(|sb| sb.data_heads = 2), Err(68));
    assert_eq!(with(|sb| sb.fanout = 2), Err(72));
    assert_eq!(with(|sb| sb.fanout = 800), Err(72));
    assert_eq!(with(|sb| sb.reserved_bytes = 1 << 40), Err(96));
    assert_eq!(with(|sb| sb.time_granularity_ns = 0), Err(104));
    assert_eq!(with(|sb| sb.compression = Compression::Other(8)), Err(84));
    let unknown_hash = |sb: &mut Superblock| {
        sb.flags = sb.flags | SuperblockFlags::AUTHENTICATION;
        sb.hash_algorithm = HashAlgorithm::Other(99);
    };
    assert_eq!(with(unknown_hash), Err(256));
}

#[test]
fn impossible_masters_are_refused() {
    let limits = limits();
    let Node::Master(good) = parse(sample!("master")).unwrap().1 else { panic!("no master") };
    let with = |change: fn(&mut Master)| {
        let mut master = good;
        change(&mut master);
        master.check(&limits).map_err(|error| error.offset)
    };
    assert_eq!(good.flags, MasterFlags::NO_ORPHANS);
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|master| master.gc_lnum = u32::MAX), Ok(()));
    assert_eq!(with(|master| master.highest_inode = 0xFFFF_FF00), Err(24));
    assert_eq!(with(|master| master.log_lnum = 7), Err(44));
    assert_eq!(with(|master| master.root_lnum = 9), Err(48));
    assert_eq!(with(|master| master.root_offset += 4), Err(52));
    assert_eq!(with(|master| master.root_len = 47), Err(56));
    assert_eq!(with(|master| master.gc_lnum = 3), Err(60));
    assert_eq!(with(|master| master.index_head_lnum = 60), Err(64));
    assert_eq!(with(|master| master.index_head_offset = 15_880), Err(68));
    assert_eq!(with(|master| master.index_bytes = 1 << 40), Err(72));
    assert_eq!(with(|master| master.free_bytes += 1), Err(80));
    assert_eq!(with(|master| master.used_bytes = 1 << 40), Err(96));
    assert_eq!(with(|master| master.dead_bytes = 1 << 40), Err(104));
    assert_eq!(with(|master| master.lpt_lnum = 9), Err(120));
    assert_eq!(with(|master| master.lpt_offset = 15_870), Err(124));
    assert_eq!(with(|master| master.ltab_lnum = 6), Err(136));
    assert_eq!(with(|master| master.lscan_lnum = 1), Err(152));
    assert_eq!(with(|master| master.empty_lebs = 49), Err(156));
    assert_eq!(with(|master| master.index_lebs = 50), Err(160));
    assert_eq!(with(|master| master.leb_count = 61), Err(164));
}

/// Consecutive branches, each with a hash of zeros.
fn branches(keys: &[Key], hash: &[u8]) -> Vec<u8> {
    let mut out = vec![0; keys.len() * Branch::bytes(hash.len())];
    for (key, place) in keys.iter().zip(out.chunks_exact_mut(Branch::bytes(hash.len()))) {
        Branch { lnum: 12, offset: 8, len: 160, key: *key, hash }.emit(place).unwrap();
    }
    out
}

#[test]
fn impossible_index_nodes_are_refused() {
    let limits = limits();
    let check = |keys: &[Key], level| {
        IndexNode::new(level, 0, &branches(keys, &[])).unwrap().check(&limits).map_err(|error| error.offset)
    };
    let hashed = Key::entry(65, 7);
    assert_eq!(check(&[Key::inode(65), hashed, hashed], 0), Ok(()));
    assert_eq!(check(&[Key::inode(65), Key::inode(65)], 0), Err(28 + 20));
    assert_eq!(check(&[hashed, Key::inode(65)], 0), Err(28 + 20));
    assert_eq!(check(&[Key::inode(65); 9], 0), Err(24));
    assert_eq!(check(&[Key::inode(65)], 513), Err(26));
    assert_eq!(check(&[Key::from_bits(4 << 29)], 1), Err(28 + 16));
    let at = |lnum, offset, len| {
        let mut bytes = [0; 20];
        Branch { lnum, offset, len, key: Key::inode(65), hash: &[] }.emit(&mut bytes).unwrap();
        IndexNode::new(0, 0, &bytes).unwrap().check(&limits).map_err(|error| error.offset - 28)
    };
    assert_eq!([at(9, 0, 160), at(60, 0, 160)], [Err(0); 2]);
    assert_eq!([at(10, 4, 160), at(10, 15_720, 160)], [Err(4); 2]);
    assert_eq!(at(10, 0, 159), Err(8));
    assert!(IndexNode::new(0, 0, &[]).is_err());
    assert!(IndexNode::new(0, 1, &[0; 20]).is_err());
}

#[test]
fn padding_is_that_of_the_kernel() {
    let mut out = [0xAA; 40];
    pad(&mut out);
    let Node::Padding(padding) = parse(&out).unwrap().1 else { panic!("no padding") };
    assert_eq!((padding.pad_len, padding.total_bytes()), (12, 40));
    assert_eq!(out[28..], [0; 12]);
    let mut short = [0; 24];
    pad(&mut short);
    assert_eq!(short, [PADDING_BYTE; 24]);
    assert_eq!(padding_bytes(&short), 24);
    assert_eq!(padding_bytes(&short[..16]), 16);
    assert_eq!(padding_bytes(&short[..15]), 0);
    assert_eq!(padding_bytes(&[0; 8]), 0);
    let (stamp, node) = parse(sample!("padding")).unwrap();
    let mut again = vec![0xAA; 28 + usize::try_from(node_pad_len(&node)).unwrap()];
    pad(&mut again);
    assert_eq!((stamp, &again[..28]), (Stamp::new(0), &sample!("padding")[..]));
}

fn node_pad_len(node: &Node<'_>) -> u32 {
    match node {
        Node::Padding(padding) => padding.pad_len,
        other => panic!("{other:?}"),
    }
}

#[test]
fn device_numbers_have_two_forms() {
    let device = DeviceNumber { major: 0xFFF, minor: 0xF_FFFF };
    assert_eq!(device.emit(), Some([0xFF; 4]));
    assert_eq!(DeviceNumber::parse(&device.emit_huge().unwrap()), Some(device));
    assert_eq!(DeviceNumber { major: 0x1000, minor: 0 }.emit(), None);
    assert_eq!(DeviceNumber { major: 0, minor: 1 << 20 }.emit_huge(), None);
    assert_eq!(DeviceNumber::parse(&[0; 5]), None);
}

#[test]
fn too_much_for_a_node_is_not_written() {
    let node = AuthNode { hmac: &[0; 65] };
    let error = node.emit(Stamp::new(1), &mut [0; 100]).unwrap_err();
    assert_eq!(error, Reason::OutOfRange { field: "node length", value: 89 }.at(16));
    let error = AuthNode { hmac: &[0; 32] }.emit(Stamp::new(1), &mut [0; 55]).unwrap_err();
    assert_eq!(error, Reason::NoRoom { need: 56, have: 55 }.at(0));
}

fn bytes(len: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), len)
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    let group = prop_oneof![Just(Group::None), Just(Group::Member), Just(Group::Last)];
    (any::<u64>(), group).prop_map(|(sqnum, group)| Stamp { sqnum, group })
}

fn round_trip(stamp: Stamp, node: &Node<'_>) -> Result<(), TestCaseError> {
    let bytes = emit(stamp, node);
    prop_assert_eq!(parse(&bytes), Ok((stamp, *node)));
    Ok(())
}

prop_compose! {
    fn any_inode()(
        (inum, created_sqnum, size) in any::<(u32, u64, u64)>(),
        seconds in any::<[i64; 3]>(),
        words in any::<[u32; 13]>(),
        compression in any::<u16>(),
    ) -> Inode {
        let [atime_s, ctime_s, mtime_s] = seconds;
        let [atime_ns, ctime_ns, mtime_ns, links, uid, gid, mode, flags, data_len, xattr_count, xattr_bytes, xattr_names_bytes, _] = words;
        Inode {
            key: Key::inode(inum), created_sqnum, size, atime_s, ctime_s, mtime_s, atime_ns, ctime_ns, mtime_ns,
            links: links.max(1), uid, gid, mode, flags: FileFlags::from_bits(flags), data_len, xattr_count,
            xattr_bytes, xattr_names_bytes, compression: Compression::from_code(compression),
        }
    }
}

proptest! {
    #[test]
    fn inode_round_trip(stamp in any_stamp(), inode in any_inode(), data in bytes(0..=4096)) {
        let inode = Inode { data_len: data.len() as u32, ..inode };
        round_trip(stamp, &Node::Inode(InodeNode { inode, data: &data }))?;
    }

    #[test]
    fn data_round_trip(
        stamp in any_stamp(),
        (inum, block, size) in (any::<u32>(), 0u32..1 << 29, any::<u32>()),
        (compression, compressed_size) in any::<(u16, u16)>(),
        data in bytes(0..=4096),
    ) {
        let key = Key::data(inum, block).unwrap();
        let compression = Compression::from_code(compression);
        let block = Block { key, size, compression, compressed_size };
        round_trip(stamp, &Node::Data(DataNode { block, data: &data }))?;
    }

    #[test]
    fn entry_round_trip(
        stamp in any_stamp(),
        (parent, inode, cookie, xattr) in any::<(u32, u64, u32, bool)>(),
        file_type in 0u8..7,
        name in bytes(0..=255),
    ) {
        let hash = KeyHash::R5.hash(&name).unwrap();
        let key = if xattr { Key::xattr_entry(parent, hash) } else { Key::entry(parent, hash) };
        let entry = Entry { key, inode, file_type: FileType::from_code(file_type), cookie };
        round_trip(stamp, &Node::Entry(EntryNode { entry, name: &name }))?;
    }

    #[test]
    fn index_round_trip(
        stamp in any_stamp(),
        level in any::<u16>(),
        hash in bytes(0..=64),
        keys in prop::collection::vec(any::<u64>().prop_map(Key::from_bits), 1..20),
    ) {
        let bytes = branches(&keys, &hash);
        let node = IndexNode::new(level, hash.len(), &bytes).unwrap();
        prop_assert!(node.branches().map(|branch| branch.key).eq(keys.iter().copied()));
        prop_assert_eq!(node.branch(keys.len() - 1).map(|branch| branch.hash.to_vec()), Some(hash.clone()));
        round_trip(stamp, &Node::Index(node))?;
    }

    #[test]
    fn journal_round_trips(stamp in any_stamp(), words in any::<[u32; 4]>(), longs in any::<[u64; 2]>()) {
        let [inode, lnum, offset, head] = words;
        let [old_size, new_size] = longs;
        round_trip(stamp, &Node::Truncation(Truncation { inode, old_size, new_size }))?;
        round_trip(stamp, &Node::Reference(Reference { lnum, offset, head }))?;
        round_trip(stamp, &Node::CommitStart(CommitStart { commit: old_size }))?;
        round_trip(stamp, &Node::Padding(PaddingNode { pad_len: lnum }))?;
    }

    #[test]
    fn orphan_round_trip(
        stamp in any_stamp(),
        (commit, last) in (0u64..1 << 63, any::<bool>()),
        inums in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        let inodes: Vec<_> = inums.iter().map(|inum| inum.to_le_bytes()).collect();
        let node = OrphanNode { commit, last, inodes: &inodes };
        prop_assert!(node.inums().eq(inums));
        round_trip(stamp, &Node::Orphan(node))?;
    }

    #[test]
    fn authentication_round_trips(stamp in any_stamp(), hmac in bytes(0..=64), code in any::<u32>()) {
        round_trip(stamp, &Node::Auth(AuthNode { hmac: &hmac }))?;
        let signature_type = SignatureType::from_code(code);
        round_trip(stamp, &Node::Signature(SignatureNode { signature_type, signature: &hmac }))?;
    }

    #[test]
    fn superblock_and_master_round_trip(stamp in any_stamp(), words in any::<[u32; 16]>(), hash in bytes(64..=64)) {
        let hash: [u8; 64] = hash.try_into().unwrap();
        let superblock = Superblock {
            key_hash: KeyHash::from_code(words[0] as u8),
            flags: SuperblockFlags::from_bits(words[1]),
            leb_bytes: words[2],
            leb_count: words[3],
            max_journal_bytes: u64::from(words[4]) << 32 | u64::from(words[5]),
            lsave_count: words[6],
            format_version: words[7],
            compression: Compression::from_code(words[8] as u16),
            hash_algorithm: HashAlgorithm::from_code(words[9] as u16),
            hmac: hash,
            hmac_known: hash,
            hash_master: hash,
            ro_compat_version: words[10],
            ..Superblock::default()
        };
        round_trip(stamp, &Node::Superblock(superblock))?;
        let master = Master {
            highest_inode: u64::from(words[0]) << 32 | u64::from(words[1]),
            flags: MasterFlags::from_bits(words[2]),
            root_offset: words[3],
            dark_bytes: u64::from(words[4]) << 32 | u64::from(words[5]),
            lpt_lnum: words[6],
            leb_count: words[7],
            hash_root: hash,
            hash_lpt: hash,
            hmac: hash,
            ..Master::default()
        };
        round_trip(stamp, &Node::Master(master))?;
    }

    #[test]
    fn keys_keep_their_parts(inum in any::<u32>(), low in 0u32..1 << 29) {
        let key = Key::data(inum, low).unwrap();
        prop_assert_eq!((key.inum(), key.key_type(), key.block()), (inum, KeyType::Data, low));
        let key = Key::entry(inum, low);
        prop_assert_eq!((key.inum(), key.key_type(), key.hash()), (inum, KeyType::Entry, low));
        prop_assert_eq!(Key::from_bits(key.bits()), key);
    }

    #[test]
    fn names_never_hash_to_reserved_values(name in bytes(0..=20)) {
        for hash in [KeyHash::R5, KeyHash::Test] {
            prop_assert!((3..1 << 29).contains(&hash.hash(&name).unwrap()));
        }
    }

    #[test]
    fn any_fields_are_answered(node_type in 0u8..14, mut body in bytes(28..=600), limit in any::<bool>()) {
        // Random fields with a correct header and CRC.
        let len = body.len() as u32;
        body[..4].copy_from_slice(&0x0610_1831u32.to_le_bytes());
        body[16..20].copy_from_slice(&len.to_le_bytes());
        body[20] = node_type;
        let sum = floatgate_media::crc::ubi(&body[8..]);
        body[4..8].copy_from_slice(&sum.to_le_bytes());
        if let Ok((_, node)) = parse(&body) && limit {
            let _ = node.check(&limits());
        }
    }

    #[test]
    fn anything_is_answered(bytes in bytes(0..=300)) {
        let _ = parse(&bytes);
        let _ = padding_bytes(&bytes);
    }
}
