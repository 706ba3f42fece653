//! Building and changing images.

use crate::arguments::arguments;
use crate::cancel::interruptible;
use crate::failure::Failure;
use crate::image::ImageSelection;
use crate::library;
use crate::studies::in_envelope;
use floatgate_host::output::Output;
use floatgate_image::build::{
    BuildError, BuildOptions, Container, FlashShape, Jffs2Options, Overrides, Source, TreeOptions,
    YaffsOptions, build,
};
use floatgate_image::edit::{EditError, EditOptions, Editor, GrowTo, ImagePath, Owner, PutOptions, edit};
use floatgate_lab::part_sizes;
use floatgate_lab::report::ResultKind;
use floatgate_stack::fs::{self, Compression, Rename, Timestamp};
use floatgate_stack::ubifs::FormatOptions;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Number of LEBs that stay free for files in an image whose volume is no larger than its filesystem, as in `image
/// build`.
const ROOM_LEBS: u32 = 2;

/// Bytes of a page and a block of a LittleFS or SPIFFS, as those of ESP-IDF have them.
const BLOCKS: (u32, u32) = (256, 4096);

arguments! {
    /// Options of a new image.
    pub(crate) struct NewImage {
        format: String,
        part: Option<PathBuf>,
        setup: Option<PathBuf>,
        sizes: Option<(u32, u32)>,
        compress: Option<String>,
        volume: String,
        autoresize: bool,
        owner: Option<(u32, u32)>,
        latest: Option<i64>,
        size: Option<u64>,
        oob_size: Option<u32>,
        tags_at: u32,
        big_endian: bool,
    }
}

impl NewImage {
    fn shape(&self) -> Result<FlashShape, Failure> {
        let is_small = matches!(self.format.as_str(), "littlefs" | "spiffs");
        let sizes = self
            .sizes
            .or_else(|| (is_small && self.part.is_none() && self.setup.is_none()).then_some(BLOCKS));
        match (&self.part, &self.setup, sizes) {
            (Some(part), None, None) => Ok(part_sizes::shape_of_part(library(), part)?),
            (None, Some(setup), None) => Ok(part_sizes::shape_of_setup(library(), setup)?),
            (None, None, Some((page_bytes, peb_bytes))) => Ok(FlashShape {
                page_bytes,
                sub_page_bytes: page_bytes,
                peb_bytes,
                vid_header_offset: None,
                size: None,
            }),
            named => {
                let help = "give one of `part`, `setup` and `sizes=(page_bytes, peb_bytes)`";
                let are = if matches!(named, (None, None, None)) { "not known" } else { "given twice" };
                Err(Failure::new(format!("the sizes of the flash are {are}"), Some(help.to_owned())))
            }
        }
    }

    /// Size of an image that fills its partition.
    fn whole(&self) -> Result<u64, Failure> {
        self.size.ok_or_else(|| {
            let help = "give the bytes of the partition with `size`".to_owned();
            Failure::new(
                format!("the size of the image is not known: {} fills its partition", self.format),
                Some(help),
            )
        })
    }

