//! Checks and repairs of dumps with OOB.

use floatgate_mtd::random::Random;
use std::path::PathBuf;

use floatgate_stack::fs::Rename;
use tempfile::TempDir;

use super::*;
use crate::ImageError;
use crate::check::{CheckReport, Outcome, check};
use crate::diff::{DiffOptions, DiffReport, diff};
use crate::dump::{Area, DumpTarget, dump};
use crate::ecc::{self, Code, DecodeOptions, DecodeReport, Dump, PageGeometry, Scheme};
use crate::info::info;
use crate::repair::{Method, RepairReport, Repaired, repair};

/// Pages of 2048 + 64 bytes, with a usual ECC of controllers.
const PAGE: usize = 2048;
const FULL: usize = 2112;
const BLOCK: usize = 64 * FULL;
const PEB: usize = 64 * PAGE;
const PEBS: usize = 60;

/// VID headers are in sub-pages.
const VID: usize = 512;

fn any() -> Selection {
    Selection::default()
}

fn scheme() -> Scheme {
    let geometry = PageGeometry::new(PAGE as u32, (FULL - PAGE) as u32, Some(64)).unwrap();
    Scheme::linux(geometry, Code::Bch { strength: 4, step_bytes: 512 }).unwrap()
}

fn with_oob(image: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ecc::encode(&scheme(), ecc::Form::WithOob, &mut &image[..], &mut out, &mut |_| {}).unwrap();
    out
}

/// Results of the ECC of a dump.
fn decoded(dump: &[u8]) -> (DecodeReport, Vec<u8>) {
    let (mut pages, mut data) = (dump, Vec::new());
    let dump = Dump { pages: &mut pages, apart: None };
    let report = ecc::decode(&scheme(), dump, Some(&mut data), DecodeOptions::default(), &mut |_| {});
    (report.unwrap(), data)
}

/// Offset in a dump for an offset in the image.
fn place(at: usize) -> usize {
    at / PAGE * FULL + at % PAGE
}

fn checked(bytes: &[u8]) -> CheckReport {
    check(&open(bytes), &any()).unwrap()
}

fn repaired(bytes: &[u8]) -> Result<(RepairReport, Vec<u8>), ImageError> {
    let folder = TempDir::new().unwrap();
    let [from, to]: [PathBuf; 2] = ["image", "repaired"].map(|name| folder.path().join(name));
    std::fs::write(&from, bytes).unwrap();
    let report = repair(&from, &to, &Selection::default())?;
    assert!(std::fs::read(&from).unwrap() == bytes, "the image itself stays");
    Ok((report, std::fs::read(&to).unwrap()))
}

fn compared(one: &[u8], other: &[u8]) -> DiffReport {
    diff([(&open(one), &any()), (&open(other), &any())], &DiffOptions::default()).unwrap()
}

fn geometry() -> Geometry {
    Geometry::nand_2048(PEBS as u32)
}

/// A device with one volume, unmounted or not.
fn image(clean: bool) -> Vec<u8> {
    let bytes = device(&geometry(), 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 40)).unwrap();
    });
    format(bytes, &geometry(), 0, clean, |fs| {
        fs.sync().unwrap();
        populate(fs, 1);
        let root = fs.root();
        let names = [b"tty", b"fee"].map(|name| floatgate_stack::fs::Name { directory: root, name });
        fs.rename(names[0], names[1], Rename::Replace).unwrap();
        let all = fs.read_dir(root, None, usize::MAX).unwrap();
        all.iter().for_each(|entry| fs.fsync(entry.inode).unwrap());
        fs.fsync(root).unwrap();
    })
}

/// Marks blocks of a dump as bad that no LEB needs, and adds `flips` correctable bitflips to each page of others.
fn worn(image: &[u8], flips: usize) -> (Vec<u8>, Vec<usize>) {
    let mut dump = with_oob(image);
    let free: Vec<usize> = (0..PEBS).filter(|pnum| image[pnum * PEB + VID..][..4] == [0xFF; 4]).collect();
    let bad = [free[1], free[free.len() - 2]];
    let mut random = Random::new(5);
    for page in (0..PEBS * 64).step_by(7) {
        for flip in 0..flips {
            // One bitflip in each step, in its data or its ECC.
            let at = if flip < 4 { flip * 512 + random.below(512) as usize } else { FULL - 20 };
            dump[page * FULL + at] ^= 1 << random.below(8);
        }
        // A program has written to the free part of the OOB.
        dump[page * FULL + PAGE + 3] = 0x5A;
    }
    for (index, &pnum) in bad.iter().enumerate() {
        let block = &mut dump[pnum * BLOCK..(pnum + 1) * BLOCK];
        // One block is only marked, the other is full of noise.
        if index > 0 {
            block.iter_mut().for_each(|byte| *byte = random.bits() as u8);
        }
        block[PAGE] = 0;
    }
    (dump, bad.to_vec())
}

