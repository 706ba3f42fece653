//! Options of the driver.

use crate::host::HostProfile;
use crate::units;
use floatgate_mtd::Nanos;
use serde::Deserialize;

/// Driver options: the `[driver]` table of a setup. The defaults match the behaviour of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Eraseblock size of the MTD. 0: the smallest that the chip has (Linux: CONFIG_MTD_SPI_NOR_USE_4K_SECTORS).
    #[serde(with = "units::bytes")]
    pub erase_bytes: u64,
    /// Length of the transfers by which the fastest read command is chosen.
    #[serde(with = "units::bytes")]
    pub transfer_bytes: u64,
    /// Pause between a program or erase command and the first status read.
    #[serde(with = "units::us")]
    pub poll_initial_us: Nanos,
    /// Pause between status reads. Linux's SPI NOR layer makes none.
    #[serde(with = "units::us")]
    pub poll_interval_us: Nanos,
    /// Look at the fail bits of Macronix's security register after each program and erase. Linux 6.12 does not, and it
    /// costs one more operation. Micron's flag status register is always looked at.
    pub check_security_register: bool,
    /// Program pages on all data lanes that the chip takes. Linux uses more than one only with commands of four address bytes; firmware
    /// always does.
    pub wide_programs: bool,
    /// Use 8D-8D-8D on a chip that swaps bytes there, although the controller does not swap them back. Data that were written in another
    /// mode then read swapped. Linux does without the mode since 6.13, older Linux and firmware do not.
    pub ignore_swap16: bool,
    /// Suspend an erase under way when a read asks for the chip, where the chip can.
    pub suspend_for_read: bool,
    /// Address of the PHY calibration pattern. 0: in the last eraseblock.
    #[serde(with = "units::bytes")]
    pub pattern_addr: u64,
    /// Write the calibration pattern when that place is blank.
    pub write_pattern: bool,
}

impl Options {
    /// The options with the actual duration of pauses on this host.
    pub(super) fn on(mut self, host: &HostProfile) -> Self {
        self.poll_initial_us = host.pause(self.poll_initial_us);
        self.poll_interval_us = host.pause(self.poll_interval_us);
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            erase_bytes: 0,
            transfer_bytes: 512,
            poll_initial_us: Nanos::ZERO,
            poll_interval_us: Nanos::ZERO,
            check_security_register: false,
            wide_programs: false,
            ignore_swap16: false,
            suspend_for_read: false,
            pattern_addr: 0,
            write_pattern: true,
        }
    }
}
