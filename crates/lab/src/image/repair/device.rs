//! A device written anew: headers, volumes, what is in them.

use floatgate_media::ubi::{VolumeRecord, VolumeType};
use floatgate_media::ubifs::{Inode, ROOT_INODE, Superblock, SuperblockFlags};
use floatgate_mtd::Instant;
use floatgate_stack::store::Window;
use floatgate_stack::ubi::{AttachOptions, FormatOptions as UbiFormat, NewVolume, Ubi, UbiVolume};
use floatgate_stack::ubifs::{
    Authenticate, Behaviour, FormatOptions, FormatStyle, Problem, Severity, Structure, Survey, Ubifs, probe,
};
use floatgate_stack::{BareVolume, Store, StoreFlash, StoreMode, Volume, VolumeGeometry};

use super::super::ImageError;
use super::super::check::{Headers, MappedVolume, Mapping, has_filesystem};
use super::super::detect::Found;
use super::super::extract::{show_name, show_path};
use super::Saved;
use super::fill::{fill, time};

/// PEBs that UBI needs besides those of volumes: the volume table, wear levelling, atomic changes.
const OWN_PEBS: u64 = 4;

type Flash = StoreFlash<Window<Box<dyn Store>>>;

/// Writes a UBI device anew, with all its volumes.
///
/// # Errors
/// No room, failures of the files.
pub(super) fn rebuild(
    source: Box<dyn Store>,
    target: Box<dyn Store>,
    found: &Found,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let mut window = Window::new(source, found.offset, found.len);
    let headers = Headers::read(&mut window, found)?;
    let mut ubi = format(&headers, target, found)?;
    if headers.table_lost() {
        saved.lose("/", "the volume table: names and sizes of volumes may differ");
    }
    let mut source: Box<dyn Store> = Box::new(window);
    for (id, record) in headers.volumes() {
        create(&mut ubi, id, record, saved)?;
        let mut volume = headers.volume(source, id, Mapping::Salvage);
        if has_filesystem(&mut volume) {
            let target = ubi.open_volume(id).map_err(|(error, _)| error)?;
            let (target, volume): (UbiVolume<Flash>, _) = rebuild_files(volume, target, saved)?;
            (ubi, source) = (target.into_ubi(), volume.into_store());
            continue;
        }
        if record.update_marker != 0 {
            saved.lose("/", format!("volume {}: an update was not finished", show_name(record.name())));
        } else if record.volume_type == VolumeType::Static {
            copy_static(&headers, &mut volume, &mut ubi, id, record, saved)?;
        } else {
            copy_dynamic(&mut volume, &mut ubi, id)?;
        }
        source = volume.into_store();
    }
    let (mut flash, _) = ubi.detach().map_err(|(error, _)| error)?;
    flash.fill_last_block().map_err(ImageError::Store)
}

/// An empty device over the target that counts the erasures of the old one on.
fn format(headers: &Headers, target: Box<dyn Store>, found: &Found) -> Result<Ubi<Flash>, ImageError> {
    let mut geometry = headers.flash().clone();
    let reserved: u64 = headers.volumes().map(|(_, record)| u64::from(record.reserved_pebs)).sum();
    let needed = (reserved + OWN_PEBS + found.bad_pebs.len() as u64) * u64::from(geometry.erase_bytes);
    // What follows is less than a PEB where a dump was cut off.
    let is_last = found.offset + found.len + u64::from(geometry.erase_bytes) > target.size_bytes();
    if is_last {
        geometry.size_bytes = geometry.size_bytes.max(needed);
    }
    let flash = StoreFlash::new(
        Window::new(target, found.offset, geometry.size_bytes),
        geometry,
        StoreMode::WriteThrough,
    );
    let flash = flash.with_bad_blocks(found.bad_pebs.iter().copied());
    let vid_header_offset = Some(headers.geometry().vid_header_offset());
    let options = UbiFormat {
        now: Instant::ZERO,
        image_seq: headers.image_seq(),
        vid_header_offset,
        erase_count: None,
    };
    let (flash, _) = Ubi::format(flash, &options).map_err(|(error, _)| error)?;
    // The reserve for bad PEBs counts after the volumes, which had their place before.
    let options = AttachOptions { vid_header_offset, max_bad_per_1024: 0, ..AttachOptions::default() };
    Ubi::attach(flash, &options).map_err(|error| ImageError::Attach(error.fault))
}

fn create(ubi: &mut Ubi<Flash>, id: u32, record: &VolumeRecord, saved: &mut Saved) -> Result<(), ImageError> {
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
        lebs: record.reserved_pebs,
        alignment: record.alignment,
        flags: record.flags,
    };
    ubi.create_volume(&new)?;
    Ok(())
}

/// Copies a static volume as far as it is there.
fn copy_static(
    headers: &Headers,
    volume: &mut MappedVolume<Box<dyn Store>>,
    ubi: &mut Ubi<Flash>,
    id: u32,
    record: &VolumeRecord,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let lebs: Vec<_> = (0..record.reserved_pebs).map_while(|lnum| headers.header_of(id, lnum)).collect();
    let wanted = lebs.first().map_or(0, |vid| vid.used_lebs);
    if (lebs.len() as u64) < u64::from(wanted) {
        let name = show_name(record.name());
        saved.lose("/", format!("volume {name}: all from LEB {} on, of {wanted}", lebs.len()));
    }
    let len = lebs.iter().map(|vid| u64::from(vid.data_size)).sum();
    let mut update = ubi.update_volume(id, len)?;
    for vid in &lebs {
        let mut data = vec![0; vid.data_size as usize];
        volume.read(vid.lnum, 0, &mut data).map_err(floatgate_stack::ubifs::Error::from)?;
        if floatgate_media::crc::ubi(&data) != vid.data_crc {
            let name = show_name(record.name());
            saved.lose("/", format!("volume {name}, LEB {}: its CRC was wrong; copied as it is", vid.lnum));
        }
        update.write(&data)?;
    }
    update.finish()?;
    Ok(())
}

