//! Simulated devices in virtual time: flash under its driver, and cards.

use crate::arguments::take;
use crate::buffer::{Bytes, BytesMut};
use crate::failure::Failure;
use crate::library;
use crate::speed::Named;
use floatgate_card::{Card, CardOptions, Fake};
use floatgate_config::Override;
use floatgate_device::power::PowerCut;
use floatgate_lab::{card, trace};
use floatgate_mtd::{BlockDevice, Breakdown, ErrorKind, Instant, Nanos, OobMode, SECTOR_BYTES};
use floatgate_sim::rig::{self, Device};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes of one call: more than any eraseblock has, and no burden for the host.
pub(crate) const CALL_BYTES_MAX: usize = 64 << 20;

pub(crate) fn check_len(len: usize) -> Result<(), Failure> {
    if len <= CALL_BYTES_MAX {
        return Ok(());
    }
    let help = format!("ask for at most {} MiB in one call", CALL_BYTES_MAX >> 20);
    Err(Failure::new(format!("{len} bytes in one call"), Some(help)))
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds by phase.
pub(crate) fn by_phase<'py>(py: Python<'py>, breakdown: &Breakdown) -> PyResult<Bound<'py, PyDict>> {
    /// Names of the phases, made once.
    static NAMES: PyOnceLock<Vec<Py<PyString>>> = PyOnceLock::new();
    let made = || breakdown.iter().map(|(phase, _)| PyString::intern(py, phase.name()).unbind()).collect();
    let all = PyDict::new(py);
    for (name, (_, time)) in NAMES.get_or_init(py, made).iter().zip(breakdown.iter()) {
        all.set_item(name, time.as_ns())?;
    }
    Ok(all)
}

/// Activity of a resource: its name, phase, start and end in ns, and what it was.
type SpanTuple = (String, &'static str, u64, u64, &'static str);

/// A flash under its driver, with the clock of the only thread that uses it.
struct Clocked<D> {
    device: D,
    now: Instant,
}

/// Flash of a setup.
#[pyclass(frozen)]
pub(crate) struct NativeMtd(Mutex<Clocked<Box<dyn Device>>>);

fn flash_failed(error: floatgate_mtd::Error) -> Failure {
    let help = match error.kind {
        ErrorKind::OutOfRange { .. } | ErrorKind::Misaligned { .. } => {
            "`geometry` has the sizes of the flash"
        }
        ErrorKind::NotErased => "erase the block before",
        ErrorKind::BadBlock => "choose another block: `is_bad` tells which are bad",
        ErrorKind::PowerLost => "`restart()` switches power on again",
        _ => return Failure::new(error, None),
    };
    Failure::new(error, Some(help.to_owned()))
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

impl Clocked<Box<dyn Device>> {
    /// Runs an operation from now on; the clock goes on to its end, or to when its failure was known.
    fn run(
        &mut self,
        operation: impl FnOnce(&mut dyn Device, Instant) -> Result<Instant, floatgate_mtd::Error>,
    ) -> Result<(), Failure> {
        let outcome = operation(self.device.as_mut(), self.now);
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
        let rig = py.detach(|| -> Result<_, Failure> {
            Ok(rig::wire(library(), &named.config()?, named.options())?)
        });
        let mut rig = rig?;
        let now = rig.now();
        Ok(Self(Mutex::new(Clocked { device: rig.device, now })))
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

    /// A copy that goes its own way; blocks that neither changes are shared.
    fn fork(&self) -> Self {
        let clocked = locked(&self.0);
        Self(Mutex::new(Clocked { device: clocked.device.fork(), now: clocked.now }))
    }

    /// Orders a loss of power: in the program or erase of this number from now on, when `share` of it is over; or some ns from now on.
    fn order_cut<'py>(
        &self,
        operation: &Bound<'py, PyAny>,
        share: &Bound<'py, PyAny>,
        after_ns: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        take!(operation: Option<i128>, share: f64, after_ns: i128);
        let refused = |why: String| Err(PyValueError::new_err(why));
        let operation = operation.map(u64::try_from);
        let mut clocked = locked(&self.0);
        let cut = match (operation, u64::try_from(after_ns)) {
            (Some(Err(_)), _) | (Some(Ok(0)), _) => {
                return refused("operation: give 1 for the next program or erase, or more".into());
            }
            _ if !(0.0..=1.0).contains(&share) => return refused(format!("share: {share}; give 0 to 1")),
            (_, Err(_)) => return refused(format!("after_ns: {after_ns}; give 0 or more")),
            (Some(Ok(operation)), _) => PowerCut::During { operation, share },
            (None, Ok(after)) => PowerCut::At(clocked.now + Nanos::from_ns(after)),
        };
        clocked.device.power_mut().order(Some(cut));
        Ok(())
    }

    fn is_powered(&self) -> bool {
        !locked(&self.0).device.power().is_lost()
    }

    /// Power is back after `off_ns`, and the driver has set the chip up again.
    fn restart<'py>(&self, py: Python<'py>, off_ns: &Bound<'py, PyAny>) -> PyResult<()> {
        take!(off_ns: u64);
        Ok(py.detach(|| {
            let mut clocked = locked(&self.0);
            let on = clocked.now + Nanos::from_ns(off_ns);
            clocked.device.host().resume(on);
            let outcome = clocked.device.restart();
            clocked.now = clocked.now.max(clocked.device.host().now());
            outcome.map_err(|why| Failure::new(why, None))
        })?)
    }

    /// Starts or stops recording what every resource does.
    fn record(&self, on: bool) {
        locked(&self.0).device.host().record(on);
    }

    /// Activities recorded since the last call, by start.
    fn take_spans(&self) -> Vec<SpanTuple> {
        let spans = locked(&self.0).device.host().take_spans();
        let tuple = |span: floatgate_device::Span| {
            let (start, end) = (span.start.as_ns(), span.end.as_ns());
            (trace::resource_name(span.resource), span.phase.name(), start, end, span.what)
        };
        spans.into_iter().map(tuple).collect()
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        take!(addr: u64, length: usize);
        check_len(length)?;
        PyBytes::new_with(py, length, |bytes| {
            py.detach(|| locked(&self.0).run(|flash, now| flash.read(now, addr, bytes).map(|done| done.at)))
                .map_err(PyErr::from)
        })
    }

    /// Fills a buffer.
    fn readinto<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        take!(addr: u64, buffer: BytesMut<'_>);
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
        take!(addr: u64, data: Bytes<'_>);
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
        take!(addr: u64, length: u64);
        let work = || locked(&self.0).run(|flash, now| flash.erase(now, addr, length).map(|done| done.at));
        Ok(py.detach(work)?)
    }

    /// Data and OOB of a page.
    fn read_oob<'py>(
        &self,
        py: Python<'py>,
        addr: &Bound<'py, PyAny>,
        mode: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        take!(addr: u64, mode: String);
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
        take!(addr: u64, data: Bytes<'_>, oob: Bytes<'_>, mode: String);
        let (data, oob, mode) = (data.get(), oob.get(), oob_mode(&mode)?);
        let work = || {
            locked(&self.0).run(|flash, now| flash.write_oob(now, addr, data, oob, mode).map(|done| done.at))
        };
        Ok(py.detach(work)?)
    }

    fn is_bad<'py>(&self, py: Python<'py>, addr: &Bound<'py, PyAny>) -> PyResult<bool> {
        take!(addr: u64);
        Ok(py.detach(|| -> Result<_, Failure> {
            let mut clocked = locked(&self.0);
            let now = clocked.now;
            let (bad, at) = clocked.device.is_bad(now, addr).map_err(flash_failed)?;
            clocked.now = at;
            Ok(bad)
        })?)
    }
}

