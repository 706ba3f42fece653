//! Filesystems on a setup: chip, controller, driver and partition, below UBI and UBIFS or below JFFS2, with one clock.

use crate::error::Error;
pub use crate::filesystem::{FileCompression, Filesystem, FilesystemKind};
use crate::kernel_memory::{self, UbifsSizes};
use crate::rig::{Device, Rig};
use floatgate_config::Config;
use floatgate_media::jffs2::Compressor;
use floatgate_media::ubifs::MIN_LEB_BYTES;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, set};
use floatgate_mtd::words::count;
use floatgate_mtd::{Instant, Mtd, Nanos};
use floatgate_stack::Volume;
use floatgate_stack::fs::{self, Compression, FileSystem};
use floatgate_stack::jffs2::{self, Jffs2};
use floatgate_stack::ubi::{AttachOptions, FormatOptions as UbiFormat, NewVolume, PebState, Ubi, UbiVolume};
use floatgate_stack::ubifs::compress::Effort;
use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, Ubifs};
use std::fmt;

/// A device that a machine can be built on.
pub trait BaseDevice: Mtd + Clone + fmt::Debug + Send + Sync + 'static {}

impl<D: Mtd + Clone + fmt::Debug + Send + Sync + 'static> BaseDevice for D {}

/// A filesystem mounted on a device, with all layers in between.
pub trait OnDevice<D>: FileSystem + fmt::Debug + Sync {
    /// Returns an independent copy. Unchanged blocks of the device are shared.
    fn fork(&self) -> Box<dyn OnDevice<D>>;

    /// The device below the filesystem.
    fn device(&self) -> &D;

    /// Mutable access to the device below, for its host and supply.
    fn device_mut(&mut self) -> &mut D;

    /// Time at the end of the last operation.
    fn now(&self) -> Instant;

    /// Advances the clock. The layers do their background work in that time.
    fn wait_until(&mut self, now: Instant);

    /// Advances the clock without background work.
    fn set_now(&mut self, now: Instant);

    /// Completes the background work of a mount immediately: for JFFS2, the check of all inodes.
    ///
    /// # Errors
    /// Device failures.
    fn finish_background_work(&mut self) -> fs::Result<()> {
        Ok(())
    }

    /// True if the CPU computes checksums over all data that the filesystem reads and programs.
    fn checksummed(&self) -> bool {
        true
    }

    /// Runs a pass of ubihealthd, which reads every PEB, so that UBI moves PEBs with bit errors. Returns the number of
    /// moved PEBs. JFFS2 does not move data because of bit errors, so nothing is read.
    ///
    /// # Errors
    /// Reason why UBI failed, as text.
    fn check_health(&mut self) -> Result<u32, String> {
        Ok(0)
    }

    /// Number and size of the eraseblocks available to the filesystem (for UBI: LEBs).
    fn eraseblocks(&self) -> (u32, u32);

    /// Kernel memory used by the mount under Linux on a 32-bit CPU, B; `None` if unknown.
    fn kernel_memory(&self) -> Option<u64> {
        None
    }

    /// Number of times that an eraseblock was taken into use. Each eraseblock must be erased before its next use, so in the
    /// long run this is the number of erases.
    fn eraseblocks_used(&self) -> u64 {
        0
    }

    /// Numbers of bad, lost and damaged eraseblocks of the device.
    fn census(&self) -> Census {
        Census::default()
    }

    /// Ends the mount without any write, as a power loss does.
    fn abandon(self: Box<Self>) -> D;

    /// Unmounts, detaches and returns the device, with the time.
    ///
    /// # Errors
    /// Reason why it cannot be unmounted, as text, with the device.
    fn into_device(self: Box<Self>) -> Result<(D, Instant), (String, D)>;
}

impl<D: 'static> Clone for Box<dyn OnDevice<D>> {
    fn clone(&self) -> Self {
        (**self).fork()
    }
}

/// Eraseblocks of a device that are not in normal use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Number of bad eraseblocks.
    pub bad: u32,
    /// Description of an eraseblock that is neither used nor free.
    pub lost: Option<String>,
    /// Number of eraseblocks that are not used because their contents are damaged.
    pub aside: u64,
}

