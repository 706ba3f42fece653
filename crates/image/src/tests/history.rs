//! Old states of files, which are listed and extracted.

use floatgate_media::jffs2::Endian;
use floatgate_mtd::{Geometry, Instant};
use floatgate_stack::fs::{AttributeChanges, FileSystem, Name, NewFile, NewKind, Rename, Timestamp};
use floatgate_stack::jffs2::{Jffs2, MountOptions};

use super::*;
use crate::ImageError;
use crate::extract::Extractions;
use crate::history::{At, Change, Revision, history};
use floatgate_mtd::advice::Help as _;

/// Function that changes a filesystem.
type Deed<'d> = dyn Fn(&mut dyn FileSystem) + 'd;

/// Time of a change, and the filesystem after it.
type Step = (i64, Memory);

fn snapshot(fs: &mut dyn FileSystem) -> Memory {
    let mut memory = Memory::default();
    extract(&mut FileSystemSource(fs), &mut memory, &ExtractLimits::default(), &|_| {}).unwrap();
    memory
}

/// Makes changes of every kind, each ten seconds after the previous one.
fn live(fs: &mut dyn FileSystem) -> Vec<Step> {
    let root = fs.root();
    let new = |kind| NewFile { kind, permissions: 0o755, uid: 0, gid: 0 };
    let data = |byte: u8, len: usize| (0..len).map(|n| (n * 7 % 251) as u8 ^ byte).collect::<Vec<u8>>();
    let at = |fs: &mut dyn FileSystem, path: &str| fs.resolve(path.as_bytes()).unwrap();
    let mut time = 1_700_000_000;
    let mut steps = Vec::new();
    let changes: Vec<Box<Deed>> = vec![
        Box::new(|fs| {
            fs.create(root, b"etc", &new(NewKind::Directory)).unwrap();
        }),
        Box::new(|fs| {
            let etc = at(fs, "/etc");
            let file = fs.create(etc, b"passwd", &new(NewKind::Regular)).unwrap();
            fs.write(file, 0, &data(1, 10_000)).unwrap();
        }),
        Box::new(|fs| {
            let file = at(fs, "/etc/passwd");
            fs.write(file, 4000, &data(2, 5000)).unwrap();
        }),
        Box::new(|fs| {
            let file = at(fs, "/etc/passwd");
            fs.set_attributes(file, &AttributeChanges { size: Some(3000), ..Default::default() }).unwrap();
        }),
        Box::new(|fs| {
            let file = at(fs, "/etc/passwd");
            fs.write(file, 3000, &data(3, 9000)).unwrap();
        }),
        Box::new(|fs| {
            let file = fs.create(root, b"note", &new(NewKind::Regular)).unwrap();
            fs.write(file, 0, b"to be removed").unwrap();
        }),
        Box::new(|fs| {
            let etc = at(fs, "/etc");
            let name = |directory, name| Name { directory, name };
            fs.rename(name(root, b"note"), name(etc, b"moved"), Rename::Replace).unwrap();
        }),
        Box::new(|fs| {
            let etc = at(fs, "/etc");
            fs.unlink(etc, b"moved").unwrap();
        }),
        Box::new(|fs| {
            let file = at(fs, "/etc/passwd");
            fs.link(file, root, b"second").unwrap();
        }),
        Box::new(|fs| {
            let etc = at(fs, "/etc");
            fs.unlink(etc, b"passwd").unwrap();
        }),
        Box::new(|fs| fs.remove_dir(root, b"etc").unwrap()),
        Box::new(|fs| fs.unlink(root, b"second").unwrap()),
    ];
    for change in changes {
        time += 10;
        fs.set_time(Timestamp { seconds: time, nanoseconds: 0 });
        change(fs);
        fs.sync().unwrap();
        steps.push((time, snapshot(fs)));
    }
    steps
}

fn ubifs() -> (Vec<u8>, Vec<Step>) {
    let volume = BareVolume::new(Vec::new(), bare_geometry(200));
    let fs = Ubifs::format(volume, &FormatOptions::default(), Behaviour::default());
    let mut fs = fs.unwrap_or_else(|(error, _)| panic!("{error}"));
    let steps = live(&mut fs);
    let mut volume = fs.unmount().unwrap_or_else(|(error, _)| panic!("{error}"));
    volume.flush().unwrap();
    (volume.into_store(), steps)
}

fn jffs2(endian: Endian, summaries: bool) -> (Vec<u8>, Vec<Step>) {
    jffs2_of(&MountOptions { endian: Some(endian), summaries, ..MountOptions::default() })
}

