//! Builds a rig from a resolved setup: chip, controller, and a driver that identifies the chip only by the bytes it
//! returns.

use crate::error::Error;
use crate::firmware::Firmware;
use crate::linux_bus::{Chip, LinuxBus, NandEcc, NandRig};
use crate::partition;
use crate::programmer::Programmer;
use floatgate_config::{Config, ConfigError, Kind, Library, Problem};
use floatgate_device::Record;
use floatgate_device::cells::CellsProfile;
use floatgate_device::concat::concat;
use floatgate_device::ecc_engine::{Algo, EccProfile, EccRequirement, EngineKind};
use floatgate_device::host::{BchCycles, HostProfile};
use floatgate_device::oracle::Oracle;
use floatgate_device::parallel_nor::{
    self, Interface, NorBus, NorController, NorProfile, NorWire, ParallelNor, ParallelNorSpec,
};
use floatgate_device::power::Power;
use floatgate_device::raw_nand::spec::FactoryBad;
use floatgate_device::raw_nand::{
    self, BadBlocks, ChipOptions, DataInterface, NandBoard, NandController, NandProfile, NandWire, RawNand,
    RawNandSpec,
};
use floatgate_device::spec::{ChipKind, ChipSpec};
use floatgate_device::spi::SpiBus;
use floatgate_device::spi::{Mode, SpiChip, SpiController, SpiMem, SpiProfile, SpiWire, Variant};
use floatgate_device::spi_nand::{self, SpiNand, SpiNandSpec};
use floatgate_device::spi_nor::{self, SpiNor, SpiNorSpec};
use floatgate_device::wire;
pub use floatgate_device::wire::{Device, Link};
use floatgate_mtd::Instant;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, set};
use std::fmt;
use std::sync::Arc;

/// A simulated board that is ready for use: a device behind its driver.
#[derive(Clone, Debug)]
pub struct Rig {
    /// The device behind its driver.
    pub device: Box<dyn Device>,
    /// Name of the chip.
    pub chip: String,
    /// Maker of the chip.
    pub maker: String,
}

impl Rig {
    /// Current time of the rig: the end of probing or of the last call.
    pub fn now(&mut self) -> Instant {
        self.device.host().now()
    }

    /// Runs `work` on the device while recording.
    pub fn record<T>(&mut self, work: impl FnOnce(&mut dyn Device, Instant) -> T) -> (T, Record) {
        self.device.host().record(true);
        let now = self.now();
        let result = work(self.device.as_mut(), now);
        let record = self.device.host().take_record();
        self.device.host().record(false);
        (result, record)
    }
}

/// Options of the simulation in addition to the setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RigOptions {
    /// Seed of all variation between chips.
    pub seed: u64,
    /// True to store data; otherwise only time is simulated.
    pub stores: bool,
    /// Number of factory bad blocks, on NAND.
    pub bad_blocks: u32,
    /// True to read a bad block mark when the block is first used, even if the setup reads all marks at probe (raw
    /// NAND). This saves real time in tests with a million power cuts, each of which is followed by a restart.
    pub marks_on_demand: bool,
}

impl Default for RigOptions {
    fn default() -> Self {
        Self { seed: 0, stores: true, bad_blocks: 0, marks_on_demand: false }
    }
}

/// The top-level keys of a setup.
const KEYS: [&str; 15] = [
    "title",
    "source",
    "chip",
    "concat",
    "controller",
    "bus",
    "host",
    "ecc",
    "driver",
    "partition",
    "use",
    "filesystem",
    "page_cache",
    "firmware",
    "cells",
];

/// Rejects unknown keys at the top level, and in tables that not every device and command reads.
fn check_keys(config: &Config) -> Result<(), ConfigError> {
    config.only_keys(&KEYS)?;
    ["ecc", "filesystem", "page_cache"].into_iter().try_for_each(|table| config.only_documented(table))?;
    check_values(config)
}

/// Rejects invalid values in the tables of filesystems and of the ECC.
#[cfg(feature = "filesystems")]
fn check_values(config: &Config) -> Result<(), ConfigError> {
    config.extract_or_default::<crate::filesystem::Filesystem>("filesystem")?;
    config.extract_or_default::<crate::page_cache::PageCacheProfile>("page_cache")?;
    config.extract_or_default::<EccProfile>("ecc").map(drop)
}

