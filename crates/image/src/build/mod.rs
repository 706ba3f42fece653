//! Building an image from a directory or a tar.
//!
//! Images are written by the same code as mounted filesystems. A new filesystem is mounted on the image with a deferred
//! commit, the files of the source are written to it, and the unmount commits. One thread reads the source, all cores
//! compress the data, and at the same time the previous batch is written to the filesystem, in order. The headers around a
//! UBI volume are written last.
//!
//! The same input gives the same bytes. Names are sorted, times are those of the files, and the identifiers are
//! computed from the contents.

mod compress;
#[cfg(not(target_family = "wasm"))]
mod directory;
pub(crate) mod error;
mod files;
mod identity;
mod item;
mod jffs2;
mod lebs;
mod pipeline;
pub(crate) mod shape;
mod table;
mod tar;
mod tree;
mod watched;
mod write;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use floatgate_files::{File, Metadata, metadata};
use floatgate_host::open::open_input;
use floatgate_media::jffs2::Endian;
use floatgate_media::ubi::{VidHeader, VolumeFlags, VolumeType};
use floatgate_media::ubifs::Superblock;
use floatgate_media::{MediaError, Reason};
use floatgate_stack::fs::{Compression, FileSystem, Timestamp};
use floatgate_stack::store::Store;
use floatgate_stack::ubifs::{self, Behaviour, FormatOptions, Ubifs, probe};
use floatgate_stack::{BareVolume, FileStore, Volume};
use serde::Serialize;

use super::ubinize::{FIRST_DATA_PEB, Headers, VolumeSource, accepted};
use crate::ImageError;
use crate::format::jffs2::fit as jffs2_fit;
use crate::format::ubi::fit::{self, Room, TargetFlash};
use crate::image::fill;
use crate::report::{Finding, Loss};
use crate::write_back::WriteBack;
use compress::Compressors;
pub use error::BuildError;
pub use files::{Files, files};
pub(super) use identity::Identity;
use item::Feeder;
pub use item::Overrides;
use lebs::Lebs;
use pipeline::run;
pub use shape::{FlashShape, FlashSize};
pub(crate) use tree::{Finish, changeable};
pub use tree::{TreeOptions, YaffsOptions};
use watched::{Failure, Watched};
use write::Writer;
#[cfg(not(target_family = "wasm"))]
pub(crate) use write::lost_time;

/// Minimum number of LEBs to which a filesystem can grow if no option sets a number.
const LEAST_MAX_LEBS: u32 = 128;

/// Source of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directory of the host.
    Directory(PathBuf),
    /// A tar file at this path.
    Tar(PathBuf),
    /// A tar from stdin.
    Stdin,
}

/// Container around the filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Container {
    /// No container: a bare UBIFS, for `ubiupdatevol` or `ubinize`.
    None,
    /// A UBI device with one volume.
    Ubi {
        /// Name of the partition.
        name: String,
        /// True if the volume grows to all free space when it is first attached.
        autoresize: bool,
        /// Image sequence number; `None` to compute it from the contents.
        image_seq: Option<u32>,
    },
    /// No container; the filesystem is a JFFS2.
    Jffs2(Jffs2Options),
    /// No container; the filesystem has a format that is only built and read.
    Tree(TreeOptions),
}

/// Options of a new JFFS2. Sizes of page and eraseblock are those of [`BuildOptions::shape`]. A page size of 1 means NOR;
/// eraseblocks then begin with a clean marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jffs2Options {
    /// True to store numbers with the most significant byte first.
    pub big_endian: bool,
    /// True to end each eraseblock with a summary, like `sumtool`.
    pub summaries: bool,
    /// Size of the image, rounded up to whole eraseblocks. The unused part is erased, with clean markers on NOR.
    pub pad_bytes: Option<u64>,
}

impl Jffs2Options {
    const fn endian(&self) -> Endian {
        if self.big_endian { Endian::Big } else { Endian::Little }
    }
}