/// JFFS2 on NOR with marks on obsolete nodes.
fn marked_jffs2(endian: Endian) -> (Vec<u8>, Vec<Step>) {
    let options = MountOptions { endian: Some(endian), summaries: false, ..MountOptions::default() };
    jffs2_of(&MountOptions { marks_obsolete: true, ..options })
}

fn jffs2_of(options: &MountOptions) -> (Vec<u8>, Vec<Step>) {
    let geometry = Geometry { buffer_bytes: 1, ..Geometry::nor(64, 1 << 14) };
    let flash = flash(Vec::new(), &geometry);
    let mut fs = Jffs2::mount(flash, Instant::ZERO, options).map_err(|(error, _)| error).unwrap();
    let steps = live(&mut fs);
    let flash = fs.unmount().map_err(|(error, _)| error).unwrap();
    (flash.into_store(), steps)
}

fn extracted_at(bytes: &[u8], at: At) -> (Memory, Extracted) {
    let extraction = Extractions::open_at(&open(bytes), &Selection::default(), at).unwrap();
    let mut memory = Memory::default();
    let extracted = extraction.run(&mut memory, &ExtractLimits::default(), &|_| {}).unwrap();
    (memory, extracted)
}

fn revisions(bytes: &[u8]) -> Vec<Revision> {
    history(&open(bytes), &Selection::default()).unwrap()
}

#[test]
fn each_moment_is_extracted_as_it_was() {
    let images = [
        ("UBIFS", ubifs()),
        ("little", jffs2(Endian::Little, false)),
        ("big", jffs2(Endian::Big, false)),
        ("summaries", jffs2(Endian::Little, true)),
        ("marked", marked_jffs2(Endian::Little)),
        ("marked, big", marked_jffs2(Endian::Big)),
    ];
    for (name, (bytes, steps)) in images {
        for (time, expected) in steps {
            for later in [0, 9] {
                let (memory, extracted) = extracted_at(&bytes, At::Time(time + later));
                assert_eq!(extracted.losses, [], "{name} at {time}");
                assert_eq!(memory.differences(&expected), Vec::<String>::new(), "{name} at {time}");
            }
        }
    }
}

/// Sequence numbers are exact: the last node of each point in time has it.
#[test]
fn each_sequence_number_of_ubifs_is_a_moment() {
    let (bytes, steps) = ubifs();
    let all = revisions(&bytes);
    let moments: Vec<u64> = all.iter().map(|node| node.at.parse().unwrap()).collect();
    assert!(moments.is_sorted());
    let states: Vec<Memory> = moments.iter().map(|&sqnum| extracted_at(&bytes, At::Sqnum(sqnum)).0).collect();
    for (time, expected) in steps {
        assert!(states.iter().any(|state| state.differences(&expected).is_empty()), "at {time}");
    }
}

#[test]
fn old_nodes_are_listed_with_their_paths() {
    for (bytes, _) in [ubifs(), jffs2(Endian::Big, false), marked_jffs2(Endian::Big)] {
        let all = revisions(&bytes);
        let of = |path: &str, change: Change| {
            all.iter().filter(|node| node.path == path && node.change == change).collect::<Vec<_>>()
        };
        assert!(of("/second", Change::Data).len() >= 6, "{all:?}");
        assert!(of("/second", Change::Data).iter().all(|node| !node.live));
        assert_eq!((of("/second", Change::Name).len(), of("/second", Change::Removed).len()), (1, 1));
        assert_eq!((of("/etc/moved", Change::Name).len(), of("/etc/moved", Change::Removed).len()), (1, 1));
        assert_eq!(of("/etc", Change::Removed).len(), 1);
        let bytes_of = |node: &Revision| usize::try_from(node.byte.unwrap()).unwrap();
        assert!(all.iter().all(|node| matches!(bytes[bytes_of(node)], 0x31 | 0x19)));
    }
}