    /// Advice with the arguments of `Image.build`, where the command has options with other names; `None` for other errors.
    fn help(&self, error: &BuildError) -> Option<&'static str> {
        let is_sized = matches!(self.format.as_str(), "jffs2" | "littlefs" | "spiffs");
        match error {
            BuildError::NoSpace | BuildError::PadTooSmall { .. } if is_sized => {
                Some("a larger `size` has more room")
            }
            BuildError::Parameter { field: "LEB size", .. } => Some(
                "UBIFS takes LEBs of 15360 bytes and more: give larger eraseblocks with `sizes`, such as (1, 65536)",
            ),
            BuildError::NoSpace
            | BuildError::TooFewLebs { .. }
            | BuildError::VolumeTooSmall { .. }
            | BuildError::Sizes(_)
            | BuildError::Parameter { .. } => {
                Some("name a larger flash with `part` or `setup`; `compress` of zstd or zlib needs less")
            }
            BuildError::Shape(_) => {
                Some("those of most NANDs are `sizes=(2048, 131072)`; `parts()` lists the parts")
            }
            BuildError::TreeShape(_) => {
                Some("`sizes` states the sizes of pages and blocks, and `size` that of the partition")
            }
            _ => None,
        }
    }

    /// Refuses arguments that mean nothing to a format.
    fn check(&self) -> Result<(), Failure> {
        let format = self.format.as_str();
        let given: [(bool, &str, &[&str]); 4] = [
            (self.size.is_some(), "size", &["jffs2", "littlefs", "spiffs"]),
            (self.oob_size.is_some(), "oob_size", &["yaffs2"]),
            (self.big_endian, "big_endian", &["jffs2", "yaffs2"]),
            (self.compress.is_some(), "compress", &["ubi", "ubifs", "jffs2"]),
        ];
        match given.iter().find(|(is_given, _, formats)| *is_given && !formats.contains(&format)) {
            Some((_, name, formats)) => Err(Failure::new(
                format!("`{name}` has no effect on {format}"),
                Some(format!("it is for {}", formats.join(", "))),
            )),
            None => Ok(()),
        }
    }

    fn container(&self, shape: &FlashShape) -> Result<Container, Failure> {
        match self.format.as_str() {
            "ubi" => {
                Ok(Container::Ubi { name: self.volume.clone(), autoresize: self.autoresize, image_seq: None })
            }
            "ubifs" => Ok(Container::None),
            "jffs2" => {
                let Self { big_endian, size: pad_bytes, .. } = *self;
                Ok(Container::Jffs2(Jffs2Options { big_endian, summaries: false, pad_bytes }))
            }
            "yaffs2" => Ok(Container::Tree(TreeOptions::Yaffs(YaffsOptions {
                big_endian: self.big_endian,
                oob_bytes: self.oob_size.unwrap_or(shape.page_bytes / 32),
                tags_at: self.tags_at,
            }))),
            "littlefs" => Ok(Container::Tree(TreeOptions::Littlefs { bytes: self.whole()? })),
            "spiffs" => Ok(Container::Tree(TreeOptions::Spiffs { bytes: self.whole()? })),
            other => Err(Failure::new(
                format!("no format is called {other:?}"),
                Some("there are `ubi`, `ubifs`, `jffs2`, `yaffs2`, `littlefs` and `spiffs`".to_owned()),
            )),
        }
    }

    fn compression(&self) -> Result<Compression, Failure> {
        match self.compress.as_deref() {
            None if self.format == "jffs2" => Ok(Compression::Zlib),
            None | Some("lzo") => Ok(Compression::Lzo),
            Some("zlib") => Ok(Compression::Zlib),
            Some("zstd") => Ok(Compression::Zstd),
            Some("none") => Ok(Compression::None),
            Some(other) => Err(Failure::new(
                format!("no compression is called {other:?}"),
                Some("there are `lzo`, `zlib`, `zstd` and `none`".to_owned()),
            )),
        }
    }

    fn options(&self) -> Result<BuildOptions, Failure> {
        let format = FormatOptions {
            room_lebs: if self.autoresize { 0 } else { ROOM_LEBS },
            compression: self.compression()?,
            ..FormatOptions::default()
        };
        self.check()?;
        let shape = self.shape()?;
        Ok(BuildOptions {
            shape,
            container: self.container(&shape)?,
            format,
            uuid: None,
            volume_bytes: None,
            overrides: Overrides { owner: self.owner, latest: self.latest },
            device_table: None,
        })
    }
}

