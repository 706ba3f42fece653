//! The code and layout of a dump are found, and none where there is none.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panic")]

use floatgate_image::ecc::{
    DecodeOptions, Detection, Dump, EccError, Form, Layout, PageGeometry, RegionEcc, Regions, Scheme,
    decode_regions, detect, encode, sample,
};
use floatgate_mtd::random::Random;
use proptest::prelude::*;

/// Bytes that look random.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

fn geometry(page: u32, oob: u32) -> PageGeometry {
    PageGeometry::new(page, oob, None).unwrap()
}

fn encoded(geometry: &PageGeometry, code: &str, layout: &str, data: &[u8]) -> Vec<u8> {
    let (geometry, code) = (geometry.clone(), code.parse().unwrap());
    let scheme = match layout {
        "linux" => Scheme::linux(geometry, code).unwrap(),
        name => Scheme::new(geometry, code, Layout::named(name).unwrap()).unwrap(),
    };
    let mut out = Vec::new();
    encode(&scheme, Form::WithOob, &mut &data[..], &mut out, &mut |_| ()).unwrap();
    out
}

fn detected(geometry: &PageGeometry, dump: &[u8]) -> Result<Detection, EccError> {
    let mut pages = dump;
    let sample = sample(geometry, Dump { pages: &mut pages, apart: None }, &mut |_| ())?;
    Ok(detect(geometry, None, &sample))
}

fn found(geometry: &PageGeometry, dump: &[u8]) -> Option<(String, String)> {
    let detection = match detected(geometry, dump) {
        Err(EccError::TooLittle) => return None,
        detection => detection.unwrap(),
    };
    detection.found().map(|scheme| (scheme.code().to_string(), scheme.layout_name().to_string()))
}

/// Pages that the code does not explain are counted alike, whether it was found or stated.
#[test]
fn counts_do_not_depend_on_who_names_the_code() {
    let geometry = geometry(2048, 64);
    for code in ["bch4/512", "hamming/512"] {
        let mut dump = encoded(&geometry, code, "linux", &noise(41, 2048 * 320));
        worn(&mut dump, 12_000);
        dump[2112 * 96..2112 * 112].copy_from_slice(&noise(42, 2112 * 16));
        let found = detected(&geometry, &dump).unwrap().regions;
        let stated = Scheme::linux(geometry.clone(), code.parse().unwrap()).unwrap();
        let stated = Regions::one(RegionEcc::Code(Box::new(stated)));
        let [found, stated] = [found, stated].map(|regions| {
            let mut pages = dump.as_slice();
            let dump = Dump { pages: &mut pages, apart: None };
            decode_regions(&geometry, &regions, dump, None, DecodeOptions::default(), &mut |_| ()).unwrap()
        });
        assert_eq!(found, stated, "{code}");
        assert!(found[0].steps.uncorrectable >= 64, "{code}");
    }
}

/// Flips about one bit in `every`.
fn worn(dump: &mut [u8], every: usize) {
    let bits = 8 * dump.len();
    let draws = noise(99, 8 * (bits / every));
    for (at, draw) in draws.chunks_exact(8).enumerate() {
        let bit = (at * every + u64::from_le_bytes(draw.try_into().unwrap()) as usize % every).min(bits - 1);
        dump[bit / 8] ^= 1 << (bit % 8);
    }
}

const CASES: [(u32, u32, &str, &str); 15] = [
    (512, 16, "hamming/256", "small-page"),
    (512, 16, "hamming/512", "small-page"),
    (2048, 64, "hamming/256", "large-page-hamming"),
    (2048, 64, "hamming/512", "large-page-hamming"),
    (2048, 64, "hamming/512", "large-page"),
    (512, 16, "hamming-smartmedia/256", "small-page"),
    (2048, 64, "hamming-smartmedia/256", "large-page-hamming"),
    (2048, 64, "hamming-smartmedia/512", "large-page-hamming"),
    (2048, 64, "bch1/512", "large-page"),
    (2048, 64, "bch4/512", "large-page"),
    (2048, 64, "bch8/512", "large-page"),
    (4096, 224, "bch24/1024", "large-page"),
    (4096, 224, "bch24/1024@17475", "large-page"),
    (2048, 64, "bch1/1024@17475", "large-page"),
    (2048, 64, "hamming/512", "winbond"),
];

#[test]
fn codes_and_layouts_are_found() {
    for (page, oob, code, layout) in CASES {
        let geometry = geometry(page, oob);
        let mut data = noise(1, 20 * page as usize);
        data[5 * page as usize..11 * page as usize].fill(0xFF);
        let clean = encoded(&geometry, code, layout, &data);
        let expected = Some((code.to_owned(), layout.to_string()));
        assert_eq!(found(&geometry, &clean), expected, "{code} {layout}");
        let mut dump = clean;
        worn(&mut dump, 20_000);
        assert_eq!(found(&geometry, &dump), expected, "worn {code} {layout}");
    }
}

