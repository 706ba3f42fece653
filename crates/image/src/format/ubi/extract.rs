//! Extraction of all volumes of a device: each filesystem into its own directory, other volumes as files.

use std::collections::BTreeSet;
use std::io;

use floatgate_files::{File, FileExt, tempfile};
use floatgate_media::ubi::{VolumeRecord, VolumeType};
use floatgate_stack::fs::FileType;
use floatgate_stack::store::Window;
use floatgate_stack::ubi::LebId;

use super::choose::choose_volume;
use super::device::Device;
use super::raw::{lost_lebs, read_raw};
use super::tree;
use crate::ImageError;
use crate::extract::contents::Contents;
use crate::extract::source::without_inode;
use crate::extract::target::{Entry, ExtractError, ExtractLimits, Extracted, Extracting, Target};
use crate::format::location::ImageLocation;
use crate::format::ubifs::check::has_filesystem;
use crate::format::ubifs::damaged::Extraction;
use crate::format::volume::open_volume;
use crate::image::Image;
use crate::report::{CheckReport, Finding, Loss, Outcome, RawVolume, Structure};
use crate::selection::{Chosen, Selection};
use crate::words::{show_name, show_path};

/// Number of bytes of a volume in one piece.
const CHUNK: usize = 1 << 20;

/// Extraction of the only filesystem of a device, or of all its volumes.
pub(super) struct DeviceExtraction {
    parts: Parts,
    /// Losses outside the filesystems.
    losses: Vec<Loss>,
}

enum Parts {
    One(Box<dyn Extracting>),
    Volumes(Vec<Part>),
}

/// One of several volumes.
struct Part {
    /// Name of its file or directory in the target.
    name: Vec<u8>,
    content: PartContent,
}

enum PartContent {
    Filesystem(Box<dyn Extracting>),
    Raw(File, RawVolume),
}

