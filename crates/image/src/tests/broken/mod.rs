//! Broken images, and what is said of each: `tests/golden/images/NAME.txt`. `UPDATE_GOLDEN=1` rewrites what is said.
//!
//! An image is the sample with one damage, made anew each time ([`ubi`], [`structures`], [`files`]), or a file beside its text, NAME
//! without an ending: one that was trouble once. Every text has what `image check`, `image info` and `image extract` say, so that reading
//! it tells whether a user would know what is wrong, where, and what to do, and what a repair comes to. Of what `info` and `extract` say only those lines stand there that
//! the unbroken sample does not have (`+`), or that it has (`-`).

mod files;
mod outputs;
mod sample;
mod structures;
mod ubi;

use std::path::{Path, PathBuf};

use super::*;
use crate::diff::{DiffOptions, compare};
use crate::extract::{DirectoryTarget, TarTarget};
use crate::repair::{Repaired, repair};
use crate::walk::{Walk, WalkError};
use outputs::Outputs;
use sample::Sample;

/// A way to damage an image.
struct Damage {
    /// Name of the golden file.
    name: &'static str,
    /// Description of the damage.
    what: &'static str,
    /// Sample that is damaged.
    from: From,
    /// Function that makes the damage.
    make: fn(&mut Sample),
}

/// Sample that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// A UBI device with a UBIFS that was unmounted.
    Clean,
    /// The same device with a journal that must be replayed, and an orphan.
    Dirty,
    /// The UBIFS alone, as `mkfs.ubifs` creates it.
    Bare,
}

const fn clean(name: &'static str, what: &'static str, make: fn(&mut Sample)) -> Damage {
    Damage { name, what, from: From::Clean, make }
}

const fn dirty(name: &'static str, what: &'static str, make: fn(&mut Sample)) -> Damage {
    Damage { name, what, from: From::Dirty, make }
}

const fn bare_of(name: &'static str, what: &'static str, make: fn(&mut Sample)) -> Damage {
    Damage { name, what, from: From::Bare, make }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/images")
}

fn damages() -> impl Iterator<Item = &'static Damage> {
    ubi::DAMAGES.iter().chain(structures::DAMAGES).chain(files::DAMAGES)
}

/// All damaged images with their names and descriptions of the damage.
fn all() -> Vec<(String, String, Vec<u8>)> {
    let (clean, dirty, bare) = (Sample::clean(), Sample::dirty(), Sample::bare());
    let made = damages().map(|damage| {
        let mut sample = match damage.from {
            From::Clean => clean.clone(),
            From::Dirty => dirty.clone(),
            From::Bare => bare.clone(),
        };
        (damage.make)(&mut sample);
        (damage.name.to_owned(), damage.what.to_owned(), sample.bytes)
    });
    let stored = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let stored = stored.filter(|path| path.extension().is_none()).map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, "as it is stored".to_owned(), std::fs::read(&path).unwrap())
    });
    let mut all: Vec<_> = made.chain(stored).collect();
    all.sort();
    all
}

