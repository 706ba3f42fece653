//! Filesystems that are only read: `readonly` has their readers. They are listed, extracted, mounted and checked, and never written.

use floatgate_files::File;
use std::fmt;
use std::sync::Arc;

use floatgate_stack::fs::{Error, FileSystem};
use floatgate_stack::ubifs::{Behaviour, Severity};
use floatgate_stack::{Store, Volume};
use serde::Serialize;

use super::Format;
use super::info::OneImage;
use super::location::{Content, ImageLocation};
use crate::ImageError;
use crate::extract::source::FileSystemSource;
use crate::extract::target::{ExtractError, ExtractLimits, Extracted, Extracting, Nowhere, Target};
use crate::extract::walk::extract;
use crate::image::{Bytes, Growth, Image, ImageFs};
use crate::map::{self, Facts, Kind, Readable, Value};
use crate::readonly;
use crate::report::{At, CheckReport, DumpTarget, Dumped, Finding, ImageCheck, Layer, Revision, Structure};
use crate::saved::{Method, Saved};
use crate::selection::Chosen;
use crate::write_back::WriteBack;
use floatgate_host::output::Output;

/// The format of a filesystem that is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TreeShape {
    /// Format of the filesystem.
    pub kind: Kind,
}

/// Description of a filesystem that is only read.
#[derive(Clone, Debug, Serialize)]
pub struct TreeInfo {
    /// Format of the filesystem.
    pub kind: Kind,
    /// Properties that the format states.
    pub facts: Facts,
}

impl TreeInfo {
    /// Writes the properties, a line each.
    pub(super) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.facts.0 {
            let name = name.replace('_', " ");
            match value {
                Value::Text(text) => writeln!(f, "  {name}: {text}")?,
                Value::Number(number) => writeln!(f, "  {name}: {number}")?,
                Value::Real(number) => writeln!(f, "  {name}: {number:.2}")?,
            }
        }
        Ok(())
    }
}

impl ImageLocation {
    /// A filesystem that is only read as an image.
    pub(crate) const fn tree(readable: &Readable) -> Self {
        Self::new(readable.at, readable.len, Content::Tree(TreeShape { kind: readable.kind }))
    }
}

/// A filesystem that is only read, opened.
pub(crate) struct TreeFiles {
    fs: Box<dyn FileSystem>,
    notes: Vec<String>,
}

impl TreeFiles {
    /// Opens one in a stretch of a store.
    ///
    /// # Errors
    /// Damage of what the format begins with; features that the reader does not have.
    pub(crate) fn open(kind: Kind, store: Box<dyn Store>, place: (u64, u64)) -> Result<Self, ImageError> {
        match readonly::open(kind, store, place)? {
            Some((fs, notes)) => Ok(Self { fs, notes }),
            None => Err(Error::Unsupported("reading this format").into()),
        }
    }

    /// Opens what a file holds from its beginning; `None` if that is no format with a reader.
    ///
    /// # Errors
    /// As [`open`](Self::open); the file cannot be read.
    pub(crate) fn in_file(file: File) -> Result<Option<Self>, ImageError> {
        let bytes = Bytes::File(Arc::new(file));
        let store = bytes.open()?;
        let Some(found) = map::readable_at(&*store, 0) else { return Ok(None) };
        Self::open(found.kind, store, (0, found.len)).map(Some)
    }

    /// The filesystem alone.
    pub(crate) fn into_fs(self) -> ImageFs {
        self.fs
    }
}

impl Extracting for TreeFiles {
    fn run(
        mut self: Box<Self>,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        let mut extracted = extract(&mut FileSystemSource(&mut *self.fs), target, limits, progress)?;
        extracted.notes.extend(self.notes);
        Ok(extracted)
    }
}

impl TreeShape {
    fn refuse<T>(self) -> Result<T, ImageError> {
        Err(ImageError::OnlyRead(self.kind.name()))
    }

    fn files(self, Chosen { image, found, .. }: Chosen<'_>) -> Result<TreeFiles, ImageError> {
        TreeFiles::open(self.kind, image.store()?, (found.offset, found.len))
    }
}

impl Format for TreeShape {
    fn kind(&self) -> &'static str {
        self.kind.name()
    }

    fn write_back(&self) -> WriteBack {
        WriteBack::Mixed
    }

    fn layer(&self) -> Layer {
        Layer::Data
    }

    fn mount(&self, chosen: Chosen<'_>, _: bool, _: Behaviour) -> Result<ImageFs, ImageError> {
        self.files(chosen).map(TreeFiles::into_fs)
    }

    fn growth(&self, _: Chosen<'_>, _: bool) -> Result<Option<Growth>, ImageError> {
        self.refuse()
    }

    fn info(&self, Chosen { image, found, .. }: Chosen<'_>, one: &mut OneImage) -> Result<(), ImageError> {
        let facts = map::readable_facts(&*image.store()?, self.kind, found.offset)?;
        one.tree = Some(TreeInfo { kind: self.kind, facts });
        Ok(())
    }

    /// Reads all files.
    fn check(&self, chosen: Chosen<'_>, report: &mut CheckReport) -> Result<(), ImageError> {
        let Chosen { found, .. } = chosen;
        let files = Box::new(self.files(chosen)?);
        let read = files.run(&mut Nowhere, &ExtractLimits::default(), &|_| {});
        let lost = match read {
            Ok(read) => read.losses.into_iter().map(|loss| loss.to_string()).chain(read.notes).collect(),
            Err(error) => vec![error.to_string()],
        };
        let consequence = "files are damaged, or missing";
        for what in lost {
            report.add(Finding::new(Layer::Data, Severity::Damaged, Structure::File, what, consequence));
        }
        report.images.push(ImageCheck::tree(found, self.kind));
        Ok(())
    }

    fn repair(&self, _: &Image, _: &ImageLocation, _: &Output, _: &mut Saved) -> Result<Method, ImageError> {
        self.refuse()
    }

    fn extraction(&self, chosen: Chosen<'_>) -> Result<Box<dyn Extracting>, ImageError> {
        Ok(Box::new(self.files(chosen)?))
    }

    fn extraction_at(&self, _: Chosen<'_>, _: At) -> Result<Box<dyn Extracting>, ImageError> {
        self.refuse()
    }

    fn history(&self, _: Chosen<'_>) -> Result<Vec<Revision>, ImageError> {
        self.refuse()
    }

    fn dump(&self, _: Chosen<'_>, _: &DumpTarget) -> Result<Vec<Dumped>, ImageError> {
        self.refuse()
    }

    fn volume(&self, _: Chosen<'_>) -> Result<Box<dyn Volume>, ImageError> {
        self.refuse()
    }
}
