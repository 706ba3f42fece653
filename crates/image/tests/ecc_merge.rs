//! Several dumps of one chip as one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panic")]

use floatgate_image::ecc::{
    DecodeOptions, Displacement, Dump, EccError, Form, Layout, MergeReport, PageGeometry, RegionEcc, Regions,
    Scheme, decode, displacement, encode, merge, require_layout,
};
use floatgate_mtd::random::Random;

const PAGES: usize = 24;

fn geometry() -> PageGeometry {
    PageGeometry::new(2048, 64, Some(8)).unwrap()
}

fn scheme(layout: &str) -> Scheme {
    Scheme::new(geometry(), "bch4/512".parse().unwrap(), Layout::named(layout).unwrap()).unwrap()
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).take(len).collect()
}

fn written(scheme: &Scheme) -> (Vec<u8>, Vec<u8>) {
    let mut data = noise(1, PAGES * 2048);
    data[3 * 2048..5 * 2048].fill(0xFF);
    let mut dump = Vec::new();
    encode(scheme, Form::WithOob, &mut &data[..], &mut dump, &mut |_| ()).unwrap();
    (data, dump)
}

fn merged(regions: &Regions, dumps: &[Vec<u8>]) -> Result<(MergeReport, Vec<u8>), EccError> {
    let mut readers: Vec<&[u8]> = dumps.iter().map(Vec::as_slice).collect();
    let dumps = readers.iter_mut().map(|pages| Dump { pages, apart: None }).collect();
    let mut out = Vec::new();
    let report = merge(&geometry(), regions, dumps, &mut out, &mut |_| ())?;
    Ok((report, out))
}

fn under(scheme: &Scheme) -> Regions {
    Regions::one(RegionEcc::Code(Box::new(scheme.clone())))
}

