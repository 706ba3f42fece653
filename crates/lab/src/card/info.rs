//! The statements of a card about itself: its registers as a host reads them, and how long its requests may take.

use super::LoadedCard;
use crate::Error;
use floatgate_card::protocol::{Protocol, Step};
use floatgate_card::sdio::IoView;
use floatgate_card::{CardOptions, CardRegisters, CardSpec, IoFunctionSpec};
use floatgate_media::MediaError;
use floatgate_media::sd::{CardType, Cid, Csd, ExtCsd, Scr, Ssr, parse_hex};
use floatgate_mtd::{Nanos, SECTOR_BYTES};
use serde::Serialize;

/// A register as a host reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Register {
    /// Name of the file in which Linux shows it.
    pub name: &'static str,
    /// Content of the file: hexadecimal digits, or the word of `type`.
    pub text: String,
}

/// Identification, decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Number of the manufacturer.
    pub manufacturer_id: u8,
    /// Letters of the maker or brand.
    pub oem: String,
    /// Product name.
    pub name: String,
    /// Revision, as n.m.
    pub revision: String,
    /// Serial number.
    pub serial: u32,
    /// Year of manufacture.
    pub year: u16,
    /// Month of manufacture.
    pub month: u8,
}

/// SCR and SSR of an SD card, decoded. 0 stands for what the card does not state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SdStatement {
    /// Version of the specification.
    pub specification: &'static str,
    /// Speed class, MB/s.
    pub speed_class: u8,
    /// UHS speed grade: 1 for 10 MB/s, 3 for 30 MB/s.
    pub uhs_grade: u8,
    /// Video speed class, MB/s.
    pub video_class: u8,
    /// Application performance class.
    pub app_class: u8,
    /// Allocation unit in bytes.
    pub au_bytes: u64,
    /// Allocation unit in UHS modes, in bytes.
    pub uhs_au_bytes: u64,
    /// Allocation units that are erased within `erase_timeout_s`.
    pub erase_aus: u16,
    /// Erase timeout in s.
    pub erase_timeout_s: u8,
    /// Time in s that each erase request may take beside it.
    pub erase_offset_s: u8,
}

/// EXT_CSD of an eMMC, decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MmcStatement {
    /// Revision of EXT_CSD: 8 for eMMC 5.1.
    pub revision: u8,
    /// Erase group in bytes.
    pub erase_group_bytes: u64,
    /// Time to erase a group, ms.
    pub erase_timeout_ms: u64,
    /// Time to trim, ms.
    pub trim_timeout_ms: u64,
    /// Volatile cache in bytes.
    pub cache_bytes: u64,
    /// Size of a write that suits the memory, in bytes.
    pub optimal_write_bytes: u64,
    /// Time to finish before power goes away, ms.
    pub power_off_ms: u64,
    /// State of the spare blocks: 1 normal, 2 and 3 for 80 % and 90 % used.
    pub pre_eol: u8,
    /// Life used of MLC or TLC, in tenths from 1.
    pub life: u8,
    /// Each of the two boot partitions, in bytes.
    pub boot_bytes: u64,
    /// Replay protected memory block, in bytes.
    pub rpmb_bytes: u64,
    /// Largest area that can hold one bit a cell (enhanced area, pSLC), in bytes; 0 for none.
    pub enhanced_bytes_max: u64,
    /// Area that holds one bit a cell, in bytes.
    pub enhanced_bytes: u64,
    /// True when the card has background work (BKOPS) that hosts know of.
    pub has_background: bool,
    /// True when it does this work by itself.
    pub is_background_automatic: bool,
}

/// Times that the specifications and the registers allow for a request, us.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Until the first block of a read is there, us.
    pub read_us: f64,
    /// Busy with a block that was written, us.
    pub write_us: f64,
    /// Busy with the erase of an allocation unit, us.
    pub erase_us: f64,
}

/// Supply of a card.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SupplyFacts {
    /// Power while it programs on all dies and the interface works, mW.
    pub program_mw: f64,
    /// Power while it waits, mW.
    pub idle_mw: f64,
    /// Power while it sleeps, mW.
    pub sleep_mw: f64,
    /// Power that the supply delivers, mW; absent where it has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_mw: Option<f64>,
    /// Time that the card goes on after it was pulled out, us.
    pub hold_up_us: f64,
    /// Time within which the map is rebuilt after any loss of power, us: a bound.
    pub power_on_bound_us: f64,
}

/// The flash inside a card, which no register states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlashFacts {
    /// Number of blocks, each over all planes and dies.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes of a page over all planes.
    pub page_bytes: u64,
    /// Bytes of the spare area of a page that a BCH code of the card's strength needs.
    pub page_ecc_bytes: u64,
    /// Planes over which a page lies.
    pub planes: u32,
    /// Dies that work at the same time.
    pub dies: u32,
    /// Bits of a cell.
    pub bits_per_cell: u8,
    /// Blocks with one bit a cell for good (enhanced area, pSLC).
    pub enhanced_blocks: u64,
}

