//! Images as a user has them, made by floatgate's own UBI and UBIFS in memory.

use floatgate_media::ubifs::ROOT_INODE;
use floatgate_mtd::{FlashKind, Geometry, RamFlash};
use floatgate_stack::fs::{DeviceNumber, NewFile, NewKind, SetXattr, Timestamp};
use floatgate_stack::ubi::{self, AttachOptions, NewVolume, Ubi, UbiVolume};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, Ubifs};
use std::convert::Infallible;
use std::path::Path;

type Device = Ubi<RamFlash>;
type Live = Ubifs<UbiVolume<RamFlash>>;

/// `rootfs.ubi`, a clean image of one volume; `two-volumes.ubi`, with one more, `data`; `dump.bin`, a dump of the device in
/// use: the last file is in the journal; `flash.nand`, an empty UBI on large pages with their OOB. And what to build new ones from, `devices.txt`, `volumes.ini`, and to put into them.
pub(crate) fn write(folder: &Path) {
    for (name, text) in [
        ("hostname", "board-7"),
        ("config.toml", "x = 1"),
        ("app/run", "#!/bin/sh"),
        ("overlay/etc/motd", "hi"),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let volumes = |names: &[&str]| {
        let mut device = formatted(Geometry::nand_2048(64));
        for name in names {
            device.create_volume(&NewVolume::dynamic(*name, 24)).unwrap();
        }
        device
    };
    let file = |name: &str, device: Device| std::fs::write(folder.join(name), bytes(device)).unwrap();
    file("rootfs.ubi", unmount(filled(volumes(&["rootfs"]), 0)));
    file("two-volumes.ubi", unmount(filled(unmount(filled(volumes(&["rootfs", "data"]), 0)), 1)));
    let text = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    text("devices.txt", "/dev d 755 0 0 - - - - -\n/dev/tty c 620 0 5 4 0 0 1 4\n");
    text(
        "volumes.ini",
        "[rootfs]\nmode=ubi\nimage=rootfs.ubifs\nvol_id=0\nvol_type=dynamic\nvol_name=rootfs\n",
    );
    let mut live = filled(volumes(&["rootfs"]), 0);
    live.sync().unwrap();
    add(&mut live, ROOT_INODE, "lately", NewKind::Regular, b"written after the last commit\n");
    live.sync().unwrap();
    file("dump.bin", live.abandon().into_ubi());
    std::fs::write(
        folder.join("flash.nand"),
        with_oob(&bytes(formatted(Geometry::plain(FlashKind::SlcNand, 16 << 19, 1 << 19, 4096))), 4096, 224),
    )
    .unwrap();
}

/// Pages with erased OOB behind each, as a programmer reads them from a chip whose controller keeps its ECC elsewhere.
fn with_oob(data: &[u8], page: usize, oob: usize) -> Vec<u8> {
    let pages = data.chunks(page);
    pages.flat_map(|page| page.iter().copied().chain(std::iter::repeat_n(0xFF, oob))).collect()
}

/// `damaged.ubi`: `rootfs.ubi` with a wrong byte in the contents of `/etc/fstab`.
pub(crate) fn damage(folder: &Path) {
    let mut bytes = std::fs::read(folder.join("rootfs.ubi")).unwrap();
    let contents = b"ubi0:rootfs / ubifs";
    let at = bytes.windows(contents.len()).position(|window| window == contents).unwrap();
    bytes[at] ^= 1;
    std::fs::write(folder.join("damaged.ubi"), bytes).unwrap();
}

fn formatted(geometry: Geometry) -> Device {
    let options = ubi::FormatOptions { image_seq: 1, ..ubi::FormatOptions::default() };
    let (flash, _) = Ubi::format(RamFlash::new(geometry), &options).map_err(|(error, _)| error).unwrap();
    Ubi::attach(flash, &AttachOptions::default()).map_err(|error| error.fault).unwrap()
}

fn filled(device: Device, volume: u32) -> Live {
    let volume = device.open_volume(volume).map_err(|(error, _)| error).unwrap();
    let mut live = Ubifs::format(volume, &FormatOptions::default(), Behaviour::default())
        .map_err(|(error, _)| error)
        .unwrap();
    live.set_time(Timestamp { seconds: 1_700_000_000, nanoseconds: 0 });
    let folder = |live: &mut Live, name| add(live, ROOT_INODE, name, NewKind::Directory, b"");
    let [bin, boot, dev, etc] = ["bin", "boot", "dev", "etc"].map(|name| folder(&mut live, name));
    let busybox = add(&mut live, bin, "busybox", NewKind::Regular, &b"#!/bin/true\n".repeat(2000));
    live.link(busybox, bin, b"sh").unwrap();
    live.set_xattr(busybox, b"user.origin", b"example", SetXattr::Any).unwrap();
    add(&mut live, bin, "ls", NewKind::Symlink(b"busybox"), b"");
    add(&mut live, boot, "zImage", NewKind::Regular, &noise(50_000));
    add(&mut live, dev, "console", NewKind::CharacterDevice(DeviceNumber { major: 5, minor: 1 }), b"");
    add(&mut live, etc, "fstab", NewKind::Regular, b"ubi0:rootfs / ubifs defaults 0 0\n");
    live
}

fn add(live: &mut Live, directory: u32, name: &str, kind: NewKind, data: &[u8]) -> u32 {
    let permissions = if matches!(kind, NewKind::Directory) { 0o755 } else { 0o644 };
    let file = NewFile { kind, permissions, uid: 0, gid: 0 };
    let inode = live.create(directory, name.as_bytes(), &file).unwrap();
    if !data.is_empty() {
        live.write(inode, 0, data).unwrap();
    }
    inode
}

/// Bytes that nothing compresses; a linear congruential generator is enough (Knuth's MMIX).
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let states = std::iter::successors(Some(1_u64), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    });
    states.map(|state| (state >> 56) as u8).take(len).collect()
}

fn unmount(live: Live) -> Device {
    live.unmount().map_err(|(error, _)| error).unwrap().into_ubi()
}

fn bytes(device: Device) -> Vec<u8> {
    let mut bytes = Vec::new();
    let copied: Result<(), Infallible> = device.into_mtd().copy_to(|block| {
        bytes.extend_from_slice(block);
        Ok(())
    });
    copied.unwrap();
    bytes
}