/// Rejects invalid values in the table of the ECC.
#[cfg(not(feature = "filesystems"))]
fn check_values(config: &Config) -> Result<(), ConfigError> {
    config.extract_or_default::<EccProfile>("ecc").map(drop)
}

/// Builds a rig from a setup. The driver's database contains the library's parts. The setup's own chip replaces the
/// part with the same id. The chips of `concat` are joined with it to one device.
///
/// # Errors
/// A value is invalid or missing, the driver rejects the chip, or chips cannot be joined.
pub fn wire(library: &Library, config: &Config, options: RigOptions) -> Result<Rig, Error> {
    check_keys(config)?;
    Firmware::check(config)?;
    let mut devices = vec![chip_device(library, config, options)?];
    let mut chip = config.part().name.clone();
    for (number, other) in (1..).zip(library.concatenated(config)?) {
        // Each chip has bad blocks and bit errors of its own.
        let seed = floatgate_mtd::random::hash(options.seed, number, 0);
        devices.push(chip_device(library, &other, RigOptions { seed, ..options })?);
        chip = format!("{chip} + {}", other.part().name);
    }
    let device = match devices.pop() {
        Some(alone) if devices.is_empty() => alone,
        last => {
            devices.extend(last);
            concat(devices).map_err(|why| config.wrong("concat", format!("{chip}: {why}")))?
        }
    };
    let device = partition::apply(config, device)?;
    Ok(Rig { device, chip, maker: config.part().maker.clone() })
}

/// The chip of a setup behind its driver.
fn chip_device(library: &Library, config: &Config, options: RigOptions) -> Result<Box<dyn Device>, Error> {
    check_controller(config)?;
    check_cells(config)?;
    let chip = config.chip()?;
    check_bad_blocks(config, &chip, options.bad_blocks)?;
    match chip {
        ChipSpec::SpiNand(spec) => spi_nand(library, config, *spec, options),
        ChipSpec::SpiNor(spec) => spi_nor(library, config, *spec, options),
        ChipSpec::RawNand(spec) => raw_nand(library, config, *spec, options),
        ChipSpec::ParallelNor(spec) => parallel_nor(config, *spec, options),
    }
}

/// Checks a setup for a user of the bus, which has one chip, and returns this chip.
fn only_chip(config: &Config, bad_blocks: u32) -> Result<ChipSpec, ConfigError> {
    check_keys(config)?;
    if config.tree().get("concat").is_some() {
        let help = "leave `concat` out: only a driver joins chips, and this is the bus of one chip";
        return Err(config.wrong("concat", "there are several chips").help(help));
    }
    check_controller(config)?;
    check_cells(config)?;
    let chip = config.chip()?;
    check_bad_blocks(config, &chip, bad_blocks)?;
    Ok(chip)
}

/// A SPI chip behind its controller without a driver, with its supply. It can be copied.
pub trait SpiHost: SpiMem + fmt::Debug + Send + Sync {
    /// Power supply of controller and chip.
    fn power(&self) -> &Power;

    /// Mutable access to the power supply, to cut it.
    fn power_mut(&mut self) -> &mut Power;

    /// Restores power after a cut. The chip is then in its power-on state.
    fn power_on(&mut self);

    /// Access to the contents and the faults of the chip.
    fn oracle(&mut self) -> &mut dyn Oracle;

    /// Returns an independent copy. Unchanged blocks are shared.
    fn fork(&self) -> Box<dyn SpiHost>;
}

impl<C> SpiHost for SpiController<C>
where
    C: SpiChip + Oracle + Clone + fmt::Debug + Send + Sync + 'static,
{
    fn power(&self) -> &Power {
        self.power()
    }

    fn power_mut(&mut self) -> &mut Power {
        self.power_mut()
    }

    fn power_on(&mut self) {
        self.power_on();
    }

    fn oracle(&mut self) -> &mut dyn Oracle {
        self.chip_mut()
    }

    fn fork(&self) -> Box<dyn SpiHost> {
        Box::new(self.clone())
    }
}

