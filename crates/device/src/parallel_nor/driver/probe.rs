//! Identification of the chip, from the bytes of its CFI query alone.

use super::{CfiDriver, Options, Times};
use crate::host::HostProfile;
use crate::parallel_nor::bus::NorMem;
use crate::parallel_nor::command::{QUERY, QUERY_AT, amd, intel};
use crate::parallel_nor::erase_map::EraseMap;
use crate::parallel_nor::spec::CommandSet;
use crate::timeline::Host;
use crate::violation::Violation;
use floatgate_media::MediaError;
use floatgate_media::cfi::{BusView, Cfi, CfiIdentification, Extended, parse};
use floatgate_mtd::{FlashKind, Geometry, Instant, Nanos};

/// Number of device addresses to read: the query, the extended tables and the data to which they point (P30:
/// extended table at 10Ah).
const QUERY_DEVICE_ADDRESSES: usize = 0x180;

/// Minimum timeout of a buffer program in Linux, in case the query is wrong.
const BUFFER_TIMEOUT_MIN: Nanos = Nanos::from_ms(2);

/// Typical and maximum time of a word program if the query states none (Linux cfi_cmdset_0001).
const UNKNOWN_WORD: (Nanos, Nanos) = (Nanos::from_ms(50), Nanos::from_ms(400));
const UNKNOWN_ERASE: (Nanos, Nanos) = (Nanos::from_ms(2000), Nanos::from_ms(16_000));

/// Properties of the chip found by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Command set of the chip.
    pub command_set: CommandSet,
    /// Maker's code and device code; for the extended device code 7Eh also the codes at 0Eh and 0Fh.
    pub id: Vec<u16>,
    /// Mapping of query addresses to the bus.
    pub view: BusView,
    /// The chip's answer to the CFI query.
    pub cfi: Cfi,
    /// True if an erase may be suspended for reads.
    pub erase_suspend: bool,
    /// True if a program may be suspended for reads.
    pub program_suspend: bool,
    /// True if blocks are locked at power-on and unlocked individually (command set 0001).
    pub instant_lock: bool,
    /// Number of one-time-programmable bytes of the maker and of the user.
    pub otp_bytes: [u32; 2],
    /// Command set 0001: device address of the protection register's lock word.
    pub otp_lock_word: u32,
}