/// A page that is missing in one of the first blocks does not lead to pages of sizes that no chip has.
#[test]
fn a_missing_page_does_not_change_the_sizes_of_pages() {
    let dump = with_oob(&image(true));
    for page in [70, 30] {
        let bytes = [&dump[..page * FULL], &dump[(page + 1) * FULL..]].concat();
        let pages = open(&bytes).corrected.map(|corrected| corrected.pages).unwrap();
        assert_eq!((pages.page_bytes, pages.oob_bytes), (PAGE as u32, (FULL - PAGE) as u32), "{page}");
    }
}

/// Bad blocks are neither free nor corrupted.
#[test]
fn bad_blocks_are_told() {
    let (dump, bad) = worn(&image(true), 2);
    let described = info(&open(&dump)).unwrap();
    let ubi = described.images[0].ubi.as_ref().unwrap();
    assert_eq!((ubi.bad_pebs as usize, ubi.corrupted_pebs), (bad.len(), 0));
    assert_eq!(ubi.free_pebs + ubi.mapped_pebs + ubi.bad_pebs, PEBS as u32);
    assert!(described.to_string().contains("free, 0 corrupted, 2 bad;"), "{described}");
}

/// Checks that a repaired dump equals the old one, except for the necessary changes.
fn assert_repaired(old: &[u8], new: &[u8], bad: &[usize]) {
    assert_eq!(new.len(), old.len());
    for pnum in bad {
        let block = pnum * BLOCK..(pnum + 1) * BLOCK;
        assert!(new[block.clone()] == old[block], "block {pnum} is bad");
    }
    let (report, data) = decoded(new);
    let bars = (report.corrected_bits, report.erased.bitflips, report.steps.uncorrectable);
    assert_eq!(bars, (0, 0, 0), "wrong bits");
    assert_eq!(report.bad_blocks.unwrap().bad, bad.iter().map(|pnum| *pnum as u64).collect::<Vec<_>>());
    let (_, old_data) = decoded(old);
    for page in (0..PEBS * 64).filter(|page| !bad.contains(&(page / 64))) {
        let bytes = page * PAGE..(page + 1) * PAGE;
        let (old, new) = (&old[page * FULL..][..FULL], &new[page * FULL..][..FULL]);
        if data[bytes.clone()] == old_data[bytes] && new[PAGE..] != [0xFF; FULL - PAGE] {
            assert!(new[PAGE + 3] == old[PAGE + 3] || new[PAGE + 3] == 0xFF, "page {page}");
        }
    }
    let again = checked(new);
    assert_eq!(again.outcome, Outcome::Clean, "{:#?}", again.findings);
    assert_eq!(again.images[0].pebs.unwrap().bad as usize, bad.len());
}

#[test]
fn wrong_bits_of_a_clean_dump_are_corrected() {
    let whole = image(true);
    let (old, bad) = worn(&whole, 5);
    let (done, new) = repaired(&old).unwrap();
    assert_eq!((done.method, done.outcome), (Method::Copied, Repaired::Intact), "{:#?}", done.before);
    assert_repaired(&old, &new, &bad);
    assert!(done.corrected_pages > 400, "{}", done.corrected_pages);
    // All bits except the wrong ones are unchanged.
    let page = 7 * FULL..8 * FULL;
    let mut expected = with_oob(&whole)[page.clone()].to_vec();
    expected[PAGE + 3] = 0x5A;
    assert!(new[page] == expected);
    assert!(compared(&whole, &new).is_same());
}

#[test]
fn a_dump_that_was_cut_off_is_recovered_with_its_oob() {
    let whole = image(false);
    let (old, bad) = worn(&whole, 4);
    let (done, new) = repaired(&old).unwrap();
    assert_eq!(done.method, Method::Recovered, "{:#?}", done.before);
    assert_eq!(done.outcome, Repaired::Wholly);
    assert_repaired(&old, &new, &bad);
    let same = compared(&whole, &new);
    assert!(same.is_same() && same.trouble.is_empty() && same.entries > 10, "{same:#?}");
}

