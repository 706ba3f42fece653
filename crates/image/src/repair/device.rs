//! A device written anew: device, volumes, what is in them.

use std::collections::BTreeMap;
use std::ops::Range;

use floatgate_media::ubi::{VidHeader, VolumeRecord, VolumeType};
use floatgate_media::ubifs::{Inode, ROOT_INODE, Superblock, SuperblockFlags};
use floatgate_mtd::Instant;
use floatgate_stack::store::Window;
use floatgate_stack::ubi::{AttachOptions, FormatOptions as UbiFormat, LebId, Mapping, NewVolume, Ubi};
use floatgate_stack::ubifs::{
    Authenticate, Behaviour, Error, FormatOptions, FormatStyle, Problem, Severity, Structure, Survey, Ubifs,
    probe,
};
use floatgate_stack::{
    BareVolume, FileStore, Store, StoreError, StoreFlash, StoreMode, Volume, VolumeGeometry,
};

use super::super::ImageError;
use super::super::check::{CheckReport, Origin, Outcome};
use super::super::detect::{Content, Found};
use super::super::extract::{Loss, show_name, show_path};
use super::super::format::mapped::MappedVolume;
use super::super::format::ubi::Device;
use super::super::format::ubifs::check::{check_volume, has_filesystem};
use super::super::open::Selection;
use super::fill::{fill, time};
use super::{Grown, Saved, scratch};
use crate::output::Output;

/// PEBs that UBI needs besides those of volumes: the volume table, wear levelling, atomic changes.
const OWN_PEBS: u64 = 4;

/// LEBs beyond twice as many as there were that a filesystem may need when it is written anew: what it holds was there before, so
/// that more than a second copy of it is not needed, but for heads and areas of a small one.
const GROWTH_LEBS: u32 = 64;

type Flash = StoreFlash<Roomy>;

type Salvaged = MappedVolume<Box<dyn Store>>;

/// Writes a UBI device anew, with all its volumes. Damaged filesystems are written first, into files of their own as `mkfs.ubifs`
/// does, so that the size of the volumes is known before anything is written; all else is copied LEB by LEB. The device gets longer
/// only if it is the last in its file and what is in it needs that.
///
/// # Errors
/// No room, failures of the files.
pub(super) fn rebuild(
    source: Box<dyn Store>,
    target: Box<dyn Store>,
    found: &Found,
    output: &Output,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let mut window = Window::new(source, found.offset, found.len);
    let device = Device::read(&mut window, found)?;
    if device.survey.table().lost {
        saved.lose("/", "the volume table: names and sizes of volumes may differ");
    }
    let mut source: Box<dyn Store> = Box::new(window);
    let mut filesystems = BTreeMap::new();
    for (id, record) in device.survey.volumes() {
        let mut volume = device.volume(source, id, Mapping::Salvage);
        // What an update was cut off in is no whole filesystem, even if it looks like one.
        if has_filesystem(&mut volume) {
            let name = show_name(record.name());
            let (is_clean, back) = is_clean(volume, (id, &name), found)?;
            volume = back;
            if !is_clean || record.update_marker != 0 || !device.survey.tell_all(id) {
                let known = saved.losses.len();
                let (rebuilt, back) =
                    Rebuilt::new(volume, record.reserved_pebs, Some(name.clone()), output, saved)?;
                if device.survey.volumes().count() > 1 {
                    saved.place_losses(known, &format!("volume {name}"));
                }
                filesystems.insert(id, rebuilt);
                volume = back;
            }
        }
        source = volume.into_store();
    }
    let lebs = |(id, record): (u32, &VolumeRecord)| {
        let needed = filesystems.get(&id).map_or(0, |rebuilt: &Rebuilt| rebuilt.lebs);
        (id, record.reserved_pebs.max(needed))
    };
    let lebs: BTreeMap<u32, u32> = device.survey.volumes().map(lebs).collect();
    let reserved = lebs.values().map(|&lebs| u64::from(lebs)).sum();
    let is_last = ends_file(&*target, found);
    let space = Roomy::over(target, &device, found, is_last, output)?;
    let mut ubi = format(&device, space, found, reserved)?;
    for (id, record) in device.survey.volumes() {
        let lebs = lebs.get(&id).copied().unwrap_or(record.reserved_pebs);
        create(&mut ubi, id, record, lebs, saved)?;
        if let Some(rebuilt) = filesystems.get_mut(&id) {
            copy_lebs(&mut rebuilt.volume, 0..rebuilt.lebs, &mut ubi, id)?;
            continue;
        }
        let mut volume = device.volume(source, id, Mapping::Salvage);
        if record.update_marker != 0 {
            saved.lose("/", format!("volume {}: an update was not finished", show_name(record.name())));
        } else if record.volume_type == VolumeType::Static {
            copy_static(&device, &mut volume, &mut ubi, (id, record), saved)?;
        } else {
            copy_lebs(&mut volume, 0..record.reserved_pebs, &mut ubi, id)?;
        }
        source = volume.into_store();
    }
    ubi.vacate(device.survey.peb_count())?;
    let (flash, _) = ubi.detach().map_err(|(error, _)| error)?;
    let mut space = flash.into_store();
    let end = space.end_of_lebs(&device)?;
    match end.saturating_sub(space.end) / u64::from(device.survey.flash().erase_bytes) {
        pebs if pebs > 0 && !is_last => Err(ImageError::Occupied { pebs, offset: found.offset + found.len }),
        _ => space.keep(end).map_err(ImageError::Store),
    }
}

