//! One-time-programmable pages.

use crate::array::{Array, Loaded, SubPages};
use crate::raw_nand::spec::{NandOtp, RawNandSpec};
use crate::violation::Violation;

/// The OTP pages of a target.
#[derive(Clone, Debug)]
pub(super) struct Otp {
    spec: Option<NandOtp>,
    array: Array,
    /// First parameter of the OTP feature.
    mode: u8,
    locked: bool,
}

impl Otp {
    pub(super) fn new(spec: &RawNandSpec, stores: bool) -> Self {
        let pages = spec.otp.map_or(1, |otp| otp.pages.max(1)) as usize;
        let array = Array::new(spec.geometry.full_page() as usize, pages, 1, stores)
            .with_sub_pages(SubPages::new(spec.geometry.page_bytes, Self::NOP));
        Self { spec: spec.otp, array, mode: 0, locked: false }
    }

    /// Switches to the OTP pages, to their lock, or back. Other bits of the same feature have other meanings: Linux sets 08h in
    /// it (Micron's on-die ECC) to check if the id changes.
    pub(super) fn set_mode(&mut self, first: u8) {
        let known = |otp: NandOtp| otp.value == first || otp.lock.is_some_and(|lock| lock.value == first);
        self.mode = if self.spec.is_some_and(known) { first } else { 0 };
    }

    /// True while row addresses refer to OTP pages (or the lock).
    #[inline]
    pub(super) const fn visible(&self) -> bool {
        self.mode != 0
    }

    fn locking(&self, row: u32) -> bool {
        let lock = self.spec.and_then(|otp| otp.lock);
        lock.is_some_and(|lock| lock.value == self.mode && lock.row == row)
    }

    /// Index of the OTP page at `row`; for the lock, the index after the last page.
    pub(super) fn page(&self, row: u32) -> Result<u32, Violation> {
        let Some(otp) = self.spec else { return Err(Violation::BadAddress) };
        if self.locking(row) {
            return Ok(otp.pages);
        }
        match row.checked_sub(otp.first_page) {
            Some(page) if page < otp.pages && self.mode == otp.value => Ok(page),
            _ => Err(Violation::BadAddress),
        }
    }

    /// Checks the rules for a program of `row`.
    pub(super) fn check_program(&self, row: u32) -> Result<(), Violation> {
        self.page(row)?;
        if self.locked { Err(Violation::Protected) } else { Ok(()) }
    }

    /// Checks that the loaded bytes may be programmed into a page.
    pub(super) fn check_load(&self, page: u32, loaded: Loaded<'_>) -> Result<(), Violation> {
        if (page as usize) < self.array.rows() {
            self.array.check_program(page as usize, loaded)
        } else {
            Ok(())
        }
    }

    /// Number of partial programs per OTP page: four, as for SLC pages of chips with this area.
    const NOP: u8 = 4;

    pub(super) fn read(&self, page: u32, column: usize, buf: &mut [u8]) {
        if (page as usize) < self.array.rows() {
            self.array.read(page as usize, column, buf);
        } else {
            buf.fill(0xFF);
        }
    }

    /// Programs a page, or locks the area. Returns true if the program fails.
    pub(super) fn program(&mut self, page: u32, loaded: Loaded<'_>) -> bool {
        if (page as usize) < self.array.rows() {
            self.array.program(page as usize, loaded.column, loaded.bytes);
            self.array.mark_programmed(page as usize, loaded.sub_pages);
        } else {
            self.locked = true;
        }
        false
    }
}
