//! Dumps whose OOB contains no ECC, the ECC of an unknown code, or several codes.

use super::*;
use crate::RegionOutcome;
use crate::check::{Outcome, check};
use crate::ecc::{self, PageGeometry, Scheme};
use crate::info::info;
use floatgate_mtd::random::Random;

const PAGE: usize = 2048;
const OOB: usize = 64;
const FULL: usize = PAGE + OOB;
const BLOCK: usize = 64 * FULL;

/// OOB of a page, by its number.
type Oob<'a> = dyn Fn(usize) -> Vec<u8> + 'a;

fn geometry() -> Geometry {
    Geometry { sub_page_bytes: PAGE as u32, ..Geometry::nand_2048(60) }
}

/// The usual tree in a device, up to the last PEB in use.
fn image() -> Vec<u8> {
    image_of(7)
}

/// An [`image`] with this image sequence number.
fn image_of(image_seq: u32) -> Vec<u8> {
    let bytes = device(&geometry(), image_seq, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 40)).unwrap();
    });
    let bytes = in_order(&format(bytes, &geometry(), 0, true, |fs| populate(fs, 1)), &geometry());
    let peb = geometry().erase_bytes as usize;
    let used = bytes.chunks(peb).take_while(|peb| vid_header(peb).is_some()).count();
    bytes[..used * peb].to_vec()
}

fn encoded(image: &[u8], code: &str) -> Vec<u8> {
    let geometry = PageGeometry::new(PAGE as u32, OOB as u32, Some(64)).unwrap();
    let scheme = Scheme::linux(geometry, code.parse().unwrap()).unwrap();
    let mut out = Vec::new();
    ecc::encode(&scheme, ecc::Form::WithOob, &mut &image[..], &mut out, &mut |_| {}).unwrap();
    out
}

/// Pages whose OOB is derived from their number.
fn with_oob(image: &[u8], oob: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    image.chunks(PAGE).enumerate().flat_map(|(number, page)| [page, &oob(number)].concat()).collect()
}

fn data(image: &Image) -> Vec<u8> {
    let store = image.store().unwrap();
    let mut data = vec![0; store.size_bytes() as usize];
    store.read_at(0, &mut data).unwrap();
    data
}

fn outcomes(image: &Image) -> Vec<RegionOutcome> {
    image.corrected.as_ref().unwrap().regions.iter().map(|region| region.outcome.clone()).collect()
}

