//! Reasons why the driver cannot use a flash.

use crate::spi::{Mode, PhyTooFast, SpiError};
use crate::spi_nor::sfdp::NotEnough;
use floatgate_mtd::Error;

/// Reason why the driver cannot use the flash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// READ ID returned all ones or all zeros.
    #[error("no chip answers READ ID")]
    NoChip,
    /// The id is not in the catalogue and the chip has no SFDP.
    #[error("unknown chip with id {id:02x?}, and it has no SFDP tables to learn from")]
    Unknown {
        /// Bytes that READ ID returned.
        id: Vec<u8>,
    },
    /// The id is not in the catalogue, and the chip's SFDP tables are not sufficient.
    #[error("unknown chip: {0}")]
    Sfdp(#[from] NotEnough),
    /// The required lanes or rate cannot be reached.
    #[error("no read command reaches {limit} on this chip and controller; on offer: {}", list(offered))]
    ModeNotOffered {
        /// Mode or limit required by the setup.
        limit: Mode,
        /// Modes that chip and controller both support.
        offered: Vec<Mode>,
    },
    /// A stateful mode is required, but after a crash the chip could not leave it without a reset pin.
    #[error("{mode} is a stateful mode and needs the chip's reset pin wired (bus.reset_pin)")]
    NoResetPin {
        /// Mode or limit required by the setup.
        mode: Mode,
    },
    /// The chip swaps bytes in this mode, and the controller does not swap them back.
    #[error(
        "the chip swaps the bytes of each word in {mode}, and the controller cannot swap them back (controller.swap16, driver.ignore_swap16)"
    )]
    SwappedWords {
        /// Mode or limit required by the setup.
        mode: Mode,
    },
    /// The clock of the PHY exceeds the limit of the chip in the mode of its reads.
    #[error(transparent)]
    PhyTooFast(PhyTooFast),
    /// Chip, controller and board have no common command of this kind.
    #[error("chip, controller and board have no {0} command in common")]
    NoCommand(&'static str),
    /// The chip has no erase type of the wanted size.
    #[error("the chip cannot erase blocks of {wanted} B; it offers {offered:?}")]
    NoEraseType {
        /// Wanted erase size, bytes.
        wanted: u64,
        /// Sizes of the chip's erase types, bytes.
        offered: Vec<u32>,
    },
    /// The chip has more than 16 MiB, and no way to send four address bytes.
    #[error("{size} bytes are out of reach of three address bytes, and the chip has no other way")]
    OutOfReach {
        /// Size of the chip, bytes.
        size: u64,
    },
    /// After a mode switch, READ ID returned another id.
    #[error("the chip does not answer in {0}")]
    SwitchFailed(Mode),
    /// A register does not contain the value that was written.
    #[error("the quad enable bit stays clear")]
    QuadEnableFailed,
    /// The flash range for the calibration pattern contains other data.
    #[error("no place for the PHY calibration pattern: {addr:#x} holds other data (driver.pattern_addr)")]
    PatternPlace {
        /// Address of the calibration pattern.
        addr: u64,
    },
    /// An operation on the bus failed.
    #[error(transparent)]
    Spi(#[from] SpiError),
    /// An operation of the driver failed.
    #[error(transparent)]
    Mtd(#[from] Error),
}

fn list(modes: &[Mode]) -> String {
    modes.iter().map(Mode::to_string).collect::<Vec<_>>().join(", ")
}
