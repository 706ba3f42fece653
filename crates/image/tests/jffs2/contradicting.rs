//! Images whose nodes are all good and contradict each other, or say what no filesystem has.

use std::collections::BTreeMap;

use floatgate_image::Selection;
use floatgate_image::check::{CheckReport, Outcome, check};
use floatgate_image::extract::{ExtractLimits, Extractions, TarTarget};
use floatgate_image::info::info;
use floatgate_media::jffs2::{
    Compressor, Dirent, DirentNode, Endian, Inode, Xattr, XattrNode, XattrPrefix, Xref,
};

use super::mutated::{BLOCKS, ERASE, churn};
use super::repaired::{listing, repaired};
use super::{contents, mounted, open};

const FILE: u32 = 0o100_644;

const XATTR: Xattr = Xattr {
    xid: 0,
    version: 0,
    prefix: XattrPrefix::User,
    name_len: 0,
    value_len: 0,
    data_crc: 0,
    node_crc: 0,
};

/// Nodes one after the other, as they are written.
#[derive(Clone)]
struct Log {
    endian: Endian,
    bytes: Vec<u8>,
}

impl Log {
    fn new(endian: Endian) -> Self {
        Self { endian, bytes: Vec::new() }
    }

    fn add(&mut self, len: usize, emit: impl FnOnce(&mut [u8])) {
        let from = match self.bytes.len() {
            at if at / ERASE == (at + len - 1) / ERASE => at,
            at => at.next_multiple_of(ERASE),
        };
        self.bytes.resize(from, 0xFF);
        self.bytes.resize((from + len).next_multiple_of(4), 0xFF);
        emit(&mut self.bytes[from..from + len]);
    }

    fn name(&mut self, parent: u32, version: u32, inode: u32, name: &[u8]) -> &mut Self {
        self.typed_name(Dirent { parent, version, inode, dirent_type: 8, ..Dirent::default() }, name)
    }

    fn link(&mut self, parent: u32, version: u32, inode: u32, name: &[u8]) -> &mut Self {
        self.typed_name(Dirent { parent, version, inode, dirent_type: 10, ..Dirent::default() }, name)
    }

    fn typed_name(&mut self, dirent: Dirent, name: &[u8]) -> &mut Self {
        let (node, endian) = (DirentNode { dirent, name }, self.endian);
        self.add(node.size(), |out| node.emit(endian, out));
        self
    }

    fn data(&mut self, inode: u32, version: u32, size: u32, offset: u32, data: &[u8]) -> &mut Self {
        let len = data.len() as u32;
        let fields = Inode { inode, version, mode: FILE, file_bytes: size, offset, ..Inode::default() };
        self.node(&Inode { data_len: len, file_len: len, ..fields }, data)
    }

    fn node(&mut self, inode: &Inode, data: &[u8]) -> &mut Self {
        let endian = self.endian;
        self.add(Inode::SIZE + data.len(), |out| inode.emit(data, endian, out));
        self
    }

    /// An attribute `user.note`, and that the inode has it.
    fn xattr(&mut self, xid: u32, version: u32, value: &[u8]) -> &mut Self {
        let xattr = Xattr { xid, version, prefix: XattrPrefix::User, ..XATTR };
        let (node, endian) = (XattrNode { xattr, name: b"note", value }, self.endian);
        self.add(node.size(), |out| node.emit(endian, out));
        self
    }

    fn xref(&mut self, inode: u32, xid: u32, sequence: u32) -> &mut Self {
        let (xref, endian) = (Xref { inode, xid, sequence, node_crc: 0 }, self.endian);
        self.add(Xref::SIZE, |out| xref.emit(endian, out));
        self
    }

    fn image(&self) -> Vec<u8> {
        let mut image = self.bytes.clone();
        image.resize(BLOCKS * ERASE, 0xFF);
        image
    }
}

fn checked(bytes: &[u8]) -> CheckReport {
    check(&open(bytes).unwrap(), &Selection::default()).unwrap()
}

