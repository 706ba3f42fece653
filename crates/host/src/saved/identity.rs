//! Identity of a device: properties from the kernel (CID, serial number, WWID), and CRCs of samples of its data.

use super::{Disk, PIECE};
use crate::node::line;
use floatgate_mtd::random::hash;
use floatgate_mtd::size::text as size;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Number of samples, which is also the number of bits in a mark.
pub(super) const SAMPLES: usize = 128;
/// Maximum length of a sample, B.
const SAMPLE_MAX: u64 = 16 << 10;
/// Alignment of a sample, B: the largest sector size.
const ALIGN: u64 = 4096;
/// Maximum length of a fact's value and of the label, B.
const TEXT_MAX: usize = 200;

/// A property that identifies a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Name of the property: CID, serial number, WWID, inode.
    pub name: String,
    /// Value as the kernel shows it.
    pub value: String,
}

impl Fact {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: plain(value) }
    }
}

/// A text without control characters, shortened to [`TEXT_MAX`].
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.trim().chars().map(|c| if c.is_control() { '?' } else { c }) {
        if plain.len() + c.len_utf8() > TEXT_MAX {
            break;
        }
        plain.push(c);
    }
    plain
}

/// A part of the device and the CRC-32 of its data before the first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) position: u64,
    pub(super) crc: u32,
}

/// Identity of the device with saved ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Path of the device when it was opened.
    pub(super) label: String,
    /// Size of the device in bytes.
    pub(super) capacity: u64,
    pub(super) facts: Vec<Fact>,
    /// Length of each sample in bytes.
    pub(super) sample_bytes: u32,
    pub(super) samples: Vec<Sample>,
}

impl Identity {
    /// Identity of a device before the first write. Samples that cannot be read are omitted.
    pub(crate) fn of(label: &Path, capacity: u64, facts: Vec<Fact>, disk: &mut impl Disk) -> Self {
        let part = capacity / SAMPLES as u64;
        let bytes = (part / 2).min(SAMPLE_MAX) / ALIGN * ALIGN;
        let mut buf = vec![0; bytes as usize];
        let mut samples = Vec::new();
        for number in (0..SAMPLES as u64).filter(|_| bytes > 0) {
            // The first sample contains the partition table.
            let offset = if number == 0 { 0 } else { hash(capacity, number, 3) % (part - bytes) };
            let position = (number * part + offset) / ALIGN * ALIGN;
            if disk.read_at(position, &mut buf).is_ok() {
                samples.push(Sample { position, crc: crc32fast::hash(&buf) });
            }
        }
        Self { label: plain(&label.to_string_lossy()), capacity, facts, sample_bytes: bytes as u32, samples }
    }

    /// Samples that overlap a range, one bit for each sample.
    pub(super) fn touched(&self, start: u64, end: u64) -> u128 {
        let overlaps =
            |sample: &Sample| sample.position < end && sample.position + u64::from(self.sample_bytes) > start;
        let bits = self.samples.iter().enumerate().filter(|(_, sample)| overlaps(sample));
        bits.fold(0, |all, (number, _)| all | 1 << number)
    }

    /// Compares a device with this identity. `touched` marks the samples that may have been overwritten.
    pub(super) fn check(
        &self,
        disk: &mut impl Disk,
        capacity: u64,
        facts: &[Fact],
        touched: u128,
    ) -> Result<(), OtherDevice> {
        if capacity != self.capacity {
            return Err(OtherDevice::Capacity { saved: self.capacity, found: capacity });
        }
        for saved in &self.facts {
            let found = facts.iter().find(|fact| fact.name == saved.name);
            if found != Some(saved) {
                let found = found.map(|fact| fact.value.clone());
                return Err(OtherDevice::Fact { saved: saved.clone(), found });
            }
        }
        let mut buf = vec![0; (self.sample_bytes as usize).min(PIECE)];
        let (mut compared, mut differ) = (0, Vec::new());
        for (number, sample) in self.samples.iter().enumerate() {
            if touched >> number & 1 == 0 && disk.read_at(sample.position, &mut buf).is_ok() {
                compared += 1;
                differ.extend((crc32fast::hash(&buf) != sample.crc).then_some(sample.position));
            }
        }
        match differ.first() {
            Some(&first) => Err(OtherDevice::Contents { differ: differ.len(), compared, first }),
            None if compared == 0 && self.facts.is_empty() => Err(OtherDevice::Unknown),
            None => Ok(()),
        }
    }
}

/// Reason why a device is not the one whose data was saved.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtherDevice {
    /// The size of the device differs.
    #[error("the contents were saved from a device of {}, this one has {}", size(*.saved), size(*.found))]
    Capacity {
        /// Size of the saved device in bytes.
        saved: u64,
        /// Size of this device in bytes.
        found: u64,
    },
    /// The CID, serial number, WWID or inode differs.
    #[error("the contents were saved from a device with {} {}, this one has {}", .saved.name, .saved.value, .found.as_deref().unwrap_or("none"))]
    Fact {
        /// Property of the saved device.
        saved: Fact,
        /// Value on this device.
        found: Option<String>,
    },
    /// Data that was not overwritten differs.
    #[error(
        "it is another device, or was changed after its contents were saved: of {compared} samples that the probe has not overwritten, {differ} differ, the first at byte {first}"
    )]
    Contents {
        /// Number of samples that differ.
        differ: usize,
        /// Number of samples that were compared.
        compared: usize,
        /// Position in bytes of the first sample that differs.
        first: u64,
    },
    /// Neither a property nor a sample is available for a comparison.
    #[error("the saved file has nothing that identifies its device")]
    Unknown,
}

