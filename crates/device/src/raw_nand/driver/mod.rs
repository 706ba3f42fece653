//! The raw NAND driver: identifies the chip and accesses it only by commands.
//!
//! In order of use: `discover` reads id and parameter pages, `interface` selects the fastest common data interface, `bad` handles
//! bad blocks. `range`, `page`, `planes`, `oob` and `otp` contain the operations.

mod bad;
mod discover;
mod flash_bbt;
mod info;
mod interface;
mod oob;
mod otp;
mod page;
mod planes;
mod range;
mod retry;
mod supported;
#[cfg(test)]
mod tests;

pub use info::{ChipInfo, IdSource};

use super::address::RowMap;
use super::bus::{NandBus, NandChip};
use super::controller::NandController;
use super::spec::RawNandSpec;
use super::timing::DataInterface;
use crate::ecc_engine::{EccEngine, EccProfile, EngineKind};
use crate::host::HostProfile;
use crate::nand::bbt::{BadBlockTable, BlockState};
use crate::nand::ecc::PageEcc;
use crate::nand::span;
use crate::power::Power;
use crate::timeline::Host;
use floatgate_ecc::OobLayout;
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Breakdown, Done, Error, ErrorKind, FlashKind, Geometry, Instant, Mtd, OobMode};
use serde::Deserialize;
use supported::SupportedModes;

/// Source of the driver's bad block information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BadBlocks {
    /// The driver reads the maker's markers at probe.
    #[default]
    Scan,
    /// The driver reads the maker's marker of a block when the block is first erased or checked (Linux:
    /// `NAND_SKIP_BBTSCAN`).
    OnDemand,
    /// The driver reads a table on flash at probe, and creates a missing table from the markers.
    OnFlash,
    /// The driver treats every block as good.
    Ignore,
}

/// Options of the driver: the `[driver]` table of a setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// True to use cached sequential reads, if chip and controller support them. When absent they are used, as in
    /// Linux since 6.3.
    pub continuous: Option<bool>,
    /// True to program several pages with cached programs (Linux does not).
    pub cached_programs: bool,
    /// True to read, program and erase in two planes at once, if a call covers both blocks of a pair (Linux does
    /// not).
    pub multi_plane: bool,
    /// True to read parts of pages by ECC step if software corrects (Linux since 2.6.27: `NAND_SUBPAGE_READ`).
    pub sub_page_reads: bool,
    /// True to read each page back after its program, without ECC, and to compare its data (Linux before 3.7 with
    /// `MTD_NAND_VERIFY_WRITE`).
    pub verify_writes: bool,
    /// Source from which the driver learns which blocks are bad.
    pub bad_blocks: BadBlocks,
}

impl Default for Options {
    /// Options that match the behaviour of Linux.
    fn default() -> Self {
        Self {
            continuous: None,
            cached_programs: false,
            multi_plane: false,
            sub_page_reads: true,
            verify_writes: false,
            bad_blocks: BadBlocks::Scan,
        }
    }
}

/// Reason why the driver cannot use a chip.
pub type ProbeError = Error;

/// Driver of raw NAND chips.
#[derive(Clone, Debug)]
pub struct RawNandDriver<B> {
    bus: B,
    host: Host,
    profile: HostProfile,
    ecc: PageEcc,
    info: ChipInfo,
    interface: DataInterface,
    geometry: Geometry,
    rows: RowMap,
    layout: OobLayout,
    page_shift: u32,
    column_cycles: u8,
    row_cycles: u8,
    small_page: bool,
    /// Number of OOB bytes that every page read transfers for the ECC engine.
    ecc_oob: usize,
    sequential: bool,
    cached_programs: bool,
    multi_plane: bool,
    /// Requested options that cannot be used, with the reason.
    not_given: Vec<String>,
    /// Source of the bad block information.
    bad_blocks: BadBlocks,
    bbt: BadBlockTable,
    /// Copies of the bad block table on flash for each target; empty without such a table.
    copies: Vec<flash_bbt::Copies>,
    /// True if this driver locked the OTP area; the lock cannot be read from the chip.
    otp_locked: bool,
    /// Number of read retries in the current call.
    retries: u32,
    bounce: Vec<u8>,
    /// Number of the page whose corrected data is in `bounce`.
    bounced: Option<u64>,
    /// True if parts of pages are read in ECC steps.
    reads_steps: bool,
    /// True if each programmed page is read back and compared.
    verifies: bool,
    oob: Vec<u8>,
    blank_oob: Vec<u8>,
    /// Buffer for the OOB bytes of a program, including ECC bytes.
    spare: Vec<u8>,
}

