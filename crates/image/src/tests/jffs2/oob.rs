//! Dumps of NAND with OOB: clean markers in the OOB, bad blocks, wrong bits.

use floatgate_mtd::random::Random;
use std::fs;

use floatgate_stack::fs::Timestamp;
use tempfile::TempDir;

use super::*;
use crate::ImageError;
use crate::check::{Outcome, check};
use crate::detect::{Content, PageShape};
use crate::dump::DumpTarget;
use crate::ecc::{self, Code, PageGeometry, Scheme};
use crate::edit::{EditError, EditOptions, ImagePath, PutOptions, edit};
use crate::format::jffs2::pages::clean_marker;
use crate::info::info;
use crate::repair::{Method, Repaired, repair};

/// Layout and protection of the pages in a dump.
#[derive(Clone, Copy, Debug)]
struct Pages {
    page: usize,
    oob: usize,
    code: Option<Code>,
    /// Offset of the clean marker in the OOB.
    marker: Option<usize>,
}

const BCH4: Code = Code::Bch { strength: 4, step_bytes: 512 };
const BCH8: Code = Code::Bch { strength: 8, step_bytes: 512 };
const HAMMING: Code = Code::Hamming { step_bytes: 256 };

/// Number of the first bad block in dumps with bad blocks; the last block is bad as well.
const BAD: usize = 2;

const ALL: [Pages; 7] = [
    Pages { page: 512, oob: 16, code: Some(HAMMING), marker: Some(8) },
    Pages { page: 512, oob: 16, code: Some(HAMMING), marker: None },
    Pages { page: 2048, oob: 64, code: Some(BCH4), marker: Some(2) },
    Pages { page: 2048, oob: 64, code: Some(HAMMING), marker: None },
    Pages { page: 2048, oob: 64, code: None, marker: Some(2) },
    Pages { page: 2048, oob: 128, code: Some(BCH8), marker: Some(2) },
    Pages { page: 4096, oob: 224, code: Some(BCH8), marker: None },
];

impl Pages {
    const fn full(&self) -> usize {
        self.page + self.oob
    }

    const fn block(&self) -> usize {
        64 * self.full()
    }

    /// Pages of an image with their OOB.
    fn encode(&self, image: &[u8], endian: Endian) -> Vec<u8> {
        let mut dump = Vec::new();
        if let Some(code) = self.code {
            let geometry = PageGeometry::new(self.page as u32, self.oob as u32, Some(64)).unwrap();
            let scheme = Scheme::linux(geometry, code).unwrap();
            ecc::encode(&scheme, ecc::Form::WithOob, &mut &image[..], &mut dump, &mut |_| {}).unwrap();
        } else {
            for page in image.chunks(self.page) {
                dump.extend_from_slice(page);
                dump.extend(std::iter::repeat_n(0xFF, self.oob));
            }
        }
        for block in dump.chunks_mut(self.block()) {
            if let Some(at) = self.marker {
                block[self.page + at..][..8].copy_from_slice(&clean_marker(endian));
            }
        }
        dump
    }

    const fn marker_of_bad(&self) -> usize {
        self.page + if self.page == 512 { 5 } else { 0 }
    }

    fn plain(&self, endian: Endian) -> Vec<u8> {
        made(&nand(self.page as u32, 12), endian, false, 3, 8 * 40 * self.page)
    }
}

fn shape_of(dump: &[u8]) -> PageShape {
    open(dump).corrected.expect("the dump has OOB").pages
}

/// Report on the only code of a dump.
fn report_on(dump: &[u8]) -> ecc::DecodeReport {
    open(dump).corrected.unwrap().reports().next().unwrap().clone()
}

fn outcome(bytes: &[u8]) -> Outcome {
    let report = check(&open(bytes), &Selection::default()).unwrap();
    report.outcome
}

