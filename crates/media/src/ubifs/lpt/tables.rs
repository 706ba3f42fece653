//! The two tables of the LPT: `docs/spec/ubifs.md#ltab`, `docs/spec/ubifs.md#lsave`.

use super::pack::{BitReader, BitWriter, open, seal};
use super::{Geometry, Kind};
use crate::error::{MediaError, Reason, require};

/// Space accounting of a LEB in the LPT area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct LebSpace {
    /// Number of bytes not written since the LEB was erased.
    pub free: u32,
    /// Number of bytes of obsolete nodes and padding.
    pub dirty: u32,
}

/// The table of the LPT's own LEBs. It borrows the encoded bytes.
#[derive(Debug, Clone)]
pub struct Ltab<'a> {
    reader: BitReader<'a>,
    geometry: &'a Geometry,
}

impl<'a> Ltab<'a> {
    /// Reads the table at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// The end of `bytes`, a bad CRC, another type of node, more space than a LEB has.
    pub fn parse(bytes: &'a [u8], geometry: &'a Geometry) -> Result<Self, MediaError> {
        let table = Self { reader: open(bytes, Kind::Ltab, geometry)?, geometry };
        let most = geometry.from.leb_bytes;
        for LebSpace { free, dirty } in table.lebs() {
            require(free <= most, 0, "free space", free)?;
            require(dirty <= most - free, 0, "dirty space", dirty)?;
        }
        Ok(table)
    }

    /// Space accounting of the LEBs of the LPT area, in order.
    pub fn lebs(&self) -> impl Iterator<Item = LebSpace> + use<'a> {
        let mut reader = self.reader.clone();
        let bits = self.geometry.lpt_space_bits;
        let count = self.geometry.from.lebs;
        (0..count).map(move |_| LebSpace { free: reader.read_bits(bits), dirty: reader.read_bits(bits) })
    }

    /// Writes a table to the start of `out` and returns its length.
    ///
    /// # Errors
    ///
    /// No room, a number of entries other than the number of LEBs in the area, or a size that
    /// exceeds the width of its field.
    pub fn emit(
        lebs: impl IntoIterator<Item = LebSpace>,
        geometry: &Geometry,
        out: &mut [u8],
    ) -> Result<usize, MediaError> {
        seal(out, Kind::Ltab, geometry, |writer| {
            let put = |writer: &mut BitWriter<'_>, leb: LebSpace| {
                writer.put("free space", leb.free, geometry.lpt_space_bits)?;
                writer.put("dirty space", leb.dirty, geometry.lpt_space_bits)
            };
            put_exactly(writer, lebs, geometry.from.lebs, put)
        })
    }
}

/// The save table: LEBs whose properties Linux reads first after a mount.
#[derive(Debug, Clone)]
pub struct Lsave<'a> {
    reader: BitReader<'a>,
    geometry: &'a Geometry,
}

impl<'a> Lsave<'a> {
    /// Reads the table at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// The end of `bytes`, a bad CRC, another type of node, a LEB outside the main area.
    pub fn parse(bytes: &'a [u8], geometry: &'a Geometry) -> Result<Self, MediaError> {
        let table = Self { reader: open(bytes, Kind::Lsave, geometry)?, geometry };
        match table.lnums().find(|lnum| !geometry.from.main.contains(lnum)) {
            Some(lnum) => Err(Reason::OutOfRange { field: "saved LEB", value: u64::from(lnum) }.at(0)),
            None => Ok(table),
        }
    }

    /// LEB numbers in the table, counted from the start of the volume.
    pub fn lnums(&self) -> impl Iterator<Item = u32> + use<'a> {
        let mut reader = self.reader.clone();
        let bits = self.geometry.lnum_bits;
        (0..self.geometry.from.lsave_count).map(move |_| reader.read_bits(bits))
    }

    /// Writes a table to the start of `out` and returns its length.
    ///
    /// # Errors
    ///
    /// No room, a number of entries other than the size of the table, or a LEB number that exceeds
    /// the width of its field.
    pub fn emit(
        lnums: impl IntoIterator<Item = u32>,
        geometry: &Geometry,
        out: &mut [u8],
    ) -> Result<usize, MediaError> {
        seal(out, Kind::Lsave, geometry, |writer| {
            let put = |writer: &mut BitWriter<'_>, lnum| writer.put("saved LEB", lnum, geometry.lnum_bits);
            put_exactly(writer, lnums, geometry.from.lsave_count, put)
        })
    }
}

/// Writes the values of an iterator and checks that it yields `count` values.
fn put_exactly<T>(
    writer: &mut BitWriter<'_>,
    values: impl IntoIterator<Item = T>,
    count: u32,
    put: impl Fn(&mut BitWriter<'_>, T) -> Result<(), MediaError>,
) -> Result<(), MediaError> {
    let mut written = 0u32;
    for value in values {
        require(written < count, 0, "entries", u64::from(written) + 1)?;
        put(writer, value)?;
        written += 1;
    }
    require(written == count, 0, "entries", written)
}