#[test]
fn every_broken_image_has_its_text() {
    let (all, whole) = (all(), Outputs::of(&Sample::clean().bytes));
    let compared = |bytes: &[u8]| Outputs::of(bytes).compared(&whole);
    let mut different = Vec::new();
    for (name, what, bytes) in &all {
        let text = format!("{name}: {what}\n\n{}", compared(bytes));
        assert!(!text.contains(outputs::BAD_REPAIR), "{text}");
        let golden = folder().join(format!("{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, text).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != text {
            different.push(text);
        }
    }
    assert!(different.is_empty(), "not as in the golden files:\n{}", different.join("\n"));
    let texts = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let texts = texts.filter(|path| path.extension().is_some_and(|ending| ending == "txt"));
    assert_eq!(texts.count(), all.len(), "a name is there twice, or a text of an image that is not there");
}

/// Damages that result in another valid filesystem, or that look like the result of a power cut, so that the former
/// state is unknown.
const CHANGED: [&str; 3] = ["inode-size-largest", "journal-first-node", "name-control"];

/// A loss that is not listed would be silent.
#[test]
fn repairs_that_list_no_loss_lose_nothing() {
    let [clean, dirty] =
        [Sample::clean(), Sample::dirty()].map(|sample| read(&sample.bytes, &Selection::default()).0);
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["image", "repaired"].map(|name| folder.path().join(name));
    let (mut compared, mut different) = (0, Vec::new());
    for (name, _, bytes) in all().into_iter().filter(|(name, ..)| !CHANGED.contains(&&**name)) {
        std::fs::write(&from, &bytes).unwrap();
        if repair(&from, &to, &Selection::default())
            .map_or(true, |report| report.outcome == Repaired::WithLosses)
        {
            continue;
        }
        let is_dirty = damages().any(|damage| damage.name == name && damage.from == From::Dirty);
        let whole = if is_dirty { &dirty } else { &clean };
        let repaired = std::fs::read(&to).unwrap();
        for found in open(&repaired).found {
            let selection = Selection { offset: Some(found.offset), ..Selection::default() };
            let differences = read(&repaired, &selection).0.differences(whole);
            different.extend(differences.into_iter().map(|what| format!("{name}: {what}")));
        }
        compared += 1;
    }
    assert!(different.is_empty(), "{different:#?}");
    assert!(compared > 50, "{compared}");
}

/// Checks of Linux (`fs/ubifs/debug.h`, `lprops.c`, `lpt_commit.c`, `orphan.c`), and problems that fsck.ubifs of
/// mtd-utils 2.3.1 reports.
const CHECKS: [&str; 54] = [
    "dbg_check_space_info",
    "dbg_check_dir",
    "dbg_check_lprops",
    "dbg_check_cats",
    "dbg_check_ltab",
    "dbg_chk_lpt_free_spc",
    "dbg_chk_lpt_sz",
    "dbg_check_synced_i_size",
    "dbg_check_heap",
    "dbg_check_bud_bytes",
    "dbg_check_znode",
    "dbg_check_tnc",
    "dbg_check_idx_size",
    "dbg_check_old_index",
    "dbg_check_filesystem",
    "dbg_check_lpt_nodes",
    "dbg_check_inode_size",
    "dbg_check_data_nodes_order",
    "dbg_check_nondata_nodes_order",
    "dbg_check_orphans",
    "SB_CORRUPTED",
    "MST_CORRUPTED",
    "LOG_CORRUPTED",
    "BUD_CORRUPTED",
    "TNC_CORRUPTED",
    "TNC_DATA_CORRUPTED",
    "ORPHAN_CORRUPTED",
    "INVALID_INO_NODE",
    "INVALID_DENT_NODE",
    "INVALID_DATA_NODE",
    "SCAN_CORRUPTED",
    "FILE_HAS_NO_INODE",
    "FILE_HAS_0_NLINK_INODE",
    "FILE_HAS_INCONSIST_TYPE",
    "FILE_HAS_TOO_MANY_DENT",
    "FILE_SHOULDNT_HAVE_DATA",
    "FILE_HAS_NO_DENT",
    "XATTR_HAS_NO_HOST",
    "XATTR_HAS_WRONG_HOST",
    "FILE_HAS_NO_ENCRYPT",
    "FILE_IS_DISCONNECTED",
    "FILE_ROOT_HAS_DENT",
    "DENTRY_IS_UNREACHABLE",
    "FILE_IS_INCONSISTENT",
    "EMPTY_TNC",
    "LPT_CORRUPTED",
    "NNODE_INCORRECT",
    "PNODE_INCORRECT",
    "LP_INCORRECT",
    "SPACE_STAT_INCORRECT",
    "LTAB_INCORRECT",
    "INCORRECT_IDX_SZ",
    "ROOT_DIR_NOT_FOUND",
    "DISCONNECTED_FILE_CANNOT_BE_RECOVERED",
];

/// Each check of Linux and fsck.ubifs in docs/checks.md finds the damages that are listed next to it.
#[test]
fn damages_beside_each_check_of_linux_are_found() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md");
    let text = std::fs::read_to_string(table).unwrap();
    let rows = text.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows.skip(1).map(|row| row.split(" | ").collect()).collect();
    for check in CHECKS {
        let is_it = |word: &str| word.trim_matches('`') == check;
        let listed = rows.iter().any(|row| row[0].split([' ', ',', ':', '|']).any(is_it));
        assert!(listed, "{check} has no row");
    }
    for row in rows {
        let names: Vec<&str> = row[2].split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty() || row[2].starts_with('-'), "no damage for {}", row[0]);
        for name in names {
            let golden = std::fs::read_to_string(folder().join(format!("{name}.txt")));
            let text = golden.unwrap_or_else(|error| panic!("{name}: {error}"));
            let check = text.split("image check --repair:").next().unwrap();
            assert!(!check.contains("exit 0"), "{} does not find {name}", row[0]);
        }
    }
}

