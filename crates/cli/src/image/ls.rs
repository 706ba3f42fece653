//! `floatgate image ls`.

use super::options::ImageArgs;
use super::show::{self, FileJson};
use crate::common::{self, Failure, Outcome};
use floatgate_lab::image::FileUbifs;
use floatgate_lab::image::extract::show_name;
use floatgate_media::ubifs::FileType;
use floatgate_stack::ubifs::{Attributes, DirEntry};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image ls rootfs.ubi
  floatgate image ls rootfs.ubi /etc --recursive
  floatgate image ls rootfs.ubi --json")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// A directory or a file in the image
    #[arg(default_value = "/")]
    path: String,

    /// Directories below too
    #[arg(long, short)]
    recursive: bool,

    /// Machine-readable list (schema: docs/json.md)
    #[arg(long)]
    json: bool,
}

/// A file that was listed.
struct Listed {
    path: String,
    attributes: Attributes,
    target: Option<Vec<u8>>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut fs = args.image.mount()?;
    let inode = fs.resolve(args.path.as_bytes()).map_err(|error| args.image.failed(error))?;
    let base = args.path.trim_matches('/').to_owned();
    let listed = list(&mut fs, inode, base, args.recursive).map_err(|error| args.image.failed(error))?;
    if args.json {
        let files: Vec<FileJson> = listed.iter().map(Listed::json).collect();
        return common::print_json(&files);
    }
    print(&listed)?;
    Ok(ExitCode::SUCCESS)
}

fn list(
    fs: &mut FileUbifs,
    inode: u32,
    base: String,
    recursive: bool,
) -> Result<Vec<Listed>, floatgate_stack::ubifs::Error> {
    let attributes = fs.attributes(inode)?;
    if attributes.file_type != FileType::Directory {
        return Ok(vec![listed(fs, base, inode)?]);
    }
    let mut out = Vec::new();
    let mut pending = vec![(base, inode)];
    while let Some((path, directory)) = pending.pop() {
        let mut entries = fs.read_dir(directory, None, usize::MAX)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut below = Vec::new();
        for entry in entries {
            let path = join(&path, &entry);
            if recursive && entry.file_type == FileType::Directory {
                below.push((path.clone(), entry.inode));
            }
            out.push(listed(fs, path, entry.inode)?);
        }
        below.reverse();
        pending.append(&mut below);
    }
    Ok(out)
}

fn join(path: &str, entry: &DirEntry) -> String {
    let name = show_name(&entry.name);
    if path.is_empty() { name } else { format!("{path}/{name}") }
}

fn listed(fs: &mut FileUbifs, path: String, inode: u32) -> Result<Listed, floatgate_stack::ubifs::Error> {
    let attributes = fs.attributes(inode)?;
    let readable = attributes.file_type == FileType::Symlink && !attributes.is_encrypted();
    let target = if readable { Some(fs.read_link(inode)?) } else { None };
    Ok(Listed { path, attributes, target })
}

impl Listed {
    fn json(&self) -> FileJson {
        FileJson::new(self.path.clone(), &self.attributes, self.target.as_deref())
    }

    fn size(&self) -> String {
        match self.attributes.device {
            Some(device) => format!("{}, {}", device.major, device.minor),
            None => self.attributes.size.to_string(),
        }
    }
}

/// As `ls -l` shows them, times in UTC.
fn print(listed: &[Listed]) -> Result<(), Failure> {
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
    common::print(&text);
    Ok(())
}
