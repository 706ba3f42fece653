//! Images with OOB: there and back, with every kind of damage.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panic")]

use floatgate_image::ecc::{
    Apart, BadBlocks, DecodeOptions, DecodeReport, Dump, EccError, Form, Layout, PageGeometry, Scheme,
    decode, encode,
};
use floatgate_mtd::random::Random;
use proptest::prelude::*;

const PAGE: usize = 2048;
const OOB: usize = 64;
const FULL: usize = PAGE + OOB;
const PAGES_PER_BLOCK: usize = 4;

/// Bytes that look random.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

fn scheme(code: &str) -> Scheme {
    let geometry = PageGeometry::new(PAGE as u32, OOB as u32, Some(PAGES_PER_BLOCK as u32)).unwrap();
    Scheme::linux(geometry, code.parse().unwrap()).unwrap()
}

fn encoded(scheme: &Scheme, form: Form, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(scheme, form, &mut &data[..], &mut out, &mut |_| ()).unwrap();
    out
}

fn decoded_with(scheme: &Scheme, dump: &[u8], options: DecodeOptions) -> (DecodeReport, Vec<u8>) {
    let (mut dump, mut out) = (dump, Vec::new());
    let dump = Dump { pages: &mut dump, apart: None };
    let report = decode(scheme, dump, Some(&mut out), options, &mut |_| ()).unwrap();
    assert_eq!(report.written_bytes, out.len() as u64);
    (report, out)
}

fn decoded(scheme: &Scheme, dump: &[u8]) -> (DecodeReport, Vec<u8>) {
    decoded_with(scheme, dump, DecodeOptions::default())
}

fn flip(dump: &mut [u8], page: usize, bit: usize) {
    dump[page * FULL + bit / 8] ^= 1 << (bit % 8);
}

const CODES: [&str; 6] = ["hamming/256", "hamming/512", "bch1/512", "bch4/512", "bch8/512", "bch16/1024"];

#[test]
fn every_code_brings_the_data_back_clean() {
    let data = noise(1, 9 * PAGE);
    for code in CODES {
        let scheme = scheme(code);
        let (report, back) = decoded(&scheme, &encoded(&scheme, Form::WithOob, &data));
        assert!(back == data && report.is_good(), "{code}");
        assert_eq!((report.pages, report.steps.clean), (9, 9 * u64::from(scheme.steps())), "{code}");
        assert_eq!((report.erased.pages, report.corrected_bits, report.max_corrected_bits), (0, 0, 0));
        assert_eq!(report.bad_blocks.unwrap().blocks, 3);
    }
}

/// ECC bytes of one page of `noise(1, ..)`, written by the BCH encoder of the Linux kernel (PyPI bchlib 2.1.3, its own
/// choice of polynomial) and masked as the kernel's software engine does, so that FFh has FFh.
const KERNEL: [(usize, usize, &str, &str); 3] = [
    (2048, 64, "bch4/512", "a97737d368447f178f2701cde96f4183c39b33203fe44a2530c816ef"),
    (
        2048,
        64,
        "bch8/512",
        "04229b8e8a7e1223d59bb7e04bd3f1f25624a330d534f250705ef8793521df47de0dfd6d7adb8ba989620dea02c6a049aa8d87c2",
    ),
    (
        4096,
        224,
        "bch24/1024",
        "fd362f78f36c9cdd7c8e395d3c6e9ac7b64190889d8aea60581a55a25f1e92e500af768e5387f1f435849f6a8568ec018b8a95a07aba1de7\
         b2b96fc7ae769936eed3da95a695d841646cf2e8e9c1cd29c880c69e8d5cf6d58fd1708151fd883f7e5eccfba2e9f867cca9b0c34cbb8154\
         60051eaec159a1fddfe860ae2bcacf9eab5342ca925a4e856658319e83858b1c2096c828042e215a9fa869a3f1f5b6171ffbda7502b26134",
    ),
];

#[test]
fn a_page_is_what_the_kernel_writes() {
    for (page, oob, code, hex) in KERNEL {
        let geometry = PageGeometry::new(page as u32, oob as u32, None).unwrap();
        let scheme = Scheme::linux(geometry, code.parse().unwrap()).unwrap();
        let data = noise(1, page);
        // Large pages: a marker and free bytes of FFh, the ECC bytes at the end.
        let free = vec![0xFF; oob - hex.len() / 2];
        let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let ecc: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
        assert!(encoded(&scheme, Form::WithOob, &data) == [data, free, ecc].concat(), "{code}");
    }
}