/// The OOB contains bytes that readers without OOB write in its place.
#[test]
fn oob_without_ecc_corrects_nothing() {
    let plain = image();
    let oobs: [(&str, &Oob<'_>); 5] = [
        ("zeros", &|_| vec![0; OOB]),
        ("good markers and zeros", &|_| [vec![0xFF; 2], vec![0; OOB - 2]].concat()),
        ("erased", &|_| vec![0xFF; OOB]),
        ("the same bytes", &|_| (0..OOB as u8).map(|at| at.wrapping_mul(37) ^ 0xA5).collect()),
        ("the same bytes behind a good marker", &|_| (0..OOB as u8).map(|at| 0xFF - at).collect()),
    ];
    for (what, oob) in oobs {
        let dump = with_oob(&plain, oob);
        let opened = open(&dump);
        assert!(data(&opened) == plain, "{what}");
        assert_eq!(outcomes(&opened), [RegionOutcome::None], "{what}");
        let shown = info(&opened).unwrap();
        assert!(
            shown.to_string().contains("the OOB holds no ECC: the pages are as they were read"),
            "{shown}"
        );
        assert!(!shown.is_uncorrected && !opened.has_unknown_code(&Selection::default()));
        let report = check(&opened, &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Clean, "{what}: {:#?}", report.findings);
        assert_whole(&dump, &Selection::default());
    }
}

/// An unknown code, or bytes of a controller: the data stays unchanged, and all commands report that nothing was
/// corrected.
#[test]
fn oob_that_no_code_explains_is_told_by_all_and_corrects_nothing() {
    let plain = image();
    let mut random = Random::new(3);
    let noise: Vec<Vec<u8>> =
        (0..plain.len() / PAGE).map(|_| (2..OOB).map(|_| random.bits() as u8).collect()).collect();
    let oobs: [(&str, &Oob<'_>); 2] = [
        ("another code", &|page| [vec![0xFF; 2], noise[page].clone()].concat()),
        ("numbers", &|page| [vec![0xFF; 2], (page as u32).to_le_bytes().repeat(15), vec![0; 2]].concat()),
    ];
    for (what, oob) in oobs {
        let opened = open(&with_oob(&plain, oob));
        assert!(data(&opened) == plain, "{what}");
        assert_eq!(outcomes(&opened), [RegionOutcome::Unknown], "{what}");
        let shown = info(&opened).unwrap();
        assert!(shown.is_uncorrected && shown.to_string().contains("no ECC code fits"), "{what}: {shown}");
        let report = check(&opened, &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Recoverable, "{what}");
        assert!(report.findings.iter().any(|finding| finding.what.contains("no ECC code fits")));
        let (_, extracted) = read(&with_oob(&plain, oob), &Selection::default());
        assert!(extracted.notes.iter().any(|note| note.contains("no ECC code fits")), "{what}");
    }
}

/// If the ECC of other controllers is interleaved with the data, it is not the OOB of a page.
#[test]
fn ecc_between_the_data_of_a_page_is_not_taken_for_another_code() {
    let plain = image();
    // Ten bytes, then four times data and noise in place of ECC bytes.
    let mut random = Random::new(4);
    let page = |page: &[u8]| {
        let steps = page.chunks(512).flat_map(|step| {
            let ecc: Vec<u8> = (0..13)
                .map(|_| if page.iter().all(|b| *b == 0xFF) { 0xFF } else { random.bits() as u8 })
                .collect();
            [step.to_vec(), ecc].concat()
        });
        [vec![0xFF; 10], steps.collect(), vec![0xFF; 2]].concat()
    };
    let dump: Vec<u8> = plain.chunks(PAGE).flat_map(page).collect();
    let opened = open(&dump);
    let corrected = opened.corrected.as_ref().unwrap();
    assert_eq!(corrected.reports().count(), 0, "{:#?}", corrected.regions);
    assert!(opened.has_unknown_code(&Selection::default()));
}

#[test]
fn each_part_of_a_dump_is_corrected_by_its_own_code() {
    let plain = [1, 2, 3].map(image_of);
    let mut boot = encoded(&plain[0], "hamming/256");
    let erased = vec![0xFF; 5 * BLOCK];
    let mut system = encoded(&plain[1], "bch4/512");
    let mut random = Random::new(9);
    let unprotected = with_oob(&plain[2], |_| vec![0x5A; OOB]);
    // A few bitflips, which only the right code corrects.
    for (part, pages) in [(&mut boot, 3), (&mut system, 2)] {
        for page in
            part.chunks_mut(FULL).step_by(pages).filter(|page| page[..PAGE].iter().any(|b| *b != 0xFF))
        {
            page[random.below(PAGE as u64) as usize] ^= 1 << random.below(8);
        }
    }
    let dump = [&boot[..], &erased, &system, &erased, &unprotected].concat();
    let opened = open(&dump);
    let gap = vec![0xFF; 5 * 64 * PAGE];
    let expected = [&plain[0][..], &gap, &plain[1], &gap, &plain[2]].concat();
    assert!(data(&opened) == expected);
    let regions = &opened.corrected.as_ref().unwrap().regions;
    let codes: Vec<_> =
        regions.iter().map(|region| region.report().map(|r| r.scheme.code.as_str())).collect();
    assert_eq!(codes, [Some("hamming/256"), Some("bch4/512"), None]);
    assert_eq!(regions[1].offset as usize, boot.len() + erased.len());
    assert!(
        regions
            .iter()
            .filter_map(|region| region.report())
            .all(|r| r.steps.uncorrectable == 0 && r.corrected_bits > 9)
    );
    let shown = info(&opened).unwrap().to_string();
    assert!(
        shown.contains("ECC hamming/256") && shown.contains("ECC bch4/512") && shown.contains("holds no ECC"),
        "{shown}"
    );
    // The images are those of the parts.
    for offset in [0, boot.len() + erased.len(), dump.len() - unprotected.len()] {
        let selection = Selection { offset: Some(offset as u64), ..Selection::default() };
        assert_whole(&dump, &selection);
    }
}

/// A few blocks after a power cut are damage of their region; many such blocks are their own region.
#[test]
fn damaged_blocks_belong_to_the_region_around() {
    let plain = [image(), image()].concat();
    let mut dump = encoded(&plain, "bch4/512");
    let blocks = dump.len() / BLOCK;
    let mut random = Random::new(2);
    let worn = blocks / 2;
    dump[worn * BLOCK..(worn + 1) * BLOCK].fill_with(|| random.bits() as u8);
    dump[worn * BLOCK + PAGE] = 0xFF;
    let opened = open(&dump);
    let [RegionOutcome::Code(report)] = &outcomes(&opened)[..] else { panic!("{:#?}", outcomes(&opened)) };
    assert_eq!(report.steps.uncorrectable, 64 * 4);
    // Its contents stay as they were read.
    let at = worn * 64 * PAGE;
    assert!(data(&opened)[at..at + PAGE] == dump[worn * BLOCK..][..PAGE]);
}

/// Controllers with bytes before and between the data: pages begin with the file, and have the sizes of the chip.
#[test]
fn interleaved_layouts_are_opened_with_the_pages_of_the_chip() {
    let plain = image();
    // Without block mark swapping, GPMI writes the same codewords: the ECC cannot distinguish these layouts.
    for name in ["gpmi", "mtk-snfi"] {
        let geometry = PageGeometry::new(PAGE as u32, OOB as u32, Some(64)).unwrap();
        let layout = ecc::Layout::named(name).unwrap();
        let code = layout.codes().iter().find(|code| code.strength() >= 4).copied().unwrap();
        let scheme = Scheme::new(geometry, code, layout).unwrap();
        let mut dump = Vec::new();
        ecc::encode(&scheme, ecc::Form::WithOob, &mut &plain[..], &mut dump, &mut |_| {}).unwrap();
        let opened = open(&dump);
        let pages = opened.corrected.as_ref().unwrap().pages;
        assert_eq!((pages.page_bytes, pages.oob_bytes), (PAGE as u32, OOB as u32), "{name}");
        assert_eq!(opened.file_byte(opened.found[0].offset), 0, "{name}");
        assert!(data(&opened) == plain, "{name}: other data");
        let shown = info(&opened).unwrap().to_string();
        assert!(!shown.contains("--code none"), "{name}: {shown}");
    }
}
