//! Users of an MTD according to sysfs: UBI, and the block devices above it.

use crate::node::{line, names};
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Major numbers of MTD's character devices and of mtdblock (Linux: `MTD_CHAR_MAJOR`, `MTD_BLOCK_MAJOR`).
const CHAR_MAJOR: u32 = 90;
const BLOCK_MAJOR: u32 = 31;

/// Number of the MTD to which a node in `/dev` belongs; `None` for any other node.
pub(crate) fn number(metadata: &Metadata) -> Option<u32> {
    let (kind, device) = (metadata.file_type(), metadata.rdev());
    let minor = rustix::fs::minor(device);
    match rustix::fs::major(device) {
        // Each MTD has two minor numbers; the odd one is read-only.
        CHAR_MAJOR if kind.is_char_device() => Some(minor / 2),
        BLOCK_MAJOR if kind.is_block_device() => Some(minor),
        _ => None,
    }
}

/// Number of the MTD at a path, which is a character device or mtdblock.
pub fn number_of(path: &Path) -> Option<u32> {
    number(&path.metadata().ok()?)
}

fn folder(root: &Path, name: &str) -> PathBuf {
    root.join("sys/class/mtd").join(name)
}

fn is_name(name: &str) -> bool {
    name.strip_prefix("mtd").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Names of the MTDs on the same flash: the MTD itself first, its partitions, and the device of which it is a
/// partition. The kernel shows this relation only with `CONFIG_MTD_PARTITIONED_MASTER`.
pub(crate) fn family(root: &Path, number: u32) -> Vec<String> {
    let name = format!("mtd{number}");
    let real = folder(root, &name).canonicalize().unwrap_or_default();
    let above = real.ancestors().skip(1).map_while(|path| path.file_name()?.to_str());
    let above: Vec<String> = above.take_while(|name| is_name(name)).map(str::to_owned).collect();
    let mut all = vec![name];
    // An nvmem folder below an MTD has the same name as the MTD.
    for other in partitions(&real).into_iter().chain(above) {
        if !all.contains(&other) {
            all.push(other);
        }
    }
    all
}

/// Partitions below a folder, including nested ones.
fn partitions(folder: &Path) -> Vec<String> {
    let own = names(folder).into_iter().filter(|name| is_name(name));
    own.flat_map(|name| {
        let below = partitions(&folder.join(&name));
        std::iter::once(name).chain(below)
    })
    .collect()
}

/// Numbers of the block devices of an MTD.
pub(crate) fn block_devices(root: &Path, name: &str) -> Vec<String> {
    let mtdblock = format!("{BLOCK_MAJOR}:{}", name.trim_start_matches("mtd"));
    let folder = folder(root, name);
    let disks = names(&folder).into_iter().map(|disk| folder.join(disk));
    let disks = disks.filter(|disk| disk.join("queue").exists());
    let mut all: Vec<String> = disks.filter_map(|disk| line(&disk.join("dev"))).collect();
    // The mtdblock device appears only when a program opens it, but JFFS2 is mounted by its number even without it.
    if !all.contains(&mtdblock) {
        all.push(mtdblock);
    }
    all
}

/// UBI devices attached to MTDs, as text.
pub(crate) fn attached(root: &Path, mtds: &[String]) -> Vec<String> {
    let folder = root.join("sys/class/ubi");
    let on = |ubi: String| {
        let name = format!("mtd{}", line(&folder.join(&ubi).join("mtd_num"))?);
        mtds.contains(&name).then(|| format!("UBI has attached {name} as {ubi}"))
    };
    names(&folder).into_iter().filter_map(on).collect()
}