fn has_finding(report: &CheckReport, what: &str) -> bool {
    report.outcome == Outcome::Damaged && report.findings.iter().any(|finding| finding.what.contains(what))
}

/// Asserts that a repair keeps what is read, and that garbage collection does not change it afterwards. Returns it.
fn kept(name: &str, image: &[u8]) -> BTreeMap<String, Option<Vec<u8>>> {
    let before = listing(&mut *mounted(image));
    let (_, new) = repaired(name, image).unwrap();
    assert!(listing(&mut *mounted(&new)) == before, "{name}: repaired");
    assert!(listing(&mut *mounted(&churn(&new).unwrap())) == before, "{name}: collected");
    before
}

const ENDIANS: [Endian; 2] = [Endian::Little, Endian::Big];

#[test]
fn nodes_of_one_version_that_contradict_each_other_are_damage_and_get_versions_anew() {
    for endian in ENDIANS {
        let mut log = Log::new(endian);
        log.name(1, 1, 2, b"file").data(2, 1, 4000, 0, &[b'a'; 4000]);
        log.data(2, 2, 4000, 1000, &[b'b'; 1000]).data(2, 2, 4000, 1500, &[b'c'; 1000]);
        log.data(2, 3, 4000, 3000, b"end");
        let image = log.image();
        let report = checked(&image);
        assert!(has_finding(&report, "inode 2: another node of version 2"), "{:?}", report.findings);
        let file = kept("overlapping", &image)["/file"].clone().unwrap();
        let counts = |byte: u8| file.iter().filter(|&&other| other == byte).count();
        assert_eq!((counts(b'b'), counts(b'c')), (500, 1000), "{endian:?}: the later one counts");
        let mut log = Log::new(endian);
        log.name(1, 1, 2, b"name").name(1, 2, 2, b"other").name(1, 3, 3, b"name").name(1, 3, 2, b"name");
        log.data(2, 1, 1, 0, b"2").data(3, 1, 1, 0, b"3");
        let report = checked(&log.image());
        assert!(
            has_finding(&report, "name \"name\" in directory 1: another node of version 3"),
            "{:?}",
            report.findings
        );
        let consequence = &report.findings[0].consequence;
        assert!(consequence.contains("`mkfs.jffs2 -i`"), "so an appended image has it: {consequence}");
        assert_eq!(kept("names", &log.image())["/name"], Some(b"2".to_vec()), "{endian:?}");
    }
}

#[test]
fn attributes_of_one_version_that_contradict_each_other_are_damage_and_get_versions_anew() {
    for endian in ENDIANS {
        let mut log = Log::new(endian);
        log.name(1, 1, 2, b"file").data(2, 1, 1, 0, b"2").xref(2, 7, 2);
        log.xattr(7, 1, b"old").xattr(7, 2, b"one").xattr(7, 2, b"other").xattr(7, 2, b"other");
        let note = |image: &[u8]| {
            let mut fs = mounted(image);
            let inode = fs.resolve(b"/file").unwrap();
            fs.get_xattr(inode, b"user.note").unwrap()
        };
        let report = checked(&log.image());
        assert!(
            has_finding(&report, "extended attribute 7: another node of version 2"),
            "{:?}",
            report.findings
        );
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        let (_, new) = repaired("attributes", &log.image()).unwrap();
        for image in [log.image(), new.clone(), churn(&new).unwrap()] {
            assert_eq!(note(&image), b"other", "{endian:?}");
        }
        // Copies are none.
        let mut log = Log::new(endian);
        log.name(1, 1, 2, b"file")
            .data(2, 1, 1, 0, b"2")
            .xref(2, 7, 2)
            .xattr(7, 1, b"one")
            .xattr(7, 1, b"one");
        assert_eq!(checked(&log.image()).outcome, Outcome::Clean, "{endian:?}");
    }
}

