//! Registers of a card (CID, CSD, SCR, SSR, EXT_CSD), with the values of its specification.

use crate::bus::BusMode;
use crate::spec::{CardSpec, ClassSpec, IdentitySpec, IoFunctionSpec, PARTITION_UNIT};
use floatgate_media::Text;
use floatgate_media::sd::{CardType, Cid, Csd, EraseTimeout, ExtCsd, Scr, SdVersion, Ssr};
use floatgate_mtd::{Nanos, SECTOR_BYTES};

/// Wear of a card, as fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CardHealth {
    /// Mean cycles of the blocks divided by the rated cycles.
    pub life_used: f64,
    /// Mean cycles of the enhanced area's blocks divided by their rated cycles; `None` without an enhanced area.
    pub enhanced_used: Option<f64>,
    /// Number of failed blocks divided by the number of spare blocks.
    pub spare_used: f64,
}

impl CardHealth {
    /// Used life in the encoding of DEVICE_LIFE_TIME_EST of an eMMC: 1 for up to 10 %, 10 for up to 100 %, 11 for more.
    pub fn life_tenth(&self) -> u8 {
        tenth(self.life_used)
    }

    /// Used life of the blocks with one bit per cell, which are those of the enhanced area, in the encoding of DEVICE_LIFE_TIME_EST.
    /// Without an enhanced area, the same blocks are used with one and with more bits per cell, so both values are equal.
    pub fn enhanced_tenth(&self) -> u8 {
        tenth(self.enhanced_used.unwrap_or(self.life_used))
    }

    /// PRE_EOL_INFO of an eMMC: 1 for normal, 2 from 80 % and 3 from 90 % used spare blocks.
    pub const fn pre_eol(&self) -> u8 {
        match self.spare_used {
            0.9.. => 3,
            0.8.. => 2,
            _ => 1,
        }
    }
}

fn tenth(used: f64) -> u8 {
    1 + (used.clamp(0.0, 1.0) * 10.0) as u8
}

/// Registers of an SD card or eMMC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardRegisters {
    /// Kind of the card.
    pub kind: CardType,
    /// Maker, product and date.
    pub cid: Cid,
    /// Capacity and clock.
    pub csd: Csd,
    /// Version and bus widths of an SD card.
    pub scr: Option<Scr>,
    /// Classes, allocation unit and erase timeout of an SD card.
    pub ssr: Option<Ssr>,
    /// Extended CSD of an eMMC.
    pub ext_csd: Option<ExtCsd>,
    /// SDIO functions beside the memory.
    pub io_function: Option<IoFunctionSpec>,
}

/// Maximum size of an allocation unit in the registers of an SDHC card, B (SD Physical Layer, chapter 4.10.2).
const SDHC_AU_MAX: u64 = 4 << 20;

/// Maximum capacity of an SDHC card, B.
pub(crate) const SDHC_BYTES_MAX: u64 = 32 << 30;

/// Maximum capacity of an SDSC card, B.
pub(crate) const SDSC_BYTES_MAX: u64 = 2 << 30;

impl CardSpec {
    const fn is_uhs(&self) -> bool {
        self.bus.has_uhs()
    }
}

impl CardRegisters {
    /// Registers of a card with this wear. Only an eMMC reports its wear.
    #[must_use]
    pub fn worn(mut self, health: &CardHealth) -> Self {
        if let Some(ext_csd) = &mut self.ext_csd {
            ext_csd.pre_eol = health.pre_eol();
            (ext_csd.life_a, ext_csd.life_b) = (health.enhanced_tenth(), health.life_tenth());
        }
        self
    }

    /// Registers of a new card.
    pub fn of(spec: &CardSpec) -> Self {
        let kind = if spec.is_mmc() { CardType::Mmc } else { CardType::Sd };
        let is_sd = kind == CardType::Sd;
        Self {
            kind,
            cid: cid(&spec.identity),
            csd: csd(spec),
            scr: is_sd.then(|| scr(spec)),
            ssr: is_sd.then(|| ssr(spec)),
            ext_csd: (!is_sd).then(|| ext_csd(spec)),
            io_function: spec.io_function.filter(|_| is_sd),
        }
    }