/// UBIFS on UBI on a device.
type OnUbi<D> = Ubifs<UbiVolume<D>>;

impl<D: BaseDevice> OnDevice<D> for OnUbi<D> {
    fn fork(&self) -> Box<dyn OnDevice<D>> {
        Box::new(self.clone())
    }

    fn device(&self) -> &D {
        self.volume().ubi().mtd()
    }

    fn device_mut(&mut self) -> &mut D {
        self.volume_mut().ubi_mut().mtd_mut()
    }

    fn now(&self) -> Instant {
        self.volume().now()
    }

    fn wait_until(&mut self, now: Instant) {
        self.volume_mut().wait_until(now);
    }

    fn set_now(&mut self, now: Instant) {
        self.volume_mut().ubi_mut().set_now(now);
    }

    fn check_health(&mut self) -> Result<u32, String> {
        let failed = |error: floatgate_stack::ubi::UbiError| format!("ubihealthd: {error}");
        let ubi = self.volume_mut().ubi_mut();
        let mut moved = 0;
        for pnum in ubi.pebs().map(|peb| peb.pnum).collect::<Vec<u32>>() {
            if ubi.check_peb(pnum).map_err(failed)? {
                moved += 1;
                // UBI's thread gets time for its background work. A block that fails in this time becomes bad.
                let later = ubi.now() + Nanos::from_ms(1000);
                ubi.wait_until(later);
            }
        }
        Ok(moved)
    }

    fn eraseblocks(&self) -> (u32, u32) {
        let geometry = self.volume().geometry();
        (geometry.lebs, geometry.leb_bytes)
    }

    fn kernel_memory(&self) -> Option<u64> {
        let (volume, flash) = (self.volume().geometry(), self.device().geometry());
        Some(kernel_memory::ubifs(&UbifsSizes {
            pebs: flash.blocks().into(),
            peb_bytes: flash.erase_bytes.into(),
            lebs: volume.lebs.into(),
            leb_bytes: volume.leb_bytes.into(),
            write_bytes: volume.max_write_bytes.into(),
        }))
    }

    /// Number of written VID headers, from the sequence number that each of them increments.
    fn eraseblocks_used(&self) -> u64 {
        self.volume().ubi().info().sqnum
    }

    fn census(&self) -> Census {
        let ubi = self.volume().ubi();
        let mut census = Census { bad: ubi.info().bad_pebs, ..Census::default() };
        for peb in ubi.pebs() {
            match peb.state {
                PebState::Pending | PebState::Alien if census.lost.is_none() => {
                    census.lost = Some(format!("PEB {} is lost: {:?}", peb.pnum, peb.state));
                }
                PebState::Erroneous | PebState::Corrupted => census.aside += 1,
                _ => {}
            }
        }
        census
    }

    fn abandon(self: Box<Self>) -> D {
        (*self).abandon().into_ubi().into_mtd()
    }

    fn into_device(self: Box<Self>) -> Result<(D, Instant), (String, D)> {
        let volume = (*self).unmount().map_err(|(error, volume)| {
            (format!("UBIFS does not unmount: {error}"), volume.into_ubi().into_mtd())
        })?;
        let detached = volume.into_ubi().detach();
        detached.map_err(|(error, mtd)| (format!("UBI does not detach: {error}"), mtd))
    }
}

impl<D: BaseDevice> OnDevice<D> for Jffs2<D> {
    fn fork(&self) -> Box<dyn OnDevice<D>> {
        Box::new(self.clone())
    }

    fn device(&self) -> &D {
        self.device()
    }

    fn device_mut(&mut self) -> &mut D {
        self.device_mut()
    }

    fn now(&self) -> Instant {
        (**self).now()
    }

    /// Advances the clock. A background failure is ignored here, because the next change fails again and reports it.
    fn wait_until(&mut self, now: Instant) {
        while (**self).now() < now && self.work_in_background().is_ok_and(|worked| worked) {}
        (**self).set_now(now);
    }

    fn set_now(&mut self, now: Instant) {
        (**self).set_now(now);
    }

    fn finish_background_work(&mut self) -> fs::Result<()> {
        while self.check_next()? {}
        Ok(())
    }