/// A SPI chip behind its controller without a driver, for external drivers.
///
/// # Errors
/// A value is wrong or missing, or the chip is not a SPI chip.
pub fn spi_bus(config: &Config, options: RigOptions) -> Result<Box<dyn SpiHost>, Error> {
    match only_chip(config, options.bad_blocks)? {
        ChipSpec::SpiNand(spec) => Ok(Box::new(spi_nand_bus(config, *spec, options)?.0)),
        ChipSpec::SpiNor(spec) => Ok(Box::new(spi_nor_bus(config, *spec, options)?.0)),
        _ => {
            let message = format!("{} is on a parallel bus", config.part().name);
            let help = "name a setup with a SPI NAND or a SPI NOR";
            Err(ConfigError::new(Problem::WrongValue, message).help(help).into())
        }
    }
}

/// A chip at its pins, for hosts that send bytes or bus cycles.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for a chip, and it stays where it is")]
pub enum Pins {
    /// SPI NOR: CS#, clock, and 1 to 8 data lines.
    SpiNor(SpiWire<SpiNor>),
    /// SPI NAND: CS#, clock, and 1 to 8 data lines.
    SpiNand(SpiWire<SpiNand>),
    /// Raw NAND (ONFI): command, address and data cycles, R/B#.
    RawNand(NandWire<RawNand>),
    /// Parallel NOR: address and data lines.
    ParallelNor(NorWire),
}

/// The chip of a setup at its pins. The SPI clock is the one in the setup's bus table, but not above the limit of any read on one data
/// line, so that a host that sets no clock breaks no rule.
///
/// # Errors
/// A value is invalid or missing.
pub fn pins(config: &Config, options: RigOptions) -> Result<Pins, Error> {
    Ok(match only_chip(config, options.bad_blocks)? {
        ChipSpec::SpiNor(spec) => {
            let limit = single_line_hz(spec.reads.iter().chain(&spec.reads_4b));
            Pins::SpiNor(not_above(limit, spi_nor_bus(config, *spec, options)?.0.into_wire()))
        }
        ChipSpec::SpiNand(spec) => {
            let limit = single_line_hz(spec.reads.iter());
            Pins::SpiNand(not_above(limit, spi_nand_bus(config, *spec, options)?.0.into_wire()))
        }
        ChipSpec::RawNand(spec) => Pins::RawNand(NandWire::new(raw_nand_chips(config, *spec, options)?)),
        ChipSpec::ParallelNor(spec) => Pins::ParallelNor(NorWire::new(parallel_nor_chip(
            config,
            *spec,
            config.extract("bus")?,
            options,
        )?)),
    })
}

/// Lowest clock limit of the reads on one data line, Hz; `None` if no read has a limit of its own.
fn single_line_hz<'a>(reads: impl Iterator<Item = &'a Variant>) -> Option<u32> {
    let limits = reads.filter(|read| read.mode == Mode::SINGLE && read.max_hz > 0).map(|read| read.max_hz);
    limits.min().and_then(|hz| u32::try_from(hz).ok())
}

/// Lowers the clock of a wire to a limit.
fn not_above<C: SpiChip>(limit: Option<u32>, mut wire: SpiWire<C>) -> SpiWire<C> {
    if let Some(limit) = limit.filter(|limit| *limit < wire.hz()) {
        wire.set_clock(limit);
    }
    wire
}

/// A raw NAND at its pins, as returned by [`pins`].
///
/// # Errors
/// The errors of [`pins`], and a chip that is not a raw NAND.
pub fn nand_wire(config: &Config, options: RigOptions) -> Result<NandWire<RawNand>, Error> {
    match pins(config, options)? {
        Pins::RawNand(wire) => Ok(wire),
        _ => {
            let message = format!("{} is no raw NAND", config.part().name);
            let help = "name a setup with a raw NAND";
            Err(ConfigError::new(Problem::WrongValue, message).help(help).into())
        }
    }
}