/// True when nothing is wrong with the filesystem on a volume. The volume comes back.
fn is_clean(
    volume: Salvaged,
    (id, name): (u32, &str),
    found: &Found,
) -> Result<(bool, Salvaged), ImageError> {
    let mut report = CheckReport::default();
    let volume_of = Some((id, name.to_owned()));
    let (_, volume) =
        check_volume(volume, volume_of, &Selection::default(), &Origin::new(found, None), &mut report)?;
    report.settle();
    Ok((report.outcome == Outcome::Clean, volume))
}

/// True when less than a PEB follows a device, as where a dump was cut off.
pub(super) fn ends_file(store: &dyn Store, found: &Found) -> bool {
    let (Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. }) = &found.content else { return false };
    found.offset + found.len + u64::from(shape.peb_bytes) > store.size_bytes()
}

/// An empty device in this space, with room for volumes of `reserved` LEBs, that counts the erasures of the old one on.
fn format(device: &Device, space: Roomy, found: &Found, reserved: u64) -> Result<Ubi<Flash>, ImageError> {
    let mut geometry = device.survey.flash().clone();
    let peb = u64::from(geometry.erase_bytes);
    let needed = (reserved + OWN_PEBS + found.bad_pebs.len() as u64) * peb;
    geometry.size_bytes = geometry.size_bytes.max(needed);
    let flash = StoreFlash::new(space, geometry, StoreMode::WriteThrough);
    let flash = flash.with_bad_blocks(found.bad_pebs.iter().copied());
    let vid_header_offset = Some(device.survey.geometry().vid_header_offset());
    let options = UbiFormat {
        now: Instant::ZERO,
        image_seq: device.survey.image_seq(),
        vid_header_offset,
        erase_count: None,
    };
    let (flash, _) = Ubi::format(flash, &options).map_err(|(error, _)| error)?;
    // The reserve for bad PEBs counts after the volumes, which had their place before.
    let options = AttachOptions { vid_header_offset, max_bad_per_1024: 0, ..AttachOptions::default() };
    Ubi::attach(flash, &options).map_err(|error| ImageError::Attach(error.fault))
}

fn create(
    ubi: &mut Ubi<Flash>,
    id: u32,
    record: &VolumeRecord,
    lebs: u32,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let mut name = record.name().to_vec();
    if let Some(other) = ubi.id_of(&name) {
        name = format!("volume-{id}").into_bytes();
        let old = show_name(record.name());
        saved.lose(
            "/",
            format!("volume {id}: it had the name of volume {other}, {old}; it is volume-{id} now"),
        );
    }
    let new = NewVolume {
        id: Some(id),
        name,
        volume_type: record.volume_type,
        lebs,
        alignment: record.alignment,
        flags: record.flags,
    };
    ubi.create_volume(&new)?;
    Ok(())
}

