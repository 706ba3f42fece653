//! A chip behind its controller for Linux's own drivers, which access it through the module in `hosts/linux-module`.
//!
//! Requests and answers are encoded as bytes; each operation runs in virtual time. An operation that the controller
//! does not support is rejected in advance, so the kernel chooses another one. A violated rule of the chip is
//! recorded, and the operation reads FFh.

mod protocol;

pub use floatgate_device::spi::Direction;
pub use protocol::{BadRequest, REQUEST_MAX};

use crate::socket::{self, Socket, ViolationLog, WrongContents};
use floatgate_device::ecc_engine::Algo;
use floatgate_device::oracle::{Faults, Oracle};
use floatgate_device::power::{Power, PowerCut};
use floatgate_device::raw_nand::{DataInterface, Instr, NandBus, NandController, NandError, RawNand};
use floatgate_device::spi::{Data, Mode, PollPauses, SpiChip, SpiMemWire, SpiOp};
use floatgate_device::spi_nand::SpiNand;
use floatgate_device::spi_nor::SpiNor;
use floatgate_device::timeline::Host;

use floatgate_mtd::{Instant, Nanos, Phase};
use protocol::{DATA_MAX, RawAnswer, RawConfig, Request, RequestBody, Step};

/// A chip behind its controller, by kind.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for a chip, and it stays where it is")]
pub enum Chip {
    /// A SPI NOR at its pins, because the kernel tries several forms of a command.
    SpiNor(SpiMemWire<SpiNor>),
    /// A SPI NAND at its pins, because the kernel tries several forms of a command.
    SpiNand(SpiMemWire<SpiNand>),
    /// A raw NAND, whose operations are lists of bus cycles.
    RawNand(NandRig),
}

/// A raw NAND behind its controller.
#[derive(Clone, Debug)]
pub struct NandRig {
    /// Controller with the NAND chips.
    pub controller: NandController<RawNand>,
    /// ECC used by the kernel.
    pub ecc: NandEcc,
    host: Host,
    violations: ViolationLog,
}

/// ECC of a raw NAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NandEcc {
    /// Neither the chip nor the kernel corrects errors.
    None,
    /// On-die ECC of the chip.
    OnDie,
    /// Software ECC of the kernel.
    Software {
        /// Algorithm of the ECC code.
        algo: Algo,
        /// Number of data bytes per ECC step.
        step: u32,
        /// Number of bits corrected per ECC step.
        strength: u32,
    },
}

impl NandRig {
    /// Creates a raw NAND whose time starts at 0.
    pub fn new(mut controller: NandController<RawNand>, ecc: NandEcc) -> Self {
        controller.power_mut().count_operations();
        Self { controller, ecc, host: Host::default(), violations: ViolationLog::default() }
    }
}

/// Phases during which bytes are on the bus.
const ON_WIRES: [Phase; 4] = [Phase::Command, Phase::Address, Phase::Dummy, Phase::Data];

/// Error numbers of Linux that the module returns.
const EIO: i32 = -5;
const ETIMEDOUT: i32 = -110;
const EOPNOTSUPP: i32 = -95;

/// Form of an operation that the kernel chose, without address and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Operation on a SPI bus.
    Spi {
        /// First byte of the command.
        opcode: u8,
        /// Name of the command in the chip's data sheet.
        name: &'static str,
        /// Number of data lanes and data rate of each phase.
        mode: Mode,
        /// Number of address bytes.
        addr_bytes: u8,
        /// Number of dummy clock cycles.
        dummy_cycles: u8,
        /// Direction of the data.
        dir: Direction,
        /// True if the operation uses the direct mapping of the controller.
        mapped: bool,
    },
    /// Operation on a raw NAND: its command cycles; empty for a continued data transfer.
    Nand {
        /// Command cycles of the operation.
        commands: Vec<u8>,
        /// Data interface during the operation.
        interface: DataInterface,
    },
}

/// Statistics of operations of one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Form of the operations.
    pub form: Form,
    /// Number of operations of this form.
    pub count: u64,
    /// Total number of data bytes.
    pub bytes: u64,
}

/// Maximum number of recorded forms, because a hostile kernel can send many.
const FORMS_MAX: usize = 512;

/// State of the kernel's driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// The kernel is identifying the chip.
    #[default]
    Probing,
    /// No driver of the kernel accepted the chip.
    Missing,
    /// The chip is attached as the MTD device of this number.
    Attached(u32),
}

/// A chip with its request interface for Linux.
#[derive(Clone, Debug)]
pub struct LinuxBus {
    chip: Chip,
    chosen: Vec<Chosen>,
    operations: u64,
    driver: Driver,
}

