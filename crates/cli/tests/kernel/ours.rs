//! Pages with software ECC as floatgate makes and reads them.

use crate::chips::Chip;
use crate::flips::Verdict;
use floatgate_ecc::{Codec, OobLayout};

fn codec(chip: &Chip) -> Codec {
    Codec::new(chip.code().parse().unwrap()).unwrap()
}

/// The layout that Linux takes for such a chip unless it is told otherwise.
fn layout(chip: &Chip) -> OobLayout {
    let steps = (chip.page / chip.step()) as u32;
    let ecc_bytes = steps * codec(chip).code().ecc_bytes();
    OobLayout::linux(chip.oob as u32, ecc_bytes, steps).unwrap()
}

/// Adds an OOB to each page of `plain`.
pub(crate) fn encode(chip: &Chip, plain: &[u8]) -> Vec<u8> {
    let (codec, layout) = (codec(chip), layout(chip));
    let mut ecc = vec![0; layout.ecc_bytes() as usize];
    let pages = plain.chunks_exact(chip.page).flat_map(|page| {
        let mut oob = vec![0xFF; chip.oob];
        codec.encode_page(page, &mut ecc);
        layout.put_ecc(&mut oob, &ecc);
        [page, &oob].concat()
    });
    pages.collect()
}

/// The data of pages with OOB after correction, and what happened to each.
pub(crate) fn decode(chip: &Chip, raw: &[u8]) -> (Vec<u8>, Vec<Verdict>) {
    let (codec, layout) = (codec(chip), layout(chip));
    let mut ecc = vec![0; layout.ecc_bytes() as usize];
    let (mut data, mut verdicts) = (Vec::new(), Vec::new());
    for page in raw.chunks_exact(chip.page + chip.oob) {
        let (page, oob) = page.split_at(chip.page);
        let (mut page, mut verdict) = (page.to_vec(), Verdict::default());
        layout.take_ecc(oob, &mut ecc);
        codec.decode_page(&mut page, &mut ecc, |_, result| match result {
            Ok(bits) => verdict.corrected += bits as usize,
            Err(_) => verdict.failed += 1,
        });
        data.extend(page);
        verdicts.push(verdict);
    }
    (data, verdicts)
}
