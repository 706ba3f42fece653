//! UBIFS nodes, as they are and with magic, length and CRC mended; what is read writes and reads the same again.

#![no_main]

use std::sync::LazyLock;

use floatgate_media::crc;
use floatgate_media::ubifs::{Frame, Limits, Node, NodeBody, padding_bytes};
use libfuzzer_sys::fuzz_target;

const SUPERBLOCK: &[u8] = include_bytes!("../../crates/media/tests/samples/ubifs_node/superblock_kernel.bin");

static LIMITS: LazyLock<Limits> =
    LazyLock::new(|| match Frame::parse(SUPERBLOCK).and_then(|frame| frame.node()) {
        Ok(Node::Superblock(superblock)) => Limits::new(&superblock).unwrap(),
        other => panic!("{other:?}"),
    });

fuzz_target!(|data: &[u8]| {
    read(data);
    let mut mended = data.to_vec();
    if mended.len() < 24 {
        return;
    }
    let len = u32::try_from(mended.len()).unwrap();
    mended[..4].copy_from_slice(&0x0610_1831u32.to_le_bytes());
    mended[16..20].copy_from_slice(&len.to_le_bytes());
    let sum = crc::ubi(&mended[8..]);
    mended[4..8].copy_from_slice(&sum.to_le_bytes());
    read(&mended);
});

fn read(bytes: &[u8]) {
    assert!(padding_bytes(bytes) <= bytes.len());
    let Ok(frame) = Frame::parse(bytes) else { return };
    let Ok(node) = frame.node() else { return };
    let _ = node.check(&LIMITS);
    if let Node::Superblock(superblock) = node {
        let _ = Limits::new(&superblock.grown(u32::MAX));
    }
    let mut out = vec![0; node.node_bytes()];
    assert_eq!(node.emit(frame.stamp, &mut out), Ok(frame.as_bytes().len()));
    let again = Frame::parse(&out).unwrap();
    assert_eq!((again.stamp, again.node()), (frame.stamp, Ok(node)));
}
