//! Requests on dumps: `floatgate image` for files that the user has chosen.

use crate::{Answer, Failure, Page, json};
use floatgate_files::File;
use floatgate_files::memory::{Piece, name_blob, pieces, remove_file};
use floatgate_host::output::Output;
use floatgate_image::check::check;
use floatgate_image::extract::{
    ExtractError, ExtractLimits, Extracted, Extractions, TarTarget, Target, ZipTarget, extract_part,
    has_reader,
};
use floatgate_image::info::{ImageInfo, selected_info};
use floatgate_image::list::{Listed, list};
use floatgate_image::map::map;
use floatgate_image::repair::repair;
use floatgate_image::words::show_path;
use floatgate_image::{Access, FileRow, FlashSizes, Image, ImageError, ImageFs, PageSizes, Selection};
use floatgate_stack::ubifs::Behaviour;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Size of the pieces in which a file of an image is read, bytes.
const PIECE: usize = 256 << 10;

/// Number of bytes between two progress messages.
const PROGRESS: u64 = 1 << 20;

/// Maximum total size of the files in an archive, holes included, in bytes. Larger archives do not fit into the memory of a browser.
const ARCHIVE_MAX: u64 = 4 << 30;

/// Buffer size of the archive writer, in bytes.
const ARCHIVE_BUFFER: usize = 256 << 10;

/// Selection of an image in a dump, with the sizes of its flash: the options of `floatgate image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Selected {
    path: PathBuf,
    offset: Option<u64>,
    volume: Option<String>,
    peb_size: Option<u32>,
    page_size: Option<u32>,
    oob_size: Option<u32>,
    block_pages: Option<u32>,
}

impl Selected {
    fn sizes(&self) -> FlashSizes {
        let pages = PageSizes {
            page_bytes: self.page_size,
            oob_bytes: self.oob_size,
            pages_per_block: self.block_pages,
        };
        FlashSizes { peb_bytes: self.peb_size, pages }
    }

    fn selection(&self) -> Selection {
        let FlashSizes { peb_bytes, pages } = self.sizes();
        Selection {
            offset: self.offset,
            volume: self.volume.clone(),
            peb_bytes,
            pages,
            ..Selection::default()
        }
    }
}

/// Format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Archive {
    Tar,
    Zip,
}

/// A request on a dump.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Assigns a path to a file that the user has chosen.
    Open { path: PathBuf, blob: u32, len: u64 },
    /// Removes the path of a file.
    Close { path: PathBuf },
    /// Result of `floatgate image map`.
    Map { of: Selected },
    /// Result of `floatgate image info`.
    Info { of: Selected },
    /// Result of `floatgate image ls`.
    Ls { of: Selected, folder: String },
    /// Contents of a file in the image: at most `most` bytes from its beginning.
    Cat { of: Selected, file: String, most: Option<u64> },
    /// Result of `floatgate image check`.
    Check { of: Selected },
    /// Writes an archive of the files, like `floatgate image extract`; with `part`, of the files of that part of the
    /// map.
    Extract { of: Selected, archive: Archive, out: PathBuf, part: Option<usize> },
    /// Writes a repaired image, like `floatgate image check --repair`.
    Repair { of: Selected, out: PathBuf },
    /// Returns a range of the dump, such as a part of the map.
    Part { of: Selected, offset: u64, len: u64 },
    /// Returns the contents of a file that an earlier request has written.
    File { path: PathBuf },
}

/// The dump that was opened last, and the filesystem that is mounted from it.
#[derive(Default)]
struct Opened {
    of: Selected,
    /// The dump, opened by [`Image::open_sized`], which fails if no image is found.
    image: Option<Image>,
    /// The dump, opened by [`Image::open_any`], which also succeeds if it contains no image.
    any: Option<Image>,
    fs: Option<ImageFs>,
}

thread_local! {
    static OPENED: RefCell<Opened> = RefCell::default();
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        Self::with_help(&error)
    }
}

impl From<ExtractError> for Failure {
    fn from(error: ExtractError) -> Self {
        Self::with_help(&error)
    }
}

impl Opened {
    /// Opens another dump, or the same one with other sizes.
    fn choose(&mut self, of: &Selected) {
        if self.of.path != of.path || self.of.sizes() != of.sizes() {
            *self = Self::default();
        }
        if self.of != *of {
            self.fs = None;
            self.of = of.clone();
        }
    }

    fn image(&mut self) -> Result<&Image, ImageError> {
        match &mut self.image {
            Some(image) => Ok(image),
            none => Ok(none.insert(Image::open_sized(&self.of.path, Access::Read, self.of.sizes())?)),
        }
    }

