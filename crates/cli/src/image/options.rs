//! Options that the subcommands share.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::common::Failure;
use crate::terminal;
use clap::builder::{OsStringValueParser, TypedValueParser};
use floatgate_image::check::Finding;
use floatgate_image::extract::show_name;
use floatgate_image::list::encrypted_names;
use floatgate_image::open::is_stream;
use floatgate_image::write_back::WriteBack;
use floatgate_image::{Access, FlashSizes, Image, ImageError, ImageFs, PageSizes, Selection};
use floatgate_lab::report::{Origin, ResultKind};
use floatgate_mtd::advice::Help;
use floatgate_stack::fs::{Error, FileSystem};
use floatgate_stack::fscrypt::Keys;
use floatgate_stack::ubifs::{AuthKey, Authenticate, Behaviour};

/// Options that select an image and its volume.
#[derive(clap::Args)]
pub(super) struct ImageArgs {
    /// File with the image; - reads the image from stdin, and cannot change it
    pub(super) image: PathBuf,

    /// UBI volume, by name or number; needed if several volumes hold a UBIFS
    #[arg(long, value_name = "NAME")]
    pub(super) volume: Option<String>,

    /// Byte of the file at which the image begins; needed if the file has several images (see `floatgate image info`)
    #[arg(long, value_name = "BYTE", value_parser = super::sizes::bytes)]
    pub(super) offset: Option<u64>,

    /// Size of an eraseblock of the flash (PEB), such as 128KiB; it cannot be detected in a small JFFS2
    #[arg(long, value_name = "BYTES", value_parser = super::sizes::bytes32)]
    pub(super) peb_size: Option<u32>,

    #[command(flatten)]
    pub(super) pages: PageArgs,

    /// Key of a UBIFS with authentication, as in the kernel's keyring; nodes that it does not authenticate are refused
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(|path| read_key(path.as_ref())))]
    auth_key: Option<AuthKey>,

    #[command(flatten)]
    keys: KeyArgs,

    /// Verify the hashes of a UBIFS with authentication, without its key; this detects damage, but not forgery
    #[arg(long, conflicts_with = "auth_key")]
    auth_hashes: bool,
}

/// Option for the keys of encrypted files.
#[derive(clap::Args)]
pub(super) struct KeyArgs {
    /// File with a master key of files that Linux has encrypted (fscrypt): 16 to 64 raw bytes (repeatable). Names and contents in UBIFS, ext4
    /// and F2FS are then decrypted
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
}

impl KeyArgs {
    /// Adds the keys of encrypted files to the image, if the options name any.
    pub(super) fn with_keys(&self, image: Image) -> Result<Image, Failure> {
        Ok(match self.read()? {
            Some(keys) => image.with_keys(keys),
            None => image,
        })
    }

    /// Reads the keys; `None` if the options name none.
    pub(super) fn read(&self) -> Result<Option<Keys>, Failure> {
        let mut keys = Keys::default();
        for path in &self.keys {
            let named = |error: String| {
                Failure::new(format!("{}: {error}", path.display()), "name a file with the key as raw bytes")
            };
            let bytes = std::fs::read(path).map_err(|error| named(error.to_string()))?;
            keys.add(&bytes).map_err(|error| named(error.to_string()))?;
        }
        Ok((!self.keys.is_empty()).then_some(keys))
    }
}

/// Pages of a NAND dump with OOB.
#[derive(clap::Args)]
pub(super) struct PageArgs {
    /// NAND dump with OOB: data bytes of a page [default: detected, as are the next two]
    #[arg(long, value_name = "BYTES", value_parser = super::sizes::bytes32)]
    page_size: Option<u32>,

    /// NAND dump with OOB: OOB bytes of a page
    #[arg(long, value_name = "BYTES", value_parser = super::sizes::bytes32, requires = "page_size")]
    oob_size: Option<u32>,

    /// NAND dump with OOB: pages of a block
    #[arg(long, alias = "pages-per-block", value_name = "N")]
    block_pages: Option<u32>,
}

impl PageArgs {
    pub(super) const fn sizes(&self) -> PageSizes {
        PageSizes { page_bytes: self.page_size, oob_bytes: self.oob_size, pages_per_block: self.block_pages }
    }
}

