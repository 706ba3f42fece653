//! Chips without a driver: a SPI chip with its controller, operated by commands, and a raw NAND, operated by cycles
//! at its pins.

use crate::arguments::{arguments, extract};
use crate::buffer::Bytes;
use crate::devices::{CutOrder, SpanTuple, by_phase, check_len, later, locked, span_tuple};
use crate::failure::Failure;
use crate::speed::Named;
use floatgate_device::power::PowerCut;
use floatgate_device::raw_nand::{DataInterface, NandWire, RawNand};
use floatgate_device::spi::{Data, Mode, SpiError, SpiMem, SpiOp};
use floatgate_device::timeline::{Host, Resource};
use floatgate_device::violation::ViolationLog;
use floatgate_mtd::{Instant, Nanos, Phase};
use floatgate_sim::rig::{self, SpiHost};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Mutex;

/// A broken rule: its time in ns, the first bytes sent, and the rule in words.
type ViolationTuple = (u64, Vec<u8>, String);

fn violation_tuples(log: &ViolationLog) -> Vec<ViolationTuple> {
    let tuple = |one: &floatgate_device::violation::Recorded| {
        (one.at.as_ns(), one.bytes.clone(), one.rule.to_string())
    };
    log.recorded().iter().map(tuple).collect()
}

/// A chip with its controller, and the clock of the thread that uses it.
struct Bus {
    controller: Box<dyn SpiHost>,
    host: Host,
    violations: ViolationLog,
}

impl Bus {
    /// Runs an operation, and records a broken rule.
    fn exec(&mut self, op: &SpiOp, data: Data<'_>) -> Result<(), Failure> {
        let at = self.host.now();
        let refused = match self.controller.exec(&mut self.host, op, data) {
            Ok(()) => return Ok(()),
            Err(SpiError::PowerLost) => return Err(Failure::power_lost(SpiError::PowerLost)),
            Err(refused) => refused,
        };
        if let SpiError::Chip(rule) = refused {
            let address = op.addr.to_be_bytes();
            let sent = usize::from(op.addr_bytes).min(address.len());
            let bytes: Vec<u8> =
                [op.opcode].into_iter().chain(address[address.len() - sent..].iter().copied()).collect();
            self.violations.record(at, &bytes, rule);
        }
        let help = self.controller.offers(op, &refused);
        Err(match refused {
            SpiError::NotSupported => Failure::new(refused, help),
            SpiError::Timeout => Failure::of_flash("timeout", refused, help),
            _ => Failure::of_flash("refused", refused, help),
        })
    }
}

/// SPI bus of a setup.
#[pyclass(frozen)]
pub(crate) struct NativeSpiBus(Mutex<Bus>);

arguments! {
    /// An operation without its data.
    pub(crate) struct Command {
        opcode: u8,
        address: u32,
        address_bytes: u8,
        dummy_cycles: u8,
        mode: String,
    }
}

impl Command {
    fn op(&self) -> Result<SpiOp, Failure> {
        if self.address_bytes > 4 {
            let help = "give `address_bytes` from 0 to 4";
            return Err(Failure::new(format!("{} address bytes", self.address_bytes), Some(help.to_owned())));
        }
        let mode: Mode = self.mode.parse().map_err(|bad| {
            Failure::new(bad, Some("modes are `1S-1S-1S`, `1S-8S-8S`, `8D-8D-8D` and the like".to_owned()))
        })?;
        Ok(SpiOp::command(self.opcode)
            .address(self.address, self.address_bytes)
            .dummy(self.dummy_cycles)
            .mode(mode))
    }
}

fn length(controller: &dyn SpiMem, len: usize) -> Result<u32, Failure> {
    check_len(len)?;
    let most = controller.max_transfer();
    match u32::try_from(len) {
        Ok(bytes) if len <= most => Ok(bytes),
        _ => {
            let help = format!("this controller transfers at most {most} bytes in one operation");
            Err(Failure::new(format!("{len} bytes in one operation"), Some(help)))
        }
    }
}

#[pymethods]
impl NativeSpiBus {
    #[new]
    fn open(py: Python<'_>, named: Named) -> PyResult<Self> {
        let controller =
            py.detach(|| -> Result<_, Failure> { Ok(rig::spi_bus(&named.config()?, named.options())?) })?;
        let violations = ViolationLog::default();
        Ok(Self(Mutex::new(Bus { controller, host: Host::default(), violations })))
    }

    fn now_ns(&self) -> u64 {
        locked(&self.0).host.now().as_ns()
    }

