//! Positions of the ECC bytes and of the free bytes in the OOB.
//!
//! The layouts are those of Linux's generic NAND code (facts 5), so that Linux can read a page written by floatgate:
//!
//! | layout | OOB | ECC bytes | free bytes |
//! |---|---|---|---|
//! | small page | 8 | 0..3 | 3..5, 6..8 |
//! | small page | 16 | 0..4, 6.. | 8..16 |
//! | large page | any | at the end | 2.. up to them |
//! | large page, Hamming | 64 | from 40 | the rest from 2 |
//! | large page, Hamming | 128 | from 80 | the rest from 2 |
//! | in sections | n * 16 | the last bytes of each section | the others, without the marker |

/// A contiguous range of the OOB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Offset of the first byte.
    pub offset: u32,
    /// Length of the range, bytes.
    pub len: u32,
}

impl Region {
    const fn new(offset: u32, len: u32) -> Self {
        Self { offset, len }
    }

    fn bytes_of<'a>(&self, oob: &'a [u8]) -> &'a [u8] {
        let from = (self.offset as usize).min(oob.len());
        &oob[from..(from + self.len as usize).min(oob.len())]
    }

    /// Mutable slice of this range of an OOB.
    pub fn of_mut<'a>(&self, oob: &'a mut [u8]) -> &'a mut [u8] {
        let from = (self.offset as usize).min(oob.len());
        let to = (from + self.len as usize).min(oob.len());
        &mut oob[from..to]
    }
}

/// Reason why an OOB layout is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The OOB is too small for the ECC bytes and the bad block marker.
    #[error("{ecc_bytes} ECC bytes do not fit into an OOB of {oob_bytes} bytes beside the bad block marker")]
    NoRoom {
        /// Number of ECC bytes of a page.
        ecc_bytes: u32,
        /// Size of the OOB, bytes.
        oob_bytes: u32,
    },
}

/// Size of the bad block marker at the start of a large page's OOB.
pub const MARKER: u32 = 2;

/// Maximum number of ECC regions and of free regions.
const REGIONS: usize = 32;

/// A range of bytes repeated once per section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stride {
    /// Offset of the range in the first section, from the start of the OOB.
    pub start: u32,
    /// Distance between sections, bytes.
    pub step: u32,
    /// Length of the range in each section, bytes.
    pub len: u32,
}

/// An OOB layout: the regions of ECC bytes and of free bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OobLayout {
    ecc: Regions,
    free: Regions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Regions {
    list: [Region; REGIONS],
    len: usize,
}

impl Regions {
    fn new(regions: &[Region]) -> Self {
        let mut all = Self { list: [Region::default(); REGIONS], len: 0 };
        regions.iter().for_each(|region| all.push(*region));
        all
    }

    /// Adds a region; an empty region is ignored.
    fn push(&mut self, region: Region) {
        if let Some(place) = self.list.get_mut(self.len).filter(|_| region.len > 0) {
            *place = region;
            self.len += 1;
        }
    }

    fn as_slice(&self) -> &[Region] {
        self.list.get(..self.len).unwrap_or(&[])
    }
}

