//! What is in an image, and how to make one like it.

use std::fmt;

use floatgate_media::ubi::{VolumeFlags, VolumeType};
use floatgate_media::ubifs::{NODE_MAGIC, Superblock};
use floatgate_stack::fs::Compression;
use floatgate_stack::ubi::{PebState, VolumeInfo};
use floatgate_stack::ubifs::{
    Authenticate, Authentication, Behaviour, Inconsistency, MasterState, MountOptions, Ubifs, probe,
};
use floatgate_stack::{Volume, VolumeError};
use serde::Serialize;

use super::content::{HEAD_BYTES, format_of};
use super::detect::{Content, Found, PageShape};
use super::extract::show_name;
use super::{Corrected, FileUbi, Image, ImageError, Selection};
use crate::words::count;

/// Contents of a file: images, volumes and filesystems.
#[derive(Clone, Debug, Serialize)]
pub struct ImageInfo {
    /// Each image.
    pub images: Vec<OneImage>,
    /// Of a dump with OOB: what its ECC found.
    pub ecc: Option<Corrected>,
}

/// One image.
#[derive(Clone, Debug, Serialize)]
pub struct OneImage {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes, without the OOB where there is some.
    pub len: u64,
    /// The UBI device, if it is one.
    pub ubi: Option<UbiInfo>,
    /// The filesystem, if there is no UBI around it.
    pub ubifs: Option<UbifsInfo>,
    /// It is a UBIFS without UBI.
    #[serde(skip)]
    pub bare: bool,
    /// Damage, or the reason for which more cannot be said.
    pub damage: Option<String>,
}

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
    /// LEBs that a new volume could have.
    pub available_lebs: u32,
    /// Lowest, mean and highest erase counter.
    pub erase_counts: [u32; 3],
    /// The volumes.
    pub volumes: Vec<OneVolume>,
}

/// A volume.
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
    /// An update was cut off.
    pub update_unfinished: bool,
    /// The filesystem in it.
    pub ubifs: Option<UbifsInfo>,
    /// Kind of content by its first bytes, where it is no UBIFS.
    pub starts_with: Option<String>,
}

/// A filesystem.
#[derive(Clone, Debug, Serialize)]
pub struct UbifsInfo {
    /// Version of the format.
    pub format: u32,
    /// Smallest write, bytes.
    pub min_io_bytes: u32,
    /// Bytes of a LEB.
    pub leb_bytes: u32,
    /// LEBs it has.
    pub lebs: u32,
    /// LEBs it can grow to.
    pub max_lebs: u32,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// LEBs of the log, the LPT and the orphan area.
    pub area_lebs: [u32; 3],
    /// Most children of an index node.
    pub fanout: u32,
    /// Compression of new files.
    pub compression: &'static str,
    /// Names carry a second hash.
    pub double_hash: bool,
    /// Some files are encrypted.
    pub encrypted: bool,
    /// Nodes are authenticated.
    pub authenticated: bool,
    /// Authentication of the filesystem, if it has one.
    pub authentication: Option<AuthenticationInfo>,
    /// UUID of the filesystem.
    pub uuid: String,
    /// Number of the last commit.
    pub commit: Option<u64>,
    /// It was not unmounted: reading it replays the journal.
    pub needs_recovery: Option<bool>,
}

/// The authentication of a filesystem.
#[derive(Clone, Debug, Serialize)]
pub struct AuthenticationInfo {
    /// The hash function.
    pub algorithm: String,
    /// The superblock is signed; without a signature it has an HMAC, which a key verifies.
    pub signed: bool,
    /// True when everything is authentic, as far as hashes tell without a key; `None` if that was not looked at.
    pub verified: Option<bool>,
    /// It was verified by the key, and not by hashes only.
    pub by_key: bool,
    /// Nodes at the end of the journal that power was cut from before anything authenticated them: they do not count.
    pub dropped_nodes: Option<u32>,
    /// The first thing that is not authentic.
    pub problem: Option<String>,
}

/// Looks at all that a file holds.
///
/// # Errors
/// The file cannot be read. Damage inside is part of the report.
pub fn info(image: &Image) -> Result<ImageInfo, ImageError> {
    selected_info(image, &Selection::default())
}

