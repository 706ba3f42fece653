//! Damage of the parts of files: names, inodes, data, extended attributes.

use floatgate_media::ubifs::Key;

use super::sample::{Sample, put};
use super::*;

/// Offsets of fields in an inode.
const SIZE: usize = 48;
const LINKS: usize = 92;
const MODE: usize = 104;
const FLAGS: usize = 108;
const DATA_LEN: usize = 112;

/// Writes a number to the inode of a file.
fn inode(image: &mut Sample, path: &str, at: usize, value: u32) {
    image.node(image.inode(path), |node| put(node, at, value));
}

/// Writes a number to the first block of a file.
fn block(image: &mut Sample, at: usize, value: u32) {
    image.node(image.block("/data", 0), |node| put(node, at, value));
}

pub(super) const DAMAGES: &[Damage] = &[
    clean("data-crc", "a wrong bit in a block of a file", |image| image.hit(image.block("/data", 1) + 60)),
    clean("data-size-more", "a block that is said to have 5000 bytes", |image| block(image, 40, 5000)),
    clean("data-size-huge", "a block that is said to have 2^32 - 1 bytes", |image| {
        block(image, 40, u32::MAX)
    }),
    clean("data-size-0", "a block that is said to have 0 bytes", |image| block(image, 40, 0)),
    clean("data-size-less", "a block that decompresses to more than it says", |image| block(image, 40, 100)),
    clean("data-bomb", "a block of zstd that decompresses to 1 MiB", |image| {
        let bomb = zstd::bulk::compress(&vec![0; 1 << 20], 19).unwrap();
        shorten(image, 3, &bomb);
    }),
    clean("data-lzo-garbage", "noise instead of LZO", |image| shorten(image, 1, &[0x11; 300])),
    clean("data-zlib-garbage", "noise instead of zlib", |image| shorten(image, 2, &[0x5A; 300])),
    clean("data-zstd-garbage", "noise instead of zstd", |image| shorten(image, 3, &[0x5A; 300])),
    clean("data-empty", "a block without a byte of data", |image| shorten(image, 0, &[])),
    clean("data-compression", "a block that is compressed in an unknown way", |image| block(image, 44, 77)),
    clean("data-key", "a block of another file than the index says", |image| block(image, 24, 66)),
    clean("data-node-type", "a block with an unknown type of node", |image| {
        image.node(image.block("/data", 0), |node| node[20] = 99);
    }),
    clean("data-node-len", "a block whose node is shorter than the index says", |image| {
        image.node(image.block("/data", 0), |node| node.truncate(100));
    }),
    clean("data-across-the-end", "a file whose last block goes on behind its end", |image| {
        inode(image, "/data", SIZE, 8500);
    }),
    clean("data-index-key", "the index says that a block of a file is one behind its end", |image| {
        let data = image.number("/data");
        let branch = |block| Key::data(data, block).unwrap();
        image.branches(branch(2), |at| put(at, 16, branch(77).bits() as u32));
    }),
    clean("data-index-leb", "the index says that a block of a file is in a LEB that is empty", |image| {
        let key = Key::data(image.number("/data"), 1).unwrap();
        image.branches(key, |at| put(at, 0, 35));
    }),
    clean("data-behind-the-end", "a file that is shorter than its data", |image| {
        inode(image, "/data", SIZE, 10)
    }),
    clean("name-crc", "a wrong bit in a directory entry", |image| image.hit(image.entry("/data") + 57)),
    clean("name-parent", "a file named ..", |image| image.rename("/names-2/nn", b"..")),
    clean("name-self", "a file named .", |image| image.rename("/names-2/nn", b".")),
    clean("name-empty", "a file without a name", |image| image.rename("/names-2/nn", b"")),
    clean("name-slash", "a file whose name has a slash in it", |image| image.rename("/names-3/nnn", b"a/b")),
    clean("name-absolute", "a file whose name begins with a slash", |image| {
        image.rename("/names-3/nnn", b"/et")
    }),
    clean("name-zero", "a file whose name has a zero in it", |image| image.rename("/names-3/nnn", b"a\0b")),
    clean("name-control", "a file whose name has control characters in it", |image| {
        image.rename("/names-3/nnn", b"\x1b[2");
    }),
    clean("name-256", "a file whose name is said to have 256 bytes", |image| {
        let path = format!("/names-255/{}", "n".repeat(255));
        image.node(image.entry(&path), |node| node[50..52].copy_from_slice(&256u16.to_le_bytes()));
    }),
    clean("name-65535", "a file whose name is said to have 65535 bytes", |image| {
        image.node(image.entry("/names-3/nnn"), |node| node[50..52].fill(0xFF));
    }),
    clean("name-other-hash", "a file whose name does not have the hash of its key", |image| {
        image.node(image.entry("/names-3/nnn"), |node| node[56..59].copy_from_slice(b"abc"));
    }),
    clean("name-repeated", "a directory with two entries of the same name", |image| {
        image.node(image.entry("/names-2"), |node| node[56..63].copy_from_slice(b"names-3"));
    }),
    clean("name-twice", "a file with two names, of which its inode counts one", |image| {
        image.rename("/names-2/nn", b"x");
        let first = image.number("/names-3/nnn");
        image.lead("/names-2/nn", first);
    }),
    clean("name-type", "a name says that a file is a directory", |image| {
        image.node(image.entry("/data"), |node| node[49] = 1);
    }),
    clean("name-type-unknown", "a name says that a file is of an unknown type", |image| {
        image.node(image.entry("/data"), |node| node[49] = 99);
    }),
    clean("name-without-inode", "a name of an inode that does not exist", |image| image.lead("/data", 5000)),
    clean("name-inode-huge", "a name of the inode 2^40", |image| {
        image.node(image.entry("/data"), |node| put(node, 44, 1 << 8));
    }),
    clean("name-inode-0", "a name of the inode 0", |image| image.lead("/data", 0)),
    clean("name-of-an-attribute", "a name of the value of an extended attribute", |image| {
        let value = image.value();
        image.lead("/data", value);
    }),
    clean("directory-twice", "a directory with two names", |image| {
        let lowest = image.number("/upper/lower/lowest");
        image.lead("/names-2", lowest);
    }),
    clean("directory-in-itself", "a directory that contains the one that contains it", |image| {
        let upper = image.number("/upper");
        image.lead("/upper/lower/lowest", upper);
    }),
    clean("directory-is-its-child", "a directory that contains itself", |image| {
        let lower = image.number("/upper/lower");
        image.lead("/upper/lower/lowest", lower);
    }),
    clean("directory-contains-root", "a directory that contains the root", |image| {
        image.lead("/upper/lower", 1)
    }),
    clean(
        "directory-cut-off",
        "two directories that contain each other, and nothing leads to them",
        |image| {
            let (data, upper) = (image.number("/data"), image.number("/upper"));
            image.lead("/upper", data);
            image.node(image.entry("/upper"), |node| node[49] = 0);
            image.lead("/upper/lower", upper);
        },
    ),
    clean("directory-is-a-file", "the inode of a directory says that it is a file", |image| {
        inode(image, "/upper", MODE, 0o100_644);
    }),
    clean("directory-size", "a directory with a wrong size", |image| inode(image, "/upper", SIZE, 0)),
    clean("root-missing", "the inode of the root is damaged", |image| image.hit(image.inode("/") + 60)),
    clean("root-is-a-file", "the root is a file", |image| inode(image, "/", MODE, 0o100_644)),
    clean("inode-crc", "a wrong bit in an inode", |image| image.hit(image.inode("/data") + 60)),
    clean("inode-links-more", "a file with more links than names", |image| inode(image, "/data", LINKS, 5)),
    clean("inode-links-less", "a file with fewer links than names", |image| inode(image, "/hard", LINKS, 1)),
    clean("inode-links-0", "a file without a link", |image| inode(image, "/data", LINKS, 0)),
    clean("inode-links-huge", "a directory with 2^32 - 1 links", |image| {
        inode(image, "/upper", LINKS, u32::MAX)
    }),
    clean("inode-size-huge", "a file of 2^63 bytes", |image| inode(image, "/data", SIZE + 4, 1 << 31)),
    clean("inode-size-largest", "a file of as many bytes as a file can have", |image| {
        let most = (floatgate_media::ubifs::MAX_FILE_BYTES).to_le_bytes();
        image.node(image.inode("/data"), |node| node[SIZE..SIZE + 8].copy_from_slice(&most));
    }),
    clean("inode-mode", "a file of no type", |image| inode(image, "/data", MODE, 0o644)),
    clean("inode-data-len", "a link whose target is said to have 4000 bytes", |image| {
        inode(image, "/link", DATA_LEN, 4000);
    }),
    clean("inode-data-len-huge", "a link whose target is said to have 2^32 - 1 bytes", |image| {
        inode(image, "/link", DATA_LEN, u32::MAX);
    }),
    clean("link-size", "a link whose size is not that of its target", |image| inode(image, "/link", SIZE, 3)),
    clean("link-empty", "a link without a target", |image| {
        cut_inode(image, "/link", 0);
        inode(image, "/link", SIZE, 0);
    }),
    clean("link-zero", "a link whose target has a zero in it", |image| {
        image.node(image.inode("/link"), |node| node[165] = 0);
    }),
    clean("device-data", "a device with a number of 3 bytes", |image| cut_inode(image, "/tty", 3)),
    clean("device-none", "a device without a number", |image| cut_inode(image, "/tty", 0)),
    clean("inode-compression", "a file that is to be compressed in an unknown way", |image| {
        image.node(image.inode("/data"), |node| node[132] = 77);
    }),
    clean("inode-time", "a file with 2^32 - 1 ns behind the second", |image| {
        inode(image, "/data", 88, u32::MAX)
    }),
    clean("inode-is-a-value", "a file that is said to be the value of an extended attribute", |image| {
        inode(image, "/data", FLAGS, 1 << 5);
    }),
    clean("inode-encrypted", "a file that is said to be encrypted, without a context", |image| {
        inode(image, "/data", FLAGS, 1 << 6);
    }),
    clean("inode-number", "an inode of another number than the index says", |image| {
        inode(image, "/data", 24, 4000)
    }),
    clean("xattr-counts", "a file with more extended attributes than it has", |image| {
        inode(image, "/noted", 116, 7)
    }),
    clean("xattr-value-missing", "an extended attribute whose value does not exist", |image| {
        image.node(image.attribute(), |node| put(node, 40, 5000));
    }),
    clean("xattr-value-is-a-file", "an extended attribute whose value is a file", |image| {
        let data = image.number("/data");
        image.node(image.attribute(), |node| put(node, 40, data));
    }),
    clean("xattr-name", "an extended attribute with a zero in its name", |image| {
        image.node(image.attribute(), |node| node[58] = 0);
    }),
    clean("xattr-name-length", "an extended attribute whose name is said to have 300 bytes", |image| {
        image.node(image.attribute(), |node| node[50..52].copy_from_slice(&300u16.to_le_bytes()));
    }),
    clean("xattr-value-length", "an extended attribute whose value is said to have 4000 bytes", |image| {
        let value = image.value_node();
        image.node(value, |node| put(node, DATA_LEN, 4000));
    }),
    clean("xattr-crc", "a wrong bit in the name of an extended attribute", |image| {
        image.hit(image.attribute() + 57);
    }),
];

