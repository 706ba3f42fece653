//! Creates, attaches and mounts the filesystem that loses power.

use floatgate_media::jffs2::Compressor;
use floatgate_media::ubifs::KeyHash;
use floatgate_stack::fs::{Compression, Error, FileSystem, NewFile, NewKind};
use floatgate_stack::jffs2;
use floatgate_stack::ubi::{self, AttachOptions, FastmapUse};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, Limits};

use super::chip::Powered;
use super::flash::MAX_BAD_PER_1024;
use floatgate_mtd::random::Random;
use floatgate_sim::machine::{FilesystemKind, Layers, OnDevice, UbifsLayers};

pub(super) type Device = Box<dyn Powered>;
pub(super) type Fs = Box<dyn OnDevice<Device>>;

/// Name of the file that fills a small filesystem.
pub(super) const BALLAST: &[u8] = b"ballast";

/// Maximum number of bytes that fill a small filesystem: reading more would take too long after each cut.
const MAX_FILL_BYTES: u64 = 2 << 20;

/// Parameters of a filesystem. They follow from the seed, so that many seeds test many kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) compression: Compression,
    /// Memory limits. Few bytes of changed blocks stay in memory, so that much of the workload reaches the flash.
    pub(super) limits: Limits,
    /// True to mount with `-o sync`.
    pub(super) sync: bool,
    /// True if UBI maintains a fastmap; for JFFS2, if summaries are written.
    pub(super) fastmap: bool,
    /// True for UBIFS format 5, with double hashes.
    pub(super) double_hash: bool,
    /// True if names with the same beginning have the same hash.
    pub(super) collisions: bool,
    /// True for the smallest possible number of LEBs, with little free space.
    pub(super) small: bool,
}

impl Variant {
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut random = Random::numbered(seed, 0x56_61_72);
        let compressions = [Compression::Lzo, Compression::Zlib, Compression::Zstd, Compression::None];
        Self {
            compression: compressions[random.index(compressions.len())],
            limits: limits(seed, [0, 8 << 10, 32 << 10, 4 << 20][random.index(4)]),
            sync: random.once_in(8),
            fastmap: random.once_in(3),
            double_hash: random.once_in(3),
            collisions: random.once_in(4),
            small: random.once_in(3),
        }
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { sync: self.sync, limits: self.limits, ..Behaviour::default() }
    }

    fn format(&self) -> FormatOptions {
        FormatOptions {
            compression: self.compression,
            format_version: if self.double_hash { 5 } else { 4 },
            key_hash: if self.collisions { KeyHash::Test } else { KeyHash::R5 },
            ..FormatOptions::default()
        }
    }

    fn attach(&self, faults: bool) -> AttachOptions {
        AttachOptions {
            fastmap: if self.fastmap { FastmapUse::Write } else { FastmapUse::Never },
            max_bad_per_1024: if faults { MAX_BAD_PER_1024 } else { ubi::MAX_BAD_PER_1024 },
            // The used part of the chip counts as a complete small chip.
            bad_limit_of_partition: true,
            ..AttachOptions::default()
        }
    }
}

impl Variant {
    fn jffs2(&self) -> jffs2::MountOptions {
        let compressors = match self.compression {
            Compression::Lzo => vec![Compressor::Lzo],
            Compression::Zlib => vec![Compressor::Zlib, Compressor::Rtime],
            Compression::Zstd => vec![Compressor::Rtime],
            _ => Vec::new(),
        };
        jffs2::MountOptions {
            compressors,
            summaries: self.fastmap,
            marks_obsolete: self.marks_obsolete(),
            ..jffs2::MountOptions::default()
        }
    }

    /// True if JFFS2 marks obsolete nodes on flash that allows it. JFFS2 has no hashes of names, so `double_hash`
    /// decides.
    const fn marks_obsolete(&self) -> bool {
        self.double_hash && !self.fastmap
    }
}

/// Limits of memory and retries. For half of the seeds they are as small as 1, 2, 3 or 8.
fn limits(seed: u64, page_bytes: usize) -> Limits {
    let few = [0, 0, 0, 0, 1, 2, 3, 8][Random::numbered(seed, 0x4C_69_6D).index(8)];
    let limits = if few == 0 { Limits::default() } else { Limits::all(few) };
    Limits { page_bytes, ..limits }
}

