//! `floatgate image ls`.

use super::history;
use super::options::ImageArgs;
use super::show;
use crate::common::Outcome;
use crate::output::{ReportFormat, tell};
use floatgate_image::FileRow;
use floatgate_image::extract::{show_name, show_path};
use floatgate_image::walk::{Walk, WalkError};
use floatgate_stack::fs::{Attributes, Error, FileSystem, FileType};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image ls rootfs.ubi
  floatgate image ls rootfs.ubi /etc --recursive
  floatgate image ls rootfs.ubi --json
  floatgate image ls dump.bin --history --old
  floatgate image ls dump.bin /etc/fstab --history

--history lists the nodes of files that newer ones have replaced, too, and those of files that were removed: each can be had back with \
`floatgate image extract --at`. An image that a tool has built has none of them; flash that was written has what garbage collection has \
not erased.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// A directory or a file in the image
    #[arg(default_value = "/")]
    path: OsString,

    /// Directories below too
    #[arg(long, short, visible_short_alias = 'R')]
    recursive: bool,

    /// All nodes that are still there, those of old versions and removed files among them
    #[arg(long)]
    history: bool,

    /// With --history: only what no newer node has left in place
    #[arg(long, requires = "history")]
    old: bool,

    #[command(flatten)]
    format: ReportFormat,
}

/// A file that was listed.
struct Listed {
    path: String,
    attributes: Attributes,
    target: Option<Vec<u8>>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.history {
        return history::list(&args.image, args.path.as_bytes(), args.old, &args.format);
    }
    let mut fs = args.image.mount()?;
    let path = args.path.as_bytes();
    let inode = fs.resolve(path).map_err(|error| args.image.failed_at(path, error))?;
    let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    let base = parts.map(<[u8]>::to_vec).collect();
    let mut refused = Vec::new();
    let listed = list(&mut *fs, inode, base, args.recursive, &mut refused);
    let listed = listed.map_err(|error| args.image.failed(error))?;
    let files: Vec<FileRow> = listed.iter().map(Listed::json).collect();
    args.format.print(&files, "", || text(&listed))?;
    refused.iter().for_each(|why| tell(why));
    Ok(if refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Lists a file or a directory; with `recursive` all directories below, but for those in `refused`.
fn list(
    fs: &mut dyn FileSystem,
    inode: u32,
    base: Vec<Vec<u8>>,
    recursive: bool,
    refused: &mut Vec<String>,
) -> Result<Vec<Listed>, Error> {
    if fs.attributes(inode)?.file_type != FileType::Directory {
        return Ok(vec![listed(fs, &base, inode)?]);
    }
    let mut out = Vec::new();
    let mut walk = Walk::new(inode);
    while let Some(directory) = walk.next(fs) {
        match directory {
            Ok(directory) => {
                let mut path = [base.clone(), directory.path].concat();
                for entry in directory.entries {
                    path.push(entry.name);
                    out.push(listed(fs, &path, entry.inode)?);
                    path.pop();
                }
            }
            Err((_, WalkError::Unreadable(error))) => return Err(error),
            Err((path, error)) => {
                refused.push(format!("not listed: {}: {error}", show_path(&[base.clone(), path].concat())));
            }
        }
        if !recursive {
            break;
        }
    }
    Ok(out)
}

fn listed(fs: &mut dyn FileSystem, path: &[Vec<u8>], inode: u32) -> Result<Listed, Error> {
    let attributes = fs.attributes(inode)?;
    let readable = attributes.file_type == FileType::Symlink && !attributes.is_encrypted();
    let target = if readable { Some(fs.read_link(inode)?) } else { None };
    let path: Vec<String> = path.iter().map(|name| show_name(name)).collect();
    Ok(Listed { path: path.join("/"), attributes, target })
}

impl Listed {
    fn json(&self) -> FileRow {
        FileRow::new(self.path.clone(), &self.attributes, self.target.as_deref())
    }

    fn size(&self) -> String {
        match self.attributes.device {
            Some(device) => format!("{}, {}", device.major, device.minor),
            None => self.attributes.size.to_string(),
        }
    }
}

/// As `ls -l` shows them, times in UTC.
fn text(listed: &[Listed]) -> String {
    let width = |text: fn(&Listed) -> String| listed.iter().map(|file| text(file).len()).max().unwrap_or(0);
    let links = width(|file| file.attributes.links.to_string());
    let uid = width(|file| file.attributes.uid.to_string());
    let gid = width(|file| file.attributes.gid.to_string());
    let size = width(Listed::size);
    let mut text = String::new();
    for file in listed {
        let a = &file.attributes;
        let mode = show::mode_text(a);
        let arrow =
            file.target.as_ref().map(|target| format!(" -> {}", show_name(target))).unwrap_or_default();
        let date = show::date(a.mtime);
        let encrypted = if a.is_encrypted() { "  (encrypted)" } else { "" };
        let line = format!(
            "{mode} {:>links$} {:>uid$} {:>gid$} {:>size$} {date} {}{arrow}{encrypted}\n",
            a.links,
            a.uid,
            a.gid,
            file.size(),
            file.path
        );
        text.push_str(&line);
    }
    text
}
