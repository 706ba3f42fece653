//! Simulated devices in virtual time: flash under its driver, and cards.

use crate::arguments::extract;
use crate::buffer::{Bytes, BytesMut};
use crate::failure::Failure;
use crate::library;
use crate::speed::Named;
use floatgate_card::{Card, CardOptions, Fake};
use floatgate_config::Override;
use floatgate_device::oracle::Faults;
use floatgate_device::power::PowerCut;
use floatgate_device::{Otp, OtpArea, Span};
use floatgate_lab::{card, trace};
use floatgate_mtd::{
    BlockDevice, BlockErrorKind, Breakdown, ErrorKind, Instant, Nanos, OobMode, SECTOR_BYTES,
};
use floatgate_sim::partition;
use floatgate_sim::rig::{self, Device};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of bytes of one call, which exceeds every eraseblock and limits memory.
pub(crate) const CALL_BYTES_MAX: usize = 64 << 20;

pub(crate) fn check_len(len: usize) -> Result<(), Failure> {
    if len <= CALL_BYTES_MAX {
        return Ok(());
    }
    let help = format!("ask for at most {} MiB in one call", CALL_BYTES_MAX >> 20);
    Err(Failure::new(format!("{len} bytes in one call"), Some(help)))
}

/// Maximum of a clock, ns: 100 years.
const CLOCK_NS_MAX: u64 = 100 * 366 * 86_400 * 1_000_000_000;

/// Time that is `ns` after `now`.
pub(crate) fn later(now: Instant, ns: u64) -> Result<Instant, Failure> {
    match now.as_ns().checked_add(ns) {
        Some(at) if at <= CLOCK_NS_MAX => Ok(Instant::from_ns(at)),
        _ => Err(Failure::new("the clock ends after 100 years", Some("give fewer nanoseconds".to_owned()))),
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Times by phase, ns.
pub(crate) fn by_phase<'py>(py: Python<'py>, breakdown: &Breakdown) -> PyResult<Bound<'py, PyDict>> {
    /// Names of the phases, which are created once.
    static NAMES: PyOnceLock<Vec<Py<PyString>>> = PyOnceLock::new();
    let made = || breakdown.iter().map(|(phase, _)| PyString::intern(py, phase.name()).unbind()).collect();
    let all = PyDict::new(py);
    for (name, (_, time)) in NAMES.get_or_init(py, made).iter().zip(breakdown.iter()) {
        all.set_item(name, time.as_ns())?;
    }
    Ok(all)
}

/// Activity of a resource: its name, its phase, start and end in ns, and a description.
pub(crate) type SpanTuple = (String, &'static str, u64, u64, &'static str);

/// A device with the clock of the only thread that uses it.
struct Clocked<D> {
    device: D,
    now: Instant,
}

/// A block that fails from a time on, or works again.
#[derive(Clone, Copy, Debug)]
struct PlannedFault {
    from: Instant,
    /// Byte address on the chip.
    addr: u64,
    faults: Faults,
}

/// Flash with its driver.
struct Flash {
    device: Box<dyn Device>,
    now: Instant,
    /// Offset of the partition on the chip, bytes; `None` in slc-mode.
    chip_at: Option<u64>,
    /// Faults whose time has not come.
    planned: Vec<PlannedFault>,
}

/// Flash of a setup.
#[pyclass(frozen)]
pub(crate) struct NativeMtd(Mutex<Flash>);

fn flash_failed(error: floatgate_mtd::Error) -> Failure {
    let (kind, help) = match error.kind {
        ErrorKind::OutOfRange { .. } | ErrorKind::Misaligned { .. } => {
            return Failure::new(error, Some("`geometry` has the sizes of the flash".to_owned()));
        }
        ErrorKind::PowerLost => return Failure::power_lost(error),
        ErrorKind::NotErased => ("not erased", "erase the block before"),
        ErrorKind::BadBlock => ("bad block", "choose another block: `is_bad` tells which are bad"),
        ErrorKind::Uncorrectable => ("uncorrectable", ""),
        ErrorKind::ProgramFailed => ("program failed", ""),
        ErrorKind::EraseFailed => ("erase failed", ""),
        ErrorKind::WriteProtected => ("write protected", ""),
        ErrorKind::Timeout => ("timeout", ""),
        ErrorKind::Unsupported(_) => ("unsupported", ""),
        ErrorKind::DeviceLost => ("no answer", ""),
        _ => ("refused", ""),
    };
    Failure::of_flash(kind, error, Some(help.to_owned()).filter(|help| !help.is_empty()))
}

