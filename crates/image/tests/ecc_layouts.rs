//! The layouts that come with the program: both directions, flipped bits, and found without being named.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panic")]

use floatgate_image::ecc::{
    Candidate, Code, DecodeOptions, DecodeReport, Detection, Detector, Dump, EccError, Form, Layout,
    PageGeometry, Scheme, Transform, TwoChipsWriter, decode, decode_regions, detect, encode, sample,
};
use floatgate_mtd::random::Random;
use std::io::Write;

/// Sizes of pages where a layout names none.
const SIZES: [(u32, u32); 5] = [(2048, 64), (2048, 128), (4096, 224), (4096, 256), (8192, 744)];

const PAGES: usize = 6;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).take(len).collect()
}

/// Codes of a layout that goes with any.
fn any() -> [Code; 3] {
    ["bch4/512", "bch8/512", "hamming/256"].map(|code| code.parse().unwrap())
}

/// The schemes of a layout: each size of page that suits, with its first codes that fit.
fn schemes(layout: &Layout) -> Vec<Scheme> {
    let any = any();
    let codes = if layout.codes().is_empty() { &any[..] } else { layout.codes() };
    let sizes = [(512, 16)].into_iter().chain(SIZES);
    let of_size = |(page, oob)| {
        let scheme =
            move |code: &_| Scheme::new(PageGeometry::new(page, oob, None).ok()?, *code, layout).ok();
        codes.iter().filter_map(scheme).take(2)
    };
    sizes.flat_map(of_size).collect()
}

fn encoded(scheme: &Scheme, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(scheme, Form::WithOob, &mut &data[..], &mut out, &mut |_| ()).unwrap();
    out
}

fn decoded(scheme: &Scheme, mut dump: &[u8]) -> (DecodeReport, Vec<u8>) {
    let mut out = Vec::new();
    let dump = Dump { pages: &mut dump, apart: None };
    let report = decode(scheme, dump, Some(&mut out), DecodeOptions::default(), &mut |_| ());
    (report.unwrap(), out)
}