#[test]
fn dumps_of_all_geometries_are_read_as_what_is_in_them() {
    for (number, pages) in ALL.iter().enumerate() {
        let endian = if number % 2 == 0 { Endian::Little } else { Endian::Big };
        let plain = pages.plain(endian);
        let dump = pages.encode(&plain, endian);
        let (page_bytes, oob_bytes) = (pages.page as u32, pages.oob as u32);
        assert_eq!(shape_of(&dump), PageShape { page_bytes, oob_bytes, pages_per_block: 64 }, "{pages:?}");
        let image = open(&dump);
        let Content::Jffs2(shape) = image.found[0].content else { panic!("{:?}", image.found) };
        assert_eq!((image.found.len(), image.found[0].offset), (1, 0), "{pages:?}");
        assert_eq!((shape.erase_bytes, shape.page_bytes), (64 * page_bytes, Some(page_bytes)));
        assert_eq!(shape.big_endian, endian == Endian::Big);
        let corrected = image.corrected.unwrap();
        let codes: Vec<_> = corrected.reports().map(|report| report.scheme.code.clone()).collect();
        assert_eq!(codes, Vec::from_iter(pages.code.map(|code| code.to_string())));
        assert_eq!(whole(&dump, &Selection::default()), whole(&plain, &Selection::default()), "{pages:?}");
        // The missing ECC is a note, and no damage.
        let report = check(&open(&dump), &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Clean, "{pages:?}");
        let is_noted = report.findings.iter().any(|finding| finding.what.contains("holds no ECC"));
        assert_eq!(is_noted, pages.code.is_none(), "{pages:?}");
    }
}

#[test]
fn wrong_bits_are_corrected_and_counted() {
    let pages = ALL[2];
    let plain = pages.plain(Endian::Little);
    let mut dump = pages.encode(&plain, Endian::Little);
    for page in 0..100 {
        dump[page * pages.full() + 7 * page % 2048] ^= 0x10;
    }
    let report = report_on(&dump);
    assert_eq!((report.corrected_bits, report.steps.uncorrectable), (100, 0));
    assert_eq!(whole(&dump, &Selection::default()), whole(&plain, &Selection::default()));
    let shown = info(&open(&dump)).unwrap().to_string();
    assert!(
        shown.contains("pages of 2048 + 64 bytes, 64 a block") && shown.contains("100 bits corrected")
            || shown.contains("100 bits"),
        "{shown}"
    );
    let places = crate::dump::dump(&open(&dump), &Selection::default(), &DumpTarget::Nodes).unwrap();
    let last = places.last().unwrap().at.unwrap() as usize;
    assert_eq!(dump[last..last + 2], Endian::Little.magic(), "places are those of the file");
}

/// Dump with a bad block of noise at the end, and one with nodes of another filesystem among the others.
fn with_bad_blocks(pages: &Pages, dump: &[u8]) -> Vec<u8> {
    let block = pages.block();
    let other = made(&nand(pages.page as u32, 12), Endian::Little, false, 99, 8 * 40 * pages.page);
    let mut old = pages.encode(&other[..64 * pages.page], Endian::Little);
    old[pages.marker_of_bad()] = 0;
    let mut last = noise(8, block);
    last[pages.marker_of_bad()] = 0;
    [&dump[..BAD * block], &old, &dump[BAD * block..], &last].concat()
}

#[test]
fn blocks_that_are_marked_bad_are_not_read() {
    for pages in [ALL[0], ALL[2], ALL[4]] {
        let plain = pages.plain(Endian::Little);
        let dump = with_bad_blocks(&pages, &pages.encode(&plain, Endian::Little));
        let image = open(&dump);
        assert_eq!(image.found.len(), 1, "{:?}", image.found);
        assert_eq!(image.found[0].bad_pebs, [BAD as u32, 13], "{pages:?}");
        assert!(info(&image).unwrap().to_string().contains("2 bad\n"), "one is behind all nodes");
        assert_eq!(whole(&dump, &Selection::default()), whole(&plain, &Selection::default()), "{pages:?}");
    }
}

/// One that is marked by mistake would lose files without a word.
#[test]
fn a_bad_block_with_good_nodes_is_noted_with_its_mark() {
    for pages in [ALL[0], ALL[2], ALL[4]] {
        let plain = pages.plain(Endian::Little);
        let whole = pages.encode(&plain, Endian::Little);
        let mut dump = whole.clone();
        let mark = pages.block() + pages.marker_of_bad();
        dump[mark] = 0;
        let report = check(&open(&dump), &Selection::default()).unwrap();
        let is_it = |finding: &&crate::check::Finding| finding.what.contains("eraseblock 1 is marked bad");
        let note = report.findings.iter().find(is_it).expect("it is noted");
        assert_eq!(note.offset, Some(pages.block() as u64), "{pages:?}");
        assert!(note.consequence.contains(&format!("FFh in byte {mark} ")), "{}", note.consequence);
    }
}

