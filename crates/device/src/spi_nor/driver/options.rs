//! Options of the driver.

use crate::host::HostProfile;
use crate::units;
use floatgate_mtd::Nanos;
use serde::Deserialize;

/// Driver options: the `[driver]` table of a setup. The defaults match the behaviour of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Eraseblock size of the MTD device in bytes; 0 for the smallest erase size of the chip (Linux:
    /// CONFIG_MTD_SPI_NOR_USE_4K_SECTORS).
    #[serde(with = "units::bytes")]
    pub erase_bytes: u64,
    /// Length of the transfers for which the fastest read command is chosen, in bytes.
    #[serde(with = "units::bytes")]
    pub transfer_bytes: u64,
    /// Pause between a program or erase command and the first status read, in us.
    #[serde(with = "units::us")]
    pub poll_initial_us: Nanos,
    /// Pause between status reads, in us. Linux's SPI NOR layer has no pause.
    #[serde(with = "units::us")]
    pub poll_interval_us: Nanos,
    /// True to check the fail bits of Macronix's security register after each program and erase, with one more
    /// operation (Linux 6.12 does not). Micron's flag status register is always checked.
    pub check_security_register: bool,
    /// True to program pages on all data lanes that the chip supports. Linux uses several lanes only with commands of
    /// four address bytes; firmware always uses them.
    pub wide_programs: bool,
    /// True to use 8D-8D-8D on a chip that swaps bytes in this mode, although the controller does not swap them back.
    /// Data written in another mode is then read with swapped bytes. Linux avoids the mode since 6.13; older Linux
    /// and firmware use it.
    pub ignore_swap16: bool,
    /// True to suspend an erase when a read needs the chip, if the chip supports it.
    pub suspend_for_read: bool,
    /// Address of the PHY calibration pattern; 0 for the last eraseblock.
    #[serde(with = "units::bytes")]
    pub pattern_addr: u64,
    /// True to write the calibration pattern if its place is blank.
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
