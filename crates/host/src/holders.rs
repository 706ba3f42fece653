//! Users of a file or device that writes would harm.

use crate::mtd::users as mtd;
use crate::node::{BLOCK_DEVICES, line, names, number, with_partitions};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Users of a file, block device or MTD that writes would harm, as text: mounts, swap, RAID, LVM, loop devices, UBI.
///
/// # Errors
/// The path cannot be examined. For an MTD also: the mounts are not visible, because an MTD can be opened while it is
/// mounted.
pub fn holders(path: &Path) -> io::Result<Vec<String>> {
    holders_of(&path.metadata()?)
}

/// Users of an open file or device, as [`holders`].
pub(crate) fn holders_of(metadata: &Metadata) -> io::Result<Vec<String>> {
    let root = Path::new("/");
    let mtds = mtd::number(metadata).map_or_else(Vec::new, |number| mtd::family(root, number));
    let devices = match metadata.file_type().is_block_device() {
        true => with_partitions(&root.join(BLOCK_DEVICES), &number(metadata)),
        false => block_devices_above(root, &mtds),
    };
    let is_file = metadata.is_file();
    let is_it = |other: &Path| {
        let other = other.metadata();
        other.is_ok_and(|other| match other.file_type().is_block_device() {
            true => devices.contains(&number(&other)),
            false => is_file && (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()),
        })
    };
    users(root, &devices, &mtds, is_it)
}

/// Users of block devices and MTDs in the system below `root`. `is_it` is true for a path of the same file or device.
fn users(
    root: &Path,
    devices: &[String],
    mtds: &[String],
    is_it: impl Fn(&Path) -> bool + Copy,
) -> io::Result<Vec<String>> {
    let text = |path: &str| std::fs::read_to_string(root.join(path));
    let mut found = swaps(&text("proc/swaps").unwrap_or_default(), is_it);
    found.extend(loops(&root.join("sys/block"), is_it));
    let mountinfo = match text("proc/self/mountinfo") {
        Err(error) if !mtds.is_empty() => {
            let why = format!("/proc/self/mountinfo, which lists mounted devices: {error}");
            return Err(io::Error::new(error.kind(), why));
        }
        other => other.unwrap_or_default(),
    };
    found.extend(mounts(&mountinfo, devices));
    for device in devices {
        let holders = names(&root.join(BLOCK_DEVICES).join(device).join("holders"));
        found.extend(holders.into_iter().map(|name| format!("{name} is built on it")));
    }
    found.extend(mtd::attached(root, mtds));
    Ok(found)
}

/// Numbers of the block devices above MTDs: mtdblock, which is also the source of JFFS2 mounts, and translation
/// layers.
fn block_devices_above(root: &Path, mtds: &[String]) -> Vec<String> {
    mtds.iter()
        .flat_map(|name| mtd::block_devices(root, name))
        .flat_map(|number| with_partitions(&root.join(BLOCK_DEVICES), &number))
        .collect()
}

/// Mounts of devices (proc(5), mountinfo: the third field is the device, the fifth the mount point).
fn mounts(mountinfo: &str, devices: &[String]) -> Vec<String> {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(2);
        let (device, place) = (fields.next()?, fields.nth(1)?);
        devices.iter().any(|known| known == device).then(|| format!("it is mounted on {place}"))
    };
    mountinfo.lines().filter_map(mount).collect()
}

/// Swap areas (proc(5)) on a device, its partitions, or a file. Blanks in names are octal escapes.
fn swaps(swaps: &str, is_it: impl Fn(&Path) -> bool) -> Vec<String> {
    let used = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let used = used.map(|name| name.replace("\\040", " "));
    used.filter(|name| is_it(Path::new(name))).map(|name| format!("{name} is used as swap")).collect()
}

