//! A board: chip, controller, driver and host, and what varies between two copies of it.

#[cfg(feature = "filesystems")]
use crate::Filesystem;
use crate::{Flash, Result};
use floatgate_config::{self as config, Config, Library, Override, Source};
#[cfg(feature = "filesystems")]
use floatgate_sim::machine::{self, FilesystemKind};
use floatgate_sim::rig::{self, RigOptions};
use std::path::Path;
use std::sync::LazyLock;

/// The catalogue, read once.
static LIBRARY: LazyLock<Library> = LazyLock::new(Library::built_in);

/// The catalogue of this crate: setups, parts, controllers, hosts and cards.
pub(crate) fn library() -> &'static Library {
    &LIBRARY
}

/// A board: a chip behind a controller, with its driver and the costs of its host.
#[derive(Clone, Debug)]
pub struct Setup {
    setup: config::Setup,
    sets: Vec<Override>,
    options: RigOptions,
}

impl Setup {
    /// A setup of the catalogue by its name, or a TOML file by its path (with a `/`, or ending in `.toml`).
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): an unknown name, with the nearest ones as help; a file that cannot be read or is no TOML.
    pub fn named(name: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::of(library().setup(name)?))
    }

    /// A setup from a TOML text, such as `chip = "w25n01gv"`. docs/setup.md lists the keys.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): the text is no TOML, or its base does not exist.
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
    /// [`Error::Setup`](crate::Error::Setup): there is no `=`, or no such path can exist.
    pub fn with(mut self, key_and_value: &str) -> Result<Self> {
        let name = format!("Setup::with #{}", self.sets.len() + 1);
        self.sets.push(Override::parse_of(&name, key_and_value)?);
        Ok(self)
    }

    /// Chooses the copy of the chip: factory bad blocks, lives of blocks and wrong bits follow from this number. It is 0 at first.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Sets the number of blocks that are bad from the factory, per LUN of a NAND. It is 0 at first.
    #[must_use]
    pub const fn bad_blocks(mut self, blocks: u32) -> Self {
        self.options.bad_blocks = blocks;
        self
    }

    /// A new flash of this setup, erased, found and set up by its driver.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): a value is wrong, a name does not exist, more bad blocks than the maker allows, or the driver
    /// cannot use the chip on this board.
    pub fn flash(&self) -> Result<Flash> {
        Ok(Flash::of(rig::wire(library(), &self.config()?, self.options)?))
    }

    /// UBIFS on UBI, with the options of the setup's `[filesystem]` table.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): a value is wrong.
    #[cfg(feature = "filesystems")]
    pub fn ubifs(&self) -> Result<Filesystem> {
        self.filesystem(FilesystemKind::Ubifs)
    }

    /// JFFS2, with the options of the setup's `[filesystem]` table.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): a value is wrong, or a compression that JFFS2 does not have.
    #[cfg(feature = "filesystems")]
    pub fn jffs2(&self) -> Result<Filesystem> {
        self.filesystem(FilesystemKind::Jffs2)
    }

    #[cfg(feature = "filesystems")]
    fn filesystem(&self, kind: FilesystemKind) -> Result<Filesystem> {
        let options = machine::Filesystem { kind, ..machine::Filesystem::of_setup(&self.config()?)? };
        Ok(Filesystem::of(options.layers()?))
    }

    /// The setup with everything that it names and all changes, as the studies of `lab` take it.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): a name does not exist, or a changed key leads nowhere.
    pub fn config(&self) -> Result<Config> {
        Ok(library().resolve(&self.setup, &self.sets)?)
    }

    /// The catalogue, as the studies of `lab` take it.
    pub fn library(&self) -> &'static Library {
        library()
    }

    /// Seed and bad blocks, as the studies of `lab` take them.
    pub const fn options(&self) -> RigOptions {
        self.options
    }
}