/// As `mkfs.jffs2 --incremental` numbers them: inodes behind those of the base, versions of names from 0 on.
#[test]
fn an_image_that_is_to_be_appended_to_another_one_is_not_damaged() {
    for endian in ENDIANS {
        let image = |first: u32, version: u32| {
            let mut log = Log::new(endian);
            for number in 0..3 {
                let inode = first + number;
                log.name(1, version + number, inode, format!("file{number}").as_bytes());
                log.data(inode, 1, 1, 0, b"x");
            }
            log.image()
        };
        let report = checked(&image(11, 0));
        assert_eq!((report.outcome, report.findings.len()), (Outcome::Clean, 1), "{:?}", report.findings);
        assert!(report.findings[0].what.contains("inodes up to 10 are of another image"), "{endian:?}");
        let shown = info(&open(&image(11, 0)).unwrap()).unwrap().to_string();
        assert!(shown.contains("to be appended to the image with the inodes up to 10"), "{shown}");
        // A lost eraseblock takes the first names with it.
        assert!(has_finding(&checked(&image(11, 9)), "inodes 2 to 10"), "{endian:?}");
        let mut log = Log::new(endian);
        log.data(11, 1, 1, 0, b"x").name(1, 7, 12, b"file").data(12, 1, 1, 0, b"x");
        assert!(has_finding(&checked(&log.image()), "inodes 2 to 10"), "{endian:?}");
    }
}

/// Nodes of one version that do not overlap are both taken by Linux.
#[test]
fn nodes_of_one_version_side_by_side_both_count() {
    for endian in ENDIANS {
        let mut log = Log::new(endian);
        log.name(1, 1, 2, b"file").data(2, 1, 8, 0, b"1234").data(2, 1, 8, 4, b"5678");
        assert_eq!(contents(&mut *mounted(&log.image()), "/file"), b"12345678", "{endian:?}");
        assert_eq!(checked(&log.image()).outcome, Outcome::Damaged, "{endian:?}");
        kept("side by side", &log.image());
    }
}

/// Linux's garbage collector writes a hole that is partly covered with the version that it had, and the attributes of now.
#[test]
fn a_hole_that_was_written_again_is_no_damage() {
    for endian in ENDIANS {
        let hole = |version, mtime_s, offset| Inode {
            inode: 2,
            version,
            mode: FILE,
            file_bytes: 3000,
            mtime_s,
            offset,
            file_len: 2000,
            compressor: Compressor::Zero,
            ..Inode::default()
        };
        let mut log = Log::new(endian);
        log.name(1, 1, 2, b"file").data(2, 1, 3000, 0, &[b'a'; 3000]).node(&hole(2, 5, 500), &[]);
        let older = log.clone();
        log.data(2, 3, 3000, 1000, b"end");
        let newer = log.clone();
        log.node(&hole(2, 6, 500), &[]);
        assert_eq!(checked(&log.image()).outcome, Outcome::Clean, "{endian:?}");
        assert_eq!(listing(&mut *mounted(&log.image())), listing(&mut *mounted(&newer.image())));
        // Where nothing newer tells the attributes, or where it is another hole, it matters which one counts.
        for (before, node) in [(older, hole(2, 6, 500)), (newer, hole(2, 5, 400))] {
            let mut log = before;
            log.node(&node, &[]);
            let report = checked(&log.image());
            assert!(has_finding(&report, "inode 2: another node of version 2"), "{:?}", report.findings);
        }
    }
}

/// A target that is longer than any path is damage, and its name goes with it; one with a zero in it is noted.
#[test]
fn targets_that_no_program_has_are_told() {
    for endian in ENDIANS {
        let link = |target: &[u8]| {
            let len = target.len() as u32;
            let fields = Inode { inode: 2, version: 1, mode: 0o120_777, file_bytes: len, ..Inode::default() };
            let mut log = Log::new(endian);
            log.name(1, 1, 3, b"file").data(3, 1, 1, 0, b"3").link(1, 2, 2, b"link");
            log.node(&Inode { data_len: len, file_len: len, ..fields }, target);
            log.image()
        };
        assert_eq!(checked(&link(&[b'x'; 4095])).outcome, Outcome::Clean, "{endian:?}");
        let long = link(&[b'x'; 4096]);
        assert!(has_finding(&checked(&long), "a target of 4096 bytes"), "{endian:?}");
        let (report, new) = repaired("long target", &long).unwrap();
        assert!(report.losses.iter().any(|loss| loss.path == "/link"), "{:?}", report.losses);
        assert_eq!(listing(&mut *mounted(&new)).into_keys().collect::<Vec<_>>(), ["/file"], "{endian:?}");
        let zero = checked(&link(b"fi\0le"));
        assert!(zero.outcome == Outcome::Clean, "{:?}", zero.findings);
        assert!(zero.findings.iter().any(|finding| finding.what.contains("has a zero in it")), "{endian:?}");
    }
}