fn copy_dynamic(
    volume: &mut MappedVolume<Box<dyn Store>>,
    ubi: &mut Ubi<Flash>,
    id: u32,
) -> Result<(), ImageError> {
    let geometry = volume.geometry();
    let unit = geometry.min_io_bytes.max(1) as usize;
    let mut data = vec![0; geometry.leb_bytes as usize];
    for lnum in (0..geometry.lebs).filter(|&lnum| volume.place(lnum).is_some()).collect::<Vec<_>>() {
        volume.read(lnum, 0, &mut data).map_err(floatgate_stack::ubifs::Error::from)?;
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
    leb_bytes: u32,
    min_io_bytes: u32,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let window = Window::new(source, found.offset, found.len);
    let mut volume = MappedVolume::bare(window, found.len, leb_bytes, min_io_bytes);
    let mut geometry = VolumeGeometry { read_only: false, ..volume.geometry() };
    let is_last = found.offset + found.len >= target.size_bytes();
    let room = if is_last { u64::MAX } else { found.len };
    if is_last {
        geometry.lebs = grown(&mut volume, geometry.lebs);
    }
    let mut target = BareVolume::new(Window::new(target, found.offset, room), geometry);
    for lnum in 0..volume.geometry().lebs {
        target.unmap(lnum).map_err(floatgate_stack::ubifs::Error::from)?;
    }
    let (mut target, _) = rebuild_files(volume, target, saved)?;
    Ok(target.flush().map_err(floatgate_stack::ubifs::Error::from)?)
}

/// LEBs that a filesystem may need when it is written anew: more than an image that holds nothing but data, within reason.
fn grown<S: Store>(volume: &mut MappedVolume<S>, lebs: u32) -> u32 {
    let most = probe(volume).map_or(u32::MAX, |(superblock, _)| superblock.max_leb_count);
    lebs.max(most.min(lebs.saturating_mul(4).saturating_add(64)))
}

/// Writes what a volume still has of its files into a new filesystem on another one.
fn rebuild_files<S: Store, V: Volume>(
    volume: MappedVolume<S>,
    target: V,
    saved: &mut Saved,
) -> Result<(V, MappedVolume<S>), ImageError> {
    let nameless = volume.nameless();
    let mut survey =
        Survey::with_nameless(volume, nameless, &Authenticate::No).map_err(|(error, _)| error)?;
    let root = survey.tree().files.get(&ROOT_INODE).and_then(|file| file.inode);
    let options = format_options(survey.superblock(), root.as_ref());
    let mut fs = match Ubifs::format(target, &options, Behaviour::default()) {
        Ok(fs) => fs,
        // The volume is smaller than the one that the parameters were for.
        Err((_, target)) => {
            saved.lose("/", "parameters of the filesystem do not fit: they are the usual ones now");
            let usual = format_options(None, root.as_ref());
            Ubifs::format(target, &usual, Behaviour::default()).map_err(|(error, _)| error)?
        }
    };
    if survey.superblock().is_some_and(|superblock| superblock.has(SuperblockFlags::AUTHENTICATION)) {
        saved.lose("/", "the authentication: nothing vouches for the new filesystem");
    }
    if !survey.superblock().is_some_and(is_possible) {
        saved.lose("/", "the superblock: parameters of the filesystem are the usual ones now");
    }
    for problem in survey.problems().iter().filter(|problem| is_structural(problem)) {
        let structure = problem.structure.name();
        saved.lose("/", format!("{structure}: {}; what only it told may be missing or older", problem.what));
    }
    for problem in survey.problems().iter().filter(|problem| is_name(problem)) {
        let inode = problem.inodes.as_ref().map_or(ROOT_INODE, |inodes| *inodes.start());
        let path =
            survey.tree().path(inode).map_or_else(|| format!("inode {inode}"), |path| show_path(&path));
        saved.lose(&path, format!("a {}: {}", problem.structure.name(), problem.what));
    }
    fill(&mut survey, &mut fs, saved)?;
    let target = fs.unmount().map_err(|(error, _)| error)?;
    Ok((target, survey.into_volume()))
}

/// True when something is damaged that tells which nodes count.
fn is_structural(problem: &Problem) -> bool {
    let tells = [Structure::Master, Structure::Log, Structure::Journal, Structure::Index];
    problem.severity == Severity::Damaged && tells.contains(&problem.structure)
}

/// True when a name is damaged.
fn is_name(problem: &Problem) -> bool {
    let names = [Structure::Entry, Structure::XattrEntry];
    problem.severity == Severity::Damaged && names.contains(&problem.structure)
}

/// True when a filesystem can have these parameters, on a volume as large as it can use.
fn is_possible(superblock: &Superblock) -> bool {
    superblock.grown(superblock.max_leb_count).check().is_ok()
}

/// Parameters of a filesystem like the one that was.
fn format_options(superblock: Option<&Superblock>, root: Option<&Inode>) -> FormatOptions {
    let default = FormatOptions::default();
    let mut options = match superblock.filter(|old| is_possible(old)) {
        Some(old) => FormatOptions {
            style: FormatStyle::Mkfs,
            max_lebs: Some(old.max_leb_count),
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
