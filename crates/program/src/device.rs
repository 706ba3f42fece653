//! The device behind the C functions, without pointers.

use floatgate_card::CardOptions;
use floatgate_card::spi::SpiCard;
use floatgate_config::{Config, Kind, Library, Override};
use floatgate_device::oracle::{Faults, Oracle};
use floatgate_device::parallel_nor::NorWire;
use floatgate_device::power::{Power, PowerCut};
use floatgate_device::raw_nand::{NandWire, RawNand};
use floatgate_device::spi::{SpiChip as _, Width};
use floatgate_device::violation::ViolationLog;
use floatgate_host::output::{is_stdout, write_file};
use floatgate_mtd::{Breakdown, Done, ErrorKind, Geometry, Instant, Mtd, Nanos, OobMode};
use floatgate_sim::rig::{self, Pins, RigOptions};
use floatgate_sim::{card, socket};
use std::ffi::CStr;
use std::io::Read as _;
use std::path::Path;
use std::sync::LazyLock;

/// The catalogue, which is loaded once and never changed.
static LIBRARY: LazyLock<Library> = LazyLock::new(Library::built_in);

/// Result of a C function, with the numbers of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the header explains them")]
pub(crate) enum Status {
    Ok,
    WrongArgument,
    NoTarget,
    WrongKind,
    OutOfRange,
    NotErased,
    WriteProtected,
    BadBlock,
    Failed,
    Uncorrectable,
    PowerLost,
    Refused,
    Unsupported,
    Internal,
    Lost,
    File,
}

impl Status {
    /// Text of a status code.
    pub(crate) const fn text(status: i32) -> &'static CStr {
        match status {
            0 => c"done",
            1 => c"wrong argument",
            2 => c"no such target, or a wrong key or value",
            3 => c"the function is for another kind of device",
            4 => c"out of range, or misaligned",
            5 => c"not erased",
            6 => c"write protected",
            7 => c"bad block",
            8 => c"the program or erase failed",
            9 => c"uncorrectable bit errors",
            10 => c"power lost",
            11 => c"refused by the chip",
            12 => c"not supported",
            13 => c"internal error",
            14 => c"not what was synchronised",
            15 => c"a file cannot be read or written",
            _ => c"unknown status",
        }
    }
}

/// Reason why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl ToString) -> Self {
        Self { status, message: message.to_string() }
    }

    pub(crate) fn null() -> Self {
        Self::new(Status::WrongArgument, "a null pointer")
    }

    pub(crate) fn internal() -> Self {
        Self::new(Status::Internal, "a bug in floatgate: please report it")
    }

    pub(crate) fn wrong_kind() -> Self {
        Self::new(Status::WrongKind, "the function is for another kind of device")
    }
}

impl From<floatgate_mtd::Error> for Failure {
    fn from(error: floatgate_mtd::Error) -> Self {
        let status = match error.kind {
            ErrorKind::Uncorrectable => Status::Uncorrectable,
            ErrorKind::ProgramFailed | ErrorKind::EraseFailed => Status::Failed,
            ErrorKind::BadBlock => Status::BadBlock,
            ErrorKind::OutOfRange { .. } | ErrorKind::Misaligned { .. } => Status::OutOfRange,
            ErrorKind::NotErased => Status::NotErased,
            ErrorKind::WriteProtected => Status::WriteProtected,
            ErrorKind::PowerLost => Status::PowerLost,
            ErrorKind::Unsupported(_) => Status::Unsupported,
            _ => Status::Refused,
        };
        Self::new(status, error)
    }
}

impl From<floatgate_config::ConfigError> for Failure {
    fn from(error: floatgate_config::ConfigError) -> Self {
        Self::new(Status::NoTarget, error)
    }
}

impl From<floatgate_sim::Error> for Failure {
    fn from(error: floatgate_sim::Error) -> Self {
        Self::new(Status::NoTarget, error)
    }
}

/// Level at which a device is accessed: pins or driver.
#[derive(Clone, Copy)]
pub(crate) enum Level {
    Pins,
    Mtd,
}

