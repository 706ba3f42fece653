//! Time codes of the Basic Flash Parameter Table, converted to times.

use super::bfpt::BfptTiming;
use super::time_code::counted;

/// Delay code as ns (JESD216F, BFPT DWORDs 12 and 14).
fn delay_ns(code: u8) -> u32 {
    counted(code, 5, [128, 1000, 8000, 64_000])
}

impl BfptTiming {
    /// Ratio of maximum to typical erase time.
    #[must_use]
    pub fn erase_factor(&self) -> u32 {
        2 * (u32::from(self.erase_max_factor) + 1)
    }

    /// Ratio of maximum to typical program time.
    #[must_use]
    pub fn program_factor(&self) -> u32 {
        2 * (u32::from(self.program_max_factor) + 1)
    }

    /// Typical page program time, us (DWORD 11 bits 13:8).
    #[must_use]
    pub fn page_program_us(&self) -> u32 {
        counted(self.page_program_time, 5, [8, 64])
    }

    /// Typical time to program the first byte, us (DWORD 11 bits 18:14).
    #[must_use]
    pub fn first_byte_us(&self) -> u32 {
        counted(self.first_byte_time, 4, [1, 8])
    }

    /// Typical time to program each further byte, us (DWORD 11 bits 23:19).
    #[must_use]
    pub fn next_byte_us(&self) -> u32 {
        counted(self.next_byte_time, 4, [1, 8])
    }

    /// Typical chip erase time, ms (DWORD 11 bits 30:24).
    #[must_use]
    pub fn chip_erase_ms(&self) -> u32 {
        counted(self.chip_erase_time, 5, [16, 256, 4000, 64_000])
    }

    /// Longest time to suspend a program, ns (DWORD 12 bits 19:13).
    #[must_use]
    pub fn program_suspend_ns(&self) -> u32 {
        delay_ns(self.program_suspend_latency)
    }

    /// Longest time to suspend an erase, ns (DWORD 12 bits 30:24).
    #[must_use]
    pub fn erase_suspend_ns(&self) -> u32 {
        delay_ns(self.erase_suspend_latency)
    }

    /// Minimum time between program resume and the next suspend, us (DWORD 12 bits 12:9).
    #[must_use]
    pub fn program_resume_us(&self) -> u32 {
        counted(self.program_resume_interval, 4, [64])
    }

    /// Minimum time between erase resume and the next suspend, us (DWORD 12 bits 23:20).
    #[must_use]
    pub fn erase_resume_us(&self) -> u32 {
        counted(self.erase_resume_interval, 4, [64])
    }

    /// Time from leaving deep power-down to the next operation, ns (DWORD 14 bits 14:8).
    #[must_use]
    pub fn power_up_ns(&self) -> u32 {
        delay_ns(self.power_up_delay)
    }
}
