//! A SPI chip without a driver: operations of its command set.

use crate::arguments::{arguments, take};
use crate::buffer::Bytes;
use crate::devices::{check_len, locked};
use crate::failure::Failure;
use crate::speed::Named;
use floatgate_device::spi::{Data, Mode, SpiMem, SpiOp};
use floatgate_device::timeline::Host;
use floatgate_mtd::Nanos;
use floatgate_sim::rig;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;

/// A chip behind its controller, and the clock of the thread that drives it.
struct Bus {
    controller: Box<dyn SpiMem + Send>,
    host: Host,
}

/// The SPI bus of a setup.
#[pyclass(frozen)]
pub(crate) struct NativeSpiBus(Mutex<Bus>);

arguments! {
    /// One operation but for its data.
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
        Ok(Self(Mutex::new(Bus { controller, host: Host::default() })))
    }

    fn now_ns(&self) -> u64 {
        locked(&self.0).host.now().as_ns()
    }

    /// Lets time pass.
    fn wait(&self, ns: &Bound<'_, PyAny>) -> PyResult<()> {
        take!(ns: u64);
        let mut bus = locked(&self.0);
        let until = bus.host.now() + Nanos::from_ns(ns);
        bus.host.resume(until);
        Ok(())
    }

    /// Runs an operation that sends `data`, if any.
    fn send(&self, command: Command, data: &Bound<'_, PyAny>) -> PyResult<()> {
        take!(data: Bytes<'_>);
        let (op, data) = (command.op()?, data.get());
        let Bus { controller, host } = &mut *locked(&self.0);
        let len = length(&**controller, data.len())?;
        let done = match len {
            0 => controller.exec(host, &op, Data::None),
            _ => controller.exec(host, &op.write(len), Data::Out(data)),
        };
        Ok(done.map_err(|refused| Failure::new(refused, controller.offers(&op, &refused)))?)
    }

    /// Runs an operation that reads `read` bytes.
    fn receive<'py>(
        &self,
        py: Python<'py>,
        command: Command,
        read: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        take!(read: usize);
        let op = command.op()?;
        let Bus { controller, host } = &mut *locked(&self.0);
        let bytes = length(&**controller, read)?;
        PyBytes::new_with(py, read, |buffer| {
            let done = controller.exec(host, &op.read(bytes), Data::In(buffer));
            done.map_err(|refused| Failure::new(refused, controller.offers(&op, &refused)).into())
        })
    }
}