/// Each version of a removed file can be restored, with the directories above it; other files do not change.
#[test]
fn extended_attributes_of_a_jffs2_are_listed() {
    use floatgate_stack::fs::SetXattr;
    let mounted =
        Jffs2::mount(flash(Vec::new(), &Geometry::nor(8, 16 << 10)), Instant::ZERO, &MountOptions::default());
    let mut fs = mounted.unwrap_or_else(|(error, _)| panic!("{error}"));
    let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    let file = fs.create(1, b"file", &new).unwrap();
    for value in [&b"one"[..], b"other"] {
        fs.set_xattr(file, b"user.key", value, SetXattr::Any).unwrap();
    }
    fs.set_xattr(file, b"user.gone", b"1", SetXattr::Any).unwrap();
    fs.remove_xattr(file, b"user.gone").unwrap();
    let bytes = fs.unmount().unwrap_or_else(|(error, _)| panic!("{error}")).into_store();
    let all: Vec<Revision> =
        revisions(&bytes).into_iter().filter(|one| one.change == Change::Xattr).collect();
    let of = |what: &str| all.iter().filter(|one| one.what == what).collect::<Vec<_>>();
    let live = of("extended attribute user.key, 5 bytes");
    assert!(live.iter().any(|one| one.live && one.path == "/file" && one.byte.is_some()), "{all:#?}");
    let lost = of("lost extended attribute user.gone, 1 byte");
    assert!(lost.iter().any(|one| one.path == "/file" && one.at.is_empty()), "{all:#?}");
    assert!(all.iter().any(|one| one.what.contains("user.key, 3 bytes") && !one.live), "{all:#?}");
    // Attributes do not belong to points in time of files.
    let (memory, _) = extracted_at(&bytes, At::Time(0));
    assert_eq!(memory.files.len(), extracted_at(&bytes, At::Time(i64::MAX)).0.files.len());
}

#[test]
fn each_version_of_a_jffs2_is_extracted() {
    let (bytes, steps) = jffs2(Endian::Little, false);
    let states: Vec<Vec<u8>> = steps
        .iter()
        .filter_map(|(_, state)| state.files.get("/etc/passwd").or(state.files.get("/second")))
        .map(|file| file.data.clone())
        .collect();
    let mut seen = Vec::new();
    for node in revisions(&bytes).iter().filter(|node| node.path == "/second") {
        let (inode, version) = node.at.split_once(':').unwrap();
        let (inode, version) = (inode.parse().unwrap(), version.parse().unwrap());
        let (memory, _) = extracted_at(&bytes, At::Version { inode, version });
        if matches!(node.change, Change::Data | Change::Inode) {
            let file = memory.files.get("/second").unwrap_or_else(|| panic!("{node:?}"));
            seen.push(file.data.clone());
        }
    }
    for state in states.iter().filter(|state| !state.is_empty()) {
        assert!(seen.contains(state), "a state of {} bytes", state.len());
    }
}

/// A point in time belongs to a single inode. If a directory is restored whose names were removed before, the note
/// also states the point in time with its names.
#[test]
fn a_directory_that_comes_back_empty_says_which_moment_has_its_names() {
    for (bytes, _) in [jffs2(Endian::Little, false), jffs2(Endian::Big, true), marked_jffs2(Endian::Little)] {
        let named = |node: &&Revision| node.path == "/etc" && node.change == Change::Name;
        let node = revisions(&bytes).iter().find(named).unwrap().clone();
        let moment = |at: &str| {
            let (inode, version) = at.split_once(':').unwrap();
            At::Version { inode: inode.parse().unwrap(), version: version.parse().unwrap() }
        };
        let (memory, extracted) = extracted_at(&bytes, moment(&node.at));
        assert!(!memory.files.keys().any(|path| path.starts_with("/etc/")), "{:?}", memory.files.keys());
        let [note] = extracted.notes.as_slice() else { panic!("{:?}", extracted.notes) };
        assert!(note.starts_with("/etc is empty"), "{note}");
        let (_, at) = note.split_once("the moment ").unwrap();
        let (memory, extracted) = extracted_at(&bytes, moment(at.split(' ').next().unwrap()));
        assert_eq!(extracted.notes, [""; 0]);
        assert!(
            memory.files.contains_key("/etc/passwd") && memory.files.contains_key("/etc/moved"),
            "{note}"
        );
    }
}

#[test]
fn moments_that_are_none_are_refused() {
    let of = |bytes: &[u8], at| {
        Extractions::open_at(&open(bytes), &Selection::default(), at).err().map(|error| error.to_string())
    };
    let version = |inode, version| At::Version { inode, version };
    let (bytes, _) = ubifs();
    assert!(matches!(of(&bytes, version(65, 1)), Some(text) if text.contains("sequence number")));
    let (bytes, _) = jffs2(Endian::Little, false);
    assert!(matches!(of(&bytes, At::Sqnum(5)), Some(text) if text.contains("version")));
    for (inode, number) in [(0, 0), (2, 99), (77, 1), (u32::MAX, u32::MAX)] {
        assert!(matches!(of(&bytes, version(inode, number)), Some(text) if text.contains("no node")));
    }
    let error = Extractions::open_at(&open(&bytes), &Selection::default(), version(2, 99)).err().unwrap();
    assert!(error.help().to_string().contains("ls --history"), "{}", error.help());
}

