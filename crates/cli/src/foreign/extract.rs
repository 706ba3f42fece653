//! Programs that read images: the programs of ubi_reader, and jefferson.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::Run;
use crate::common::{Failure, Outcome};
use crate::image;
use crate::output;
use crate::terminal::print_note;
use floatgate_image::extract::{
    Contents, DirectoryTarget, Entry, ExtractLimits, Extractions, Target, show_name,
};
use floatgate_image::info::{OneImage, OneVolume, UbiInfo, selected_info};
use floatgate_image::raw::read_raw;
use floatgate_image::{Access, FlashSizes, Image, ImageError, Selection};
use floatgate_mtd::advice::Help as _;
use floatgate_stack::fs::{Attributes, FileType};
use floatgate_stack::ubifs::Behaviour;

/// Folder into which ubi_reader extracts by default.
const UBIREADER_ROOT: &str = "ubifs-root";

/// Options that ubi_reader's programs share.
#[derive(clap::Args)]
struct Reader {
    /// Print extraction information to screen
    #[arg(short, long)]
    log: bool,

    /// Print detailed information to screen
    #[arg(short, long)]
    verbose_log: bool,

    /// PEB size
    #[arg(short, long, visible_short_alias = 'e', visible_alias = "leb-size")]
    peb_size: Option<u32>,

    /// Byte of the file at which UBI or UBIFS data begin
    #[arg(short, long)]
    start_offset: Option<u64>,

    /// Byte of the file at which UBI or UBIFS data end
    #[arg(short = 'n', long)]
    end_offset: Option<u64>,

    /// Byte of the file at which the search for UBI or UBIFS data begins
    #[arg(short, long)]
    guess_offset: Option<u64>,

    /// Exit with status 0 also if blocks cannot be read
    #[arg(short, long)]
    warn_only_block_read_errors: bool,

    /// No effect, accepted for compatibility: blocks with damaged headers are read if possible
    #[arg(short, long)]
    ignore_block_header_errors: bool,

    /// No effect, accepted for compatibility: blocks with the image sequence number 0 belong to the image
    #[arg(short = 'f', long = "u-boot-fix")]
    u_boot_fix: bool,

    /// File with the image, a UBI device or a bare UBIFS
    filepath: PathBuf,
}

impl Reader {
    /// Opens the file, and finds the images that the options select.
    fn open(&self) -> Result<(Image, Vec<OneImage>), Failure> {
        let failed = |error: ImageError| image::failure(&self.filepath, &error);
        let image = Image::open_sized(&self.filepath, Access::Read, FlashSizes::default());
        let image = image.map_err(|error| not_found(&self.filepath, "UBI", &error))?;
        let all = selected_info(&image, &Selection::default()).map_err(failed)?.images;
        let first = self.start_offset.or(self.guess_offset).unwrap_or(0);
        let end = self.end_offset.unwrap_or(u64::MAX);
        let is_meant =
            |one: &OneImage| (one.ubi.is_some() || one.ubifs.is_some()) && (first..end).contains(&one.offset);
        let images: Vec<OneImage> = all.into_iter().filter(is_meant).collect();
        if images.is_empty() {
            return Err(not_found(&self.filepath, "UBI", &ImageError::Nothing));
        }
        if let (Some(wanted), Some(ubi)) = (self.peb_size, images.iter().find_map(|one| one.ubi.as_ref()))
            && wanted != ubi.peb_bytes
        {
            let message = format!("the PEBs have {} bytes, not {wanted}", ubi.peb_bytes);
            return Err(Failure::new(message, "leave --peb-size out"));
        }
        Ok((image, images))
    }

    const fn says_more(&self) -> bool {
        self.log || self.verbose_log
    }

    /// Exit status after an extraction.
    fn status(&self, is_whole: bool) -> Outcome {
        Ok(ExitCode::from(u8::from(!is_whole && !self.warn_only_block_read_errors)))
    }
}

/// Failure for a file without an image of the wanted format, with the format that it holds instead.
fn not_found(path: &Path, wanted: &str, error: &ImageError) -> Failure {
    let opened = Image::open_sized(path, Access::Read, FlashSizes::default()).ok();
    let info = opened.and_then(|opened| selected_info(&opened, &Selection::default()).ok());
    let one = info.iter().flat_map(|info| &info.images).next();
    let kind = one.map(|one| match (&one.tree, &one.jffs2) {
        (Some(tree), _) => tree.kind.name(),
        (None, Some(_)) => "JFFS2",
        (None, None) if one.bare => "UBIFS",
        (None, None) => "UBI",
    });
    match kind.filter(|kind| *kind != wanted) {
        Some(kind) => Failure::new(
            format!("{}: the image is {kind}, and not {wanted}", path.display()),
            "`floatgate image extract` extracts it",
        ),
        None => image::failure(path, error),
    }
}

