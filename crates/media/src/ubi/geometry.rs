//! Offsets of headers and data in a PEB: `docs/spec/ubi.md#places-in-a-peb`.

use super::fastmap;
use super::header::HEADER_BYTES;
use super::volume_table::{RECORD_BYTES, slots};
use crate::error::Reason;

const HEADER: u32 = HEADER_BYTES as u32;

/// Sizes of the flash that UBI uses, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flash {
    /// Size of a physical eraseblock.
    pub peb_bytes: u32,
    /// Minimum write size of data: a page; 1 on NOR. A power of two.
    pub min_io_bytes: u32,
    /// Minimum write size of headers: a sub-page, or the same as `min_io_bytes`. A power of two.
    pub sub_page_bytes: u32,
}

/// Offsets of headers and data in every PEB of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    flash: Flash,
    vid_header_offset: u32,
    data_offset: u32,
}

impl Flash {
    /// Sizes of a flash without sub-pages.
    #[must_use]
    pub const fn without_sub_pages(peb_bytes: u32, min_io_bytes: u32) -> Self {
        Self { peb_bytes, min_io_bytes, sub_page_bytes: min_io_bytes }
    }

    /// Default offset of the VID header: the first sub-page after the EC header.
    #[must_use]
    pub const fn default_vid_header_offset(&self) -> u32 {
        align(HEADER, self.sub_page_bytes)
    }

    fn check(&self) -> Result<(), Reason> {
        let units = [("minimal I/O unit", self.min_io_bytes), ("sub-page", self.sub_page_bytes)];
        if let Some((field, value)) = units.into_iter().find(|(_, unit)| !unit.is_power_of_two()) {
            return Err(Reason::OutOfRange { field, value: u64::from(value) });
        }
        if self.sub_page_bytes > self.min_io_bytes {
            return Err(Reason::Inconsistent { what: "a sub-page is larger than a page" });
        }
        if self.peb_bytes >> 31 != 0 || !self.peb_bytes.is_multiple_of(self.min_io_bytes) {
            return Err(Reason::OutOfRange { field: "PEB size", value: u64::from(self.peb_bytes) });
        }
        Ok(())
    }
}

/// `value` rounded up to a multiple of `unit`, a power of two.
const fn align(value: u32, unit: u32) -> u32 {
    match value.checked_next_multiple_of(unit) {
        Some(aligned) => aligned,
        None => u32::MAX,
    }
}

impl Geometry {
    /// The offsets that `ubinize` and Linux choose by default.
    ///
    /// # Errors
    ///
    /// A unit that is not a power of two, or a PEB too small for headers and data.
    pub fn new(flash: Flash) -> Result<Self, Reason> {
        flash.check()?;
        Self::with_vid_header_offset(flash, flash.default_vid_header_offset())
    }

    /// The offsets for a VID header at the given byte.
    ///
    /// The header need not begin at a sub-page boundary, but it must be 4-byte aligned and must not cross into
    /// the next sub-page.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new), and an offset inside the EC header or across a sub-page boundary.
    pub fn with_vid_header_offset(flash: Flash, vid_header_offset: u32) -> Result<Self, Reason> {
        flash.check()?;
        let bad = Reason::OutOfRange { field: "VID header offset", value: u64::from(vid_header_offset) };
        let end = vid_header_offset.checked_add(HEADER).ok_or(bad)?;
        let data_offset = align(end, flash.min_io_bytes);
        let geometry = Self { flash, vid_header_offset, data_offset };
        let shift = vid_header_offset - geometry.vid_unit_offset();
        let inside = shift + HEADER <= align(HEADER, flash.sub_page_bytes) && shift.is_multiple_of(4);
        let room = data_offset <= flash.peb_bytes.saturating_sub(HEADER);
        if vid_header_offset < HEADER || !inside || !room {
            return Err(bad);
        }
        Ok(geometry)
    }

    /// Sizes of the underlying flash.
    #[must_use]
    pub const fn flash(&self) -> Flash {
        self.flash
    }

    /// Offset of the VID header in a PEB, bytes.
    #[must_use]
    pub const fn vid_header_offset(&self) -> u32 {
        self.vid_header_offset
    }

    /// Offset in a PEB of the sub-page that contains the VID header, bytes; writes of the header begin there.
    #[must_use]
    pub const fn vid_unit_offset(&self) -> u32 {
        self.vid_header_offset & !(self.flash.sub_page_bytes - 1)
    }

    /// Offset of the data in a PEB, bytes.
    #[must_use]
    pub const fn data_offset(&self) -> u32 {
        self.data_offset
    }

    /// LEB size, B: the PEB without headers.
    #[must_use]
    pub const fn leb_bytes(&self) -> u32 {
        self.flash.peb_bytes - self.data_offset
    }

    /// True when both headers share a write unit. The unit cannot be written twice, so Linux attaches
    /// read-only.
    #[must_use]
    pub const fn headers_share_unit(&self) -> bool {
        self.vid_header_offset + HEADER <= self.flash.sub_page_bytes
    }

    /// Number of records in the volume table.
    #[must_use]
    pub const fn volume_slots(&self) -> u32 {
        slots(self.leb_bytes())
    }

    /// Size of the volume table at the start of its LEB, bytes.
    #[must_use]
    pub const fn volume_table_bytes(&self) -> usize {
        self.volume_slots() as usize * RECORD_BYTES
    }

    /// Size of the fastmap of a device with this many PEBs, bytes; a multiple of the LEB size.
    #[must_use]
    pub const fn fastmap_bytes(&self, pebs: u32) -> u64 {
        fastmap::content_bytes(pebs).next_multiple_of(self.leb_bytes() as u64)
    }

    /// Number of bytes at the end of a LEB that a volume of this alignment does not use; `None` for an
    /// alignment of 0.
    #[must_use]
    pub const fn data_pad(&self, alignment: u32) -> Option<u32> {
        self.leb_bytes().checked_rem(alignment)
    }
}