/// The space of a device, and room behind it in a file of its own: volumes can have more LEBs than an image has PEBs, as `ubinize`
/// makes them.
struct Roomy {
    space: Window<Box<dyn Store>>,
    room: FileStore,
    /// Byte at which the room begins: the end of the last PEB that the device had.
    end: u64,
}

impl Roomy {
    fn over(
        target: Box<dyn Store>,
        device: &Device,
        found: &Found,
        is_last: bool,
        output: &Output,
    ) -> Result<Self, ImageError> {
        let room = FileStore::new(scratch(output)?).map_err(ImageError::Store)?;
        let end = u64::from(device.survey.peb_count()) * u64::from(device.survey.flash().erase_bytes);
        let len = if is_last { u64::MAX } else { found.len };
        Ok(Self { space: Window::new(target, found.offset, len), room, end })
    }

    /// Byte behind the last PEB with a LEB, or behind the last that the device had.
    fn end_of_lebs(&mut self, device: &Device) -> Result<u64, ImageError> {
        let peb = u64::from(device.survey.flash().erase_bytes);
        let vid_header_offset = u64::from(device.survey.geometry().vid_header_offset());
        let mut end = self.end;
        for start in (self.end..self.size_bytes()).step_by(peb as usize) {
            let mut magic = [0; 4];
            self.read_at(start + vid_header_offset, &mut magic).map_err(ImageError::Store)?;
            if magic != [0xFF; 4] {
                end = start + peb;
            }
        }
        Ok(end)
    }

    /// Makes the room up to a byte a part of the space, which ends there.
    fn keep(mut self, end: u64) -> Result<(), StoreError> {
        let mut bytes = [0; 1 << 14];
        for at in (self.end..end).step_by(bytes.len()) {
            let piece = &mut bytes[..(end - at).min(1 << 14) as usize];
            self.room.read_at(at - self.end, piece)?;
            self.space.write_at(at, piece)?;
        }
        // The last PEB may end in erased bytes, which the file has too.
        let missing = self.space.size_bytes() < end;
        if missing { self.space.write_at(end - 1, &[0xFF]) } else { Ok(()) }
    }
}

impl Store for Roomy {
    fn size_bytes(&self) -> u64 {
        self.end + self.room.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let inside = self.end.saturating_sub(offset).min(buf.len() as u64);
        let (front, rest) = buf.split_at_mut(inside as usize);
        self.space.read_at(offset, front)?;
        self.room.read_at((offset + inside).saturating_sub(self.end), rest)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let inside = self.end.saturating_sub(offset).min(data.len() as u64);
        let (front, rest) = data.split_at(inside as usize);
        if !front.is_empty() {
            self.space.write_at(offset, front)?;
        }
        if rest.is_empty() { Ok(()) } else { self.room.write_at(offset + inside - self.end, rest) }
    }
}