/// Text of the parameters of the filesystem that belongs to a seed.
pub fn describe(fs: FilesystemKind, seed: u64) -> String {
    let variant = Variant::from_seed(seed);
    if fs == FilesystemKind::Jffs2 {
        let compression = match variant.compression {
            Compression::Lzo => "LZO",
            Compression::Zlib => "zlib",
            Compression::Zstd => "rtime",
            _ => "no compression",
        };
        let (summaries, marks, small) = (
            if variant.fastmap { ", summaries" } else { "" },
            if variant.marks_obsolete() { ", obsolete nodes marked on NOR" } else { "" },
            if variant.small { ", nearly full" } else { "" },
        );
        return format!("{compression}{summaries}{marks}{small}");
    }
    let compression = match variant.compression {
        Compression::Lzo => "LZO",
        Compression::Zlib => "zlib",
        Compression::Zstd => "zstd",
        _ => "no compression",
    };
    let mut text = format!("{compression}, {} KiB of cache", variant.limits.page_bytes >> 10);
    if variant.limits.inodes != Limits::default().inodes {
        text += &format!(", other limits of {}", variant.limits.inodes);
    }
    let words = [
        (variant.sync, "-o sync"),
        (variant.fastmap, "fastmap"),
        (variant.double_hash, "double hashes"),
        (variant.collisions, "names that collide"),
        (variant.small, "small and nearly full"),
    ];
    for (_, word) in words.into_iter().filter(|(is, _)| *is) {
        text += ", ";
        text += word;
    }
    text
}

/// Layers between flash and files, and their options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    pub(super) fs: FilesystemKind,
    pub(super) variant: Variant,
    pub(super) faults: bool,
}

impl Recipe {
    /// Creates a filesystem that fills the flash, or a small one and fills it.
    pub(super) fn make(&self, mut flash: Device, seed: u64) -> Result<Fs, String> {
        let now = flash.now();
        let mut fs = self.layers().make(flash, now, self.lebs(seed))?;
        if self.variant.small {
            fill(&mut *fs, seed).map_err(|error| error.to_string())?;
        }
        Ok(fs)
    }

    /// Number of LEBs of the volume: all, or few.
    fn lebs(&self, seed: u64) -> u32 {
        let few = 30 + Random::numbered(seed, 1).below(10) as u32;
        if self.variant.small { few } else { u32::MAX }
    }

    fn layers(&self) -> Layers {
        match self.fs {
            FilesystemKind::Ubifs => Layers::Ubifs(Box::new(UbifsLayers {
                attach: self.variant.attach(self.faults),
                format: self.variant.format(),
                behaviour: self.variant.behaviour(),
                second_volume: false,
            })),
            FilesystemKind::Jffs2 => Layers::Jffs2(self.variant.jffs2()),
        }
    }

    /// Attaches and mounts, as after power was restored. In case of an error, the flash is returned, too.
    pub(super) fn mount(&self, mut flash: Device) -> Result<Fs, (String, Device)> {
        let now = flash.now();
        self.layers().mount(flash, now, &mut |_, _| {})
    }

    /// Unmounts, detaches and returns the flash.
    pub(super) fn unmount(fs: Fs) -> Result<Device, (String, Device)> {
        fs.into_device().map(|(flash, _)| flash)
    }
}

/// Fills most of the filesystem with incompressible files, and makes holes in them, so that garbage must be collected.
fn fill(fs: &mut dyn FileSystem, seed: u64) -> Result<(), Error> {
    let mut random = Random::numbered(seed, 2);
    let file = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
    let root = fs.root();
    let inode = fs.create(root, BALLAST, &file)?;
    let mut block = [0; 4096];
    let mut at = 0;
    while at < MAX_FILL_BYTES && fs.space().available_blocks * 6 > fs.space().blocks {
        block.fill_with(|| random.bits() as u8);
        fs.write(inode, at, &block)?;
        if random.once_in(3) {
            fs.write(inode, at / 2, &block[..100])?;
        }
        at += 4096;
        if at % (64 << 10) == 0 {
            fs.fsync(inode)?;
        }
    }
    fs.sync()
}

/// Number of flash operations so far.
pub(super) fn operations(fs: &Fs) -> u64 {
    fs.device().operations()
}

/// Lets the layers do background work for one second.
pub(super) fn idle(fs: &mut Fs) {
    fs.wait_until(fs.now() + floatgate_mtd::Nanos::from_ms(1000));
}