/// A SPI NOR at its pins, as returned by [`pins`].
///
/// # Errors
/// The errors of [`pins`], and a chip that is not a SPI NOR.
pub fn spi_nor_wire(config: &Config, options: RigOptions) -> Result<SpiWire<SpiNor>, Error> {
    match pins(config, options)? {
        Pins::SpiNor(wire) => Ok(wire),
        _ => {
            let message = format!("{} is no SPI NOR", config.part().name);
            let help = advice! { "name a SPI NOR, or a setup with one (", Command::Parts, ")" };
            Err(ConfigError::new(Problem::WrongValue, message).help(help).into())
        }
    }
}

/// A programmer with the chip of a setup in its socket: a SPI NOR, or a parallel NOR on eight data lines.
///
/// # Errors
/// A value is invalid or missing, or the chip is of another kind, or has no bus of eight bits.
pub fn programmer(config: &Config, options: RigOptions) -> Result<Programmer, Error> {
    let spec = match config.chip()? {
        ChipSpec::ParallelNor(spec) => spec,
        ChipSpec::SpiNor(_) => return Ok(Programmer::new(spi_nor_wire(config, options)?)),
        ChipSpec::SpiNand(_) | ChipSpec::RawNand(_) => {
            let message = format!("{} is no NOR", config.part().name);
            let help =
                advice! { "name a SPI NOR or a parallel NOR, or a setup with one (", Command::Parts, ")" };
            return Err(ConfigError::new(Problem::WrongValue, message).help(help).into());
        }
    };
    if spec.geometry.interface == Interface::X16 {
        let message = format!("{} has sixteen data lines only", config.part().name);
        let help = "a programmer has eight: name a part whose chip.geometry.interface is x8 or x8-x16";
        return Err(ConfigError::new(Problem::WrongValue, message).help(help).into());
    }
    only_chip(config, options.bad_blocks)?;
    let chip = parallel_nor_chip(config, *spec, NorBus { bits: 8 }, options)?;
    Ok(Programmer::parallel(NorWire::new(chip)))
}

/// The chip of a setup behind its controller, for Linux's own drivers.
///
/// # Errors
/// A value is invalid or missing, or the chip is a parallel NOR.
pub fn linux_bus(config: &Config, options: RigOptions) -> Result<LinuxBus, Error> {
    Ok(LinuxBus::new(match only_chip(config, options.bad_blocks)? {
        ChipSpec::SpiNor(spec) => Chip::SpiNor(spi_nor_bus(config, *spec, options)?.0.into_mem_wire()),
        ChipSpec::SpiNand(spec) => Chip::SpiNand(spi_nand_bus(config, *spec, options)?.0.into_mem_wire()),
        ChipSpec::RawNand(spec) => {
            let needs = spec.ecc.into();
            let (controller, host) = raw_nand_bus(config, *spec, options)?;
            Chip::RawNand(NandRig::new(controller, kernel_ecc(&ecc_engine(config, &host)?, needs)))
        }
        ChipSpec::ParallelNor(_) => {
            let message = format!("{} is a parallel NOR: its bus has no operations", config.part().name);
            let help = advice! { "name a SPI NOR, a SPI NAND or a raw NAND, or a setup with one (", Command::Parts, ")" };
            return Err(ConfigError::new(Problem::WrongValue, message).help(help).into());
        }
    }))
}

/// ECC for the kernel. It has no driver for the setup's ECC engine, so its software computes a code of the same
/// strength.
fn kernel_ecc(ecc: &EccProfile, needs: EccRequirement) -> NandEcc {
    let (step, strength) =
        (ecc.step_bytes.unwrap_or(needs.step_bytes), ecc.strength.unwrap_or(needs.strength));
    let algo = match ecc.algo {
        Some(algo) => algo,
        None if strength == 1 && matches!(step, 256 | 512) => Algo::Hamming,
        None => Algo::Bch,
    };
    match ecc.engine {
        EngineKind::None => NandEcc::None,
        EngineKind::OnDie => NandEcc::OnDie,
        EngineKind::Pipelined | EngineKind::External | EngineKind::Software => {
            NandEcc::Software { algo, step, strength }
        }
    }
}