/// Copies a static volume up to its last LEB that is there. Lost ones before read as erased.
fn copy_static(
    device: &Device,
    volume: &mut MappedVolume<Box<dyn Store>>,
    ubi: &mut Ubi<Flash>,
    (id, record): (u32, &VolumeRecord),
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let mut lebs: Vec<Option<VidHeader>> =
        (0..record.reserved_pebs).map(|lnum| device.survey.header_of(LebId { volume: id, lnum })).collect();
    let wanted = lebs.iter().flatten().map(|vid| vid.used_lebs).max().unwrap_or(0).min(record.reserved_pebs);
    lebs.truncate(wanted as usize);
    lose_lebs(&lebs, &show_name(record.name()), saved);
    let Some(last) = lebs.iter().rposition(Option::is_some) else { return Ok(()) };
    let leb_bytes = volume.geometry().leb_bytes as usize;
    let last_bytes = lebs[last].map_or(0, |vid| vid.data_size as usize);
    let mut update = ubi.update_volume(id, (last * leb_bytes + last_bytes) as u64)?;
    for (lnum, vid) in (0..).zip(&lebs[..=last]) {
        let mut data = vec![0; vid.map_or(0, |vid| vid.data_size as usize)];
        if vid.is_some() {
            volume.read(lnum, 0, &mut data).map_err(Error::from)?;
        }
        if vid.is_some_and(|vid| floatgate_media::crc::ubi(&data) != vid.data_crc) {
            let name = show_name(record.name());
            saved.lose("/", format!("volume {name}, LEB {lnum}: its CRC was wrong; copied as it is"));
        }
        if (lnum as usize) < last {
            data.resize(leb_bytes, 0xFF);
        }
        update.write(&data)?;
    }
    update.finish()?;
    Ok(())
}

/// Lists the LEBs of a static volume that are lost, those that follow each other together.
fn lose_lebs(lebs: &[Option<VidHeader>], name: &str, saved: &mut Saved) {
    let mut first = 0;
    for run in lebs.chunk_by(|a, b| a.is_some() == b.is_some()) {
        let end = first + run.len();
        if run[0].is_none() {
            let which = match run.len() {
                1 => format!("LEB {first}"),
                _ => format!("LEBs {first} to {}", end - 1),
            };
            let now = if end == lebs.len() { "the volume ends before" } else { "erased now" };
            saved.lose("/", format!("volume {name}: {which} of {}: lost, {now}", lebs.len()));
        }
        first = end;
    }
}

/// Copies LEBs as far as they are mapped, up to their last byte that is not erased.
fn copy_lebs<V: Volume>(
    volume: &mut V,
    lebs: Range<u32>,
    ubi: &mut Ubi<Flash>,
    id: u32,
) -> Result<(), ImageError> {
    let geometry = volume.geometry();
    let unit = geometry.min_io_bytes.max(1) as usize;
    let mut data = vec![0; geometry.leb_bytes as usize];
    for lnum in lebs {
        if !volume.is_mapped(lnum).map_err(Error::from)? {
            continue;
        }
        volume.read(lnum, 0, &mut data).map_err(Error::from)?;
        let used = data.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
        let used = used.next_multiple_of(unit).min(data.len());
        match data.get(..used).unwrap_or(&[]) {
            [] => ubi.map_leb(id, lnum)?,
            data => ubi.write_leb(id, lnum, 0, data)?,
        }
    }
    Ok(())
}

/// Writes a filesystem without UBI anew.
///
/// # Errors
/// No room, failures of the files.
pub(super) fn rebuild_bare(
    source: Box<dyn Store>,
    target: Box<dyn Store>,
    found: &Found,
    (leb_bytes, min_io_bytes): (u32, u32),
    output: &Output,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let window = Window::new(source, found.offset, found.len);
    let volume = MappedVolume::bare(window, found.len, leb_bytes, min_io_bytes);
    let old = volume.geometry();
    let (mut rebuilt, _) = Rebuilt::new(volume, old.lebs, None, output, saved)?;
    let is_last = found.offset + found.len >= target.size_bytes();
    if rebuilt.lebs > old.lebs && !is_last {
        let (pebs, offset) = (u64::from(rebuilt.lebs - old.lebs), found.offset + found.len);
        return Err(ImageError::Occupied { pebs, offset });
    }
    let room = if is_last { u64::MAX } else { found.len };
    let lebs = rebuilt.lebs.max(old.lebs);
    let geometry = VolumeGeometry { read_only: false, lebs, ..old };
    let mut target = BareVolume::new(Window::new(target, found.offset, room), geometry);
    let mut data = vec![0; leb_bytes as usize];
    for lnum in 0..lebs {
        if lnum < rebuilt.lebs && rebuilt.volume.is_mapped(lnum).map_err(Error::from)? {
            rebuilt.volume.read(lnum, 0, &mut data).map_err(Error::from)?;
            target.change(lnum, &data).map_err(Error::from)?;
        } else {
            target.unmap(lnum).map_err(Error::from)?;
        }
    }
    Ok(target.flush().map_err(Error::from)?)
}