    fn any(&mut self) -> Result<&Image, ImageError> {
        match &mut self.any {
            Some(image) => Ok(image),
            none => Ok(none.insert(Image::open_any(&self.of.path, self.of.sizes())?)),
        }
    }

    fn fs(&mut self) -> Result<&mut ImageFs, ImageError> {
        if self.fs.is_none() {
            let selection = self.of.selection();
            self.fs = Some(self.image()?.mount(&selection, true, Behaviour::default())?);
        }
        self.fs.as_mut().ok_or_else(|| ImageError::File(std::io::ErrorKind::NotFound.into()))
    }
}

/// An entry that is not listed.
#[derive(Serialize)]
struct Refused {
    path: String,
    why: String,
}

/// A report, with the exit status of the command.
#[derive(Serialize)]
struct Reported<'r, R> {
    status: u8,
    /// Text of the report for users; `None` if the library has no such text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    report: &'r R,
}

fn reported<R: Serialize>(status: u8, report: &R) -> Answer {
    json(&Reported { status, text: None, report })
}

pub(crate) fn answer(request: Request, page: &mut dyn Page) -> Answer {
    OPENED.with_borrow_mut(|opened| {
        match &request {
            Request::Map { of }
            | Request::Info { of }
            | Request::Ls { of, .. }
            | Request::Cat { of, .. }
            | Request::Check { of }
            | Request::Extract { of, .. }
            | Request::Repair { of, .. }
            | Request::Part { of, .. } => opened.choose(of),
            Request::Open { .. } | Request::Close { .. } | Request::File { .. } => {}
        }
        answer_on(opened, request, page)
    })
}

fn answer_on(opened: &mut Opened, request: Request, page: &mut dyn Page) -> Answer {
    match request {
        Request::Open { path, blob, len } => {
            *opened = Opened::default();
            name_blob(&path, blob, len);
            json(&())
        }
        Request::Close { path } => {
            *opened = Opened::default();
            json(&remove_file(&path).is_ok())
        }
        Request::Map { .. } => mapped(opened.any()?),
        Request::Info { of } => {
            let info = match opened.image() {
                Err(ImageError::Blank(0xFF)) => ImageInfo::erased(),
                image => selected_info(image?, &of.selection())?,
            };
            let text = Some(info.to_string());
            json(&Reported { status: u8::from(info.is_uncorrected), text, report: &info })
        }
        Request::Ls { folder, .. } => ls(opened.fs()?, &folder),
        Request::Cat { file, most, .. } => cat(opened.fs()?, &file, most, page),
        Request::Check { of } => {
            let report = check(opened.image()?, &of.selection())?;
            reported(report.status().code(), &report)
        }
        Request::Extract { of, archive, out, part } => {
            let from = match part {
                Some(number) => Origin::Part(opened.any()?.clone(), number),
                None => Origin::Image(opened.image()?.clone()),
            };
            extract(from, &of, archive, &out, page)
        }
        Request::Repair { of, out } => {
            // The repair opens the file again.
            *opened = Opened::default();
            let report = repair(&of.path, &out, &of.selection())?;
            reported(report.status().code(), &report)
        }
        Request::Part { offset, len, .. } => part(opened.any()?, offset, len, page),
        Request::File { path } => file(&path, page),
    }
}

/// The map, its conclusion, and the numbers of the parts whose files can be extracted.
fn mapped(image: &Image) -> Answer {
    #[derive(Serialize)]
    struct Mapped {
        #[serde(flatten)]
        reported: Value,
        readable: Vec<usize>,
    }
    let map = map(image)?;
    let parts = map.parts.iter().enumerate();
    let readable = parts.filter(|(_, part)| has_reader(part)).map(|(number, _)| number).collect();
    let status = u8::from(map.damaged() > 0);
    let reported = json(&Reported { status, text: Some(map.to_string()), report: &map })?;
    json(&Mapped { reported, readable })
}