/// As [`info`], of the image and the volume that are meant, if any are. Filesystems with authentication are read as a whole and
/// verified.
///
/// # Errors
/// The file cannot be read; what is meant is not there. What is not authentic is part of the report.
pub fn selected_info(image: &Image, selection: &Selection) -> Result<ImageInfo, ImageError> {
    let found = match selection.offset {
        Some(_) => vec![image.choose(selection)?],
        None => image.found.clone(),
    };
    let ecc = image.corrected.clone();
    let describe = |one| describe(image, one, &selection.authenticate);
    let mut images = found.iter().map(describe).collect::<Result<Vec<_>, _>>()?;
    if let Some(wanted) = &selection.volume {
        keep_volume(&mut images, wanted)?;
    }
    Ok(ImageInfo { images, ecc })
}

/// Leaves only the volumes of a name or number, and the images that have one.
fn keep_volume(images: &mut Vec<OneImage>, wanted: &str) -> Result<(), ImageError> {
    let mut names = Vec::new();
    images.retain_mut(|image| {
        let Some(ubi) = &mut image.ubi else { return false };
        names.extend(ubi.volumes.iter().map(|volume| volume.name.clone()));
        let by_name = ubi.volumes.iter().any(|volume| volume.name == wanted);
        ubi.volumes.retain(|volume| volume.name == wanted || !by_name && wanted.parse() == Ok(volume.id));
        !ubi.volumes.is_empty()
    });
    if images.is_empty() { Err(ImageError::NoVolume { wanted: wanted.to_owned(), names }) } else { Ok(()) }
}

/// Description of one image.
fn describe(image: &Image, found: &Found, authenticate: &Authenticate) -> Result<OneImage, ImageError> {
    let offset = image.file_byte(found.offset);
    let mut one = OneImage { offset, len: found.len, ubi: None, ubifs: None, bare: false, damage: None };
    match &found.content {
        Content::Ubifs { .. } => {
            let selection = Selection { offset: Some(offset), ..Selection::default() };
            let (ubifs, mut volume) = ubifs_info(image.volume(&selection)?, authenticate);
            one.ubifs = ubifs;
            one.bare = true;
            if one.ubifs.is_none() {
                one.damage = probe(&mut *volume).err().map(|error| error.to_string());
            }
        }
        _ => match image.attach_remains(found) {
            Ok(ubi) => {
                one.damage = damage(&ubi);
                one.ubi = Some(ubi_info(ubi, authenticate));
            }
            Err(error) => one.damage = Some(error.to_string()),
        },
    }
    Ok(one)
}

/// Damage of a device.
fn damage(ubi: &FileUbi) -> Option<String> {
    let all = ubi.damage();
    let first = all.first()?;
    let more = all.len() - 1;
    Some(if more == 0 { first.to_string() } else { format!("{first}, and {more} more: see `image check`") })
}

fn ubi_info(ubi: FileUbi, authenticate: &Authenticate) -> UbiInfo {
    let info = ubi.info();
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
        available_lebs: info.available_lebs,
        erase_counts: [info.erase_count_min, info.erase_count_mean, info.erase_count_max],
        volumes: Vec::new(),
    };
    let volumes: Vec<VolumeInfo> = ubi.volumes().collect();
    let mut rest = Some(ubi);
    for volume in volumes {
        let Some(ubi) = rest.take() else { break };
        let (described, ubi) = volume_info(ubi, &volume, authenticate);
        out.volumes.push(described);
        rest = Some(ubi);
    }
    out
}

fn volume_info(ubi: FileUbi, volume: &VolumeInfo, authenticate: &Authenticate) -> (OneVolume, FileUbi) {
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
        update_unfinished: volume.update_marker,
        ubifs: None,
        starts_with: None,
    };
    match ubi.open_volume(volume.id) {
        Ok(opened) => {
            let (ubifs, mut opened) = ubifs_info(opened, authenticate);
            out.ubifs = ubifs;
            if out.ubifs.is_none() {
                out.starts_with = first_bytes(&mut opened);
            }
            (out, opened.into_ubi())
        }
        Err((_, ubi)) => (out, ubi),
    }
}

/// What a volume begins with: a known format, or its first bytes.
fn first_bytes(volume: &mut dyn Volume) -> Option<String> {
    let mut bytes = [0xFF; HEAD_BYTES];
    let len = HEAD_BYTES.min(volume.geometry().leb_bytes as usize);
    let read: Result<(), VolumeError> = volume.read(0, 0, &mut bytes[..len]);
    if read.is_err() || bytes.iter().all(|&byte| byte == 0xFF) {
        return None;
    }
    if bytes.starts_with(&NODE_MAGIC) {
        let why = probe(volume).err().map(|error| error.to_string()).unwrap_or_default();
        return Some(format!("a node of UBIFS, but it cannot be mounted: {why}"));
    }
    Some(format_of(&bytes).map_or_else(|| show_name(&bytes[..16]), str::to_owned))
}