/// A filesystem written anew with everything that can be saved, in a file of its own. The image ends behind its data.
struct Rebuilt {
    volume: BareVolume<FileStore>,
    /// LEBs that the filesystem has.
    lebs: u32,
}

impl Rebuilt {
    /// Writes a filesystem anew, whose volume has `lebs` LEBs; `name` is that of the volume. The old volume comes back.
    ///
    /// Where it does not fit into as many LEBs as it could grow to, it is one that can grow further.
    fn new<S: Store + 'static>(
        volume: MappedVolume<S>,
        lebs: u32,
        name: Option<String>,
        output: &Output,
        saved: &mut Saved,
    ) -> Result<(Self, MappedVolume<S>), ImageError> {
        let nameless = volume.nameless();
        let mut survey =
            Survey::with_nameless(volume, nameless, &Authenticate::No).map_err(|(error, _)| error)?;
        lose_structures(&survey, saved);
        let names = lost_names(&survey);
        let superblock = survey.superblock().filter(|old| is_possible(old)).cloned();
        let most = superblock.as_ref().map_or(lebs, |old| old.max_leb_count.max(lebs));
        let mut fill = |most| fill_new(&mut survey, superblock.as_ref(), lebs, most, output);
        let mut lebs_max = most;
        let (rebuilt, filled) = loop {
            let why = match fill(lebs_max) {
                Err(ImageError::Ubifs(why @ (Error::NoSpace | Error::Superblock(_)))) => why,
                rebuilt => break rebuilt?,
            };
            if lebs_max > most {
                // The index and the LEB properties of a small filesystem can need more than those of a large one.
                lebs_max += 1 + lebs_max / 64;
            } else {
                lebs_max = fill(growth(most))?.0.lebs.max(most + 1);
            }
            if lebs_max > growth(most) {
                return Err(why.into());
            }
        };
        saved.add_with_names(filled, names);
        // Without UBI an image may end behind its data, in front of the end of its filesystem.
        let in_filesystem = superblock.filter(|_| name.is_none()).map_or(0, |old| old.leb_count);
        let lebs_before = lebs.max(in_filesystem);
        if rebuilt.lebs > lebs_before {
            saved.grown.push(Grown { volume: name, lebs_before, lebs: rebuilt.lebs });
        }
        Ok((rebuilt, survey.into_volume()))
    }
}

/// LEBs of a filesystem that has room for all that one of `lebs` LEBs held.
const fn growth(lebs: u32) -> u32 {
    lebs.saturating_mul(2).saturating_add(GROWTH_LEBS)
}

/// Fills a new filesystem, which can grow to `most` LEBs.
fn fill_new<S: Volume + 'static>(
    survey: &mut Survey<S>,
    old: Option<&Superblock>,
    lebs: u32,
    most: u32,
    output: &Output,
) -> Result<(Rebuilt, Saved), ImageError> {
    let geometry = survey.volume().geometry();
    // A hostile superblock can allow more than a host has memory for.
    let room = most.min(lebs.saturating_mul(4).saturating_add(GROWTH_LEBS));
    let geometry = VolumeGeometry { read_only: false, lebs: room, ..geometry };
    let volume = || -> Result<_, ImageError> {
        let file = scratch(output)?;
        Ok(BareVolume::new(FileStore::new(file).map_err(ImageError::Store)?, geometry))
    };
    let root = survey.tree().files.get(&ROOT_INODE).and_then(|file| file.inode);
    let mut attempt = Saved::default();
    let options = format_options(old, most, root.as_ref());
    let mut fs = match Ubifs::format(volume()?, &options, Behaviour::default()) {
        Ok(fs) => fs,
        // The volume is smaller than the one that the parameters were for.
        Err(_) => {
            attempt.lose("/", "parameters of the filesystem do not fit: they are the usual ones now");
            let usual = format_options(None, most, root.as_ref());
            Ubifs::format(volume()?, &usual, Behaviour::default()).map_err(|(error, _)| error)?
        }
    };
    fill(survey, &mut fs, &mut attempt)?;
    let mut volume = fs.unmount().map_err(|(error, _)| error)?;
    let (superblock, _) = probe(&mut volume)?;
    Ok((Rebuilt { volume, lebs: superblock.leb_count }, attempt))
}