impl OobLayout {
    /// Layout of a 512-byte page (8 or 16 bytes of OOB) or of a 256-byte page.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn small_page(oob_bytes: u32, ecc_bytes: u32) -> Result<Self, LayoutError> {
        let no_room = Err(LayoutError::NoRoom { ecc_bytes, oob_bytes });
        if oob_bytes < 16 {
            if oob_bytes < 8 || ecc_bytes > 3 {
                return no_room;
            }
            let free = Regions::new(&[Region::new(3, 2), Region::new(6, 2)]);
            return Ok(Self { ecc: Regions::new(&[Region::new(0, ecc_bytes)]), free });
        }
        if ecc_bytes > 6 {
            return no_room;
        }
        let ecc =
            Regions::new(&[Region::new(0, ecc_bytes.min(4)), Region::new(6, ecc_bytes.saturating_sub(4))]);
        Ok(Self { ecc, free: Regions::new(&[Region::new(8, oob_bytes - 8)]) })
    }

    /// Layout with the ECC bytes at the end of the OOB.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn large_page(oob_bytes: u32, ecc_bytes: u32) -> Result<Self, LayoutError> {
        let Some(start) = oob_bytes.checked_sub(ecc_bytes).filter(|start| *start >= MARKER) else {
            return Err(LayoutError::NoRoom { ecc_bytes, oob_bytes });
        };
        Ok(Self {
            ecc: Regions::new(&[Region::new(start, ecc_bytes)]),
            free: Regions::new(&[Region::new(MARKER, start - MARKER)]),
        })
    }

    /// The older layout for one-bit Hamming codes: ECC bytes from offset 40 (OOB of 64 bytes) or 80 (128 bytes). In an
    /// OOB of another size they are at the end.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn large_page_hamming(oob_bytes: u32, ecc_bytes: u32) -> Result<Self, LayoutError> {
        let start = match oob_bytes {
            64 => 40,
            128 => 80,
            _ => return Self::large_page(oob_bytes, ecc_bytes),
        };
        let end = start + ecc_bytes;
        if end > oob_bytes {
            return Err(LayoutError::NoRoom { ecc_bytes, oob_bytes });
        }
        let free = [Region::new(MARKER, start - MARKER), Region::new(end, oob_bytes - end)];
        Ok(Self { ecc: Regions::new(&[Region::new(start, ecc_bytes)]), free: Regions::new(&free) })
    }

    /// The layout of Linux's software engines. Linux recognises small pages by their OOB of 8 or 16 bytes. For Hamming
    /// codes it uses the older layout. A Hamming code is recognised by three ECC bytes per step, because no BCH code
    /// over 512 bytes or more has that size (facts 5).
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn linux(oob_bytes: u32, ecc_bytes: u32, steps: u32) -> Result<Self, LayoutError> {
        if oob_bytes <= 16 {
            Self::small_page(oob_bytes, ecc_bytes)
        } else if ecc_bytes == 3 * steps {
            Self::large_page_hamming(oob_bytes, ecc_bytes)
        } else {
            Self::large_page(oob_bytes, ecc_bytes)
        }
    }

    /// Sections of `section_bytes`, each of which ends with `ecc_bytes` of ECC; the first section starts with the bad
    /// block marker (facts 1.1: Winbond SPI NAND has 12 + 4).
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn sections(oob_bytes: u32, section_bytes: u32, ecc_bytes: u32) -> Result<Self, LayoutError> {
        let count = oob_bytes.checked_div(section_bytes).unwrap_or(0);
        if count == 0 || ecc_bytes + MARKER > section_bytes {
            return Err(LayoutError::NoRoom { ecc_bytes, oob_bytes });
        }
        let user = Stride { start: 0, step: section_bytes, len: section_bytes - ecc_bytes };
        let ecc = Stride { start: user.len, step: section_bytes, len: ecc_bytes };
        Self::strided(oob_bytes, count, user, ecc)
    }

    /// `count` sections with user bytes and ECC bytes at separate strides. Hidden ECC bytes have length 0. The bad block
    /// marker is part of neither region.
    ///
    /// # Errors
    /// `NoRoom` if a section extends beyond the OOB, or there are too many sections.
    pub fn strided(oob_bytes: u32, count: u32, user: Stride, ecc: Stride) -> Result<Self, LayoutError> {
        let end = |s: Stride| {
            u64::from(s.start) + u64::from(s.step) * u64::from(count.max(1) - 1) + u64::from(s.len)
        };
        if count == 0 || count as usize > REGIONS || end(user).max(end(ecc)) > u64::from(oob_bytes) {
            return Err(LayoutError::NoRoom { ecc_bytes: ecc.len.saturating_mul(count), oob_bytes });
        }
        let mut layout = Self { ecc: Regions::new(&[]), free: Regions::new(&[]) };
        for section in 0..count {
            let from = user.start + section * user.step;
            let skip = MARKER.saturating_sub(from).min(user.len);
            layout.free.push(Region::new(from + skip, user.len - skip));
            layout.ecc.push(Region::new(ecc.start + section * ecc.step, ecc.len));
        }
        Ok(layout)
    }

    /// Layout without ECC bytes: all bytes except the bad block marker are free.
    pub fn no_ecc(oob_bytes: u32) -> Self {
        let free = Region::new(MARKER, oob_bytes.saturating_sub(MARKER));
        Self { ecc: Regions::new(&[]), free: Regions::new(&[free]) }
    }

    /// Regions of the ECC bytes, in order.
    pub fn ecc(&self) -> &[Region] {
        self.ecc.as_slice()
    }

    /// Regions of the free (user) bytes, in order.
    pub fn free(&self) -> &[Region] {
        self.free.as_slice()
    }

    /// Number of free (user) bytes.
    pub fn free_bytes(&self) -> u32 {
        self.free().iter().map(|region| region.len).sum()
    }

    /// Number of ECC bytes.
    pub fn ecc_bytes(&self) -> u32 {
        self.ecc().iter().map(|region| region.len).sum()
    }

    /// Copies user `bytes` to the free regions of `oob`; excess bytes are ignored.
    pub fn put_free(&self, oob: &mut [u8], bytes: &[u8]) {
        spread(self.free(), oob, bytes);
    }

    /// Copies the free regions of `oob` to `out`.
    pub fn take_free(&self, oob: &[u8], out: &mut [u8]) {
        collect(self.free(), oob, out);
    }

    /// Copies the ECC bytes of a page to the ECC regions of `oob`; excess bytes are ignored.
    pub fn put_ecc(&self, oob: &mut [u8], bytes: &[u8]) {
        spread(self.ecc(), oob, bytes);
    }

    /// Copies the ECC regions of `oob` to `out`.
    pub fn take_ecc(&self, oob: &[u8], out: &mut [u8]) {
        collect(self.ecc(), oob, out);
    }
}