/// Reason why the driver cannot use the chip.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No chip answers a CFI query.
    #[error("nothing on this bus answers a CFI query")]
    NoChip,
    /// The CFI query is malformed.
    #[error("the CFI query is not well-formed: {0}")]
    BadQuery(#[from] MediaError),
    /// The driver does not support the command set in the query.
    #[error("command set {0:#06x} is not supported (0001 and 0002 are)")]
    CommandSet(u16),
    /// Sizes in the query contradict each other.
    #[error("the erase regions of the CFI query hold {regions} bytes, the chip {size}")]
    Sizes {
        /// Total size of all erase regions, bytes.
        regions: u64,
        /// Size of the chip, bytes.
        size: u64,
    },
    /// The simulated chip rejected a command.
    #[error("the chip refuses: {0}")]
    Refused(#[from] Violation),
}

impl<B: NorMem> CfiDriver<B> {
    /// Identifies the chip on the bus. The driver's clock starts at `now`.
    ///
    /// # Errors
    /// [`ProbeError`] if no chip answers, or if the driver cannot use the chip.
    pub fn probe(
        mut bus: B,
        now: Instant,
        profile: HostProfile,
        options: Options,
    ) -> Result<Self, ProbeError> {
        let mut host = Host::default();
        host.resume(now);
        let (view, bytes) = read_query(&mut bus, &mut host)?;
        let mut cfi = parse(&bytes, view)?;
        let identity = identify(&mut bus, &mut host, view, &mut cfi)?;
        let map = EraseMap::new(cfi.regions.iter().map(|r| (r.blocks(), r.block_bytes())));
        let size = cfi.identification.chip_bytes().unwrap_or(0);
        if map.size() != size || size == 0 || size > 1 << 31 {
            return Err(ProbeError::Sizes { regions: map.size(), size });
        }
        let word = bus.word_bytes();
        let buffer = cfi.identification.buffer_bytes().filter(|_| options.buffered);
        let line = buffer.and_then(|n| u32::try_from(n).ok()).unwrap_or(word).max(word);
        let geometry = geometry(&map, line);
        let times = times(&cfi.identification);
        let stride = view.offset(1) as u32;
        let shows_status = false;
        let mut driver =
            Self { bus, host, profile, options, identity, geometry, map, times, line, stride, shows_status };
        driver.unlock_all()?;
        Ok(driver)
    }

    /// Sets up the same chip again after power-on.
    pub(super) fn set_up_again(&mut self) -> Result<(), Violation> {
        self.shows_status = false;
        self.unlock_all()
    }

    /// Unlocks chips that power up locked, as Linux does (MTD_POWERUP_LOCK).
    fn unlock_all(&mut self) -> Result<(), Violation> {
        if !self.identity.instant_lock {
            return Ok(());
        }
        for block in self.map.within(0, self.map.size()) {
            self.bus.command(&mut self.host, block.start, intel::LOCK_SETUP)?;
            self.bus.command(&mut self.host, block.start, intel::CONFIRM)?;
        }
        self.bus.command(&mut self.host, 0, intel::READ_ARRAY)
    }
}

/// Tries every query view that fits the width of the bus, and reads the query of the first one that answers.
fn read_query<B: NorMem>(bus: &mut B, host: &mut Host) -> Result<(BusView, Vec<u8>), ProbeError> {
    let views: &[BusView] =
        if bus.word_bytes() == 2 { &[BusView::X16] } else { &[BusView::X16AsX8, BusView::X8] };
    for &view in views {
        // The chip is not known yet, so the reset commands of both command sets are sent; one of them is
        // invalid for it.
        for reset in [amd::RESET, intel::READ_ARRAY] {
            let _ = bus.command(host, 0, reset);
        }
        if bus.command(host, view.offset(QUERY_AT as usize) as u32, QUERY).is_err() {
            continue;
        }
        let mut bytes = vec![0; view.offset(QUERY_DEVICE_ADDRESSES)];
        bus.read(host, 0, &mut bytes)?;
        if b"QRY".iter().zip(0x10..).all(|(&want, at)| bytes[view.offset(at)] == want) {
            return Ok((view, bytes));
        }
    }
    Err(ProbeError::NoChip)
}

/// Leaves the query mode, reads the id codes, and evaluates the extended table.
fn identify<B: NorMem>(
    bus: &mut B,
    host: &mut Host,
    view: BusView,
    cfi: &mut Cfi,
) -> Result<Identity, ProbeError> {
    let base = Identity {
        command_set: CommandSet::Amd,
        id: Vec::new(),
        view,
        cfi: *cfi,
        erase_suspend: false,
        program_suspend: false,
        instant_lock: false,
        otp_bytes: [0; 2],
        otp_lock_word: 0,
    };
    match cfi.identification.command_set {
        1 => identify_intel(bus, host, base),
        2 => {
            order_regions(cfi);
            identify_amd(bus, host, Identity { cfi: *cfi, ..base })
        }
        other => Err(ProbeError::CommandSet(other)),
    }
}

/// Reorders the regions: tables of command set 0002 list the boot blocks first even if they are at the top
/// (flag 3).
fn order_regions(cfi: &mut Cfi) {
    if let Some(Extended::Amd { table, .. }) = &cfi.extended
        && table.v11.is_some_and(|v| v.boot == 3)
    {
        let mut reversed: Vec<_> = cfi.regions.iter().copied().collect();
        reversed.reverse();
        cfi.regions = floatgate_media::List::from_slice(&reversed).unwrap_or_default();
    }
}

fn code<B: NorMem>(bus: &mut B, host: &mut Host, view: BusView, device: usize) -> Result<u16, Violation> {
    let mut word = [0; 2];
    let width = bus.word_bytes() as usize;
    bus.read(host, view.offset(device) as u32, &mut word[..width])?;
    Ok(u16::from_le_bytes(word))
}

fn identify_intel<B: NorMem>(
    bus: &mut B,
    host: &mut Host,
    mut found: Identity,
) -> Result<Identity, ProbeError> {
    bus.command(host, 0, intel::READ_ID)?;
    found.id = vec![code(bus, host, found.view, 0)?, code(bus, host, found.view, 1)?];
    bus.command(host, 0, intel::READ_ARRAY)?;
    found.command_set = CommandSet::Intel;
    if let Some(Extended::Intel { table, protection, .. }) = &found.cfi.extended {
        found.erase_suspend = table.features & 1 << 1 != 0;
        found.program_suspend = table.features & 1 << 2 != 0;
        found.instant_lock = table.features & 1 << 5 != 0;
        if let Some(register) = protection {
            let bytes = |exponent: u8| if exponent == 0 { 0 } else { 1 << exponent.min(16) };
            found.otp_bytes = [bytes(register.factory_exponent), bytes(register.user_exponent)];
            found.otp_lock_word = register.lock_at.into();
        }
    }
    Ok(found)
}

fn identify_amd<B: NorMem>(
    bus: &mut B,
    host: &mut Host,
    mut found: Identity,
) -> Result<Identity, ProbeError> {
    let view = found.view;
    let first = view.offset(amd::UNLOCK_1_AT as usize) as u32;
    let second = if view == BusView::X16AsX8 {
        amd::UNLOCK_2_AT_BYTE
    } else {
        view.offset(amd::UNLOCK_2_AT as usize) as u32
    };
    for (addr, command) in
        [(0, amd::RESET), (first, amd::UNLOCK_1), (second, amd::UNLOCK_2), (first, amd::AUTOSELECT)]
    {
        bus.command(host, addr, command)?;
    }
    found.id = vec![code(bus, host, view, 0)?, code(bus, host, view, 1)?];
    let extended = found.id[1] & 0xFF == 0x7E;
    if extended {
        found.id.extend([code(bus, host, view, 0x0E)?, code(bus, host, view, 0x0F)?]);
    }
    let by_maker = code(bus, host, view, 3)? & 0x80 != 0;
    bus.command(host, 0, amd::RESET)?;
    if let Some(Extended::Amd { table, .. }) = &found.cfi.extended {
        found.erase_suspend = table.base.erase_suspend > 0;
        found.program_suspend = table.program_suspend.is_some_and(|p| p > 0);
        // Before version 1.5 the table does not state the size. Chips with an extended id (S29GL, M29EW) have
        // 256 bytes.
        let otp = match table.v15 {
            Some(v15) if v15.secure_exponent == 0 => 0,
            Some(v15) => 1 << v15.secure_exponent.min(16),
            None if extended => 256,
            None => 0,
        };
        found.otp_bytes = if by_maker { [otp, 0] } else { [0, otp] };
    }
    Ok(found)
}

fn times(cfi: &CfiIdentification) -> Times {
    let us = |value: Option<u64>| value.map(Nanos::from_us);
    let ms = |value: Option<u64>| value.map(Nanos::from_ms);
    let pair = |typ: Option<Nanos>, max: Option<Nanos>, unknown: (Nanos, Nanos)| match (typ, max) {
        (Some(typ), Some(max)) => (typ, max),
        (Some(typ), None) => (typ, typ * 8),
        (None, _) => unknown,
    };
    let word = pair(us(cfi.word_us()), us(cfi.word_max_us()), UNKNOWN_WORD);
    let buffer = pair(us(cfi.buffer_us()), us(cfi.buffer_max_us()), UNKNOWN_WORD);
    let erase = pair(ms(cfi.block_erase_ms()), ms(cfi.block_erase_max_ms()), UNKNOWN_ERASE);
    let chip_erase =
        pair(ms(cfi.chip_erase_ms()), ms(cfi.chip_erase_max_ms()), (erase.0 * 512, erase.1 * 512));
    Times {
        word: (word.0, word.1.max(BUFFER_TIMEOUT_MIN)),
        buffer: (buffer.0, buffer.1.max(BUFFER_TIMEOUT_MIN)),
        erase,
        chip_erase,
    }
}

fn geometry(map: &EraseMap, line: u32) -> Geometry {
    Geometry { buffer_bytes: line, ..Geometry::plain(FlashKind::Nor, map.size(), map.largest(), 1) }
}