/// Says which structures of a filesystem are lost.
fn lose_structures(survey: &Survey<dyn Volume>, saved: &mut Saved) {
    if survey.superblock().is_some_and(|superblock| superblock.has(SuperblockFlags::AUTHENTICATION)) {
        saved.lose("/", "the authentication: nothing vouches for the new filesystem");
    }
    if !survey.superblock().is_some_and(is_possible) {
        let what = "the superblock: parameters of the filesystem are the usual ones now";
        let index =
            if survey.has_index() { "" } else { "; what only the index told may be missing or older" };
        saved.lose("/", format!("{what}{index}"));
    }
    for problem in survey.problems().iter().filter(|problem| is_structural(problem)) {
        let structure = problem.structure.name();
        saved
            .lose("/", format!("{structure}: {}; what only it told may be missing or older", problem.told()));
    }
    saved.losses.extend(damaged_names(survey, Structure::XattrEntry));
}

/// The names of files that are damaged.
fn lost_names(survey: &Survey<dyn Volume>) -> Vec<Loss> {
    damaged_names(survey, Structure::Entry)
}

/// Names of files or attributes that are damaged, each at the directory or the file that it was in.
fn damaged_names(survey: &Survey<dyn Volume>, structure: Structure) -> Vec<Loss> {
    let is_one = |problem: &&Problem| problem.severity == Severity::Damaged && problem.structure == structure;
    let loss = |problem: &Problem| {
        let inode = problem.inodes.as_ref().map_or(ROOT_INODE, |inodes| *inodes.start());
        let path =
            survey.tree().path(inode).map_or_else(|| format!("inode {inode}"), |path| show_path(&path));
        Loss { path, what: format!("{}: {}", problem.structure.name(), problem.told()) }
    };
    survey.problems().iter().filter(is_one).map(loss).collect()
}

/// True when something is damaged that tells which nodes count.
fn is_structural(problem: &Problem) -> bool {
    let tells = [Structure::Master, Structure::Log, Structure::Journal, Structure::Index];
    problem.severity == Severity::Damaged && tells.contains(&problem.structure)
}

/// True when a filesystem can have these parameters, on a volume as large as it can use.
fn is_possible(superblock: &Superblock) -> bool {
    superblock.grown(superblock.max_leb_count).check().is_ok()
}

/// Parameters of a filesystem like the one that was.
fn format_options(superblock: Option<&Superblock>, most: u32, root: Option<&Inode>) -> FormatOptions {
    let default = FormatOptions { max_lebs: Some(most), ..FormatOptions::default() };
    let mut options = match superblock {
        Some(old) => FormatOptions {
            style: FormatStyle::Mkfs,
            journal_bytes: Some(old.max_journal_bytes),
            log_lebs: Some(old.log_lebs),
            orphan_lebs: Some(old.orphan_lebs),
            fanout: old.fanout,
            key_hash: old.key_hash,
            format_version: old.format_version.clamp(4, 5),
            compression: old.compression,
            reserved_bytes: Some(old.reserved_bytes),
            reserved_uid: old.reserved_uid,
            reserved_gid: old.reserved_gid,
            time_granularity_ns: old.time_granularity_ns,
            space_fixup: old.has(SuperblockFlags::SPACE_FIXUP),
            uuid: old.uuid,
            ..default
        },
        None => default,
    };
    options.deferred = true;
    if let Some(root) = root {
        options.root_mode = root.mode & 0o7777;
        (options.root_uid, options.root_gid) = (root.uid, root.gid);
        options.time = time(root.mtime_s, root.mtime_ns);
    }
    options
}