    /// Name of the kind of the card in Linux (file `type` in sysfs).
    pub const fn type_name(&self) -> &'static str {
        match (self.kind, self.io_function) {
            (CardType::Mmc, _) => "MMC",
            (CardType::Sd, None) => "SD",
            (CardType::Sd, Some(_)) => "SDcombo",
        }
    }

    /// Names and contents of the files in which Linux shows the registers.
    pub fn files(&self) -> Vec<(&'static str, String)> {
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut files = vec![
            ("type", self.type_name().to_owned()),
            ("cid", digits(&self.cid.emit(self.kind))),
            ("csd", digits(&self.csd.emit(self.kind))),
        ];
        files.extend(self.scr.map(|scr| ("scr", digits(&scr.emit()))));
        files.extend(self.ssr.map(|ssr| ("ssr", digits(&ssr.emit()))));
        files.extend(self.ext_csd.map(|ext_csd| ("ext_csd", digits(&ext_csd.emit()))));
        files
    }
}

fn cid(identity: &IdentitySpec) -> Cid {
    let IdentitySpec { manufacturer_id, oem, name, revision, serial, year, month } = identity;
    Cid {
        manufacturer_id: *manufacturer_id,
        // An MMC has only one letter, the last one.
        oem: Text::new(&format!("{oem:>2}")).unwrap_or_default(),
        name: Text::new(name).unwrap_or_default(),
        revision: *revision,
        serial: *serial,
        year: *year,
        month: *month,
    }
}

fn csd(spec: &CardSpec) -> Csd {
    // Codes of SD Physical Layer, chapter 5.3.2, for the current mode of the card.
    let tran_speed = match spec.bus {
        BusMode::Spi | BusMode::Default | BusMode::Hs200 => 0x32,
        BusMode::HighSpeed => 0x5A,
        BusMode::Sdr50 | BusMode::Ddr50 => 0x0B,
        // The codes of the fastest mode with the first row of contacts.
        BusMode::Sdr104 | BusMode::Fd156 | BusMode::Hd312 | BusMode::Fd624 | BusMode::SdExpress => 0x2B,
    };
    // Basic, block read and write, erase, lock; on SD cards also application specific commands and switch.
    let command_classes = if spec.is_mmc() { 0x0F5 } else { 0x5B5 };
    Csd { capacity_bytes: Some(spec.stated_bytes()), tran_speed, command_classes }
}

fn scr(spec: &CardSpec) -> Scr {
    let capacity = spec.stated_bytes();
    let version = match spec.classes {
        // Version 7 introduced SD Express, version 4 UHS-II.
        _ if spec.bus == BusMode::SdExpress => SdVersion { specx: 3, ..SdVersion::V6 },
        ClassSpec { app: 2.., .. } => SdVersion::V6,
        ClassSpec { app, video, .. } if app > 0 || video > 0 => SdVersion::V5,
        _ if spec.bus.has_second_row() => SdVersion { specx: 0, ..SdVersion::V5 },
        _ if spec.is_uhs() || capacity > SDHC_BYTES_MAX => SdVersion::V3_0,
        _ => SdVersion::V2_00,
    };
    let security = if capacity <= SDSC_BYTES_MAX {
        2
    } else if capacity <= SDHC_BYTES_MAX {
        3
    } else {
        4
    };
    // UHS-I cards have CMD20 and CMD23; one and four lines.
    Scr { version, security, bus_widths: 0b101, commands: if spec.is_uhs() { 0b11 } else { 0 } }
}