impl Level {
    pub(crate) fn from_number(number: i32) -> Result<Self, Failure> {
        match number {
            0 => Ok(Self::Pins),
            1 => Ok(Self::Mtd),
            _ => Err(Failure::new(Status::WrongArgument, "the level is neither FG_PINS nor FG_MTD")),
        }
    }
}

/// A chip or card at its pins, or a device behind its driver.
#[derive(Clone)]
pub(crate) enum Device {
    Pins { pins: Box<Pins>, selected: bool },
    Card { card: Box<SpiCard>, selected: bool },
    Mtd { device: Box<dyn rig::Device>, now: Instant },
}

/// Applies an expression to the wires of any kind of chip.
macro_rules! each_wire {
    ($pins:expr, $wire:ident => $result:expr) => {
        match $pins {
            Pins::SpiNor($wire) => $result,
            Pins::SpiNand($wire) => $result,
            Pins::RawNand($wire) => $result,
            Pins::ParallelNor($wire) => $result,
        }
    };
}

/// Applies an expression to the wires of a SPI chip.
macro_rules! spi_wire {
    ($device:expr, $wire:ident, $selected:ident => $result:expr) => {
        match $device {
            Self::Pins { pins, selected: $selected } => match &mut **pins {
                Pins::SpiNor($wire) => $result,
                Pins::SpiNand($wire) => $result,
                _ => Err(Failure::wrong_kind()),
            },
            Self::Card { .. } | Self::Mtd { .. } => Err(Failure::wrong_kind()),
        }
    };
}

/// Time between power-on and the first clock cycle of a card.
const CARD_POWER_UP: Nanos = Nanos::from_ms(1);

/// Time between power-on and the first command to a chip; data sheets state at most this time (tVSL, tPU).
const POWER_UP: Nanos = Nanos::from_ms(10);