/// Pages of zeros have the same ECC bytes, however many of them have a wrong bit.
#[test]
fn a_code_is_found_between_many_pages_of_zeros() {
    let geometry = geometry(2048, 64);
    let mut data = vec![0; 160 * 2048];
    data[90 * 2048..96 * 2048].copy_from_slice(&noise(7, 6 * 2048));
    for layout in ["large-page", "gpmi"] {
        let mut dump = encoded(&geometry, "bch8/512", layout, &data);
        dump.chunks_exact_mut(2112).enumerate().for_each(|(at, page)| page[20 + at] ^= 4);
        let expected = Some(("bch8/512".to_owned(), layout.to_owned()));
        assert_eq!(found(&geometry, &dump), expected, "{layout}");
    }
}

#[test]
fn a_strong_code_is_found_where_no_step_is_clean() {
    let geometry = geometry(4096, 224);
    let mut dump = encoded(&geometry, "bch24/1024", "large-page", &noise(2, 40 * 4096));
    worn(&mut dump, 800);
    let detection = detected(&geometry, &dump).unwrap();
    let best = &detection.candidates[0];
    assert_eq!((best.code.as_str(), best.clean), ("bch24/1024", 0));
    assert!(best.fits && best.corrected > 20);
}

/// A boot loader under a code of its own, then a file system.
#[test]
fn parts_with_different_codes_are_both_found() {
    let geometry = geometry(2048, 64);
    let boot = encoded(&geometry, "hamming/256", "large-page-hamming", &noise(3, 32 * 2048));
    let system = encoded(&geometry, "bch8/512", "large-page", &noise(4, 90 * 2048));
    let detection = detected(&geometry, &[boot, system].concat()).unwrap();
    let fitting = detection.candidates.iter().filter(|c| c.fits).map(|c| c.code.as_str());
    assert_eq!(fitting.collect::<Vec<_>>(), ["hamming/256", "bch8/512"]);
    let regions: Vec<_> = detection.regions.iter().map(|(pages, _)| pages.start).collect();
    assert_eq!(regions, [0, 32]);
}

/// Data of a dump in runs of blocks, each run under a code, or under none with some bytes in the OOB.
fn in_runs(runs: &[(usize, usize)], seed: u64) -> (Vec<u8>, Vec<u8>) {
    const BLOCK: usize = 16;
    let geometry = PageGeometry::new(2048, 64, Some(BLOCK as u32)).unwrap();
    let (mut data, mut dump) = (Vec::new(), Vec::new());
    for (number, &(protection, blocks)) in runs.iter().enumerate() {
        let own = noise(seed + number as u64, blocks * BLOCK * 2048);
        let code = |code: &str| encoded(&geometry, code, "linux", &own);
        let plain = |oob: &dyn Fn(usize) -> Vec<u8>| {
            let pages = own.chunks(2048).enumerate();
            pages.flat_map(|(at, page)| [page, &oob(at)].concat()).collect::<Vec<u8>>()
        };
        dump.extend(match protection {
            0 => code("hamming/256"),
            1 => code("hamming/512"),
            2 => code("bch1/512"),
            3 => code("bch4/512"),
            4 => code("bch8/512"),
            5 => plain(&|_| vec![0; 64]),
            6 => plain(&|_| [vec![0xFF; 2], vec![0; 62]].concat()),
            7 => plain(&|at| [vec![0xFF; 2], (at as u32).to_le_bytes().repeat(15), vec![0xFF; 2]].concat()),
            _ => plain(&|at| [vec![0xFF; 2], noise(seed ^ at as u64, 62)].concat()),
        });
        data.extend(own);
    }
    (data, dump)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// In a dump without wrong bits nothing is corrected, whatever codes its parts have; all codes are found.
    #[test]
    fn right_bytes_stay_whatever_codes_the_parts_of_a_dump_have(
        runs in proptest::collection::vec((0_usize..9, 1_usize..4), 1..5),
        seed in 0_u64..1 << 40,
    ) {
        let (data, dump) = in_runs(&runs, seed);
        let geometry = PageGeometry::new(2048, 64, Some(16)).unwrap();
        let detection = detected(&geometry, &dump).unwrap();
        let (mut pages, mut out) = (&dump[..], Vec::new());
        let source = Dump { pages: &mut pages, apart: None };
        let options = DecodeOptions::default();
        let reports =
            decode_regions(&geometry, &detection.regions, source, Some(&mut out), options, &mut |_| ());
        prop_assert!(out == data, "{runs:?}: {:?}", detection.regions);
        let codes: u64 = runs.iter().filter(|run| run.0 < 5).map(|run| run.1 as u64 * 16).sum();
        let explained: u64 = reports.unwrap().iter().filter(|r| !r.scheme.is_without_code()).map(|r| r.pages).sum();
        prop_assert!(explained >= codes, "{runs:?}: {explained} of {codes} pages: {:?}", detection.regions);
    }
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let geometry = geometry(2048, 64);
    // Random bytes; data without ECC; pages of one repeated byte, whose Hamming bytes are FFh.
    let random = noise(5, 200 * 2112);
    let mut plain = noise(6, 200 * 2112);
    plain.chunks_exact_mut(2112).for_each(|page| page[2048..].fill(0xFF));
    let mut constant = plain.clone();
    constant.chunks_exact_mut(2112).enumerate().for_each(|(at, page)| page[..2048].fill(at as u8));
    let zeros = vec![0; 200 * 2112];
    // The right bytes in pages of another size.
    let other = encoded(&self::geometry(4096, 128), "bch4/512", "large-page", &noise(7, 100 * 4096));
    for (what, dump) in
        [("random", random), ("plain", plain), ("constant", constant), ("zeros", zeros), ("other", other)]
    {
        assert_eq!(found(&geometry, &dump), None, "{what}");
    }
}

