//! A UBI device that is written again, with its volumes and their contents.

use std::collections::BTreeMap;
use std::ops::Range;

use floatgate_files::File;
use floatgate_media::ubi::{VidHeader, VolumeRecord, VolumeType};
use floatgate_mtd::Instant;
use floatgate_stack::store::Window;
use floatgate_stack::ubi::{AttachOptions, FormatOptions as UbiFormat, LebId, Mapping, NewVolume, Ubi};
use floatgate_stack::ubifs::{Behaviour, Error, MIN_LEBS, MountOptions, Ubifs};
use floatgate_stack::{FileStore, Store, StoreError, StoreFlash, StoreMode, Volume};

use super::device::Device;
use super::fit::Room;
use super::shape::UbiShape;
use crate::ImageError;
use crate::format::location::{ImageLocation, Splices};
use crate::format::mapped::MappedVolume;
use crate::format::ubifs::check::{UbiVolume, check_volume, has_filesystem};
use crate::format::ubifs::repair::Rebuilt;
use crate::image::{Access, Image, Origin};
use crate::report::{CheckReport, Outcome};
use crate::saved::{Grown, Saved, scratch};
use crate::selection::Selection;
use crate::words::show_name;
use floatgate_host::output::Output;

/// Number of PEBs that UBI needs in addition to those of volumes: the volume table, wear levelling, atomic changes.
const OWN_PEBS: u64 = 4;

type Flash = StoreFlash<ExtendedSpace>;

type Salvaged = MappedVolume<Box<dyn Store>>;

/// Attaches a copy of a device in the output, mounts its filesystems for writing, and unmounts them.
///
/// # Errors
/// Damage, or a failure of the files.
pub(super) fn recover(
    before: &Image,
    (found, shape): (&ImageLocation, &UbiShape),
    output: &Output,
) -> Result<(), ImageError> {
    let image = before.open_like(output.temporary(), Access::Write)?;
    let options = MountOptions { recover: true, keep_space_fixup: true, ..MountOptions::default() };
    let attach = AttachOptions { autoresize: false, ..AttachOptions::default() };
    let mut ubi = image.attach_as(found, StoreMode::WriteThrough, attach)?;
    let volumes: Vec<u32> = ubi.volumes().map(|volume| volume.id).collect();
    for id in volumes {
        let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
        let volume = match Ubifs::mount(volume, &options, Behaviour::default()) {
            Ok(fs) => fs.unmount().map_err(|(error, _)| error)?,
            // A volume without a filesystem, or with one that cannot be written, is not changed.
            Err((_, volume)) => volume,
        };
        ubi = volume.into_ubi();
    }
    let is_plain = before.corrected.is_none();
    if is_plain {
        let pebs = found.len.div_ceil(u64::from(shape.peb_bytes));
        ubi.vacate(u32::try_from(pebs).unwrap_or(u32::MAX))?;
    }
    let (mut flash, _) = ubi.detach().map_err(|(error, _)| error)?;
    flash.fill_last_block().map_err(ImageError::Store)?;
    if is_plain && ends_file(&*before.store()?, found, shape) { trim(output, found, shape) } else { Ok(()) }
}

/// Removes PEBs that UBI formatted after the last device of a file and did not use.
fn trim(output: &Output, found: &ImageLocation, shape: &UbiShape) -> Result<(), ImageError> {
    let file = File::options().read(true).write(true).open(output.temporary()).map_err(ImageError::File)?;
    let size = file.metadata().map_err(ImageError::File)?.len();
    let store = FileStore::new(file).map_err(ImageError::Store)?;
    let peb = u64::from(shape.peb_bytes);
    let mut end = found.offset + found.len.next_multiple_of(peb);
    for start in (end..size).step_by(shape.peb_bytes as usize) {
        let mut magic = [0; 4];
        store.read_at(start + u64::from(shape.vid_header_offset), &mut magic).map_err(ImageError::Store)?;
        if magic != [0xFF; 4] {
            end = start + peb;
        }
    }
    Ok(output.file().set_len(end.min(size)).map_err(|error| output.failed(error))?)
}

