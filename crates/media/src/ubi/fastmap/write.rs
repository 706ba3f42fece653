//! Writer of a fastmap.

use super::{
    DATA_CRC_AT, FastmapCounts, FastmapSuperblock, FastmapVolume, HEADER_AT, HEADER_MAGIC, LISTS_AT,
    MAP_MAGIC, MAX_PEBS, MAX_POOL, PEBS_AT, POOL_BYTES, POOL_MAGIC, POOLS_AT, PebEc, PebList,
    SUPERBLOCK_MAGIC, UNMAPPED, VERSION, VERSION_AT, VOLUME_MAGIC, data_crc, step,
};
use crate::error::{MediaError, Reason};
use crate::wire::BigWire;

/// Writes a fastmap sequentially.
///
/// ```
/// # use floatgate_media::ubi::{Fastmap, FastmapWriter, PebEc, PebList};
/// let mut out = [0; 4096];
/// let mut writer = FastmapWriter::new(&mut out, (&[7, 8], 16), (&[], 8))?;
/// writer.peb(PebList::Free, PebEc { pnum: 9, erase_count: 3 })?;
/// writer.finish(&[PebEc { pnum: 1, erase_count: 2 }], 0)?;
/// let read = Fastmap::parse(&out)?;
/// assert!(read.pool.pebs().eq([7, 8]));
/// # Ok::<(), floatgate_media::MediaError>(())
/// ```
#[derive(Debug)]
pub struct FastmapWriter<'o> {
    out: &'o mut [u8],
    at: usize,
    counts: FastmapCounts,
    list: Option<PebList>,
}

impl<'o> FastmapWriter<'o> {
    /// Starts a fastmap in `out`, the bytes of all its LEBs. Each pool is given by its PEBs and its maximum size.
    ///
    /// # Errors
    ///
    /// No room, or a pool of more than 256 PEBs.
    pub fn new(out: &'o mut [u8], pool: (&[u32], u16), wl_pool: (&[u32], u16)) -> Result<Self, MediaError> {
        out.fill(0);
        let at = step(out.len(), 0, LISTS_AT)?;
        put_pool(out, POOLS_AT, pool)?;
        put_pool(out, POOLS_AT + POOL_BYTES, wl_pool)?;
        Ok(Self { out, at, counts: FastmapCounts::default(), list: Some(PebList::Free) })
    }

    /// Adds a PEB to a list; the lists must be written in order.
    ///
    /// # Errors
    ///
    /// No room, or a list that is already complete.
    pub fn peb(&mut self, list: PebList, peb: PebEc) -> Result<(), MediaError> {
        if self.list.is_none_or(|current| list < current) {
            return Err(Reason::Inconsistent { what: "lists of PEBs out of order" }.at(self.at));
        }
        self.list = Some(list);
        let count = match list {
            PebList::Free => &mut self.counts.free,
            PebList::Used => &mut self.counts.used,
            PebList::Scrub => &mut self.counts.scrub,
            PebList::Erase => &mut self.counts.erase,
        };
        *count += 1;
        self.put(&peb)
    }

    /// Adds a volume with its map: the PEB of each LEB. Volumes follow after all PEBs.
    ///
    /// # Errors
    ///
    /// No room.
    pub fn volume(
        &mut self,
        volume: &FastmapVolume,
        pnums: impl IntoIterator<Item = Option<u32>>,
    ) -> Result<(), MediaError> {
        self.list = None;
        let start = self.at;
        self.put(volume)?;
        VOLUME_MAGIC.put(self.out, start);
        self.put(&MAP_MAGIC)?;
        let count_at = self.at;
        self.put(&0u32)?;
        let mut count = 0u32;
        for pnum in pnums {
            self.put(&pnum.unwrap_or(UNMAPPED))?;
            count += 1;
        }
        count.put(self.out, count_at);
        self.counts.volumes += 1;
        Ok(())
    }

    /// Writes header and superblock from the fastmap's own PEBs, anchor first, and the number of bad PEBs.
    ///
    /// # Errors
    ///
    /// No PEB, or more than 32.
    pub fn finish(mut self, pebs: &[PebEc], bad_pebs: u32) -> Result<(), MediaError> {
        self.counts.bad = bad_pebs;
        self.counts.put(self.out, HEADER_AT);
        HEADER_MAGIC.put(self.out, HEADER_AT);
        superblock(pebs)?.put(self.out, 0);
        SUPERBLOCK_MAGIC.put(self.out, 0);
        VERSION.put(self.out, VERSION_AT);
        data_crc(self.out).put(self.out, DATA_CRC_AT);
        Ok(())
    }

    fn put<T: BigWire>(&mut self, value: &T) -> Result<(), MediaError> {
        let end = step(self.out.len(), self.at, T::WIDTH)?;
        value.put(self.out, self.at);
        self.at = end;
        Ok(())
    }
}

fn superblock(pebs: &[PebEc]) -> Result<FastmapSuperblock, MediaError> {
    let bad = Reason::OutOfRange { field: "fastmap PEBs", value: pebs.len() as u64 }.at(PEBS_AT);
    let peb_count = u32::try_from(pebs.len()).map_err(|_| bad)?;
    if !(1..=MAX_PEBS).contains(&peb_count) {
        return Err(bad);
    }
    let mut superblock = FastmapSuperblock { peb_count, ..FastmapSuperblock::default() };
    let places = superblock.pebs.iter_mut().zip(&mut superblock.erase_counts);
    for ((pnum, erase_count), peb) in places.zip(pebs) {
        (*pnum, *erase_count) = (peb.pnum, peb.erase_count);
    }
    Ok(superblock)
}

fn put_pool(out: &mut [u8], at: usize, (pebs, max_len): (&[u32], u16)) -> Result<(), MediaError> {
    let bad = Reason::OutOfRange { field: "pool size", value: pebs.len() as u64 }.at(at + 4);
    let len = u16::try_from(pebs.len()).map_err(|_| bad)?;
    if pebs.len() > MAX_POOL || usize::from(max_len) > MAX_POOL {
        return Err(bad);
    }
    POOL_MAGIC.put(out, at);
    len.put(out, at + 4);
    max_len.put(out, at + 6);
    for (index, pnum) in pebs.iter().enumerate() {
        pnum.put(out, at + 8 + 4 * index);
    }
    Ok(())
}
