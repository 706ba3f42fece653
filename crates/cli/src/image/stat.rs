//! `floatgate image stat`.

use super::options::ImageArgs;
use super::show;
use crate::common::{Outcome, count};
use crate::output::ReportFormat;
use floatgate_image::FileRow;
use floatgate_image::extract::show_name;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_stack::fs::{Attributes, FileFlags, FileType};
use serde::Serialize;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image stat rootfs.ubi /bin/busybox")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// File in the image
    path: OsString,

    #[command(flatten)]
    format: ReportFormat,
}

/// A file with all its properties.
#[derive(Serialize)]
struct Stat {
    #[serde(flatten)]
    file: FileRow,
    /// Compression of new data.
    compression: String,
    flags: Vec<&'static str>,
    /// Names and values of the extended attributes; bytes that are not text have the form `\xNN`.
    extended_attributes: Vec<[String; 2]>,
    /// Number of blocks of 4 KiB that hold data.
    data_blocks: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut fs = args.image.mount()?;
    let failed = |error| args.image.failed_at(args.path.as_bytes(), error);
    let inode = args.image.resolve(&mut *fs, args.path.as_bytes())?;
    let attributes = fs.attributes(inode).map_err(failed)?;
    let readable = attributes.file_type == FileType::Symlink && !attributes.is_encrypted();
    let target = if readable { Some(fs.read_link(inode).map_err(failed)?) } else { None };
    let mut extended_attributes = Vec::new();
    for name in fs.list_xattrs(inode).map_err(failed)? {
        let value = fs.get_xattr(inode, &name).map_err(failed)?;
        extended_attributes.push([show_name(&name), show_name(&value)]);
    }
    extended_attributes.sort();
    let data_blocks = fs.data_blocks(inode, 0, usize::MAX).map_err(failed)?.len() as u64;
    let stat = Stat {
        file: FileRow::new(show_name(args.path.as_bytes()), &attributes, target.as_deref()),
        compression: format!("{:?}", attributes.compression).to_lowercase(),
        flags: flag_names(attributes.flags),
        extended_attributes,
        data_blocks,
    };
    let origin = args.image.origin(ResultKind::ImageStat);
    if args.format.json {
        return args.format.finish(&origin, &members(&stat), "", String::new);
    }
    args.format.finish(&origin, &stat, "", || text(&stat, &attributes))
}

/// A list of properties has no conclusion.
impl Concluded for Stat {}
impl Concluded for Members {}

/// Members of the JSON. `target` is the image, and `link_target` is the target of a symbolic link.
#[derive(Serialize)]
struct Members(Map<String, Value>);

fn members(stat: &Stat) -> Members {
    let name = |key: String| if key == "target" { "link_target".to_owned() } else { key };
    let members = serde_json::to_value(stat).ok().and_then(|value| value.as_object().cloned());
    Members(members.into_iter().flatten().map(|(key, value)| (name(key), value)).collect())
}

fn flag_names(flags: FileFlags) -> Vec<&'static str> {
    let all = [
        (FileFlags::COMPRESS, "compress"),
        (FileFlags::SYNC, "sync"),
        (FileFlags::IMMUTABLE, "immutable"),
        (FileFlags::APPEND, "append-only"),
        (FileFlags::DIRSYNC, "dirsync"),
        (FileFlags::ENCRYPTED, "encrypted"),
    ];
    all.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| name).collect()
}

fn text(stat: &Stat, attributes: &Attributes) -> String {
    let file = &stat.file;
    let mut lines = vec![
        ("path", file.path.clone()),
        ("type", file.file_type.to_owned()),
        ("inode", format!("{}, {}", file.inode, count(file.links as usize, "link"))),
        ("size", format!("{} bytes in {}", file.size, count(stat.data_blocks as usize, "block"))),
        ("mode", format!("{:04o} {}", file.permissions, show::mode_text(attributes))),
        ("owner", format!("{} group {}", file.uid, file.gid)),
        ("read", show_time(attributes.atime)),
        ("modified", show_time(attributes.mtime)),
        ("changed", show_time(attributes.ctime)),
        ("compression", stat.compression.clone()),
        ("flags", stat.flags.join(", ")),
    ];
    if let Some([major, minor]) = file.device {
        lines.push(("device", format!("{major}, {minor}")));
    }
    if let Some(target) = &file.target {
        lines.push(("target", target.clone()));
    }
    for [name, value] in &stat.extended_attributes {
        lines.push(("attribute", format!("{name} = {value}")));
    }
    lines.into_iter().map(|(key, value)| format!("{key:<12} {value}\n")).collect()
}

fn show_time(time: floatgate_stack::fs::Timestamp) -> String {
    format!("{}.{:09} UTC", show::date(time), time.nanoseconds)
}
