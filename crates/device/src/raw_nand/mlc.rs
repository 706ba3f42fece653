//! Properties of chips with two bits per cell: the `[chip.mlc]` table of a part file, and program times of each
//! page.

use crate::spec::BadSpec;
use crate::units::TypMaxUs;
use floatgate_mtd::{Nanos, Pairing, PairingScheme};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, de};

/// Pairing scheme of the pages, and differences between the pages of a pair. A chip without this table programs all
/// pages in tPROG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MlcSpec {
    /// Pairing scheme of the pages.
    #[serde(deserialize_with = "scheme")]
    pub pairing: PairingScheme,
    /// Program time tPROG of the first page of a pair (LSB), us.
    pub t_prog_lsb_us: TypMaxUs,
    /// Program time tPROG of the second page of a pair (MSB), us.
    pub t_prog_msb_us: TypMaxUs,
    /// Factor by which the endurance of a block increases if only its LSB pages are programmed; 0 if unknown.
    #[serde(default)]
    pub slc_endurance_factor: u32,
}

fn scheme<'de, D: Deserializer<'de>>(d: D) -> Result<PairingScheme, D::Error> {
    let name = <String as de::Deserialize>::deserialize(d)?;
    name.parse().map_err(D::Error::custom)
}

impl MlcSpec {
    /// Checks rules that the types do not enforce, together with other values of the chip; `both` is its tPROG.
    pub(super) fn check(
        &self,
        bits_per_cell: u8,
        pages_per_block: u32,
        both: TypMaxUs,
    ) -> Result<(), BadSpec> {
        let (lsb, msb) = (self.t_prog_lsb_us, self.t_prog_msb_us);
        // In every scheme half of the pages of a block are LSB pages.
        let mean = (lsb.typ.as_ns() + msb.typ.as_ns()) / 2;
        let rules = [
            (bits_per_cell == 2, "mlc", "only where a cell holds two bits"),
            (
                self.pairing != PairingScheme::None,
                "mlc.pairing",
                "leave the table out when the scheme is not known",
            ),
            (
                Pairing::new(self.pairing, pages_per_block).is_ok(),
                "mlc.pairing",
                "does not fit the pages of a block",
            ),
            (lsb.typ <= msb.typ, "mlc.t_prog_lsb_us", "LSB pages are the faster ones"),
            (lsb.max <= both.max, "mlc.t_prog_lsb_us", "longer than the longest timing.t_prog_us"),
            (msb.max <= both.max, "mlc.t_prog_msb_us", "longer than the longest timing.t_prog_us"),
            (
                mean.abs_diff(both.typ.as_ns()) * 10 <= both.typ.as_ns(),
                "mlc",
                "the mean of LSB and MSB tPROG is more than 10 % off timing.t_prog_us",
            ),
        ];
        match rules.into_iter().find(|rule| !rule.0) {
            Some((_, field, problem)) => Err(BadSpec::new(field, problem)),
            None => Ok(()),
        }
    }
}

/// Typical program times of the pages in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramTimes {
    pairing: Pairing,
    lsb: Nanos,
    msb: Nanos,
    /// Program time of pages outside of blocks (OTP), and of all pages on chips without pairing.
    plain: Nanos,
}

impl ProgramTimes {
    pub(super) fn new(pairing: Pairing, mlc: Option<&MlcSpec>, plain: Nanos) -> Self {
        let (lsb, msb) = mlc.map_or((plain, plain), |mlc| (mlc.t_prog_lsb_us.typ, mlc.t_prog_msb_us.typ));
        Self { pairing, lsb, msb, plain }
    }

    /// Program time (tPROG) of a row; without a row, of OTP pages.
    #[inline]
    pub(super) const fn row_time(&self, row: Option<u32>, pages_per_block: u32) -> Nanos {
        match row {
            Some(row) if !self.pairing.is_none() => {
                if self.pairing.is_lsb(row % pages_per_block) {
                    self.lsb
                } else {
                    self.msb
                }
            }
            _ => self.plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_nand::RawNandSpec;
    use crate::raw_nand::testing::{mlc, mx30lf2g18ac};

    #[test]
    fn impossible_tables_are_refused_by_name() {
        type Break = fn(&mut MlcSpec);
        let us = Nanos::from_us;
        assert_eq!(mlc(PairingScheme::Dist6).check(), Ok(()));
        let breaks: [(&str, Break); 5] = [
            ("mlc.pairing", |mlc| mlc.pairing = PairingScheme::None),
            ("mlc.t_prog_lsb_us", |mlc| std::mem::swap(&mut mlc.t_prog_lsb_us, &mut mlc.t_prog_msb_us)),
            ("mlc.t_prog_lsb_us", |mlc| mlc.t_prog_lsb_us.max = Nanos::from_us(2001)),
            ("mlc.t_prog_msb_us", |mlc| mlc.t_prog_msb_us.max = Nanos::from_us(2001)),
            ("mlc", |mlc| mlc.t_prog_msb_us.typ = Nanos::from_us(902)),
        ];
        for (field, change) in breaks {
            let mut spec = mlc(PairingScheme::Dist6);
            spec.mlc.as_mut().map(change);
            assert_eq!(spec.check().unwrap_err().key, field);
        }
        let mut edge = mlc(PairingScheme::Dist6);
        edge.mlc.as_mut().unwrap().t_prog_msb_us.typ = us(900);
        assert_eq!(edge.check(), Ok(()), "10 % off is still the same figure");
    }

    #[test]
    fn the_scheme_must_fit_the_block_and_the_cells() {
        let mut odd = mlc(PairingScheme::Dist6);
        odd.geometry.pages_per_block = 10;
        assert_eq!(odd.check().unwrap_err().key, "mlc.pairing");
        let slc = RawNandSpec { mlc: mlc(PairingScheme::Dist3).mlc, ..mx30lf2g18ac() };
        assert_eq!(slc.check().unwrap_err(), BadSpec::new("mlc", "only where a cell holds two bits"));
    }

    #[test]
    fn schemes_are_read_by_name() {
        let text = "t_prog_lsb_us = { typ = 300, max = 900 }\nt_prog_msb_us = { typ = 1500, max = 3000 }\n";
        let table = toml::from_str::<MlcSpec>(&format!("pairing = \"dist3\"\n{text}")).unwrap();
        assert_eq!((table.pairing, table.slc_endurance_factor), (PairingScheme::Dist3, 0));
        let wrong = toml::from_str::<MlcSpec>(&format!("pairing = \"dist4\"\n{text}")).unwrap_err();
        assert!(wrong.to_string().contains("`dist3`"), "{wrong}");
    }
}
