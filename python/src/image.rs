//! Files in images and dumps.

use crate::advice::in_python;
use crate::arguments::{arguments, extract};
use crate::cancel::interruptible;
use crate::failure::Failure;
use crate::studies::in_envelope;
use floatgate_host::output::{Output, OutputError};
use floatgate_image::check::check;
use floatgate_image::extract::{
    DirectoryTarget, ExtractError, ExtractLimits, Extractions, TarTarget, show_name,
};
use floatgate_image::info::selected_info;
use floatgate_image::list::{Listed, encrypted_names, list};
use floatgate_image::{Access, FileRow, FlashSizes, Image, ImageError, ImageFs, PageSizes, Selection};
use floatgate_lab::report::ResultKind;
use floatgate_mtd::advice::Help;
use floatgate_stack::fs::{self, FileSystem};
use floatgate_stack::fscrypt::Keys;
use floatgate_stack::ubifs::Behaviour;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

arguments! {
    /// Selection of an image inside a file.
    pub(crate) struct ImageSelection {
        volume: Option<String>,
        offset: Option<u64>,
        peb_size: Option<u32>,
        page_size: Option<u32>,
        oob_size: Option<u32>,
        block_pages: Option<u32>,
        /// Master keys of encrypted files.
        keys: Vec<Vec<u8>>,
    }
}

impl From<ImageSelection> for Selection {
    fn from(which: ImageSelection) -> Self {
        let ImageSelection { volume, offset, peb_size, page_size, oob_size, block_pages, keys: _ } = which;
        let pages = PageSizes { page_bytes: page_size, oob_bytes: oob_size, pages_per_block: block_pages };
        Self { offset, volume, peb_bytes: peb_size, pages, ..Self::default() }
    }
}

/// The master keys; `None` without any.
fn keys_of(all: &[Vec<u8>]) -> Result<Option<Keys>, Failure> {
    let mut keys = Keys::default();
    for key in all {
        let help = "give the bytes of the master key, or a file with them".to_owned();
        keys.add(key).map_err(|error| Failure::new(format!("key: {error}"), Some(help)))?;
    }
    Ok((!all.is_empty()).then_some(keys))
}

/// An open image and, after the first access to a file, its mounted filesystem.
#[pyclass(frozen)]
pub(crate) struct NativeImage {
    path: PathBuf,
    selection: Selection,
    image: Mutex<Image>,
    mounted: Mutex<Option<ImageFs>>,
}

impl NativeImage {
    fn failure(&self, error: impl Into<ImageError>) -> Failure {
        let error = error.into();
        Failure::helped_in(&self.path, &error)
    }

    fn failure_at(&self, path: &[u8], error: impl Into<ImageError>) -> Failure {
        let error = error.into();
        let message = format!("{}: {}: {error}", self.path.display(), show_name(path));
        let is_missing = matches!(error, ImageError::Filesystem(fs::Error::NotFound));
        Failure::new(message, Some(in_python(&error.help()))).missing(is_missing)
    }

    /// Failure to find a path, whose names may be encrypted.
    fn unresolved(&self, fs: &mut dyn FileSystem, path: &[u8], error: fs::Error) -> Failure {
        let why = if error == fs::Error::NotFound { encrypted_names(fs, path) } else { None };
        let Some(why) = why else { return self.failure_at(path, error) };
        let help = "`Image.ls()` lists what is there; `key` of `Image` names the key".to_owned();
        let message = format!("{}: {}: {error}: {why}", self.path.display(), show_name(path));
        Failure::new(message, Some(help)).missing(true)
    }

