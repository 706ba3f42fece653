//! Damage of UBIFS outside files: superblock, master nodes, log, index, LPT, orphans.

use floatgate_media::ubifs::lpt;

use super::sample::{Sample, put};
use super::*;
use crate::dump::Area;

/// Number of bytes of an index node before its branches, and size of a branch.
const BRANCHES_AT: usize = 28;
const BRANCH: usize = 20;

/// Writes a number to the superblock.
fn superblock(image: &mut Sample, at: usize, value: u32) {
    image.superblock(|node| put(node, at, value));
}

/// Writes a number to the root of the index.
fn root(image: &mut Sample, at: usize, value: u32) {
    image.node(image.root(), |node| put(node, at, value));
}

pub(super) const DAMAGES: &[Damage] = &[
    clean("superblock-missing", "the PEB of LEB 0 is erased", |image| image.erase(image.peb(0))),
    clean("superblock-crc", "a wrong bit in the superblock", |image| image.hit(image.leb(0, 48))),
    clean("superblock-magic", "the superblock has another magic", |image| image.hit(image.leb(0, 0))),
    clean("superblock-type", "the superblock says that it is a master node", |image| {
        image.superblock(|node| node[20] = 7);
    }),
    clean("superblock-min-io-0", "the smallest write is 0", |image| superblock(image, 32, 0)),
    clean("superblock-min-io", "the smallest write is 3 bytes", |image| superblock(image, 32, 3)),
    clean("superblock-min-io-other", "the smallest write is not that of UBI", |image| {
        superblock(image, 32, 2048)
    }),
    clean("superblock-leb-0", "a LEB has 0 bytes", |image| superblock(image, 36, 0)),
    clean("superblock-leb-huge", "a LEB has 2^31 bytes", |image| superblock(image, 36, 1 << 31)),
    clean("superblock-leb-other", "a LEB has half the bytes it has", |image| superblock(image, 36, 7680)),
    clean("superblock-lebs-0", "there are 0 LEBs", |image| superblock(image, 40, 0)),
    clean("superblock-lebs-huge", "there are 2^31 - 1 LEBs", |image| {
        superblock(image, 40, i32::MAX as u32);
        superblock(image, 44, i32::MAX as u32);
    }),
    clean("superblock-lebs-more", "there are twice as many LEBs as the volume has", |image| {
        superblock(image, 40, 84);
        superblock(image, 44, 84);
    }),
    clean("superblock-max-lebs", "it grows to fewer LEBs than it has", |image| superblock(image, 44, 20)),
    clean("superblock-journal", "the journal may have 2^40 bytes", |image| superblock(image, 52, 1 << 8)),
    clean("superblock-log-0", "the log has 0 LEBs", |image| superblock(image, 56, 0)),
    clean("superblock-log-huge", "the log has 2^32 - 1 LEBs", |image| superblock(image, 56, u32::MAX)),
    clean("superblock-lpt-lebs", "the LPT has one LEB more, so that all behind it is elsewhere", |image| {
        let lebs = image.word(image.leb(0, 60));
        superblock(image, 60, lebs + 1);
    }),
    clean("superblock-heads", "there are 1000 journal heads for data", |image| superblock(image, 68, 1000)),
    clean("superblock-fanout-0", "index nodes have at most 0 children", |image| superblock(image, 72, 0)),
    clean("superblock-fanout-huge", "index nodes have up to 2^32 - 1 children", |image| {
        superblock(image, 72, u32::MAX);
    }),
    clean("superblock-lsave", "the save table of the LPT has 2^31 entries", |image| {
        superblock(image, 76, 1 << 31)
    }),
    clean("superblock-version", "version 6 of the format, which can be read only", |image| {
        superblock(image, 80, 6)
    }),
    clean("superblock-version-ro", "version 6 of the format, which cannot be read", |image| {
        superblock(image, 80, 6);
        superblock(image, 124, 1);
    }),
    clean("superblock-compression", "new files are compressed in an unknown way", |image| {
        image.superblock(|node| node[84] = 77);
    }),
    clean("superblock-key-hash", "an unknown hash of names", |image| image.superblock(|node| node[26] = 9)),
    clean("superblock-flags", "an unknown feature", |image| superblock(image, 28, 1 << 20)),
    clean("superblock-big-lpt", "the LPT is said to be of the big model", |image| superblock(image, 28, 2)),
    clean("superblock-time", "times have a granularity of 0", |image| superblock(image, 104, 0)),
    clean("master-leb-missing", "the PEB of LEB 1 is erased", |image| image.erase(image.peb(1))),
    clean("master-lebs-missing", "the PEBs of LEBs 1 and 2 are erased", |image| {
        (1..3).for_each(|lnum| image.erase(image.peb(lnum)));
    }),
    clean("master-first", "a wrong bit in the newest master node of LEB 1", |image| {
        let last = image.area(Area::Master).into_iter().rfind(|&at| at < image.peb(2)).unwrap();
        image.hit(last + 50);
    }),
    clean("master-second", "a wrong bit in the newest master node of LEB 2", |image| {
        let last = image.area(Area::Master).into_iter().next_back().unwrap();
        image.hit(last + 50);
    }),
    clean("master-newest", "a wrong bit in the newest master node of both LEBs", |image| {
        let nodes = image.area(Area::Master);
        let first = nodes.iter().copied().rfind(|&at| at < image.peb(2)).unwrap();
        [first, nodes[nodes.len() - 1]].into_iter().for_each(|at| image.hit(at + 50));
    }),
    clean("master-both", "a wrong bit in every master node", |image| {
        image.area(Area::Master).into_iter().for_each(|at| image.hit(at + 50));
    }),
    clean("master-root-outside", "the index begins behind the last LEB", |image| {
        image.masters(|node| put(node, 48, 1000));
    }),
    clean("master-root-offset", "the index begins 8 bytes before it does", |image| {
        image.masters(|node| {
            let offset = node[52].wrapping_sub(8);
            node[52] = offset;
        });
    }),
    clean("master-root-len", "the root of the index has 0 bytes", |image| {
        image.masters(|node| put(node, 56, 0))
    }),
    clean("master-root-len-huge", "the root of the index has 2^32 - 1 bytes", |image| {
        image.masters(|node| put(node, 56, u32::MAX));
    }),
    clean("master-log", "the log begins in LEB 0", |image| image.masters(|node| put(node, 44, 0))),
    clean("master-lpt", "the LPT begins in the log", |image| image.masters(|node| put(node, 120, 3))),
    clean("master-gc", "the garbage collector's LEB is the superblock's", |image| {
        image.masters(|node| put(node, 60, 0));
    }),
    clean("master-lebs", "there are 10 LEBs", |image| image.masters(|node| put(node, 164, 10))),
    clean("master-highest-inode", "the highest inode is 1", |image| image.masters(|node| put(node, 24, 1))),
    clean("master-highest-inode-huge", "the highest inode is 2^40", |image| {
        image.masters(|node| put(node, 28, 1 << 8));
    }),
    clean("master-sums", "the sums of space are not those of the LEBs", |image| {
        image.masters(|node| put(node, 80, 0));
    }),
    clean("master-index-size", "the index has 64 bytes more in the master node than on flash", |image| {
        image.masters(|node| node[72] = node[72].wrapping_add(64));
    }),
    clean("master-dead", "more space is dead than there is", |image| image.masters(|node| put(node, 108, 1))),
    clean("log-missing", "the PEB of the log is erased", |image| {
        let log = image.area(Area::Log)[0] / super::sample::PEB * super::sample::PEB;
        image.erase(log);
    }),
    clean("log-start-crc", "a wrong bit where the log begins", |image| {
        image.hit(image.area(Area::Log)[0] + 25)
    }),
    clean("log-commit", "the log is of another commit than the master node", |image| {
        image.node(image.area(Area::Log)[0], |node| put(node, 24, 999));
    }),
    dirty("log-end", "the last reference of the log is damaged", |image| {
        let last = image.area(Area::Log).into_iter().next_back().unwrap();
        image.hit(last + 30);
    }),
    dirty("log-end-missing", "the log ends before its last reference", |image| {
        let last = image.area(Area::Log).into_iter().next_back().unwrap();
        image.bytes[last..last + 64].fill(0xFF);
    }),
    dirty("log-reference-outside", "the log says that LEB 0 is of the journal", |image| {
        image.node(image.area(Area::Log).into_iter().next_back().unwrap(), |node| put(node, 24, 0));
    }),
    dirty("log-reference-twice", "the log has the same LEB twice", |image| {
        let log = image.area(Area::Log);
        let first = image.word(log[1] + 24);
        image.node(log[2], |node| put(node, 24, first));
    }),
    dirty("log-reference-head", "the log has a LEB of journal head 7", |image| {
        image.node(image.area(Area::Log).into_iter().next_back().unwrap(), |node| put(node, 32, 7));
    }),
    dirty("journal-leb-missing", "the PEB of a LEB of the journal is erased", |image| {
        let last = image.area(Area::Log).into_iter().next_back().unwrap();
        image.erase(image.peb(image.word(last + 24)));
    }),
    dirty("journal-first-node", "a wrong bit in the first node of a LEB of the journal", |image| {
        let last = image.area(Area::Log).into_iter().next_back().unwrap();
        let at = image.leb(image.word(last + 24), image.word(last + 28));
        image.hit(at + 30);
    }),
    clean("index-outside", "a branch of the index leads behind the last LEB", |image| {
        root(image, BRANCHES_AT, 999)
    }),
    clean("index-into-log", "a branch of the index leads into the log", |image| root(image, BRANCHES_AT, 3)),
    clean("index-offset", "a branch of the index leads behind the end of a LEB", |image| {
        root(image, BRANCHES_AT + 4, 1 << 20);
    }),
    clean("index-offset-odd", "a branch of the index leads to an odd byte", |image| {
        let offset = image.word(image.root() + BRANCHES_AT + 4);
        root(image, BRANCHES_AT + 4, offset + 1);
    }),
    clean("index-len", "a branch of the index says that what it leads to has 0 bytes", |image| {
        root(image, BRANCHES_AT + 8, 0);
    }),
    clean("index-crc", "a wrong bit in the root of the index", |image| image.hit(image.root() + 40)),
    clean(
        "index-and-root-crc",
        "a wrong bit in the root of the index, and in all inodes of the root and of a directory",
        |image| {
            let upper = image.number("/upper");
            let inodes = image.nodes(0).into_iter();
            let lost: Vec<usize> =
                inodes.filter(|&at| [1, upper].contains(&image.key_at(at).inum())).collect();
            lost.into_iter().for_each(|at| image.hit(at + 60));
            image.hit(image.root() + 40);
        },
    ),
    clean("index-leaf-crc", "a wrong bit in an index node below the root", |image| {
        image.hit(image.below_root() + 40);
    }),
    clean("index-cycle", "the root of the index is its own child", |image| {
        let (place, len) = (image.place_of_root(), image.word(image.root() + 16));
        image.node(image.root(), |node| {
            put(node, BRANCHES_AT, place.0);
            put(node, BRANCHES_AT + 4, place.1);
            put(node, BRANCHES_AT + 8, len);
        });
    }),
    clean("index-level", "an index node below the root says that it is of level 5", |image| {
        image.node(image.below_root(), |node| node[26] = 5);
    }),
    clean("index-root-level", "the root of the index says that it is of level 65535", |image| {
        image.node(image.root(), |node| node[26..28].fill(0xFF));
    }),
    clean("index-children-0", "an index node without children", |image| {
        image.node(image.below_root(), |node| node[24..26].fill(0));
    }),
    clean("index-children-65535", "an index node with 65535 children", |image| {
        image.node(image.below_root(), |node| node[24..26].fill(0xFF));
    }),
    clean("index-order", "the first two branches of an index node stand in the wrong order", |image| {
        image.node(image.below_root(), |node| {
            let (first, second) = node[BRANCHES_AT..].split_at_mut(BRANCH);
            first.swap_with_slice(&mut second[..BRANCH]);
        });
    }),
    clean("index-same-keys", "the first two branches of an index node have the same key", |image| {
        image.node(image.below_root(), |node| {
            node.copy_within(BRANCHES_AT + 12..BRANCHES_AT + 20, BRANCHES_AT + BRANCH + 12);
        });
    }),
    clean("lpt-root-crc", "a wrong bit in the root of the LPT", |image| {
        image.hit(image.place_in_master(120) + 3)
    }),
    clean("lpt-child-outside", "the root of the LPT leads to its own place", |image| {
        image.nnode(|node, place| node.children = [Some(place); 4]);
    }),
    clean("lpt-free", "a LEB has less free space in the LPT than it has", |image| {
        image.pnode(|node| {
            let leb = node.lebs.iter_mut().find(|leb| leb.free >= 1024).unwrap();
            leb.free -= 512;
        });
    }),
    clean("lpt-dirty", "a LEB has less dirty space in the LPT than it has", |image| {
        image.pnode(|node| {
            let leb = node.lebs.iter_mut().find(|leb| leb.dirty > 64).unwrap();
            leb.dirty -= 64;
        });
    }),
    clean("lpt-more-than-a-leb", "a LEB has more free and dirty space than bytes", |image| {
        image.pnode(|node| (node.lebs[0].free, node.lebs[0].dirty) = (15_872, 15_872));
    }),
    clean("lpt-index-flag", "a LEB of files is said to hold the index, and the other way round", |image| {
        image.pnode(|node| node.lebs.iter_mut().for_each(|leb| leb.index = !leb.index));
    }),
    clean("lpt-table-crc", "a wrong bit in the LPT's table of its own LEBs", |image| {
        image.hit(image.place_in_master(136) + 3);
    }),
    clean("lpt-table-free", "the LPT's table says that its LEBs are full", |image| {
        image.ltab(|lebs| lebs.fill(lpt::LebSpace { free: 0, dirty: 0 }));
    }),
    dirty("orphans-crc", "a wrong bit in the orphan area", |image| {
        image.hit(image.area(Area::Orphans)[0] + 30)
    }),
    dirty("orphans-commit", "orphans of a commit that was never", |image| {
        image.node(image.area(Area::Orphans)[0], |node| put(node, 24, 999_999));
    }),
    dirty("orphans-inode", "an orphan that is the root directory", |image| {
        image.node(image.area(Area::Orphans)[0], |node| put(node, 32, 1));
    }),
    dirty("orphans-inode-huge", "an orphan with the number 2^40", |image| {
        image.node(image.area(Area::Orphans)[0], |node| put(node, 36, 1 << 8));
    }),
    dirty("orphans-other", "a node that is no orphan in the orphan area", |image| {
        image.node(image.area(Area::Orphans)[0], |node| node[20] = 10);
    }),
    bare_of("bare-cut-in-superblock", "a UBIFS without UBI, cut off in its superblock", |image| {
        image.bytes.truncate(2000);
    }),
    bare_of("bare-cut-in-leb", "a UBIFS without UBI, cut off in the middle of a LEB", |image| {
        let end = image.bytes.len() - 5000;
        image.bytes.truncate(end);
    }),
    bare_of("bare-cut-behind-log", "a UBIFS without UBI, cut off behind its first 6 LEBs", |image| {
        image.bytes.truncate(6 * 15_872);
    }),
    bare_of("bare-superblock-crc", "a UBIFS without UBI with a wrong bit in its superblock", |image| {
        image.hit(110);
    }),
    bare_of("bare-leb-0", "a UBIFS without UBI whose LEBs have 0 bytes", |image| {
        image.node(0, |node| put(node, 36, 0));
    }),
    bare_of("bare-leb-huge", "a UBIFS without UBI whose LEBs have 2^31 bytes", |image| {
        image.node(0, |node| put(node, 36, 1 << 31));
    }),
    bare_of("bare-min-io-0", "a UBIFS without UBI with a smallest write of 0 bytes", |image| {
        image.node(0, |node| put(node, 32, 0));
    }),
    bare_of("bare-lebs-huge", "a UBIFS without UBI with 2^31 - 1 LEBs", |image| {
        image.node(0, |node| {
            put(node, 40, i32::MAX as u32);
            put(node, 44, i32::MAX as u32);
        });
    }),
];
