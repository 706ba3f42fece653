//! Subcommands of `floatgate image` that change files in an image: `put`, `rm`, `mv`, `ln`, `mkdir`, `chmod`,
//! `chown`, `setxattr`.

use super::options::{self, ImageArgs};
use crate::common::{Failure, Outcome, count};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::terminal;
use floatgate_image::edit::{
    Change, Committed, EditError, EditOptions, Edited, GrowTo, Grown, ImagePath, Owner, Permissions,
    PutOptions, edit,
};
use floatgate_image::extract::Loss;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_stack::fs::{Rename, Timestamp};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Largest number of losses that the text shows; JSON has all losses.
const LINES: usize = 20;

/// Options that all changes of an image have.
#[derive(clap::Args)]
struct EditArgs {
    #[command(flatten)]
    image: ImageArgs,

    /// Write the changed image to this file, and do not change the old image
    #[arg(long, short, value_name = "OUT")]
    output: Option<OutputFile>,

    /// Recover a filesystem that was not unmounted, as Linux does when mounting; without --recover such an image is refused
    #[arg(long)]
    recover: bool,

    /// Let the volume, or the image of a JFFS2, grow to the size that the change needs. Without --grow the size is
    /// fixed, and an image file that is shorter may grow only up to this size
    #[arg(long, conflicts_with = "lebs")]
    grow: bool,

    /// Let the volume grow to this number of LEBs, or a JFFS2 to this number of eraseblocks
    #[arg(long, value_name = "N")]
    lebs: Option<u32>,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image put rootfs.ubi hostname /etc/hostname
  floatgate image put two-volumes.ubi app/ config.toml /etc/ --volume data --owner 0:0
  floatgate image put rootfs.ubi overlay/. / --output changed.ubi

Works as `cp -a`: a directory is copied with its contents, into an existing directory or under a new name. An existing file of that name is replaced. Hard links, \
holes, devices, permissions, times and attributes are preserved. Exit status 1: some of these could not be preserved.")]
pub(crate) struct PutArgs {
    #[command(flatten)]
    edit: EditArgs,

    /// Files and directories of the host (- is stdin), followed by their destination in the image
    #[arg(value_name = "SOURCE... DEST", num_args = 2.., required = true)]
    paths: Vec<OsString>,

    /// Owner of the files: UID, UID:GID or :GID
    #[arg(long, value_name = "UID:GID", default_value = "", value_parser = owner_or_nothing, hide_default_value = true)]
    owner: Owner,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image rm rootfs.ubi /bin/ls /etc/fstab --output smaller.ubi
  floatgate image rm rootfs.ubi -r /boot --output smaller.ubi")]
pub(crate) struct RmArgs {
    #[command(flatten)]
    edit: EditArgs,

    /// Files in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,

    /// Also remove directories, with their contents
    #[arg(long, short, visible_short_alias = 'R')]
    recursive: bool,

    /// Also remove empty directories
    #[arg(long, short)]
    dir: bool,

    /// Ignore files that do not exist
    #[arg(long, short)]
    force: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image mv rootfs.ubi /etc/fstab /boot/fstab --output changed.ubi
  floatgate image mv rootfs.ubi /bin/ls /bin/sh --exchange")]
pub(crate) struct MvArgs {
    #[command(flatten)]
    edit: EditArgs,

    /// Files in the image, followed by the new name or by the destination directory
    #[arg(value_name = "SOURCE... DEST", num_args = 2.., required = true)]
    paths: Vec<OsString>,

    /// Refuse to replace an existing file
    #[arg(long, short, conflicts_with = "exchange")]
    no_clobber: bool,

    /// Exchange two files
    #[arg(long)]
    exchange: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image ln rootfs.ubi /bin/busybox /bin/ash
  floatgate image ln rootfs.ubi -s ../run/resolv.conf /etc/resolv.conf")]
pub(crate) struct LnArgs {
    #[command(flatten)]
    edit: EditArgs,

    /// File in the image; for a symbolic link, any text
    target: OsString,

    /// New name, or the directory for the link
    name: OsString,

    /// Make a symbolic link
    #[arg(long, short)]
    symbolic: bool,

    /// Remove an existing file of that name first
    #[arg(long, short)]
    force: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image mkdir rootfs.ubi /opt
  floatgate image mkdir rootfs.ubi -p /var/lib/app/cache --mode 0700 --owner 1000:1000")]
pub(crate) struct MkdirArgs {
    #[command(flatten)]
    edit: EditArgs,

    /// Directories to make
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,

    /// Make parent directories as needed; an existing directory is no error
    #[arg(long, short)]
    parents: bool,

    /// Permissions of the new directories, in the form of chmod
    #[arg(long, short, value_name = "MODE", default_value = "0755")]
    mode: Permissions,

    /// Owner of the directories: UID, UID:GID or :GID
    #[arg(long, value_name = "UID:GID", default_value = "0:0")]
    owner: Owner,
}

/// Files whose attributes are changed.
#[derive(clap::Args)]
struct ChangedFiles {
    /// Files in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,

