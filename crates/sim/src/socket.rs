//! A chip in a socket: operations that do not use its pins. The contents are a plain image for a NOR, and a dump with OOB
//! for a NAND.

use floatgate_device::array::Array;
use floatgate_device::oracle::Oracle;
use floatgate_device::spi_nor::SpiNor;
pub use floatgate_device::violation::ViolationLog;

/// Access to a chip in a socket.
pub trait Socket {
    /// Contents of the chip. For a SPI NOR they are the array, followed by the registers and the OTP area; for a NAND,
    /// all pages, each with its OOB. Inverted bits are returned as programmed, because an on-die ECC engine could not
    /// correct them again.
    fn contents(&self) -> Vec<u8>;

    /// Sets the contents of a new chip: bytes of [`Self::contents`], or only the array of a NOR.
    ///
    /// # Errors
    /// The bytes do not fit a chip of this size.
    fn set_contents(&mut self, bytes: &[u8]) -> Result<(), WrongContents>;

    /// Size of the chip without OOB, bytes.
    fn size(&self) -> u64;

    /// Makes all programs and erases of the block at an address fail.
    fn break_block(&mut self, addr: u64);

    /// Inverts a bit of the data at an address. The bit stays inverted until its block is erased.
    fn flip(&mut self, addr: u64, bit: u8);

    /// Makes a bit of the array read as `value` permanently. Returns false for chips other than SPI NOR, which do not
    /// have such faults.
    fn stick(&mut self, addr: u64, bit: u8, value: bool) -> bool;

    /// Holds the pin WP# low, so that a SPI NOR's status register can be locked. Returns false for other chips.
    fn set_wp_low(&mut self) -> bool;

    /// Cuts power in the middle of a program or erase; `operation` is its number, counted from 1.
    fn cut_power(&mut self, operation: u64);
}

/// Reason why bytes are not the contents of a chip.
#[derive(Debug, thiserror::Error)]
pub enum WrongContents {
    /// Size mismatch with a SPI NOR.
    #[error("{found} bytes, and this chip has {image} bytes, or {whole} with its registers and OTP area")]
    Nor {
        /// Number of bytes given.
        found: usize,
        /// Size of the array, B.
        image: usize,
        /// Size of the array with registers and OTP area, B.
        whole: usize,
    },
    /// Size mismatch with a NAND, or with a parallel NOR, which has no OOB.
    #[error("{found} bytes, and this chip has {whole} bytes with all OOB")]
    Whole {
        /// Number of bytes given.
        found: usize,
        /// Size of all pages with OOB, B.
        whole: usize,
    },
}

/// Marker at the end of a NOR's contents that include registers and OTP area.
const MARK: &[u8; 16] = b"floatgate-nor 1\n";

/// Memory arrays of a chip's dies or targets.
pub(crate) fn arrays(chip: &dyn Oracle) -> impl Iterator<Item = &Array> {
    (0..).map_while(|part| chip.array(part))
}

/// Contents of a SPI NOR with its registers and OTP area, for [`Socket::contents`].
pub fn of_nor(chip: &SpiNor) -> Vec<u8> {
    let mut bytes = of_arrays(chip);
    bytes.extend(chip.nonvolatile());
    bytes.extend(MARK);
    bytes
}

/// Contents of all arrays of a chip; each page is followed by its OOB.
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

/// Maximum length of a chip's contents, bytes: its arrays, and possible registers and OTP area.
pub fn contents_bytes_max(chip: &dyn Oracle) -> usize {
    arrays(chip).map(array_bytes).sum::<usize>() + KEPT_BYTES_MAX
}

/// Maximum size of registers, OTP area and marker, bytes.
const KEPT_BYTES_MAX: usize = 64 << 10;

fn array_bytes(array: &Array) -> usize {
    array.rows() * array.page_bytes()
}

/// Sets the contents of a SPI NOR, for [`Socket::set_contents`].
///
/// # Errors
/// The length of the bytes does not match the size of the chip.
pub fn set_nor(chip: &mut SpiNor, bytes: &[u8]) -> Result<(), WrongContents> {
    let (image, kept) = (chip.array(0).map_or(0, array_bytes), chip.nonvolatile().len());
    let wrong = || WrongContents::Nor { found: bytes.len(), image, whole: image + kept + MARK.len() };
    let (array, registers) = bytes.split_at_checked(image).ok_or_else(wrong)?;
    if !registers.is_empty() {
        let registers = registers.strip_suffix(MARK).ok_or_else(wrong)?;
        chip.set_nonvolatile(registers).map_err(|_| wrong())?;
    }
    set_arrays(chip, array)
}

/// Sets the contents of the arrays of a chip.
///
/// # Errors
/// The length of the bytes does not match the size of the chip.
pub fn set_arrays(chip: &mut dyn Oracle, bytes: &[u8]) -> Result<(), WrongContents> {
    let whole = arrays(chip).map(array_bytes).sum();
    if bytes.len() != whole {
        return Err(WrongContents::Whole { found: bytes.len(), whole });
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
