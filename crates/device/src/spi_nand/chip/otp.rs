//! OTP pages: unique id, parameter page, user pages and their lock.

use super::super::command as c;
use super::super::spec::{SpiNandOtp, SpiNandSpec};
use super::die::Loaded;
use super::work::ArrayTask;
use super::{Call, SpiNand};
use crate::array::Array;
use crate::nand::onfi_endurance;
use crate::violation::Violation;
use floatgate_media::onfi::{self, OnfiPage};
use floatgate_media::{AddressCycles, Text};
use floatgate_mtd::Nanos;
use floatgate_mtd::random::Random;

/// Number of copies of the unique id, each followed by its complement (ONFI 5.10.1.2).
const UNIQUE_ID_COPIES: usize = 16;

/// Number of copies of the parameter page (ONFI 5.7: at least three).
const PARAMETER_PAGE_COPIES: u8 = 3;

/// Factory contents of the OTP pages, with a seeded unique id. They are also stored in timing-only mode.
pub(super) fn factory_pages(spec: &SpiNandSpec, seed: u64, die: u32) -> Array {
    let raw = spec.geometry.raw_page_bytes() as usize;
    let pages = spec.otp.as_ref().map_or(0, |otp| c::FIRST_USER_PAGE + otp.user_pages);
    let mut otp = Array::new(raw, 1, pages as usize, true).with_sub_pages(spec.sub_pages());
    if pages > 0 {
        otp.program(c::UNIQUE_ID_PAGE as usize, 0, &unique_id_page(seed, die));
        let copy = onfi::emit(&parameter_page(spec));
        otp.program(c::PARAMETER_PAGE as usize, 0, &copy.repeat(usize::from(PARAMETER_PAGE_COPIES)));
    }
    otp
}

/// Parameter page of a SPI NAND, which is an ONFI page with revision, features and timing modes zero.
fn parameter_page(spec: &SpiNandSpec) -> OnfiPage {
    let g = &spec.geometry;
    let name = |text: fn(&SpiNandOtp) -> &str| spec.otp.as_ref().map_or("", text);
    let clip = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    let us = |time: Nanos| clip((time.as_ns() / 1000).min(u64::from(u16::MAX)) as u32);
    OnfiPage {
        copies: PARAMETER_PAGE_COPIES,
        manufacturer: Text::new(name(|o| &o.manufacturer)).unwrap_or_default(),
        model: Text::new(name(|o| &o.model)).unwrap_or_default(),
        jedec_id: spec.id.first().copied().unwrap_or(0),
        page_bytes: g.page_bytes,
        spare_bytes: clip(g.oob_bytes),
        pages_per_block: g.pages_per_block,
        blocks_per_lun: g.blocks_per_lun,
        luns: g.luns as u8,
        address_cycles: AddressCycles::new(2, 3).unwrap_or_default(),
        bits_per_cell: g.bits_per_cell as u8,
        max_bad_blocks_per_lun: clip(g.max_bad_blocks_per_lun),
        endurance: onfi_endurance(spec.endurance_cycles.into()),
        guaranteed_blocks: 1,
        programs_per_page: spec.nop,
        // With on-die ECC the host need not correct any bits.
        ecc_bits: if spec.ecc.on_die { 0 } else { spec.ecc.strength as u8 },
        plane_bits: g.planes.trailing_zeros() as u8,
        t_prog_us: us(spec.timing.t_prog_us.max),
        t_bers_us: us(spec.timing.t_bers_us.max),
        t_r_us: us(spec.timing.t_rd_ecc_us),
        ..OnfiPage::default()
    }
}

fn unique_id_page(seed: u64, die: u32) -> Vec<u8> {
    let mut random = Random::new(seed ^ u64::from(die) << 56 ^ 0x1D);
    let halves = [random.bits(), random.bits()];
    let id: Vec<u8> = halves.into_iter().flat_map(u64::to_be_bytes).collect();
    let pair: Vec<u8> = id.iter().copied().chain(id.iter().map(|b| !b)).collect();
    pair.repeat(UNIQUE_ID_COPIES)
}

impl SpiNand {
    fn otp_pages(&self) -> Result<u32, Violation> {
        let otp = self.spec.otp.as_ref().ok_or(Violation::Sequence("the chip has no OTP pages"))?;
        Ok(c::FIRST_USER_PAGE + otp.user_pages)
    }

    pub(super) fn otp_page_read(
        &mut self,
        call: Call<'_>,
        page: u32,
        length: Nanos,
    ) -> Result<(), Violation> {
        if page >= self.otp_pages()? {
            return Err(Violation::BadAddress);
        }
        let die = self.die();
        die.load_otp(page);
        die.stream = None;
        die.begin(ArrayTask::OtpRead, page, call.end, length);
        Ok(())
    }

    /// Programs an OTP page. If the lock bit is also set, PROGRAM EXECUTE locks the user pages permanently.
    pub(super) fn otp_program(&mut self, call: Call<'_>, page: u32) -> Result<(), Violation> {
        let pages = self.otp_pages()?;
        let length = self.spec.timing.t_prog_us.typ;
        let die = self.die();
        if die.config & c::OTP_LOCK != 0 {
            die.otp_locked = true;
        } else {
            if die.otp_locked || !(c::FIRST_USER_PAGE..pages).contains(&page) {
                die.program_failed = true;
                return Err(Violation::Protected);
            }
            if die.loaded(0) != Loaded::Host {
                return Err(Violation::Sequence("program execute of a cache that holds nothing"));
            }
            die.otp.check_program(page as usize, die.to_program(0))?;
            die.program_otp(page);
        }
        (die.program_failed, die.write_enabled) = (false, false);
        die.begin(ArrayTask::OtpProgram, page, call.end, length);
        Ok(())
    }
}