#[test]
fn the_last_page_is_filled_and_erased_pages_stay_erased() {
    for code in CODES {
        let mut data = noise(2, 3 * PAGE + 100);
        data[PAGE..2 * PAGE].fill(0xFF);
        let scheme = scheme(code);
        let mut dump = Vec::new();
        let report = encode(&scheme, Form::WithOob, &mut &data[..], &mut dump, &mut |_| ()).unwrap();
        assert_eq!((report.pages, report.erased_pages, report.padding_bytes), (4, 1, PAGE as u64 - 100));
        assert_eq!(report.written_bytes, dump.len() as u64);
        assert!(dump[FULL..2 * FULL].iter().all(|byte| *byte == 0xFF), "{code}");
        // What is not erased has the codec's own ECC bytes, and a good block's marker.
        assert!(dump[PAGE..FULL].iter().any(|byte| *byte != 0xFF) && dump[PAGE] == 0xFF, "{code}");
        let (report, back) = decoded(&scheme, &dump);
        data.resize(4 * PAGE, 0xFF);
        assert!(back == data && report.erased.pages == 1, "{code}");
    }
}

#[test]
fn up_to_the_strength_is_corrected_and_counted() {
    let scheme = scheme("bch4/512");
    let data = noise(3, 8 * PAGE);
    let mut dump = encoded(&scheme, Form::WithOob, &data);
    // Step 0 of page 1: one bit. Step 3 of page 5: four bits, one of them in its last ECC byte.
    let places = [(1, 77), (5, 8 * 1536), (5, 8 * 1600 + 3), (5, 8 * 2047 + 7), (5, 8 * FULL - 1)];
    places.iter().for_each(|(page, bit)| flip(&mut dump, *page, *bit));
    let (report, back) = decoded(&scheme, &dump);
    assert!(back == data && report.is_good());
    let bars: Vec<(u32, u64)> = report.histogram.iter().map(|bar| (bar.bits, bar.steps)).collect();
    assert_eq!((bars, report.max_corrected_bits), (vec![(1, 1), (4, 1)], 4));
    assert_eq!((report.corrected_bits, report.steps.corrected, report.steps.clean), (5, 2, 30));
}

#[test]
fn what_cannot_be_corrected_is_written_as_read_and_told() {
    let scheme = scheme("bch4/512");
    let data = noise(4, 8 * PAGE);
    let mut dump = encoded(&scheme, Form::WithOob, &data);
    // Six errors in step 2 of page 6, and one in its step 3.
    (0..6).for_each(|n| flip(&mut dump, 6, 8 * 1024 + 97 * n));
    flip(&mut dump, 6, 8 * 1536);
    let (report, back) = decoded(&scheme, &dump);
    assert!(!report.is_good());
    assert_eq!((report.steps.uncorrectable, report.corrected_bits), (1, 1));
    let failure = report.uncorrectable[0];
    let offset = (6 * FULL + 1024) as u64;
    assert_eq!((failure.offset, failure.page, failure.block, failure.step), (offset, 6, Some(1), 2));
    let step = 6 * PAGE + 1024;
    assert!(back[step..step + 512] == dump[6 * FULL + 1024..][..512], "as it was read");
    assert!(back[..step] == data[..step] && back[step + 512..] == data[step + 512..]);
}

/// A byte that reads the same in all pages is told, and the code finds its bits where it could not correct as many.
#[test]
fn a_stuck_column_is_told_and_corrected() {
    for (code, byte) in [("bch4/512", 700), ("bch4/512", 2048 + 40), ("bch8/512", 1)] {
        let scheme = scheme(code);
        let data = noise(21, PAGE * 100);
        let mut dump = encoded(&scheme, Form::WithOob, &data);
        dump.chunks_exact_mut(FULL).for_each(|page| page[byte] = 0x11);
        // Worn cells beside it: one wrong bit in the same step of some pages.
        let step = if byte < PAGE { byte / 512 * 512 } else { 0 };
        (0..20).for_each(|page| flip(&mut dump, page * 5, 8 * (step + 9)));
        let (report, back) = decoded(&scheme, &dump);
        assert_eq!(report.steps.uncorrectable, 0, "{code} {byte}");
        assert!(back == data, "{code} {byte}");
        let [column] = report.columns.as_slice() else { panic!("{:?}", report.columns) };
        assert_eq!((column.byte as usize, column.bits, column.value), (byte, 0xFF, 0x11));
        assert!(column.corrected_pages > 20 && column.corrected_pages <= column.pages, "{column:?}");
    }
    let scheme = scheme("bch4/512");
    let (report, _) = decoded(&scheme, &encoded(&scheme, Form::WithOob, &noise(22, PAGE * 100)));
    assert_eq!(report.columns, []);
    // Among as many steps some are within 4 bits of another codeword, which is not taken.
    let data = noise(23, PAGE * 1024);
    let mut dump = encoded(&scheme, Form::WithOob, &data);
    dump.chunks_exact_mut(FULL).for_each(|page| page[700] = 0);
    let (report, back) = decoded(&scheme, &dump);
    assert_eq!(report.steps.uncorrectable, 0);
    let wrong = back.chunks_exact(512).zip(data.chunks_exact(512)).filter(|(back, data)| back != data);
    assert_eq!(wrong.count(), 0);
}