    /// Runs `work` on the open image.
    fn with_image<T>(&self, work: impl FnOnce(&Image) -> T) -> T {
        work(&self.image.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `work` on the mounted filesystem.
    fn with_files<T>(
        &self,
        work: impl FnOnce(&mut dyn FileSystem) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut mounted = self.mounted.lock().unwrap_or_else(PoisonError::into_inner);
        if mounted.is_none() {
            let fs = self.with_image(|image| image.mount(&self.selection, true, Behaviour::default()));
            *mounted = Some(fs.map_err(|error| self.failure(error))?);
        }
        match mounted.as_mut() {
            Some(fs) => work(fs.as_mut()),
            None => Err(self.failure(ImageError::Nothing)),
        }
    }

    fn list(&self, fs: &mut dyn FileSystem, path: &[u8], recursive: bool) -> Result<Vec<FileRow>, Failure> {
        let listing = list(fs, path, recursive).map_err(|error| self.unresolved(fs, path, error))?;
        if let Some((path, why)) = listing.refused.into_iter().next() {
            return Err(self.failure_at(&path.join(&b'/'), ImageError::NoNode(why.to_string())));
        }
        Ok(listing.files.iter().map(Listed::row).collect())
    }
}

#[pymethods]
impl NativeImage {
    #[new]
    fn open(py: Python<'_>, path: PathBuf, which: ImageSelection) -> PyResult<Self> {
        let keys = keys_of(&which.keys)?;
        let selection = Selection::from(which);
        let image = py.detach(|| Image::open_sized(&path, Access::Read, FlashSizes::from(&selection)));
        let image = image.map_err(|error| Failure::helped_in(&path, &error))?;
        let image = match keys {
            Some(keys) => image.with_keys(keys),
            None => image,
        };
        Ok(Self { path, selection, image: Mutex::new(image), mounted: Mutex::new(None) })
    }

    fn info(&self, py: Python<'_>) -> PyResult<String> {
        Ok(py.detach(|| -> Result<_, Failure> {
            let info = self.with_image(|image| selected_info(image, &self.selection));
            in_envelope(&ResultKind::ImageInfo.of(&self.path), &info.map_err(|error| self.failure(error))?)
        })?)
    }

    fn check(slf: Py<Self>, py: Python<'_>) -> PyResult<String> {
        interruptible(py, move |_| {
            let this = slf.get();
            let report = this.with_image(|image| check(image, &this.selection));
            in_envelope(&ResultKind::ImageCheck.of(&this.path), &report.map_err(|error| this.failure(error))?)
        })
    }

    /// Entries of a directory, or the file itself.
    fn ls<'py>(&self, py: Python<'py>, path: Vec<u8>, recursive: &Bound<'py, PyAny>) -> PyResult<String> {
        extract!(recursive: bool);
        Ok(py.detach(|| -> Result<_, Failure> {
            let rows = self.with_files(|fs| self.list(fs, &path, recursive))?;
            Ok(serde_json::to_string(&rows)?)
        })?)
    }

    /// Inode number and attributes of a path.
    fn stat(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<String> {
        Ok(py.detach(|| -> Result<_, Failure> {
            let row = self.with_files(|fs| {
                let inode = fs.resolve(&path).map_err(|error| self.unresolved(fs, &path, error))?;
                let file = Listed::read(fs, std::slice::from_ref(&path), inode);
                Ok(file.map_err(|error| self.failure_at(&path, error))?.row())
            })?;
            Ok(serde_json::to_string(&row)?)
        })?)
    }

    /// Reads bytes of a file from `offset` on; fewer than `len` only at its end.
    fn read<'py>(
        &self,
        py: Python<'py>,
        inode: u32,
        offset: u64,
        len: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            self.with_files(|fs| {
                let size = fs.attributes(inode).map_err(|error| self.failure(error))?.size;
                let len = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(len);
                let mut bytes = vec![0; len];
                let mut done = 0;
                while done < len {
                    let read = fs.read(inode, offset + done as u64, &mut bytes[done..]);
                    match read.map_err(|error| self.failure(error))? {
                        0 => break,
                        read => done += read,
                    }
                }
                bytes.truncate(done);
                Ok(bytes)
            })
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Extracts files into a new or empty directory, or into a file that ends in `.tar`.
    fn extract<'py>(
        slf: Py<Self>,
        py: Python<'py>,
        target: PathBuf,
        owner: &Bound<'py, PyAny>,
    ) -> PyResult<String> {
        extract!(owner: bool);
        interruptible(py, move |cancel| {
            let this = slf.get();
            let is_tar = target.extension().is_some_and(|extension| extension == "tar");
            let unwritable = |error: &dyn std::fmt::Display| {
                let help = "name a new or an empty directory, or a file that ends in .tar";
                Failure::new(format!("{}: {error}", target.display()), Some(help.to_owned()))
            };
            let full = |error| Failure::helped(OutputError::Host { path: target.clone(), error });
            let failed = |error: ExtractError, left: &str| {
                let help = in_python(&error.help()) + left;
                Failure::new(format!("{}: {error}", target.display()), Some(help))
            };
            if !is_tar {
                DirectoryTarget::check_empty(&target).map_err(|error| unwritable(&error))?;
            }
            let extraction = this.with_image(|image| Extractions::open(image, &this.selection));
            let extraction = extraction.map_err(|error| this.failure(error))?;
            let (limits, progress) = (ExtractLimits::default(), |_| cancel.check());
            let extracted = if is_tar {
                let out = Output::stream(&target, &[&this.path]).map_err(|error| unwritable(&error))?;
                let mut tar = TarTarget::new(BufWriter::with_capacity(1 << 18, out));
                let extracted =
                    extraction.run(&mut tar, &limits, &progress).map_err(|error| failed(error, ""))?;
                let out = tar.finish().and_then(|out| Ok(out.into_inner()?));
                out.map_err(full)?.finish().map_err(Failure::helped)?;
                extracted
            } else {
                let directory = DirectoryTarget::new(&target, owner);
                let mut directory = directory.map_err(|error| unwritable(&error))?;
                let left = "; what was extracted until then stays there";
                extraction.run(&mut directory, &limits, &progress).map_err(|error| failed(error, left))?
            };
            in_envelope(&ResultKind::ImageExtract.of(&this.path), &extracted)
        })
    }
}