/// Writes a UBI device again, with all its volumes. Damaged filesystems are first written to temporary files, as
/// `mkfs.ubifs` does, so that the sizes of the volumes are known before other data is written. All other data is
/// copied LEB by LEB. The device gets longer only if it is the last in its file, and its contents require it.
///
/// # Errors
/// No space, or a failure of the files.
pub(super) fn rebuild(
    source: Box<dyn Store>,
    target: Box<dyn Store>,
    (found, shape): (&ImageLocation, &UbiShape),
    output: &Output,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let mut window = Window::new(source, found.offset, found.len);
    let device = Device::read(&mut window, found)?;
    if device.survey.table().lost {
        saved.record_loss("/", "the volume table: names and sizes of volumes may differ");
    }
    let mut source: Box<dyn Store> = Box::new(window);
    let mut filesystems = BTreeMap::new();
    let (with_filesystem, back) = with_filesystem(&device, source);
    source = back;
    for id in with_filesystem {
        let record = device.survey.volume(id).copied().unwrap_or_default();
        let name = show_name(record.name());
        let (is_clean, mut volume) = is_clean(device.salvaged(source, id), (id, &name, &record), found)?;
        // The data of an interrupted update is no complete filesystem, even if it looks like one.
        if !is_clean || record.update_marker != 0 || !device.survey.defines_all_lebs(id) {
            let known = saved.losses.len();
            let (mut rebuilt, back) =
                Rebuilt::new(volume, record.reserved_pebs, Some(name.clone()), output, saved)?;
            let lebs_before = record.reserved_pebs;
            if rebuilt.lebs.max(lebs_before) < MIN_LEBS {
                let volume = Some(name.clone());
                saved.grown.retain(|grown| grown.volume != volume);
                saved.grown.push(Grown { volume, lebs_before, lebs: MIN_LEBS });
                rebuilt.volume_lebs = MIN_LEBS;
            }
            if device.survey.volumes().count() > 1 {
                saved.place_losses(known, &format!("volume {name}"));
            }
            filesystems.insert(id, rebuilt);
            volume = back;
        }
        source = volume.into_store();
    }
    let lebs = |(id, record): (u32, &VolumeRecord)| {
        let needed =
            filesystems.get(&id).map_or(0, |rebuilt: &Rebuilt| rebuilt.lebs.max(rebuilt.volume_lebs));
        (id, record.reserved_pebs.max(needed))
    };
    let lebs: BTreeMap<u32, u32> = device.survey.volumes().map(lebs).collect();
    let reserved = lebs.values().map(|&lebs| u64::from(lebs)).sum();
    let is_last = ends_file(&*target, found, shape);
    let space = ExtendedSpace::over(target, &device, found, is_last, output)?;
    let mut ubi = format(&device, space, found, reserved)?;
    for (id, record) in device.survey.volumes() {
        let lebs = lebs.get(&id).copied().unwrap_or(record.reserved_pebs);
        create(&mut ubi, id, record, lebs, saved)?;
        if let Some(rebuilt) = filesystems.get_mut(&id) {
            if record.volume_type == VolumeType::Static {
                write_static(&mut rebuilt.volume, rebuilt.lebs, &mut ubi, id)?;
            } else {
                copy_lebs(&mut rebuilt.volume, 0..rebuilt.lebs, &mut ubi, id)?;
            }
            continue;
        }
        let mut volume = device.volume(source, id, Mapping::Salvage);
        if record.update_marker != 0 {
            saved
                .record_loss("/", format!("volume {}: an update was not finished", show_name(record.name())));
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

/// Volumes with a filesystem. If no volume has one in its own LEBs, the first dynamic volume with a filesystem in
/// LEBs with unknown numbers is used, because these may be the only remains.
fn with_filesystem(device: &Device, mut source: Box<dyn Store>) -> (Vec<u32>, Box<dyn Store>) {
    let mut find = |volume: &dyn Fn(Box<dyn Store>, u32) -> Salvaged, kinds: &[VolumeType]| {
        let mut with = Vec::new();
        for (id, record) in device.survey.volumes() {
            let mut lebs = volume(std::mem::replace(&mut source, Box::new(Vec::new())), id);
            if kinds.contains(&record.volume_type) && has_filesystem(&mut lebs) {
                with.push(id);
            }
            source = lebs.into_store();
        }
        with
    };
    let both = [VolumeType::Dynamic, VolumeType::Static];
    let mut with = find(&|source, id| device.volume(source, id, Mapping::Salvage), &both);
    if with.is_empty() {
        with = find(&|source, id| device.salvaged(source, id), &both[..1]);
        with.truncate(1);
    }
    (with, source)
}

/// True if the filesystem on a volume has no damage. Returns the volume.
fn is_clean(
    volume: Salvaged,
    (id, name, record): (u32, &str, &VolumeRecord),
    found: &ImageLocation,
) -> Result<(bool, Salvaged), ImageError> {
    let mut report = CheckReport::default();
    let room = Room::new(record.flags, volume.geometry(), 0, None);
    let (_, volume) = check_volume(
        volume,
        Some(UbiVolume { id, name: name.to_owned(), room }),
        &Selection::default(),
        &Origin::new(found, Splices::default(), None),
        &mut report,
    )?;
    report.set_outcome();
    Ok((report.outcome == Outcome::Clean, volume))
}

/// True if less than a PEB follows a device, as at the end of a cut dump.
fn ends_file(store: &dyn Store, found: &ImageLocation, shape: &UbiShape) -> bool {
    found.offset + found.len + u64::from(shape.peb_bytes) > store.size_bytes()
}

/// Empty device in this space, with volumes of `reserved` LEBs. It continues the erase counters of the old device.
fn format(
    device: &Device,
    space: ExtendedSpace,
    found: &ImageLocation,
    reserved: u64,
) -> Result<Ubi<Flash>, ImageError> {
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
    // The volumes existed before the reserve for bad PEBs, so they have priority.
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
        saved.record_loss(
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

/// Space of a device, extended by a temporary file. Volumes can have more LEBs than an image has PEBs, as in images
/// of `ubinize`.
struct ExtendedSpace {
    space: Window<Box<dyn Store>>,
    room: FileStore,
    /// Offset at which the extension begins: the end of the last PEB of the old device.
    end: u64,
}

impl ExtendedSpace {
    fn over(
        target: Box<dyn Store>,
        device: &Device,
        found: &ImageLocation,
        is_last: bool,
        output: &Output,
    ) -> Result<Self, ImageError> {
        let room = FileStore::new(scratch(output)?).map_err(ImageError::Store)?;
        let end = u64::from(device.survey.peb_count()) * u64::from(device.survey.flash().erase_bytes);
        let len = if is_last { u64::MAX } else { found.len };
        Ok(Self { space: Window::new(target, found.offset, len), room, end })
    }

    /// End of the last PEB with a LEB, or of the last PEB of the old device.
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

    /// Adds the extension up to an offset to the space, which ends there.
    fn keep(mut self, end: u64) -> Result<(), StoreError> {
        let mut bytes = [0; 1 << 14];
        for at in (self.end..end).step_by(bytes.len()) {
            let piece = &mut bytes[..(end - at).min(1 << 14) as usize];
            self.room.read_at(at - self.end, piece)?;
            self.space.write_at(at, piece)?;
        }
        // The last PEB may end in erased bytes, which the file also contains.
        let missing = self.space.size_bytes() < end;
        if missing { self.space.write_at(end - 1, &[0xFF]) } else { Ok(()) }
    }
}

impl Store for ExtendedSpace {
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

/// Copies a static volume up to its last existing LEB. Lost LEBs before it read as erased.
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
    record_lost_lebs(&lebs, &show_name(record.name()), saved);
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
            saved.record_loss("/", format!("volume {name}, LEB {lnum}: its CRC was wrong; copied as it is"));
        }
        if (lnum as usize) < last {
            data.resize(leb_bytes, 0xFF);
        }
        update.write(&data)?;
    }
    update.finish()?;
    Ok(())
}

/// Writes a static volume with all LEBs of a filesystem; unused LEBs are erased bytes.
fn write_static<V: Volume>(
    volume: &mut V,
    lebs: u32,
    ubi: &mut Ubi<Flash>,
    id: u32,
) -> Result<(), ImageError> {
    let mut data = vec![0; volume.geometry().leb_bytes as usize];
    let mut update = ubi.update_volume(id, u64::from(lebs) * data.len() as u64)?;
    for lnum in 0..lebs {
        volume.read(lnum, 0, &mut data).map_err(Error::from)?;
        update.write(&data)?;
    }
    update.finish()?;
    Ok(())
}

/// Lists the lost LEBs of a static volume; consecutive LEBs are one entry.
fn record_lost_lebs(lebs: &[Option<VidHeader>], name: &str, saved: &mut Saved) {
    let mut first = 0;
    for run in lebs.chunk_by(|a, b| a.is_some() == b.is_some()) {
        let end = first + run.len();
        if run[0].is_none() {
            let which = match run.len() {
                1 => format!("LEB {first}"),
                _ => format!("LEBs {first} to {}", end - 1),
            };
            let now = if end == lebs.len() { "the volume ends before" } else { "erased now" };
            saved.record_loss("/", format!("volume {name}: {which} of {}: lost, {now}", lebs.len()));
        }
        first = end;
    }
}

/// Copies the mapped LEBs of a range, each up to its last byte that is not erased.
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