    fn eraseblocks(&self) -> (u32, u32) {
        let geometry = self.mtd().geometry();
        (geometry.blocks(), geometry.erase_bytes)
    }

    fn kernel_memory(&self) -> Option<u64> {
        let page = self.mtd().geometry().write_bytes;
        Some(kernel_memory::jffs2(self.nodes_by_eraseblock(), self.inode_count(), page.into()))
    }

    fn eraseblocks_used(&self) -> u64 {
        self.opened_eraseblocks()
    }

    fn census(&self) -> Census {
        Census { bad: self.bad_eraseblocks(), ..Census::default() }
    }

    fn abandon(self: Box<Self>) -> D {
        (*self).into_mtd()
    }

    fn into_device(self: Box<Self>) -> Result<(D, Instant), (String, D)> {
        let fs = *self;
        let unmounted = fs.end();
        unmounted.map_err(|(error, mtd)| (format!("JFFS2 does not unmount: {error}"), mtd))
    }
}

/// Minimum number of eraseblocks of a JFFS2 filesystem (Linux: `jffs2_do_fill_super`).
const JFFS2_BLOCKS_MIN: u32 = 5;

/// Name of the UBI volume in use.
const VOLUME: &[u8] = b"data";

/// Name of an optional second UBI volume of the same size.
const SECOND_VOLUME: &[u8] = b"second";

impl Filesystem {
    /// Reads the `[filesystem]` table of a setup.
    ///
    /// # Errors
    /// An invalid value.
    pub fn of_setup(config: &Config) -> Result<Self, Error> {
        Ok(config.extract_or_default("filesystem")?)
    }

    /// Parameters of the filesystem and the layers below it.
    ///
    /// # Errors
    /// A compression that the filesystem does not support.
    pub fn layers(&self) -> Result<Layers, Error> {
        Ok(match self.kind {
            FilesystemKind::Ubifs => Layers::Ubifs(Box::new(self.ubifs())),
            FilesystemKind::Jffs2 => Layers::Jffs2(self.jffs2()?),
        })
    }

    fn ubifs(&self) -> UbifsLayers {
        let compression = match self.compression {
            FileCompression::None => Compression::None,
            FileCompression::Lzo | FileCompression::Default => Compression::Lzo,
            FileCompression::Zlib => Compression::Zlib,
            FileCompression::Zstd => Compression::Zstd,
        };
        let fastmap = if self.fastmap {
            floatgate_stack::ubi::FastmapUse::Write
        } else {
            floatgate_stack::ubi::FastmapUse::Never
        };
        UbifsLayers {
            attach: AttachOptions {
                fastmap,
                max_bad_per_1024: self.ubi_max_bad_per_1024,
                bad_limit_of_partition: self.ubi_bad_limit_of_partition,
                ..AttachOptions::default()
            },
            format: FormatOptions { compression, ..FormatOptions::default() },
            behaviour: Behaviour {
                sync: self.sync,
                bulk_read: self.bulk_read,
                empty_is_total: self.empty_is_total,
                // The kernel contains the fast variant of LZO.
                effort: Effort::Fast,
                ..Behaviour::default()
            },
            second_volume: false,
        }
    }

    fn jffs2(&self) -> Result<jffs2::MountOptions, Error> {
        let compressors = match self.compression {
            FileCompression::None => Vec::new(),
            FileCompression::Lzo => vec![Compressor::Lzo],
            FileCompression::Zlib | FileCompression::Default => vec![Compressor::Zlib, Compressor::Rtime],
            FileCompression::Zstd => {
                return Err(Error::request(
                    "JFFS2 has no Zstandard",
                    "set filesystem.compression to zlib, lzo or none",
                ));
            }
        };
        let (summaries, ignores_summaries) = (self.summaries, !self.summaries);
        Ok(jffs2::MountOptions {
            compressors,
            effort: Effort::Fast,
            summaries,
            ignores_summaries,
            marks_obsolete: self.marks_obsolete,
            ..jffs2::MountOptions::default()
        })
    }
}

/// Parameters of a filesystem and the layers below it.
#[derive(Clone, Debug)]
pub enum Layers {
    /// Parameters of UBI and of UBIFS.
    Ubifs(Box<UbifsLayers>),
    /// Parameters of JFFS2.
    Jffs2(jffs2::MountOptions),
}