#[test]
fn an_erased_page_may_have_bitflips() {
    for (code, flips) in [("bch4/512", 4), ("hamming/256", 1), ("bch8/512", 8)] {
        let scheme = scheme(code);
        let mut data = noise(5, 4 * PAGE);
        data[2 * PAGE..3 * PAGE].fill(0xFF);
        let mut dump = encoded(&scheme, Form::WithOob, &data);
        (0..flips).for_each(|n| flip(&mut dump, 2, 100 + 31 * n));
        let (report, back) = decoded(&scheme, &dump);
        assert!(back == data && report.is_good(), "{code}");
        let erased = report.erased;
        assert_eq!((erased.pages, erased.with_bitflips, erased.bitflips), (1, 1, flips as u64), "{code}");
        assert_eq!(report.corrected_bits, 0, "{code}: bits of erased pages are counted apart");
    }
}

#[test]
fn more_bitflips_in_erased_pages_can_be_allowed() {
    let scheme = scheme("bch4/512");
    let mut dump = vec![0xFF; 2 * FULL];
    (0..7).for_each(|n| flip(&mut dump, 1, 50 * n));
    assert_eq!(decoded(&scheme, &dump).0.steps.uncorrectable, 1);
    let options = DecodeOptions { erased_threshold: Some(7), ..DecodeOptions::default() };
    let (report, back) = decoded_with(&scheme, &dump, options);
    assert_eq!((report.erased.pages, report.erased.bitflips, report.is_good()), (2, 7, true));
    assert!(back.iter().all(|byte| *byte == 0xFF));
}

#[test]
fn bad_blocks_are_kept_or_left_out_and_do_not_fail() {
    let scheme = scheme("bch4/512");
    let data = noise(6, 4 * PAGES_PER_BLOCK * PAGE);
    let mut dump = encoded(&scheme, Form::WithOob, &data);
    let block = PAGES_PER_BLOCK * FULL;
    dump[2 * block..3 * block].copy_from_slice(&noise(7, block));
    dump[2 * block + PAGE] = 0;
    let (kept, back) = decoded(&scheme, &dump);
    assert_eq!((kept.steps.uncorrectable, kept.is_good(), back.len()), (0, true, data.len()));
    let bad = kept.bad_blocks.unwrap();
    assert_eq!((bad.bad, bad.count, bad.blocks, bad.skipped), (vec![2], 1, 4, false));
    assert_eq!(bad.uncorrectable_steps, 16);
    let options = DecodeOptions { bad_blocks: BadBlocks::Skip, ..DecodeOptions::default() };
    let (skipped, back) = decoded_with(&scheme, &dump, options);
    let size = PAGES_PER_BLOCK * PAGE;
    assert!(back[..2 * size] == data[..2 * size] && back[2 * size..] == data[3 * size..]);
    assert!(skipped.bad_blocks.unwrap().skipped);
}

#[test]
fn markers_everywhere_are_none() {
    let scheme = scheme("bch4/512");
    let (report, _) = decoded(&scheme, &noise(8, 12 * FULL));
    assert!(report.too_many_bad() && !report.is_good());
}