/// Linux's garbage collector leaves a node and its copy when power goes away between writing one and erasing the other.
#[test]
fn copies_of_a_node_are_no_damage() {
    for endian in ENDIANS {
        let mut log = Log::new(endian);
        for _ in 0..2 {
            log.name(1, 1, 2, b"file")
                .data(2, 1, 4, 0, b"1234")
                .data(2, 2, 8, 4, b"5678")
                .data(2, 3, 8, 2, b"__");
        }
        let report = checked(&log.image());
        assert_eq!((report.outcome, report.findings), (Outcome::Clean, Vec::new()), "{endian:?}");
        assert!(listing(&mut *mounted(&churn(&log.image()).unwrap())) == kept("copies", &log.image()));
        // Of two copies the one that is whole counts.
        let mut image = log.image();
        let at = log.bytes.windows(4).rposition(|bytes| bytes == b"1234").unwrap();
        image[at] = b'x';
        assert_eq!(contents(&mut *mounted(&image), "/file"), b"12__5678", "{endian:?}");
    }
}

#[test]
fn a_compressor_that_nobody_has_is_a_loss() {
    for endian in ENDIANS {
        for mode in [FILE, 0o120_777] {
            let mut log = Log::new(endian);
            log.name(1, 1, 2, b"file").name(1, 2, 3, b"other").data(3, 1, 1, 0, b"3");
            let fields = Inode { inode: 2, version: 1, mode, file_bytes: 4, ..Inode::default() };
            let of_data = Inode { data_len: 4, file_len: 4, compressor: Compressor::Other(99), ..fields };
            log.node(&of_data, b"1234");
            let (report, new) = repaired("compressor", &log.image()).unwrap();
            let told = report.losses.iter().any(|loss| loss.what.contains("compressor 99 is not known"));
            assert!(told && report.losses.iter().any(|loss| loss.path == "/file"), "{:?}", report.losses);
            assert_eq!(contents(&mut *mounted(&new), "/other"), b"3", "{endian:?}");
        }
    }
}

/// Such names are found where a summary lists them, too, and the repair gives their files names that can be opened.
#[test]
fn names_that_nobody_can_open_are_damage() {
    for endian in ENDIANS {
        let mut log = Log::new(endian);
        let names: [&[u8]; 6] = [b"a/b", b"a\0b", b".", b"..", b"", b"good"];
        for (number, name) in (2..).zip(names) {
            log.name(1, number, number, name).data(number, 1, 1, 0, &[b'0' + number as u8]);
        }
        log.name(1, 10, 1, b"root");
        let image = log.image();
        let report = checked(&image);
        for named in ["\"a/b\"", "\"a\\\\x00b\"", "\".\"", "\"..\"", "\"\"", "\"root\" leads to the root"] {
            assert!(has_finding(&report, &format!("name {named}")), "{named}: {:#?}", report.findings);
        }
        let (report, new) = repaired("names", &image).unwrap();
        let now = listing(&mut *mounted(&new));
        let expected = [("/a_b", "2"), ("/_", "4"), ("/__", "5"), ("/good", "7")];
        for (path, data) in expected {
            assert_eq!(now.get(path), Some(&Some(data.as_bytes().to_vec())), "{endian:?} {path}: {now:?}");
        }
        assert!(
            report.losses.iter().any(|loss| loss.what.contains("it is \"a_b\" now")),
            "{:?}",
            report.losses
        );
        let mut tar = Vec::new();
        let image = open(&new).unwrap();
        let extractions = Extractions::open(&image, &Selection::default()).unwrap();
        let done =
            extractions.run(&mut TarTarget::new(&mut tar), &ExtractLimits::default(), &|_| {}).unwrap();
        assert_eq!(done.losses, [], "{endian:?}");
        assert!(listing(&mut *mounted(&churn(&new).unwrap())) == now, "{endian:?}");
    }
}