/// Bytes that a BCH code needs to correct `strength` bits of a step: m bits for each of them, where 2^m - 1 bits hold data and parity.
fn bch_bytes(strength: u64, step_bytes: u64) -> u64 {
    let fits = |m: &u64| step_bytes * 8 + m * strength < 1 << m;
    let m = (5..32).find(fits).unwrap_or(32);
    (m * strength).div_ceil(8)
}

fn flash(spec: &CardSpec) -> FlashFacts {
    let step_bytes = u64::from(spec.wear.ecc_step_bytes);
    let ecc = bch_bytes(spec.wear.ecc_strength.into(), step_bytes);
    FlashFacts {
        blocks: spec.blocks(),
        block_bytes: spec.au_bytes,
        page_bytes: spec.page_bytes,
        page_ecc_bytes: spec.page_bytes.div_ceil(step_bytes.max(1)) * ecc,
        planes: spec.planes,
        dies: spec.dies,
        bits_per_cell: spec.bits_per_cell,
        enhanced_blocks: spec.enhanced_blocks(),
    }
}

/// All that a card states.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CardInfo {
    /// Maker and name of the part.
    pub card: String,
    /// Description in one line.
    pub title: String,
    /// Registers with their fields.
    pub registers: Vec<Register>,
    /// Identification from CID.
    pub identity: Identity,
    /// Capacity that the registers state, in bytes.
    pub capacity_bytes: u64,
    /// Capacity of the memory, in bytes, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real_bytes: Option<u64>,
    /// Statements of SCR and SSR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd: Option<SdStatement>,
    /// Statements of EXT_CSD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mmc: Option<MmcStatement>,
    /// SDIO function beside the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_function: Option<IoFunctionSpec>,
    /// SDIO functions as a host's driver finds them by CMD52 and CMD53.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoView>,
    /// Times that a request may take.
    pub limits: Limits,
    /// Supply and energy.
    pub power: SupplyFacts,
    /// The flash inside.
    pub flash: FlashFacts,
    /// Commands with which a host brings it up, with answers and states; empty in SPI mode.
    pub bring_up: Vec<Step>,
}

/// Reads the registers of a card as a host does.
///
/// # Errors
/// Registers that cannot be decoded, which is a fault of this program.
pub fn info(card: &LoadedCard) -> Result<CardInfo, Error> {
    let registers = CardRegisters::of(&card.spec);
    let files: Vec<Register> =
        registers.files().into_iter().map(|(name, text)| Register { name, text }).collect();
    let decoded = Decoded::of(&files, registers.kind)
        .map_err(|error| Error::request(error.to_string(), "this is a bug in floatgate: please report it"))?;
    let capacity_bytes = decoded.capacity_bytes();
    let limits = card.spec.request_limits();
    let (steps, io) = bring_up(card)?;
    Ok(CardInfo {
        card: card.name(),
        title: card.part.title.clone(),
        identity: identity(&decoded.cid()),
        capacity_bytes,
        real_bytes: Some(card.spec.capacity_bytes).filter(|real| *real != capacity_bytes),
        sd: decoded.scr.zip(decoded.ssr).map(|(scr, ssr)| sd(&scr, &ssr)),
        mmc: decoded.ext_csd.map(|ext_csd| mmc(&ext_csd)),
        io_function: registers.io_function,
        io,
        limits: Limits {
            read_us: limits.read.as_us_f64(),
            write_us: limits.write.as_us_f64(),
            erase_us: limits.erase.as_us_f64(),
        },
        power: power(card),
        flash: flash(&card.spec),
        bring_up: steps,
        registers: files,
    })
}

/// Commands of a host that brings the card up, and what its driver then finds of SDIO functions.
fn bring_up(card: &LoadedCard) -> Result<(Vec<Step>, Option<IoView>), Error> {
    if card.spec.bus == floatgate_card::BusMode::Spi {
        return Ok((Vec::new(), None));
    }
    let options = CardOptions { seed: 0, stores: true };
    let mut protocol = Protocol::in_small(&card.spec, options).map_err(|bad| {
        Error::request(format!("in small, this card is impossible: {bad}"), "set another value")
    })?;
    let steps = protocol.bring_up();
    Ok((steps, protocol.io_view()))
}

/// Registers that were read back from their files.
struct Decoded {
    cid: Cid,
    csd: Csd,
    scr: Option<Scr>,
    ssr: Option<Ssr>,
    ext_csd: Option<ExtCsd>,
}