#[test]
fn a_marker_may_be_on_other_pages() {
    let mut geometry = PageGeometry::new(PAGE as u32, OOB as u32, Some(PAGES_PER_BLOCK as u32)).unwrap();
    geometry.marker.pages = vec![0, 3];
    let scheme = Scheme::linux(geometry, "bch4/512".parse().unwrap()).unwrap();
    let mut dump = encoded(&scheme, Form::WithOob, &noise(9, 3 * PAGES_PER_BLOCK * PAGE));
    dump[(PAGES_PER_BLOCK + 3) * FULL + PAGE] = 0xF0;
    assert_eq!(decoded(&scheme, &dump).0.bad_blocks.unwrap().bad, [1]);
    // A last block that is cut off before its last page has no marker there.
    assert_eq!(decoded(&scheme, &dump[..FULL * 2]).0.bad_blocks.unwrap().count, 0);
}

fn apart(
    scheme: &Scheme,
    pages: &[u8],
    oob: &[u8],
    only_ecc: bool,
) -> Result<(DecodeReport, Vec<u8>), EccError> {
    let (mut pages, mut bytes, mut out) = (pages, oob, Vec::new());
    let dump = Dump { pages: &mut pages, apart: Some(Apart { bytes: &mut bytes, only_ecc }) };
    let report = decode(scheme, dump, Some(&mut out), DecodeOptions::default(), &mut |_| ())?;
    Ok((report, out))
}

#[test]
fn oob_may_be_in_a_file_of_its_own() {
    let scheme = scheme("bch8/512");
    let data = noise(10, 10 * PAGE);
    let whole = encoded(&scheme, Form::WithOob, &data);
    for (form, only_ecc) in [(Form::OnlyOob, false), (Form::OnlyEcc, true)] {
        let oob = encoded(&scheme, form, &data);
        assert_eq!(oob.len(), 10 * if only_ecc { 52 } else { OOB });
        let mut pages = data.clone();
        pages[9 * PAGE + 3] ^= 0x81;
        let (report, back) = apart(&scheme, &pages, &oob, only_ecc).unwrap();
        assert!(back == data && report.corrected_bits == 2 && report.is_good());
        assert_eq!(report.bad_blocks.is_some(), !only_ecc, "ECC bytes alone have no markers");
        assert!(matches!(
            apart(&scheme, &pages, &oob[1..], only_ecc),
            Err(EccError::Apart { how: "short", pages: 10, .. })
        ));
        let long = [&oob[..], &[0xFF]].concat();
        assert!(matches!(apart(&scheme, &pages, &long, only_ecc), Err(EccError::Apart { how: "long", .. })));
    }
    let oob = encoded(&scheme, Form::OnlyOob, &data);
    assert!(oob.chunks(OOB).zip(whole.chunks(FULL)).all(|(oob, page)| *oob == page[PAGE..]));
}

#[test]
fn a_dump_that_is_cut_off_is_told() {
    let scheme = scheme("bch4/512");
    let data = noise(11, 3 * PAGE);
    let dump = encoded(&scheme, Form::WithOob, &data);
    let (report, back) = decoded(&scheme, &dump[..2 * FULL + 1000]);
    assert_eq!((report.pages, report.rest_bytes, report.is_good()), (2, 1000, false));
    assert!(back == data[..2 * PAGE + 1000], "what is there of the data is written as read");
    let (report, back) = decoded(&scheme, &dump[..3 * FULL - 1]);
    assert_eq!((report.rest_bytes, back.len()), (FULL as u64 - 1, 3 * PAGE), "never its OOB");
}

#[test]
fn what_is_no_dump_is_refused() {
    let scheme = scheme("bch4/512");
    let refused = |dump: &[u8]| {
        let mut dump = dump;
        let dump = Dump { pages: &mut dump, apart: None };
        decode(&scheme, dump, None, DecodeOptions::default(), &mut |_| ()).unwrap_err()
    };
    assert!(matches!(refused(&[]), EccError::Empty));
    assert!(matches!(refused(&[0; FULL - 1]), EccError::Short { bytes: 2111, page_bytes: 2112 }));
    let empty = encode(&scheme, Form::WithOob, &mut &[][..], &mut Vec::new(), &mut |_| ());
    assert!(matches!(empty, Err(EccError::Empty)));
}

#[test]
fn an_image_larger_than_the_chip_is_refused() {
    let mut geometry = PageGeometry::new(PAGE as u32, OOB as u32, Some(4)).unwrap();
    geometry.pages = Some(4);
    let scheme = Scheme::linux(geometry, "bch4/512".parse().unwrap()).unwrap();
    let fits =
        |len: usize| encode(&scheme, Form::WithOob, &mut &vec![1; len][..], &mut Vec::new(), &mut |_| ());
    assert_eq!(fits(4 * PAGE).unwrap().pages, 4);
    assert!(matches!(fits(4 * PAGE + 1), Err(EccError::TooLarge { bytes: 8192 })));
}