    /// Also change the contents of directories, recursively
    #[arg(long, short = 'R', visible_short_alias = 'r')]
    recursive: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image chmod rootfs.ubi 0600 /etc/fstab
  floatgate image chmod rootfs.ubi -R go-w,+X /bin /etc")]
pub(crate) struct ChmodArgs {
    #[command(flatten)]
    edit: EditArgs,

    /// Permissions: an octal number, or clauses such as u+x,go-w
    mode: Permissions,

    #[command(flatten)]
    changed: ChangedFiles,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image chown rootfs.ubi 0:0 /etc/fstab
  floatgate image chown rootfs.ubi -R 1000:1000 /boot")]
pub(crate) struct ChownArgs {
    #[command(flatten)]
    edit: EditArgs,

    /// Owner: UID, UID:GID or :GID, as numbers
    owner: Owner,

    #[command(flatten)]
    changed: ChangedFiles,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image setxattr rootfs.ubi /bin/busybox security.capability 0x010000010020000000000000
  floatgate image setxattr rootfs.ubi /etc/fstab user.origin factory
  floatgate image setxattr rootfs.ubi /etc/fstab user.origin --remove")]
pub(crate) struct SetxattrArgs {
    #[command(flatten)]
    edit: EditArgs,

    /// The file in the image
    path: OsString,

    /// Attribute: user.NAME, trusted.NAME or security.NAME. In a JFFS2 also system.posix_acl_access and
    /// system.posix_acl_default, with values in the form of `getfattr -e hex`
    name: OsString,

    /// Value: text, or bytes as 0x and hexadecimal digits
    #[arg(required_unless_present = "remove")]
    value: Option<OsString>,