/// Selection of a volume of an image.
fn volume_of(one: &OneImage, volume: &OneVolume) -> Selection {
    Selection { offset: Some(one.offset), volume: Some(volume.id.to_string()), ..Selection::default() }
}

/// Path of a folder for a volume, whose name comes from the image.
fn below(folder: &Path, volume: &OneVolume) -> PathBuf {
    let is_plain = !matches!(volume.name.as_str(), "" | "." | "..") && !volume.name.contains('/');
    folder.join(if is_plain { volume.name.clone() } else { format!("volume-{}", volume.id) })
}

fn failed_at(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "name a folder that can be written")
}

/// Creates a folder; an existing folder must be empty.
fn empty_folder(path: &Path) -> Result<(), Failure> {
    DirectoryTarget::check_empty(path).map_err(|_| {
        let message = format!("Output directory is not empty. {}", path.display());
        Failure::new(message, "name another folder with -o")
    })?;
    std::fs::create_dir_all(path).map_err(|error| failed_at(path, &error))
}

/// Extract the contents of a UBI or UBIFS image.
#[derive(clap::Parser)]
#[command(about)]
pub(super) struct ExtractFiles {
    #[command(flatten)]
    reader: Reader,

    /// Keep file permissions and owners, which requires root
    #[arg(short, long)]
    keep_permissions: bool,

    /// Restore extended attributes and permissions, which requires root
    #[arg(short = 'x', long)]
    preserve_xattr: bool,

    /// Folder for the files [default: ubifs-root]
    #[arg(short, long)]
    output_dir: Option<PathBuf>,
}

impl ExtractFiles {
    /// Extracts a filesystem into a folder; true if all of it was restored.
    fn extract(&self, image: &Image, selection: &Selection, folder: &Path) -> Result<bool, Failure> {
        let failed = |error: ImageError| image::failure(&self.reader.filepath, &error);
        let extraction = Extractions::open(image, selection).map_err(failed)?;
        println_out(&format!("Extracting files to: {}", folder.display()))?;
        let has_permissions = self.keep_permissions || self.preserve_xattr;
        let directory = DirectoryTarget::new(folder, has_permissions);
        let mut directory = directory.map_err(|error| failed_at(folder, &error))?;
        let mut plain = Plain { target: &mut directory, modes: has_permissions, xattrs: self.preserve_xattr };
        let extracted = extraction.run(&mut plain, &ExtractLimits::default(), &|_| {});
        let extracted = extracted.map_err(|error| Failure::new(&error, error.help()))?;
        for loss in &extracted.losses {
            print_note(&format!("extract_files Warn: {loss}"));
        }
        if self.reader.says_more() {
            print_note(&format!("{} entries, {} bytes", extracted.entries, extracted.bytes));
        }
        Ok(extracted.losses.is_empty())
    }

    fn volumes(&self, image: &Image, one: &OneImage, ubi: &UbiInfo, root: &Path) -> Result<bool, Failure> {
        let mut is_whole = true;
        for volume in &ubi.volumes {
            let folder = below(&root.join(ubi.image_seq.to_string()), volume);
            empty_folder(&folder)?;
            let selection = volume_of(one, volume);
            if image.mount(&selection, true, Behaviour::default()).is_ok() || volume.ubifs.is_some() {
                is_whole &= self.extract(image, &selection, &folder)?;
            } else if is_damaged(image, &selection) {
                // The result of an extraction that continues after damage shows whether the volume has files. The
                // other volumes do not depend on it.
                match self.extract(image, &selection, &folder) {
                    Ok(is_all) => is_whole &= is_all,
                    Err(failure) => {
                        let _ = failure.report();
                        is_whole = false;
                    }
                }
            } else {
                print_note(&format!(
                    "extract_files Error: volume {}: no filesystem",
                    show_name(volume.name.as_bytes())
                ));
            }
        }
        Ok(is_whole)
    }
}

impl Run for ExtractFiles {
    fn run(&self) -> Outcome {
        let (image, images) = self.reader.open()?;
        let root = self.output_dir.clone().unwrap_or_else(|| PathBuf::from(UBIREADER_ROOT));
        let mut is_whole = true;
        for one in &images {
            is_whole &= if let Some(ubi) = &one.ubi {
                self.volumes(&image, one, ubi, &root)?
            } else {
                empty_folder(&root)?;
                let selection = Selection { offset: Some(one.offset), ..Selection::default() };
                self.extract(&image, &selection, &root)?
            };
        }
        self.reader.status(is_whole)
    }
}

/// True if bytes of a volume are lost.
fn is_damaged(image: &Image, selection: &Selection) -> bool {
    read_raw(image, selection, &mut io::sink()).map_or(true, |raw| !raw.damaged_lebs.is_empty())
}

