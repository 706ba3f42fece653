//! A board: chip, controller, driver and host, and the properties that vary between two copies of it.

#[cfg(feature = "filesystems")]
use crate::Filesystem;
use crate::{Flash, Result};
use floatgate_config::{self as config, Config, Library, Override, Source};
#[cfg(feature = "filesystems")]
use floatgate_sim::machine::{self, FilesystemKind};
use floatgate_sim::rig::{self, RigOptions};
use std::path::Path;
use std::sync::LazyLock;

/// The catalogue, which is loaded once.
static LIBRARY: LazyLock<Library> = LazyLock::new(Library::built_in);

/// The catalogue of this crate: setups, parts, controllers, hosts and cards.
pub(crate) fn library() -> &'static Library {
    &LIBRARY
}

/// A board: a chip behind a controller, with its driver and the software costs of its host.
#[derive(Clone, Debug)]
pub struct Setup {
    setup: config::Setup,
    sets: Vec<Override>,
    options: RigOptions,
}

impl Setup {
    /// Loads a setup of the catalogue by its name, or a TOML file by its path (with a `/`, or ending in `.toml`).
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): an unknown name, with similar names as help; a file that cannot be read or is not TOML.
    pub fn named(name: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::of(library().setup(name)?))
    }

    /// Creates a setup from a TOML text, such as `chip = "w25n01gv"`. docs/setup.md lists the keys.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): the text is not TOML, or its base does not exist.
    pub fn from_toml(text: &str) -> Result<Self> {
        Ok(Self::of(library().setup_from(&Source::text("the setup's text", text))?))
    }

    /// Names of all setups in the catalogue, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        library().names(config::Kind::Setup)
    }

    fn of(setup: config::Setup) -> Self {
        Self { setup, sets: Vec::new(), options: RigOptions::default() }
    }

    /// Changes one key: `chip=mx30lf1g18ac`, `bus.clock_hz=50MHz`. The value is checked when the setup is used.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): the `=` is missing, or the path is impossible.
    pub fn with(mut self, key_and_value: &str) -> Result<Self> {
        let name = format!("Setup::with #{}", self.sets.len() + 1);
        self.sets.push(Override::parse_of(&name, key_and_value)?);
        Ok(self)
    }

    /// Sets the seed of all variation between chips: factory bad blocks, endurance of blocks, bit errors. The default is 0.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Sets the number of factory bad blocks per LUN of a NAND. The default is 0.
    #[must_use]
    pub const fn bad_blocks(mut self, blocks: u32) -> Self {
        self.options.bad_blocks = blocks;
        self
    }

    /// Creates a new flash of this setup. It is erased, and the driver has identified the chip and set it up.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): an invalid value, an unknown name, more bad blocks than the maker allows, or a chip that the
    /// driver rejects on this board.
    pub fn flash(&self) -> Result<Flash> {
        Ok(Flash::of(rig::wire(library(), &self.config()?, self.options)?))
    }

    /// UBIFS on UBI, with the options of the setup's `[filesystem]` table.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): an invalid value.
    #[cfg(feature = "filesystems")]
    pub fn ubifs(&self) -> Result<Filesystem> {
        self.filesystem(FilesystemKind::Ubifs)
    }

    /// JFFS2, with the options of the setup's `[filesystem]` table.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): an invalid value, or a compression that JFFS2 does not support.
    #[cfg(feature = "filesystems")]
    pub fn jffs2(&self) -> Result<Filesystem> {
        self.filesystem(FilesystemKind::Jffs2)
    }

    #[cfg(feature = "filesystems")]
    fn filesystem(&self, kind: FilesystemKind) -> Result<Filesystem> {
        let options = machine::Filesystem { kind, ..machine::Filesystem::of_setup(&self.config()?)? };
        Ok(Filesystem::of(options.layers()?))
    }

    /// The setup with all referenced files and all changes, as the studies of `lab` require it.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): an unknown name, or a changed key that does not exist.
    pub fn config(&self) -> Result<Config> {
        Ok(library().resolve(&self.setup, &self.sets)?)
    }

    /// The catalogue, for the studies of `lab`.
    pub fn library(&self) -> &'static Library {
        library()
    }

    /// Seed and number of bad blocks, for the studies of `lab`.
    pub const fn options(&self) -> RigOptions {
        self.options
    }
}