/// Options of a build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Geometry of the flash that the image is for.
    pub shape: FlashShape,
    /// Container around the filesystem.
    pub container: Container,
    /// Parameters of the filesystem. The build sets `uuid`, `max_lebs`, `deferred` and `time` if they are not set here.
    pub format: FormatOptions,
    /// UUID of the filesystem; `None` to compute it from the contents.
    pub uuid: Option<[u8; 16]>,
    /// Size of the volume, bytes.
    pub volume_bytes: Option<u64>,
    /// Attributes that replace those of all files.
    pub overrides: Overrides,
    /// Text of a device table.
    pub device_table: Option<String>,
}

impl WriteBack {
    /// Kind of image that a build with these options writes.
    ///
    /// # Errors
    /// Sizes that UBI does not support.
    pub fn of_built(options: &BuildOptions) -> Result<Self, BuildError> {
        Ok(match options.container {
            Container::None => Self::Ubifs,
            Container::Ubi { .. } => {
                Self::Ubi { vid_header_offset: options.shape.ubi()?.vid_header_offset() }
            }
            Container::Jffs2(_) if options.shape.page_bytes == 1 => Self::Jffs2OnNor,
            Container::Jffs2(_) => Self::Jffs2OnNand,
            Container::Tree(TreeOptions::Yaffs(own)) if own.oob_bytes > 0 => Self::WithOob,
            Container::Tree(_) => Self::Plain,
        })
    }
}

/// Report on an image that was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Built {
    /// Number of files, directories and other entries, without the root.
    pub entries: u64,
    /// Size of all files, including holes, bytes.
    pub bytes: u64,
    /// Size of the image, bytes.
    pub image_bytes: u64,
    /// Number of LEBs of the filesystem, which is also the minimum of its volume. For a JFFS2, number of eraseblocks.
    pub lebs: u32,
    /// Number of LEBs to which the filesystem can grow.
    pub max_lebs: u32,
    /// Properties of files that the image cannot hold bit for bit.
    pub losses: Vec<Loss>,
    /// Warnings about an image that Linux accepts, but probably does not use as intended.
    pub warnings: Vec<Finding>,
}

/// Maximum size of a file with `data` bytes in an image: data nodes, inode, name and its part of the index, bytes.
fn image_bytes(data: u64) -> u64 {
    let blocks = data.div_ceil(item::BLOCK as u64);
    data.saturating_add(blocks.saturating_mul(48 + 8 + 40)).saturating_add(640)
}

impl Source {
    /// Maximum size of the source's files in an image, bytes; `None` if it cannot be known.
    fn estimate(&self) -> Option<u64> {
        match self {
            #[cfg(not(target_family = "wasm"))]
            Self::Directory(path) => Some(directory::estimate(path)),
            #[cfg(target_family = "wasm")]
            Self::Directory(_) => None,
            Self::Tar(path) => metadata(path).ok().filter(Metadata::is_file).map(|m| image_bytes(m.len())),
            Self::Stdin => None,
        }
    }

    fn feed(&self, mut feeder: Feeder) -> Result<(), BuildError> {
        match self {
            #[cfg(not(target_family = "wasm"))]
            Self::Directory(path) => directory::feed(path, &mut feeder)?,
            #[cfg(target_family = "wasm")]
            Self::Directory(path) => {
                let error = std::io::ErrorKind::Unsupported.into();
                return Err(BuildError::Source { path: path.clone(), error });
            }
            Self::Tar(path) => {
                let opened = open_input(path);
                let file = opened.map_err(|error| BuildError::Source { path: path.clone(), error })?;
                let mut reader = std::io::BufReader::with_capacity(1 << 18, file);
                tar::feed(&mut reader, path, &mut feeder)?;
            }
            Self::Stdin => {
                let mut reader: Box<dyn Read> = Box::new(std::io::stdin().lock());
                tar::feed(&mut reader, Path::new("-"), &mut feeder)?;
            }
        }
        feeder.finish()
    }
}

/// Builds an image into a file, which must be empty and open for reading and writing.
///
/// # Errors
/// A source that cannot be read, impossible options, no space, failures of the host. Properties of single files that cannot
/// be stored are listed in [`Built::losses`] instead.
pub fn build(source: &Source, out: File, options: &BuildOptions) -> Result<Built, BuildError> {
    let again = out.try_clone();
    let error = match build_once(source, out, options) {
        Err(error) if error.is_of_size() => error,
        built => return built,
    };
    let most = most_lebs(source, options);
    match (again, most) {
        (Ok(out), Ok(most)) => Err(too_few(source, &out, options, most).unwrap_or(error)),
        _ => Err(error),
    }
}