/// Loop devices backed by a file or another device.
fn loops(sysfs: &Path, is_it: impl Fn(&Path) -> bool) -> Vec<String> {
    let is_backed = |name: &String| {
        line(&sysfs.join(name).join("loop/backing_file")).is_some_and(|file| is_it(Path::new(&file)))
    };
    names(sysfs)
        .into_iter()
        .filter(is_backed)
        .map(|name| format!("{name} is a loop device over it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::put;
    use std::fs;

    #[test]
    fn users_are_found() {
        let mountinfo =
            "22 1 179:2 / / rw - ext4 /dev/root rw\n36 22 8:17 / /mnt/card rw - vfat /dev/sdb1 rw\n";
        let devices = ["8:16", "8:17"].map(str::to_owned);
        assert_eq!(mounts(mountinfo, &devices), ["it is mounted on /mnt/card"]);
        assert!(mounts(mountinfo, &devices[..1]).is_empty());
        let text = "Filename\tType\tSize\tUsed\tPriority\n/dev/sdb2   partition\t1024\t0\t-2\n";
        assert_eq!(swaps(text, |path| path == Path::new("/dev/sdb2")), ["/dev/sdb2 is used as swap"]);
        assert!(swaps(text, |path| path == Path::new("/dev/sdb")).is_empty());
    }

    #[test]
    fn partitions_and_loop_devices_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| put(root.path(), path, text);
        write("8:16/sdb1/dev", "8:17\n");
        write("8:16/sdb1/partition", "1\n");
        write("8:16/queue/dev", "no partition");
        assert_eq!(with_partitions(root.path(), "8:16"), ["8:16", "8:17"]);
        write("loop3/loop/backing_file", "/tmp/image\n");
        write("loop4/size", "0\n");
        assert_eq!(
            loops(root.path(), |path| path == Path::new("/tmp/image")),
            ["loop3 is a loop device over it"]
        );
    }

    #[test]
    fn users_of_an_mtd_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| put(root.path(), path, text);
        let users = |number: u32| {
            let mtds = mtd::family(root.path(), number);
            users(root.path(), &block_devices_above(root.path(), &mtds), &mtds, |_| false)
        };
        // If the mounts are not visible, writing is not allowed.
        let error = users(1).unwrap_err().to_string();
        assert!(error.contains("mountinfo, which lists mounted devices"), "{error}");
        write(
            "proc/self/mountinfo",
            "30 1 31:1 / /mnt rw - jffs2 mtd:root rw\n31 1 93:0 / /dos rw - vfat /dev/nftla rw\n",
        );
        assert_eq!(users(1).unwrap(), ["it is mounted on /mnt"]);
        assert!(users(11).unwrap().is_empty());
        write("sys/class/ubi/ubi3/mtd_num", "2\n");
        write("sys/class/ubi/ubi3_0/name", "root\n");
        write("sys/class/ubi/version", "1\n");
        assert_eq!(users(2).unwrap(), ["UBI has attached mtd2 as ubi3"]);
        assert!(users(22).unwrap().is_empty());
        // A translation layer is a block device in the sysfs folder of its MTD.
        write("sys/class/mtd/mtd4/nftla/dev", "93:0\n");
        fs::create_dir(root.path().join("sys/class/mtd/mtd4/nftla/queue")).unwrap();
        write("sys/class/mtd/mtd4/power/dev", "31:1\n");
        assert_eq!(users(4).unwrap(), ["it is mounted on /dos"]);
        // A master MTD and its partitions are the same flash.
        let master = root.path().join("sys/class/mtd/mtd7");
        fs::create_dir_all(master.join("mtd1/mtd1")).unwrap();
        for number in [1, 2] {
            fs::create_dir_all(master.join(format!("mtd{number}"))).unwrap();
            let link = root.path().join(format!("sys/class/mtd/mtd{number}"));
            std::os::unix::fs::symlink(master.join(format!("mtd{number}")), link).unwrap();
        }
        assert_eq!(users(7).unwrap(), ["it is mounted on /mnt", "UBI has attached mtd2 as ubi3"]);
        assert_eq!(users(2).unwrap(), ["UBI has attached mtd2 as ubi3"]);
        write("sys/class/ubi/ubi3/mtd_num", "7\n");
        assert_eq!(users(2).unwrap(), ["UBI has attached mtd7 as ubi3"]);
    }
}