impl<C: NandChip> RawNandDriver<NandController<C>> {
    /// Power supply of controller and chips.
    pub const fn power(&self) -> &Power {
        self.bus.power()
    }

    /// Mutable access to the power supply, to cut it.
    pub const fn power_mut(&mut self) -> &mut Power {
        self.bus.power_mut()
    }

    /// Restores power, and sets up the chips again.
    ///
    /// # Errors
    /// The errors of [`RawNandDriver::probe`]; a power cut during the set-up.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.bus.power_on();
        self.set_up_again()
    }
}

impl<B: NandBus> RawNandDriver<B> {
    /// Identifies the chip on `bus`, sets it up, and reads bad block information. `catalogue` contains chip properties that
    /// drivers have beyond those reported by the chips. Time starts at 0.
    ///
    /// # Errors
    /// `DeviceLost` if no chip answers, `Unsupported` for an unsupported chip or ECC, and errors of the bus.
    pub fn probe(
        mut bus: B,
        catalogue: &[RawNandSpec],
        profile: HostProfile,
        ecc: EccProfile,
        options: Options,
    ) -> Result<Self, ProbeError> {
        let mut host = Host::default();
        let info =
            discover::discover(&mut bus, &mut host, catalogue).map_err(|kind| kind.at(0, host.now()))?;
        let interface = interface::choose(&mut bus, &mut host, &info)
            .map_err(|error| discover::kind(error).at(0, host.now()))?;
        let engine = engine(&info, ecc, &profile).map_err(|kind| kind.at(0, host.now()))?;
        let mut driver = Self::build(bus, (host, profile), engine, options, info, interface);
        driver.look_for_bad_blocks()?;
        Ok(driver)
    }

    fn look_for_bad_blocks(&mut self) -> Result<(), Error> {
        match self.bad_blocks {
            BadBlocks::Scan => self.scan_markers(),
            BadBlocks::OnFlash => self.load_flash_table(),
            BadBlocks::OnDemand => {
                self.bbt = BadBlockTable::new(self.geometry.blocks(), BlockState::Unknown);
                Ok(())
            }
            BadBlocks::Ignore => Ok(()),
        }
    }

    /// Sets up the same chips again after power-on. The driver's clock continues.
    fn set_up_again(&mut self) -> Result<(), Error> {
        let chosen = discover::reset_all(&mut self.bus, &mut self.host, self.info.geometry.targets)
            .and_then(|()| interface::choose(&mut self.bus, &mut self.host, &self.info));
        self.interface = chosen.map_err(|error| self.failed(error, 0))?;
        self.bbt = BadBlockTable::new(self.geometry.blocks(), BlockState::Good);
        self.copies.clear();
        self.bounced = None;
        self.otp_locked = false;
        self.look_for_bad_blocks()
    }