fn build_once(source: &Source, out: File, options: &BuildOptions) -> Result<Built, BuildError> {
    let failure = Failure::default();
    let store = Watched::new(FileStore::new(out).map_err(ImageError::Store)?, Arc::clone(&failure));
    let built = build_into(source, store, options);
    match failure.get() {
        Some(error) => Err(ImageError::Store(error.clone()).into()),
        None => built,
    }
}

/// Maximum number of LEBs of a filesystem with these options.
fn most_lebs(source: &Source, options: &BuildOptions) -> Result<u32, BuildError> {
    let leb_bytes = options.shape.ubi()?.leb_bytes();
    let volume = options.volume_bytes.map(|bytes| lebs(bytes.div_ceil(u64::from(leb_bytes))));
    let most = max_lebs(source, options, leb_bytes, volume)?;
    Ok(volume.map_or(most, |volume| volume.min(most)))
}

/// Maximum number of LEBs that a filesystem needs in addition to its data and areas.
const STEP_MAX: u32 = 1 << 10;

/// Error with the number of LEBs that the files need, if `most` are too few. To find this number, the filesystem is built in `out` again,
/// first with the maximum that it may need, and then with fewer and fewer LEBs. `None` if more LEBs do not help, or if the source can be
/// read only once.
fn too_few(source: &Source, out: &File, options: &BuildOptions, most: u32) -> Option<BuildError> {
    let is_other = matches!(options.container, Container::Jffs2(_) | Container::Tree(_));
    if is_other || matches!(source, Source::Stdin) {
        return None;
    }
    let in_lebs = |lebs| {
        let format = FormatOptions { max_lebs: lebs, room_lebs: 0, ..options.format.clone() };
        let shape = FlashShape { size: None, ..options.shape };
        let container = Container::None;
        let options = BuildOptions { shape, container, format, volume_bytes: None, ..options.clone() };
        out.set_len(0).ok()?;
        build_once(source, out.try_clone().ok()?, &options).ok().map(|built| built.lebs)
    };
    // A filesystem that can grow further has larger areas before the main area, and free LEBs after its data, which
    // writing needs.
    let (mut fewest, mut enough) = (most.saturating_add(1), in_lebs(None)?);
    let mut step = 1;
    while in_lebs(Some(enough)).is_none() {
        (fewest, enough, step) = (enough + 1, enough.checked_add(step)?, 2 * step);
        if step > STEP_MAX {
            return None;
        }
    }
    while fewest < enough {
        let middle = fewest + (enough - fewest) / 2;
        match in_lebs(Some(middle)) {
            Some(_) => enough = middle,
            None => fewest = middle + 1,
        }
    }
    Some(BuildError::TooFewLebs { needed: enough, most })
}