#[test]
fn seeds_do_not_matter() {
    let geometry = geometry(2048, 64);
    for seed in 0..5 {
        let dump = noise(seed, 70 * 2112);
        assert_eq!(found(&geometry, &dump), None, "random bytes of seed {seed}");
        let right = encoded(&geometry, "bch1/512", "large-page", &noise(seed, 2 * 2048));
        assert!(found(&geometry, &right).is_some(), "two pages of seed {seed}");
    }
}

#[test]
fn an_erased_dump_shows_no_code() {
    let geometry = geometry(2048, 64);
    assert!(matches!(detected(&geometry, &vec![0xFF; 10 * 2112]), Err(EccError::AllErased)));
    // A page of zeros, and one with a single byte.
    let single = [&[b'x'][..], &[0xFF; 2111]].concat();
    for page in [&[0; 2112][..], &single] {
        assert!(matches!(detected(&geometry, page), Err(EccError::TooLittle)));
    }
    assert!(matches!(detected(&geometry, &[]), Err(EccError::Empty)));
    assert!(matches!(detected(&geometry, &[0; 100]), Err(EccError::Short { bytes: 100, page_bytes: 2112 })));
}

#[test]
fn a_sample_comes_from_the_whole_dump() {
    let geometry = geometry(512, 16);
    let dump = encoded(&geometry, "hamming/256", "small-page", &noise(8, 1000 * 512));
    let detection = detected(&geometry, &dump).unwrap();
    // All of them are kept of a small dump; a code is tried on some.
    assert_eq!(detection.sampled_pages, 1000);
    assert!((64..=128).contains(&detection.candidates[0].clean), "{detection:?}");
}

/// A byte of data by its number, and one of the OOB by its page and its place there.
type DataByte = fn(usize) -> u8;
type OobByte = fn(usize, usize) -> u8;

/// The data of images are seldom random: zeros, text, counters, repeated words. OOB without ECC explains none of them.
#[test]
fn no_code_is_found_for_structured_data_without_ecc() {
    let geometry = geometry(2048, 64);
    let data: [(&str, DataByte); 4] = [
        ("words", |at| [0x55, 0xAA, 0, 0xFF][at / 64 % 4]),
        ("counters", |at| ((at / 4) as u32).to_le_bytes()[at % 4]),
        ("sparse", |at| u8::from(at % 509 == 0)),
        ("text", |at| b"the quick brown fox "[at % 20]),
    ];
    let oobs: [(&str, OobByte); 5] = [
        ("zeros", |_, _| 0),
        ("markers", |_, at| if at < 2 { 0xFF } else { 0 }),
        ("constant", |_, at| at as u8),
        ("counter", |page, at| (page as u32).to_le_bytes()[at % 4]),
        ("erased", |_, _| 0xFF),
    ];
    for (of_data, byte) in data {
        for (of_oob, oob) in oobs {
            let page = |number: usize| {
                let bytes = (0..2048).map(move |at| byte(number * 2048 + at + number % 7));
                bytes.chain((0..64).map(move |at| oob(number, at)))
            };
            let dump: Vec<u8> = (0..200).flat_map(page).collect();
            assert_eq!(found(&geometry, &dump), None, "{of_data} with {of_oob}");
        }
    }
}
