//! READ ID bytes of raw NAND chips without a parameter page.
//!
//! There is no standard for these bytes beyond the first two: the rules are
//! those of vendors' data sheets, as Linux's raw NAND code applies them.

mod extended;
mod table;

pub use table::manufacturer_name;

use crate::error::{MediaError, Reason};
use crate::list::List;
use extended::Shape;

/// Maximum number of bytes that READ ID returns.
pub const MAX_ID_BYTES: usize = 8;

/// Geometry of a chip as its id bytes encode it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NandIdGeometry {
    /// Data bytes in a page.
    pub page_bytes: u32,
    /// Spare (out-of-band) bytes in a page.
    pub oob_bytes: u32,
    /// Data bytes in an eraseblock.
    pub block_bytes: u32,
    /// Data bytes in the chip.
    pub chip_bytes: u64,
    /// Data bus width, bits.
    pub bus_width: u8,
    /// Bits a cell holds.
    pub bits_per_cell: u8,
}

/// Id bytes of a chip, without the repetition or the zeros that follow them when read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NandId {
    bytes: [u8; MAX_ID_BYTES],
    len: usize,
    jedec: bool,
}

impl NandId {
    /// Id in the output of READ ID at address 00h; bytes after the eighth are ignored.
    ///
    /// Chips repeat their id or continue with zeros. The length of the id is the shortest period, or without a
    /// repetition, the length without trailing zeros.
    ///
    /// # Errors
    ///
    /// Fewer than two bytes, or only zero bytes.
    pub fn new(read: &[u8]) -> Result<Self, MediaError> {
        let read = read.get(..MAX_ID_BYTES).unwrap_or(read);
        if read.len() < 2 {
            return Err(Reason::Truncated { need: 2, have: read.len() }.at(0));
        }
        let len = id_length(read);
        if len == 0 {
            return Err(Reason::UnknownCode { what: "NAND manufacturer", code: 0 }.at(0));
        }
        let mut bytes = [0; MAX_ID_BYTES];
        for (place, byte) in bytes.iter_mut().zip(read) {
            *place = *byte;
        }
        Ok(Self { bytes, len, jedec: false })
    }

    /// The id of a chip that also answers READ ID at address 40h with "JEDEC".
    ///
    /// Hynix chips with that signature encode their spare size differently.
    #[must_use]
    pub const fn with_jedec_signature(self) -> Self {
        Self { jedec: true, ..self }
    }

    /// The id bytes without repetition or trailing zeros.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Manufacturer code.
    #[must_use]
    pub const fn manufacturer(&self) -> u8 {
        let [manufacturer, ..] = self.bytes;
        manufacturer
    }

    /// Device code.
    #[must_use]
    pub const fn device(&self) -> u8 {
        let [_, device, ..] = self.bytes;
        device
    }

    /// Manufacturer's name, if known.
    #[must_use]
    pub fn manufacturer_name(&self) -> Option<&'static str> {
        manufacturer_name(self.manufacturer())
    }

    /// The geometry that the id encodes.
    ///
    /// Chips that deviate from the rules are looked up by their whole id, all others by their device code. For pages of
    /// more than 512 bytes, the third to sixth byte are decoded by the rules of the vendor.
    ///
    /// # Errors
    ///
    /// An unknown device code, an id too short for its rules, or a code its vendor left undefined.
    pub fn geometry(&self) -> Result<NandIdGeometry, MediaError> {
        if let Some(geometry) = table::full_id(&self.bytes) {
            return Ok(geometry);
        }
        if let Some(geometry) = table::small_page(self.device()) {
            return Ok(geometry);
        }
        let device = table::large_page(self.device()).ok_or_else(|| {
            let code = u32::from(self.device());
            Reason::UnknownCode { what: "NAND device", code }.at(1)
        })?;
        let shape = extended::decode(self)?;
        Ok(finish(shape, device))
    }
}

/// Reads a geometry from id bytes; see [`NandId::geometry`].
///
/// # Errors
///
/// Those of [`NandId::new`] and [`NandId::geometry`].
pub fn parse(read: &[u8]) -> Result<NandIdGeometry, MediaError> {
    NandId::new(read)?.geometry()
}

/// Combines the sizes of page and block with the size and bus width of the device code.
fn finish(shape: Shape, device: table::Device) -> NandIdGeometry {
    NandIdGeometry {
        page_bytes: shape.page_bytes,
        oob_bytes: shape.oob_bytes,
        block_bytes: shape.block_bytes,
        chip_bytes: device.chip_bytes(),
        bus_width: if shape.wide || device.wide { 16 } else { 8 },
        bits_per_cell: shape.bits_per_cell,
    }
}

/// Length of the id in the output of READ ID, bytes.
fn id_length(read: &[u8]) -> usize {
    let Some(last) = read.iter().rposition(|byte| *byte != 0) else {
        return 0;
    };
    let period = (1..read.len()).find(|period| {
        let (front, back) = (read.iter(), read.iter().skip(*period));
        front.zip(back).all(|(a, b)| a == b)
    });
    period.unwrap_or(last + 1)
}

/// Writes the id bytes of a chip with this geometry under the common rules.
///
/// The result has five bytes: `manufacturer`, the device code, and the third to fifth byte as in most large-page chips.
/// This is the inverse of [`parse`] for chips without a vendor's exception.
///
/// # Errors
///
/// [`Reason::OutOfRange`] with the first size for which the common rules have no code.
pub fn emit(manufacturer: u8, geometry: &NandIdGeometry) -> Result<List<u8, MAX_ID_BYTES>, MediaError> {
    let device = table::device_code(geometry)
        .ok_or_else(|| Reason::OutOfRange { field: "chip_bytes", value: geometry.chip_bytes }.at(1))?;
    let [third, fourth] = extended::encode(geometry)?;
    let id = [manufacturer, device, third, fourth, FIFTH];
    let made = List::from_slice(&id).ok_or_else(|| Reason::NoRoom { need: 5, have: 0 }.at(0))?;
    match parse(&id) {
        Ok(read) if read == *geometry => Ok(made),
        _ => Err(Reason::Inconsistent { what: "the vendor's rules read this id otherwise" }.at(0)),
    }
}

/// Fifth id byte, which no rule here decodes: one plane of 64 MiB, one bit of correction.
const FIFTH: u8 = 0x40;