    /// Remove the attribute
    #[arg(long, conflicts_with = "value")]
    remove: bool,
}

fn owner_or_nothing(text: &str) -> Result<Owner, String> {
    if text.is_empty() { Ok(Owner::default()) } else { text.parse() }
}

/// Report of a change as JSON.
#[derive(Serialize)]
struct Report<'r> {
    #[serde(flatten)]
    committed: &'r Committed,
    #[serde(flatten)]
    edited: &'r Edited,
}

impl Concluded for Report<'_> {
    fn conclusion(&self) -> String {
        self.edited.conclusion()
    }
}

pub(crate) fn put(args: &PutArgs) -> Outcome {
    let (dest, sources) = args.paths.split_last().ok_or_else(no_paths)?;
    let sources = sources.iter().map(Source::open).collect::<Result<Vec<_>, _>>()?;
    let paths: Vec<PathBuf> = sources.iter().map(|source| source.path.clone()).collect();
    let options = PutOptions { owner: args.owner, time_max: source_date_epoch()? };
    args.edit.run(&|editor| editor.put(&paths, &path(dest)?, options))
}

/// A file of the host that is put into an image.
struct Source {
    path: PathBuf,
    /// Folder with the data of a descriptor, which can be read only once.
    _folder: Option<TempDir>,
}

impl Source {
    /// Opens a source. The data of `-`, `/dev/stdin` and `/dev/fd/N`, such as a pipe, is copied to a file, because a
    /// change may read it more than once. Links in /dev are not files of the user.
    fn open(path: &OsString) -> Result<Self, Failure> {
        let path = PathBuf::from(path);
        let is_descriptor = ["/dev/stdin", "-"].iter().any(|stdin| path.as_os_str() == *stdin)
            || ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.parent() == Some(Path::new(folder)));
        if !is_descriptor {
            return Ok(Self { path, _folder: None });
        }
        let name = path.file_name().filter(|name| *name != "-").unwrap_or("stdin".as_ref());
        let kept = || {
            let folder = tempfile::Builder::new().prefix("floatgate-").tempdir()?;
            let file = folder.path().join(name);
            let stdin = Path::new("/dev/stdin");
            let mut from = File::open(if path.as_os_str() == "-" { stdin } else { &path })?;
            io::copy(&mut from, &mut File::create(&file)?)?;
            Ok(Self { path: file, _folder: Some(folder) })
        };
        kept().map_err(|error: io::Error| {
            Failure::new(format!("{}: {error}", path.display()), "name files that can be read")
        })
    }
}

pub(crate) fn rm(args: &RmArgs) -> Outcome {
    args.edit.run(&|editor| {
        for name in &args.paths {
            let path = path(name)?;
            if args.force && !editor.exists(&path)? {
                continue;
            }
            let empty = args.dir && !args.recursive && editor.is_dir(&path)?;
            if empty { editor.remove_dir(&path)? } else { editor.remove(&path, args.recursive)? }
        }
        Ok(())
    })
}

pub(crate) fn mv(args: &MvArgs) -> Outcome {
    let (dest, sources) = args.paths.split_last().ok_or_else(no_paths)?;
    let how = match (args.exchange, args.no_clobber) {
        (true, _) => Rename::Exchange,
        (_, true) => Rename::KeepTarget,
        _ => Rename::Replace,
    };
    args.edit.run(&|editor| {
        let mut dest = path(dest)?;
        dest.is_directory |= sources.len() > 1;
        sources.iter().try_for_each(|source| editor.rename(&path(source)?, &dest, how))
    })
}

pub(crate) fn ln(args: &LnArgs) -> Outcome {
    args.edit.run(&|editor| {
        let name = path(&args.name)?;
        if args.force && editor.exists(&name)? && !editor.is_dir(&name)? {
            editor.remove(&name, false)?;
        }
        if args.symbolic {
            return editor.symlink(args.target.as_bytes(), &name, Owner::default());
        }
        editor.link(&path(&args.target)?, &name)
    })
}

pub(crate) fn mkdir(args: &MkdirArgs) -> Outcome {
    let mode = args.mode.apply(0o777, true);
    args.edit.run(&|editor| {
        args.paths.iter().try_for_each(|name| editor.make_dir(&path(name)?, args.parents, mode, args.owner))
    })
}

pub(crate) fn chmod(args: &ChmodArgs) -> Outcome {
    args.edit.run(&|editor| {
        args.changed
            .paths
            .iter()
            .try_for_each(|name| editor.chmod(&path(name)?, &args.mode, args.changed.recursive))
    })
}

pub(crate) fn chown(args: &ChownArgs) -> Outcome {
    args.edit.run(&|editor| {
        args.changed
            .paths
            .iter()
            .try_for_each(|name| editor.chown(&path(name)?, args.owner, args.changed.recursive))
    })
}

pub(crate) fn setxattr(args: &SetxattrArgs) -> Outcome {
    let value = args.value.as_ref().map(|value| xattr_value(value.as_bytes())).transpose()?;
    args.edit.run(&|editor| editor.set_xattr(&path(&args.path)?, args.name.as_bytes(), value.as_deref()))
}

fn no_paths() -> Failure {
    Failure::new("nothing to do", "name files, and where they go")
}

fn path(name: &OsString) -> Result<ImagePath, EditError> {
    ImagePath::new(name.clone().into_vec())
}

/// Value of an attribute: text, or bytes in hexadecimal after 0x.
fn xattr_value(text: &[u8]) -> Result<Vec<u8>, Failure> {
    let Some(digits) = text.strip_prefix(b"0x") else { return Ok(text.to_vec()) };
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2 && !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes = digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>();
    bytes.ok_or_else(|| Failure::new("the value is not hexadecimal", "two digits for each byte behind 0x"))
}

/// Time in SOURCE_DATE_EPOCH, if it is set.
pub(super) fn source_date_epoch() -> Result<Option<Timestamp>, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let seconds = seconds.ok_or_else(|| {
        Failure::new(
            "SOURCE_DATE_EPOCH is no number of seconds",
            "set it to seconds since 1970, or not at all",
        )
    })?;
    Ok(Some(Timestamp { seconds, nanoseconds: 0 }))
}

/// Current time of the host's clock.
pub(super) fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the edge: files get the time of the host")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanoseconds: since.subsec_nanos() }
}

impl EditArgs {
    fn run(&self, change: &Change<'_>) -> Outcome {
        self.image.refuse_keys("encrypted files are not changed, and others need no key")?;
        let options = EditOptions {
            selection: self.image.selection(),
            recover: self.recover,
            time: source_date_epoch()?.unwrap_or_else(now),
            output: self.output.as_deref().map(Path::to_owned),
            growth: match (self.lebs, self.grow) {
                (Some(lebs), _) => GrowTo::Lebs(lebs),
                (None, true) => GrowTo::Needed,
                (None, false) => GrowTo::Keep,
            },
        };
        let outcome = edit(self.image.file()?, &options, change);
        let (committed, edited) = outcome.map_err(|error| self.failed(&error))?;
        self.report(&committed, &edited)
    }

    fn failed(&self, error: &EditError) -> Failure {
        options::failure(&self.image.image, error)
    }

    fn report(&self, committed: &Committed, edited: &Edited) -> Outcome {
        let origin = self.image.origin(ResultKind::ImageEdit);
        self.format.print(&origin, &Report { committed, edited }, "", || {
            let entries = usize::try_from(edited.entries).unwrap_or(usize::MAX);
            let mut text = format!("{}: {} changed\n", committed.file, count(entries, "entry"));
            for Grown { what, unit, from, to } in &committed.grown {
                let to = count(usize::try_from(*to).unwrap_or(usize::MAX), unit);
                text += &format!("the {what} has grown from {from} to {to}\n");
            }
            text
        })?;
        if !self.format.is_for_programs() {
            print_losses(&edited.losses);
            options::print_write_back(committed.write_back, committed.file.as_ref());
        }
        Ok(if edited.losses.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

pub(super) fn print_losses(losses: &[Loss]) {
    for loss in losses.iter().take(LINES) {
        terminal::print_note(&format!("not kept: {loss}"));
    }
    if losses.len() > LINES {
        terminal::print_note(&format!("and {} more: --json lists all", losses.len() - LINES));
    }
}