fn spread(regions: &[Region], oob: &mut [u8], bytes: &[u8]) {
    let mut rest = bytes;
    for region in regions {
        let place = region.of_mut(oob);
        let (now, later) = rest.split_at(place.len().min(rest.len()));
        place[..now.len()].copy_from_slice(now);
        rest = later;
    }
}

fn collect(regions: &[Region], oob: &[u8], out: &mut [u8]) {
    let mut at = 0;
    for region in regions {
        let found = region.bytes_of(oob);
        let len = found.len().min(out.len() - at);
        out[at..at + len].copy_from_slice(&found[..len]);
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(regions: &[Region]) -> [(u32, u32); 2] {
        let get = |i: usize| regions.get(i).map_or((0, 0), |r| (r.offset, r.offset + r.len));
        [get(0), get(1)]
    }

    #[test]
    fn linux_layouts() {
        let small = OobLayout::small_page(16, 6).unwrap();
        assert_eq!((ranges(small.ecc()), ranges(small.free())), ([(0, 4), (6, 8)], [(8, 16), (0, 0)]));
        let tiny = OobLayout::small_page(8, 3).unwrap();
        assert_eq!((ranges(tiny.ecc()), ranges(tiny.free())), ([(0, 3), (0, 0)], [(3, 5), (6, 8)]));
        let bch = OobLayout::large_page(64, 28).unwrap();
        assert_eq!((ranges(bch.ecc()), ranges(bch.free())), ([(36, 64), (0, 0)], [(2, 36), (0, 0)]));
        let old = OobLayout::large_page_hamming(64, 24).unwrap();
        assert_eq!((ranges(old.ecc()), ranges(old.free())), ([(40, 64), (0, 0)], [(2, 40), (0, 0)]));
        let old = OobLayout::large_page_hamming(128, 24).unwrap();
        assert_eq!((ranges(old.ecc()), ranges(old.free())), ([(80, 104), (0, 0)], [(2, 80), (104, 128)]));
        let winbond = OobLayout::sections(64, 16, 4).unwrap();
        assert_eq!((winbond.ecc_bytes(), winbond.free_bytes()), (16, 46));
    }

    #[test]
    fn linux_goes_by_oob_and_code() {
        assert_eq!(OobLayout::linux(16, 6, 2), OobLayout::small_page(16, 6));
        assert_eq!(OobLayout::linux(64, 24, 8), OobLayout::large_page_hamming(64, 24));
        assert_eq!(OobLayout::linux(64, 52, 4), OobLayout::large_page(64, 52));
        assert_eq!(OobLayout::linux(224, 104, 8), OobLayout::large_page(224, 104));
        assert!(OobLayout::linux(64, 104, 8).is_err());
    }

    #[test]
    fn ecc_bytes_come_back_too() {
        let layout = OobLayout::sections(64, 16, 4).unwrap();
        let bytes: [u8; 16] = core::array::from_fn(|i| i as u8);
        let mut oob = [0xFF; 64];
        layout.put_ecc(&mut oob, &bytes);
        assert_eq!(oob[44..48], [8, 9, 10, 11]);
        assert!(oob[48..60].iter().all(|byte| *byte == 0xFF));
        let mut back = [0; 16];
        layout.take_ecc(&oob, &mut back);
        assert_eq!(back, bytes);
    }

    #[test]
    fn too_many_ecc_bytes_find_no_room() {
        assert!(OobLayout::large_page(64, 63).is_err());
        assert!(OobLayout::large_page_hamming(64, 25).is_err());
        assert!(OobLayout::small_page(16, 7).is_err());
        assert!(OobLayout::sections(64, 0, 4).is_err());
    }

    #[test]
    fn free_bytes_come_back_and_touch_nothing_else() {
        let layout = OobLayout::large_page_hamming(128, 24).unwrap();
        let bytes: [u8; 102] = core::array::from_fn(|i| i as u8);
        let mut oob = [0xFF; 128];
        layout.put_free(&mut oob, &bytes);
        assert!(oob[..2].iter().chain(&oob[80..104]).all(|byte| *byte == 0xFF));
        let mut back = [0; 102];
        layout.take_free(&oob, &mut back);
        assert_eq!(back, bytes);
    }
}
