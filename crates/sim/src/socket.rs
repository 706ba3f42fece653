//! A chip in a socket: what is done to it beside its pins. Its contents as bytes are a plain image of a NOR, and a dump with OOB of a NAND.

use floatgate_device::array::Array;
use floatgate_device::oracle::Oracle;
use floatgate_device::spi_nor::SpiNor;
pub use floatgate_device::violation::ViolationLog;

/// A chip in a socket.
pub trait Socket {
    /// Contents of a SPI NOR with the registers and the OTP area behind its array; of a NAND all pages, each with its OOB.
    /// Inverted bits are as they were programmed: an ECC engine in the chip keeps no bytes that would show them again.
    fn contents(&self) -> Vec<u8>;

    /// Gives a new chip its contents: bytes of [`Self::contents`], or the array of a NOR alone.
    ///
    /// # Errors
    /// The bytes are not of a chip of this size.
    fn set_contents(&mut self, bytes: &[u8]) -> Result<(), WrongContents>;

    /// Size of the chip in data bytes.
    fn size(&self) -> u64;

    /// Programs and erases of the block at an address fail from now on.
    fn break_block(&mut self, addr: u64);

    /// Inverts a bit of the data at an address until its block is erased.
    fn flip(&mut self, addr: u64, bit: u8);

    /// A bit of the array always reads as `value` from now on. False for a NAND, which has no such faults.
    fn stick(&mut self, addr: u64, bit: u8, value: bool) -> bool;

    /// Power fails in the middle of this program or erase, counted from 1.
    fn cut_power(&mut self, operation: u64);
}

/// Reason for which bytes are not the contents of a chip.
#[derive(Debug, thiserror::Error)]
pub enum WrongContents {
    /// A SPI NOR has another size.
    #[error("{found} bytes, and this chip has {image} bytes, or {whole} with its registers and OTP area")]
    Nor {
        /// Bytes that were given.
        found: usize,
        /// Bytes of the array.
        image: usize,
        /// Bytes with registers and OTP area.
        whole: usize,
    },
    /// A NAND has another size.
    #[error("{found} bytes, and this chip has {whole} bytes with OOB")]
    Nand {
        /// Bytes that were given.
        found: usize,
        /// Bytes of all pages with OOB.
        whole: usize,
    },
}

/// End of the contents of a NOR with registers and OTP area.
const MARK: &[u8; 16] = b"floatgate-nor 1\n";

/// The arrays of a chip's dies or targets.
pub(crate) fn arrays(chip: &dyn Oracle) -> impl Iterator<Item = &Array> {
    (0..).map_while(|part| chip.array(part))
}

/// Contents of a SPI NOR with its registers and OTP area, as [`Socket::contents`].
pub fn of_nor(chip: &SpiNor) -> Vec<u8> {
    let mut bytes = of_arrays(chip);
    bytes.extend(chip.kept_registers());
    bytes.extend(MARK);
    bytes
}

/// Contents of all arrays of a chip, OOB after the data of each page.
pub fn of_arrays(chip: &dyn Oracle) -> Vec<u8> {
    let mut bytes = vec![0xFF; arrays(chip).map(array_bytes).sum()];
    let mut rest = &mut bytes[..];
    for array in arrays(chip) {
        let (these, later) = rest.split_at_mut(array_bytes(array));
        rest = later;
        for (row, page) in these.chunks_mut(array.page_bytes()).enumerate() {
            if let Some(stored) = array.stored(row) {
                page.copy_from_slice(&stored);
            }
        }
    }
    bytes
}

/// Bytes of the longest contents that a chip takes: those of its arrays, and what may follow them.
pub fn contents_bytes_max(chip: &dyn Oracle) -> usize {
    arrays(chip).map(array_bytes).sum::<usize>() + KEPT_BYTES_MAX
}

/// Bytes of registers, OTP area and mark, at most.
const KEPT_BYTES_MAX: usize = 64 << 10;

fn array_bytes(array: &Array) -> usize {
    array.rows() * array.page_bytes()
}

/// Gives a SPI NOR its contents, as [`Socket::set_contents`].
///
/// # Errors
/// The bytes are not of a chip of this size.
pub fn set_nor(chip: &mut SpiNor, bytes: &[u8]) -> Result<(), WrongContents> {
    let (image, kept) = (chip.array(0).map_or(0, array_bytes), chip.kept_registers().len());
    let wrong = || WrongContents::Nor { found: bytes.len(), image, whole: image + kept + MARK.len() };
    let (array, registers) = bytes.split_at_checked(image).ok_or_else(wrong)?;
    if !registers.is_empty() {
        let registers = registers.strip_suffix(MARK).ok_or_else(wrong)?;
        chip.set_kept_registers(registers).map_err(|_| wrong())?;
    }
    set_arrays(chip, array)
}

/// Gives the arrays of a chip their contents.
///
/// # Errors
/// The bytes are not of a chip of this size.
pub fn set_arrays(chip: &mut dyn Oracle, bytes: &[u8]) -> Result<(), WrongContents> {
    let whole = arrays(chip).map(array_bytes).sum();
    if bytes.len() != whole {
        return Err(WrongContents::Nand { found: bytes.len(), whole });
    }
    let (mut part, mut rest) = (0, bytes);
    while let Some(array) = chip.array_mut(part) {
        let (these, later) = rest.split_at(array_bytes(array));
        (part, rest) = (part + 1, later);
        let pages = these.chunks(array.page_bytes()).enumerate();
        let written = pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0xFF));
        written.for_each(|(row, page)| array.program(row, 0, page));
    }
    Ok(())
}
