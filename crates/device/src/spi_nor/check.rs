//! Checks of rules that the types of a specification do not enforce.

use super::sfdp::{AREA_BYTES_MAX, area};
use super::spec::{OctalSwitch, OtpSpec, QuadEnable, RegisterSet, SecurityFamily, SfdpPiece, SpiNorSpec};
use crate::spec::BadSpec;
use floatgate_mtd::size::text as size_text;
use std::fmt;

/// Maximum size of the program buffer, bytes.
const PAGE_BYTES_MAX: u32 = 4096;
/// Maximum size of the OTP area, bytes; real parts have 64 to 1024 bytes.
const OTP_BYTES_MAX: u32 = 1 << 16;

impl OtpSpec {
    fn largest_bytes(self) -> u32 {
        match self {
            Self::SecurityRegisters { region_bytes, unique_id_bytes, .. } => {
                region_bytes.max(unique_id_bytes)
            }
            Self::Secured { user_bytes, factory_bytes } => user_bytes.max(factory_bytes),
            Self::ControlByte { bytes } => bytes,
        }
    }
}

/// The error for a specification that is impossible as a whole.
pub(super) fn impossible(why: impl fmt::Display) -> BadSpec {
    BadSpec::new("", format!("impossible SPI NOR: {why}"))
}

impl SpiNorSpec {
    /// Checks rules that the type does not enforce.
    ///
    /// # Errors
    /// The first impossible value, with the reason.
    pub fn check(&self) -> Result<(), BadSpec> {
        let bad = |why: &str| Err(impossible(why));
        let size = self.geometry.size_bytes;
        if !(3..=20).contains(&self.id.len()) {
            return bad("an id has 3 to 20 bytes");
        }
        if !size.is_power_of_two() || size > 1 << 32 {
            return bad("size_bytes must be a power of two up to 4 GiB");
        }
        if !self.geometry.page_bytes.is_power_of_two() || self.geometry.page_bytes > PAGE_BYTES_MAX {
            return bad("page_bytes must be a power of two up to 4096");
        }
        if !self.geometry.banks.is_power_of_two() {
            return bad("banks must be a power of two");
        }
        if self.reads.is_empty() || self.programs.is_empty() || self.erase.is_empty() {
            return bad("reads, programs and erase must not be empty");
        }
        let reaches = |piece: &SfdpPiece| piece.at as usize + piece.hex.0.len() > AREA_BYTES_MAX;
        if self.sfdp_bytes.iter().any(reaches) {
            return bad("sfdp_bytes must end within 64 KiB");
        }
        if let Some(stated) = self.sfdp_size().filter(|stated| *stated != size) {
            return Err(impossible(format!(
                "the SFDP in sfdp_bytes states {}, and geometry.size_bytes is {}: remove sfdp_bytes if they are of another chip",
                size_text(stated),
                size_text(size)
            )));
        }
        self.check_erase_types()?;
        let all = [&self.reads, &self.reads_4b, &self.programs, &self.programs_4b];
        if all.into_iter().flatten().any(|v| v.max_hz == 0 && self.max_hz(v.mode) == 0) {
            return bad("max_dtr_hz is missing");
        }
        if all.into_iter().flatten().any(|v| v.mode.is_stateful()) && self.octal.is_none() {
            return bad("a command in 8D-8D-8D needs [chip.octal]");
        }
        self.check_registers()
    }

    /// Size that the stated SFDP bytes contain, bytes; `None` without such bytes, or if they are not valid tables.
    fn sfdp_size(&self) -> Option<u64> {
        let area = (!self.sfdp_bytes.is_empty()).then(|| area(self))?.ok()?;
        floatgate_media::sfdp::parse(&area).ok()?.bfpt.body.capacity_bytes()
    }

    fn check_registers(&self) -> Result<(), BadSpec> {
        let bad = |why: &str| Err(impossible(why));
        let home = match self.octal.map(|o| o.switch) {
            None => None,
            Some(OctalSwitch::MacronixCr2) => Some(RegisterSet::Macronix),
            Some(OctalSwitch::MicronVcr) => Some(RegisterSet::Micron),
            Some(OctalSwitch::InfineonCfr) => Some(RegisterSet::Spansion),
            Some(OctalSwitch::Sequence(_)) => {
                return bad("a chip needs a register that switches its octal mode");
            }
        };
        if home.is_some_and(|home| home != self.registers) {
            return bad("octal.switch names a register that registers does not have");
        }
        if self.octal.is_some_and(|o| o.status_addr_bytes > 4) {
            return bad("octal.status_addr_bytes must be at most 4");
        }
        let quad2 = matches!(self.quad_enable, QuadEnable::Sr2Bit1 | QuadEnable::Sr2Bit1By01);
        let has_second = matches!(self.registers, RegisterSet::Winbond | RegisterSet::Spansion);
        if quad2 && !has_second {
            return bad("quad_enable names a bit of status register 2, which registers does not have");
        }
        let bits = self.protection.iter().flat_map(|p| p.bp_bits.iter().copied().chain(p.tb_bit));
        if bits.into_iter().any(|bit| !(2..=7).contains(&bit)) {
            return bad("protection bits are bits 2 to 7 of the status register");
        }
        if let Some(bit) = self.protection.as_ref().and_then(|p| p.cmp_bit)
            && (!has_second || bit > 6)
        {
            return bad(
                "protection.cmp_bit is one of bits 0 to 6 of status register 2, which registers must have",
            );
        }
        match self.otp {
            Some(OtpSpec::SecurityRegisters { regions, family, .. })
                if usize::from(regions) > family.locks() =>
            {
                bad("there are lock bits for three security registers, on ISSI's chips for four")
            }
            Some(OtpSpec::SecurityRegisters { family: SecurityFamily::Winbond, .. })
                if self.registers != RegisterSet::Winbond =>
            {
                bad("security registers are locked by status register 2, which registers does not have")
            }
            Some(otp) if otp.largest_bytes() > OTP_BYTES_MAX => bad("an OTP area has at most 64 KiB"),
            _ => Ok(()),
        }
    }

    fn check_erase_types(&self) -> Result<(), BadSpec> {
        let largest = self.bank_bytes();
        for (name, erase) in &self.erase {
            let fits = erase.bytes.is_power_of_two() && u64::from(erase.bytes) <= largest;
            if !fits || erase.bytes < self.geometry.page_bytes {
                return Err(impossible(format!(
                    "erase.{name}.bytes must be a power of two between a page and a bank"
                )));
            }
            if erase.tail.is_some_and(|t| !(0.0..=1.0).contains(&t.p)) {
                return Err(impossible(format!("erase.{name}.tail.p must lie between 0 and 1")));
            }
        }
        Ok(())
    }
}
