//! `floatgate image dump`.

use super::options::{self, ImageArgs};
use super::sizes;
use crate::common::{Failure, Outcome};
use crate::output::ReportFormat;
use clap::ValueEnum;
use floatgate_image::Access;
use floatgate_image::dump::{Area, DumpTarget, Dumped, dump};
use floatgate_lab::report::ResultKind;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image dump rootfs.ubi --path /etc/fstab
  floatgate image dump rootfs.ubi --path /etc/fstab --block 0 --hex
  floatgate image dump rootfs.ubi --inode 65
  floatgate image dump dump.bin --leb 0:0
  floatgate image dump dump.bin --at 0x20000
  floatgate image dump dump.bin --peb 0
  floatgate image dump dump.bin --area master
  floatgate image dump rootfs.jffs2 --nodes

Prints each field with its offset in the structure. The names of the fields are those in docs/spec/ubi.md, docs/spec/ubifs.md and docs/spec/jffs2.md. Damaged \
images can also be dumped. A JFFS2 has no LEBs and no areas: use `--at`, `--peb`, `--inode`, `--path` and `--nodes` for its nodes.")]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// UBI and UBIFS: show the node at a byte of a LEB, such as 12:2048
    #[arg(long, value_name = "LEB:BYTE", group = "what", value_parser = leb_and_byte)]
    leb: Option<(u32, u32)>,

    /// Show the header or node at a byte of the file
    #[arg(long, value_name = "BYTE", group = "what", value_parser = sizes::bytes)]
    at: Option<u64>,

    /// Show both headers of a PEB, or the nodes of an eraseblock of a JFFS2
    #[arg(long, value_name = "N", group = "what")]
    peb: Option<u32>,

    /// Show the node of an inode; in a JFFS2, all its nodes
    #[arg(long, value_name = "N", group = "what")]
    inode: Option<u32>,

    /// Show the node of a file's inode
    #[arg(long, value_name = "PATH", group = "what", allow_hyphen_values = true)]
    path: Option<OsString>,

    /// UBIFS: show all nodes of an area
    #[arg(long, value_name = "AREA", group = "what")]
    area: Option<AreaName>,

    /// JFFS2: list the nodes, one per line
    #[arg(long, group = "what")]
    nodes: bool,

    /// With --inode or --path: show the data node of this block of 4096 bytes of the file
    #[arg(long, value_name = "N", conflicts_with_all = ["leb", "at", "peb", "area", "nodes"])]
    block: Option<u32>,

    /// With --path: show the directory entry
    #[arg(long, requires = "path", conflicts_with = "block")]
    entry: bool,

    /// Also show the bytes after the fields: data, targets, values
    #[arg(long)]
    hex: bool,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum AreaName {
    /// The superblock node, with the properties of the filesystem
    Superblock,
    /// All master nodes, in both LEBs
    Master,
    /// The log: references to the buds of the journal, and commit starts
    Log,
    /// The orphan area
    Orphans,
    /// The root of the index
    Index,
}

/// Number of bytes in a line of hexadecimal digits.
const LINE: usize = 32;

fn leb_and_byte(text: &str) -> Result<(u32, u32), String> {
    let (leb, byte) = text.split_once(':').unwrap_or((text, "0"));
    Ok((sizes::bytes32(leb)?, sizes::bytes32(byte)?))
}

pub(crate) fn run(args: &Args) -> Outcome {
    args.image.refuse_keys("nodes are printed as they are stored")?;
    let wanted = args.wanted()?;
    let image = args.image.open(Access::Read)?;
    let dumped = dump(&image, &args.image.selection(), &wanted);
    let mut dumped = dumped.map_err(|error| options::failure(&args.image.image, &error))?;
    if !args.hex {
        dumped.iter_mut().for_each(|dumped| dumped.payload.clear());
    }
    let show = if args.nodes { line } else { text };
    args.format.print_rows(&args.image.origin(ResultKind::ImageDump), &dumped, || {
        dumped.iter().map(show).collect()
    })?;
    let damaged = dumped.iter().any(|dumped| dumped.damage.is_some());
    Ok(if damaged { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

impl Args {
    fn wanted(&self) -> Result<DumpTarget, Failure> {
        let by_place = self.leb.map(|(lnum, offset)| DumpTarget::Leb { lnum, offset });
        let by_inode = self.inode.map(|inode| DumpTarget::Inode { inode, block: self.block });
        let by_path = self.path.as_ref().map(|path| DumpTarget::Path {
            path: path.as_bytes().to_vec(),
            block: self.block,
            entry: self.entry,
        });
        let by_area = self.area.map(|area| DumpTarget::Area(area.into()));
        let wanted = by_place.or(self.at.map(DumpTarget::At)).or(self.peb.map(DumpTarget::Peb));
        let wanted = wanted.or(self.nodes.then_some(DumpTarget::Nodes)).or(by_inode).or(by_path).or(by_area);
        wanted.ok_or_else(|| Failure::new("nothing to dump", "name a place: see --help"))
    }
}

impl From<AreaName> for Area {
    fn from(name: AreaName) -> Self {
        match name {
            AreaName::Superblock => Self::Superblock,
            AreaName::Master => Self::Master,
            AreaName::Log => Self::Log,
            AreaName::Orphans => Self::Orphans,
            AreaName::Index => Self::Index,
        }
    }
}

fn line(dumped: &Dumped) -> String {
    format!("{}\n", dumped.line)
}

fn text(dumped: &Dumped) -> String {
    let mut text = dumped.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let digits = dumped.payload.as_bytes();
    let start = dumped.len.saturating_sub(digits.len() / 2);
    for (index, line) in digits.chunks(2 * LINE).enumerate() {
        text += &format!("  {:>4}  {}\n", start + index * LINE, String::from_utf8_lossy(line));
    }
    text
}