/// Rejects more factory bad blocks than the maker allows.
fn check_bad_blocks(config: &Config, chip: &ChipSpec, wanted: u32) -> Result<(), ConfigError> {
    let most = chip.facts().max_bad_blocks_per_lun();
    if wanted <= most {
        return Ok(());
    }
    let name = &config.part().name;
    let (message, help) = if chip.kind().is_nand() {
        (
            format!("{wanted} bad blocks per LUN, and {name} leaves the factory with at most {most}"),
            "ask for fewer bad blocks, or raise `chip.geometry.max_bad_blocks_per_lun`",
        )
    } else {
        (format!("{name} is a NOR: it has no bad blocks"), "ask for no bad blocks, or name a NAND")
    };
    Err(ConfigError::new(Problem::WrongValue, message).help(help))
}

/// Checks the cell settings: only NAND cells have wear and retention, and temperatures must be realistic.
fn check_cells(config: &Config) -> Result<(), ConfigError> {
    if !config.chip_kind()?.is_nand() && config.tree().get("cells").is_some() {
        let message = format!("{} is a NOR: its cells neither wear nor forget here", config.part().name);
        return Err(config.wrong("cells", message));
    }
    let cells = config.extract_or_default::<CellsProfile>("cells")?;
    let temperatures =
        [("temperature_c", cells.temperature_c), ("age_temperature_c", cells.age_temperature_c)];
    if let Some((key, c)) = temperatures.into_iter().find(|(_, c)| !(-55.0..=150.0).contains(c)) {
        return Err(config.wrong(&format!("cells.{key}"), format!("{c} C: the range is -55 to 150")));
    }
    if !(0.0..=1.0).contains(&cells.block_spread) {
        let message = format!("{}: the range is 0 to 1, and chips have 0.005 to 0.12", cells.block_spread);
        return Err(config.wrong("cells.block_spread", message));
    }
    if (0.0..=36_525.0).contains(&cells.age_days) {
        return Ok(());
    }
    Err(config
        .wrong("cells.age_days", format!("{} days: give 0 to 36525, which is a century", cells.age_days)))
}

/// Checks that the controller supports the chip's kind of bus, which is determined from the fields of its profile.
fn check_controller(config: &Config) -> Result<(), ConfigError> {
    let has = |field: &str| config.tree().get(&format!("controller.{field}")).is_some();
    let (part, spi, nand) = (config.part(), has("reference_hz"), has("sdr_modes"));
    let drives = if spi { "SPI" } else { "raw NAND" };
    let wrong = match config.chip_kind()? {
        ChipKind::SpiNand | ChipKind::SpiNor => nand,
        ChipKind::RawNand => spi,
        ChipKind::ParallelNor => spi || nand,
    };
    if !wrong {
        return Ok(());
    }
    let message =
        format!("this setup's controller drives {drives} chips, and {} is a {} chip", part.name, part.kind);
    Err(config
        .wrong("controller", message)
        .help(advice! { "set a controller of the right kind too (", set("controller", "NAME"), "), or take another setup (", Command::Setups, ")" }))
}

/// Chips that the drivers support beyond the chips' own tables: the specifications of all parts in a library.
#[derive(Default)]
struct Catalogue {
    spi_nand: Vec<SpiNandSpec>,
    spi_nor: Vec<SpiNorSpec>,
    raw_nand: Vec<RawNandSpec>,
}

impl Catalogue {
    fn read(library: &Library) -> Result<Self, ConfigError> {
        let mut all = Self::default();
        for name in library.names(Kind::Part) {
            let part = library.load(Kind::Part, name)?;
            match part.chip()? {
                ChipSpec::SpiNand(spec) => all.spi_nand.push(*spec),
                ChipSpec::SpiNor(spec) => all.spi_nor.push(*spec),
                ChipSpec::RawNand(spec) => all.raw_nand.push(*spec),
                // The CFI query contains everything that a driver needs.
                ChipSpec::ParallelNor(_) => {}
            }
        }
        Ok(all)
    }
}

/// Database of a driver: the catalogue without entries that have the id of `own`, followed by `own`.
fn database<T: Clone>(catalogue: &[T], own: &T, id: impl Fn(&T) -> &[u8]) -> Vec<T> {
    let others = catalogue.iter().filter(|spec| id(spec) != id(own));
    others.chain([own]).cloned().collect()
}

fn probe_error(config: &Config, why: impl std::fmt::Display) -> Error {
    Error::Probe { chip: config.part().name.clone(), why: why.to_string() }
}