#[test]
fn dumps_that_begin_amid_a_block_or_behind_other_data_are_read() {
    let pages = ALL[2];
    let plain = pages.plain(Endian::Big);
    let dump = pages.encode(&plain, Endian::Big);
    let expected = whole(&plain, &Selection::default());
    let boot = pages.encode(&noise(4, 3 * 64 * 2048), Endian::Big);
    let behind = [&boot[..], &dump].concat();
    let offset = open(&behind).found[0].offset;
    assert_eq!(whole(&behind, &Selection::default()), expected, "a boot loader in front, {offset}");
    let header = [&noise(5, 100)[..], &dump].concat();
    assert_eq!(whole(&header, &Selection::default()), expected, "the header of a tool");
    // The last pages of an incomplete block.
    let amid = [&boot[pages.block() - 5 * pages.full()..], &dump].concat();
    assert_eq!(whole(&amid, &Selection::default()), expected, "a dump that begins amid a block");
    let cut = &dump[..dump.len() - 3 * pages.block() - 700];
    assert_eq!(whole(cut, &Selection::default()), expected, "cut off in what is erased");
}

fn options() -> EditOptions {
    EditOptions { time: Timestamp { seconds: 1_700_000_000, nanoseconds: 0 }, ..EditOptions::default() }
}

fn root() -> ImagePath {
    ImagePath::new("/").unwrap()
}

#[test]
fn dumps_are_changed_with_their_ecc_and_clean_markers() {
    for pages in [ALL[0], ALL[2], ALL[3]] {
        let plain = pages.plain(Endian::Little);
        let old = with_bad_blocks(&pages, &pages.encode(&plain, Endian::Little));
        let folder = TempDir::new().unwrap();
        let [image, new] = ["image", "new"].map(|name| folder.path().join(name));
        fs::write(&image, &old).unwrap();
        fs::write(&new, noise(6, 130 * pages.page)).unwrap();
        let expected = whole(&plain, &Selection::default());
        // Often enough that eraseblocks are collected.
        for round in 0..3 {
            edit(&image, &options(), &|editor| {
                editor.put(std::slice::from_ref(&new), &root(), PutOptions::default())
            })
            .unwrap_or_else(|error| panic!("{pages:?}, round {round}: {error}"));
        }
        let dump = fs::read(&image).unwrap();
        assert_eq!(dump.len(), old.len());
        let bad = BAD * pages.block()..(BAD + 1) * pages.block();
        assert!(dump[bad.clone()] == old[bad], "the bad block");
        let mut memory = whole(&dump, &Selection::default());
        let added = memory.files.remove("/new").unwrap();
        assert!(added.data == noise(6, 130 * pages.page));
        assert_eq!(without_root(memory).differences(&without_root(expected)), Vec::<String>::new());
        assert_eq!(outcome(&dump), Outcome::Clean, "{pages:?}");
        let report = report_on(&dump);
        assert_eq!((report.steps.uncorrectable, report.corrected_bits), (0, 0), "{pages:?}");
        for (number, block) in
            dump.chunks(pages.block()).enumerate().filter(|(number, _)| ![BAD, 13].contains(number))
        {
            let oob = &block[pages.page..pages.full()];
            let marked = pages.marker.map(|at| oob[at..at + 8] == clean_marker(Endian::Little));
            assert_ne!(marked, Some(false), "block {number} of {pages:?}");
        }
    }
}

/// Contents without the root, whose times change when a file is added.
fn without_root(mut memory: Memory) -> Memory {
    memory.files.remove("/");
    memory
}

#[test]
fn pages_that_cannot_be_corrected_are_repaired_and_keep_from_changing() {
    let pages = ALL[2];
    let plain = pages.plain(Endian::Little);
    let mut old = with_bad_blocks(&pages, &pages.encode(&plain, Endian::Little));
    let page = pages.block() + 10 * pages.full();
    let found = open(&old).found[0].len as usize / pages.page * pages.full();
    // In data, and in an erased page after the last node.
    for at in [page, found - pages.full()] {
        for bit in 0..9 {
            old[at + 16 * bit] ^= 0x22;
        }
    }
    let folder = TempDir::new().unwrap();
    let [image, new] = ["image", "new"].map(|name| folder.path().join(name));
    fs::write(&image, &old).unwrap();
    let refused =
        edit(&image, &options(), &|editor| editor.remove(&ImagePath::new("/dir-3-0").unwrap(), true));
    assert!(matches!(refused, Err(EditError::Image(ImageError::OobDamaged(_)))), "{refused:?}");
    let done = repair(&image, &new, &Selection::default()).unwrap();
    assert_eq!((done.method, done.outcome), (Method::Mended, Repaired::WithLosses), "{done:#?}");
    let dump = fs::read(&new).unwrap();
    assert_eq!(outcome(&dump), Outcome::Clean);
    assert!(done.losses.iter().any(|loss| loss.path.starts_with("/dir-3-")), "{done:#?}");
    let kept = read(&dump, &Selection::default()).0.files.len();
    assert_eq!(kept, read(&plain, &Selection::default()).0.files.len(), "all names");
}