fn oob_mode(name: &str) -> Result<OobMode, Failure> {
    match name {
        "raw" => Ok(OobMode::Raw),
        "place" => Ok(OobMode::Place),
        "auto" => Ok(OobMode::Auto),
        _ => Err(Failure::new(
            format!("no mode of OOB is called {name:?}"),
            Some("there are `raw`, `place` and `auto`".to_owned()),
        )),
    }
}

fn otp_area(name: &str) -> Result<OtpArea, Failure> {
    match name {
        "user" => Ok(OtpArea::User),
        "factory" => Ok(OtpArea::Factory),
        _ => Err(Failure::new(
            format!("area: no OTP area is called {name:?}"),
            Some("there are `user` and `factory`".to_owned()),
        )),
    }
}

/// Failure of an argument outside its range. `value` is the argument with its value, such as `bit: 8`.
fn out_of_range(value: &str, range: &str) -> Failure {
    Failure::new(format!("{value} is out of range"), Some(format!("give {range}")))
}

/// Requested power cut: in the n-th program or erase from now on, after `share` of it; or after some ns.
pub(crate) struct CutOrder {
    operation: Option<u64>,
    share: f64,
    after: Nanos,
}

impl CutOrder {
    pub(crate) fn new(
        operation: &Bound<'_, PyAny>,
        share: &Bound<'_, PyAny>,
        after_ns: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        extract!(operation: Option<i128>, share: f64, after_ns: i128);
        let refused = |value: &str, range: &str| -> PyResult<Self> { Err(out_of_range(value, range).into()) };
        let value = operation.unwrap_or(0);
        let operation = operation.map(u64::try_from).transpose();
        match (operation, u64::try_from(after_ns)) {
            (Err(_) | Ok(Some(0)), _) => {
                refused(&format!("operation: {value}"), "1 for the next program or erase, or more")
            }
            _ if !(0.0..=1.0).contains(&share) => refused(&format!("share: {share}"), "0 to 1"),
            (_, Err(_)) => refused(&format!("after_ns: {after_ns}"), "0 or more"),
            (Ok(operation), Ok(after)) => Ok(Self { operation, share, after: Nanos::from_ns(after) }),
        }
    }

    /// Power cut for a chip whose clock is at `now`.
    pub(crate) fn at(&self, now: Instant) -> PowerCut {
        match self.operation {
            Some(operation) => PowerCut::During { operation, share: self.share },
            None => PowerCut::At(now + self.after),
        }
    }
}

/// A span as a Python tuple.
pub(crate) fn span_tuple(span: Span) -> SpanTuple {
    let (start, end) = (span.start.as_ns(), span.end.as_ns());
    (trace::resource_name(span.resource), span.phase.name(), start, end, span.what)
}

impl Flash {
    /// Runs an operation. The clock advances to its end, or to the time at which its failure was known.
    fn run(
        &mut self,
        operation: impl FnOnce(&mut dyn Device, Instant) -> Result<Instant, floatgate_mtd::Error>,
    ) -> Result<(), Failure> {
        self.apply_faults();
        let outcome = operation(self.device.as_mut(), self.now);
        self.now = match &outcome {
            Ok(at) => *at,
            Err(error) => error.at,
        };
        outcome.map(|_| ()).map_err(flash_failed)
    }

    /// Applies the planned faults whose time has come, in the order of their times.
    fn apply_faults(&mut self) {
        if self.planned.is_empty() {
            return;
        }
        let now = self.now;
        self.planned.sort_by_key(|fault| fault.from);
        let due = self.planned.partition_point(|fault| fault.from <= now);
        for fault in self.planned.drain(..due) {
            self.device.oracle().set_faults(fault.addr, fault.faults);
        }
    }