fn println_out(line: &str) -> Result<(), Failure> {
    output::print(line)
}

/// Target that writes files without permissions and extended attributes, as ubi_reader does.
struct Plain<'t> {
    target: &'t mut dyn Target,
    modes: bool,
    xattrs: bool,
}

impl Plain<'_> {
    fn attributes(&self, of: &Attributes) -> Attributes {
        let permissions = match of.file_type {
            _ if self.modes => of.mode & 0o7777,
            FileType::Directory => 0o755,
            _ => 0o644,
        };
        Attributes { mode: of.mode & !0o7777 | permissions, ..of.clone() }
    }
}

/// Calls a method of the target with plain attributes.
macro_rules! plainly {
    ($self:ident, $entry:ident, $method:ident $(, $more:expr)?) => {{
        let attributes = $self.attributes($entry.attributes);
        let xattrs = if $self.xattrs { $entry.xattrs } else { &[] };
        $self.target.$method(&Entry { attributes: &attributes, xattrs, ..$entry.clone() } $(, $more)?)
    }};
}

impl Target for Plain<'_> {
    fn enter(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        plainly!(self, entry, enter)
    }

    fn leave(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        plainly!(self, entry, leave)
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        plainly!(self, entry, file, contents)
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        plainly!(self, entry, special)
    }

    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        plainly!(self, entry, link, first)
    }
}

/// Extract UBI or UBIFS images from a file with UBI data in it.
#[derive(clap::Parser)]
#[command(about)]
pub(super) struct ExtractImages {
    #[command(flatten)]
    reader: Reader,

    /// Type of the images: UBI or UBIFS
    #[arg(short = 'u', long, default_value = "UBIFS", ignore_case = true, value_parser = ["UBI", "UBIFS"])]
    image_type: String,

    /// Folder in which a folder with the name of the file is created [default: ubifs-root]
    #[arg(short, long)]
    output_dir: Option<PathBuf>,
}

impl ExtractImages {
    fn write(&self, image: &Image, selection: &Selection, path: &Path) -> Result<bool, Failure> {
        let file = File::create_new(path).map_err(|error| failed_at(path, &error))?;
        let raw = read_raw(image, selection, &mut BufWriter::new(file));
        let raw = raw.map_err(|error| image::failure(&self.reader.filepath, &error))?;
        for lnum in &raw.damaged_lebs {
            print_note(&format!("extract_images Warn: LEB {lnum} is damaged or missing"));
        }
        Ok(raw.damaged_lebs.is_empty())
    }

    fn whole(&self, one: &OneImage, path: &Path) -> Result<bool, Failure> {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let failed = |error: io::Error| failed_at(path, &error);
        let mut from = File::open(&self.reader.filepath).map_err(failed)?;
        from.seek(SeekFrom::Start(one.offset)).map_err(failed)?;
        let mut to = File::create_new(path).map_err(failed)?;
        io::copy(&mut from.take(one.len), &mut to).map_err(failed)?;
        Ok(true)
    }
}

impl Run for ExtractImages {
    fn run(&self) -> Outcome {
        let (image, images) = self.reader.open()?;
        let root = self.output_dir.clone().unwrap_or_else(|| PathBuf::from(UBIREADER_ROOT));
        let root = root.join(self.reader.filepath.file_name().unwrap_or_default());
        empty_folder(&root)?;
        let mut is_whole = true;
        for one in &images {
            let Some(ubi) = &one.ubi else { continue };
            let seq = ubi.image_seq;
            if self.image_type.eq_ignore_ascii_case("UBI") {
                is_whole &= self.whole(one, &root.join(format!("img-{seq}.ubi")))?;
                continue;
            }
            for volume in &ubi.volumes {
                let name = below(Path::new(""), volume);
                let path = root.join(format!("img-{seq}_vol-{}.ubifs", name.display()));
                is_whole &= self.write(&image, &volume_of(one, volume), &path)?;
            }
        }
        self.reader.status(is_whole)
    }
}

/// Show information about a UBI or UBIFS image.
#[derive(clap::Parser)]
#[command(about)]
pub(super) struct DisplayInfo {
    #[command(flatten)]
    reader: Reader,

    /// Show the UBIFS inside a UBI image
    #[arg(short, long)]
    ubifs_info: bool,
}