/// Parameters of UBI and UBIFS.
#[derive(Clone, Debug)]
pub struct UbifsLayers {
    /// Attach options; the time in them is replaced.
    pub attach: AttachOptions,
    /// Format options; the number of LEBs in them is replaced.
    pub format: FormatOptions,
    /// Options and behaviour of the mounted filesystem.
    pub behaviour: Behaviour,
    /// True for a second volume with UBIFS, which gets half of the LEBs. A mount then includes mounting and unmounting it.
    pub second_volume: bool,
}

impl Layers {
    /// Creates a filesystem on a device: UBIFS on a volume of up to `lebs` LEBs, JFFS2 on the whole device.
    ///
    /// # Errors
    /// Reason why the filesystem is impossible, as text.
    pub fn make<D: BaseDevice>(
        &self,
        mtd: D,
        now: Instant,
        lebs: u32,
    ) -> Result<Box<dyn OnDevice<D>>, String> {
        match self {
            Self::Ubifs(layers) => layers.make(mtd, now, lebs),
            Self::Jffs2(_) if mtd.geometry().blocks() < JFFS2_BLOCKS_MIN => Err(format!(
                "{}, and Linux mounts no JFFS2 of fewer than {JFFS2_BLOCKS_MIN}",
                count(mtd.geometry().blocks().into(), "eraseblock")
            )),
            // The first mount of JFFS2 erases eraseblocks before it writes to them.
            Self::Jffs2(options) => match Jffs2::mount(mtd, now, options) {
                Ok(fs) => Ok(Box::new(fs)),
                Err((error, _)) => Err(error.to_string()),
            },
        }
    }

    /// Attaches and mounts, as after power-on. The error includes the device. If there is an attach, `attached` is called
    /// after it.
    ///
    /// # Errors
    /// Reason why it cannot be mounted, as text.
    pub fn mount<D: BaseDevice>(
        &self,
        mtd: D,
        now: Instant,
        attached: &mut dyn FnMut(&mut D, Instant),
    ) -> Result<Box<dyn OnDevice<D>>, (String, D)> {
        match self {
            Self::Ubifs(layers) => layers.mount(mtd, now, attached),
            Self::Jffs2(options) => match Jffs2::mount(mtd, now, options) {
                Ok(fs) => Ok(Box::new(fs)),
                Err((error, mtd)) => Err((format!("JFFS2 does not mount: {error}"), mtd)),
            },
        }
    }
}

impl UbifsLayers {
    /// Formats a device for UBI, and creates one volume with a filesystem.
    fn make<D: BaseDevice>(&self, mtd: D, now: Instant, lebs: u32) -> Result<Box<dyn OnDevice<D>>, String> {
        let format = UbiFormat { now, ..UbiFormat::default() };
        let (mtd, now) = Ubi::format(mtd, &format).map_err(|(error, _)| error.to_string())?;
        let attach = AttachOptions { now, ..self.attach.clone() };
        let mut ubi = Ubi::attach(mtd, &attach).map_err(|error| error.fault.to_string())?;
        let volumes = if self.second_volume { 2 } else { 1 };
        let lebs = lebs.min(ubi.info().available_lebs / volumes);
        if lebs == 0 {
            return Err("the flash is too small for UBI: its own eraseblocks and the reserve for bad ones leave no LEB for a volume".to_owned());
        }
        if self.second_volume {
            let second = self.format(ubi, SECOND_VOLUME, lebs)?;
            ubi = second.unmount().map_err(|(error, _)| error.to_string())?.into_ubi();
        }
        Ok(Box::new(self.format(ubi, VOLUME, lebs)?))
    }

    /// Creates a volume with a filesystem.
    fn format<D: BaseDevice>(&self, mut ubi: Ubi<D>, name: &[u8], lebs: u32) -> Result<OnUbi<D>, String> {
        let id = ubi.create_volume(&NewVolume::dynamic(name, lebs)).map_err(|error| error.to_string())?;
        let volume = ubi.open_volume(id).map_err(|(error, _)| error.to_string())?;
        let format = FormatOptions { max_lebs: Some(lebs), ..self.format.clone() };
        let made = Ubifs::format(volume, &format, self.behaviour);
        let mut fs = made.map_err(|(error, _)| error.to_string())?;
        fs.sync().map_err(|error| error.to_string())?;
        Ok(fs)
    }