    /// Address on the chip of an address of the flash.
    fn chip_addr(&self, addr: u64) -> Result<u64, Failure> {
        let size = self.device.geometry().size_bytes;
        if addr >= size {
            let help = "`geometry` has the sizes of the flash".to_owned();
            return Err(Failure::new(
                format!("addr: {addr} is beyond the {size} bytes of the flash"),
                Some(help),
            ));
        }
        let offset = self.chip_at.ok_or_else(|| {
            let help = "take a setup without `partition.slc`".to_owned();
            Failure::new("in slc-mode the cells of an address are not addressed one by one", Some(help))
        })?;
        Ok(offset + addr)
    }

    /// Die or target of an eraseblock, and its number there.
    fn cells_of(&mut self, addr: u64) -> Result<(usize, u32), Failure> {
        let block = self.chip_addr(addr)? / u64::from(self.device.geometry().erase_bytes.max(1));
        let mut block = u32::try_from(block).unwrap_or(u32::MAX);
        let oracle = self.device.oracle();
        for part in 0.. {
            let Some(cells) = oracle.cells(part) else { break };
            if block < cells.blocks() {
                return Ok((part, block));
            }
            block -= cells.blocks();
        }
        let help = "take a setup with a NAND".to_owned();
        Err(Failure::new("the cells of a NOR have no model of wear", Some(help)))
    }

    fn otp(&mut self) -> Result<&mut dyn Otp, Failure> {
        self.device.otp().ok_or_else(|| Failure::of_flash("unsupported", "the chip has no OTP area", None))
    }

    /// As [`run`](Self::run), for an operation on the OTP areas.
    fn run_otp(
        &mut self,
        operation: impl FnOnce(&mut dyn Otp, Instant) -> Result<Instant, floatgate_mtd::Error>,
    ) -> Result<(), Failure> {
        let now = self.now;
        let outcome = operation(self.otp()?, now);
        self.now = match &outcome {
            Ok(at) => *at,
            Err(error) => error.at,
        };
        outcome.map(|_| ()).map_err(flash_failed)
    }
}

#[pymethods]
impl NativeMtd {
    #[new]
    fn open(py: Python<'_>, named: Named) -> PyResult<Self> {
        Ok(Self(Mutex::new(py.detach(|| -> Result<_, Failure> {
            let config = named.config()?;
            let chip_at = partition::linear_offset(&config)?;
            let mut rig = rig::wire(library(), &config, named.options())?;
            let now = rig.now();
            Ok(Flash { device: rig.device, now, chip_at, planned: Vec::new() })
        })?)))
    }

    fn now_ns(&self) -> u64 {
        locked(&self.0).now.as_ns()
    }

