//! The kernel reads filesystems of floatgate that are at a limit: without any free byte, and with 100,000 files.

use crate::flips::Random;
use crate::judge::fresh;
use crate::judged::{Judged, Ours};
use crate::live::{Live, close, format, manifest, mount};
use crate::manifest::Manifest;
use crate::ubifs::{CHIPS, Chip, LARGE};
use floatgate_stack::fs::{Compression, Name, NewFile, NewKind, Rename, SetXattr};
use floatgate_stack::ubifs::{Error, FormatOptions, MountOptions, Result};
use std::sync::OnceLock;

const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::Lzo, Compression::Zlib, Compression::Zstd];

/// Bytes that are appended at once: large first, then smaller, so that the last byte is used.
const PIECES: [usize; 4] = [64 << 10, 4096, 512, 1];

const FILE: NewFile<'static> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

fn options(compression: Compression) -> FormatOptions {
    FormatOptions { compression, time_granularity_ns: 1, uuid: [7; 16], ..FormatOptions::default() }
}

/// Appends to a file until no byte more has room.
fn fill(live: &mut Live, inode: u32, random: &mut Random) {
    for piece in PIECES {
        loop {
            // Half of it can be compressed.
            let bytes: Vec<u8> =
                (0..piece).map(|at| if at % 2 == 0 { random.next() as u8 } else { b' ' }).collect();
            let size = live.attributes(inode).unwrap().size;
            match live.write(inode, size, &bytes).and_then(|()| live.fsync(inode)) {
                Ok(()) => {}
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{piece} bytes at {size}: {error}"),
            }
        }
    }
}

/// A filesystem that was full, was changed, and is full again.
fn full(chip: &Chip, compression: Compression, seed: u64) -> Vec<u8> {
    let mut live = format(chip, &options(compression));
    let (root, mut random) = (live.root(), Random(seed));
    let small: Vec<u32> = (0..60)
        .map(|number| {
            let inode = live.create(root, format!("small-{number}").as_bytes(), &FILE).unwrap();
            live.write(inode, 0, &[number as u8; 3000]).unwrap();
            inode
        })
        .collect();
    let big = live.create(root, b"big", &FILE).unwrap();
    fill(&mut live, big, &mut random);
    change(&mut live, big, &small).unwrap();
    fill(&mut live, big, &mut random);
    close(live)
}

/// What has to be possible on a full filesystem: removing, truncating, replacing bytes by as many, then what that made room for.
fn change(live: &mut Live, big: u32, small: &[u32]) -> Result<()> {
    let root = live.root();
    for number in 0..20 {
        live.unlink(root, format!("small-{number}").as_bytes())?;
    }
    live.sync()?;
    live.write(big, 70_000, b"12345678")?;
    live.fsync(big)?;
    let (old, new) =
        (Name { directory: root, name: b"small-20" }, Name { directory: root, name: b"renamed" });
    live.rename(old, new, Rename::Replace)?;
    live.set_xattr(small[21], b"user.some", b"thing", SetXattr::Any)?;
    live.sync()
}

fn found(name: &str, chip: &Chip, image: &[u8]) -> Manifest {
    let options = MountOptions { read_only: true, recover: true, ..MountOptions::default() };
    let mut live = mount(chip, image, &options).unwrap_or_else(|why| panic!("{name}: {why}"));
    manifest(&mut live).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Writes the images, and has the kernel judge them.
fn judge(batch: &str, made: Vec<(String, &'static Chip, Vec<u8>)>) -> std::result::Result<Judged, String> {
    let folder = fresh(&format!("ubifs-{batch}"));
    let images = made.into_iter().map(|(name, chip, bytes)| {
        let (image, manifest) = (folder.join(format!("{name}.bin")), found(&name, chip, &bytes));
        std::fs::write(&image, bytes).unwrap();
        Ours { name, chip, image, manifest }
    });
    Judged::by_kernel(batch, images.collect())
}

fn judged() -> &'static Judged {
    static JUDGED: OnceLock<std::result::Result<Judged, String>> = OnceLock::new();
    let judged = JUDGED.get_or_init(|| {
        let chips = [&CHIPS[0], &CHIPS[2], &CHIPS[5], &CHIPS[7]];
        let cases = chips.into_iter().zip(COMPRESSIONS).enumerate();
        let made = cases.map(|(index, (chip, compression))| {
            (format!("{index}-{}-full", chip.name), chip, full(chip, compression, index as u64))
        });
        judge("full", made.collect())
    });
    judged.as_ref().unwrap_or_else(|why| panic!("{why}"))
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_reads_full_filesystems() {
    judged().assert_found();
    judged().assert_silent(|_, _| false);
}

/// The kernel removes, replaces and adds, as far as there is room.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn floatgate_reads_full_filesystems_that_the_kernel_changed() {
    judged().assert_read_after(found);
}

/// Directories of 100,000 files, one of which has half of them.
fn many_files() -> Vec<u8> {
    let mut live = format(&LARGE, &options(Compression::Zstd));
    let root = live.root();
    let directory = NewFile { kind: NewKind::Directory, permissions: 0o755, ..FILE };
    let directories: Vec<u32> = (0..100)
        .map(|number| live.create(root, format!("directory-{number}").as_bytes(), &directory).unwrap())
        .collect();
    for number in 0..100_000_usize {
        let directory = if number % 2 == 0 { directories[0] } else { directories[number % 100] };
        let inode = live.create(directory, format!("file-{number}").as_bytes(), &FILE).unwrap();
        live.write(inode, 0, format!("{number}").as_bytes()).unwrap();
    }
    close(live)
}

#[test]
#[ignore = "slow: ./test --all"]
fn slow_the_kernel_reads_a_hundred_thousand_files() {
    let judged = judge("many", vec![("many".to_owned(), &LARGE, many_files())]).unwrap();
    judged.assert_found();
    judged.assert_silent(|_, _| false);
    judged.assert_read_after(found);
}