/// Bytes and direction of a SPI transfer.
pub(crate) enum Transfer<'a> {
    /// No bytes; only CS# changes.
    Nothing,
    /// Bytes to the chip.
    Write(&'a [u8]),
    /// Bytes from the chip.
    Read(&'a mut [u8]),
    /// Bytes in both directions: the buffer contains the bytes to send, and then the received bytes.
    Exchange(&'a mut [u8]),
}

/// Bits of the argument `flags` of a SPI transfer.
const DTR: u32 = 1;
const HOLD: u32 = 2;
const IDLE: u32 = 4;

impl Device {
    pub(crate) fn open(target: &str, sets: &[&str], seed: u64, level: Level) -> Result<Self, Failure> {
        let sets: Result<Vec<Override>, _> = sets
            .iter()
            .enumerate()
            .map(|(at, set)| Override::parse_of(&format!("sets[{at}]"), set))
            .collect();
        let sets = sets?;
        if LIBRARY.has(Kind::Card, target) {
            return Self::card(target, &sets, seed, level);
        }
        let setup = LIBRARY.setup(target)?;
        let config: Config = LIBRARY.resolve(&setup, &sets)?;
        let options = RigOptions { seed, ..RigOptions::default() };
        match level {
            Level::Pins => Ok(Self::at_pins(rig::pins(&config, options)?)),
            Level::Mtd => Ok(Self::behind(rig::wire(&LIBRARY, &config, options)?.device)),
        }
    }

    /// Creates an SD card in SPI mode, in the state after power-on.
    fn card(name: &str, sets: &[Override], seed: u64, level: Level) -> Result<Self, Failure> {
        if matches!(level, Level::Mtd) {
            return Err(Failure::new(
                Status::Unsupported,
                "an SD card has no MTD level: open it with FG_PINS",
            ));
        }
        let spec = card::load(&LIBRARY, name, sets)?.spec;
        let refused = |why| Failure::new(Status::NoTarget, why);
        let mut card = SpiCard::new(&spec, CardOptions { seed, stores: true }).map_err(refused)?;
        card.advance(CARD_POWER_UP);
        Ok(Self::Card { card: Box::new(card), selected: false })
    }

    /// Creates a device from a chip at its pins.
    pub(crate) fn at_pins(pins: Pins) -> Self {
        Self::Pins { pins: Box::new(pins), selected: false }
    }

    /// Time at which a chip at its pins has finished all operations.
    pub(crate) fn busy_until(&self) -> Instant {
        let Self::Pins { pins, .. } = self else { return self.now() };
        match &**pins {
            Pins::SpiNor(wire) => wire.chip().busy_until(),
            Pins::SpiNand(wire) => wire.chip().busy_until(),
            Pins::RawNand(wire) => wire.ready_at(),
            Pins::ParallelNor(wire) => wire.chip().busy_until(),
        }
    }

    /// Sends a whole command on one lane, and receives its data.
    pub(crate) fn spi_command(&mut self, sent: &[u8], received: &mut [u8]) -> Result<(), Failure> {
        self.spi_transfer(1, HOLD, Transfer::Write(sent))?;
        self.spi_transfer(1, 0, Transfer::Read(received))
    }

    /// Creates a device from a chip behind its driver.
    pub(crate) fn behind(mut device: Box<dyn rig::Device>) -> Self {
        let now = device.host().now();
        Self::Mtd { device, now }
    }

    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Pins { pins, .. } => each_wire!(&**pins, wire => wire.now()),
            Self::Card { card, .. } => card.now(),
            Self::Mtd { now, .. } => *now,
        }
    }

    pub(crate) fn advance(&mut self, ns: u64) -> Result<(), Failure> {
        const YEARS: u64 = 100 * 366 * 86_400 * 1_000_000_000;
        if ns > YEARS || self.now().as_ns() > YEARS {
            return Err(Failure::new(Status::WrongArgument, "time ends after 100 years"));
        }
        match self {
            Self::Pins { pins, .. } => each_wire!(&mut **pins, wire => wire.advance(Nanos::from_ns(ns))),
            Self::Card { card, .. } => card.advance(Nanos::from_ns(ns)),
            Self::Mtd { now, .. } => *now += Nanos::from_ns(ns),
        }
        Ok(())
    }

    pub(crate) fn violations(&self) -> Option<&ViolationLog> {
        match self {
            Self::Pins { pins, .. } => Some(each_wire!(&**pins, wire => wire.violations())),
            Self::Card { card, .. } => Some(card.violations()),
            Self::Mtd { .. } => None,
        }
    }

    /// Sends or receives bytes of a command.
    pub(crate) fn spi_transfer(&mut self, lanes: u32, flags: u32, data: Transfer<'_>) -> Result<(), Failure> {
        let wrong = |why| Err(Failure::new(Status::WrongArgument, why));
        if !matches!(lanes, 1 | 2 | 4 | 8) || flags & !(DTR | HOLD | IDLE) != 0 {
            return wrong("there are 1, 2, 4 or 8 lanes, and the flags FG_DTR, FG_HOLD and FG_IDLE");
        }
        let idle = flags & IDLE != 0;
        if idle && flags & HOLD != 0 {
            return wrong("FG_IDLE is without FG_HOLD: CS# is high");
        }
        let width = Width { lanes: lanes as u8, dtr: flags & DTR != 0 };
        if matches!(data, Transfer::Exchange(_)) && width != Width::X1 {
            return wrong("both directions at once need one lane each, at single rate");
        }
        if let Self::Card { card, selected } = self {
            if width != Width::X1 {
                return wrong("a card in SPI mode has one lane for each direction, at single rate");
            }
            card_transfer(card, selected, flags, data);
            return Ok(());
        }
        spi_wire!(self, wire, selected => {
            if idle {
                wire.deselect();
            } else if !*selected {
                wire.select();
            }
            match data {
                Transfer::Nothing => {}
                Transfer::Write(sent) => wire.write(width, sent),
                Transfer::Read(received) => wire.read(width, received),
                Transfer::Exchange(bytes) => wire.exchange(bytes),
            }
            *selected = flags & HOLD != 0;
            if !*selected {
                wire.deselect();
            }
            Ok(())
        })
    }

    pub(crate) fn spi_dummy(&mut self, cycles: u32) -> Result<(), Failure> {
        spi_wire!(self, wire, selected => {
            if !*selected {
                wire.select();
            }
            *selected = true;
            wire.dummy(cycles);
            Ok(())
        })
    }

    pub(crate) fn spi_deselect(&mut self) -> Result<(), Failure> {
        if let Self::Card { card, selected } = self {
            *selected = false;
            card.deselect();
            return Ok(());
        }
        spi_wire!(self, wire, selected => {
            *selected = false;
            wire.deselect();
            Ok(())
        })
    }

    pub(crate) fn spi_clock(&mut self, hz: u32) -> Result<(), Failure> {
        if hz == 0 {
            return Err(Failure::new(Status::WrongArgument, "a clock of 0 Hz"));
        }
        if let Self::Card { card, .. } = self {
            card.set_clock(hz);
            return Ok(());
        }
        spi_wire!(self, wire, _selected => {
            wire.set_clock(hz);
            Ok(())
        })
    }

    pub(crate) fn spi_write_protect(&mut self, low: bool) -> Result<(), Failure> {
        match self {
            Self::Pins { pins, .. } => match &mut **pins {
                Pins::SpiNor(wire) => {
                    wire.chip_mut().set_wp_low(low);
                    Ok(())
                }
                _ => Err(Failure::wrong_kind()),
            },
            Self::Card { .. } | Self::Mtd { .. } => Err(Failure::wrong_kind()),
        }
    }

    pub(crate) fn nand(&mut self) -> Result<&mut NandWire<RawNand>, Failure> {
        match self {
            Self::Pins { pins, .. } => match &mut **pins {
                Pins::RawNand(wire) => Ok(wire),
                _ => Err(Failure::wrong_kind()),
            },
            Self::Card { .. } | Self::Mtd { .. } => Err(Failure::wrong_kind()),
        }
    }

    /// Selects a target by its CE# line.
    pub(crate) fn nand_select(&mut self, target: u32) -> Result<(), Failure> {
        let wire = self.nand()?;
        if wire.chip(target as usize).is_none() {
            return Err(Failure::new(Status::OutOfRange, "the device has no such target"));
        }
        wire.select(target as usize);
        Ok(())
    }

    pub(crate) fn cfi(&mut self) -> Result<&mut NorWire, Failure> {
        match self {
            Self::Pins { pins, .. } => match &mut **pins {
                Pins::ParallelNor(wire) => Ok(wire),
                _ => Err(Failure::wrong_kind()),
            },
            Self::Card { .. } | Self::Mtd { .. } => Err(Failure::wrong_kind()),
        }
    }

    fn mtd(&mut self) -> Result<(&mut dyn rig::Device, &mut Instant), Failure> {
        match self {
            Self::Mtd { device, now } => Ok((device.as_mut(), now)),
            Self::Pins { .. } | Self::Card { .. } => Err(Failure::wrong_kind()),
        }
    }

    /// Executes an operation of the driver. The clock advances even if the operation fails.
    fn run(
        &mut self,
        operation: impl FnOnce(&mut dyn rig::Device, Instant) -> Result<Done, floatgate_mtd::Error>,
    ) -> Result<Done, Failure> {
        let (device, now) = self.mtd()?;
        let outcome = operation(device, *now);
        *now = outcome.as_ref().map_or_else(|error| error.at, |done| done.at).max(*now);
        Ok(outcome?)
    }

    pub(crate) fn geometry(&mut self) -> Result<&Geometry, Failure> {
        let (device, _) = self.mtd()?;
        Ok(Mtd::geometry(&*device))
    }

    pub(crate) fn read(&mut self, address: u64, out: &mut [u8]) -> Result<Done, Failure> {
        self.run(|device, now| device.read(now, address, out))
    }

    pub(crate) fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Failure> {
        self.run(|device, now| device.write(now, address, data)).map(drop)
    }

    pub(crate) fn erase(&mut self, address: u64, length: u64) -> Result<(), Failure> {
        self.run(|device, now| device.erase(now, address, length)).map(drop)
    }

    pub(crate) fn read_oob(&mut self, address: u64, oob: &mut [u8]) -> Result<(), Failure> {
        self.run(|device, now| device.read_oob(now, address, &mut [], oob, OobMode::Auto)).map(drop)
    }

    pub(crate) fn write_oob(&mut self, address: u64, oob: &[u8]) -> Result<(), Failure> {
        self.run(|device, now| device.write_oob(now, address, &[], oob, OobMode::Auto)).map(drop)
    }

    pub(crate) fn is_bad(&mut self, address: u64) -> Result<bool, Failure> {
        let (device, now) = self.mtd()?;
        let (bad, at) = device.is_bad(*now, address)?;
        *now = at;
        Ok(bad)
    }

    pub(crate) fn mark_bad(&mut self, address: u64) -> Result<(), Failure> {
        self.run(|device, now| device.mark_bad(now, address)).map(drop)
    }

    /// Power supply of a chip; `None` for a card, which counts the operations of its own flash.
    fn power_mut(&mut self) -> Option<&mut Power> {
        match self {
            Self::Pins { pins, .. } => Some(each_wire!(&mut **pins, wire => wire.power_mut())),
            Self::Mtd { device, .. } => Some(device.power_mut()),
            Self::Card { .. } => None,
        }
    }

    /// Starts to count program and erase operations.
    pub(crate) fn count_operations(&mut self) {
        if let Some(power) = self.power_mut() {
            power.count_operations();
        }
    }

    /// Number of program and erase operations since counting started.
    pub(crate) fn operations(&mut self) -> u64 {
        self.power_mut().map_or(0, |power| power.operations())
    }

    /// Schedules a power cut of a chip, or cancels it.
    pub(crate) fn order_cut(&mut self, cut: Option<PowerCut>) {
        if let Some(power) = self.power_mut() {
            power.order(cut);
        }
    }

    pub(crate) fn cut_power(&mut self, operation: u64, share: f64) -> Result<(), Failure> {
        if operation == 0 || !(0.0..=1.0).contains(&share) {
            let why = "operations count from 1, and a share is between 0 and 1";
            return Err(Failure::new(Status::WrongArgument, why));
        }
        match self {
            Self::Card { card, .. } => card.cut_power(operation),
            _ => self.order_cut(Some(PowerCut::During { operation, share })),
        }
        Ok(())
    }

    pub(crate) fn power_lost(&mut self) -> bool {
        match self {
            Self::Card { card, .. } => card.is_dead(),
            _ => self.power_mut().is_some_and(|power| power.is_lost()),
        }
    }

    pub(crate) fn restore_power(&mut self) -> Result<(), Failure> {
        match self {
            Self::Pins { pins, selected } => {
                *selected = false;
                each_wire!(&mut **pins, wire => wire.power_on());
            }
            Self::Card { card, selected } => {
                *selected = false;
                card.power_on().map_err(|why| Failure::new(Status::Failed, why))?;
                card.advance(CARD_POWER_UP);
            }
            Self::Mtd { device, now } => {
                device.restart().map_err(|why| Failure::new(Status::Refused, why))?;
                *now = device.host().now().max(*now) + POWER_UP;
            }
        }
        Ok(())
    }

    /// Direct access to the chip's array, which no driver has.
    pub(crate) fn with_oracle<T>(&mut self, work: impl FnOnce(&mut dyn Oracle) -> T) -> Result<T, Failure> {
        Ok(match self {
            Self::Mtd { device, .. } => work(device.oracle()),
            Self::Card { .. } => return Err(Failure::wrong_kind()),
            Self::Pins { pins, .. } => match &mut **pins {
                Pins::SpiNor(wire) => work(wire.chip_mut()),
                Pins::SpiNand(wire) => work(wire.chip_mut()),
                Pins::ParallelNor(wire) => work(wire.chip_mut()),
                Pins::RawNand(wire) => work(wire.chip_mut(0).ok_or_else(Failure::internal)?),
            },
        })
    }

    pub(crate) fn break_block(&mut self, address: u64, fails: bool) -> Result<(), Failure> {
        if address >= self.size_bytes()? {
            return Err(Failure::new(Status::OutOfRange, "the address is beyond the end of the device"));
        }
        self.with_oracle(|oracle| oracle.set_faults(address, if fails { Faults::BOTH } else { Faults::NONE }))
    }

    /// Size of all chips without OOB, bytes.
    fn size_bytes(&mut self) -> Result<u64, Failure> {
        match self {
            Self::Mtd { device, .. } => Ok(Mtd::geometry(&**device).size_bytes),
            Self::Card { .. } => Err(Failure::wrong_kind()),
            Self::Pins { pins, .. } => Ok(match &**pins {
                Pins::SpiNor(wire) => wire.chip().spec().geometry.size_bytes,
                Pins::SpiNand(wire) => {
                    let geometry = &wire.chip().spec().geometry;
                    u64::from(geometry.block_bytes()) * u64::from(geometry.blocks())
                }
                Pins::ParallelNor(wire) => wire.chip().spec().geometry.size_bytes,
                Pins::RawNand(wire) => wire.chip(0).map_or(0, |chip| chip.spec().geometry.target_bytes()),
            }),
        }
    }

    pub(crate) fn flip_bit(&mut self, page: u32, bit: u32) -> Result<(), Failure> {
        self.with_oracle(|oracle| {
            let (rows, bits) =
                oracle.array(0).map_or((0, 0), |array| (array.rows(), array.page_bytes() as u64 * 8));
            let parts = (0..).take_while(|part| oracle.array(*part).is_some()).count();
            if u64::from(page) >= rows as u64 * parts as u64 {
                return Err(Failure::new(Status::OutOfRange, "the device has no such page"));
            }
            if u64::from(bit) >= bits {
                let why = format!("a page has {bits} bits with its OOB, numbered from 0");
                return Err(Failure::new(Status::OutOfRange, why));
            }
            oracle.inject(page, bit);
            Ok(())
        })?
    }

    /// Contents as a file. For a SPI NOR at its pins they include its registers, as `floatgate serve --state` writes them; otherwise they
    /// are all pages, each with its OOB.
    fn contents(&mut self) -> Result<Vec<u8>, Failure> {
        if let Self::Pins { pins, .. } = self
            && let Pins::SpiNor(wire) = &**pins
        {
            return Ok(socket::of_nor(wire.chip()));
        }
        self.with_oracle(|oracle| socket::of_arrays(oracle))
    }

    /// Writes the contents to a file, completely or not at all. A device node is written to and not replaced.
    pub(crate) fn save(&mut self, path: &Path) -> Result<(), Failure> {
        // `-` is a file name here and does not mean stdout.
        let path = if is_stdout(path) { Path::new("./-") } else { path };
        let contents = self.contents()?;
        write_file(path, &contents).map_err(|error| Failure::new(Status::File, error))
    }

    /// Loads contents from a file into a new device that was never written.
    pub(crate) fn load(&mut self, path: &Path) -> Result<(), Failure> {
        let failed = |why: std::io::Error| Failure::new(Status::File, format!("{}: {why}", path.display()));
        let most = self.with_oracle(|oracle| socket::contents_bytes_max(oracle))?;
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let written = |oracle: &mut dyn Oracle| {
            (0..)
                .map_while(|part| oracle.array(part))
                .any(|array| (0..array.rows()).any(|row| array.stored(row).is_some()))
        };
        if self.with_oracle(written)? {
            return Err(Failure::new(
                Status::NotErased,
                "contents are loaded into a new device, before anything is written",
            ));
        }
        let outcome = match self {
            Self::Pins { pins, .. } => match &mut **pins {
                Pins::SpiNor(wire) => Ok(socket::set_nor(wire.chip_mut(), &bytes)),
                _ => self.with_oracle(|oracle| socket::set_arrays(oracle, &bytes)),
            },
            _ => self.with_oracle(|oracle| socket::set_arrays(oracle, &bytes)),
        };
        outcome?.map_err(|why| Failure::new(Status::File, format!("{}: {why}", path.display())))
    }

    /// Time breakdown of a driver.
    pub(crate) fn breakdown(&mut self) -> Result<Breakdown, Failure> {
        let (device, _) = self.mtd()?;
        Ok(device.breakdown())
    }
}

/// Transfers bytes to and from a card.
fn card_transfer(card: &mut SpiCard, selected: &mut bool, flags: u32, data: Transfer<'_>) {
    if flags & IDLE != 0 {
        card.deselect();
    } else {
        card.select();
    }
    match data {
        Transfer::Nothing => {}
        Transfer::Write(sent) => card.write(sent),
        Transfer::Read(received) => card.read(received),
        Transfer::Exchange(bytes) => card.exchange(bytes),
    }
    *selected = flags & HOLD != 0;
    if !*selected {
        card.deselect();
    }
}
