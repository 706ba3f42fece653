//! Images whose first eraseblock is lost, and with it the names in the root directory.

use std::fs;

use floatgate_image::check::{Outcome, check};
use floatgate_image::edit::{EditError, EditOptions, Editor, ImagePath, edit};
use floatgate_image::repair::Repaired;
use floatgate_image::{ImageError, Selection};
use floatgate_stack::fs::{NewFile, NewKind};

use super::edited::{ERASE, KINDS, Kind, NOW, REGULAR, filled, noise};
use super::repaired::{listing, repaired};
use super::{IMAGES, contents, mounted, open};

/// An image without its first eraseblock: a file, and a directory with two, whose names are there.
fn without_first(kind: Kind, with: &[u8]) -> Vec<u8> {
    let mut bytes = filled(kind, |fs| {
        let new = |kind| NewFile { kind, permissions: 0o755, uid: 0, gid: 0 };
        let dir = fs.create(1, b"dir", &new(NewKind::Directory)).unwrap();
        let file = fs.create(1, b"first", &REGULAR).unwrap();
        fs.write(file, 0, &noise(1, ERASE + 5000)).unwrap();
        for (name, seed) in [(b"one", 2), (b"two", 3)] {
            let file = fs.create(dir, name, &REGULAR).unwrap();
            fs.write(file, 0, &noise(seed, 9000)).unwrap();
        }
    });
    bytes[..ERASE].copy_from_slice(with);
    bytes
}

/// Contents of an eraseblock that is lost: erased, zeros, noise.
fn losses() -> [Vec<u8>; 3] {
    [vec![0xFF; ERASE], vec![0; ERASE], noise(8, ERASE)]
}

#[test]
fn what_is_left_is_repaired() {
    for kind in KINDS {
        for with in losses() {
            let name = format!("{kind:?} {:#x}", with[0]);
            let bytes = without_first(kind, &with);
            let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
            assert_eq!(report.outcome, Outcome::Damaged, "{name}");
            let before = listing(&mut *mounted(&bytes));
            let (report, new) = repaired(&name, &bytes).unwrap();
            assert_eq!(report.outcome, Repaired::WithLosses, "{name}");
            let mut fs = mounted(&new);
            assert!(listing(&mut *fs) == before, "{name}: {:?}", before.keys());
            assert!(contents(&mut *fs, "/lost-2/one") == noise(2, 9000), "{name}");
            assert!(contents(&mut *fs, "/lost-2/two") == noise(3, 9000), "{name}");
            let first = contents(&mut *fs, "/lost-3");
            assert!(first[ERASE..] == noise(1, ERASE + 5000)[ERASE..], "{name}");
        }
    }
    for (name, whole) in IMAGES {
        for with in losses() {
            let bytes = [&with[..4 << 10], &whole[4 << 10..]].concat();
            repaired(name, &bytes).unwrap();
        }
    }
}

/// Linux removes what has no name; who has that done is told what it was.
#[test]
fn a_recovery_lists_what_it_removes() {
    for kind in KINDS {
        for with in losses() {
            let name = format!("{kind:?} {:#x}", with[0]);
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("image");
            fs::write(&file, without_first(kind, &with)).unwrap();
            let mkdir = |editor: &mut Editor<'_>| {
                editor.make_dir(&ImagePath::new("/new")?, false, 0o755, Default::default())
            };
            let options = EditOptions { time: NOW, ..EditOptions::default() };
            let refused = edit(&file, &options, &mkdir);
            assert!(matches!(refused, Err(EditError::Image(ImageError::Nameless(2)))), "{name}: {refused:?}");
            let options = EditOptions { recover: true, ..options };
            let (_, edited) = edit(&file, &options, &mkdir).unwrap();
            let paths: Vec<&str> = edited.losses.iter().map(|loss| loss.path.as_str()).collect();
            assert_eq!(paths, ["/lost-2", "/lost-2/one", "/lost-2/two", "/lost-3"], "{name}");
        }
    }
}