#[test]
fn the_samples_are_not_broken() {
    for (sample, outcome) in [
        (Sample::clean(), "exit 0: clean"),
        (Sample::dirty(), "exit 1: recoverable"),
        (Sample::bare(), "exit 0: clean"),
    ] {
        let outputs = Outputs::of(&sample.bytes);
        assert!(outputs.check.contains(outcome), "{}", outputs.check);
        assert!(outputs.extract.ends_with("exit 0: nothing is lost\n"), "{}", outputs.extract);
    }
}

/// Images with data that no folder can contain, which must be listed as lost.
const LOSING: [&str; 18] = [
    "directory-contains-root",
    "directory-cut-off",
    "directory-in-itself",
    "directory-is-its-child",
    "directory-twice",
    "inode-size-largest",
    "link-zero",
    "name-absolute",
    "name-empty",
    "name-inode-0",
    "name-of-an-attribute",
    "name-parent",
    "name-self",
    "name-slash",
    "name-repeated",
    "name-twice",
    "name-without-inode",
    "name-zero",
];

#[test]
fn broken_images_are_extracted_into_their_folder_only() {
    let limits = ExtractLimits { bytes: 1 << 24, ..ExtractLimits::default() };
    let mut losing = 0;
    for (name, _, bytes) in all() {
        let open =
            || Extraction::open(&Image::over(file(&bytes), Access::Read).ok()?, &Selection::default()).ok();
        let (Some(first), Some(second)) = (open(), open()) else { continue };
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        let mut target = DirectoryTarget::new(&inner, false).unwrap();
        let extracted = first.run(&mut target, &limits, &|_| {}).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 1, "{name}");
        let mut target = TarTarget::new(Vec::new());
        let as_tar = second.run(&mut target, &limits, &|_| {}).unwrap_or_else(|e| panic!("{name}: {e}"));
        target.finish().unwrap();
        if LOSING.contains(&&*name) {
            assert!(!extracted.losses.is_empty() && !as_tar.losses.is_empty(), "{name}");
            losing += 1;
        }
    }
    assert_eq!(losing, LOSING.len());
}

/// Images with a directory that has several names, one of which may be inside it.
const LOOPS: [&str; 4] =
    ["directory-contains-root", "directory-in-itself", "directory-is-its-child", "directory-twice"];

#[test]
fn every_walk_of_a_broken_image_ends() {
    let mut loops = Vec::new();
    for (name, _, bytes) in all() {
        let mount = || {
            let image = Image::over(file(&bytes), Access::Read).ok()?;
            image.mount(&Selection::default(), true, Behaviour::default()).ok()
        };
        let (Some(mut fs), Some(mut other)) = (mount(), mount()) else { continue };
        let mut walk = Walk::new(fs.root());
        let steps = std::iter::from_fn(|| walk.next(&mut *fs)).take(10_000);
        let refused = steps.filter(|step| matches!(step, Err((_, WalkError::Refused(_))))).count();
        let report = compare(&mut *fs, &mut *other, &DiffOptions::default());
        assert!(report.entries < 10_000, "{name}");
        if refused > 0 {
            assert!(refused < 10, "{name}");
            loops.push(name);
        }
    }
    assert_eq!(loops, LOOPS);
}
