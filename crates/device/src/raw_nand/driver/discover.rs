//! Identification of the chips on the bus, from the bytes that they return.

use super::info::ChipInfo;
use crate::raw_nand::bus::{Address, Instr, NandBus, NandError};
use crate::raw_nand::command as c;
use crate::raw_nand::spec::{NandEcc, RawNandSpec};
use crate::raw_nand::timing::{DataInterface, T_FEAT, T_RST_MAX, T_RST_POWER_ON_MAX};
use crate::timeline::Host;
use floatgate_media::jedec::{self, JedecPage};
use floatgate_media::nand_id::NandId;
use floatgate_media::onfi::{self, OnfiExtendedPage, OnfiPage};
use floatgate_mtd::{ErrorKind, Nanos};

/// Number of copies of a parameter page that are read (ONFI 4.2 section 5.7: at least three).
const COPIES: usize = 3;
/// Maximum tR while the chip's tR is unknown (ONFI 4.2 section 4.19: READ PARAMETER PAGE).
const T_R_UNKNOWN: Nanos = Nanos::from_us(200);

/// Resets the selected target.
pub(super) fn reset<B: NandBus>(bus: &mut B, host: &mut Host, timeout: Nanos) -> Result<(), NandError> {
    bus.exec(host, &mut [Instr::Cmd(c::RESET), Instr::Wait(timeout)])
}

/// Resets every target after power-on.
pub(super) fn reset_all<B: NandBus>(bus: &mut B, host: &mut Host, targets: u32) -> Result<(), NandError> {
    for target in 0..targets {
        bus.select(target as u8);
        reset(bus, host, T_RST_POWER_ON_MAX)?;
    }
    bus.select(0);
    Ok(())
}

/// Executes READ ID at `address`.
fn read_id<B: NandBus>(bus: &mut B, host: &mut Host, address: u8, out: &mut [u8]) -> Result<(), NandError> {
    bus.exec(host, &mut [Instr::Cmd(c::READ_ID), Instr::Addr(Address::byte(address)), Instr::RegIn(out)])
}

fn read_parameters<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    address: u8,
    out: &mut [u8],
) -> Result<(), NandError> {
    let address = Instr::Addr(Address::byte(address));
    bus.exec(
        host,
        &mut [Instr::Cmd(c::READ_PARAMETER_PAGE), address, Instr::Wait(T_R_UNKNOWN), Instr::RegIn(out)],
    )
}

/// Executes GET FEATURES on the selected target.
pub(super) fn get_feature<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    feature: u8,
) -> Result<[u8; 4], NandError> {
    let mut out = [0; 4];
    let address = Instr::Addr(Address::byte(feature));
    bus.exec(
        host,
        &mut [Instr::Cmd(c::GET_FEATURES), address, Instr::Wait(T_FEAT_MAX), Instr::RegIn(&mut out)],
    )?;
    Ok(out)
}

/// Executes SET FEATURES on the selected target, with the parameters `first` and three zeros.
pub(super) fn set_feature<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    feature: u8,
    first: u8,
) -> Result<(), NandError> {
    let address = Instr::Addr(Address::byte(feature));
    let parameters = [first, 0, 0, 0];
    bus.exec(
        host,
        &mut [Instr::Cmd(c::SET_FEATURES), address, Instr::RegOut(&parameters), Instr::Wait(T_FEAT_MAX)],
    )
}

/// Timeout for tFEAT, including the bus time until the wait begins.
const T_FEAT_MAX: Nanos = Nanos::from_ns(2 * T_FEAT.as_ns());

/// Error kind for a failed probe.
pub(super) fn kind(error: NandError) -> ErrorKind {
    match error {
        NandError::Chip(violation) => violation.kind(),
        NandError::NotSupported => ErrorKind::Unsupported("the controller cannot do this operation"),
        NandError::Timeout => ErrorKind::Timeout,
        NandError::PowerLost => ErrorKind::PowerLost,
    }
}

/// Resets all targets in SDR mode 0 and identifies the first one. Other targets are counted if they have the same
/// id.
pub(super) fn discover<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    known: &[RawNandSpec],
) -> Result<ChipInfo, ErrorKind> {
    bus.set_interface(host, DataInterface::POWER_ON).map_err(kind)?;
    let id = first_id(bus, host)?;
    let mut info = identify(bus, host, &id, known)?;
    for target in 1..bus.targets() {
        if same_chip(bus, host, target, &id).map_err(kind)? {
            info.geometry.targets += 1;
        }
    }
    bus.select(0);
    check(&info)?;
    Ok(info)
}

/// Id of the first target, which is read twice, because a floating bus does not return the same bytes reliably.
fn first_id<B: NandBus>(bus: &mut B, host: &mut Host) -> Result<[u8; 8], ErrorKind> {
    bus.select(0);
    reset(bus, host, T_RST_POWER_ON_MAX).map_err(kind)?;
    let (mut first, mut id) = ([0; 2], [0; 8]);
    read_id(bus, host, c::MAKER_ID, &mut first).map_err(kind)?;
    read_id(bus, host, c::MAKER_ID, &mut id).map_err(kind)?;
    if first != id[..2] || matches!(first, [0, 0] | [0xFF, 0xFF]) {
        return Err(ErrorKind::DeviceLost);
    }
    Ok(id)
}