/// Losses by garbage collection are reported if they can be detected.
#[test]
fn what_is_erased_is_told() {
    for (bytes, _) in [ubifs(), jffs2(Endian::Little, false)] {
        let all = revisions(&bytes);
        let is_data = |node: &&Revision| node.path == "/second" && node.change == Change::Data;
        let data: Vec<&Revision> = all.iter().filter(is_data).collect();
        let (first, third) = (data[0], data[2]);
        let mut damaged = bytes.clone();
        let at = usize::try_from(first.byte.unwrap()).unwrap();
        damaged[at..at + 12].fill(0);
        // JFFS2 orders the nodes of a file, UBIFS orders all nodes.
        let at = third.at.parse().map_or(At::Time(1_700_000_020), At::Sqnum);
        let (memory, extracted) = extracted_at(&damaged, at);
        assert!(memory.files.contains_key("/etc/passwd"));
        assert!(
            extracted.losses.iter().any(|loss| loss.path == "/etc/passwd"),
            "{:?} of {first:?}",
            extracted.losses
        );
    }
}

fn refused_at(bytes: &[u8], at: At) -> bool {
    let opened = Extractions::open_at(&open(bytes), &Selection::default(), at);
    matches!(
        opened.err(),
        Some(ImageError::NothingThatOld | ImageError::Ubifs(floatgate_stack::ubifs::Error::NothingThatOld))
    )
}

/// Before the first node there was no filesystem, not an empty one.
#[test]
fn a_moment_before_all_nodes_is_refused() {
    for (bytes, steps) in [ubifs(), jffs2(Endian::Little, false), jffs2(Endian::Big, true)] {
        let first =
            revisions(&bytes).iter().filter_map(|node| node.time).filter(|&time| time > 0).min().unwrap();
        assert!(refused_at(&bytes, At::Time(first - 1)) && refused_at(&bytes, At::Time(i64::MIN)));
        assert!(!refused_at(&bytes, At::Time(first)) && !refused_at(&bytes, At::Time(steps[0].0)));
    }
    assert!(refused_at(&ubifs().0, At::Sqnum(0)));
    // Its root directory does not have a time yet.
    assert!(refused_at(&ubifs().0, At::Time(0)));
}

/// If only later inodes of names and data remain, the age of the names and data is unknown.
#[test]
fn data_without_an_inode_of_their_time_are_of_no_moment() {
    let (bytes, steps) = ubifs();
    let mut damaged = bytes.clone();
    let until = steps[2].0;
    for node in revisions(&bytes) {
        if node.time.is_some_and(|time| time <= until) {
            let at = usize::try_from(node.byte.unwrap()).unwrap();
            damaged[at..at + 4].fill(0);
        }
    }
    assert!(revisions(&damaged).iter().any(|node| node.change == Change::Data));
    assert!(refused_at(&damaged, At::Time(until)));
}

/// A board without its own clock starts at 1970 again: its later writes are not older than existing data.
#[test]
fn a_clock_that_went_back_makes_nothing_older() {
    let geometry = Geometry::nor(8, 16 << 10);
    let mounted = Jffs2::mount(flash(Vec::new(), &geometry), Instant::ZERO, &MountOptions::default());
    let mut fs = mounted.unwrap_or_else(|(error, _)| panic!("{error}"));
    let at = |fs: &mut Jffs2<_>, seconds| fs.set_time(Timestamp { seconds, nanoseconds: 0 });
    let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    at(&mut fs, 50);
    fs.create(1, b"other", &new).unwrap();
    at(&mut fs, 1_700_000_000);
    let file = fs.create(1, b"file", &new).unwrap();
    fs.write(file, 0, &[1; 5000]).unwrap();
    fs.sync().unwrap();
    at(&mut fs, 60);
    fs.write(file, 0, &[2; 4096]).unwrap();
    let bytes = fs.unmount().unwrap_or_else(|(error, _)| panic!("{error}")).into_store();
    let (then, _) = extracted_at(&bytes, At::Time(100));
    assert!(
        then.files.contains_key("/other") && !then.files.contains_key("/file"),
        "{:?}",
        then.files.keys()
    );
    assert_eq!(extracted_at(&bytes, At::Time(1_700_000_000)).0.files["/file"].data[..4096], [2; 4096]);
}