impl LinuxBus {
    /// A chip that has not been accessed yet.
    pub const fn new(chip: Chip) -> Self {
        Self { chip, chosen: Vec::new(), operations: 0, driver: Driver::Probing }
    }

    /// First message to the module: the bus properties of the chip that the kernel needs.
    pub fn config(&self) -> Vec<u8> {
        let config = match &self.chip {
            Chip::SpiNor(wire) => spi_config(wire, protocol::SPI_NOR),
            Chip::SpiNand(wire) => spi_config(wire, protocol::SPI_NAND),
            Chip::RawNand(rig) => nand_config(rig),
        };
        let mut bytes = Vec::with_capacity(RawConfig::SIZE);
        config.put(&mut bytes);
        bytes
    }

    /// Executes a request and returns the answer.
    ///
    /// # Errors
    /// The bytes are not a valid request: module and command have different versions.
    pub fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, BadRequest> {
        let request = Request::decode(request)?;
        let mut data = vec![0; request.in_len];
        let result = self.run(&request, &mut data);
        let mut answer = Vec::with_capacity(RawAnswer::SIZE + data.len());
        RawAnswer { id: request.id, result }.put(&mut answer);
        if result == 0 {
            answer.extend(data);
        }
        Ok(answer)
    }

    fn run(&mut self, request: &Request<'_>, data: &mut [u8]) -> i32 {
        if let RequestBody::Ready(device) = request.what {
            self.driver = device.map_or(Driver::Missing, Driver::Attached);
            return 0;
        }
        let result = match &mut self.chip {
            Chip::SpiNor(wire) => run_spi(wire, &mut self.chosen, request, data),
            Chip::SpiNand(wire) => run_spi(wire, &mut self.chosen, request, data),
            Chip::RawNand(rig) => rig.run(&mut self.chosen, request, data),
        };
        let is_operation = !matches!(request.what, RequestBody::Supports(_) | RequestBody::Interface { .. });
        self.operations += u64::from(is_operation);
        if is_operation && self.is_dead() { EIO } else { result }
    }

    /// Name of the kernel module that drives this kind of chip.
    pub const fn driver_name(&self) -> &'static str {
        match &self.chip {
            Chip::SpiNor(_) => "spi-nor",
            Chip::SpiNand(_) => "spinand",
            Chip::RawNand(_) => "nand",
        }
    }

    /// State of the kernel's driver.
    pub const fn driver(&self) -> Driver {
        self.driver
    }

    /// Number of operations on the bus.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// Number of programs, erases and register writes.
    pub const fn changes(&self) -> u64 {
        self.power().operations()
    }

    /// Forms of the operations that the kernel chose, in the order of their first use.
    pub fn chosen(&self) -> &[Chosen] {
        &self.chosen
    }

    /// Violations of the chip's rules.
    pub const fn violations(&self) -> &ViolationLog {
        match &self.chip {
            Chip::SpiNor(wire) => wire.wire().violations(),
            Chip::SpiNand(wire) => wire.wire().violations(),
            Chip::RawNand(rig) => &rig.violations,
        }
    }

    /// Time at which the chip has finished all operations.
    pub fn done_at(&self) -> Instant {
        match &self.chip {
            Chip::SpiNor(wire) => wire.done_at(),
            Chip::SpiNand(wire) => wire.done_at(),
            Chip::RawNand(rig) => rig.host.now(),
        }
    }

    /// Time during which bytes were on the wires.
    pub fn on_wires(&self) -> Nanos {
        match &self.chip {
            Chip::SpiNor(wire) => wire.on_wires(),
            Chip::SpiNand(wire) => wire.on_wires(),
            Chip::RawNand(rig) => ON_WIRES.iter().map(|phase| rig.host.spent()[*phase]).sum(),
        }
    }

    const fn power(&self) -> &Power {
        match &self.chip {
            Chip::SpiNor(wire) => wire.wire().power(),
            Chip::SpiNand(wire) => wire.wire().power(),
            Chip::RawNand(rig) => rig.controller.power(),
        }
    }

    /// True after a power failure.
    pub const fn is_dead(&self) -> bool {
        self.power().is_lost()
    }

    fn oracle(&self) -> &dyn Oracle {
        match &self.chip {
            Chip::SpiNor(wire) => wire.wire().chip(),
            Chip::SpiNand(wire) => wire.wire().chip(),
            Chip::RawNand(rig) => &rig.controller,
        }
    }

    fn oracle_mut(&mut self) -> &mut dyn Oracle {
        match &mut self.chip {
            Chip::SpiNor(wire) => wire.wire_mut().chip_mut(),
            Chip::SpiNand(wire) => wire.wire_mut().chip_mut(),
            Chip::RawNand(rig) => &mut rig.controller,
        }
    }

    /// Size of a page and of an eraseblock without OOB, bytes.
    fn units(&self) -> (u64, u64) {
        match &self.chip {
            Chip::SpiNor(wire) => {
                let chip = wire.wire().chip();
                (chip.spec().geometry.page_bytes.into(), chip.block_bytes())
            }
            Chip::SpiNand(wire) => {
                let geometry = &wire.wire().chip().spec().geometry;
                (geometry.page_bytes.into(), geometry.block_bytes().into())
            }
            Chip::RawNand(rig) => rig.controller.chip(0).map_or((1, 1), |chip| {
                let geometry = &chip.spec().geometry;
                let page = u64::from(geometry.page_bytes);
                (page, page * u64::from(geometry.pages_per_block))
            }),
        }
    }
}

