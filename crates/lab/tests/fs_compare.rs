//! Tests of `floatgate fs`: each cause has its effect in the expected direction.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::{Library, Override};
use floatgate_lab::fs_compare::{
    BySize, FsComparison, Options, Row, SizeRow, Subject, Test, by_size, compare, figures,
};
use floatgate_lab::progress::Progress;
use floatgate_sim::partition;
use floatgate_sim::rig::RigOptions;
use std::sync::Mutex;

const BOARD: &str = "arm926-nand01gw3b";

fn compared(setup: &str, sets: &[&str], options: &Options) -> FsComparison {
    let library = Library::built_in();
    let config =
        library.resolve(&library.setup(setup).unwrap(), &Override::parse_all(sets).unwrap()).unwrap();
    compare(&library, &config, RigOptions::default(), options, &|_| ()).unwrap()
}

/// Runs tests on a small partition, to save time.
fn small(sets: &[&str], subjects: &[Subject], tests: &[Test]) -> FsComparison {
    let sets = [&["partition.offset=0", "partition.size=16MiB"], sets].concat();
    let options =
        Options { subjects: subjects.to_vec(), tests: tests.to_vec(), bytes: 1 << 20, ..Options::default() };
    compared(BOARD, &sets, &options)
}

fn row<'a>(compared: &'a FsComparison, subject: Subject, name: &str) -> &'a Row {
    let found = compared.rows.iter().find(|row| row.subject == subject && row.name == name);
    found.unwrap_or_else(|| panic!("{} {name}: {:?}", subject.name(), compared.refused))
}

fn value(compared: &FsComparison, subject: Subject, name: &str) -> f64 {
    row(compared, subject, name).value
}

const BOTH: [Subject; 2] = [Subject::Jffs2, Subject::Ubifs];

#[test]
fn who_writes_how_fast() {
    let compared = small(&[], &Subject::ALL, &[Test::Write, Test::Read]);
    let of = |subject, name: &str| value(&compared, subject, name);
    let random = "write random 64 KiB";
    assert!(of(Subject::Mtdblock, random) * 2.0 < of(Subject::Mtdchar, random), "it reads before it writes");
    assert!(of(Subject::Jffs2, random) * 1.5 < of(Subject::Ubifs, random), "zlib is slower than LZO");
    let new = small(&["host.lzo_before_linux_3_9=false"], &BOTH, &[Test::Write]);
    assert!(value(&new, Subject::Ubifs, random) > 1.3 * of(Subject::Ubifs, random), "LZO gives up");
    for subject in BOTH {
        assert!(of(subject, "write zeros 64 KiB") > 2.0 * of(subject, random), "{subject:?} compresses");
        assert!(of(subject, "read again") > 5.0 * of(subject, "read first"), "{subject:?} is in memory");
        let written = row(&compared, subject, random);
        assert!((1.0..1.2).contains(&written.write_amplification.unwrap()), "{subject:?}");
        assert!(written.flash.programmed_bytes > 1 << 20);
        assert_eq!(written.ns, written.breakdown_ns.total().as_ns(), "{subject:?}: all time has a place");
    }
    let mtdchar = of(Subject::Mtdchar, "read first");
    assert!((of(Subject::Mtdchar, "read again") / mtdchar - 1.0).abs() < 0.01, "it has no cache");
    let delayed = row(&compared, Subject::Ubifs, random);
    assert!(delayed.returned_ns.unwrap() * 2 < delayed.ns, "UBIFS writes back later");
    let at_once = row(&compared, Subject::Jffs2, random);
    assert!(at_once.returned_ns.unwrap() * 100 > at_once.ns * 99, "JFFS2 writes at once");
}

#[test]
fn little_memory_for_pages_makes_programs_wait_and_read_again() {
    let little = ["page_cache.bytes=256KiB"];
    let tests = [Test::Write, Test::Read];
    let (much, little) = (small(&[], &BOTH, &tests), small(&little, &BOTH, &tests));
    let waited = |compared| row(compared, Subject::Ubifs, "write random 64 KiB").returned_ns.unwrap();
    assert!(waited(&much) * 2 < waited(&little));
    let again = |compared| value(compared, Subject::Jffs2, "read again");
    assert!(again(&little) * 5.0 < again(&much));
}