/// An SD card or eMMC as its host sees it: a fake has the size that it claims.
#[pyclass(frozen)]
pub(crate) struct NativeCard(Mutex<Clocked<Fake<Card>>>);

impl Clocked<Fake<Card>> {
    /// Runs a request from now on; the clock goes on to its end, or to when its failure was known.
    fn run(
        &mut self,
        request: impl FnOnce(&mut Fake<Card>, Instant) -> Result<Instant, floatgate_mtd::BlockError>,
    ) -> Result<(), Failure> {
        let outcome = request(&mut self.device, self.now);
        self.now = match &outcome {
            Ok(at) => *at,
            Err(error) => error.at,
        };
        outcome.map(|_| ()).map_err(|error| Failure::new(error, None))
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
        take!(seed: u64);
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

    /// A copy that goes its own way.
    fn fork(&self) -> Self {
        let clocked = locked(&self.0);
        Self(Mutex::new(Clocked { device: clocked.device.clone(), now: clocked.now }))
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
        take!(lba: u64, length: usize);
        check_len(length)?;
        PyBytes::new_with(py, length, |bytes| {
            let work = || locked(&self.0).run(|card, now| card.read(now, lba, bytes));
            py.detach(work).map_err(PyErr::from)
        })
    }

    /// Fills a buffer.
    fn readinto<'py>(
        &self,
        py: Python<'py>,
        lba: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        take!(lba: u64, buffer: BytesMut<'_>);
        let mut buffer = buffer;
        let bytes = buffer.get();
        Ok(py.detach(|| locked(&self.0).run(|card, now| card.read(now, lba, bytes)))?)
    }

    fn write<'py>(&self, py: Python<'py>, lba: &Bound<'py, PyAny>, data: &Bound<'py, PyAny>) -> PyResult<()> {
        take!(lba: u64, data: Bytes<'_>);
        let data = data.get();
        Ok(py.detach(|| locked(&self.0).run(|card, now| card.write(now, lba, data)))?)
    }

    fn discard<'py>(
        &self,
        py: Python<'py>,
        lba: &Bound<'py, PyAny>,
        count: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        take!(lba: u64, count: u64);
        Ok(py.detach(|| locked(&self.0).run(|card, now| card.discard(now, lba, count)))?)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| locked(&self.0).run(|card, now| card.flush(now)))?)
    }
}