/// Replaces the data of a file's first block.
fn shorten(image: &mut Sample, compression: u8, data: &[u8]) {
    let at = image.block("/data", 0);
    let key = image.key_at(at);
    image.node(at, |node| {
        node.truncate(48);
        node[44] = compression;
        node.extend_from_slice(data);
    });
    let len = 48 + data.len() as u32;
    image.branches(key, |branch| branch[8..12].copy_from_slice(&len.to_le_bytes()));
}

/// Truncates the data that is attached to an inode.
fn cut_inode(image: &mut Sample, path: &str, len: usize) {
    let at = image.inode(path);
    let key = Key::inode(image.number(path));
    image.node(at, |node| {
        put(node, DATA_LEN, len as u32);
        node.truncate(160 + len);
    });
    image.branches(key, |branch| branch[8..12].copy_from_slice(&(160 + len as u32).to_le_bytes()));
}

impl Sample {
    /// Offset of the entry with the name of the extended attribute.
    fn attribute(&self) -> usize {
        let file = self.number("/noted");
        self.nodes(3).into_iter().rfind(|&at| self.word(at + 24) == file).unwrap()
    }

    /// Number of the inode with the value of the extended attribute.
    fn value(&self) -> u32 {
        self.word(self.attribute() + 40)
    }

    fn value_node(&self) -> usize {
        let number = self.value();
        self.nodes(0).into_iter().rfind(|&at| self.word(at + 24) == number).unwrap()
    }
}