/// The numbers below it are free, as long as no node of them is on the flash.
#[test]
fn an_image_with_the_last_inode_number_can_be_changed() {
    let mut log = Log::new(Endian::Little);
    log.name(1, 1, u32::MAX, b"last")
        .data(u32::MAX, 1, 1, 0, b"x")
        .name(1, 2, 3, b"three")
        .data(3, 1, 1, 0, b"3");
    log.name(1, 3, 2, b"gone").data(2, 1, 1, 0, b"2").name(1, 4, 0, b"gone");
    let before = listing(&mut *mounted(&log.image()));
    let new = churn(&log.image()).unwrap();
    assert!(listing(&mut *mounted(&new)) == before);
    assert_eq!(checked(&new).outcome, Outcome::Clean);
}

fn paths_of(report: &CheckReport, structure: &str) -> Vec<Vec<String>> {
    let of_it = report.findings.iter().filter(|finding| finding.structure.name() == structure);
    of_it.map(|finding| finding.paths.clone()).collect()
}

/// Damage of a file is told of all its names.
#[test]
fn a_lost_attribute_is_damage_of_the_files_that_had_it() {
    for endian in ENDIANS {
        let mut log = Log::new(endian);
        log.name(1, 1, 2, b"a").data(2, 1, 20, 0, b"x").name(1, 2, 2, b"b");
        log.xattr(6, 1, b"kept").xref(2, 6, 2).xref(2, 7, 4);
        let image = log.image();
        let report = checked(&image);
        let names = vec!["/a".to_owned(), "/b".to_owned()];
        assert_eq!(paths_of(&report, "attribute"), std::slice::from_ref(&names), "{:?}", report.findings);
        assert_eq!(paths_of(&report, "file"), [names], "{:?}", report.findings);
        let (report, _) = repaired("attribute", &image).unwrap();
        assert!(report.losses.iter().any(|loss| loss.path == "/a" && loss.what.contains("attribute 7")));
        // A new value leaves the same on flash that was changed.
        let mut log = Log::new(endian);
        log.name(1, 1, 2, b"a").data(2, 1, 1, 0, b"x").name(1, 2, 3, b"b").data(3, 1, 1, 0, b"x");
        log.xref(2, 7, 4).name(1, 3, 0, b"b");
        assert_eq!(checked(&log.image()).outcome, Outcome::Clean, "{:?}", checked(&log.image()).findings);
    }
}

/// Makers of images write them.
#[test]
fn a_name_that_linux_does_not_open_is_noted() {
    let mut log = Log::new(Endian::Little);
    log.name(1, 1, 2, &[b'n'; 255]).data(2, 1, 1, 0, b"x");
    let report = checked(&log.image());
    assert_eq!((report.outcome, paths_of(&report, "long name").len()), (Outcome::Clean, 1));
    assert!(report.findings[0].what.contains("at most 254"), "{:?}", report.findings);
}

#[test]
fn the_line_that_makes_such_an_image_has_its_attributes() {
    let mut log = Log::new(Endian::Little);
    log.name(1, 1, 2, b"a").data(2, 1, 1, 0, b"x");
    let line = |log: &Log| info(&open(&log.image()).unwrap()).unwrap().to_string();
    assert!(!line(&log).contains("--with-xattr"));
    log.xattr(6, 1, b"value").xref(2, 6, 2);
    assert!(line(&log).contains("-n --with-xattr -r"), "{}", line(&log));
}
