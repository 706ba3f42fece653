//! Description of a UBI device and its volumes, as text and JSON.

use std::fmt;

use floatgate_media::ubi::{VolumeFlags, VolumeType};
use floatgate_media::ubifs::NODE_MAGIC;
use floatgate_stack::ubi::{AttachFault, PebState, VolumeInfo};
use floatgate_stack::ubifs::probe;
use floatgate_stack::{Volume, VolumeError};
use serde::Serialize;

use super::fit::{self, Room, of_volume, show};
use super::shape::UbiShape;

use crate::format::location::ImageLocation;
use crate::format::magic::{HEAD_BYTES, format_of};
use crate::format::ubi::attach::FileUbi;
use crate::format::ubifs::info::{UbifsInfo, missing_lebs, ubifs_info};
use crate::report::Finding;
use crate::selection::Selection;
use crate::words::{count, show_name, size};

/// A UBI device.
#[derive(Clone, Debug, Serialize)]
pub struct UbiInfo {
    /// Size of a PEB, bytes.
    pub peb_bytes: u32,
    /// Smallest write, bytes.
    pub min_io_bytes: u32,
    /// Smallest write of headers, bytes.
    pub sub_page_bytes: u32,
    /// Offset of the VID header in a PEB, bytes.
    pub vid_header_offset: u32,
    /// Offset of the data in a PEB, bytes.
    pub data_offset: u32,
    /// Size of a LEB, bytes.
    pub leb_bytes: u32,
    /// Image sequence number.
    pub image_seq: u32,
    /// Number of PEBs.
    pub pebs: u32,
    /// Number of PEBs that are free, or erased and without headers.
    pub free_pebs: u32,
    /// Number of PEBs that contain LEBs.
    pub mapped_pebs: u32,
    /// Number of PEBs that are reserved because of damage.
    pub corrupted_pebs: u32,
    /// Number of PEBs that are marked bad in the OOB of a dump.
    pub bad_pebs: u32,
    /// Number of LEBs available for a new volume.
    pub available_lebs: u32,
    /// Lowest, mean and highest erase counter.
    pub erase_counts: [u32; 3],
    /// Volumes of the device, with their contents.
    pub volumes: Vec<OneVolume>,
    /// Findings about the flash for which the image is checked.
    pub misfits: Vec<Finding>,
}

/// A volume of a UBI device, and its contents.
#[derive(Clone, Debug, Serialize)]
pub struct OneVolume {
    /// Volume id.
    pub id: u32,
    /// Name of the volume.
    pub name: String,
    /// True for a static volume, which is written once as a whole, with CRCs.
    pub is_static: bool,
    /// Number of LEBs reserved for the volume.
    pub lebs: u32,
    /// Number of mapped LEBs.
    pub mapped_lebs: u32,
    /// Usable size of a LEB, bytes.
    pub leb_bytes: u32,
    /// Alignment of the LEB size, bytes.
    pub alignment: u32,
    /// Number of data bytes in a static volume.
    pub used_bytes: Option<u64>,
    /// True if the volume grows to all free space when it is first attached.
    pub autoresize: bool,
    /// True for a static volume whose CRCs Linux does not check when it is opened.
    pub skip_check: bool,
    /// True if an update was interrupted.
    pub update_unfinished: bool,
    /// True if LEBs with data of a static volume are missing, have a wrong CRC, or cannot be determined.
    pub damaged: bool,
    /// UBIFS in the volume.
    pub ubifs: Option<UbifsInfo>,
    /// Kind of the content according to its first bytes, if it is no UBIFS.
    pub starts_with: Option<String>,
}

/// Begin of the text about a UBIFS that cannot be mounted.
pub(crate) const UNMOUNTABLE: &str = "a node of UBIFS, but it cannot be mounted";

/// Text about the damage of a device.
pub(crate) fn damage(ubi: &FileUbi) -> Option<String> {
    let all = ubi.damage();
    let first = all.first()?;
    let more = all.len() - 1;
    Some(if more == 0 { first.to_string() } else { format!("{first}, and {more} more: see `image check`") })
}