impl Socket for LinuxBus {
    fn cut_power(&mut self, operation: u64) {
        let power = match &mut self.chip {
            Chip::SpiNor(wire) => wire.wire_mut().power_mut(),
            Chip::SpiNand(wire) => wire.wire_mut().power_mut(),
            Chip::RawNand(rig) => rig.controller.power_mut(),
        };
        power.order(Some(PowerCut::During { operation, share: 0.5 }));
    }

    fn size(&self) -> u64 {
        let pages: usize = socket::arrays(self.oracle()).map(floatgate_device::array::Array::rows).sum();
        pages as u64 * self.units().0
    }

    fn break_block(&mut self, addr: u64) {
        let (page, block) = self.units();
        let first = addr - addr % block;
        // Faults of a NAND belong to blocks, faults of a NOR to pages.
        (first..first + block)
            .step_by(page as usize)
            .for_each(|at| self.oracle_mut().set_faults(at, Faults::BOTH));
    }

    fn flip(&mut self, addr: u64, bit: u8) {
        let page = self.units().0;
        self.oracle_mut().inject((addr / page) as u32, (addr % page) as u32 * 8 + u32::from(bit));
    }

    fn stick(&mut self, addr: u64, bit: u8, value: bool) -> bool {
        match &mut self.chip {
            Chip::SpiNor(wire) => wire.wire_mut().chip_mut().stick(addr, bit, value),
            Chip::SpiNand(_) | Chip::RawNand(_) => return false,
        }
        true
    }

    fn set_wp_low(&mut self) -> bool {
        match &mut self.chip {
            Chip::SpiNor(wire) => wire.wire_mut().chip_mut().set_wp_low(true),
            Chip::SpiNand(_) | Chip::RawNand(_) => return false,
        }
        true
    }

    fn contents(&self) -> Vec<u8> {
        match &self.chip {
            Chip::SpiNor(wire) => socket::of_nor(wire.wire().chip()),
            Chip::SpiNand(_) | Chip::RawNand(_) => socket::of_arrays(self.oracle()),
        }
    }

    fn set_contents(&mut self, bytes: &[u8]) -> Result<(), WrongContents> {
        match &mut self.chip {
            Chip::SpiNor(wire) => socket::set_nor(wire.wire_mut().chip_mut(), bytes),
            Chip::SpiNand(_) | Chip::RawNand(_) => socket::set_arrays(self.oracle_mut(), bytes),
        }
    }
}

fn spi_config<C: SpiChip>(wire: &SpiMemWire<C>, kind: u32) -> RawConfig {
    let controller = wire.controller();
    let directions =
        [(Direction::In, protocol::CAP_DIRMAP_READ), (Direction::Out, protocol::CAP_DIRMAP_WRITE)];
    let mapped = directions.iter().filter(|(direction, _)| controller.is_mapped(*direction));
    let most = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, DATA_MAX);
    RawConfig {
        magic: protocol::MAGIC,
        kind,
        caps: mapped.clone().fold(0, |caps, (_, cap)| caps | cap),
        clock_hz: controller.clock_hz(),
        max_data: most(controller.max_transfer()),
        max_mapped: most(mapped.map(|(direction, _)| controller.max_mapped(*direction)).min().unwrap_or(1)),
        targets: 1,
        ..RawConfig::default()
    }
}

fn nand_config(rig: &NandRig) -> RawConfig {
    let (ecc, ecc_step, ecc_strength) = match rig.ecc {
        NandEcc::None => (protocol::ECC_NONE, 0, 0),
        NandEcc::OnDie => (protocol::ECC_ON_DIE, 0, 0),
        NandEcc::Software { algo: Algo::Bch, step, strength } => (protocol::ECC_SOFT_BCH, step, strength),
        NandEcc::Software { algo: Algo::Hamming, step, strength } => {
            (protocol::ECC_SOFT_HAMMING, step, strength)
        }
    };
    RawConfig {
        magic: protocol::MAGIC,
        kind: protocol::RAW_NAND,
        caps: if rig.controller.sub_page_writes() { 0 } else { protocol::CAP_NO_SUBPAGE_WRITE },
        // A raw NAND does not use this value.
        clock_hz: 1,
        max_data: DATA_MAX,
        max_mapped: 1,
        targets: rig.controller.targets().into(),
        ecc,
        ecc_step,
        ecc_strength,
    }
}

