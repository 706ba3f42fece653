//! A filesystem that is written again with all readable data.

use floatgate_media::ubifs::{Inode, ROOT_INODE, Superblock, SuperblockFlags};
use floatgate_stack::store::Window;
use floatgate_stack::ubifs::{
    Authenticate, Behaviour, Error, FormatOptions, FormatStyle, MountOptions, Problem, Severity, Structure,
    Survey, Ubifs, probe,
};
use floatgate_stack::{BareVolume, FileStore, Store, Volume, VolumeGeometry};

use super::fill::{fill, time};
use super::shape::UbifsShape;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::format::mapped::MappedVolume;
use crate::image::{Access, Image};
use crate::report::Loss;
use crate::saved::{Grown, Saved, scratch, target};
use crate::selection::Selection;
use crate::words::show_path;
use floatgate_host::output::Output;

/// Number of LEBs, in addition to twice the former number, that a rewritten filesystem may need. Its contents had
/// space before, so one more copy is sufficient, except for the heads and areas of a small filesystem.
const GROWTH_LEBS: u32 = 64;

/// Mounts a copy of a filesystem without UBI in the output for writing, and unmounts it.
///
/// # Errors
/// Damage, or a failure of the files.
pub(super) fn recover(image: &Image, found: &ImageLocation, output: &Output) -> Result<(), ImageError> {
    let image = image.open_like(output.temporary(), Access::Write)?;
    let options = MountOptions { recover: true, keep_space_fixup: true, ..MountOptions::default() };
    let selection = Selection { offset: Some(image.file_byte(found.offset)), ..Selection::default() };
    let volume = image.volume(&selection)?;
    let fs = Ubifs::mount(volume, &options, Behaviour::default()).map_err(|(error, _)| error)?;
    fs.unmount().map(drop).map_err(|(error, _)| error.into())
}

/// Writes a filesystem without UBI again.
///
/// # Errors
/// No space, or a failure of the files.
pub(super) fn rebuild(
    image: &Image,
    (found, shape): (&ImageLocation, &UbifsShape),
    output: &Output,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let (source, target) = (image.store()?, target(image, output.temporary())?);
    let window = Window::new(source, found.offset, found.len);
    let volume = MappedVolume::bare(window, found.len, shape);
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
    let mut data = vec![0; shape.leb_bytes as usize];
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

/// A filesystem that was written to a temporary file with all readable data. The image ends after its data.
pub(crate) struct Rebuilt {
    pub(crate) volume: BareVolume<FileStore>,
    /// Number of LEBs of the filesystem.
    pub(crate) lebs: u32,
    /// Smallest number of LEBs of its volume.
    pub(crate) volume_lebs: u32,
}

impl Rebuilt {
    /// Writes a filesystem again, whose volume has `lebs` LEBs and the name `name`. Returns the old volume.
    ///
    /// If the filesystem does not fit into the number of LEBs to which it could grow, the new one can grow further.
    pub(crate) fn new<S: Store + 'static>(
        volume: MappedVolume<S>,
        lebs: u32,
        name: Option<String>,
        output: &Output,
        saved: &mut Saved,
    ) -> Result<(Self, MappedVolume<S>), ImageError> {
        let nameless = volume.nameless();
        let mut survey =
            Survey::with_nameless(volume, nameless, &Authenticate::No).map_err(|(error, _)| error)?;
        record_lost_structures(&survey, saved);
        let names = lost_names(&survey);
        let counted = counted_names(&survey);
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
                // Index and LEB properties of a small filesystem can be larger than those of a large one.
                lebs_max += 1 + lebs_max / 64;
            } else {
                lebs_max = fill(growth(most))?.0.lebs.max(most + 1);
            }
            if lebs_max > growth(most) {
                return Err(why.into());
            }
        };
        if names.is_empty() && filled.has_all_names() {
            saved.losses.extend(counted);
        }
        saved.filesystems += 1;
        saved.add_with_names(filled, names);
        // Without UBI, an image may end after its data, before the end of its filesystem.
        let in_filesystem = superblock.filter(|_| name.is_none()).map_or(0, |old| old.leb_count);
        let lebs_before = lebs.max(in_filesystem);
        if rebuilt.lebs > lebs_before {
            saved.grown.push(Grown { volume: name, lebs_before, lebs: rebuilt.lebs });
        }
        Ok((rebuilt, survey.into_volume()))
    }
}

