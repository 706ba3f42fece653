//! A UBI device and its volumes, for people and programs.

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
    /// Bytes of a PEB.
    pub peb_bytes: u32,
    /// Smallest write, bytes.
    pub min_io_bytes: u32,
    /// Smallest write of headers, bytes.
    pub sub_page_bytes: u32,
    /// Byte in a PEB where the VID header begins.
    pub vid_header_offset: u32,
    /// Byte in a PEB where data begin.
    pub data_offset: u32,
    /// Bytes of a LEB.
    pub leb_bytes: u32,
    /// Image sequence number.
    pub image_seq: u32,
    /// PEBs in all.
    pub pebs: u32,
    /// PEBs that are free, or erased and without headers.
    pub free_pebs: u32,
    /// PEBs that hold LEBs.
    pub mapped_pebs: u32,
    /// PEBs set aside because of damage.
    pub corrupted_pebs: u32,
    /// PEBs that are marked bad in the OOB of a dump.
    pub bad_pebs: u32,
    /// LEBs that a new volume could have.
    pub available_lebs: u32,
    /// Lowest, mean and highest erase counter.
    pub erase_counts: [u32; 3],
    /// Volumes of the device, with what they hold.
    pub volumes: Vec<OneVolume>,
    /// Findings on the flash that the image is meant for, where it does not fit.
    pub misfits: Vec<Finding>,
}

/// Volume of a UBI device, and what is in it.
#[derive(Clone, Debug, Serialize)]
pub struct OneVolume {
    /// Volume id.
    pub id: u32,
    /// Name of the volume.
    pub name: String,
    /// Written once as a whole, with CRCs.
    pub is_static: bool,
    /// LEBs set aside for it.
    pub lebs: u32,
    /// LEBs that are mapped.
    pub mapped_lebs: u32,
    /// Usable bytes of a LEB.
    pub leb_bytes: u32,
    /// Number that LEB sizes are a multiple of.
    pub alignment: u32,
    /// Bytes of data of a static volume.
    pub used_bytes: Option<u64>,
    /// Grows to all free space when it is first attached.
    pub autoresize: bool,
    /// A static volume whose CRCs Linux does not check when it is opened.
    pub skip_check: bool,
    /// An update was cut off.
    pub update_unfinished: bool,
    /// LEBs of a static volume with data that are missing or fail their CRC, or cannot be told.
    pub damaged: bool,
    /// The filesystem in it.
    pub ubifs: Option<UbifsInfo>,
    /// Kind of content by its first bytes, where it is no UBIFS.
    pub starts_with: Option<String>,
}

/// Damage of a device.
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

/// One of the volumes that have `lebs` LEBs together.
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
    // Without a volume table its size is a guess.
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

/// The beginning of a volume: a known format, or its first bytes.
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
        return Some(format!("a node of UBIFS, but it cannot be mounted: {why}"));
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
    /// Command lines that make such an image.
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
    /// A name for files and sections: the name of the volume, if neither a shell nor an ini file takes it for
    /// something else.
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
        // An empty volume has no image. A static one cannot be without.
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
