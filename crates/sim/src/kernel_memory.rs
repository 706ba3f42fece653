//! Kernel memory used by a mounted filesystem, on a 32-bit CPU without debugging options.
//!
//! Sizes are those of the structures of Linux 6.12 (`fs/jffs2/nodelist.h`, `drivers/mtd/ubi/ubi.h`,
//! `fs/ubifs/super.c`). Memory that Linux can reclaim is left out (the page cache, UBIFS's znodes, LEB properties and
//! inodes), and so are the workspaces of the compressors, whose size is independent of the flash.

/// Bytes of `struct jffs2_raw_node_ref`: one for each node on the flash, obsolete ones included.
const NODE_REF: u64 = 8;
/// Node references per allocation (`REFS_PER_BLOCK`), to which a link to the next allocation is added.
const NODE_REFS_AT_ONCE: u64 = 255 / NODE_REF - 1;
/// Bytes of `struct jffs2_inode_cache` with extended attributes: one for each inode.
const INODE_CACHE: u64 = 28;
/// Bytes of `struct jffs2_eraseblock`.
const JFFS2_ERASEBLOCK: u64 = 48;

/// Memory of a JFFS2 in bytes; `nodes` yields the number of nodes of each eraseblock.
pub(crate) fn jffs2(nodes: impl Iterator<Item = u64>, inodes: u64, page_bytes: u64) -> u64 {
    let of_block = |nodes: u64| {
        // The clean marker has a reference, too, and the last one ends the list.
        let blocks = (nodes + 2).div_ceil(NODE_REFS_AT_ONCE);
        blocks * (NODE_REFS_AT_ONCE + 1) * NODE_REF + JFFS2_ERASEBLOCK
    };
    // The write buffer is a page.
    nodes.map(of_block).sum::<u64>() + inodes * INODE_CACHE + page_bytes
}

/// Sizes of a UBI device with a UBIFS volume.
pub(crate) struct UbifsSizes {
    /// Number of PEBs.
    pub(crate) pebs: u64,
    /// Bytes of a PEB.
    pub(crate) peb_bytes: u64,
    /// Number of LEBs of the volume.
    pub(crate) lebs: u64,
    /// Bytes of a LEB.
    pub(crate) leb_bytes: u64,
    /// Size of a write buffer, B: the maximum write size.
    pub(crate) write_bytes: u64,
}

/// Bytes of `struct ubi_wl_entry` and of the pointer to it, for each PEB.
const WEAR_LEVELLING_ENTRY: u64 = 20 + 4;
/// Bytes of `struct ubi_eba_entry`, for each LEB.
const EBA_ENTRY: u64 = 4;
/// Bytes of the volume table: 128 records of 172 bytes.
const VOLUME_TABLE: u64 = 128 * 172;
/// Buffers of LEB size that UBIFS allocates while it is mounted for writing: `sbuf`, `ileb_buf` and `lpt_buf`.
const LEB_BUFFERS: u64 = 3;
/// Write buffers of the journal heads: base, data, garbage collection.
const WRITE_BUFFERS: u64 = 3;
/// Size of the compression buffer for low memory (`write_reserve_buf`), B.
const WRITE_RESERVE: u64 = 48 + 2 * 4096;

/// Memory of UBI and UBIFS in bytes.
pub(crate) const fn ubifs(sizes: &UbifsSizes) -> u64 {
    let ubi = sizes.pebs * WEAR_LEVELLING_ENTRY + sizes.lebs * EBA_ENTRY + VOLUME_TABLE + sizes.peb_bytes;
    ubi + LEB_BUFFERS * sizes.leb_bytes + WRITE_BUFFERS * sizes.write_bytes + WRITE_RESERVE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jffs2_takes_memory_for_each_node_and_a_ubifs_for_each_eraseblock() {
        // 1000 eraseblocks of 28 nodes fill one allocation each, of 29 nodes two.
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