impl Decoded {
    fn of(files: &[Register], kind: CardType) -> Result<Self, MediaError> {
        let text = |name: &str| files.iter().find(|file| file.name == name).map(|file| file.text.as_str());
        let needed = |name: &str| text(name).unwrap_or_default();
        Ok(Self {
            cid: Cid::parse(&parse_hex(needed("cid"))?, kind),
            csd: Csd::parse(&parse_hex(needed("csd"))?, kind)?,
            scr: text("scr").map(parse_hex).transpose()?.map(|bytes| Scr::parse(&bytes)),
            ssr: text("ssr").map(parse_hex).transpose()?.map(|bytes| Ssr::parse(&bytes)),
            ext_csd: text("ext_csd").map(parse_hex).transpose()?.map(|bytes| ExtCsd::parse(&bytes)),
        })
    }

    fn cid(&self) -> Cid {
        self.ext_csd.map_or(self.cid, |ext_csd| self.cid.of_revision(ext_csd.revision))
    }

    fn capacity_bytes(&self) -> u64 {
        let of_ext_csd = self.ext_csd.map_or(0, |ext_csd| u64::from(ext_csd.sectors) * SECTOR_BYTES as u64);
        self.csd.capacity_bytes.unwrap_or(of_ext_csd)
    }
}

fn identity(cid: &Cid) -> Identity {
    Identity {
        manufacturer_id: cid.manufacturer_id,
        oem: cid.oem.to_string().trim().to_owned(),
        name: cid.name.to_string(),
        revision: format!("{}.{}", cid.revision >> 4, cid.revision & 0xF),
        serial: cid.serial,
        year: cid.year,
        month: cid.month,
    }
}

fn sd(scr: &Scr, ssr: &Ssr) -> SdStatement {
    SdStatement {
        specification: scr.version.name(),
        speed_class: ssr.speed_class,
        uhs_grade: ssr.uhs_grade,
        video_class: ssr.video_class,
        app_class: ssr.app_class,
        au_bytes: ssr.au_bytes,
        uhs_au_bytes: ssr.uhs_au_bytes,
        erase_aus: ssr.erase.aus,
        erase_timeout_s: ssr.erase.timeout_s,
        erase_offset_s: ssr.erase.offset_s,
    }
}

fn mmc(ext_csd: &ExtCsd) -> MmcStatement {
    MmcStatement {
        revision: ext_csd.revision,
        erase_group_bytes: u64::from(ext_csd.erase_group) * (512 << 10),
        erase_timeout_ms: u64::from(ext_csd.erase_timeout) * 300,
        trim_timeout_ms: u64::from(ext_csd.trim_timeout) * 300,
        cache_bytes: u64::from(ext_csd.cache_kbit) * 128,
        optimal_write_bytes: u64::from(ext_csd.optimal_write) * 4096,
        power_off_ms: u64::from(ext_csd.power_off) * 10,
        pre_eol: ext_csd.pre_eol,
        life: ext_csd.life_b,
        boot_bytes: u64::from(ext_csd.boot) * (128 << 10),
        rpmb_bytes: u64::from(ext_csd.rpmb) * (128 << 10),
        enhanced_bytes_max: u64::from(ext_csd.enhanced_max) * ext_csd.write_protect_bytes(),
        enhanced_bytes: u64::from(ext_csd.enhanced) * ext_csd.write_protect_bytes(),
        has_background: ext_csd.bkops_support & 1 == 1,
        is_background_automatic: ext_csd.bkops_enabled & 2 == 2,
    }
}

pub(super) fn power(card: &LoadedCard) -> SupplyFacts {
    let power = &card.spec.power;
    let mw = |ua: u64| ua as f64 * f64::from(power.supply_mv) / 1e6;
    let [controller, bus, program] = [power.controller_ua, power.bus_ua, power.program_ua].map(u64::from);
    SupplyFacts {
        program_mw: mw(controller + bus + program * u64::from(card.spec.dies)),
        idle_mw: mw(power.idle_ua.into()),
        sleep_mw: mw(power.sleep_ua.into()),
        limit_mw: (power.limit_ua > 0).then(|| mw(power.limit_ua.into())),
        hold_up_us: power.hold_up_us.as_us_f64(),
        power_on_bound_us: Nanos::as_us_f64(card.spec.power_on_bound()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of Linux's generic BCH for 512 and 1024 bytes.
    #[test]
    fn a_code_needs_as_many_bytes_as_linux_says() {
        for (strength, step, bytes) in [(4, 512, 7), (8, 512, 13), (40, 1024, 70), (60, 1024, 105)] {
            assert_eq!(bch_bytes(strength, step), bytes, "{strength} bits of {step} bytes");
        }
    }
}
