//! Any text as the file of a layout, for pages of several sizes: an error, or a layout under which a page comes back.
#![no_main]

use floatgate_image::ecc::{
    DecodeOptions, Dump, EccError, Form, Layout, PageGeometry, Scheme, decode, encode,
};
use libfuzzer_sys::fuzz_target;

const PAGES: [(u32, u32); 3] = [(512, 16), (2048, 64), (4096, 224)];

fn run(layout: &Layout, (page_bytes, oob_bytes): (u32, u32)) -> Result<(), EccError> {
    let geometry = PageGeometry::new(page_bytes, oob_bytes, None)?;
    let code = layout.usual_code().map_or_else(|| "bch4/512".parse(), Ok)?;
    let scheme = Scheme::new(geometry, code, layout)?;
    let data: Vec<u8> = (0..page_bytes).map(|at| (at * at / 7) as u8).collect();
    let (mut dump, mut back) = (Vec::new(), Vec::new());
    encode(&scheme, Form::WithOob, &mut &data[..], &mut dump, &mut |_| ())?;
    let dump = Dump { pages: &mut &dump[..], apart: None };
    let report = decode(&scheme, dump, Some(&mut back), DecodeOptions::default(), &mut |_| ())?;
    assert!(back == data && report.steps.uncorrectable == 0 && report.corrected_bits == 0);
    Ok(())
}

fuzz_target!(|text: &str| {
    match Layout::parse("fuzz", text) {
        Ok(layout) => PAGES.into_iter().for_each(|page| {
            let _ = run(&layout, page);
        }),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
