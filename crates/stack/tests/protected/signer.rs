//! Adds HMACs where a kernel with the key writes them. This code was written independently of the code that verifies
//! them.

use super::common::LEB;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Key of the tests.
pub(crate) const KEY: &[u8] = b"a key of the tests";

/// Size of an HMAC with SHA-256, bytes.
pub(crate) const HMAC: usize = 32;

/// HMAC over several parts.
pub(crate) fn hmac(parts: &[&[u8]]) -> [u8; HMAC] {
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Length in a node's header, bytes.
pub(crate) fn node_len(node: &[u8]) -> usize {
    u32::from_le_bytes(node[16..20].try_into().unwrap()) as usize
}

/// Corrects the CRC of the node at the start of `node`.
pub(crate) fn reseal(node: &mut [u8]) {
    let len = node_len(node);
    let crc = !crc32fast::hash(&node[8..len]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Writes the HMAC of a superblock or master node of `len` bytes at offset `at` of the node.
pub(crate) fn authenticate_node(node: &mut [u8], len: usize, at: usize) {
    let hmac = hmac(&[&node[8..at], &node[at + HMAC..len]]);
    node[at..at + HMAC].copy_from_slice(&hmac);
    reseal(node);
}

/// Converts an image signed by `mkfs.ubifs` to one that the key authenticates.
pub(crate) fn authenticated(signed: &[u8]) -> Vec<u8> {
    let mut image = signed.to_vec();
    image[192..192 + HMAC].copy_from_slice(&hmac(&[b"UBIFS"]));
    authenticate_node(&mut image, 4096, 128);
    authenticate_masters(&mut image);
    image
}

/// Authenticates both master nodes, which are at the start of their LEBs.
pub(crate) fn authenticate_masters(image: &mut [u8]) {
    for lnum in [1, 2] {
        authenticate_node(&mut image[lnum * LEB..], 512, 296);
    }
}

/// Hash that continues over nodes.
pub(crate) type Chain = Sha256;

/// Adds a node to the hash, with the length in its header.
pub(crate) fn chain(hash: &mut Chain, node: &[u8]) {
    hash.update(&node[..node_len(node)]);
}

/// HMAC of the current state of the hash.
pub(crate) fn chain_hmac(hash: &Chain) -> [u8; HMAC] {
    hmac(&[&hash.clone().finalize()])
}