impl Run for DisplayInfo {
    fn run(&self) -> Outcome {
        let (_, images) = self.reader.open()?;
        let mut text = String::new();
        for one in &images {
            if let Some(ubi) = &one.ubi {
                text.push_str(&display_ubi(ubi, self.ubifs_info));
            }
            if one.ubi.is_none() {
                text.push_str(&one.to_string());
            }
        }
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Text about a UBI device, with the labels of ubi_reader.
fn display_ubi(ubi: &UbiInfo, is_ubifs: bool) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let rule = "---------------------";
    if is_ubifs {
        for volume in ubi.volumes.iter().filter(|volume| volume.ubifs.is_some()) {
            let _ = writeln!(text, "UBIFS Image: {}\n{rule}", show_name(volume.name.as_bytes()));
            if let Some(ubifs) = &volume.ubifs {
                let _ = writeln!(text, "\tLEB Size: {}\n\tLEB Count: {}", ubifs.leb_bytes, ubifs.lebs);
                let _ = writeln!(text, "\tCompression: {}", ubifs.compression);
            }
        }
        return text;
    }
    let _ = writeln!(text, "UBI File\n{rule}\n\tMin I/O: {}", ubi.min_io_bytes);
    let _ = writeln!(text, "\tLEB Size: {}\n\tPEB Size: {}", ubi.leb_bytes, ubi.peb_bytes);
    let _ = writeln!(text, "\tTotal Block Count: {}", ubi.pebs);
    let data: u32 = ubi.volumes.iter().map(|volume| volume.mapped_lebs).sum();
    let _ = writeln!(text, "\tData Block Count: {data}\n");
    let _ = writeln!(text, "\tImage Sequence Num: {}", ubi.image_seq);
    for volume in &ubi.volumes {
        let _ = writeln!(text, "\t\tVol ID: {}", volume.id);
        let _ = writeln!(text, "\t\tName: {}", show_name(volume.name.as_bytes()));
        let _ = writeln!(text, "\t\tBlock Count: {}", volume.mapped_lebs);
        let kind = if volume.is_static { "static" } else { "dynamic" };
        let _ = writeln!(text, "\t\tvol_type: {kind}\n\t\treserved_pebs: {}", volume.lebs);
    }
    text
}

/// A tool to extract JFFS2 filesystems.
#[derive(clap::Parser)]
#[command(about)]
pub(super) struct Jefferson {
    /// File with the JFFS2 image
    file: PathBuf,

    /// Folder for the files, which is created
    #[arg(short, long, default_value = "jffs2-root")]
    dest: PathBuf,

    /// Extract even if the folder exists; files in it that have the name of an extracted file are removed
    #[arg(short, long)]
    force: bool,

    /// Print details
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Run for Jefferson {
    fn run(&self) -> Outcome {
        let failed = |error: ImageError| image::failure(&self.file, &error);
        if self.dest.exists() && !self.force {
            output::print("Destination path already exists!")?;
            // Exit status of Python's exit(-1).
            return Ok(ExitCode::from(255));
        }
        let image = Image::open_sized(&self.file, Access::Read, FlashSizes::default());
        let image = image.map_err(|error| not_found(&self.file, "JFFS2", &error))?;
        let info = selected_info(&image, &Selection::default()).map_err(failed)?;
        let first = info.images.iter().find(|one| one.jffs2.is_some());
        let one = first.ok_or_else(|| not_found(&self.file, "JFFS2", &ImageError::Nothing))?;
        let endian = match &one.jffs2 {
            Some(jffs2) if jffs2.shape.big_endian => '>',
            _ => '<',
        };
        let selection = Selection { offset: Some(one.offset), ..Selection::default() };
        let extraction = Extractions::open(&image, &selection).map_err(failed)?;
        if self.dest.exists() {
            let mut fs = image.mount(&selection, true, Behaviour::default()).map_err(failed)?;
            let root = fs.root();
            let (names, _) = fs.readable_entries(root).map_err(|error| failed(error.into()))?;
            for name in names {
                remove(&self.dest, &name.name).map_err(|error| failed_at(&self.dest, &error))?;
            }
        }
        output::print(&format!("dumping fs to {} (endianness: {endian})", self.dest.display()))?;
        let mut target =
            DirectoryTarget::new(&self.dest, false).map_err(|error| failed_at(&self.dest, &error))?;
        let extracted = extraction.run(&mut target, &ExtractLimits::default(), &|_| {});
        let extracted = extracted.map_err(|error| Failure::new(&error, error.help()))?;
        for loss in &extracted.losses {
            print_note(&loss.to_string());
        }
        if self.verbose > 0 {
            print_note(&format!("{} entries, {} bytes", extracted.entries, extracted.bytes));
        }
        // The exit status of jefferson is 0 even if files are damaged.
        Ok(ExitCode::SUCCESS)
    }
}

/// Removes an entry of a folder whose name comes from the image, so that it can be written again. The extraction
/// reports a name that is not valid in a folder.
fn remove(folder: &Path, name: &[u8]) -> io::Result<()> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
        return Ok(());
    }
    let path = folder.join(OsStr::from_bytes(name));
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