#[test]
fn the_cpu_takes_its_time() {
    let tests = [Test::Write, Test::Read];
    let with = |sets: &[&str]| small(sets, &BOTH, &tests);
    let (usual, slow) = (with(&[]), with(&["host.instruction_ps=20000", "host.cache_miss_ns=900"]));
    let none = with(&["host.instruction_ps=0", "host.cache_miss_ns=0"]);
    assert!(usual.cpu_is_known && !none.cpu_is_known);
    for subject in BOTH {
        for name in ["write random 64 KiB", "read first"] {
            let of = |compared| value(compared, subject, name);
            assert!(of(&slow) < of(&usual) && of(&usual) < of(&none), "{subject:?} {name}");
        }
    }
    let random = "write random 64 KiB";
    let plain = with(&["filesystem.compression=none"]);
    assert!(value(&plain, Subject::Jffs2, random) > 1.5 * value(&usual, Subject::Jffs2, random));
    let weak = with(&["ecc.encode_ns_per_kb=1000000", "ecc.decode_ns_per_kb=1000000"]);
    assert!(value(&weak, Subject::Ubifs, random) < 0.8 * value(&usual, Subject::Ubifs, random));
}

#[test]
fn mounting_depends_on_what_is_there_and_what_helps() {
    let mounted = |sets: &[&str]| small(sets, &BOTH, &[Test::Mount]);
    let usual = mounted(&[]);
    let jffs2 = |compared, name| value(compared, Subject::Jffs2, name);
    assert!(jffs2(&usual, "mount many small files") > 10.0 * jffs2(&usual, "mount empty"));
    assert!(jffs2(&usual, "mount many small text files") < 0.6 * jffs2(&usual, "mount many small files"));
    let ubifs = |name| value(&usual, Subject::Ubifs, name);
    assert!(ubifs("mount many small files") < 2.0 * ubifs("mount empty"), "it does not look at all files");
    let summaries = mounted(&["filesystem.summaries=true"]);
    assert!(jffs2(&summaries, "mount many small files") * 5.0 < jffs2(&usual, "mount many small files"));
    let fastmap = mounted(&["filesystem.fastmap=true"]);
    let attach = "mount many small files: attach";
    assert!(value(&fastmap, Subject::Ubifs, attach) < value(&usual, Subject::Ubifs, attach));
    let parts = mounted(&["driver.sub_page_reads=true"]);
    assert!(value(&parts, Subject::Ubifs, attach) * 1.2 < value(&usual, Subject::Ubifs, attach));
    assert!(jffs2(&parts, "mount empty") * 2.0 < jffs2(&usual, "mount empty"));
}

#[test]
fn space_and_synchronising() {
    let compared = small(&[], &BOTH, &[Test::Space, Test::Sync, Test::BadBlocks]);
    let of = |subject, name: &str| value(&compared, subject, name);
    assert!(of(Subject::Jffs2, "free after mkfs") > of(Subject::Ubifs, "free after mkfs"));
    let pieces = "file of 1 MiB in pieces of 16 B: programmed";
    assert!(of(Subject::Jffs2, pieces) > 5.0 * of(Subject::Ubifs, pieces), "each piece is a node");
    let (before, after) = ("file of 1 MiB in one piece", "file of 1 MiB in one piece: after sync");
    assert!(
        of(Subject::Ubifs, before) > of(Subject::Ubifs, after),
        "what waits is counted as if it did not shrink"
    );
    for subject in BOTH {
        assert!(
            of(subject, "sync: mounted with -o sync") < of(subject, "sync: fsync at the end"),
            "{subject:?}"
        );
        let each = of(subject, "sync: fsync after each write");
        assert!(each < of(subject, "sync: fsync at the end"), "{subject:?}");
        assert!(of(subject, "bad-blocks: free after mkfs") <= of(subject, "free after mkfs"), "{subject:?}");
    }
    let (none, mounted) = ("sync: none", "sync: mounted with -o sync");
    assert!(of(Subject::Ubifs, none) > 10.0 * of(Subject::Ubifs, mounted));
}

#[test]
fn two_filesystems_take_more_space_and_one_attach() {
    let compared = small(&[], &BOTH, &[Test::Mount, Test::Volumes]);
    let of = |subject, name: &str| value(&compared, subject, name);
    for subject in BOTH {
        assert!(of(subject, "volumes: free with two") < of(subject, "volumes: free with one"), "{subject:?}");
        let (one, two) = (of(subject, "volumes: one mounted"), of(subject, "volumes: two mounted"));
        assert!(one < two * 1.01 && two < 2.0 * one, "{subject:?}: {one}, {two}");
    }
    let attached = of(Subject::Ubifs, "mount empty: attach") + of(Subject::Ubifs, "mount empty");
    assert!((of(Subject::Ubifs, "volumes: one mounted") / attached - 1.0).abs() < 0.01);
    // Each volume has its own reserve and journal.
    let lost = |subject| of(subject, "volumes: free with one") - of(subject, "volumes: free with two");
    assert!(lost(Subject::Ubifs) > lost(Subject::Jffs2));
}