/// Flips as many bits of each page as the code corrects in one step.
fn flip(scheme: &Scheme, dump: &mut [u8], random: &mut Random) {
    for page in dump.chunks_exact_mut(scheme.geometry().full_page() as usize) {
        for _ in 0..scheme.code().strength() {
            let bit = random.bits() as usize % (8 * page.len());
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn each_layout_gives_its_data_back_and_corrects_up_to_its_strength() {
    for (seed, layout) in (1..).zip(Layout::all()) {
        let schemes = schemes(layout);
        let why = Scheme::new(
            PageGeometry::new(2048, 64, None).unwrap(),
            layout.codes().first().copied().unwrap_or(any()[0]),
            layout,
        );
        assert!(!schemes.is_empty(), "{}: no page: {why:?}", layout.name);
        for scheme in schemes {
            let name = format!("{} {} {:?}", layout.name, scheme.code(), scheme.geometry());
            let data = noise(seed, PAGES * scheme.geometry().page_bytes as usize);
            let clean = encoded(&scheme, &data);
            let (report, back) = decoded(&scheme, &clean);
            assert!(back == data && report.corrected_bits == 0 && report.steps.uncorrectable == 0, "{name}");
            let mut worn = clean;
            flip(&scheme, &mut worn, &mut Random::new(seed));
            let (report, back) = decoded(&scheme, &worn);
            assert!(back == data && report.steps.uncorrectable == 0, "{name}: worn, {report:?}");
            assert!(report.corrected_bits > 0, "{name}");
        }
    }
}

#[test]
fn each_layout_is_found_in_a_dump() {
    for (seed, layout) in (100..).zip(Layout::all()) {
        for scheme in schemes(layout).into_iter().take(1) {
            found_again(&scheme, seed);
        }
    }
}

/// The campaign of the test above: all pages and codes, 20 dumps of each. At least 19 come back, and nothing is stated wrongly with a
/// confidence above 0.9.
#[test]
#[ignore = "a campaign"]
fn slow_each_layout_is_found_in_twenty_dumps() {
    let mut detectors: Vec<(PageGeometry, Detector)> = Vec::new();
    let mut faults = Vec::new();
    for scheme in Layout::all().iter().flat_map(schemes) {
        let geometry = scheme.geometry();
        if detectors.iter().all(|(other, _)| other != geometry) {
            detectors.push((geometry.clone(), Detector::new(geometry, None)));
        }
        let detector = &detectors.iter().find(|(other, _)| other == geometry).unwrap().1;
        let (good, wrong): (Vec<bool>, Vec<bool>) =
            (0..20).map(|seed| stated(detector, &scheme, seed)).unzip();
        let (good, wrong) = (count(&good), count(&wrong));
        if good < 19 || wrong > 0 {
            let name = format!("{} {} {geometry:?}", scheme.layout_name(), scheme.code());
            faults.push(format!("{name}: {good} of 20 came back, {wrong} stated wrongly"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

fn count(flags: &[bool]) -> usize {
    flags.iter().filter(|flag| **flag).count()
}

/// Two results for a worn dump: its data are recovered; a wrong layout is stated with a confidence above 0.9.
fn stated(detector: &Detector, scheme: &Scheme, seed: u64) -> (bool, bool) {
    let (data, dump) = worn(scheme, seed);
    let mut pages = dump.as_slice();
    let sampled = sample(scheme.geometry(), Dump { pages: &mut pages, apart: None }, &mut |_| ()).unwrap();
    let detection = detector.detect(&sampled);
    let is_right = |candidate: &Candidate| {
        let names = || [&candidate.layout].into_iter().chain(&candidate.same_as);
        // A layout whose source leaves properties open is named with them.
        candidate.code == scheme.code().to_string() && names().any(|name| name == scheme.layout_name())
    };
    let wrong =
        detection.candidates.iter().any(|candidate| candidate.confidence > 0.9 && !is_right(candidate));
    let good = back(&detection, scheme.geometry(), &dump).is_ok_and(|back| back == data);
    (good, wrong)
}

/// Data, and a dump of them with a wrong bit in each third page.
fn worn(scheme: &Scheme, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let geometry = scheme.geometry();
    let data = noise(seed, 20 * geometry.page_bytes as usize);
    let mut dump = encoded(scheme, &data);
    let mut random = Random::new(seed);
    for page in dump.chunks_exact_mut(geometry.full_page() as usize).step_by(3) {
        let bit = random.bits() as usize % (8 * page.len());
        page[bit / 8] ^= 1 << (bit % 8);
    }
    (data, dump)
}

/// Data come back from a worn dump whose layout is not named.
fn found_again(scheme: &Scheme, seed: u64) {
    let geometry = scheme.geometry();
    let (data, dump) = worn(scheme, seed);
    let back = by_itself(geometry, &dump).unwrap();
    assert!(back == data, "{} {} {geometry:?}, dump {seed}", scheme.layout_name(), scheme.code());
}

fn by_itself(geometry: &PageGeometry, dump: &[u8]) -> Result<Vec<u8>, EccError> {
    let mut pages = dump;
    let sample = sample(geometry, Dump { pages: &mut pages, apart: None }, &mut |_| ())?;
    back(&detect(geometry, None, &sample), geometry, dump)
}

fn back(detection: &Detection, geometry: &PageGeometry, dump: &[u8]) -> Result<Vec<u8>, EccError> {
    let (mut out, mut pages) = (Vec::new(), dump);
    let dump = Dump { pages: &mut pages, apart: None };
    let options = DecodeOptions::default();
    decode_regions(geometry, &detection.regions, dump, Some(&mut out), options, &mut |_| ())?;
    Ok(out)
}

/// Properties that the source of a layout leaves open are found in the dump and printed as a layout file.
#[test]
fn properties_that_a_source_leaves_open_are_found() {
    let layout = Layout::named("marvell-bch8").unwrap();
    let text = layout.text().replace("bits = \"lsb\"", "bits = \"msb\"").replace("\"none\"", "\"erased\"");
    let real = Layout::parse("real", &text).unwrap();
    let geometry = PageGeometry::new(2048, 128, None).unwrap();
    let scheme = Scheme::new(geometry.clone(), real.usual_code().unwrap(), &real).unwrap();
    let (data, dump) = worn(&scheme, 7);
    let mut pages = dump.as_slice();
    let sampled = sample(&geometry, Dump { pages: &mut pages, apart: None }, &mut |_| ()).unwrap();
    let detection = detect(&geometry, None, &sampled);
    let candidate = &detection.candidates[0];
    assert!(candidate.layout.starts_with("marvell-bch8 (msb first"), "{}", candidate.layout);
    assert!(candidate.confidence > 0.99 && back(&detection, &geometry, &dump).unwrap() == data);
    let stated = Layout::parse("stated", candidate.layout_file.as_deref().unwrap()).unwrap();
    let again = Scheme::new(geometry, stated.usual_code().unwrap(), &stated).unwrap();
    assert!(decoded(&again, &dump).1 == data);
}

/// A randomizer that no file describes: pages of zeros and of FFh show its bits, and with them the layout is found.
#[test]
fn a_randomizer_is_recovered_from_constant_pages() {
    let geometry = PageGeometry::new(2048, 64, Some(8)).unwrap();
    let seeds = "seeds = [0x1234, 0x5abc, 0x2fe1, 0x77, 0x4321, 0x1b0b, 0x3c3c, 0x6f01]";
    for (name, restart) in [("omap-bch8", "page"), ("qcom-bch4", "page"), ("large-page", "step")] {
        let text = format!("\n[randomizer]\npolynomial = 0x840001\nrestart = \"{restart}\"\n{seeds}\n");
        let text = format!("{}{text}", Layout::named(name).unwrap().text());
        let layout = Layout::parse("own", &text).unwrap();
        let code = layout.usual_code().unwrap_or_else(|| "bch8/512".parse().unwrap());
        let scheme = Scheme::new(geometry.clone(), code, &layout).unwrap();
        let mut data = noise(31, 2048 * 8 * 12);
        for block in 0..12 {
            // A page of FFh alone would be an erased one.
            data[2048 * (8 * block + block % 8)..][..2047].fill(if block % 2 == 0 { 0 } else { 0xFF });
        }
        let dump = encoded(&scheme, &data);
        let mut pages = dump.as_slice();
        let sampled = sample(&geometry, Dump { pages: &mut pages, apart: None }, &mut |_| ()).unwrap();
        let detection = detect(&geometry, None, &sampled);
        let candidate = &detection.candidates[0];
        assert!(candidate.layout.contains("(randomizer found)"), "{candidate:?}");
        assert!(candidate.fits && candidate.confidence > 0.9, "{candidate:?}");
        let file = candidate.layout_file.as_deref().unwrap();
        assert!(file.contains("polynomial = 0x840001") && file.contains(seeds), "{file}");
        assert!(back(&detection, &geometry, &dump).unwrap() == data, "{name}");
    }
}

/// A dump whose bytes a 16-bit bus has exchanged comes back, and so does an inverted one.
#[test]
fn exchanged_bytes_are_found() {
    let geometry = PageGeometry::new(2048, 64, None).unwrap();
    for (transform, name) in [(Transform::SwapBytes, "omap-bch8"), (Transform::Invert, "qcom-bch4")] {
        let layout = Layout::named(name).unwrap();
        let scheme = Scheme::new(geometry.clone(), layout.usual_code().unwrap(), layout).unwrap();
        let (data, mut dump) = worn(&scheme, 9);
        transform.apply(&mut dump);
        let mut pages = dump.as_slice();
        let sampled = sample(&geometry, Dump { pages: &mut pages, apart: None }, &mut |_| ()).unwrap();
        let detection = Detector::new(&geometry, None).with_transforms().detect(&sampled);
        assert_eq!((detection.transform, detection.candidates[0].layout.as_str()), (Some(transform), name));
        transform.apply(&mut dump);
        assert!(back(&detection, &geometry, &dump).unwrap() == data);
    }
}

/// The bytes of two chips alternate in a dump, and each chip has its own ECC.
#[test]
fn two_chips_in_one_dump_are_found() {
    let geometry = PageGeometry::new(2048, 64, None).unwrap();
    let layout = Layout::named("omap-bch8").unwrap();
    let scheme = Scheme::new(geometry.clone(), layout.usual_code().unwrap(), layout).unwrap();
    let (data, pages) = worn(&scheme, 12);
    // Pages of both chips, alternately.
    let mut dump = Vec::new();
    let mut writer = TwoChipsWriter::new(&mut dump, geometry.full_page());
    writer.write_all(&pages).unwrap();
    writer.finish().unwrap();
    let mut apart = Transform::TwoChips.reader(&dump[..], geometry.full_page());
    let sampled = sample(&geometry, Dump { pages: &mut apart, apart: None }, &mut |_| ()).unwrap();
    let detection = Detector::new(&geometry, None).detect_two_chips(&sampled).unwrap();
    assert_eq!(detection.transform, Some(Transform::TwoChips));
    assert!(detection.candidates[0].layout == "omap-bch8" && detection.candidates[0].confidence > 0.99);
    assert!(back(&detection, &geometry, &pages).unwrap() == data);
}

/// Two layouts that differ in nothing but the place of the marker are told apart by it, and a runner-up is stated.
#[test]
fn a_swapped_marker_tells_layouts_apart() {
    for (name, other) in [("gpmi", "gpmi-no-swap"), ("gpmi-no-swap", "gpmi")] {
        let geometry = PageGeometry::new(2048, 64, None).unwrap();
        let scheme =
            Scheme::new(geometry.clone(), "bch8/512".parse().unwrap(), Layout::named(name).unwrap()).unwrap();
        let dump = worn(&scheme, 8).1;
        let mut pages = dump.as_slice();
        let sampled = sample(&geometry, Dump { pages: &mut pages, apart: None }, &mut |_| ()).unwrap();
        let found = &detect(&geometry, None, &sampled).candidates[0];
        assert!(found.layout == name && found.confidence > 0.9, "{found:?}");
        assert_eq!(found.runner_up.as_ref().unwrap().layout, other);
    }
}

/// A controller that no file describes: what covers what, and with which mask and order of bits, is found.
#[test]
fn layouts_that_nobody_has_described_are_found() {
    for (seed, (pattern, code, form)) in (200..).zip([
        ("meta:4 n*(data ecc free:2)", "bch8/512", "bits = \"lsb\"\ninversion = \"none\""),
        ("n*(data meta:3 ecc) free", "bch6/512@16427", "inversion = \"all\""),
        ("n*(data free:3 ecc)", "bch8/512", ""),
        ("data free:3 n*(meta:1 ecc free:1) free", "bch7/512", "bits = \"lsb\""),
        ("data free:7 n*(ecc) free", "bch12/1024@17475", "bits = \"lsb\"\ninversion = \"none\""),
    ]) {
        let text = format!(
            "title = \"\"\nsource = \"\"\ncodes = [\"{code}\"]\n{form}\n[[pages]]\npattern = \"{pattern}\"\n"
        );
        let layout = Layout::parse("test", &text).unwrap();
        let geometry = PageGeometry::new(2048, 64, None).unwrap();
        found_again(&Scheme::new(geometry, code.parse().unwrap(), &layout).unwrap(), seed);
    }
}

#[test]
fn files_that_are_no_layouts_say_why() {
    let refused = |text: &str| Layout::parse("test", text).unwrap_err().to_string();
    let pattern = |pattern: &str| {
        refused(&format!("title = \"\"\nsource = \"\"\n[[pages]]\npattern = \"{pattern}\"\n"))
    };
    assert!(refused("title = 1").contains("title"));
    assert!(refused("title = \"\"\nsource = \"\"\npages = []\nstep = 4\n").contains("step"));
    assert_eq!(pattern(""), "pattern, column 1: the pattern is empty");
    assert_eq!(
        pattern("data oob"),
        "pattern, column 6: not data, ecc, free, meta, zero or a group in parentheses"
    );
    assert_eq!(pattern("n(data)"), "pattern, column 2: `*` is missing");
    assert_eq!(pattern("n*(data ecc"), "pattern, column 12: `)` is missing");
    assert_eq!(pattern("data:0 ecc"), "pattern, column 6: a number from 1 to 65536 is missing");
    assert_eq!(pattern("data:99999999999"), "pattern, column 6: a number from 1 to 65536 is missing");
}

/// The page on layouts has one row for each, with its title and codes.
#[test]
fn the_page_on_layouts_names_each_with_its_codes() {
    let page = include_str!("../../../docs/ecc-layouts.md");
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 5);
    for layout in Layout::all() {
        let row = layout.row();
        let codes = if row.codes.is_empty() { "any".to_owned() } else { row.codes.join(", ") };
        let expected = format!("| `{}` | {} | {codes} | {} |", row.name, row.title, row.used_by.join(", "));
        assert!(rows.clone().any(|line| line == expected), "docs/ecc-layouts.md lacks: {expected}");
    }
    assert_eq!(rows.count(), Layout::all().len());
}