impl DeviceExtraction {
    /// Finds the selected volumes.
    ///
    /// # Errors
    /// No part of a named or only filesystem is readable, or the host reports an error.
    pub(super) fn open(chosen: Chosen<'_>) -> Result<Self, ImageError> {
        let Chosen { image, found, selection } = chosen;
        let volumes = volumes(chosen)?;
        let is_raw =
            |id: u32| is_raw(chosen.with(&Selection { volume: Some(id.to_string()), ..selection.clone() }));
        let is_alone = match volumes.as_slice() {
            [] => true,
            [(only, _)] => !is_raw(*only)?,
            _ => false,
        };
        if is_alone {
            let extraction = Box::new(Extraction::of(chosen)?);
            let losses = device_losses(image, found, &|id| volumes.iter().any(|(other, _)| *other == id))?;
            return Ok(Self { parts: Parts::One(extraction), losses });
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut with_files = BTreeSet::new();
        let mut raw = BTreeSet::new();
        let mut unread = Vec::new();
        for (id, _) in &volumes {
            if is_raw(*id)? {
                raw.insert(*id);
            }
        }
        let count = volumes.len();
        let is_only = count == 1;
        for (id, name) in volumes {
            let selection = Selection { volume: Some(id.to_string()), ..selection.clone() };
            // A node whose header is lost may belong to any volume. The volumes in which Linux finds a filesystem
            // decide.
            let is_other = raw.contains(&id) && raw.len() < count;
            let extraction = if is_other { None } else { Extraction::of(chosen.with(&selection)).ok() };
            let (suffix, content) = if let Some(extraction) = extraction {
                with_files.insert(id);
                ("", PartContent::Filesystem(Box::new(extraction)))
            } else {
                let mut file = tempfile().map_err(ImageError::File)?;
                let raw = read_raw(chosen.with(&selection), &mut file)?;
                match tree::of_volume(&file, &raw) {
                    Ok(Some(files)) if is_only => {
                        let files = files.with_lost(lost_lebs(image, found)?.into_iter(), id);
                        let losses = device_losses(image, found, &|_| true)?;
                        return Ok(Self { parts: Parts::One(Box::new(files)), losses });
                    }
                    Ok(Some(files)) => ("", PartContent::Filesystem(Box::new(files))),
                    Ok(None) => (".img", PartContent::Raw(file, raw)),
                    Err(ImageError::Filesystem(error)) => {
                        // The bytes are complete, but the files cannot be read.
                        let what = format!("volume {}: its files cannot be read: {error}", show_name(&name));
                        unread.push(Loss::new(&[], what));
                        (".img", PartContent::Raw(file, raw))
                    }
                    Err(error) => return Err(error),
                }
            };
            let mut name = [name.as_slice(), suffix.as_bytes()].concat();
            let is_taken = parts.iter().any(|part| part.name == name);
            if is_taken || name.contains(&b'/') || matches!(name.as_slice(), b"" | b"." | b"..") {
                name = format!("volume-{id}{suffix}").into_bytes();
            }
            parts.push(Part { name, content });
        }
        let mut losses = device_losses(image, found, &|id| with_files.contains(&id))?;
        losses.extend(unread);
        Ok(Self { parts: Parts::Volumes(parts), losses })
    }
}

impl Extracting for DeviceExtraction {
    fn run(
        self: Box<Self>,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        let mut extracted = self.parts.run(target, limits, progress)?;
        extracted.losses.extend(self.losses);
        Ok(extracted)
    }
}

impl Parts {
    fn run(
        self,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        let parts = match self {
            Self::One(extraction) => return extraction.run(target, limits, progress),
            Self::Volumes(parts) => parts,
        };
        let attributes = without_inode(0, FileType::Directory, 0);
        let root = Entry { path: &[], attributes: &attributes, xattrs: &[], target: None };
        let mut all = Extracted::default();
        let failed = |error| ExtractError::Target { path: "/".to_owned(), error };
        target.enter(&root).map_err(failed)?;
        for Part { name, content } in parts {
            let extracted = match content {
                PartContent::Filesystem(extraction) => {
                    let mut within = SubdirectoryTarget { target: &mut *target, folder: name.clone() };
                    extraction.run(&mut within, limits, progress)?
                }
                PartContent::Raw(file, raw) => write_raw(target, &name, file, raw)?,
            };
            all.add(extracted, &name);
        }
        Ok(all)
    }
}

/// Losses of a UBI device that its filesystems do not report: a cut file, data of a static volume with a wrong CRC,
/// and lost headers or pages of a volume without a filesystem. `has_files` is true for volumes whose files are
/// extracted; for others the extraction lists the LEBs itself.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn device_losses(
    image: &Image,
    found: &ImageLocation,
    has_files: &dyn Fn(u32) -> bool,
) -> Result<Vec<Loss>, ImageError> {
    let mut window = Window::new(image.store()?, found.offset, found.len);
    let device = Device::read(&mut window, found)?;
    let origin = image.origin(found);
    let mut report = CheckReport::default();
    device.report(&mut window, &origin, &mut report)?;
    device.report_behind(image, found, &mut report)?;
    let name = |id: u32| device.survey.volume(id).map(|record| show_name(record.name()));
    let place = |leb: LebId| {
        let volume = name(leb.volume).unwrap_or_else(|| leb.volume.to_string());
        format!("volume {volume}, LEB {}", leb.lnum)
    };
    let with_files: BTreeSet<String> =
        device.survey.volumes().filter(|(id, _)| has_files(*id)).filter_map(|(id, _)| name(id)).collect();
    let is_of_files = |volume: &String| with_files.contains(volume);
    let is_lost = |finding: &Finding| match finding.structure {
        // If all LEBs in use are before the end, no LEB is missing.
        Structure::Device => finding.severity == Outcome::Damaged || finding.peb.is_none(),
        // It is unknown whether the volume was created empty.
        Structure::StaticVolume if finding.leb.is_none() => true,
        Structure::StaticVolume => {
            finding.severity == Outcome::Damaged && finding.volume.as_ref().is_some_and(is_of_files)
        }
        _ => false,
    };
    let mut lost: Vec<Finding> = report.findings.into_iter().filter(is_lost).collect();
    if let Some(corrected) = &image.corrected {
        let pages = device.unchecked_pages(&corrected.lost_pages(found));
        let pages = pages.into_iter().filter(|(_, leb)| !has_files(leb.volume));
        lost.extend(pages.map(|(at, leb)| device.judge_page(at, leb, &origin)));
    }
    let loss = |finding: Finding| {
        let volume = finding.volume.map_or(String::new(), |name| format!("volume {name}"));
        let leb = finding.leb.map_or(String::new(), |lnum| format!(", LEB {lnum}"));
        let place = if volume.is_empty() { volume } else { format!("{volume}{leb}: ") };
        Loss::new(&[], format!("{place}{}: {}", finding.what, finding.consequence))
    };
    let is_raw =
        |(id, record): (u32, &VolumeRecord)| !has_files(id) && record.volume_type == VolumeType::Dynamic;
    let has_raw = device.survey.volumes().any(is_raw);
    let lost_pebs = device.lost_pebs(&mut window).map_err(ImageError::Store)?;
    let headers = lost_pebs.into_iter().filter_map(|(pnum, leb)| match leb {
        Some(leb) if has_files(leb.volume) => None,
        Some(leb) => {
            Some(format!("{}: the headers of PEB {pnum} are lost, and the LEB with them", place(leb)))
        }
        None => has_raw.then(|| {
            format!("PEB {pnum}: its headers are lost, and a LEB of a volume without a filesystem with them")
        }),
    });
    let marked = device.marked_lebs(&mut window).map_err(ImageError::Store)?;
    let marked = marked
        .into_iter()
        .filter(|(_, leb)| !has_files(leb.volume))
        .map(|(pnum, leb)| format!("{}: only PEB {pnum} has it, whose block is marked bad", place(leb)));
    let headers: Vec<Loss> = headers.chain(marked).map(|what| Loss::new(&[], what)).collect();
    Ok(lost.into_iter().map(loss).chain(headers).collect())
}