/// Properties of an open file or block device, from sysfs below `root`.
pub(crate) fn facts(root: &Path, metadata: &Metadata) -> Vec<Fact> {
    if !metadata.file_type().is_block_device() {
        return vec![Fact::new("inode", &metadata.ino().to_string())];
    }
    let number = format!("{}:{}", rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let folder = root.join("sys/dev/block").join(number);
    facts_of_disk(&folder.canonicalize().unwrap_or(folder))
}

/// Files in a disk's folder in sysfs, and names of their properties: MMC, NVMe, virtio, SCSI, device mapper, MD.
const FILES: [(&str, &str); 8] = [
    ("device/cid", "CID"),
    ("wwid", "WWID"),
    ("device/wwid", "WWID"),
    ("serial", "serial number"),
    ("device/serial", "serial number"),
    ("dm/uuid", "UUID"),
    ("md/uuid", "UUID"),
    ("loop/offset", "offset of a loop device"),
];

fn facts_of_disk(folder: &Path) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut disk = folder;
    if folder.join("partition").exists() {
        facts.extend(
            line(&folder.join("start")).map(|start| Fact::new("first sector of the partition", &start)),
        );
        disk = folder.parent().unwrap_or(folder);
    }
    let known = facts.len();
    let mut add = |name: &str, value: Option<String>| {
        let value = value.filter(|value| !value.is_empty());
        if let Some(value) = value.filter(|_| facts.iter().all(|fact: &Fact| fact.name != name)) {
            facts.push(Fact::new(name, &value));
        }
    };
    for (file, name) in FILES {
        add(name, line(&disk.join(file)));
    }
    // SCSI: VPD page 80h has a header of four bytes before the serial number.
    let page = std::fs::read(disk.join("device/vpd_pg80")).ok();
    add("serial number", page.map(|page| plain(&String::from_utf8_lossy(page.get(4..).unwrap_or_default()))));
    // In a card reader, the serial number is that of the nearest USB device above the disk.
    let usb = disk.ancestors().find(|folder| folder.join("idVendor").exists());
    add("serial number of the USB device", usb.and_then(|usb| line(&usb.join("serial"))));
    let backing = line(&disk.join("loop/backing_file")).and_then(|path| Path::new(&path).metadata().ok());
    add("inode of its file", backing.map(|file| file.ino().to_string()));
    if facts.len() == known {
        let name = disk.file_name().unwrap_or_default().to_string_lossy();
        facts.push(Fact::new("name", &name));
    }
    facts
}

/// Identifying properties of an open device.
///
/// # Errors
/// An error of the system about the open file.
pub(crate) fn facts_of(file: &std::fs::File) -> io::Result<Vec<Fact>> {
    Ok(facts(Path::new("/"), &file.metadata()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_disk_comes_from_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| crate::node::put(root.path(), path, bytes);
        let found = |folder: &str| {
            let all = facts_of_disk(&root.path().join(folder));
            all.into_iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect::<Vec<_>>().join(", ")
        };
        put("mmc/mmcblk0/device/cid", b"035344535344323036851b0c00a9\n");
        put("mmc/mmcblk0/mmcblk0p1/partition", b"1\n");
        put("mmc/mmcblk0/mmcblk0p1/start", b"8192\n");
        assert_eq!(found("mmc/mmcblk0"), "CID=035344535344323036851b0c00a9");
        assert_eq!(
            found("mmc/mmcblk0/mmcblk0p1"),
            "first sector of the partition=8192, CID=035344535344323036851b0c00a9"
        );
        put("nvme/nvme0n1/wwid", b"eui.0025385b71b0a1c2\n");
        put("nvme/nvme0n1/device/serial", b"S4EVNX0M  \n");
        assert_eq!(found("nvme/nvme0n1"), "WWID=eui.0025385b71b0a1c2, serial number=S4EVNX0M");
        put("usb1/1-2/idVendor", b"0bda\n");
        put("usb1/1-2/serial", b"20100201396000000\n");
        put("usb1/1-2/host6/sda/device/vpd_pg80", b"\0\x80\0\x0420\x0735");
        assert_eq!(
            found("usb1/1-2/host6/sda"),
            "serial number=20?35, serial number of the USB device=20100201396000000"
        );
        put("backing", b"x");
        let backing = root.path().join("backing");
        put("loop0/loop/backing_file", backing.to_str().unwrap().as_bytes());
        put("loop0/loop/offset", b"512\n");
        let inode = backing.metadata().unwrap().ino();
        assert_eq!(found("loop0"), format!("offset of a loop device=512, inode of its file={inode}"));
        // No other property is available, so the name is used.
        put("zram0/size", b"8\n");
        assert_eq!(found("zram0"), "name=zram0");
    }
}