/// Flips bits of each step with data, which start at a byte of the page.
fn worn(dump: &[u8], seed: u64, bits: usize) -> Vec<u8> {
    let (mut dump, mut random) = (dump.to_vec(), Random::new(seed));
    for page in dump.chunks_exact_mut(2112).filter(|page| page.iter().any(|byte| *byte != 0xFF)) {
        for step in page[..2048].chunks_exact_mut(512) {
            for _ in 0..bits {
                let bit = random.bits() as usize % (8 * step.len());
                step[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
    dump
}

#[test]
fn three_dumps_that_are_lost_alone_are_right_together() {
    let scheme = scheme("large-page");
    let (data, clean) = written(&scheme);
    let dumps: Vec<Vec<u8>> = (0..3).map(|seed| worn(&clean, 10 + seed, 12)).collect();
    let (report, out) = merged(&under(&scheme), &dumps).unwrap();
    assert!(out == clean && report.is_good(), "{report:?}");
    assert!(report.dumps.iter().all(|dump| dump.uncorrectable_alone > 80 && dump.wrong_bits > 900));
    assert_eq!(report.steps.total, (PAGES as u64 - 2) * 4);
    let mut back = Vec::new();
    let dump = Dump { pages: &mut &out[..], apart: None };
    decode(&scheme, dump, Some(&mut back), DecodeOptions::default(), &mut |_| ()).unwrap();
    assert!(back == data);
    // Without a code the majority alone is written: the few bits that two dumps have wrong stay wrong.
    let (voted, out) = merged(&Regions::one(RegionEcc::None), &dumps).unwrap();
    let wrong: u32 = out.iter().zip(&clean).map(|(one, other)| (one ^ other).count_ones()).sum();
    assert!(wrong < 30 && voted.steps.total == 0 && voted.undecided_bits == 0);
}

#[test]
fn two_dumps_without_a_majority_are_decided_by_the_code() {
    let scheme = scheme("large-page");
    let (_, clean) = written(&scheme);
    // One dump is good in even pages, the other one in odd pages.
    let bad = worn(&clean, 5, 30);
    let pick = |parity: usize| {
        let pages = clean.chunks_exact(2112).zip(bad.chunks_exact(2112)).enumerate();
        pages
            .flat_map(|(at, (clean, bad))| if at % 2 == parity { clean } else { bad }.to_vec())
            .collect::<Vec<u8>>()
    };
    let (report, out) = merged(&under(&scheme), &[pick(0), pick(1)]).unwrap();
    assert!(out == clean && report.is_good(), "{report:?}");
    assert!(report.undecided_bits > 1000 && report.steps.by_one_dump > 30);
    // Both have three wrong bits of their own and three in common: neither corrects, and turning some over does.
    let common = worn(&clean, 6, 3);
    let dumps = [worn(&common, 7, 2), worn(&common, 8, 2)];
    let (report, out) = merged(&under(&scheme), &dumps).unwrap();
    assert!(out == clean && report.is_good() && report.steps.by_combination > 60, "{report:?}");
}

#[test]
fn what_nothing_corrects_is_listed_and_shorter_dumps_are_filled_up() {
    let scheme = scheme("large-page");
    let (_, clean) = written(&scheme);
    let mut bad = clean.clone();
    bad[2112 * 7..2112 * 7 + 100].iter_mut().for_each(|byte| *byte ^= 0x5A);
    let (report, out) = merged(&under(&scheme), &[bad.clone(), bad.clone()]).unwrap();
    assert_eq!((report.steps.uncorrectable, report.uncorrectable[0].page, report.is_good()), (1, 7, false));
    assert_eq!(out, bad);
    let (report, out) = merged(&under(&scheme), &[clean[..2112 * 9].to_vec(), clean.clone()]).unwrap();
    assert!(out == clean && report.dumps[0].pages == 9 && report.pages == PAGES as u64);
    assert!(matches!(merged(&under(&scheme), &[]), Err(EccError::Dumps { count: 0 })));
    assert!(matches!(merged(&under(&scheme), &[vec![0; 10]]), Err(EccError::Short { .. })));
}

/// Dumps of two chips are refused with the share of bits that agree, and worn dumps of one chip are not.
#[test]
fn dumps_of_different_chips_are_refused() {
    let scheme = scheme("large-page");
    let (_, clean) = written(&scheme);
    let mut other = Vec::new();
    encode(&scheme, Form::WithOob, &mut &noise(2, PAGES * 2048)[..], &mut other, &mut |_| ()).unwrap();
    let EccError::OtherChip { dump: 3, other: 1, compared, alike: 0, agree } =
        merged(&under(&scheme), &[clean.clone(), clean.clone(), other]).unwrap_err()
    else {
        panic!("not of another chip")
    };
    // Two pages are erased in the first dump.
    assert!(compared == PAGES as u64 - 2 && (49.0..51.0).contains(&agree), "{compared} {agree}");
    let worn = worn(&clean, 4, 80);
    assert!(merged(&under(&scheme), &[clean, worn]).is_ok());
}

/// The error states why pages of one chip differ: missing OOB, shifts, missing pages, other page sizes. It names the odd dump, even if it is the first.
#[test]
fn dumps_with_their_bytes_at_other_places_are_told() {
    let scheme = scheme("large-page");
    let (data, clean) = written(&scheme);
    let of = |other: &[u8]| {
        let (mut first, mut other) = (&clean[..], other);
        let [first, other] = [&mut first, &mut other].map(|pages| Dump { pages, apart: None });
        displacement(&geometry(), first, other).unwrap()
    };
    let large = Scheme::new(
        PageGeometry::new(4096, 128, Some(4)).unwrap(),
        "bch4/512".parse().unwrap(),
        Layout::named("large-page").unwrap(),
    );
    let mut in_large = Vec::new();
    encode(&large.unwrap(), Form::WithOob, &mut &data[..], &mut in_large, &mut |_| ()).unwrap();
    let shifted = [&[0; 100][..], &clean].concat();
    let missing = [&clean[..2112 * 10], &clean[2112 * 11..]].concat();
    assert_eq!(of(&worn(&clean, 3, 2)), None);
    assert_eq!(of(&data), Some(Displacement::WithoutOob));
    assert_eq!(of(&shifted), Some(Displacement::InFront(100)));
    assert_eq!(of(&clean[64..]), Some(Displacement::FrontMissing(64)));
    assert_eq!(of(&missing), Some(Displacement::Missing { page: 11, bytes: 2112 }));
    assert_eq!(of(&in_large), Some(Displacement::OtherPages));
    assert_eq!(of(&noise(7, clean.len())), None);
    for other in [&data, &shifted, &missing, &in_large] {
        let refused = merged(&under(&scheme), &[clean.clone(), other.clone()]).unwrap_err();
        assert!(matches!(refused, EccError::OtherChip { dump: 2, other: 1, .. }), "{refused}");
    }
    let refused = merged(&under(&scheme), &[in_large.clone(), worn(&clean, 3, 2)]).unwrap_err();
    assert!(matches!(refused, EccError::OtherChip { dump: 1, other: 2, .. }), "{refused}");
    let refused = merged(&under(&scheme), &[missing, clean.clone(), clean]).unwrap_err();
    assert!(matches!(refused, EccError::OtherChip { dump: 1, other: 2, .. }), "{refused}");
}

/// A merge of one dump counts the steps of a decoding, also in an erased page with many wrong bits in one step. A dump with other bytes in the OOB is
/// refused where its code corrects nearly nothing.
#[test]
fn a_merge_counts_as_a_decoding_and_needs_the_oob() {
    let scheme = scheme("large-page");
    let (_, mut dump) = written(&scheme);
    dump[2112 * 3 + 600..2112 * 3 + 606].fill(0xFE);
    let (report, _) = merged(&under(&scheme), std::slice::from_ref(&dump)).unwrap();
    let pages = Dump { pages: &mut &dump[..], apart: None };
    let decoded = decode(&scheme, pages, None, DecodeOptions::default(), &mut |_| ()).unwrap();
    assert_eq!(
        (report.steps.total, report.steps.uncorrectable),
        (decoded.steps.total, decoded.steps.uncorrectable)
    );
    assert_eq!(report.steps.uncorrectable, 1);
    let mut other = dump.clone();
    other
        .chunks_exact_mut(2112)
        .zip(0..)
        .for_each(|(page, seed)| page[2050..].copy_from_slice(&noise(seed, 62)));
    let (report, _) = merged(&under(&scheme), &[dump, other]).unwrap();
    let refused = report.require_oob(2).unwrap_err();
    assert!(report.require_oob(1).is_ok(), "{report:?}");
    assert!(matches!(refused, EccError::OtherOob { dump: 2, other: 1, .. }), "{refused}");
}

/// A dump whose ECC bytes are in another layout is refused by name, and a worn dump of the same layout is not.
#[test]
fn dumps_of_other_layouts_are_refused() {
    let (scheme, other) = (scheme("large-page"), scheme("front"));
    let (_, clean) = written(&scheme);
    let (report, _) = merged(&under(&scheme), &[clean.clone(), written(&other).1]).unwrap();
    assert_eq!(report.doubtful().collect::<Vec<_>>(), [2]);
    let required = |dump: &[u8]| {
        let dump = Dump { pages: &mut &*dump, apart: None };
        require_layout(&geometry(), &under(&scheme), (2, dump))
    };
    let refused = required(&written(&other).1).unwrap_err().to_string();
    assert!(refused.contains("layout front") && refused.contains("layout large-page"), "{refused}");
    assert!(required(&worn(&clean, 4, 3)).is_ok() && required(&worn(&clean, 4, 80)).is_ok());
}

/// Without a code nothing decides where two dumps disagree, except in an erased page.
#[test]
fn ties_count_against_no_dump() {
    let (_, clean) = written(&scheme("large-page"));
    // Page 3 is erased, page 7 has data.
    let flip = |seed: u64| {
        let mut dump = clean.clone();
        let mut random = Random::new(seed);
        for page in [3, 7] {
            for _ in 0..20 {
                let bit = random.bits() as usize % (8 * 2112);
                dump[2112 * page + bit / 8] ^= 1 << (bit % 8);
            }
        }
        dump
    };
    let none = Regions::one(RegionEcc::None);
    let (one, other) = (flip(1), flip(2));
    let (report, out) = merged(&none, &[one.clone(), other.clone()]).unwrap();
    let (turned, again) = merged(&none, &[other, one]).unwrap();
    // Only where both dumps have the same wrong bit it stays.
    assert!(out[2112 * 3..2112 * 4].iter().map(|byte| byte.count_zeros()).sum::<u32>() < 3, "{report:?}");
    assert_eq!(out[2112 * 3..2112 * 4], again[2112 * 3..2112 * 4]);
    assert_eq!(report.dumps[0], turned.dumps[1]);
    assert_eq!(report.dumps[1], turned.dumps[0]);
    assert!(report.dumps.iter().all(|dump| (1..=20).contains(&dump.wrong_bits)), "{report:?}");
    assert!(report.undecided_bits > 60, "{report:?}");
}

/// A page that is erased in some dumps has data if its code corrects it in another one, in any order of the dumps. Without a code, as many dumps with data
/// suffice.
#[test]
fn data_win_over_erased_pages() {
    let scheme = scheme("large-page");
    let (_, clean) = written(&scheme);
    let mut erased = clean.clone();
    erased[2112 * 7..2112 * 8].fill(0xFF);
    let mut broken = clean.clone();
    broken[2112 * 7..2112 * 7 + 2048].iter_mut().step_by(3).for_each(|byte| *byte ^= 0x5A);
    let under = under(&scheme);
    let none = Regions::one(RegionEcc::None);
    let (one, two) = (&clean, &erased);
    for (regions, dumps, expected, counted) in [
        (&none, vec![one, two], &clean, (1, 0)),
        (&none, vec![two, one], &clean, (1, 0)),
        (&none, vec![two, one, two], &erased, (0, 1)),
        (&none, vec![one, two, one], &clean, (1, 0)),
        (&under, vec![two, one], &clean, (1, 0)),
        (&under, vec![two, one, two], &clean, (1, 0)),
        (&under, vec![two, &broken], &erased, (0, 1)),
        (&under, vec![&broken, &erased, &clean], &clean, (1, 0)),
        (&under, vec![one, one], &clean, (0, 0)),
    ] {
        let dumps: Vec<Vec<u8>> = dumps.into_iter().cloned().collect();
        let (report, out) = merged(regions, &dumps).unwrap();
        let found = report.erased_in_some;
        assert!(out == *expected && (found.as_data, found.as_erased) == counted, "{report:?}");
    }
}

/// A page that is erased in one dump and damaged in the other: neither the order of the dumps nor the page's place changes what is counted.
#[test]
fn the_order_of_dumps_changes_nothing() {
    const PAGE: usize = 2112;
    for layout in ["large-page", "front"] {
        let scheme = scheme(layout);
        let (_, clean) = written(&scheme);
        let change = |at: usize, how: &dyn Fn(&mut [u8])| {
            let mut dump = clean.clone();
            how(&mut dump[at * PAGE..(at + 1) * PAGE]);
            dump
        };
        let damage = |page: &mut [u8]| page.iter_mut().take(60).for_each(|byte| *byte ^= 0x5A);
        let erase = |page: &mut [u8]| page.fill(0xFF);
        // Pages 3 and 4 are erased; page 7 and 8 have data.
        for (one, other) in [(change(3, &damage), change(4, &damage)), (change(7, &erase), change(8, &erase))]
        {
            let dumps = [one, other];
            let (report, out) = merged(&under(&scheme), &dumps).unwrap();
            let [one, other] = dumps;
            let (turned, again) = merged(&under(&scheme), &[other, one]).unwrap();
            assert!(out == clean && again == clean, "{layout}: {report:?}");
            assert_eq!(report.steps, turned.steps, "{layout}");
            assert_eq!(report.dumps[0], turned.dumps[1], "{layout}");
            let [one, other] = [0, 1].map(|at| report.dumps[at].uncorrectable_alone);
            assert_eq!(one, other, "{layout}");
        }
        let (report, _) = merged(&under(&scheme), &[change(3, &damage), clean.clone()]).unwrap();
        assert_eq!(
            report.dumps.iter().map(|dump| dump.uncorrectable_alone).collect::<Vec<_>>(),
            [1, 0],
            "{layout}"
        );
    }
}