impl Extracted {
    /// Adds the result of a volume, whose paths begin with a directory.
    fn add(&mut self, volume: Self, folder: &[u8]) {
        let folder = show_name(folder);
        self.entries += 1 + volume.entries;
        self.bytes += volume.bytes;
        self.is_unverified |= volume.is_unverified;
        let path = |path: &str| if path == "/" { format!("/{folder}") } else { format!("/{folder}{path}") };
        self.losses.extend(volume.losses.into_iter().map(|loss| Loss { path: path(&loss.path), ..loss }));
        for note in volume.notes {
            // Damage of the device is a note of each of its volumes.
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// Numbers and names of the selected volumes.
fn volumes(Chosen { image, found, selection }: Chosen<'_>) -> Result<Vec<(u32, Vec<u8>)>, ImageError> {
    let ubi = image.attach_remains(found)?;
    let wanted = selection.volume.as_ref().map(|_| choose_volume(&ubi, selection)).transpose()?;
    let meant = ubi.volumes().filter(|volume| wanted.is_none_or(|wanted| wanted == volume.id));
    Ok(meant.map(|volume| (volume.id, volume.name)).collect())
}

/// True if a volume contains no UBIFS in the LEBs that Linux finds.
fn is_raw(chosen: Chosen<'_>) -> Result<bool, ImageError> {
    match open_volume(chosen) {
        Ok((mut volume, ..)) => Ok(!has_filesystem(&mut volume)),
        Err(ImageError::NoFilesystem(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

fn write_raw(
    target: &mut dyn Target,
    name: &[u8],
    file: File,
    raw: RawVolume,
) -> Result<Extracted, ExtractError> {
    let attributes = without_inode(0, FileType::Regular, raw.bytes);
    let path = [name.to_vec()];
    let entry = Entry { path: &path, attributes: &attributes, xattrs: &[], target: None };
    let mut contents = RawContents { file, size: raw.bytes, at: 0, buffer: Vec::new() };
    let failed = |error| ExtractError::Target { path: show_path(&path), error };
    let losses = target.file(&entry, &mut contents).map_err(failed)?;
    let damaged = raw.damaged_lebs.iter().map(|lnum| format!("LEB {lnum} is damaged or missing"));
    let losses = losses.into_iter().chain(damaged).chain(contents.damage());
    let losses = losses.map(|what| Loss { path: "/".to_owned(), what }).collect();
    Ok(Extracted { bytes: raw.bytes, losses, notes: raw.notes, ..Extracted::default() })
}

/// Bytes of a volume, read from a temporary file.
struct RawContents {
    file: File,
    size: u64,
    at: u64,
    buffer: Vec<u8>,
}

impl Contents for RawContents {
    fn size(&self) -> u64 {
        self.size
    }

    fn next_piece(&mut self) -> Option<(u64, &[u8])> {
        let at = self.at;
        let len = usize::try_from(self.size - at).unwrap_or(CHUNK).min(CHUNK);
        self.buffer.resize(len, 0);
        // Unreadable data is missing at the end, and `damage` reports it.
        if len == 0 || self.file.read_exact_at(&mut self.buffer, at).is_err() {
            return None;
        }
        self.at += len as u64;
        Some((at, &self.buffer))
    }

    fn damage(&mut self) -> Vec<String> {
        if self.at < self.size {
            vec![format!("the bytes from {} on cannot be read", self.at)]
        } else {
            Vec::new()
        }
    }
}

/// Target in a directory of another target.
struct SubdirectoryTarget<'t> {
    target: &'t mut dyn Target,
    folder: Vec<u8>,
}

impl SubdirectoryTarget<'_> {
    fn path(&self, path: &[Vec<u8>]) -> Vec<Vec<u8>> {
        [std::slice::from_ref(&self.folder), path].concat()
    }
}

impl Target for SubdirectoryTarget<'_> {
    fn enter(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        let path = self.path(entry.path);
        self.target.enter(&Entry { path: &path, ..entry.clone() })
    }

    fn leave(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        let path = self.path(entry.path);
        self.target.leave(&Entry { path: &path, ..entry.clone() })
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        let path = self.path(entry.path);
        self.target.file(&Entry { path: &path, ..entry.clone() }, contents)
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        let path = self.path(entry.path);
        self.target.special(&Entry { path: &path, ..entry.clone() })
    }

    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        let (path, first) = (self.path(entry.path), self.path(first));
        self.target.link(&Entry { path: &path, ..entry.clone() }, &first)
    }
}