struct Broken(usize);

impl std::io::Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(self.0);
        self.0 -= len;
        if len == 0 { Err(std::io::Error::other("worn out")) } else { Ok(len) }
    }
}

impl std::io::Write for Broken {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        std::io::Read::read(self, &mut vec![0; buffer.len()])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_reading_and_writing_meet_is_told_with_its_place() {
    let scheme = scheme("bch4/512");
    let dump = Dump { pages: &mut Broken(5000), apart: None };
    let error = decode(&scheme, dump, None, DecodeOptions::default(), &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read at byte 5000: worn out");
    let error =
        encode(&scheme, Form::WithOob, &mut &[0; PAGE][..], &mut Broken(100), &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot write at byte 0: worn out");
}

/// More than one chunk, and a last one that is not full: with 128 KiB blocks as with pages of unknown blocks.
#[test]
fn large_files_pass_in_chunks() {
    for blocks in [None, Some(64), Some(1)] {
        let geometry = PageGeometry::new(PAGE as u32, OOB as u32, blocks).unwrap();
        let scheme = Scheme::linux(geometry, "hamming/256".parse().unwrap()).unwrap();
        let data = noise(12, (9 << 20) / PAGE * PAGE + PAGE);
        let mut dump = encoded(&scheme, Form::WithOob, &data);
        let last = data.len() / PAGE - 1;
        flip(&mut dump, last, 8);
        let (mut steps, mut input, mut out) = (Vec::new(), &dump[..], Vec::new());
        let mut progress = |bytes| steps.push(bytes);
        let source = Dump { pages: &mut input, apart: None };
        let report =
            decode(&scheme, source, Some(&mut out), DecodeOptions::default(), &mut progress).unwrap();
        assert!(out == data && report.corrected_bits == 1);
        assert!(steps.len() == 2 && steps.is_sorted() && steps.last() == Some(&(dump.len() as u64)));
        flip(&mut dump, last, 9);
        let failure = decoded(&scheme, &dump).0.uncorrectable[0];
        assert_eq!((failure.page, failure.offset), (last as u64, (last * FULL) as u64));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Up to the strength in each step: always the data, and the number of bits.
    #[test]
    fn correctable_damage_is_undone(seed: u64, code in 0..CODES.len(), pages in 1..6_usize) {
        let scheme = scheme(CODES[code]);
        let data = noise(seed, pages * PAGE);
        let mut dump = encoded(&scheme, Form::WithOob, &data);
        let (steps, strength) = (scheme.steps() as usize, scheme.code().strength() as usize);
        let step_bits = 8 * scheme.code().step_bytes() as usize;
        let mut bits = 0;
        for step in 0..pages * steps {
            let count = noise(seed ^ step as u64, 1)[0] as usize % (strength + 1);
            for n in 0..count {
                // Different places, as far apart as they can be.
                flip(&mut dump, step / steps, step % steps * step_bits + n * (step_bits / strength));
            }
            bits += count as u64;
        }
        let (report, back) = decoded(&scheme, &dump);
        prop_assert!(back == data);
        prop_assert_eq!((report.corrected_bits, report.steps.uncorrectable), (bits, 0));
    }

    /// Any bytes in any shape end in a report or an error.
    #[test]
    fn any_dump_is_survived(
        seed: u64, len in 0..40_000_usize, page in 0..20_u32, oob in 0..300_u32, block in 0..9_u32, code in 0..CODES.len(),
    ) {
        let geometry = PageGeometry::new(256 * page, oob, (block > 0).then_some(block));
        let layouts = Layout::all();
        let layout = &layouts[seed as usize % layouts.len()];
        let scheme = geometry.and_then(|g| Scheme::new(g, CODES[code].parse().unwrap(), layout));
        if let Ok(scheme) = scheme {
            let dump = noise(seed, len);
            let (mut dump, mut out) = (&dump[..], Vec::new());
            let dump = Dump { pages: &mut dump, apart: None };
            if let Ok(report) = decode(&scheme, dump, Some(&mut out), DecodeOptions::default(), &mut |_| ()) {
                prop_assert_eq!(report.written_bytes, out.len() as u64);
                let steps = report.steps;
                prop_assert_eq!(steps.total, steps.clean + steps.corrected + steps.uncorrectable);
            }
        }
    }
}