/// Controller, bus and host, the tables that all SPI setups have.
fn spi_parts(config: &Config) -> Result<(SpiProfile, SpiBus, HostProfile), ConfigError> {
    let bus: SpiBus = config.extract("bus")?;
    if !matches!(bus.lanes, 1 | 2 | 4 | 8) {
        return Err(config.wrong("bus.lanes", format!("{} lanes: there are 1, 2, 4 or 8", bus.lanes)));
    }
    let host: HostProfile = config.extract_or_default("host")?;
    let profile = config.extract::<SpiProfile>("controller")?.on(&host);
    check_lanes(config, bus.lanes, profile.lanes)?;
    let clocks = [
        ("bus.clock_hz", bus.clock_hz),
        ("controller.reference_hz", profile.reference_hz),
        ("controller.max_hz", profile.max_hz),
    ];
    for (key, hz) in clocks {
        check_hz(config, key, hz)?;
    }
    let slowest = profile.slowest_hz();
    if bus.clock_hz < slowest {
        let mhz = |hz: u64| hz as f64 / 1e6;
        let message = format!(
            "{:.3} MHz asked, and the controller makes {:.3} MHz at least: {:.2} MHz / {}",
            mhz(bus.clock_hz),
            mhz(slowest),
            mhz(profile.reference_hz),
            profile.max_divider
        );
        return Err(config.wrong("bus.clock_hz", message).help("raise bus.clock_hz"));
    }
    Ok((profile, bus, host))
}

/// Rejects more lanes than the controller has. Without `bus.lanes` the board has all lanes of the controller.
fn check_lanes(config: &Config, lanes: u8, most: u8) -> Result<(), ConfigError> {
    if lanes <= most || config.tree().get("bus.lanes").is_none() {
        return Ok(());
    }
    let has = floatgate_mtd::words::count(most.into(), "lane");
    let message = format!("{lanes} lanes, and the controller has {has}");
    Err(config.wrong("bus.lanes", message).help(format!("set bus.lanes={most}, or another controller")))
}

/// Lowest plausible clock of a flash memory, Hz. A lower value is treated as a unit mistake.
const SLOWEST_HZ: u64 = 10_000;

/// Rejects clocks that are probably unit mistakes.
fn check_hz(config: &Config, key: &str, hz: u64) -> Result<(), ConfigError> {
    if hz >= SLOWEST_HZ {
        return Ok(());
    }
    let message = format!("{hz} Hz is no clock of a flash memory; a plain number is in Hz");
    let meant = if hz == 0 { 50 } else { hz };
    Err(config.wrong(key, message).help(format!("write {meant}e6 or \"{meant} MHz\"")))
}

/// Rejects clocks at which the board cannot work: above the chip's limit, or above the controller's limit without
/// tuning.
fn check_clock<C: SpiChip>(config: &Config, bus: &SpiController<C>, limit: u64) -> Result<(), ConfigError> {
    let hz = bus.base_clock().hz();
    let mhz = |hz: u64| hz as f64 / 1e6;
    let refuse = |message: String, help: &'static str| Err(config.wrong("bus.clock_hz", message).help(help));
    if u64::from(hz) > limit {
        let message =
            format!("makes {:.2} MHz, and the chip takes {:.2} MHz at most", mhz(hz.into()), mhz(limit));
        return refuse(message, "lower bus.clock_hz");
    }
    match bus.untuned_hz() {
        Some(most) if hz > most => {
            let (without, help) = match bus.wants_phy() {
                true => (
                    "where it does not use its PHY",
                    "lower bus.clock_hz: the PHY has a clock of its own, controller.phy.clock_hz",
                ),
                false => (
                    "without its PHY",
                    "lower bus.clock_hz and add bus.phy=true: the PHY then has a clock of its own, controller.phy.clock_hz",
                ),
            };
            let message = format!(
                "makes {:.2} MHz, at which this controller reads wrong bits {without}: the data returns too late above {:.2} MHz",
                mhz(hz.into()),
                mhz(most.into())
            );
            refuse(message, help)
        }
        _ => Ok(()),
    }
}