fn build_into(
    source: &Source,
    store: Watched<FileStore>,
    options: &BuildOptions,
) -> Result<Built, BuildError> {
    if let Container::Jffs2(own) = &options.container {
        let mut built = jffs2::build(source, store, own, options)?;
        let flash = options.shape.size.and_then(|_| TargetFlash::new(options.shape).ok());
        let findings = flash.map(|flash| jffs2_fit::of_len(built.image_bytes, &flash));
        built.warnings = accepted(findings.unwrap_or_default())?;
        return Ok(built);
    }
    if let Container::Tree(own) = &options.container {
        return tree::build(source, store, own, options);
    }
    let geometry = options.shape.ubi()?;
    let leb_bytes = u64::from(geometry.leb_bytes());
    let volume_lebs = options.volume_bytes.map(|bytes| lebs(bytes.div_ceil(leb_bytes)));
    let max_lebs = max_lebs(source, options, geometry.leb_bytes(), volume_lebs)?;
    // The requested size is the minimum of the volume, and an image never needs more than its volume has.
    let room = volume_lebs.map_or(max_lebs, |volume| volume.min(max_lebs));
    let shape = options.shape.volume(&geometry, room);
    let format = FormatOptions {
        max_lebs: Some(max_lebs),
        deferred: true,
        uuid: options.uuid.unwrap_or_default(),
        ..options.format.clone()
    };
    match &options.container {
        Container::None | Container::Jffs2(_) | Container::Tree(_) => {
            let Filled { mut built, volume, superblock, .. } =
                filled(source, BareVolume::new(store, shape), &format, options)?;
            let flash = TargetFlash::new(options.shape)?;
            built.warnings = accepted(fit::of_bare(&superblock, &flash))?;
            let mut store = volume.into_store();
            // All LEBs that the superblock counts: `ubinize` makes the volume as large as the file.
            fill(&mut store, u64::from(built.lebs) * leb_bytes).map_err(ImageError::Store)?;
            built.image_bytes = store.size_bytes();
            Ok(built)
        }
        Container::Ubi { name, autoresize, image_seq } => {
            let volume = BareVolume::new(Lebs::new(store, geometry), shape);
            if let Some(lebs) = volume_lebs {
                accepted(fit::of_flash(lebs.into(), 0, &options.shape))?;
            }
            let Filled { mut built, volume, superblock, seq, .. } = filled(source, volume, &format, options)?;
            let headers = Headers { geometry, image_seq: image_seq.unwrap_or(seq), erase_count: 0 };
            let lebs = volume_lebs.unwrap_or(built.lebs);
            if lebs < built.lebs {
                return Err(BuildError::VolumeTooSmall { lebs: built.lebs, volume: lebs });
            }
            let mut flags = VolumeFlags::default();
            if *autoresize {
                flags = flags.with(VolumeFlags::AUTORESIZE);
            }
            let volume_source = VolumeSource {
                id: 0,
                name: name.clone(),
                volume_type: VolumeType::Dynamic,
                size: Some(u64::from(lebs) * leb_bytes),
                alignment: 1,
                flags,
                image: None,
            };
            let flash = TargetFlash::new(options.shape)?;
            let room = Room::new(flags, options.shape.volume(&geometry, lebs), lebs.into(), Some(&flash));
            let mut findings =
                fit::of_flash(lebs.into(), (FIRST_DATA_PEB + built.lebs).into(), &options.shape);
            findings.extend(fit::of_volume(&superblock, &room));
            built.warnings = accepted(findings)?;
            let store = enclose(volume.into_store(), &headers, &volume_source)?;
            built.image_bytes = store.size_bytes();
            Ok(built)
        }
    }
}

/// Writes the headers of a UBI device around LEBs that are already written.
fn enclose<S: Store>(lebs: Lebs<S>, headers: &Headers, volume: &VolumeSource) -> Result<S, BuildError> {
    let geometry = &headers.geometry;
    let count = self::lebs(lebs.size_bytes().div_ceil(u64::from(geometry.leb_bytes())));
    let (record, _) = volume.record(geometry, 0)?;
    let mut store = lebs.into_inner();
    headers.write_table(&mut store, &[(volume.id, record)])?;
    for lnum in 0..count {
        let vid = VidHeader {
            volume_type: VolumeType::Dynamic,
            volume_id: volume.id,
            lnum,
            ..VidHeader::default()
        };
        headers.write(&mut store, FIRST_DATA_PEB + lnum, &vid).map_err(ImageError::Store)?;
    }
    let end = u64::from(FIRST_DATA_PEB + count) * u64::from(geometry.flash().peb_bytes);
    fill(&mut store, end).map_err(ImageError::Store)?;
    Ok(store)
}