    /// Attaches and mounts. The error includes the device.
    fn mount<D: BaseDevice>(
        &self,
        mtd: D,
        now: Instant,
        attached: &mut dyn FnMut(&mut D, Instant),
    ) -> Result<Box<dyn OnDevice<D>>, (String, D)> {
        let mut ubi = Ubi::attach(mtd, &AttachOptions { now, ..self.attach.clone() })
            .map_err(|error| (format!("UBI does not attach: {}", error.fault), error.mtd))?;
        let now = ubi.now();
        attached(ubi.mtd_mut(), now);
        if self.second_volume {
            let second = self.open(ubi, SECOND_VOLUME)?;
            let unmounted = second.unmount().map_err(|(error, volume)| {
                (format!("UBIFS does not unmount: {error}"), volume.into_ubi().into_mtd())
            });
            ubi = unmounted?.into_ubi();
        }
        Ok(Box::new(self.open(ubi, VOLUME)?))
    }

    /// Mounts the filesystem of a volume. The error includes the device.
    fn open<D: BaseDevice>(&self, ubi: Ubi<D>, name: &[u8]) -> Result<OnUbi<D>, (String, D)> {
        let Some(id) = ubi.id_of(name) else {
            return Err(("the volume has gone".to_owned(), ubi.into_mtd()));
        };
        let volume = match ubi.open_volume(id) {
            Ok(volume) => volume,
            Err((error, ubi)) => return Err((format!("the volume does not open: {error}"), ubi.into_mtd())),
        };
        let options = MountOptions { read_only: false, recover: true, ..MountOptions::default() };
        Ubifs::mount(volume, &options, self.behaviour).map_err(|(error, volume)| {
            (format!("UBIFS does not mount: {error}"), volume.into_ubi().into_mtd())
        })
    }
}

/// Creates a filesystem on the flash of a rig.
///
/// # Errors
/// Reason why the filesystem is impossible.
pub fn make(rig: Rig, layers: &Layers) -> Result<Box<dyn OnDevice<Box<dyn Device>>>, Error> {
    let Rig { mut device, chip, .. } = rig;
    let now = device.host().now();
    make_on(&chip, device, now, layers)
}

/// Creates a filesystem on a device, as [`make`]. `chip` is the name of the chip for messages.
///
/// # Errors
/// The errors of [`make`].
pub fn make_on<D: BaseDevice>(
    chip: &str,
    device: D,
    now: Instant,
    layers: &Layers,
) -> Result<Box<dyn OnDevice<D>>, Error> {
    let bytes = device.geometry().erase_bytes;
    if bytes < MIN_LEB_BYTES && matches!(layers, Layers::Ubifs(_)) {
        let message =
            format!("{chip}: eraseblocks of {bytes} B, and UBIFS takes LEBs of {MIN_LEB_BYTES} B and more");
        return Err(Error::request(message, too_small()));
    }
    let made = layers.make(device, now, u32::MAX);
    made.map_err(|why| Error::request(format!("{chip}: {why}"), other_flash()))
}

/// Advice for eraseblocks that are too small.
pub fn too_small() -> Advice {
    advice! { "on SPI NOR set ", set("driver.erase_bytes", "64KiB"), ": sectors as Linux takes them without CONFIG_MTD_SPI_NOR_USE_4K_SECTORS" }
}

/// Advice for other reasons why a filesystem is impossible.
pub fn other_flash() -> Advice {
    advice! { "set another chip (", set("chip", "NAME"), "), a larger partition, or on MLC ", set("partition.slc", "true") }
}

/// Advice for chips on which JFFS2 is impossible.
pub fn other_chip() -> Advice {
    advice! { "set another chip (", set("chip", "NAME"), ") or a larger partition, or take UBIFS" }
}

/// Error for a filesystem failure during `what`.
pub fn failed(what: &str) -> impl Fn(fs::Error) -> Error {
    let what = what.to_owned();
    move |error| Error::request(format!("{what}: {error}"), "choose a larger chip or partition")
}
