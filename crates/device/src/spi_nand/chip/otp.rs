//! OTP pages: unique id, parameter page, the user's pages and their lock.

use super::super::command as c;
use super::super::spec::SpiNandSpec;
use super::die::Loaded;
use super::{Call, SpiNand};
use crate::array::Array;
use crate::violation::Violation;
use floatgate_mtd::Nanos;

/// Copies of the unique id, each followed by its complement (ONFI 5.10.1.2).
const UNIQUE_ID_COPIES: usize = 16;

/// The OTP pages as the factory leaves them: a seeded unique id; always stored, in timing-only mode as well.
pub(super) fn factory_pages(spec: &SpiNandSpec, seed: u64, die: u32) -> Array {
    let raw = spec.geometry.raw_page_bytes() as usize;
    let pages = spec.otp.map_or(0, |otp| c::FIRST_USER_PAGE + otp.user_pages);
    let mut otp = Array::new(raw, 1, pages as usize, true);
    if pages > 0 {
        otp.program(c::UNIQUE_ID_PAGE as usize, 0, &unique_id_page(seed, die));
    }
    otp
}

fn unique_id_page(seed: u64, die: u32) -> Vec<u8> {
    let mut state = seed ^ u64::from(die) << 56 ^ 0x1D;
    let halves = [next_random(&mut state), next_random(&mut state)];
    let id: Vec<u8> = halves.into_iter().flat_map(u64::to_be_bytes).collect();
    let pair: Vec<u8> = id.iter().copied().chain(id.iter().map(|b| !b)).collect();
    pair.repeat(UNIQUE_ID_COPIES)
}

/// SplitMix64: enough for serial numbers and places of bad blocks.
pub(super) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

impl SpiNand {
    fn otp_pages(&self) -> Result<u32, Violation> {
        let otp = self.spec.otp.ok_or(Violation::Sequence("the chip has no OTP pages"))?;
        Ok(c::FIRST_USER_PAGE + otp.user_pages)
    }

    pub(super) fn otp_page_read(&mut self, call: Call<'_>, page: u32, length: Nanos) -> Result<(), Violation> {
        if page >= self.otp_pages()? {
            return Err(Violation::BadAddress);
        }
        let die = self.die();
        die.load_otp(page);
        die.stream = None;
        die.work(call.end, length, "tRD");
        Ok(())
    }

    /// With the lock bit set too, PROGRAM EXECUTE locks the user's pages for good.
    pub(super) fn otp_program(&mut self, call: Call<'_>) -> Result<(), Violation> {
        let (page, pages, nop) = (call.op.addr, self.otp_pages()?, self.spec.nop);
        let length = self.spec.timing.t_prog_us.typ;
        let die = self.die();
        if die.config & c::OTP_LOCK != 0 {
            die.otp_locked = true;
        } else {
            if !(c::FIRST_USER_PAGE..pages).contains(&page) {
                return Err(Violation::Protected);
            }
            if die.otp_locked {
                return Err(Violation::Protected);
            }
            if die.loaded(0) != Loaded::Host {
                return Err(Violation::Sequence("program execute of a cache that holds nothing"));
            }
            if die.otp.programs(page as usize) >= nop {
                return Err(Violation::NotErased);
            }
            die.program_otp(page);
        }
        (die.program_failed, die.write_enabled) = (false, false);
        die.work(call.end, length, "tPROG");
        Ok(())
    }
}