    fn build(
        bus: B,
        (host, profile): (Host, HostProfile),
        engine: EccEngine,
        options: Options,
        info: ChipInfo,
        interface: DataInterface,
    ) -> Self {
        let g = info.geometry;
        let layout = engine.code().map_or_else(|| OobLayout::no_ecc(g.oob_bytes), |code| *code.layout());
        let geometry = mtd_geometry(&info, &engine, &layout, bus.sub_page_writes());
        let rows = info.rows();
        let supported = SupportedModes::detect(&info, &bus, &engine, &options);
        Self {
            sequential: options.continuous.unwrap_or(true) && supported.continuous.is_ok(),
            cached_programs: options.cached_programs && supported.cached_programs.is_ok(),
            multi_plane: options.multi_plane && supported.multi_plane.is_ok(),
            not_given: supported.not_in_force(&options),
            ecc_oob: if engine.on_host() { g.oob_bytes as usize } else { 0 },
            bad_blocks: options.bad_blocks,
            bbt: BadBlockTable::new(geometry.blocks(), BlockState::Good),
            copies: Vec::new(),
            otp_locked: false,
            retries: 0,
            bounce: vec![0xFF; g.page_bytes as usize],
            bounced: None,
            verifies: options.verify_writes,
            reads_steps: options.sub_page_reads && engine.kind() == EngineKind::Software && !g.small_page(),
            oob: vec![0xFF; g.oob_bytes as usize],
            spare: vec![0xFF; g.oob_bytes as usize],
            blank_oob: vec![0xFF; g.oob_bytes as usize],
            page_shift: g.page_bytes.trailing_zeros(),
            column_cycles: g.column_cycles(),
            row_cycles: rows.cycles(),
            small_page: g.small_page(),
            profile,
            ecc: PageEcc::new(engine, geometry.size_bytes / u64::from(g.page_bytes), bus.keeps_data()),
            bus,
            host,
            info,
            interface,
            geometry,
            rows,
            layout,
        }
    }

    /// Time at which the driver's last operation ended; after the probe, the time at which the device is ready.
    pub const fn ready_at(&self) -> Instant {
        self.host.now()
    }

    /// Properties of the chip as known to the driver.
    pub const fn info(&self) -> &ChipInfo {
        &self.info
    }

    /// The data interface in use.
    pub const fn interface(&self) -> DataInterface {
        self.interface
    }

    /// Requested driver options that cannot be used, with the reason.
    pub fn not_given(&self) -> &[String] {
        &self.not_given
    }

    /// Layout of ECC bytes and free bytes in the OOB.
    pub const fn oob_layout(&self) -> &OobLayout {
        &self.layout
    }

    /// True if reads of several pages use cached sequential reads.
    pub const fn reads_sequentially(&self) -> bool {
        self.sequential
    }

    /// The ECC engine.
    pub const fn ecc_engine(&self) -> &EccEngine {
        &self.ecc.engine
    }

    /// The controller, for access to state below the driver.
    pub const fn bus(&self) -> &B {
        &self.bus
    }

    /// Mutable access to the controller, to inject faults.
    pub fn bus_mut(&mut self) -> &mut B {
        // The caller may write to the array directly.
        self.ecc.forget_all();
        &mut self.bus
    }

    /// The driver's thread, for its recorded spans.
    pub const fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Locks or unlocks all blocks with the chip's block protection feature (Macronix: A0h).
    ///
    /// # Errors
    /// `Unsupported` if the chip has no block protection.
    pub fn protect(&mut self, now: Instant, locked: bool) -> Result<Done, Error> {
        self.begin(now);
        self.bounced = None;
        let Some(protection) = self.info.protection.filter(|_| self.info.set_features) else {
            return Err(self.error(ErrorKind::Unsupported("this chip has no block protection feature"), 0));
        };
        let first = if locked { protection.lock_all } else { 0 };
        for target in 0..self.info.geometry.targets {
            let at = page::PageAt { addr: 0, target: target as u8, row: 0 };
            self.set_feature_of(at, protection.feature, first)?;
        }
        Ok(Done::clean(self.host.now()))
    }

    /// Starts an MTD call at `now`.
    #[inline]
    fn begin(&mut self, now: Instant) {
        self.retries = 0;
        self.host.resume(now);
        self.profile.call(&mut self.host);
    }

    /// Result of a successful call that ends now.
    #[inline]
    fn done(&self) -> Done {
        Done::clean(self.host.now())
    }
}

