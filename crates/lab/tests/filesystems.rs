//! Tests of UBI and UBIFS on every kind of simulated device: driver, ECC, bus and chip.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use crate::common::{bytes, names, rig};
use floatgate_mtd::{FlashKind, Instant, Mtd, Partition};
use floatgate_sim::rig::Device;
use floatgate_stack::fs::{NewFile, NewKind};
use floatgate_stack::ubi::{AttachOptions, FormatOptions as UbiFormat, NewVolume, Ubi, UbiError, UbiVolume};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, Ubifs};
use rayon::prelude::*;

type Flash = Partition<Box<dyn Device>>;
type Fs = Ubifs<UbiVolume<Flash>>;

/// Minimum size of a LEB for UBIFS, bytes (Linux: UBIFS_MIN_LEB_SZ).
const LEB_MIN: u32 = 15 << 10;
const FILE: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

/// The last blocks of a device: its first blocks may be bad in a way that only a boot ROM
/// tolerates.
fn flash(name: &str) -> (Flash, Instant) {
    let mut rig = rig(name);
    let now = rig.now();
    let g = rig.device.geometry().clone();
    let len = u64::from(g.erase_bytes) * u64::from(g.blocks().min(140));
    (Partition::new(rig.device, g.size_bytes - len, len).unwrap(), now)
}

fn attach(flash: Flash, now: Instant) -> Ubi<Flash> {
    let options = AttachOptions { now, ..AttachOptions::default() };
    Ubi::attach(flash, &options).map_err(|error| error.fault).unwrap()
}

fn write(fs: &mut Fs, name: &[u8], seed: u64) {
    let root = fs.root();
    let inode = fs.create(root, name, &FILE).unwrap();
    fs.write(inode, 0, &bytes(seed, 50_000)).unwrap();
    fs.fsync(inode).unwrap();
}

fn check(fs: &mut Fs, name: &[u8], seed: u64) {
    let root = fs.root();
    let inode = fs.lookup(root, name).unwrap();
    let mut found = vec![0; 50_000];
    assert_eq!(fs.read(inode, 0, &mut found), Ok(50_000));
    assert!(found == bytes(seed, 50_000));
}

fn files_stay(name: &str) {
    let (flash, now) = flash(name);
    let g = flash.geometry().clone();
    let made = Ubi::format(flash, &UbiFormat { now, ..UbiFormat::default() });
    if g.kind == FlashKind::MlcNand {
        assert!(matches!(made, Err((UbiError::Mlc, _))), "{name}");
        return;
    }
    let (flash, now) = made.map_err(|(error, _)| error).unwrap();
    let mut ubi = attach(flash, now);
    if g.kind == FlashKind::SlcNand || g.kind == FlashKind::SlcModeNand {
        // With sub-pages, both headers fit into one page.
        let pages = if g.sub_page_bytes < g.write_bytes { 1 } else { 2 };
        assert_eq!(ubi.info().geometry.leb_bytes(), g.erase_bytes - pages * g.write_bytes, "{name}");
    }
    let lebs = ubi.info().available_lebs;
    let id = ubi.create_volume(&NewVolume::dynamic("files", lebs)).unwrap();
    if ubi.info().geometry.leb_bytes() < LEB_MIN {
        return;
    }
    let volume = ubi.open_volume(id).map_err(|(error, _)| error).unwrap();
    let mut fs = Ubifs::format(volume, &FormatOptions::default(), Behaviour::default())
        .map_err(|(error, _)| error)
        .unwrap();
    write(&mut fs, b"first", 1);
    let (flash, now) = fs
        .unmount()
        .map_err(|(error, _)| error)
        .unwrap()
        .into_ubi()
        .detach()
        .map_err(|(error, _)| error)
        .unwrap();

    let volume = attach(flash, now).open_volume(id).map_err(|(error, _)| error).unwrap();
    let mount = |volume| {
        Ubifs::mount(volume, &MountOptions::default(), Behaviour::default())
            .map_err(|(error, _)| error)
            .unwrap()
    };
    let mut fs: Fs = mount(volume);
    check(&mut fs, b"first", 1);
    write(&mut fs, b"second", 2);
    check(&mut fs, b"second", 2);
    assert_eq!(fs.check(), Ok(Vec::new()), "{name}");
}

#[test]
fn files_stay_on_every_device() {
    names().par_iter().for_each(|name| files_stay(name));
}