/// Reads the key in a file.
fn read_key(path: &Path) -> Result<AuthKey, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    AuthKey::new(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

impl ImageArgs {
    /// Origin of a result on the image.
    pub(super) fn origin(&self, kind: ResultKind) -> Origin {
        kind.of(&self.image)
    }

    pub(super) fn selection(&self) -> Selection {
        Selection {
            offset: self.offset,
            volume: self.volume.clone(),
            authenticate: self.authenticate(),
            peb_bytes: self.peb_size,
            flash: None,
            pages: self.pages.sizes(),
        }
    }

    /// Sizes of the flash that the options state.
    pub(super) const fn sizes(&self) -> FlashSizes {
        FlashSizes { peb_bytes: self.peb_size, pages: self.pages.sizes() }
    }

    /// Authentication that the options state.
    fn authenticate(&self) -> Authenticate {
        match &self.auth_key {
            Some(key) => Authenticate::Key(key.clone()),
            None if self.auth_hashes => Authenticate::Hashes,
            None => Authenticate::No,
        }
    }

    /// Path of the image; fails if it is not a file that can be read repeatedly or written.
    pub(super) fn file(&self) -> Result<&Path, Failure> {
        file(&self.image)
    }

    /// Adds the keys of encrypted files to the image, if the options name any.
    pub(super) fn with_keys(&self, image: Image) -> Result<Image, Failure> {
        self.keys.with_keys(image)
    }

    /// The keys of encrypted files, if any are given.
    #[cfg(feature = "mount")]
    pub(super) fn keys(&self) -> Result<Option<Keys>, Failure> {
        self.keys.read()
    }

    /// Refuses keys for a command that decrypts nothing.
    pub(super) fn refuse_keys(&self, why: &str) -> Result<(), Failure> {
        if self.keys.keys.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("--key has no effect here: {why}"), "leave it out"))
    }

    /// The inode at a path.
    pub(super) fn resolve(&self, fs: &mut dyn FileSystem, path: &[u8]) -> Result<u32, Failure> {
        fs.resolve(path).map_err(|error| match encrypted_names(fs, path) {
            Some(why) if error == Error::NotFound => {
                let what = format!("{}: {}: {error}: {why}", self.image.display(), show_name(path));
                Failure::new(what, "`floatgate image ls` lists what is there; --key names the key")
            }
            _ => self.failed_at(path, error),
        })
    }

    pub(super) fn open(&self, access: Access) -> Result<Image, Failure> {
        if access == Access::Read {
            return read(&self.image, self.sizes()).and_then(|image| self.with_keys(image));
        }
        let opened = Image::open_sized(&self.image, access, self.sizes());
        opened.map_err(|error| failure(&self.image, &error))
    }

    /// Opens the image for reading.
    pub(super) fn try_read(&self) -> Result<Image, ImageError> {
        try_read(&self.image, self.sizes())
    }

    /// Mounts the filesystem without writing anything.
    pub(super) fn mount(&self) -> Result<ImageFs, Failure> {
        let image = self.open(Access::Read)?;
        let mounted = image.mount(&self.selection(), true, Behaviour::default());
        mounted.map_err(|error| failure(&self.image, &error))
    }

    /// Failure for a path in the image.
    pub(super) fn failed_at(&self, path: &[u8], error: Error) -> Failure {
        let error = ImageError::from(error);
        Failure::new(format!("{}: {}: {error}", self.image.display(), show_name(path)), error.help())
    }

    /// Failure with the name of the image.
    pub(super) fn failed(&self, error: impl Into<ImageError>) -> Failure {
        failure(&self.image, &error.into())
    }
}

/// Checks that a path is a file that can be read repeatedly or written.
pub(super) fn file(path: &Path) -> Result<&Path, Failure> {
    if path.as_os_str() == "-" || is_stream(path) {
        let help = "name a file; ./- is one with that name";
        return Err(Failure::new(
            "what comes from stdin or a pipe is only read: it is neither changed, repaired nor mounted",
            help,
        ));
    }
    Ok(path)
}

/// Opens an image for reading; `-` is stdin.
pub(super) fn read(path: &Path, sizes: FlashSizes) -> Result<Image, Failure> {
    try_read(path, sizes).map_err(|error| failure(path, &error))
}

fn try_read(path: &Path, sizes: FlashSizes) -> Result<Image, ImageError> {
    match path.as_os_str() {
        stdin if stdin == "-" => Image::from_stream(&mut std::io::stdin().lock(), sizes),
        _ => Image::open_sized(path, Access::Read, sizes),
    }
}

/// Failure of the library, with the name of the file.
pub(crate) fn failure(path: &Path, error: &(impl Help + fmt::Display)) -> Failure {
    let name = if error.names_file() { String::new() } else { format!("{}: ", path.display()) };
    Failure::new(format!("{name}{error}"), error.help())
}

/// Prints warnings about a new image.
pub(super) fn print_warnings(warnings: &[Finding]) {
    for Finding { volume, what, consequence, .. } in warnings {
        let volume = volume.iter().map(|name| format!("volume {name:?}: ")).collect::<String>();
        terminal::print_note(&format!("warning: {volume}{what}: {consequence}"));
    }
}

/// Prints the commands that write a new file back to flash; nothing if the output is no regular file, such as a block
/// device.
pub(super) fn print_write_back(write_back: WriteBack, file: &Path) {
    if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        terminal::print_note(&write_back.line(file));
    }
}