/// The ECC engine with its code set up for the chip's pages.
fn engine(info: &ChipInfo, ecc: EccProfile, host: &HostProfile) -> Result<EccEngine, ErrorKind> {
    if ecc.engine == EngineKind::OnDie && !info.ecc.on_die {
        return Err(ErrorKind::Unsupported(
            "this chip does not correct by itself: choose another ECC engine",
        ));
    }
    let mut engine = EccEngine::new(ecc, info.requirement());
    let g = &info.geometry;
    engine.set_up(g.page_bytes, g.oob_bytes, host).map_err(oob::unsupported)?;
    Ok(engine)
}

/// Geometry of the device for its users.
fn mtd_geometry(info: &ChipInfo, engine: &EccEngine, layout: &OobLayout, sub_page_writes: bool) -> Geometry {
    let g = &info.geometry;
    let erase_bytes = g.page_bytes * g.pages_per_block;
    let blocks = u64::from(g.blocks_per_target()) * u64::from(g.targets);
    let code = engine.requirement();
    let slc = g.bits_per_cell == 1;
    Geometry {
        kind: if slc { FlashKind::SlcNand } else { FlashKind::MlcNand },
        size_bytes: u64::from(erase_bytes) * blocks,
        partition_of: None,
        erase_bytes,
        write_bytes: g.page_bytes,
        buffer_bytes: g.page_bytes,
        sub_page_bytes: g.sub_page_bytes(info.nop, code.step_bytes, sub_page_writes),
        oob_bytes: g.oob_bytes,
        oob_free_bytes: layout.free_bytes(),
        ecc_strength: code.strength,
        ecc_step_bytes: code.step_bytes,
        bitflip_threshold: Geometry::default_bitflip_threshold(code.strength),
        pairing: info.pairing,
    }
}

impl<B: NandBus> Mtd for RawNandDriver<B> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        check_range(now, addr, buf.len() as u64, self.geometry.size_bytes)?;
        self.begin(now);
        self.profile.copy(&mut self.host, buf.len());
        let done = self.read_range(addr, buf)?;
        self.host.has_read(&done, &self.geometry);
        Ok(done)
    }

    #[inline]
    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        check_range(now, addr, data.len() as u64, self.geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, self.geometry.sub_page_bytes)?;
        self.begin(now);
        self.bounced = None;
        self.profile.copy(&mut self.host, data.len());
        self.check_protection(self.page_at(addr))?;
        self.write_range(addr, data)?;
        Ok(self.done())
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, self.geometry.erase_bytes)?;
        self.begin(now);
        self.bounced = None;
        self.check_protection(self.page_at(addr))?;
        self.erase_range(addr, len)?;
        Ok(self.done())
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        check_range(now, addr, u64::from(self.geometry.write_bytes), self.geometry.size_bytes)?;
        check_aligned(now, addr, 0, self.geometry.write_bytes)?;
        self.begin(now);
        let corrected = self.read_with_oob(addr, data, oob, mode)?;
        let done = span::done(self.host.now(), corrected, self.retries);
        self.host.has_read(&done, &self.geometry);
        Ok(done)
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        check_range(now, addr, u64::from(self.geometry.write_bytes), self.geometry.size_bytes)?;
        check_aligned(now, addr, 0, self.geometry.write_bytes)?;
        self.begin(now);
        self.bounced = None;
        self.write_with_oob(addr, data, oob, mode)?;
        Ok(self.done())
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        self.begin(now);
        Ok((self.block_is_bad(span::block_of(&self.geometry, addr))?, self.host.now()))
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        self.begin(now);
        self.bounced = None;
        let block = span::block_of(&self.geometry, addr);
        if self.block_is_bad(block)? {
            return Ok(self.done());
        }
        let marked = self.write_marker(block);
        self.bbt.set(block, BlockState::Worn);
        if self.copies.is_empty() {
            marked?;
        } else {
            // The driver uses the table on flash; the marker is for other drivers.
            self.update_flash_table(block / self.rows.blocks())?;
        }
        Ok(self.done())
    }

    fn breakdown(&self) -> Breakdown {
        self.host.spent()
    }
}