/// The filesystem on a volume, and the volume back.
fn ubifs_info<V: Volume + 'static>(mut volume: V, authenticate: &Authenticate) -> (Option<UbifsInfo>, V) {
    let Ok((superblock, master)) = probe(&mut volume) else { return (None, volume) };
    let mut info = UbifsInfo::new(&superblock, master);
    if let Some(authentication) = &mut info.authentication
        && *authenticate != Authenticate::No
    {
        volume = authentication.verify(volume, authenticate);
    }
    (Some(info), volume)
}

impl AuthenticationInfo {
    fn new(superblock: &Superblock) -> Option<Self> {
        let known = Authentication::of(superblock)?;
        Some(Self {
            algorithm: known.algorithm.name().unwrap_or("an unknown hash function").to_owned(),
            signed: known.is_signed,
            verified: None,
            by_key: false,
            dropped_nodes: None,
            problem: None,
        })
    }

    /// Reads everything there is, and gives the volume back.
    fn verify<V: Volume + 'static>(&mut self, volume: V, authenticate: &Authenticate) -> V {
        let options = MountOptions {
            read_only: true,
            recover: true,
            authenticate: authenticate.clone(),
            ..MountOptions::default()
        };
        let (outcome, volume) = match Ubifs::mount(volume, &options, Behaviour::default()) {
            Ok(mut fs) => (read_all(&mut fs), fs.abandon()),
            Err((error, volume)) => (Err(error.to_string()), volume),
        };
        self.by_key = matches!(authenticate, Authenticate::Key(_));
        self.verified = Some(outcome.is_ok());
        match outcome {
            Ok(dropped) => self.dropped_nodes = Some(dropped),
            Err(problem) => self.problem = Some(problem),
        }
        volume
    }
}

/// Reads all nodes of a filesystem, and returns how many the journal has that do not count; or the first error.
fn read_all(fs: &mut Ubifs<dyn Volume>) -> Result<u32, String> {
    let found = fs.check().map_err(|error| error.to_string())?;
    let damaged = found.into_iter().find_map(|found| match found {
        Inconsistency::Node { error, .. } => Some(error.to_string()),
        _ => None,
    });
    match damaged {
        Some(problem) => Err(problem),
        None => Ok(fs.authentication().map_or(0, |found| found.dropped_nodes)),
    }
}

impl fmt::Display for AuthenticationInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.signed { "signed, with hashes by" } else { "authenticated with" };
        write!(f, "{how} {}, ", self.algorithm)?;
        match (self.verified, &self.problem) {
            (Some(true), _) if self.by_key => write!(f, "verified")?,
            (Some(true), _) => {
                write!(f, "hashes verified, but not by a key: damage would show, forgery would not")?
            }
            (_, Some(problem)) => write!(f, "NOT VERIFIED: {problem}")?,
            _ => write!(f, "not verified")?,
        }
        match self.dropped_nodes {
            Some(nodes @ 1..) => {
                write!(
                    f,
                    "; {} left out that a power cut left without authentication",
                    count(nodes.into(), "node")
                )
            }
            _ => Ok(()),
        }
    }
}

impl UbifsInfo {
    fn new(superblock: &Superblock, master: Option<MasterState>) -> Self {
        use floatgate_media::ubifs::SuperblockFlags as Flags;
        Self {
            format: superblock.format_version,
            min_io_bytes: superblock.min_io_bytes,
            leb_bytes: superblock.leb_bytes,
            lebs: superblock.leb_count,
            max_lebs: superblock.max_leb_count,
            journal_bytes: superblock.max_journal_bytes,
            area_lebs: [superblock.log_lebs, superblock.lpt_lebs, superblock.orphan_lebs],
            fanout: superblock.fanout,
            compression: compression_name(superblock.compression),
            double_hash: superblock.has(Flags::DOUBLE_HASH),
            encrypted: superblock.has(Flags::ENCRYPTION),
            authenticated: superblock.has(Flags::AUTHENTICATION),
            authentication: AuthenticationInfo::new(superblock),
            uuid: uuid(&superblock.uuid),
            commit: master.map(|master| master.commit),
            needs_recovery: master.map(|master| master.dirty),
        }
    }
}

