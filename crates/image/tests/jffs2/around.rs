//! Images with something in front of them or behind them that is neither nodes nor erased flash: it is told, with the command that leads on.

use std::fs;

use floatgate_image::check::{Finding, Outcome, check};
use floatgate_image::edit::{EditError, EditOptions, GrowTo};
use floatgate_image::extract::{ExtractLimits, Extractions, TarTarget};
use floatgate_image::info::info;
use floatgate_image::{Part, Selection};
use floatgate_mtd::advice::Help as _;

use super::edited::{ERASE, KINDS, NOW, image, noise, outcome, put};
use super::repaired::{byte_of_name, listing, repaired};
use super::{contents, mounted, open, text};

/// Notes of what stands around an image that is clean otherwise.
fn notes(bytes: &[u8]) -> Vec<Finding> {
    let report = check(&open(bytes).unwrap(), &Selection::default()).unwrap();
    assert_eq!(report.outcome, Outcome::Clean, "{:?}", report.findings);
    report.findings
}

fn around(bytes: &[u8]) -> Vec<Part> {
    info(&open(bytes).unwrap()).unwrap().images[0].jffs2.as_ref().unwrap().around.clone()
}

/// The bytes that the `dd` of an advice cuts out.
fn cut(bytes: &[u8], advice: &str) -> Vec<u8> {
    let number = |name: &str| -> usize {
        let (_, rest) = advice.split_once(name).unwrap_or_else(|| panic!("{advice}"));
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    assert!(advice.contains("`dd if=FILE of=IMAGE bs=64k iflag=skip_bytes,count_bytes skip="), "{advice}");
    bytes[number("skip=")..][..number("count=")].to_vec()
}

/// The eraseblocks of an image that have nodes.
fn used(kind: super::edited::Kind) -> Vec<u8> {
    let mut bytes = image(kind);
    let last = bytes.iter().rposition(|&byte| byte != 0xFF).unwrap();
    bytes.truncate((last + 1).next_multiple_of(ERASE));
    bytes
}

#[test]
fn what_has_overwritten_the_last_eraseblocks_of_a_file_is_noted() {
    for kind in KINDS {
        let whole = used(kind);
        for with in [vec![0; 2 * ERASE], noise(9, 2 * ERASE)] {
            let start = whole.len() - ERASE;
            let mut bytes = whole.clone();
            bytes.truncate(start);
            bytes.extend(&with);
            let name = format!("{kind:?} {}", with[0]);
            let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
            let note = report.findings.iter().find(|finding| finding.structure.name() == "file").unwrap();
            assert_eq!(note.offset, Some(start as u64), "{name}");
            assert!(
                note.what.contains(&format!("bytes {start} to {}", bytes.len())),
                "{name}: {}",
                note.what
            );
            assert_eq!(around(&bytes), [Part { offset: start as u64, len: with.len() as u64 }], "{name}");
            assert!(info(&open(&bytes).unwrap()).unwrap().to_string().contains(&format!("bytes {start} to")));
            // The advice leads to an image that can be changed.
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("image");
            fs::write(&file, cut(&bytes, &note.consequence)).unwrap();
            let options =
                EditOptions { growth: GrowTo::Lebs(40), time: NOW, recover: true, ..EditOptions::default() };
            put(&file, &options, "new", b"new").unwrap();
            assert_eq!(fs::metadata(&file).unwrap().len(), 40 * ERASE as u64, "{name}");
        }
    }
}

#[test]
fn what_has_overwritten_the_first_eraseblock_is_noted() {
    for kind in KINDS {
        let whole = used(kind);
        let first = [noise(7, ERASE), whole.clone()].concat();
        let notes = notes(&first);
        let places: Vec<_> = notes.iter().map(|note| (note.structure.name(), note.offset)).collect();
        assert_eq!(places, [("file", Some(0))], "{kind:?}");
        assert!(notes[0].what.contains("in front of the nodes"), "{kind:?}: {}", notes[0].what);
        assert_eq!(around(&first), [Part { offset: 0, len: ERASE as u64 }], "{kind:?}");
        assert!(
            contents(&mut *mounted(&cut(&first, &notes[0].consequence)), "/dir/text") == text(),
            "{kind:?}"
        );
        // What tells its format is no damage.
        let mut kernel = noise(7, ERASE);
        kernel[..4].copy_from_slice(&[0x27, 0x05, 0x19, 0x56]);
        assert_eq!(self::notes(&[kernel, whole].concat()), [], "{kind:?}");
    }
}

/// Behind the last node, in its own eraseblock and in the file's last one, where `put` refuses to write.
#[test]
fn a_check_tells_what_a_change_refuses() {
    for kind in KINDS {
        let mut bytes = used(kind);
        let last = bytes.iter().rposition(|&byte| byte != 0xFF).unwrap();
        let tail = (last + 1).next_multiple_of(512) + 512;
        if tail + 100 > bytes.len() {
            continue;
        }
        bytes[tail..tail + 100].copy_from_slice(&noise(9, 100));
        let notes = notes(&bytes);
        assert_eq!(notes.iter().map(|note| note.offset).collect::<Vec<_>>(), [Some(tail as u64)], "{kind:?}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image");
        fs::write(&file, &bytes).unwrap();
        let options = EditOptions { growth: GrowTo::Needed, time: NOW, ..EditOptions::default() };
        let refused = put(&file, &options, "new", b"new").unwrap_err();
        fs::write(&file, cut(&bytes, &refused.help().to_string())).unwrap();
        put(&file, &options, "new", b"new").unwrap();
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        assert!(contents(&mut *mounted(&fs::read(&file).unwrap()), "/data") == noise(1, 100_000), "{kind:?}");
    }
}

/// A check, `info` and a repair tell the same place of the same damage.
#[test]
fn places_are_bytes_of_the_file() {
    for kind in KINDS.into_iter().filter(|kind| !kind.summaries) {
        let mut bytes = [noise(3, ERASE + 100), image(kind)].concat();
        let node = byte_of_name(&image(kind), kind.endian, b"text", 0) + ERASE + 100;
        bytes[node + 41] ^= 1;
        let image = open(&bytes).unwrap();
        let report = check(&image, &Selection::default()).unwrap();
        assert!(report.findings.iter().any(|finding| finding.offset == Some(node as u64)), "{report:?}");
        let place = format!("at byte {node} ({node:#x})");
        let told = info(&image).unwrap().images[0].jffs2.as_ref().unwrap().damage.join("\n");
        assert!(told.contains(&place), "{kind:?}: {place}: {told}");
        let extractions = Extractions::open(&image, &Selection::default()).unwrap();
        let mut target = TarTarget::new(Vec::new());
        let extracted = extractions.run(&mut target, &ExtractLimits::default(), &|_| {}).unwrap();
        assert!(extracted.losses.iter().any(|loss| loss.what.contains(&place)), "{:?}", extracted.losses);
        let (report, _) = repaired(&format!("{kind:?}"), &bytes).unwrap();
        assert!(report.losses.iter().any(|loss| loss.what.contains(&place)), "{:?}", report.losses);
    }
}

/// A repair writes over nothing that may be other data.
#[test]
fn a_repair_leaves_what_follows_alone() {
    for kind in KINDS {
        let mut bytes = used(kind);
        let end = (bytes.iter().rposition(|&byte| byte != 0xFF).unwrap() + 1).next_multiple_of(4);
        bytes.truncate(end);
        bytes.extend(noise(9, 3 * ERASE));
        bytes[ERASE + 100] ^= 1;
        let (_, new) = repaired(&format!("{kind:?}"), &bytes).unwrap();
        assert!(new[end..] == bytes[end..] && new[..end] != bytes[..end], "{kind:?}");
    }
}

/// Where something else follows in the file, the advice is the command with its numbers.
#[test]
fn an_image_that_cannot_grow_is_cut_out() {
    for kind in KINDS {
        let bytes = [noise(3, ERASE + 100), used(kind), noise(4, 3 * ERASE)].concat();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image");
        fs::write(&file, &bytes).unwrap();
        let options = EditOptions { growth: GrowTo::Needed, time: NOW, ..EditOptions::default() };
        let refused = put(&file, &options, "new", b"new").unwrap_err();
        let own = cut(&bytes, &refused.help().to_string());
        assert!(own == used(kind), "{kind:?}: {}", refused.help());
        fs::write(&file, own).unwrap();
        put(&file, &options, "new", b"new").unwrap();
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
    }
}

/// Bytes of which nothing tells what was there are told as that, and are neither clean without a word nor lost.
#[test]
fn a_verdict_says_what_cannot_be_told() {
    for kind in KINDS {
        let whole = used(kind);
        let start = whole.len();
        let bytes = [&whole[..], &noise(9, 2 * ERASE)].concat();
        let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
        assert_eq!(report.unknown, [Part { offset: start as u64, len: 2 * ERASE as u64 }], "{kind:?}");
        let untold = format!("what was in bytes {start} to {} cannot be told", bytes.len());
        assert_eq!(report.undetermined().as_deref(), Some(&*untold), "{kind:?}");
        assert_eq!(
            check(&open(&whole).unwrap(), &Selection::default()).unwrap().undetermined(),
            None,
            "{kind:?}"
        );
    }
}

/// One more option makes a change possible if something has overwritten the rest of the flash.
#[test]
fn a_recovery_takes_the_rest_of_the_file_if_it_is_told_to() {
    for kind in KINDS {
        let whole = used(kind);
        let end = (whole.iter().rposition(|&byte| byte != 0xFF).unwrap() + 1).next_multiple_of(512);
        for from in [whole.len(), whole.len() - ERASE, end] {
            let name = format!("{kind:?} from {from}");
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("image");
            let bytes = [&whole[..from], &noise(9, 9 * ERASE - from % ERASE)].concat();
            fs::write(&file, &bytes).unwrap();
            let before = listing(&mut *mounted(&bytes));
            let options = EditOptions { time: NOW, ..EditOptions::default() };
            let refused = put(&file, &options, "new", b"new").unwrap_err();
            let help = refused.help().to_string();
            let (_, lebs) = help.split_once("--lebs ").unwrap_or_else(|| panic!("{name}: {help}"));
            let lebs: u32 = lebs.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
            assert!(help.contains("--recover"), "{name}: {help}");
            let options = EditOptions { growth: GrowTo::Lebs(lebs), recover: true, ..options };
            put(&file, &options, "new", &noise(7, 30_000)).unwrap();
            let new = fs::read(&file).unwrap();
            assert_eq!(new.len(), bytes.len().next_multiple_of(ERASE), "{name}");
            let report = check(&open(&new).unwrap(), &Selection::default()).unwrap();
            assert!(report.unknown.is_empty(), "{name}");
            let is_clean =
                check(&open(&bytes).unwrap(), &Selection::default()).unwrap().outcome == Outcome::Clean;
            assert!(!is_clean || report.outcome == Outcome::Clean, "{name}: {:?}", report.findings);
            let mut after = listing(&mut *mounted(&new));
            assert!(after.remove("/new") == Some(Some(noise(7, 30_000))), "{name}");
            assert!(after == before, "{name}");
            put(&file, &EditOptions { time: NOW, ..EditOptions::default() }, "more", b"more").unwrap();
        }
    }
}

/// On NOR clean markers say which eraseblocks are its own, so that the next change finds those that it was given. On NAND nothing would.
#[test]
fn an_image_before_other_data_keeps_the_eraseblocks_that_it_gets() {
    for kind in KINDS {
        let whole = used(kind);
        let erased = vec![0xFF; 12 * ERASE];
        let bytes = [&whole[..], &erased, &noise(9, ERASE)].concat();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image");
        fs::write(&file, &bytes).unwrap();
        let blocks = u32::try_from(whole.len() / ERASE).unwrap() + 12;
        let options = EditOptions { growth: GrowTo::Lebs(blocks), time: NOW, ..EditOptions::default() };
        let changed = put(&file, &options, "new", b"new");
        if kind.is_nand {
            let error = changed.unwrap_err();
            assert!(matches!(error, EditError::Lebs { .. }), "{kind:?}: {error}");
            assert!(error.help().to_string().contains("cuts it out"), "{}", error.help());
            continue;
        }
        changed.unwrap();
        put(&file, &EditOptions { time: NOW, ..EditOptions::default() }, "more", &noise(2, 8 * ERASE))
            .unwrap();
        let new = fs::read(&file).unwrap();
        assert!(new.len() == bytes.len() && new.ends_with(&noise(9, ERASE)), "{kind:?}");
        let found = &open(&new).unwrap().found[0];
        assert_eq!(found.len, u64::from(blocks) * ERASE as u64, "{kind:?}");
    }
}