pub(crate) fn ubi_info(
    ubi: FileUbi,
    (found, shape): (&ImageLocation, &UbiShape),
    selection: &Selection,
) -> UbiInfo {
    let info = ubi.info();
    let lebs = ubi.volumes().map(|volume| u64::from(volume.reserved_lebs)).sum();
    let target = selection.flash.as_ref();
    let flash = info.geometry.flash();
    let free = |state: PebState| matches!(state, PebState::Free | PebState::Pending);
    let free_pebs = ubi.pebs().filter(|peb| free(peb.state)).count();
    let mapped_pebs = ubi.pebs().filter(|peb| peb.leb.is_some() && !free(peb.state)).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut out = UbiInfo {
        peb_bytes: flash.peb_bytes,
        min_io_bytes: flash.min_io_bytes,
        sub_page_bytes: flash.sub_page_bytes,
        vid_header_offset: info.geometry.vid_header_offset(),
        data_offset: info.geometry.data_offset(),
        leb_bytes: info.geometry.leb_bytes(),
        image_seq: info.image_seq,
        pebs: info.pebs,
        free_pebs: count(free_pebs),
        mapped_pebs: count(mapped_pebs),
        corrupted_pebs: info.corrupted_pebs + info.erroneous_pebs,
        bad_pebs: info.bad_pebs,
        available_lebs: info.available_lebs,
        erase_counts: [info.erase_count_min, info.erase_count_mean, info.erase_count_max],
        volumes: Vec::new(),
        misfits: target.map_or_else(Vec::new, |target| fit::of_image(shape, found.len, lebs, target)),
    };
    let volumes: Vec<VolumeInfo> = ubi.volumes().collect();
    let mut rest = Some(ubi);
    for volume in volumes {
        let Some(ubi) = rest.take() else { break };
        let (described, ubi) = volume_info(ubi, &volume, lebs, selection);
        out.volumes.push(described);
        rest = Some(ubi);
    }
    out
}

/// Description of one of the volumes, which have `lebs` LEBs in total.
fn volume_info(ubi: FileUbi, volume: &VolumeInfo, lebs: u64, selection: &Selection) -> (OneVolume, FileUbi) {
    let is_static = volume.volume_type == VolumeType::Static;
    let mut out = OneVolume {
        id: volume.id,
        name: show_name(&volume.name),
        is_static,
        lebs: volume.reserved_lebs,
        mapped_lebs: volume.mapped_lebs,
        leb_bytes: volume.usable_leb_bytes,
        alignment: volume.alignment,
        used_bytes: is_static.then_some(volume.used_bytes),
        autoresize: volume.flags.contains(VolumeFlags::AUTORESIZE),
        skip_check: volume.flags.contains(VolumeFlags::SKIP_CRC_CHECK),
        update_unfinished: volume.update_marker,
        damaged: volume.corrupted,
        ubifs: None,
        starts_with: None,
    };
    // Without a volume table the size of the volume is a guess.
    let is_guess = ubi.damage().iter().any(AttachFault::is_of_table);
    match ubi.open_volume(volume.id) {
        Ok(opened) => {
            let room = Room::new(volume.flags, opened.geometry(), lebs, selection.flash.as_ref());
            let (ubifs, mut opened) = ubifs_info(opened, &selection.authenticate);
            out.ubifs = ubifs;
            if let Some(ubifs) = &mut out.ubifs {
                if !is_guess {
                    ubifs.misfits = of_volume(&ubifs.superblock, &room);
                }
                let (missing, back) = missing_lebs(opened);
                opened = back;
                ubifs.lebs_missing = missing.as_ref().ok().copied();
                ubifs.damage = ubifs.damage.take().or(missing.err());
            } else {
                out.starts_with = first_bytes(&mut opened);
            }
            (out, opened.into_ubi())
        }
        Err((_, ubi)) => (out, ubi),
    }
}

/// Start of a volume: a known format, or its first bytes.
fn first_bytes(volume: &mut dyn Volume) -> Option<String> {
    let mut bytes = [0xFF; HEAD_BYTES];
    let len = HEAD_BYTES.min(volume.geometry().leb_bytes as usize);
    let read: Result<(), VolumeError> = volume.read(0, 0, &mut bytes[..len]);
    if read.is_err() || bytes.iter().all(|&byte| byte == 0xFF) {
        return None;
    }
    if bytes.starts_with(&NODE_MAGIC) && len < HEAD_BYTES {
        return Some(
            "a node of UBIFS, whose LEBs are larger: `image extract` writes the volume into a file"
                .to_owned(),
        );
    }
    if bytes.starts_with(&NODE_MAGIC) {
        let why = probe(volume).err().map(|error| error.to_string()).unwrap_or_default();
        return Some(format!("{UNMOUNTABLE}: {why}"));
    }
    Some(format_of(&bytes).map_or_else(|| show_name(&bytes[..16]), |format| format.name().to_owned()))
}