    fn geometry<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let geometry = locked(&self.0).device.geometry().clone();
        let all = PyDict::new(py);
        all.set_item("size_bytes", geometry.size_bytes)?;
        for (name, value) in [
            ("erase_bytes", geometry.erase_bytes),
            ("write_bytes", geometry.write_bytes),
            ("oob_bytes", geometry.oob_bytes),
            ("oob_free_bytes", geometry.oob_free_bytes),
            ("ecc_strength", geometry.ecc_strength),
            ("ecc_step_bytes", geometry.ecc_step_bytes),
        ] {
            all.set_item(name, value)?;
        }
        Ok(all)
    }

    fn breakdown_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_phase(py, &locked(&self.0).device.breakdown())
    }

    /// Independent copy, which shares unchanged blocks.
    fn fork(&self) -> Self {
        let flash = locked(&self.0);
        let planned = flash.planned.clone();
        Self(Mutex::new(Flash {
            device: flash.device.fork(),
            now: flash.now,
            chip_at: flash.chip_at,
            planned,
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
        let mut flash = locked(&self.0);
        let cut = order.at(flash.now);
        flash.device.power_mut().order(Some(cut));
        Ok(())
    }

    /// Cancels the requested power cut.
    fn cancel_cut(&self) {
        locked(&self.0).device.power_mut().order(None);
    }

    /// Starts to count programs and erases.
    fn count_operations(&self) {
        locked(&self.0).device.power_mut().count_operations();
    }

    /// Number of counted programs and erases.
    fn operations(&self) -> u64 {
        locked(&self.0).device.power().operations()
    }

    /// Advances the clock by `ns`.
    fn wait(&self, ns: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(ns: u64);
        let mut flash = locked(&self.0);
        let until = later(flash.now, ns)?;
        flash.now = until;
        Ok(())
    }

    /// Makes programs and erases of the eraseblock at an address fail from `after_ns` on, or work again.
    fn set_faults<'py>(
        &self,
        addr: &Bound<'py, PyAny>,
        program: &Bound<'py, PyAny>,
        erase: &Bound<'py, PyAny>,
        after_ns: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, program: bool, erase: bool, after_ns: u64);
        let mut flash = locked(&self.0);
        let addr = flash.chip_addr(addr)?;
        let from = later(flash.now, after_ns)?;
        flash.planned.push(PlannedFault { from, addr, faults: Faults { program, erase } });
        flash.apply_faults();
        Ok(())
    }

    /// Inverts a bit of the byte at an address, or of a byte of its page's OOB. The error lasts until the block is
    /// erased.
    fn flip<'py>(
        &self,
        addr: &Bound<'py, PyAny>,
        bit: &Bound<'py, PyAny>,
        oob_byte: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, bit: u32, oob_byte: Option<u32>);
        if bit > 7 {
            return Err(out_of_range(&format!("bit: {bit}"), "0 to 7").into());
        }
        let mut flash = locked(&self.0);
        let addr = flash.chip_addr(addr)?;
        let (oob_bytes, write_bytes) =
            (flash.device.geometry().oob_bytes, flash.device.geometry().write_bytes);
        let oracle = flash.device.oracle();
        let row_bytes = oracle.array(0).map_or(0, |array| array.page_bytes() as u64).max(1);
        // In a row, the OOB follows the data. NOR has no OOB, and any write unit.
        let data_bytes = if oob_bytes > 0 { u64::from(write_bytes).max(1) } else { row_bytes };
        let byte = match oob_byte {
            None => addr % data_bytes,
            Some(byte) if u64::from(byte) < row_bytes.saturating_sub(data_bytes) => {
                data_bytes + u64::from(byte)
            }
            Some(byte) => {
                let help = format!("a page has {} bytes of OOB", row_bytes - data_bytes);
                return Err(Failure::new(format!("oob_byte: {byte} is out of range"), Some(help)).into());
            }
        };
        let page = u32::try_from(addr / data_bytes).unwrap_or(u32::MAX);
        oracle.inject(page, byte as u32 * 8 + bit);
        Ok(())
    }

    /// Number of erase cycles of the eraseblock at an address.
    fn cycles(&self, addr: &Bound<'_, PyAny>) -> PyResult<u32> {
        extract!(addr: u64);
        let mut flash = locked(&self.0);
        let (part, block) = flash.cells_of(addr)?;
        Ok(flash.device.oracle().cells(part).map_or(0, |cells| cells.cycles(block)))
    }

    /// Adds erase cycles to an eraseblock.
    fn wear<'py>(&self, addr: &Bound<'py, PyAny>, cycles: &Bound<'py, PyAny>) -> PyResult<()> {
        extract!(addr: u64, cycles: u32);
        let mut flash = locked(&self.0);
        let (part, block) = flash.cells_of(addr)?;
        if let Some(cells) = flash.device.oracle().cells_mut(part) {
            cells.cycle(block, cycles);
        }
        Ok(())
    }

    /// Simulates the charge loss of all programmed pages over some days at a temperature.
    fn bake<'py>(&self, days: &Bound<'py, PyAny>, temperature_c: &Bound<'py, PyAny>) -> PyResult<()> {
        extract!(days: f64, temperature_c: f64);
        if !(0.0..=1e6).contains(&days) {
            return Err(out_of_range(&format!("days: {days}"), "0 to 1000000").into());
        }
        if !(-100.0..=400.0).contains(&temperature_c) {
            return Err(out_of_range(&format!("temperature_c: {temperature_c}"), "-100 to 400").into());
        }
        let mut flash = locked(&self.0);
        // This fails for NOR.
        flash.cells_of(0)?;
        let oracle = flash.device.oracle();
        for part in 0.. {
            let Some(cells) = oracle.cells_mut(part) else { break };
            cells.bake(days, temperature_c);
        }
        Ok(())
    }

    /// Regions of an OTP area: offset, length, and whether they are locked.
    fn otp_regions(&self, py: Python<'_>, area: &Bound<'_, PyAny>) -> PyResult<Vec<(u64, u64, bool)>> {
        extract!(area: String);
        let area = otp_area(&area)?;
        Ok(py.detach(|| -> Result<_, Failure> {
            let mut flash = locked(&self.0);
            let Ok(otp) = flash.otp() else { return Ok(Vec::new()) };
            let count = otp.otp_regions(area);
            let mut all = Vec::new();
            for index in 0..count {
                flash.run_otp(|otp, now| {
                    let (region, at) = otp.otp_info(now, area, index)?;
                    all.push((region.start, region.len, region.locked));
                    Ok(at)
                })?;
            }
            Ok(all)
        })?)
    }

    /// Reads bytes of an OTP area.
    fn otp_read<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
        area: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        extract!(addr: u64, length: usize, area: String);
        check_len(length)?;
        let area = otp_area(&area)?;
        PyBytes::new_with(py, length, |bytes| {
            let work = || {
                locked(&self.0).run_otp(|otp, now| otp.otp_read(now, area, addr, bytes).map(|done| done.at))
            };
            py.detach(work).map_err(PyErr::from)
        })
    }

    fn otp_write<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, data: Bytes<'_>);
        let data = data.get();
        let work = || locked(&self.0).run_otp(|otp, now| otp.otp_write(now, addr, data).map(|done| done.at));
        Ok(py.detach(work)?)
    }

    fn otp_erase<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, length: u64);
        let work =
            || locked(&self.0).run_otp(|otp, now| otp.otp_erase(now, addr, length).map(|done| done.at));
        Ok(py.detach(work)?)
    }

    fn otp_lock<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, length: u64);
        let work = || locked(&self.0).run_otp(|otp, now| otp.otp_lock(now, addr, length).map(|done| done.at));
        Ok(py.detach(work)?)
    }

    /// Marks the eraseblock at an address bad.
    fn mark_bad(&self, py: Python<'_>, addr: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(addr: u64);
        let work = || locked(&self.0).run(|flash, now| flash.mark_bad(now, addr).map(|done| done.at));
        Ok(py.detach(work)?)
    }

    fn is_powered(&self) -> bool {
        !locked(&self.0).device.power().is_lost()
    }

    /// Restores power after `off_ns`; the driver initialises the chip again.
    fn restart<'py>(&self, py: Python<'py>, off_ns: &Bound<'py, PyAny>) -> PyResult<()> {
        extract!(off_ns: u64);
        Ok(py.detach(|| -> Result<(), Failure> {
            let mut clocked = locked(&self.0);
            let on = later(clocked.now, off_ns)?;
            clocked.device.host().resume(on);
            let outcome = clocked.device.restart();
            clocked.now = clocked.now.max(clocked.device.host().now());
            // The usual reason is another cut during the initialisation.
            outcome.map_err(|why| match clocked.device.power().is_lost() {
                true => Failure::power_lost(why),
                false => Failure::of_flash("no answer", why, None),
            })
        })?)
    }

    /// Starts or stops recording the activity of every resource.
    fn record(&self, on: bool) {
        locked(&self.0).device.host().record(on);
    }

    /// Activities recorded since the last call, ordered by start.
    fn take_spans(&self) -> Vec<SpanTuple> {
        locked(&self.0).device.host().take_spans().into_iter().map(span_tuple).collect()
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        extract!(addr: u64, length: usize);
        check_len(length)?;
        PyBytes::new_with(py, length, |bytes| {
            py.detach(|| locked(&self.0).run(|flash, now| flash.read(now, addr, bytes).map(|done| done.at)))
                .map_err(PyErr::from)
        })
    }

    /// Reads into a buffer.
    fn readinto<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, buffer: BytesMut<'_>);
        let mut buffer = buffer;
        let bytes = buffer.get();
        let work = || locked(&self.0).run(|flash, now| flash.read(now, addr, bytes).map(|done| done.at));
        Ok(py.detach(work)?)
    }

    fn write<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, data: Bytes<'_>);
        let data = data.get();
        let work = || locked(&self.0).run(|flash, now| flash.write(now, addr, data).map(|done| done.at));
        Ok(py.detach(work)?)
    }

    fn erase<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, length: u64);
        let work = || locked(&self.0).run(|flash, now| flash.erase(now, addr, length).map(|done| done.at));
        Ok(py.detach(work)?)
    }

    /// Reads data and OOB of a page.
    fn read_oob<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        mode: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        extract!(addr: u64, mode: String);
        let mode = oob_mode(&mode)?;
        let (data, oob) = py.detach(|| -> Result<_, Failure> {
            let mut clocked = locked(&self.0);
            let geometry = clocked.device.geometry();
            let oob_bytes = if mode == OobMode::Auto { geometry.oob_free_bytes } else { geometry.oob_bytes };
            let mut data = vec![0; geometry.write_bytes as usize];
            let mut oob = vec![0; oob_bytes as usize];
            clocked
                .run(|flash, now| flash.read_oob(now, addr, &mut data, &mut oob, mode).map(|done| done.at))?;
            Ok((data, oob))
        })?;
        Ok((PyBytes::new(py, &data), PyBytes::new(py, &oob)))
    }

    fn write_oob<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
        oob: &Bound<'py, PyAny>,
        mode: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(addr: u64, data: Bytes<'_>, oob: Bytes<'_>, mode: String);
        let (data, oob, mode) = (data.get(), oob.get(), oob_mode(&mode)?);
        let work = || {
            locked(&self.0).run(|flash, now| flash.write_oob(now, addr, data, oob, mode).map(|done| done.at))
        };
        Ok(py.detach(work)?)
    }

    fn is_bad<'py>(&self, py: Python<'py>, addr: &Bound<'py, PyAny>) -> PyResult<bool> {
        extract!(addr: u64);
        Ok(py.detach(|| -> Result<_, Failure> {
            let mut clocked = locked(&self.0);
            let now = clocked.now;
            let (bad, at) = clocked.device.is_bad(now, addr).map_err(flash_failed)?;
            clocked.now = at;
            Ok(bad)
        })?)
    }
}