#[test]
fn one_file_can_be_listed_before_all_are_checked() {
    let compared = small(&[], &BOTH, &[Test::Mount]);
    let of = |name: &str| value(&compared, Subject::Jffs2, name);
    let (one, all) =
        ("mount many small files: then ls of one file", "mount many small files: then until usable");
    assert!(of(one) > 0.0 && of(one) * 20.0 < of(all), "{} {}", of(one), of(all));
}

fn by_sizes(setup: &str, sets: &[&str], sizes: &[u64]) -> BySize {
    let library = Library::built_in();
    let (setup, sets) = (library.setup(setup).unwrap(), Override::parse_all(sets).unwrap());
    let base = library.resolve(&setup, &sets).unwrap();
    let at = |bytes| {
        let size = partition::of_size(&base, bytes)?;
        Ok(library.resolve(&setup, &[&sets[..], &[size]].concat())?)
    };
    by_size(&library, &at, (RigOptions::default(), &BOTH, 80), sizes, &|_| ()).unwrap()
}

/// Published conclusions: "JFFS2 below 16 MiB, UBIFS elsewhere", and "JFFS2 does not scale".
#[test]
fn small_partitions_are_for_jffs2() {
    let compared = by_sizes(BOARD, &["partition.offset=0"], &[8 << 20, 32 << 20, 16 << 20, 8 << 20]);
    let advised: Vec<(u64, Subject)> = compared
        .rows
        .iter()
        .filter(|row| row.is_advised)
        .map(|row| (row.partition_bytes >> 20, row.subject))
        .collect();
    assert_eq!(advised, [(8, Subject::Jffs2), (16, Subject::Ubifs), (32, Subject::Ubifs)]);
    let says = |text: &str| compared.advice.iter().any(|sentence| sentence.starts_with(text));
    assert!(says("choose JFFS2 up to 8 MiB, UBIFS from 16 MiB on"), "{:?}", compared.advice);
    assert!(says("JFFS2 does not scale: from 8 MiB to 32 MiB"), "{:?}", compared.advice);
    assert!(says("UBIFS scales"), "{:?}", compared.advice);
    let of = |subject, value: fn(&SizeRow) -> Option<f64>| {
        let all: Vec<f64> = compared
            .rows
            .iter()
            .filter(|row| row.subject == subject)
            .map(|row| value(row).unwrap())
            .collect();
        all[2] / all[0]
    };
    assert!(of(Subject::Jffs2, |row| row.memory_kib) > 3.0 && of(Subject::Ubifs, |row| row.memory_kib) < 1.2);
    assert!(of(Subject::Jffs2, |row| row.mounted_s) > 3.0 && of(Subject::Ubifs, |row| row.mounted_s) < 2.0);
    assert!(compared.plot().contains("Kernel memory"));
}

/// If neither filesystem is possible, none is advised, and both reasons are stated.
#[test]
fn partitions_of_few_eraseblocks_are_for_neither() {
    let compared = by_sizes(BOARD, &["partition.offset=0"], &[256 << 10, 1 << 20]);
    let row = |index: usize| &compared.rows[index];
    assert!(row(0).why_not.as_ref().unwrap().contains("no JFFS2 of fewer than 5"), "{:?}", row(0));
    assert!(row(1).why_not.as_ref().unwrap().contains("PEBs are needed"), "{:?}", row(1));
    assert!(row(2).is_advised && row(3).why_not.is_some(), "{:?}", compared.rows);
}

#[test]
fn what_cannot_be_is_told_and_the_rest_is_measured() {
    let options = Options { tests: vec![Test::Read], bytes: 64 << 10, ..Options::default() };
    let nor = compared("stm32-n25q128a", &[], &options);
    assert!(nor.rows.iter().any(|row| row.subject == Subject::Jffs2));
    assert!(nor.rows.iter().all(|row| row.subject != Subject::Ubifs));
    assert!(
        nor.refused
            .iter()
            .any(|refused| refused.subject == Subject::Ubifs && refused.why.contains("LEBs of"))
    );
}