fn same_chip<B: NandBus>(bus: &mut B, host: &mut Host, target: u8, id: &[u8; 8]) -> Result<bool, NandError> {
    bus.select(target);
    reset(bus, host, T_RST_POWER_ON_MAX)?;
    let mut other = [0; 2];
    read_id(bus, host, c::MAKER_ID, &mut other)?;
    Ok(other == id[..2])
}

/// Identifies the chip by ONFI page, JEDEC page, catalogue or the encoding of the id bytes, in this order.
fn identify<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    id: &[u8; 8],
    known: &[RawNandSpec],
) -> Result<ChipInfo, ErrorKind> {
    let read = NandId::new(id).map_err(|_| ErrorKind::DeviceLost)?;
    let entry = catalogue_entry(known, id);
    let said = match onfi_info(bus, host, read.bytes()).map_err(kind)? {
        Some(info) => Some(info),
        None => jedec_info(bus, host, read.bytes()).map_err(kind)?,
    };
    match (said, entry) {
        (Some(info), Some(entry)) => Ok(info.completed_by(entry)),
        (Some(info), None) => Ok(info),
        (None, Some(entry)) => Ok(ChipInfo::from_catalogue(read.bytes(), entry)),
        (None, None) => match read.geometry() {
            Ok(geometry) => Ok(ChipInfo::from_id(&read, &geometry)),
            Err(_) => Err(ErrorKind::Unsupported("a NAND chip whose id bytes nobody knows")),
        },
    }
}

/// The catalogue entry whose id bytes match; of several entries, the one with the longest id.
fn catalogue_entry<'a>(known: &'a [RawNandSpec], id: &[u8; 8]) -> Option<&'a RawNandSpec> {
    let matching = known.iter().filter(|spec| spec.answers_to(id));
    matching.max_by_key(|spec| spec.id.len())
}

fn onfi_info<B: NandBus>(bus: &mut B, host: &mut Host, id: &[u8]) -> Result<Option<ChipInfo>, NandError> {
    let mut signature = [0; 4];
    read_id(bus, host, c::ONFI_SIGNATURE, &mut signature)?;
    if &signature != b"ONFI" {
        return Ok(None);
    }
    let mut copies = [0; COPIES * onfi::PAGE_BYTES];
    read_parameters(bus, host, c::ONFI_PAGE, &mut copies)?;
    let Ok(page) = onfi::parse_copies(&copies) else { return Ok(None) };
    let ecc = if page.ecc_bits == 0xFF { extended_ecc(bus, host, &page)? } else { None };
    Ok(Some(ChipInfo::from_onfi(id, &page, ecc)))
}

/// ECC requirement in the extended page, which follows all copies of the parameter page.
fn extended_ecc<B: NandBus>(
    bus: &mut B,
    host: &mut Host,
    page: &OnfiPage,
) -> Result<Option<NandEcc>, NandError> {
    let from = usize::from(page.copies) * onfi::PAGE_BYTES;
    let mut bytes = vec![0; from + page.extended_bytes()];
    read_parameters(bus, host, c::ONFI_PAGE, &mut bytes)?;
    let extended = OnfiExtendedPage::parse(&bytes[from..]).ok().and_then(|extended| extended.ecc);
    Ok(extended.and_then(|ecc| {
        let step_bytes = ecc.codeword_bytes()?;
        Some(NandEcc { strength: u32::from(ecc.bits), step_bytes, on_die: false })
    }))
}

fn jedec_info<B: NandBus>(bus: &mut B, host: &mut Host, id: &[u8]) -> Result<Option<ChipInfo>, NandError> {
    let mut signature = [0; 5];
    read_id(bus, host, c::JEDEC, &mut signature)?;
    if &signature != b"JEDEC" {
        return Ok(None);
    }
    let mut copies = [0; COPIES * jedec::PAGE_BYTES];
    read_parameters(bus, host, c::JEDEC, &mut copies)?;
    let page: Option<JedecPage> = jedec::parse_copies(&copies).ok();
    Ok(page.map(|page| ChipInfo::from_jedec(id, &page)))
}

/// Rejects sizes that no driver can handle, because parameter pages are untrusted bytes.
fn check(info: &ChipInfo) -> Result<(), ErrorKind> {
    let g = &info.geometry;
    let pages =
        (u64::from(g.pages_per_block) * u64::from(g.blocks_per_lun)).saturating_mul(u64::from(g.luns));
    let sane = (256..=65_536).contains(&g.page_bytes)
        && g.page_bytes.is_power_of_two()
        && (8..=g.page_bytes).contains(&g.oob_bytes)
        && (2..=4096).contains(&g.pages_per_block)
        && (1..=8).contains(&g.luns)
        && (1..1 << 28).contains(&pages)
        && u64::from(g.pages_per_block) * u64::from(g.page_bytes) < 1 << 31
        && info.marker.byte(g) < g.oob_bytes
        && (1..=65_536).contains(&info.ecc.step_bytes);
    if sane { Ok(()) } else { Err(ErrorKind::Unsupported("a chip that claims impossible sizes")) }
}

/// Maximum reset time of a chip after an operation.
pub(super) const T_RST: Nanos = T_RST_MAX;