    fn breakdown_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_phase(py, &locked(&self.0).host.spent())
    }

    /// Advances the clock by `ns`.
    fn wait(&self, ns: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(ns: u64);
        let mut bus = locked(&self.0);
        let until = later(bus.host.now(), ns)?;
        bus.host.wait_until(until, Resource::Cpu, Phase::Waiting, "wait");
        Ok(())
    }

    /// Runs an operation that sends `data`, if any.
    fn send(&self, command: Command, data: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(data: Bytes<'_>);
        let (op, data) = (command.op()?, data.get());
        let mut bus = locked(&self.0);
        let len = length(&*bus.controller, data.len())?;
        let done = match len {
            0 => bus.exec(&op, Data::None),
            _ => bus.exec(&op.write(len), Data::Out(data)),
        };
        Ok(done?)
    }

    /// Runs an operation that reads `read` bytes.
    fn receive<'py>(
        &self,
        py: Python<'py>,
        command: Command,
        read: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        extract!(read: usize);
        let op = command.op()?;
        let mut bus = locked(&self.0);
        let bytes = length(&*bus.controller, read)?;
        PyBytes::new_with(py, read, |buffer| Ok(bus.exec(&op.read(bytes), Data::In(buffer))?))
    }

    /// Independent copy, which shares unchanged blocks.
    fn fork(&self) -> Self {
        let bus = locked(&self.0);
        Self(Mutex::new(Bus {
            controller: bus.controller.fork(),
            host: bus.host.clone(),
            violations: bus.violations.clone(),
        }))
    }

    /// Requests a power cut.
    fn order_cut<'py>(
        &self,
        operation: &Bound<'py, PyAny>,
        share: &Bound<'py, PyAny>,
        after_ns: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let order = CutOrder::new(operation, share, after_ns)?;
        let mut bus = locked(&self.0);
        let cut = order.at(bus.host.now());
        bus.controller.power_mut().order(Some(cut));
        Ok(())
    }

    /// Cancels the requested power cut.
    fn cancel_cut(&self) {
        locked(&self.0).controller.power_mut().order(None);
    }

    fn is_powered(&self) -> bool {
        !locked(&self.0).controller.power().is_lost()
    }

    /// Switches power off, if it is on, and on again after `off_ns`.
    fn restart(&self, off_ns: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(off_ns: u64);
        let mut bus = locked(&self.0);
        let on = later(bus.host.now(), off_ns)?;
        let Bus { controller, host, .. } = &mut *bus;
        if !controller.power().is_lost() {
            controller.power_mut().order(Some(PowerCut::At(host.now())));
            // This operation cannot complete in time; it only advances the chip past the cut.
            let _ = controller.exec(host, &SpiOp::command(0), Data::None);
        }
        controller.power_on();
        host.pass_until(on, Phase::Waiting);
        Ok(())
    }

    /// Starts or stops recording the activity of every resource.
    fn record(&self, on: bool) {
        locked(&self.0).host.record(on);
    }

    /// Activities recorded since the last call, ordered by start.
    fn take_spans(&self) -> Vec<SpanTuple> {
        locked(&self.0).host.take_spans().into_iter().map(span_tuple).collect()
    }

    /// First broken rules, and the number of all.
    fn violations(&self) -> (Vec<ViolationTuple>, u64) {
        let bus = locked(&self.0);
        (violation_tuples(&bus.violations), bus.violations.count())
    }
}

/// Chips of a raw NAND at their pins, and the host's time by phase.
struct Cycles {
    wire: NandWire<RawNand>,
    host: Host,
    target: u8,
}

impl Cycles {
    /// Runs cycles and adds their time to the host's.
    fn run(
        &mut self,
        (resource, phase, what): (Resource, Phase, &'static str),
        cycles: impl FnOnce(&mut NandWire<RawNand>),
    ) -> Result<(), Failure> {
        cycles(&mut self.wire);
        self.host.wait_until(self.wire.now(), resource, phase, what);
        match self.wire.power().is_lost() {
            true => Err(Failure::power_lost("power lost")),
            false => Ok(()),
        }
    }

    fn advance(&mut self, until: Instant) {
        self.wire.advance(until.since(self.wire.now()));
        self.host.wait_until(self.wire.now(), Resource::Cpu, Phase::Waiting, "wait");
    }
}

/// Bus of a raw NAND.
#[pyclass(frozen)]
pub(crate) struct NativeNandBus(Mutex<Cycles>);

#[pymethods]
impl NativeNandBus {
    #[new]
    fn open(py: Python<'_>, named: Named) -> PyResult<Self> {
        let wire =
            py.detach(|| -> Result<_, Failure> { Ok(rig::nand_wire(&named.config()?, named.options())?) })?;
        Ok(Self(Mutex::new(Cycles { wire, host: Host::default(), target: 0 })))
    }

    fn now_ns(&self) -> u64 {
        locked(&self.0).wire.now().as_ns()
    }

    fn breakdown_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_phase(py, &locked(&self.0).host.spent())
    }