/// Strength of the strongest supported BCH code, bits.
const BCH_STRENGTH_MAX: u32 = floatgate_ecc::MAX_STRENGTH;

/// ECC engine of the setup. Software ECC takes CPU time, so the host must state the speed of its CPU.
fn ecc_engine(config: &Config, host: &HostProfile) -> Result<EccProfile, ConfigError> {
    let ecc: EccProfile = config.extract_or_default("ecc")?;
    if let Some(strength) = ecc.strength.filter(|strength| !(1..=BCH_STRENGTH_MAX).contains(strength)) {
        let message = format!("no code corrects {}", floatgate_mtd::words::count(strength.into(), "bit"));
        let help = format!("give 1 to {BCH_STRENGTH_MAX}; ecc.engine=none goes without");
        return Err(config.wrong("ecc.strength", message).help(help));
    }
    let given = ecc.encode_ns_per_kb.is_some() || ecc.decode_ns_per_kb.is_some();
    if host.bch != BchCycles::NONE {
        check_hz(config, "host.bch.clock_hz", host.bch.clock_hz)?;
    }
    if ecc.engine == EngineKind::Software && host.instruction_ps == 0 && !given {
        let message = "the software engine takes CPU time, and this setup does not say how fast its CPU is";
        let help = advice! { "set ", set("host.instruction_ps", "N"), ", or ecc.encode_ns_per_kb and ecc.decode_ns_per_kb, or take a host from hosts/ as host.base" };
        return Err(config.wrong("ecc.engine", message).help(help));
    }
    Ok(ecc)
}

fn spi_nand(
    library: &Library,
    config: &Config,
    spec: SpiNandSpec,
    options: RigOptions,
) -> Result<Box<dyn Device>, Error> {
    let parts = database(&library.digest(Catalogue::read)?.spi_nand, &spec, |s| &s.id);
    let (controller, host) = spi_nand_bus(config, spec, options)?;
    let ecc = ecc_engine(config, &host)?;
    let driver: spi_nand::Options = config.extract_or_default("driver")?;
    wire::spi_nand(controller, &parts, host, ecc, driver).map_err(|e| probe_error(config, e))
}

/// Builds a SPI NAND behind its controller.
fn spi_nand_bus(
    config: &Config,
    spec: SpiNandSpec,
    options: RigOptions,
) -> Result<(SpiController<SpiNand>, HostProfile), Error> {
    spec.check().map_err(|bad| config.impossible(&bad))?;
    let (profile, bus, host) = spi_parts(config)?;
    let limit = spec.sdr_hz;
    let chip_options = floatgate_device::spi_nand::ChipOptions {
        seed: options.seed,
        stores: options.stores,
        bad_blocks: options.bad_blocks,
        cells: config.extract_or_default::<CellsProfile>("cells")?,
    };
    let chip = SpiNand::new(Arc::new(spec), chip_options);
    let controller = SpiController::new(profile, bus, chip);
    check_clock(config, &controller, limit)?;
    Ok((controller, host))
}

fn spi_nor(
    library: &Library,
    config: &Config,
    spec: SpiNorSpec,
    options: RigOptions,
) -> Result<Box<dyn Device>, Error> {
    let parts = database(&library.digest(Catalogue::read)?.spi_nor, &spec, |s| &s.id);
    let (controller, host) = spi_nor_bus(config, spec, options)?;
    let driver: spi_nor::Options = config.extract_or_default("driver")?;
    wire::spi_nor(controller, &parts, host, driver).map_err(|e| probe_error(config, e))
}

/// Builds a SPI NOR behind its controller.
fn spi_nor_bus(
    config: &Config,
    spec: SpiNorSpec,
    options: RigOptions,
) -> Result<(SpiController<SpiNor>, HostProfile), Error> {
    let (profile, bus, host) = spi_parts(config)?;
    let limit = spec.max_sdr_hz;
    let chip = SpiNor::new(spec, options.seed, options.stores).map_err(|bad| config.impossible(&bad))?;
    let controller = SpiController::new(profile, bus, chip);
    check_clock(config, &controller, limit)?;
    Ok((controller, host))
}