impl fmt::Display for UbiInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, mean, most] = self.erase_counts;
        writeln!(
            f,
            "  {} of {}: {} mapped, {} free, {} corrupted{}; LEBs of {} bytes, {} available",
            count(self.pebs.into(), "PEB"),
            size(self.peb_bytes.into()),
            self.mapped_pebs,
            self.free_pebs,
            self.corrupted_pebs,
            if self.bad_pebs > 0 { format!(", {} bad", self.bad_pebs) } else { String::new() },
            self.leb_bytes,
            self.available_lebs
        )?;
        writeln!(
            f,
            "  page {} bytes, sub-page {}, VID header at {}, data at {}, image sequence number {}",
            self.min_io_bytes, self.sub_page_bytes, self.vid_header_offset, self.data_offset, self.image_seq
        )?;
        if least == most {
            writeln!(f, "  each PEB erased {}", count(most.into(), "time"))?;
        } else {
            writeln!(f, "  PEBs erased {least} to {most} times, {mean} on average")?;
        }
        show(f, "  ", &self.misfits)?;
        for volume in &self.volumes {
            volume.fmt(f)?;
        }
        self.show_ubinize(f)
    }
}

impl UbiInfo {
    /// Prints the command lines that create such an image.
    fn show_ubinize(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  to make such an image:")?;
        for volume in &self.volumes {
            if let Some(ubifs) = &volume.ubifs {
                ubifs.show_mkfs(f, "    ", &format!("{}.img", volume.plain_name()))?;
            }
        }
        let erased = match self.erase_counts[1] {
            0 => String::new(),
            mean => format!(" -e {mean}"),
        };
        writeln!(
            f,
            "    ubinize -p {} -m {} -s {} -O {}{erased} -Q {} -o image.ubi volumes.ini",
            self.peb_bytes, self.min_io_bytes, self.sub_page_bytes, self.vid_header_offset, self.image_seq
        )?;
        writeln!(f, "  with this volumes.ini:")?;
        for volume in &self.volumes {
            volume.show_ini(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for OneVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_static { "static" } else { "dynamic" };
        let bytes = u64::from(self.lebs) * u64::from(self.leb_bytes);
        write!(
            f,
            "  volume {} \"{}\": {kind}, {} ({}), {} mapped",
            self.id,
            self.name,
            count(self.lebs.into(), "LEB"),
            size(bytes),
            self.mapped_lebs
        )?;
        if let Some(used) = self.used_bytes {
            write!(f, ", {used} bytes of data")?;
        }
        if self.autoresize {
            write!(f, ", grows when it is first attached")?;
        }
        if self.update_unfinished {
            write!(f, ", an update was cut off")?;
        }
        if self.damaged {
            write!(f, ", LEBs are missing")?;
        }
        writeln!(f)?;
        match (&self.ubifs, &self.starts_with) {
            (Some(ubifs), _) => ubifs.show(f, "    "),
            (None, Some(start)) => writeln!(f, "    begins with: {start}"),
            (None, None) if self.mapped_lebs > 0 => writeln!(f, "    nothing in its first LEB"),
            (None, None) => writeln!(f, "    empty"),
        }
    }
}

impl OneVolume {
    /// Name for files and sections: the name of the volume, unless a shell or an ini file would interpret it
    /// differently.
    fn plain_name(&self) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let is_safe =
            !self.name.is_empty() && self.name.bytes().all(is_plain) && !self.name.starts_with(['-', '.']);
        if is_safe { self.name.clone() } else { format!("volume-{}", self.id) }
    }

    fn show_ini(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.plain_name();
        writeln!(f, "    [{name}]")?;
        writeln!(f, "    mode=ubi")?;
        // An empty dynamic volume needs no image; a static volume always needs one.
        if self.is_static || self.ubifs.is_some() || self.mapped_lebs > 0 {
            writeln!(f, "    image={name}.img")?;
        }
        writeln!(f, "    vol_id={}", self.id)?;
        writeln!(f, "    vol_type={}", if self.is_static { "static" } else { "dynamic" })?;
        writeln!(f, "    vol_name={}", self.name)?;
        writeln!(f, "    vol_size={}", u64::from(self.lebs) * u64::from(self.leb_bytes))?;
        if self.alignment != 1 {
            writeln!(f, "    vol_alignment={}", self.alignment)?;
        }
        let flags = [(self.autoresize, "autoresize"), (self.skip_check, "skip-check")];
        for (_, flag) in flags.into_iter().filter(|(is_set, _)| *is_set) {
            writeln!(f, "    vol_flags={flag}")?;
        }
        Ok(())
    }
}