    /// Advances the clock by `ns`.
    fn wait(&self, ns: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(ns: u64);
        let mut cycles = locked(&self.0);
        let until = later(cycles.wire.now(), ns)?;
        cycles.advance(until);
        Ok(())
    }

    /// Asserts the CE# signal of a target.
    fn select(&self, target: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(target: u8);
        let mut cycles = locked(&self.0);
        cycles.target = target;
        cycles.wire.select(usize::from(target));
        Ok(())
    }

    /// Switches to another interface.
    fn set_interface(&self, interface: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(interface: String);
        let parsed: DataInterface = interface.parse().map_err(|error| {
            let help = "interfaces are `sdr0` to `sdr5` and `nvddr0` to `nvddr5`".to_owned();
            Failure::new(format!("interface: {error}"), Some(help))
        })?;
        locked(&self.0).wire.set_interface(parsed);
        Ok(())
    }

    /// Sends a command cycle.
    fn command(&self, opcode: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(opcode: u8);
        let kind = (Resource::Bus, Phase::Command, "command");
        Ok(locked(&self.0).run(kind, |wire| wire.command(opcode))?)
    }

    /// Sends address cycles.
    fn address(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(data: Bytes<'_>);
        let kind = (Resource::Bus, Phase::Address, "address");
        Ok(locked(&self.0).run(kind, |wire| wire.address(data.get()))?)
    }

    /// Sends data cycles to the chip.
    fn write(&self, data: &Bound<'_, PyAny>, is_register: bool) -> PyResult<()> {
        extract!(data: Bytes<'_>);
        check_len(data.get().len())?;
        let kind = (Resource::Bus, Phase::Data, "data in");
        Ok(locked(&self.0).run(kind, |wire| match is_register {
            true => wire.write_register(data.get()),
            false => wire.write(data.get()),
        })?)
    }

    /// Reads data cycles from the chip.
    fn read<'py>(
        &self,
        py: Python<'py>,
        length: &Bound<'py, PyAny>,
        is_register: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        extract!(length: usize);
        check_len(length)?;
        let kind = (Resource::Bus, Phase::Data, "data out");
        PyBytes::new_with(py, length, |bytes| {
            Ok(locked(&self.0).run(kind, |wire| match is_register {
                true => wire.read_register(bytes),
                false => wire.read(bytes),
            })?)
        })
    }

    /// State of R/B#: true if the chip is ready.
    fn is_ready(&self) -> bool {
        locked(&self.0).wire.is_ready()
    }

    /// Waits until R/B# is high.
    fn wait_ready(&self) -> PyResult<()> {
        let mut cycles = locked(&self.0);
        let kind = (Resource::Die(cycles.target), Phase::Array, "busy");
        Ok(cycles.run(kind, NandWire::wait_ready)?)
    }

    /// Independent copy, which shares unchanged blocks.
    fn fork(&self) -> Self {
        let cycles = locked(&self.0);
        let (wire, host, target) = (cycles.wire.clone(), cycles.host.clone(), cycles.target);
        Self(Mutex::new(Cycles { wire, host, target }))
    }

    /// Requests a power cut.
    fn order_cut<'py>(
        &self,
        operation: &Bound<'py, PyAny>,
        share: &Bound<'py, PyAny>,
        after_ns: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let order = CutOrder::new(operation, share, after_ns)?;
        let mut cycles = locked(&self.0);
        let cut = order.at(cycles.wire.now());
        cycles.wire.power_mut().order(Some(cut));
        Ok(())
    }

    /// Cancels the requested power cut.
    fn cancel_cut(&self) {
        locked(&self.0).wire.power_mut().order(None);
    }

    fn is_powered(&self) -> bool {
        !locked(&self.0).wire.power().is_lost()
    }

    /// Switches power off, if it is on, and on again after `off_ns`.
    fn restart(&self, off_ns: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(off_ns: u64);
        let mut cycles = locked(&self.0);
        let on = later(cycles.wire.now(), off_ns)?;
        if !cycles.wire.power().is_lost() {
            let now = cycles.wire.now();
            cycles.wire.power_mut().order(Some(PowerCut::At(now)));
            cycles.wire.advance(Nanos::ZERO);
        }
        cycles.wire.power_on();
        cycles.advance(on);
        Ok(())
    }

    /// Starts or stops recording the activity of every resource.
    fn record(&self, on: bool) {
        locked(&self.0).host.record(on);
    }

    /// Activities recorded since the last call, ordered by start.
    fn take_spans(&self) -> Vec<SpanTuple> {
        locked(&self.0).host.take_spans().into_iter().map(span_tuple).collect()
    }

    /// First broken rules, and the number of all.
    fn violations(&self) -> (Vec<ViolationTuple>, u64) {
        let cycles = locked(&self.0);
        (violation_tuples(cycles.wire.violations()), cycles.wire.violations().count())
    }
}
