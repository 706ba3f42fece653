//! The kernel reads what floatgate wrote, live and cut off, and goes on with it.

use crate::judge::fresh;
use crate::judged::{Judged, Ours};
use crate::live::{abandon, close, format, manifest, mount};
use crate::manifest::Manifest;
use crate::ubifs::{CHIPS, Chip, combination, rounds};
use crate::workload::Workload;
use floatgate_media::ubifs::KeyHash;
use floatgate_mtd::{Cut, CutKind};
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::{FormatOptions, FormatStyle, MountOptions};
use std::sync::OnceLock;

/// Operations on each, before it is unmounted or power goes away.
const OPERATIONS: usize = 900;

fn options(index: usize) -> FormatOptions {
    let compressions = [Compression::Lzo, Compression::Zlib, Compression::Zstd, Compression::None];
    let base = if index.is_multiple_of(3) { FormatOptions::linux() } else { FormatOptions::default() };
    FormatOptions {
        compression: compressions[combination(index).1],
        style: if index.is_multiple_of(2) { FormatStyle::Linux } else { FormatStyle::Mkfs },
        key_hash: if index % 7 == 6 { KeyHash::Test } else { KeyHash::R5 },
        fanout: [8, 8, 3, 16][index % 4],
        time_granularity_ns: 1,
        uuid: [7; 16],
        max_lebs: (index % 5 == 4).then_some(3000),
        journal_bytes: (index % 5 == 4).then_some(768 << 10),
        ..base
    }
}

/// What is left of one filesystem: unmounted, or cut off at some operation of the flash.
fn make(index: usize) -> (String, &'static Chip, Vec<u8>) {
    let chip = &CHIPS[index % CHIPS.len()];
    let mut workload = Workload::new(format(chip, &options(index)), index as u64);
    if index.is_multiple_of(2) {
        assert!(workload.run(OPERATIONS));
        workload.close_all();
        return (format!("{index:02}-{}-clean", chip.name), chip, close(workload.live));
    }
    let kind = CutKind::ALL[index / 2 % CutKind::ALL.len()];
    let cut = Cut { operation: 300 + 97 * index as u64, kind, seed: index as u64 };
    workload.live.volume_mut().ubi_mut().mtd_mut().order(Some(cut));
    workload.run(OPERATIONS);
    (format!("{index:02}-{}-cut", chip.name), chip, abandon(workload.live))
}

fn found(name: &str, chip: &Chip, image: &[u8]) -> Manifest {
    let options = MountOptions { read_only: true, recover: true, ..MountOptions::default() };
    let mut live = mount(chip, image, &options).unwrap_or_else(|why| panic!("{name}: {why}"));
    manifest(&mut live).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn judged() -> &'static Judged {
    static JUDGED: OnceLock<Result<Judged, String>> = OnceLock::new();
    let judged = JUDGED.get_or_init(|| {
        let folder = fresh("ubifs-live");
        let make = |index| {
            let (name, chip, bytes) = make(index);
            let (image, manifest) = (folder.join(format!("{name}.bin")), found(&name, chip, &bytes));
            std::fs::write(&image, bytes).unwrap();
            Ours { name, chip, image, manifest }
        };
        let images: Vec<_> = (0..CHIPS.len() * rounds()).map(make).collect();
        Judged::by_kernel("live", images)
    });
    judged.as_ref().unwrap_or_else(|why| panic!("{why}"))
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_finds_what_floatgate_finds() {
    judged().assert_found();
}

/// With all of its checks on.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_does_not_complain() {
    judged().assert_silent(|name, line| name.ends_with("cut") && line.ends_with("recovery needed"));
}

/// The kernel went on with what it found.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn floatgate_reads_what_the_kernel_made_of_it() {
    judged().assert_read_after(found);
}
