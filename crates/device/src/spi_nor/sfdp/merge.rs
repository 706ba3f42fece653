//! Combination of catalogue and SFDP data of a chip.

use crate::spi::Variant;
use crate::spi_nor::spec::{EraseType, SpiNorSpec};
use std::collections::BTreeMap;

/// The catalogue's entry corrected by the chip's SFDP. Sizes and erase commands are those of SFDP, and read
/// commands that the catalogue lacks are added. Clock limits, times, OTP and other values are those of the
/// catalogue.
#[must_use]
pub fn merge(mut known: SpiNorSpec, told: &SpiNorSpec) -> SpiNorSpec {
    known.geometry.size_bytes = told.geometry.size_bytes;
    known.geometry.page_bytes = told.geometry.page_bytes;
    known.erase = erase(&known.erase, &told.erase);
    add(&mut known.reads, &told.reads);
    // The switch to a stateful mode is taken from the catalogue for a known chip.
    let stateless: Vec<Variant> = told.reads_4b.iter().filter(|v| !v.mode.is_stateful()).copied().collect();
    add(&mut known.reads_4b, &stateless);
    known.suspend = known.suspend.or(told.suspend);
    if let (Some(octal), Some(told)) = (&mut known.octal, told.octal) {
        octal.swap16 |= told.swap16;
    }
    known
}

/// Adds commands whose opcode is new in their mode.
fn add(known: &mut Vec<Variant>, told: &[Variant]) {
    for new in told {
        if !known.iter().any(|v| v.mode == new.mode && v.opcode == new.opcode) {
            known.push(*new);
        }
    }
}

/// Erase types of SFDP, with the catalogue's times if available, because SFDP times are rounded.
fn erase(
    known: &BTreeMap<String, EraseType>,
    told: &BTreeMap<String, EraseType>,
) -> BTreeMap<String, EraseType> {
    let better = |new: &EraseType| {
        let same = known.iter().find(|(_, old)| old.bytes == new.bytes && old.opcode == new.opcode);
        same.map(|(name, old)| {
            (name.clone(), EraseType { opcode_4b: new.opcode_4b.or(old.opcode_4b), ..*old })
        })
    };
    told.iter().map(|(name, new)| better(new).unwrap_or_else(|| (name.clone(), *new))).collect()
}