/// Builds the chips in a raw NAND's package.
fn raw_nand_chips(
    config: &Config,
    mut spec: RawNandSpec,
    options: RigOptions,
) -> Result<Vec<RawNand>, Error> {
    if options.bad_blocks > 0 {
        spec.factory_bad = FactoryBad { per_lun: options.bad_blocks, seed: options.seed };
    }
    let cells = config.extract_or_default::<CellsProfile>("cells")?;
    let chip_options = ChipOptions { stores: options.stores, seed: options.seed, cells };
    Ok(RawNand::package(&spec, chip_options).map_err(|bad| config.impossible(&bad))?)
}

/// Builds a raw NAND behind its controller.
fn raw_nand_bus(
    config: &Config,
    spec: RawNandSpec,
    options: RigOptions,
) -> Result<(NandController<RawNand>, HostProfile), Error> {
    let host: HostProfile = config.extract_or_default("host")?;
    let profile: NandProfile = config.extract("controller")?;
    let bus: NandBoard = config.extract_or_default("bus")?;
    if (1..SLOWEST_HZ).contains(&bus.clock_hz) {
        let hz = bus.clock_hz;
        let message = format!("{hz} Hz is no clock of a flash memory; a plain number is in Hz");
        return Err(config
            .wrong("bus.clock_hz", message)
            .help(format!("write {hz}e6 or \"{hz} MHz\""))
            .into());
    }
    let chips = raw_nand_chips(config, spec, options)?;
    Ok((NandController::new(profile, bus, chips).on(&host), host))
}

fn raw_nand(
    library: &Library,
    config: &Config,
    spec: RawNandSpec,
    options: RigOptions,
) -> Result<Box<dyn Device>, Error> {
    let parts = database(&library.digest(Catalogue::read)?.raw_nand, &spec, |s| &s.id);
    let (controller, host) = raw_nand_bus(config, spec, options)?;
    let ecc = ecc_engine(config, &host)?;
    let mut driver: raw_nand::Options = config.extract_or_default("driver")?;
    let is_given = config.tree().get("driver.bad_blocks").is_some();
    let on_demand = options.marks_on_demand || !(is_given || controller.profile().scans_markers);
    if on_demand && driver.bad_blocks == BadBlocks::Scan {
        driver.bad_blocks = BadBlocks::OnDemand;
    }
    wire::raw_nand(controller, &parts, host, ecc, driver).map_err(|e| probe_error(config, e))
}

fn parallel_nor_chip(
    config: &Config,
    spec: ParallelNorSpec,
    bus: NorBus,
    options: RigOptions,
) -> Result<ParallelNor, ConfigError> {
    ParallelNor::new(spec, bus.bits, options.stores).map_err(|bad| config.impossible(&bad))
}

fn parallel_nor(
    config: &Config,
    spec: ParallelNorSpec,
    options: RigOptions,
) -> Result<Box<dyn Device>, Error> {
    let (profile, bus): (NorProfile, NorBus) = (config.extract("controller")?, config.extract("bus")?);
    let host: HostProfile = config.extract_or_default("host")?;
    let driver: parallel_nor::Options = config.extract_or_default("driver")?;
    let controller = NorController::new(profile, bus, parallel_nor_chip(config, spec, bus, options)?);
    wire::parallel_nor(controller, host, driver).map_err(|e| probe_error(config, e))
}

/// Bus modes in which a chip of this setup can be read, in setup notation.
pub fn chip_modes(config: &Config) -> Vec<Mode> {
    let Ok(reads) = config.extract::<Vec<floatgate_device::spi::Variant>>("chip.reads") else {
        return Vec::new();
    };
    let mut modes: Vec<Mode> = reads.iter().map(|v| v.mode).collect();
    modes.sort_unstable();
    modes.dedup();
    modes
}

/// Interfaces that a raw NAND of this setup offers, in setup notation.
pub fn chip_interfaces(config: &Config) -> Vec<String> {
    let modes = |path: &str| config.extract_or_default::<Vec<u8>>(path).unwrap_or_default();
    let sdr = modes("chip.sdr_modes").into_iter().map(DataInterface::Sdr);
    let nv_ddr = modes("chip.nvddr_modes").into_iter().map(DataInterface::NvDdr);
    sdr.chain(nv_ddr).map(|interface| interface.to_string()).collect()
}