/// The name that mkfs.ubifs has for a compression.
pub fn compression_name(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Lzo => "lzo",
        Compression::Zlib => "zlib",
        Compression::Zstd => "zstd",
        Compression::Other(_) => "unknown",
    }
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Bytes as people write them: KiB or MiB where they are whole.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

impl fmt::Display for ImageInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ecc) = &self.ecc {
            show_ecc(f, ecc)?;
        }
        for image in &self.images {
            image.fmt(f)?;
        }
        Ok(())
    }
}

fn show_ecc(f: &mut fmt::Formatter<'_>, ecc: &Corrected) -> fmt::Result {
    let PageShape { page_bytes, oob_bytes, pages_per_block } = ecc.pages;
    writeln!(f, "NAND dump: pages of {page_bytes} + {oob_bytes} bytes, {pages_per_block} a block")?;
    match &ecc.report {
        Some(report) => writeln!(
            f,
            "  ECC {} in layout {}: {} corrected, {} uncorrectable",
            report.scheme.code,
            report.scheme.layout,
            count(report.corrected_bits, "bit"),
            count(report.steps.uncorrectable, "step")
        ),
        None => writeln!(f, "  no ECC code fits: the pages are as they were read"),
    }
}

impl fmt::Display for OneImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.bare { "UBIFS without UBI" } else { "UBI" };
        writeln!(f, "{kind} at byte {} ({:#x}), {}", self.offset, self.offset, size(self.len))?;
        if let Some(damage) = &self.damage {
            writeln!(f, "  damaged: {damage}")?;
        }
        if let Some(ubi) = &self.ubi {
            ubi.fmt(f)?;
        }
        if let Some(ubifs) = &self.ubifs {
            ubifs.show(f, "  ")?;
            ubifs.show_mkfs(f, "  ", "image.ubifs")?;
        }
        Ok(())
    }
}

impl fmt::Display for UbiInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, mean, most] = self.erase_counts;
        writeln!(
            f,
            "  {} of {}: {} mapped, {} free, {} corrupted; LEBs of {} bytes, {} available",
            count(self.pebs.into(), "PEB"),
            size(self.peb_bytes.into()),
            self.mapped_pebs,
            self.free_pebs,
            self.corrupted_pebs,
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
    /// A name for files and sections: that of the volume, if neither a shell nor an ini file takes it for something else.
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
        if self.autoresize {
            writeln!(f, "    vol_flags=autoresize")?;
        }
        Ok(())
    }
}

impl UbifsInfo {
    fn show(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        let state = match self.needs_recovery {
            Some(true) => "was not unmounted: its journal is replayed when it is read",
            Some(false) => "clean",
            None => "its master node cannot be read",
        };
        writeln!(
            f,
            "{indent}UBIFS format {}, {} of {} bytes, at most {}, {}; {state}",
            self.format,
            count(self.lebs.into(), "LEB"),
            self.leb_bytes,
            self.max_lebs,
            self.compression
        )?;
        let [log, lpt, orphans] = self.area_lebs;
        let journal = size(self.journal_bytes);
        write!(
            f,
            "{indent}journal {journal}, log {}, LPT {lpt}, orphans {orphans}, fanout {}",
            count(log.into(), "LEB"),
            self.fanout
        )?;
        let features = [(self.double_hash, "double hash"), (self.encrypted, "encrypted")];
        for (_, feature) in features.into_iter().filter(|(has, _)| *has) {
            write!(f, ", {feature}")?;
        }
        if let Some(authentication) = &self.authentication {
            write!(f, "\n{indent}{authentication}")?;
        }
        writeln!(f, "\n{indent}UUID {}", self.uuid)
    }

    /// The command that makes such a filesystem.
    fn show_mkfs(&self, f: &mut fmt::Formatter<'_>, indent: &str, file: &str) -> fmt::Result {
        let (m, e, c, x) = (self.min_io_bytes, self.leb_bytes, self.max_lebs, self.compression);
        let [log, _, orphans] = self.area_lebs;
        let (j, fanout) = (self.journal_bytes, self.fanout);
        writeln!(
            f,
            "{indent}mkfs.ubifs -m {m} -e {e} -c {c} -x {x} -j {j} -l {log} -p {orphans} -f {fanout} -r DIRECTORY -o {file}"
        )
    }
}
