//! Layout of the CFI query bytes on buses of different widths (JESD68.01).

use crate::error::{MediaError, Reason};
use crate::wire::Wire;

/// Mapping of the device's query addresses to byte addresses of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BusView {
    /// An x8 device: one byte for each device address.
    #[default]
    X8,
    /// An x16 device or mode: a little-endian word for each device address, upper byte zero.
    X16,
    /// An x8/x16 device in byte mode: each byte appears twice, because the device ignores the
    /// lowest address line.
    X16AsX8,
}

impl BusView {
    /// Number of bus bytes for each device address.
    const fn stride(self) -> usize {
        match self {
            Self::X8 => 1,
            Self::X16 | Self::X16AsX8 => 2,
        }
    }

    /// Byte offset of a device address in the bus view.
    #[must_use]
    pub const fn offset(self, address: usize) -> usize {
        address.saturating_mul(self.stride())
    }
}

/// Query bytes to read, by device address.
pub(super) struct View<'a> {
    bytes: &'a [u8],
    pub(super) view: BusView,
}

impl<'a> View<'a> {
    pub(super) const fn new(bytes: &'a [u8], view: BusView) -> Self {
        Self { bytes, view }
    }

    fn byte(&self, address: usize) -> Option<u8> {
        self.bytes.get(self.view.offset(address)).copied()
    }

    /// `N` query bytes from device address `address` on.
    pub(super) fn chunk<const N: usize>(&self, address: usize) -> Result<[u8; N], MediaError> {
        let mut out = [0; N];
        for (index, place) in out.iter_mut().enumerate() {
            *place = self.byte(address + index).ok_or_else(|| self.short(address, N))?;
        }
        Ok(out)
    }

    fn short(&self, address: usize, need: usize) -> MediaError {
        let offset = self.view.offset(address);
        let have = self.bytes.len().saturating_sub(offset);
        Reason::Truncated { need: self.view.offset(need), have }.at(offset)
    }
}

/// Query bytes to write, by device address.
pub(super) struct ViewMut<'a> {
    out: &'a mut [u8],
    view: BusView,
    end: usize,
}

impl<'a> ViewMut<'a> {
    pub(super) const fn new(out: &'a mut [u8], view: BusView) -> Self {
        Self { out, view, end: 0 }
    }

    /// Byte offset after the last byte written.
    pub(super) const fn end(&self) -> usize {
        self.end
    }

    /// First device address after the last one written.
    pub(super) const fn next(&self) -> usize {
        self.end / self.view.stride()
    }

    /// Stores a value at a device address. Values have at most 32 bytes.
    pub(super) fn put<T: Wire>(&mut self, value: &T, address: usize) -> Result<(), MediaError> {
        const { assert!(T::WIDTH <= 32) };
        let mut bytes = [0; 32];
        value.put(&mut bytes, 0);
        let start = self.view.offset(address);
        let end = self.view.offset(address.saturating_add(T::WIDTH));
        let have = self.out.len();
        let place = self.out.get_mut(start..end);
        let place = place.ok_or_else(|| Reason::NoRoom { need: end, have }.at(0))?;
        for (shown, byte) in place.chunks_exact_mut(self.view.stride()).zip(bytes) {
            show(shown, byte, self.view);
        }
        self.end = self.end.max(end);
        Ok(())
    }
}

/// Fills the bus bytes of one device address.
fn show(shown: &mut [u8], byte: u8, view: BusView) {
    let upper = if view == BusView::X16 { 0 } else { byte };
    shown.fill(upper);
    if let Some(lowest) = shown.first_mut() {
        *lowest = byte;
    }
}