#[test]
fn a_damaged_dump_is_written_anew_with_its_oob() {
    let whole = image(true);
    let (old, bad) = worn(&whole, 3);
    let master = dump(&open(&whole), &any(), &DumpTarget::Area(Area::Master)).unwrap();
    let index = dump(&open(&whole), &any(), &DumpTarget::Area(Area::Index)).unwrap();
    let vid = (0..PEBS).rfind(|pnum| whole[pnum * PEB + VID..][..4] == *b"UBI!").unwrap() * PEB + VID;
    for at in [master[0].at.unwrap() as usize, index[0].at.unwrap() as usize, vid] {
        let mut old = old.clone();
        // More bitflips than the ECC corrects.
        for bit in 0..9 {
            old[place(at) + bit] ^= 0x10;
        }
        let (done, new) = repaired(&old).unwrap();
        let findings = &done.before.findings;
        assert!(findings.iter().any(|finding| finding.what.contains("more wrong bits")), "{findings:#?}");
        assert_eq!(done.method, Method::Rebuilt);
        assert_repaired(&old, &new, &bad);
        let same = compared(&whole, &new);
        assert!(same.is_same() && same.trouble.is_empty(), "{at:#x}: {same:#?}\n{:#?}", done);
    }
}

#[test]
fn a_dump_that_ends_early_gets_whole_blocks() {
    let whole = image(true);
    let dump = with_oob(&whole);
    let used = (0..PEBS).rfind(|pnum| whole[pnum * PEB + VID..][..4] == *b"UBI!").unwrap();
    let old = &dump[..used * BLOCK + 17 * FULL + 300];
    let (_, new) = repaired(old).unwrap();
    assert!(new.len().is_multiple_of(BLOCK) && new.len() >= (used + 1) * BLOCK, "{}", new.len());
    assert_eq!(decoded(&new).0.steps.uncorrectable, 0);
}

#[test]
fn a_volume_larger_than_a_dump_with_bad_blocks_is_clean() {
    let whole = in_order(&image(true), &geometry());
    let used = whole.chunks(PEB).take_while(|peb| vid_header(peb).is_some()).count();
    assert!(used + 3 < 40, "the volume should be larger");
    let mut dump = with_oob(&whole[..(used + 3) * PEB]);
    for pnum in [used, used + 1] {
        dump[pnum * BLOCK + PAGE] = 0;
    }
    let report = checked(&dump);
    assert_eq!((report.outcome, report.findings), (Outcome::Clean, Vec::new()));
}

#[test]
fn a_dump_that_no_code_fits_is_refused() {
    let mut dump = with_oob(&image(false));
    let mut random = Random::new(6);
    dump.chunks_mut(FULL).for_each(|page| page[PAGE + 1..].fill_with(|| random.bits() as u8));
    let outcome = repaired(&dump);
    assert!(matches!(outcome, Err(ImageError::OobReadOnly)), "{:?}", outcome.map(|(done, _)| done));
}

/// A dump that cannot be repaired is refused with a reason.
#[test]
fn dumps_in_which_bytes_are_missing_are_repaired_or_refused() {
    let whole = with_oob(&image(true));
    for (at, missing) in [(FULL * 70, FULL), (FULL * 70 + 99, 1), (99, 1), (0, FULL), (FULL * 64 * 3 + 5, 1)]
    {
        let bytes = [&whole[..at], &whole[at + missing..]].concat();
        if let Err(error) = repaired(&bytes) {
            assert!(!matches!(error, ImageError::NotRepaired), "{missing} bytes at {at}: {error}");
        }
    }
    // Without OOB, the following data is found as another device.
    let whole = image(true);
    let mut refused = 0;
    for at in [100, 5000, 70_000, 140_000, 1_000_000] {
        let bytes = [&whole[..at], &whole[at + 1..]].concat();
        match repaired(&bytes) {
            Ok(_) => {}
            Err(ImageError::NotRepairable(why)) if why.contains("a UBI device goes on") => refused += 1,
            Err(error) => panic!("a byte at {at}: {error}"),
        }
    }
    assert!(refused > 1, "{refused}");
}