/// Number of LEBs of a filesystem with space for all data of one with `lebs` LEBs.
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
    // A hostile superblock can require more memory than the host has.
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
        // The volume is smaller than the one for which the parameters were chosen.
        Err(_) => {
            attempt.record_loss("/", "parameters of the filesystem do not fit: they are the usual ones now");
            let usual = format_options(None, most, root.as_ref());
            Ubifs::format(volume()?, &usual, Behaviour::default()).map_err(|(error, _)| error)?
        }
    };
    fill(survey, &mut fs, &mut attempt)?;
    let mut volume = fs.unmount().map_err(|(error, _)| error)?;
    let (superblock, _) = probe(&mut volume)?;
    Ok((Rebuilt { volume, lebs: superblock.leb_count, volume_lebs: 0 }, attempt))
}

/// Records the lost structures of a filesystem.
fn record_lost_structures(survey: &Survey<dyn Volume>, saved: &mut Saved) {
    if survey.superblock().is_some_and(|superblock| superblock.has(SuperblockFlags::AUTHENTICATION)) {
        saved.record_loss("/", "the authentication: nothing vouches for the new filesystem");
    }
    if !survey.superblock().is_some_and(is_possible) {
        let what = "the superblock: parameters of the filesystem are the usual ones now";
        let index =
            if survey.has_index() { "" } else { "; what only the index told may be missing or older" };
        saved.record_loss("/", format!("{what}{index}"));
    }
    let has_master = survey.master().is_some();
    // One good copy of the master node contains the data of both copies.
    let is_redundant =
        |problem: &Problem| problem.structure == Structure::Master && has_master && !problem.is_older;
    let structural = survey.problems().iter().filter(|problem| is_structural(problem));
    for problem in structural.filter(|problem| !is_redundant(problem)) {
        let structure = problem.structure.name();
        saved.record_loss(
            "/",
            format!("{structure}: {}; what only it told may be missing or older", problem.description()),
        );
    }
    saved.losses.extend(damaged_names(survey, Structure::XattrEntry));
}

/// Losses of damaged names of files.
fn lost_names(survey: &Survey<dyn Volume>) -> Vec<Loss> {
    damaged_names(survey, Structure::Entry)
}

/// Losses of names that are known only from counts in an inode, each with the path of the file or directory.
fn counted_names(survey: &Survey<dyn Volume>) -> Vec<Loss> {
    let of = |problem: &Problem| {
        let inode = problem.inodes.as_ref().map_or(ROOT_INODE, |inodes| *inodes.start());
        let path = survey.tree().path(inode)?;
        let what = format!("{}: names may be lost", problem.description());
        Some(Loss { path: show_path(&path), what })
    };
    survey.problems().iter().filter(|problem| problem.names_missing).filter_map(of).collect()
}

/// Losses of damaged names of files or attributes, each with the path of the directory or file.
fn damaged_names(survey: &Survey<dyn Volume>, structure: Structure) -> Vec<Loss> {
    let is_one = |problem: &&Problem| problem.severity == Severity::Damaged && problem.structure == structure;
    let loss = |problem: &Problem| {
        let inode = problem.inodes.as_ref().map_or(ROOT_INODE, |inodes| *inodes.start());
        let path =
            survey.tree().path(inode).map_or_else(|| format!("inode {inode}"), |path| show_path(&path));
        Loss { path, what: format!("{}: {}", problem.structure.name(), problem.description()) }
    };
    survey.problems().iter().filter(is_one).map(loss).collect()
}

/// True if a structure is damaged that shows which nodes are valid.
fn is_structural(problem: &Problem) -> bool {
    let tells = [Structure::Master, Structure::Log, Structure::Journal, Structure::Index];
    problem.severity == Severity::Damaged && tells.contains(&problem.structure)
}

/// True if a filesystem can have these parameters, on a volume of the largest size that it can use.
fn is_possible(superblock: &Superblock) -> bool {
    superblock.grown(superblock.max_leb_count).check().is_ok()
}

/// Parameters of a filesystem like the former one.
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