fn run_spi<C: SpiChip>(
    wire: &mut SpiMemWire<C>,
    chosen: &mut Vec<Chosen>,
    request: &Request<'_>,
    data: &mut [u8],
) -> i32 {
    let (op, mapped) = match &request.what {
        RequestBody::Supports(op) => {
            return op.as_ref().is_some_and(|op| wire.controller().supports(op.mode)).into();
        }
        RequestBody::Spi { op, mapped } => (op, *mapped),
        RequestBody::Poll { op, .. } => (op, false),
        _ => return EOPNOTSUPP,
    };
    if !wire.controller().supports(op.mode) {
        return EOPNOTSUPP;
    }
    let SpiOp { opcode, mode, addr_bytes, dummy_cycles, dir, len, .. } = *op;
    let name = wire.wire().chip().command_name(op);
    count(chosen, Form::Spi { opcode, name, mode, addr_bytes, dummy_cycles, dir, mapped }, len.into());
    match request.what {
        RequestBody::Poll { initial, interval, .. } => wire.poll(op, PollPauses { initial, interval }, data),
        _ => {
            let data = match dir {
                Direction::None => Data::None,
                Direction::In => Data::In(data),
                Direction::Out => Data::Out(request.out),
            };
            wire.exec(op, mapped, data);
        }
    }
    0
}

/// Counts an operation under its form.
fn count(chosen: &mut Vec<Chosen>, form: Form, bytes: u64) {
    if let Some(known) = chosen.iter_mut().find(|known| known.form == form) {
        known.count += 1;
        known.bytes += bytes;
    } else if chosen.len() < FORMS_MAX {
        chosen.push(Chosen { form, count: 1, bytes });
    }
}

impl NandRig {
    fn run(&mut self, chosen: &mut Vec<Chosen>, request: &Request<'_>, data: &mut [u8]) -> i32 {
        match &request.what {
            RequestBody::Nand { target, steps } => {
                let commands = steps.iter().filter_map(|step| match step {
                    Step::Cmd(opcode) => Some(*opcode),
                    _ => None,
                });
                let form =
                    Form::Nand { commands: commands.collect(), interface: self.controller.interface() };
                count(chosen, form, (request.in_len + request.out.len()) as u64);
                self.controller.select(*target);
                self.exec(steps, request.out, data)
            }
            RequestBody::Interface { interface, check_only: true } => {
                if *interface == DataInterface::POWER_ON || self.controller.supports(*interface) {
                    0
                } else {
                    EOPNOTSUPP
                }
            }
            RequestBody::Interface { interface, check_only: false } => {
                match self.controller.set_interface(&mut self.host, *interface) {
                    Ok(()) => 0,
                    Err(_) => EOPNOTSUPP,
                }
            }
            _ => EOPNOTSUPP,
        }
    }

    fn exec(&mut self, steps: &[Step], mut out: &[u8], data: &mut [u8]) -> i32 {
        let mut sent = Vec::new();
        let mut instrs = Vec::with_capacity(steps.len());
        let mut rest = &mut *data;
        for step in steps {
            instrs.push(match *step {
                Step::Cmd(opcode) => {
                    sent.push(opcode);
                    Instr::Cmd(opcode)
                }
                Step::Addr(address) => {
                    sent.extend(address.bytes());
                    Instr::Addr(address)
                }
                Step::Wait(most) => Instr::Wait(most),
                Step::In { len, register } => {
                    let (these, later) = rest.split_at_mut(len.min(rest.len()));
                    rest = later;
                    if register { Instr::RegIn(these) } else { Instr::In(these) }
                }
                Step::Out { len, register } => {
                    let (these, later) = out.split_at(len.min(out.len()));
                    out = later;
                    if register { Instr::RegOut(these) } else { Instr::Out(these) }
                }
            });
        }
        let start = self.host.now();
        match self.controller.exec(&mut self.host, &mut instrs) {
            Ok(()) => 0,
            Err(NandError::Timeout) => ETIMEDOUT,
            Err(NandError::Chip(rule)) => {
                self.violations.record(start, &sent, rule);
                data.fill(0xFF);
                0
            }
            Err(_) => EIO,
        }
    }
}

#[cfg(test)]
mod tests;
