//! Images such as a user has, created by UBI and UBIFS in memory.

use crate::common::Failure;
use crate::output::bug;
use floatgate_media::crc;
use floatgate_media::ubifs::ROOT_INODE;
use floatgate_mtd::{FlashKind, Geometry, RamFlash};
use floatgate_stack::fs::{DeviceNumber, NewFile, NewKind, SetXattr, Timestamp};
use floatgate_stack::ubi::{self, AttachOptions, NewVolume, Ubi, UbiVolume};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, Ubifs};
use std::convert::Infallible;
use std::iter;

type Device = Ubi<RamFlash>;
type Live = Ubifs<UbiVolume<RamFlash>>;

pub(super) const DEVICES: &str = "/dev d 755 0 0 - - - - -\n/dev/tty c 620 0 5 4 0 0 1 4\n";
pub(super) const VOLUMES: &str =
    "[rootfs]\nmode=ubi\nimage=rootfs.ubifs\nvol_id=0\nvol_type=dynamic\nvol_name=rootfs\n";

/// Number of LEBs of a volume.
const LEBS: u32 = 24;

/// Image with an unmounted filesystem in each volume.
pub(super) fn clean(volumes: &[&str]) -> Result<Vec<u8>, Failure> {
    let mut device = with_volumes(volumes)?;
    for (volume, _) in (0..).zip(volumes) {
        device = filled(device, volume)?.unmount().map_err(|(error, _)| bug(error))?.into_ubi();
    }
    Ok(contents(device))
}

/// Dump of a device with a mounted filesystem: a file was written after the last commit.
pub(super) fn in_use() -> Result<Vec<u8>, Failure> {
    let mut live = filled(with_volumes(&["rootfs"])?, 0)?;
    live.sync().map_err(bug)?;
    add(&mut live, ROOT_INODE, "lately", NewKind::Regular, b"written after the last commit\n")?;
    live.sync().map_err(bug)?;
    Ok(contents(live.abandon().into_ubi()))
}

/// Empty UBI on large pages with erased OOB, as read from a chip whose controller stores its ECC elsewhere.
pub(super) fn empty_dump() -> Result<Vec<u8>, Failure> {
    const PAGE: u32 = 4096;
    const OOB: usize = 224;
    let data = contents(formatted(Geometry::plain(FlashKind::SlcNand, 16 << 19, 1 << 19, PAGE))?);
    let pages = data.chunks(PAGE as usize);
    Ok(pages.flat_map(|page| page.iter().copied().chain(iter::repeat_n(0xFF, OOB))).collect())
}

/// Flash of a router: a boot loader, a redundant environment with partitions, and an UBI device.
pub(super) fn router() -> Result<Vec<u8>, Failure> {
    const BLOCK: usize = 128 << 10;
    let mut flash = b"U-Boot 2023.01 (Jan 09 2023 - 16:07:33 +0000)\0".repeat(2000);
    for flag in [3, 2] {
        flash.resize(flash.len().next_multiple_of(BLOCK), 0xFF);
        let mut variables =
            b"bootcmd=ubi part ubi; bootm\0bootdelay=3\0mtdparts=nand0:128k(u-boot)ro,128k(env),128k(env2),-(ubi)\0\0".to_vec();
        variables.resize(0x4000 - 5, 0);
        let sum = !crc::ubi(&variables);
        flash.extend(sum.to_le_bytes().into_iter().chain([flag]).chain(variables));
    }
    flash.resize(flash.len().next_multiple_of(BLOCK), 0xFF);
    flash.extend(clean(&["rootfs"])?);
    Ok(flash)
}

/// Adds bitflips that BCH-4 corrects to a dump of pages of 2048 + 64 bytes; `shift` moves their positions.
pub(super) fn with_wrong_bits(mut dump: Vec<u8>, shift: usize) -> Vec<u8> {
    const PAGE: usize = 2048 + 64;
    for (page, bit) in [(1, 100), (1, 101), (64, 9000), (65, 5), (65, 8 * 2100 + 7)] {
        let bit = (bit + shift) % (8 * PAGE);
        if let Some(byte) = dump.get_mut(page * PAGE + bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
    dump
}

fn with_volumes(names: &[&str]) -> Result<Device, Failure> {
    let mut device = formatted(Geometry::nand_2048(64))?;
    for name in names {
        device.create_volume(&NewVolume::dynamic(*name, LEBS)).map_err(bug)?;
    }
    Ok(device)
}

fn formatted(geometry: Geometry) -> Result<Device, Failure> {
    let options = ubi::FormatOptions { image_seq: 1, ..ubi::FormatOptions::default() };
    let (flash, _) = Ubi::format(RamFlash::new(geometry), &options).map_err(|(error, _)| bug(error))?;
    Ubi::attach(flash, &AttachOptions::default()).map_err(|error| bug(error.fault))
}

/// Filesystem with a few files of each type.
fn filled(device: Device, volume: u32) -> Result<Live, Failure> {
    let volume = device.open_volume(volume).map_err(|(error, _)| bug(error))?;
    let formatted = Ubifs::format(volume, &FormatOptions::default(), Behaviour::default());
    let mut live = formatted.map_err(|(error, _)| bug(error))?;
    live.set_time(Timestamp { seconds: 1_700_000_000, nanoseconds: 0 });
    let mut folder = |name| add(&mut live, ROOT_INODE, name, NewKind::Directory, b"");
    let (bin, boot, dev, etc) = (folder("bin")?, folder("boot")?, folder("dev")?, folder("etc")?);
    let busybox = add(&mut live, bin, "busybox", NewKind::Regular, &b"#!/bin/true\n".repeat(2000))?;
    live.link(busybox, bin, b"sh").map_err(bug)?;
    live.set_xattr(busybox, b"user.origin", b"example", SetXattr::Any).map_err(bug)?;
    add(&mut live, bin, "ls", NewKind::Symlink(b"busybox"), b"")?;
    add(&mut live, boot, "zImage", NewKind::Regular, &noise(50_000))?;
    let console = NewKind::CharacterDevice(DeviceNumber { major: 5, minor: 1 });
    add(&mut live, dev, "console", console, b"")?;
    add(&mut live, etc, "fstab", NewKind::Regular, b"ubi0:rootfs / ubifs defaults 0 0\n")?;
    Ok(live)
}

fn add(live: &mut Live, directory: u32, name: &str, kind: NewKind, data: &[u8]) -> Result<u32, Failure> {
    let permissions = if matches!(kind, NewKind::Directory) { 0o755 } else { 0o644 };
    let file = NewFile { kind, permissions, uid: 0, gid: 0 };
    let inode = live.create(directory, name.as_bytes(), &file).map_err(bug)?;
    if !data.is_empty() {
        live.write(inode, 0, data).map_err(bug)?;
    }
    Ok(inode)
}

/// Incompressible bytes, from a linear congruential generator (Knuth's MMIX).
fn noise(len: usize) -> Vec<u8> {
    let states = iter::successors(Some(1_u64), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    });
    states.map(|state| (state >> 56) as u8).take(len).collect()
}

fn contents(device: Device) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Ok(()) = device.into_mtd().copy_to(|block| {
        bytes.extend_from_slice(block);
        Ok::<(), Infallible>(())
    });
    bytes
}