/// A dump that cannot be repaired is refused with a reason.
#[test]
fn dumps_in_which_bytes_are_missing_are_repaired_or_refused() {
    let folder = TempDir::new().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    for pages in [ALL[0], ALL[2]] {
        let whole = pages.encode(&pages.plain(Endian::Little), Endian::Little);
        for (at, missing) in
            [(pages.full() * 70, pages.full()), (pages.full() * 70 + 99, 1), (99, 1), (0, pages.full())]
        {
            fs::write(&from, [&whole[..at], &whole[at + missing..]].concat()).unwrap();
            match repair(&from, &to, &Selection::default()) {
                Ok(done) => assert_eq!(done.outcome, Repaired::WithLosses, "{pages:?} {at} {missing}"),
                Err(error) => assert!(
                    !matches!(error, ImageError::NotRepaired),
                    "{pages:?}, {missing} bytes at {at}: {error}"
                ),
            }
        }
    }
}

#[test]
fn dumps_that_no_code_fits_are_not_changed() {
    let pages = ALL[4];
    let dump = pages.encode(&pages.plain(Endian::Little), Endian::Little);
    let folder = TempDir::new().unwrap();
    let image = folder.path().join("image");
    fs::write(&image, &dump).unwrap();
    let refused =
        edit(&image, &options(), &|editor| editor.remove(&ImagePath::new("/dir-3-0").unwrap(), true));
    assert!(matches!(refused, Err(EditError::Image(ImageError::OobReadOnly))), "{refused:?}");
    assert!(fs::read(&image).unwrap() == dump);
    // Clean images are copied, and others are refused by the repair as well, as the check states.
    let out = folder.path().join("out");
    assert_eq!(outcome(&dump), Outcome::Clean);
    assert_eq!(repair(&image, &out, &Selection::default()).unwrap().outcome, Repaired::Intact);
    assert!(fs::read(&out).unwrap() == dump);
    let mut damaged = dump;
    let data = 3 * (pages.page + pages.oob) + 100;
    damaged[data..data + 8].fill(0);
    fs::write(&image, &damaged).unwrap();
    assert_eq!(outcome(&damaged), Outcome::Damaged);
    let refused = repair(&image, &out, &Selection::default());
    assert!(matches!(refused, Err(ImageError::OobReadOnly)), "{refused:?}");
}

#[test]
fn images_without_oob_are_not_taken_for_such_dumps() {
    for page in [512, 2048, 4096] {
        let plain = made(&nand(page, 12), Endian::Little, false, 3, 8 * 40 * page as usize);
        assert!(open(&plain).corrected.is_none());
        let nor = made(&nor(24, 64 * page), Endian::Big, true, 3, 8 * 40 * page as usize);
        assert!(open(&nor).corrected.is_none());
    }
}

/// No read panics, takes long or fills memory, for any positions of nodes and markers.
#[test]
fn damaged_dumps_are_read_as_far_as_they_go() {
    let pages = ALL[0];
    let dump = pages.encode(&pages.plain(Endian::Little)[..2 * 64 * 512], Endian::Little);
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut damaged = dump.clone();
        for _ in 0..=random.below(200) {
            let at = random.below(damaged.len() as u64) as usize;
            match random.below(3) {
                0 => damaged[at] ^= 1 << random.below(8),
                1 => drop(damaged.drain(at..(at + 7).min(damaged.len()))),
                _ => {
                    let marker = clean_marker(if seed % 2 == 0 { Endian::Little } else { Endian::Big });
                    let at = at.min(damaged.len() - marker.len());
                    damaged[at..at + marker.len()].copy_from_slice(&marker);
                }
            }
        }
        crate::fuzzing::image(&damaged);
    }
}