/// Builds an image from a directory or a tar.
#[pyfunction]
pub(crate) fn build_image(
    py: Python<'_>,
    source: PathBuf,
    output: PathBuf,
    image: NewImage,
) -> PyResult<String> {
    interruptible(py, move |_| {
        let options = image.options()?;
        let metadata = std::fs::metadata(&source).map_err(|error| {
            let help = "name a directory or a tar".to_owned();
            Failure::of_file(&source, error, Some(help))
        })?;
        let files =
            if metadata.is_dir() { Source::Directory(source.clone()) } else { Source::Tar(source.clone()) };
        let out = Output::create(&output, &[&source]).map_err(Failure::helped)?;
        let file = out.file().try_clone().map_err(|error| Failure::helped(out.failed(error)))?;
        let built = build(&files, file, &options).map_err(|error| {
            if let Some(help) = image.help(&error) {
                return Failure::new(error, Some(help.to_owned()));
            }
            match error {
                BuildError::Image(_) | BuildError::Ubi(_) => Failure::helped_in(&output, &error),
                _ => Failure::helped(error),
            }
        })?;
        out.finish().map_err(Failure::helped)?;
        in_envelope(&ResultKind::ImageBuild.of(&source), &built)
    })
}

arguments! {
    /// A change of the files in an image.
    pub(crate) struct Change {
        what: String,
        /// Path of the file in the image.
        path: Vec<u8>,
        /// Further arguments: files of the host, the new name, the target of a link, permissions or owner.
        other: Vec<u8>,
        recursive: bool,
    }
}

impl Change {
    fn make(&self, editor: &mut Editor<'_>) -> Result<(), EditError> {
        let path = ImagePath::new(self.path.clone())?;
        let refused =
            |what| EditError::Refused { path: String::from_utf8_lossy(&self.path).into_owned(), what };
        let text = || std::str::from_utf8(&self.other).map_err(|_| refused("the value is no text"));
        match self.what.as_str() {
            "put" => {
                let source = PathBuf::from(OsString::from_vec(self.other.clone()));
                editor.put(&[source], &path, PutOptions { owner: Owner::default(), time_max: None })
            }
            "remove" => editor.remove(&path, self.recursive),
            "mkdir" => editor.make_dir(&path, self.recursive, 0o755, Owner::default()),
            "rename" => editor.rename(&path, &ImagePath::new(self.other.clone())?, Rename::Replace),
            "symlink" => editor.symlink(&self.other, &path, Owner::default()),
            "chmod" => {
                let permissions = text()?.parse().map_err(|_| refused("these are no permissions"))?;
                editor.chmod(&path, &permissions, self.recursive)
            }
            "chown" => {
                let owner = text()?.parse().map_err(|_| refused("this is no owner"))?;
                editor.chown(&path, owner, self.recursive)
            }
            _ => Err(refused("no change is called so")),
        }
    }
}

arguments! {
    /// An image to change, and the destination of the result.
    pub(crate) struct Changed {
        path: PathBuf,
        which: ImageSelection,
        output: Option<PathBuf>,
        recover: bool,
        grow: bool,
        /// Timestamp of changed files, ns since 1970.
        time_ns: i64,
    }
}

/// Makes all changes of an image, or none. Returns the losses as JSON.
#[pyfunction]
pub(crate) fn edit_image(py: Python<'_>, image: Changed, changes: Vec<Change>) -> PyResult<String> {
    interruptible(py, move |_| {
        let Changed { path, which, output, recover, grow, time_ns } = image;
        let nanoseconds = u32::try_from(time_ns.rem_euclid(1_000_000_000)).unwrap_or(0);
        let options = EditOptions {
            selection: which.into(),
            recover,
            time: Timestamp { seconds: time_ns.div_euclid(1_000_000_000), nanoseconds },
            output,
            growth: if grow { GrowTo::Needed } else { GrowTo::Keep },
        };
        let all = |editor: &mut Editor<'_>| changes.iter().try_for_each(|change| change.make(editor));
        let (_, edited) = edit(&path, &options, &all)
            .map_err(|error| Failure::helped_in(&path, &error).missing(is_missing(&error)))?;
        in_envelope(&ResultKind::ImageEdit.of(&path), &edited)
    })
}

/// True if a path of the host or of the image does not exist.
fn is_missing(error: &EditError) -> bool {
    match error {
        EditError::Host { error, .. } => error.kind() == std::io::ErrorKind::NotFound,
        EditError::Inside { error, .. } => *error == fs::Error::NotFound,
        _ => false,
    }
}