fn ssr(spec: &CardSpec) -> Ssr {
    let is_sdhc = spec.stated_bytes() <= SDHC_BYTES_MAX;
    let of = |is_stated: bool| if is_stated { spec.au_bytes } else { 0 };
    Ssr {
        bus_width: if spec.bus == BusMode::Spi { 1 } else { 4 },
        speed_class: spec.classes.speed,
        uhs_grade: spec.classes.uhs,
        video_class: spec.classes.video,
        app_class: spec.classes.app,
        au_bytes: if is_sdhc { spec.au_bytes.min(SDHC_AU_MAX) } else { spec.au_bytes },
        uhs_au_bytes: of(spec.classes.uhs > 0),
        video_au_bytes: of(spec.classes.video > 0),
        erase: EraseTimeout::covering(
            spec.timing.t_bers_us.as_ns().div_ceil(1000),
            spec.write_command().as_ns().div_ceil(1000),
        ),
    }
}

/// Time in multiples of `unit`, rounded up to at least 1, as a byte.
fn covering(time: Nanos, unit: Nanos) -> u8 {
    u8::try_from(time.as_ns().div_ceil(unit.as_ns()).max(1)).unwrap_or(u8::MAX)
}

/// Size of an area in write protection groups.
fn in_groups(spec: &CardSpec, bytes: u64) -> u32 {
    let group = u64::from(u8::try_from(spec.au_bytes.div_ceil(512 << 10)).unwrap_or(u8::MAX)) * (512 << 10);
    u32::try_from(bytes / group.max(1)).unwrap_or(u32::MAX).min((1 << 24) - 1)
}

/// Maximum size of the enhanced area in write protection groups: the whole card with one bit per cell.
fn enhanced_max(spec: &CardSpec) -> u32 {
    let all = spec.capacity_bytes.saturating_add(spec.enhanced_loss());
    in_groups(spec, all / u64::from(spec.bits_per_cell.max(1)))
}

fn ext_csd(spec: &CardSpec) -> ExtCsd {
    let pages = spec.buffer_bytes.div_ceil(spec.page_bytes.max(1));
    let wake = spec.power.wake_us.as_ns().div_ceil(100).max(1);
    let byte = |value: u64| u8::try_from(value).unwrap_or(u8::MAX);
    let has_area = spec.mmc.enhanced || spec.enhanced.bytes > 0;
    ExtCsd {
        revision: 8,
        sectors: u32::try_from(spec.stated_bytes() / SECTOR_BYTES as u64).unwrap_or(u32::MAX),
        // High speed at 26 and 52 MHz, DDR at 52 MHz, HS200 at 1.8 V.
        modes: 0b1_0111,
        erase_group: byte(spec.au_bytes.div_ceil(512 << 10)),
        erase_timeout: covering(spec.timing.t_bers_us, Nanos::from_ms(300)),
        trim_timeout: covering(spec.write_command(), Nanos::from_ms(300)),
        sleep_exponent: byte(wake.next_power_of_two().trailing_zeros().into()),
        power_off: covering(spec.timing.t_prog_us * pages, Nanos::from_ms(10)),
        cache_kbit: u32::try_from(spec.buffer_bytes * 8 / 1024).unwrap_or(u32::MAX),
        optimal_write: byte(spec.page_bytes.div_ceil(4096)),
        // Neither life nor spare blocks are used.
        pre_eol: 1,
        life_a: 1,
        life_b: 1,
        boot: byte(spec.mmc.boot_bytes / PARTITION_UNIT),
        rpmb: byte(spec.mmc.rpmb_bytes / PARTITION_UNIT),
        write_protect_group: 1,
        partitioning: if has_area { 0b11 } else { 0 },
        enhanced_max: if has_area { enhanced_max(spec) } else { 0 },
        enhanced: in_groups(spec, spec.enhanced.bytes),
        bkops_support: u8::from(spec.mmc.background),
        bkops_enabled: if spec.mmc.background { 0b10 } else { 0 },
        bkops_status: 0,
    }
}