/// Bytes of a path from a listing, in which `\xNN` stands for a byte that is not valid text.
pub(crate) fn bytes_of(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = path;
    while let Some(at) = rest.find("\\x") {
        let code = rest.get(at + 2..at + 4).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (front, behind) = rest.split_at(if code.is_some() { at } else { at + 2 });
        bytes.extend_from_slice(front.as_bytes());
        bytes.extend(code);
        rest = if code.is_some() { &behind[4..] } else { behind };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Converts an error at a path in the image to a failure.
fn at_path(path: &str) -> impl FnOnce(floatgate_stack::fs::Error) -> Failure + '_ {
    move |error| {
        let failure = Failure::from(ImageError::from(error));
        Failure { message: format!("{path}: {}", failure.message), ..failure }
    }
}

fn ls(fs: &mut ImageFs, folder: &str) -> Answer {
    #[derive(Serialize)]
    struct Rows {
        rows: Vec<FileRow>,
        refused: Vec<Refused>,
    }
    let listing = list(&mut **fs, &bytes_of(folder), false).map_err(at_path(folder))?;
    let refused = |(path, why): &(Vec<Vec<u8>>, _)| {
        let why: &floatgate_image::walk::WalkError = why;
        Refused { path: show_path(path), why: why.to_string() }
    };
    let rows = listing.files.iter().map(Listed::row).collect();
    json(&Rows { rows, refused: listing.refused.iter().map(refused).collect() })
}

/// Passes the contents of a file to the page, and answers with its size.
fn cat(fs: &mut ImageFs, file: &str, most: Option<u64>, page: &mut dyn Page) -> Answer {
    let failed = || at_path(file);
    let inode = fs.resolve(&bytes_of(file)).map_err(failed())?;
    let size = fs.attributes(inode).map_err(failed())?.size;
    let end = most.map_or(size, |most| most.min(size));
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < end {
        let room = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let len = fs.read(inode, at, &mut piece[..room]).map_err(failed())?;
        if len == 0 {
            break;
        }
        page.bytes(&piece[..len]);
        at += len as u64;
    }
    json(&size)
}

/// Origin of the files of an archive.
enum Origin {
    /// One image, which the options select in the dump.
    Image(Image),
    /// A part of a map, whose format has a reader.
    Part(Image, usize),
}

impl Origin {
    fn run(
        self,
        of: &Selected,
        target: &mut dyn Target,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, Failure> {
        let limits = ExtractLimits { bytes: ARCHIVE_MAX, ..ExtractLimits::default() };
        match self {
            Self::Image(image) => {
                let extractions = Extractions::open(&image, &of.selection())?;
                Ok(extractions.run(target, &limits, progress)?)
            }
            Self::Part(image, number) => {
                let map = map(&image)?;
                let part = map.parts.get(number);
                let extracted =
                    part.map(|part| extract_part(&image, part, target, &limits, progress)).transpose()?;
                extracted.flatten().ok_or_else(|| Failure::new("no files can be read in this part"))
            }
        }
    }

    /// True if the code of the dump is unknown, so that wrong bits in the files were not corrected.
    fn is_uncorrected(&self, of: &Selected) -> bool {
        matches!(self, Self::Image(image) if image.has_unknown_code(&of.selection()))
    }
}

fn extract(from: Origin, of: &Selected, archive: Archive, out: &Path, page: &mut dyn Page) -> Answer {
    let is_uncorrected = from.is_uncorrected(of);
    let output = Output::create(out, &[&of.path]).map_err(ImageError::from)?;
    let writer = BufWriter::with_capacity(ARCHIVE_BUFFER, output.file());
    let page = RefCell::new(page);
    let shown = Cell::new(0);
    let progress = |bytes: u64| {
        if bytes >= shown.get() + PROGRESS {
            shown.set(bytes);
            page.borrow_mut().progress(bytes);
        }
    };
    let (extracted, written) = match archive {
        Archive::Tar => {
            let mut target = TarTarget::new(writer);
            (from.run(of, &mut target, &progress)?, target.finish())
        }
        Archive::Zip => {
            let mut target = ZipTarget::new(writer);
            (from.run(of, &mut target, &progress)?, target.finish())
        }
    };
    let written = written.and_then(|writer| Ok(writer.into_inner()?));
    written.map_err(|error| ImageError::from(output.failed(error)))?;
    output.finish().map_err(ImageError::from)?;
    let status = extracted.status().code();
    reported(if is_uncorrected { status.max(1) } else { status }, &extracted)
}

fn part(image: &Image, offset: u64, len: u64, page: &mut dyn Page) -> Answer {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < len {
        let room = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
        image.read_bytes(offset.saturating_add(at), &mut piece[..room])?;
        page.bytes(&piece[..room]);
        at += room as u64;
    }
    json(&len)
}

fn file(path: &Path, page: &mut dyn Page) -> Answer {
    for piece in pieces(path).map_err(ImageError::File)? {
        match piece {
            Piece::Blob { blob, offset, len } => page.blob(blob, offset, len),
            Piece::Bytes(bytes) => page.bytes(&bytes),
        }
    }
    let len = File::open(path).and_then(|file| file.metadata()).map_err(ImageError::File)?.len();
    json(&len)
}