fn lebs(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Number of LEBs to which the filesystem can grow: the number in the options, or the size of a volume that does not
/// grow. Otherwise it is the number of LEBs on the flash, or twice the maximum need of the source, rounded up to a
/// power of two.
fn max_lebs(
    source: &Source,
    options: &BuildOptions,
    leb_bytes: u32,
    volume_lebs: Option<u32>,
) -> Result<u32, BuildError> {
    if let Some(max) = options.format.max_lebs {
        return Ok(max);
    }
    let grows = matches!(options.container, Container::Ubi { autoresize: true, .. });
    if let Some(volume) = volume_lebs.filter(|_| !grows) {
        return Ok(volume);
    }
    if let Some(budget) = options.shape.budget() {
        // A volume may use PEBs that UBI would reserve for bad blocks; Linux then prints a warning.
        let is_enough = |lebs: &u32| *lebs >= ubifs::MIN_LEBS;
        return Ok(Some(budget.available_lebs()).filter(is_enough).unwrap_or(budget.most_lebs(0)));
    }
    let bytes = source.estimate().ok_or(BuildError::SizeUnknown { is_jffs2: false })?;
    let needed = lebs(bytes.div_ceil(u64::from(leb_bytes)));
    let doubled = needed.saturating_mul(2).max(LEAST_MAX_LEBS);
    Ok(doubled.checked_next_power_of_two().unwrap_or(u32::MAX))
}

/// Reason why a filesystem cannot be created, in terms of the given parameters.
fn not_formatted(error: ubifs::Error) -> BuildError {
    match error {
        ubifs::Error::Superblock(what) => BuildError::Sizes(what),
        ubifs::Error::Node {
            lnum: 0,
            source: MediaError { reason: Reason::OutOfRange { field, value }, .. },
            ..
        } => BuildError::Parameter { field, value },
        error => ImageError::from(error).into(),
    }
}

/// Report on a filesystem that was filled with the files of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledFiles {
    /// Number of files, directories and other entries, without the root.
    pub entries: u64,
    /// Size of all files, including holes, bytes.
    pub bytes: u64,
    /// Properties of files that the filesystem cannot hold bit for bit.
    pub losses: Vec<Loss>,
    /// True if the source contains attributes of the root directory, which not every tar does.
    pub has_root: bool,
    /// UUID computed from the contents.
    pub uuid: [u8; 16],
    /// Image sequence number computed from the contents.
    pub image_seq: u32,
}

/// Writes the files of a source and of the device table into an empty filesystem. Data is first compressed on all cores,
/// with the method of `compression`.
///
/// # Errors
/// A source that cannot be read, no space, failures of the host. Properties of single files that cannot be stored are
/// listed in [`FilledFiles::losses`] instead.
pub fn fill_filesystem(
    source: &Source,
    fs: &mut dyn FileSystem,
    compression: Compression,
    options: &BuildOptions,
) -> Result<FilledFiles, BuildError> {
    fill_with(Writer::new(fs, options.overrides), source, compression, options)
}

/// Writes the files of a source into an empty filesystem with a writer; see [`fill_filesystem`].
fn fill_with(
    mut writer: Writer<'_>,
    source: &Source,
    compression: Compression,
    options: &BuildOptions,
) -> Result<FilledFiles, BuildError> {
    run(|feeder| source.feed(feeder), &mut writer, Compressors::new(compression))?;
    if let Some(table) = &options.device_table {
        table::apply(table, options.overrides.time(Timestamp::default()), &mut writer)?;
    }
    let (uuid, image_seq) = (writer.identity.uuid(), writer.identity.image_seq());
    let Writer { losses, entries, bytes, has_root, .. } = writer;
    Ok(FilledFiles { entries, bytes, losses, has_root, uuid, image_seq })
}

/// A volume with a filesystem that was filled.
struct Filled<V> {
    built: Built,
    volume: V,
    superblock: Superblock,
    /// Image sequence number for the device.
    seq: u32,
}

/// Creates the filesystem, fills it and unmounts it.
fn filled<V: Volume + 'static>(
    source: &Source,
    volume: V,
    format: &FormatOptions,
    options: &BuildOptions,
) -> Result<Filled<V>, BuildError> {
    let fs = Ubifs::format(volume, format, Behaviour::default());
    let mut fs = fs.map_err(|(error, _)| not_formatted(error))?;
    let files = fill_filesystem(source, &mut fs, format.compression, options)?;
    fs.set_uuid(options.uuid.unwrap_or(files.uuid)).map_err(ImageError::from)?;
    let mut volume = fs.unmount().map_err(|(error, _)| match error {
        floatgate_stack::ubifs::Error::NoSpace => BuildError::NoSpace,
        error => ImageError::from(error).into(),
    })?;
    let (superblock, _): (Superblock, _) = probe(&mut volume).map_err(ImageError::from)?;
    let (lebs, max_lebs) = (superblock.leb_count, superblock.max_leb_count);
    let FilledFiles { entries, bytes, losses, image_seq, .. } = files;
    let built = Built { entries, bytes, image_bytes: 0, lebs, max_lebs, losses, warnings: Vec::new() };
    Ok(Filled { built, volume, superblock, seq: image_seq })
}