/// An SD card or eMMC as its host sees it: a fake card has the size that it claims.
#[pyclass(frozen)]
pub(crate) struct NativeCard(Mutex<Clocked<Fake<Card>>>);

impl Clocked<Fake<Card>> {
    /// Runs a request. The clock advances to its end, or to the time at which its failure was known.
    fn run(
        &mut self,
        request: impl FnOnce(&mut Fake<Card>, Instant) -> Result<Instant, floatgate_mtd::BlockError>,
    ) -> Result<(), Failure> {
        let outcome = request(&mut self.device, self.now);
        self.now = match &outcome {
            Ok(at) => *at,
            Err(error) => error.at,
        };
        outcome.map(|_| ()).map_err(|error| match error.kind {
            BlockErrorKind::PowerLost => Failure::power_lost(error),
            BlockErrorKind::WornOut => Failure::of_flash("worn out", error, None),
            BlockErrorKind::Uncorrectable => Failure::of_flash("uncorrectable", error, None),
            BlockErrorKind::TimedOut => Failure::of_flash("timeout", error, None),
            _ => Failure::new(error, None),
        })
    }
}

#[pymethods]
impl NativeCard {
    #[new]
    fn open<'py>(
        py: Python<'py>,
        card: PathBuf,
        set: Vec<String>,
        seed: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        extract!(seed: u64);
        let device = py.detach(|| -> Result<_, Failure> {
            let loaded = card::load(library(), &card, &Override::parse_all(&set)?)?;
            let made = Fake::of_spec(&loaded.spec, CardOptions { seed, stores: true });
            made.map_err(|bad| Failure::new(format!("card.{}: {}", bad.key, bad.problem), None))
        })?;
        let now = device.device().now();
        Ok(Self(Mutex::new(Clocked { device, now })))
    }

    fn now_ns(&self) -> u64 {
        locked(&self.0).now.as_ns()
    }

    fn breakdown_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_phase(py, &locked(&self.0).device.breakdown())
    }

    /// Independent copy.
    fn fork(&self) -> Self {
        let clocked = locked(&self.0);
        Self(Mutex::new(Clocked { device: clocked.device.clone(), now: clocked.now }))
    }

    /// Requests a power cut: in the n-th program or erase from now on, or after some ns.
    fn order_cut<'py>(&self, operation: &Bound<'py, PyAny>, after_ns: &Bound<'py, PyAny>) -> PyResult<()> {
        let share = 0.5_f64.into_pyobject(operation.py())?;
        let order = CutOrder::new(operation, share.as_any(), after_ns)?;
        let mut card = locked(&self.0);
        let now = card.now;
        match order.at(now) {
            PowerCut::At(at) => card.device.device_mut().order_removal(at),
            PowerCut::During { operation, .. } => card.device.device_mut().order_cut(operation),
        }
        Ok(())
    }

    /// Cancels the requested power cut.
    fn cancel_cut(&self) {
        locked(&self.0).device.device_mut().cancel_cuts();
    }

    fn is_powered(&self) -> bool {
        !locked(&self.0).device.device().is_lost()
    }

    /// Restores power after `off_ns`; the card rebuilds its map.
    fn restart(&self, py: Python<'_>, off_ns: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(off_ns: u64);
        Ok(py.detach(|| -> Result<(), Failure> {
            let mut card = locked(&self.0);
            let on = later(card.now, off_ns)?;
            card.device.device_mut().cut_power();
            card.run(|card, _| card.device_mut().power_on(on, 0))
        })?)
    }

    /// Advances the clock by `ns`.
    fn wait(&self, ns: &Bound<'_, PyAny>) -> PyResult<()> {
        extract!(ns: u64);
        let mut card = locked(&self.0);
        let until = later(card.now, ns)?;
        card.now = until;
        Ok(())
    }

    /// Starts or stops recording the activity of bus, firmware and array.
    fn record(&self, on: bool) {
        locked(&self.0).device.device_mut().record(on);
    }

    /// Activities recorded since the last call, ordered by start.
    fn take_spans(&self) -> Vec<SpanTuple> {
        locked(&self.0).device.device_mut().take_spans().into_iter().map(span_tuple).collect()
    }

    /// Number of units that the host wrote, of units that the card programmed, and of erases.
    fn counts(&self) -> (u64, u64, u64) {
        let stats = locked(&self.0).device.device().stats();
        (stats.host_units, stats.written_units, stats.erases)
    }

    fn size_bytes(&self) -> u64 {
        locked(&self.0).device.capacity() * SECTOR_BYTES as u64
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        lba: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        extract!(lba: u64, length: usize);
        check_len(length)?;
        PyBytes::new_with(py, length, |bytes| {
            let work = || locked(&self.0).run(|card, now| card.read(now, lba, bytes));
            py.detach(work).map_err(PyErr::from)
        })
    }

    /// Reads into a buffer.
    fn readinto<'py>(
        &self,
        py: Python<'py>,
        lba: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(lba: u64, buffer: BytesMut<'_>);
        let mut buffer = buffer;
        let bytes = buffer.get();
        Ok(py.detach(|| locked(&self.0).run(|card, now| card.read(now, lba, bytes)))?)
    }

    fn write<'py>(&self, py: Python<'py>, lba: &Bound<'py, PyAny>, data: &Bound<'py, PyAny>) -> PyResult<()> {
        extract!(lba: u64, data: Bytes<'_>);
        let data = data.get();
        Ok(py.detach(|| locked(&self.0).run(|card, now| card.write(now, lba, data)))?)
    }

    fn discard<'py>(
        &self,
        py: Python<'py>,
        lba: &Bound<'py, PyAny>,
        count: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        extract!(lba: u64, count: u64);
        Ok(py.detach(|| locked(&self.0).run(|card, now| card.discard(now, lba, count)))?)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| locked(&self.0).run(|card, now| card.flush(now)))?)
    }
}
