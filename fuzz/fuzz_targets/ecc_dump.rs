//! Any bytes as a dump, in any geometry, under any code and layout: an error or a report, never a panic.
#![no_main]

use floatgate_image::ecc::{
    Apart, BadBlocks, DecodeOptions, Dump, EccError, Layout, PageGeometry, Scheme, decode, detect, sample,
};
use libfuzzer_sys::fuzz_target;

/// The first bytes say how to read the others.
fn run(head: [u8; 10], bytes: &[u8]) -> Result<(), EccError> {
    let [p0, p1, oob, block, strength, step, layout, flags, threshold, split] = head;
    let geometry = PageGeometry::new(
        u32::from(u16::from_le_bytes([p0, p1])),
        4 * u32::from(oob),
        (block > 0).then_some(u32::from(block)),
    )?;
    let code = match strength {
        0 => format!("hamming/{}", 256 << (step % 2)),
        t => format!("bch{t}/{}", 16 << (step % 8)),
    };
    let layout = &Layout::all()[usize::from(layout) % Layout::all().len()];
    let scheme = Scheme::new(geometry.clone(), code.parse()?, layout)?;
    let (mut pages, mut oob) = bytes.split_at(bytes.len() * usize::from(split) / 255);
    if flags & 1 == 0 {
        pages = bytes;
    }
    if flags & 16 != 0 {
        let mut again = pages;
        let sampled = sample(&geometry, Dump { pages: &mut again, apart: None }, &mut |_| ())?;
        assert!(detect(&geometry, None, &sampled).candidates.iter().all(|c| c.evidence_bits.is_finite()));
    }
    let apart = (flags & 1 != 0).then_some(Apart { bytes: &mut oob, only_ecc: flags & 2 != 0 });
    let options = DecodeOptions {
        bad_blocks: if flags & 4 == 0 { BadBlocks::Keep } else { BadBlocks::Skip },
        erased_threshold: (flags & 8 != 0).then_some(u32::from(threshold)),
    };
    let mut out = Vec::new();
    let dump = Dump { pages: &mut pages, apart };
    let report = decode(&scheme, dump, Some(&mut out), options, &mut |_| ())?;
    assert_eq!(report.written_bytes, out.len() as u64);
    let steps = report.steps;
    assert_eq!(steps.total, steps.clean + steps.corrected + steps.uncorrectable);
    assert!(out.len() <= bytes.len());
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    if let Some((head, bytes)) = data.split_first_chunk()
        && let Err(error) = run(*head, bytes)
    {
        assert!(!error.to_string().is_empty());
    }
});