/// The figures are the same in each run, with any number of threads. A single row equals the same row among others.
#[test]
fn figures_repeat() {
    let tests = [Test::Write, Test::Sync, Test::Mount];
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let alone = one.install(|| small(&[], &BOTH, &tests).rows);
    let several = small(&[], &BOTH, &tests).rows;
    assert_eq!(alone, several);
    let library = Library::built_in();
    let sets = Override::parse_all(&["partition.offset=0", "partition.size=16MiB"]).unwrap();
    let config = library.resolve(&library.setup(BOARD).unwrap(), &sets).unwrap();
    for name in ["sync: fsync at the end", "mount many small files"] {
        let rows = figures(&library, &config, RigOptions::default(), &format!("ubifs {name}")).unwrap();
        let is_same = |row: &&Row| row.subject == Subject::Ubifs && row.name.starts_with(name);
        assert_eq!(rows, several.iter().filter(is_same).cloned().collect::<Vec<_>>());
    }
    let unknown = figures(&library, &config, RigOptions::default(), "ubifs write backwards").unwrap_err();
    assert!(unknown.to_string().contains("no row"), "{unknown}");
}

#[test]
fn progress_is_told() {
    let library = Library::built_in();
    let config = library.resolve(&library.setup(BOARD).unwrap(), &[]).unwrap();
    let options = Options { tests: vec![Test::Read], bytes: 4096, ..Options::default() };
    let news = Mutex::new(Vec::new());
    let hear = |progress| news.lock().unwrap().push(progress);
    compare(&library, &config, RigOptions::default(), &options, &hear).unwrap();
    let news = news.into_inner().unwrap();
    assert_eq!(news[0], Progress::Steps(4));
    assert_eq!(news[1..], [Progress::Done(1); 4]);
}

/// Even in a small partition, UBI reserves eraseblocks for all bad blocks of the whole chip: 40 of 64 in 8 MiB of 256
/// MiB.
#[test]
fn ubi_reserves_for_the_bad_blocks_of_the_whole_chip() {
    let sizes = [8 << 20, 64 << 20];
    let compared = by_sizes("ma35d1-w25n02jw", &[], &sizes);
    let free = |bytes: u64| {
        let is_it = |row: &&SizeRow| row.partition_bytes == bytes && row.subject == Subject::Ubifs;
        compared.rows.iter().find(is_it).and_then(|row| row.free_kib)
    };
    assert_eq!(sizes.map(free), [Some(316.0), Some(51_696.0)]);
    // Linux before 3.7 counted only the bad blocks of the partition.
    let old = ["filesystem.ubi_bad_limit_of_partition=true"];
    let compared = by_sizes("ma35d1-w25n02jw", &old, &[8 << 20]);
    let row = compared.rows.iter().find(|row| row.subject == Subject::Ubifs).unwrap();
    assert_eq!(row.free_kib, Some(4676.0));
}

/// A row of `papers` may describe a tree by the number and the size of its files.
#[test]
fn a_tree_is_unpacked_mounted_and_walked() {
    let library = Library::built_in();
    let sets = Override::parse_all(&["partition.offset=0", "partition.size=16MiB"]).unwrap();
    let config = library.resolve(&library.setup(BOARD).unwrap(), &sets).unwrap();
    let rows = |what: &str| figures(&library, &config, RigOptions::default(), what);
    let (few, many) = ("mount 10 text files of 64 KiB", "mount 160 text files of 4 KiB");
    let seconds = |subject: &str, tree: &str, part: &str| {
        let rows = rows(&format!("{subject} {tree}")).unwrap();
        rows.iter().find(|row| row.name == format!("{tree}{part}")).unwrap().value
    };
    for subject in ["jffs2", "ubifs"] {
        assert!(seconds(subject, few, "") > 0.01, "{subject} mounts");
        let untar = [few, many].map(|tree| seconds(subject, tree, ": untar before"));
        assert!(untar[0] > 0.1 && untar[1] > untar[0], "{subject}: the same bytes in more files: {untar:?}");
    }
    let du = |subject, trees: [&str; 2]| trees.map(|tree| seconds(subject, tree, ": then du"));
    let [small, large] = du("jffs2", ["mount 10 text files of 4 KiB", few]);
    assert!(large > 2.0 * small && small > 0.0, "a JFFS2 checks all of a file first: {small} s, {large} s");
    let [few, many] = du("ubifs", [few, many]);
    assert!(many > few && few > 0.0, "a UBIFS looks at inodes: {few} s, {many} s");
    let full = rows("jffs2 mount 400 text files of 200 KiB").unwrap_err().to_string();
    assert!(full.contains("of the 400 files have room"), "{full}");
    for wrong in
        ["0 text files of 4 KiB", "4 text files of 0 KiB", "4 text files of 18446744073709551615 KiB"]
    {
        assert!(rows(&format!("ubifs mount {wrong}")).is_err(), "{wrong}");
    }
}
