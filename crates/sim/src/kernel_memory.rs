//! Kernel memory used by a mounted filesystem, on a 32-bit CPU without debugging options.
//!
//! Sizes are those of the structures of Linux 6.12 (`fs/jffs2/nodelist.h`, `drivers/mtd/ubi/ubi.h`,
//! `fs/ubifs/super.c`). Memory that Linux can reclaim is not counted: the page cache, UBIFS's znodes, LEB properties
//! and inodes. The work buffers of the compressors are not counted either, because their size is independent of the
//! flash.

/// Size of `struct jffs2_raw_node_ref`, bytes. Linux allocates one for each node on flash, including obsolete nodes.
const NODE_REF: u64 = 8;
/// Number of node references per allocation (`REFS_PER_BLOCK`), in addition to a link to the next allocation.
const NODE_REFS_AT_ONCE: u64 = 255 / NODE_REF - 1;
/// Size of `struct jffs2_inode_cache` with extended attributes, bytes. Linux allocates one for each inode.
const INODE_CACHE: u64 = 28;
/// Size of `struct jffs2_eraseblock`, bytes.
const JFFS2_ERASEBLOCK: u64 = 48;

/// Memory of a mounted JFFS2, bytes; `nodes` yields the number of nodes of each eraseblock.
pub(crate) fn jffs2(nodes: impl Iterator<Item = u64>, inodes: u64, page_bytes: u64) -> u64 {
    let of_block = |nodes: u64| {
        // The clean marker also has a reference, and an additional reference ends the list.
        let blocks = (nodes + 2).div_ceil(NODE_REFS_AT_ONCE);
        blocks * (NODE_REFS_AT_ONCE + 1) * NODE_REF + JFFS2_ERASEBLOCK
    };
    // The write buffer has the size of a page.
    nodes.map(of_block).sum::<u64>() + inodes * INODE_CACHE + page_bytes
}

/// Sizes of a UBI device with a UBIFS volume, on which its memory depends.
pub(crate) struct UbifsSizes {
    /// Number of PEBs.
    pub(crate) pebs: u64,
    /// Size of a PEB, bytes.
    pub(crate) peb_bytes: u64,
    /// Number of LEBs of the volume.
    pub(crate) lebs: u64,
    /// Size of a LEB, bytes.
    pub(crate) leb_bytes: u64,
    /// Size of a write buffer: the maximum write size, B.
    pub(crate) write_bytes: u64,
}

/// Size of `struct ubi_wl_entry` and of the pointer to it, bytes; one for each PEB.
const WEAR_LEVELLING_ENTRY: u64 = 20 + 4;
/// Size of `struct ubi_eba_entry`, bytes; one for each LEB.
const EBA_ENTRY: u64 = 4;
/// Size of the volume table, bytes: 128 records of 172 bytes.
const VOLUME_TABLE: u64 = 128 * 172;
/// Number of buffers of LEB size that UBIFS allocates while it is mounted for writing: `sbuf`, `ileb_buf` and
/// `lpt_buf`.
const LEB_BUFFERS: u64 = 3;
/// Number of write buffers, one for each journal head: base, data, garbage collection.
const WRITE_BUFFERS: u64 = 3;
/// Size of the compression buffer for low memory (`write_reserve_buf`), B.
const WRITE_RESERVE: u64 = 48 + 2 * 4096;

/// Memory of UBI and a mounted UBIFS, bytes.
pub(crate) const fn ubifs(sizes: &UbifsSizes) -> u64 {
    let ubi = sizes.pebs * WEAR_LEVELLING_ENTRY + sizes.lebs * EBA_ENTRY + VOLUME_TABLE + sizes.peb_bytes;
    ubi + LEB_BUFFERS * sizes.leb_bytes + WRITE_BUFFERS * sizes.write_bytes + WRITE_RESERVE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jffs2_takes_memory_for_each_node_and_a_ubifs_for_each_eraseblock() {
        // In 1000 eraseblocks, 28 nodes each fill one allocation per eraseblock, 29 nodes two.
        let with = |nodes: u64| jffs2(std::iter::repeat_n(nodes, 1000), 0, 2048);
        assert_eq!(with(28), 1000 * (248 + 48) + 2048);
        assert_eq!(with(29) - with(28), 1000 * 248);
        let pebs = |pebs| {
            ubifs(&UbifsSizes {
                pebs,
                peb_bytes: 128 << 10,
                lebs: pebs,
                leb_bytes: 124 << 10,
                write_bytes: 2048,
            })
        };
        assert_eq!(pebs(2000) - pebs(1000), 1000 * 28);
        assert!(pebs(1000) > 500 << 10, "buffers of whole eraseblocks");
    }
}
