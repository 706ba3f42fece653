//! A driver with its chip, of any kind: an [`Mtd`] that can be observed, copied, and have its power cut.

use crate::capability::{Otp, OtpArea, ReadWhileWrite};
use crate::ecc_engine::EccProfile;
use crate::host::HostProfile;
use crate::oracle::Oracle;
use crate::parallel_nor::{self, CfiDriver, NorController, NorMem};
use crate::power::Power;
use crate::raw_nand::{
    self, ChipInfo, DataInterface, NandBoard, NandController, RawNand, RawNandDriver, RawNandSpec,
};
use crate::spi::{Clock, PhyState, SpiChip, SpiController, SpiMem, SpiOp};
use crate::spi_nand::{self, SpiNand, SpiNandDriver, SpiNandSpec};
use crate::spi_nor::{self, SpiNor, SpiNorDriver, SpiNorSpec};
use crate::timeline::Host;
use floatgate_mtd::device::check_range;
use floatgate_mtd::{Done, Error, Instant, Mtd, Partition, SlcMode};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Description of the link between driver and chip.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Read operation or data interface: `1S-8S-8S CBh, 8 dummies`.
    pub read: String,
    /// Write operation or data interface.
    pub write: String,
    /// Clock of the data in a page read, Hz; 0 if the bus has no clock.
    pub clock_hz: u32,
    /// Bus mode of reads in setup notation; empty if the bus has no modes.
    pub mode: String,
    /// Requirements of the setup that are not met, each with the reason.
    pub not_given: Vec<String>,
    /// Other results of the probe: calibration, dies, retry modes.
    pub notes: Vec<String>,
}

/// A driver with its chip, as a device.
pub trait Device: Mtd + fmt::Debug + Send + Sync {
    /// CPU and virtual clock of the thread on which the driver runs.
    fn host(&mut self) -> &mut Host;

    /// Description of bus modes and clocks between driver and chip.
    fn link(&self) -> Link;

    /// Power supply of controller and chip.
    fn power(&self) -> &Power;

    /// Mutable access to the power supply, to cut it.
    fn power_mut(&mut self) -> &mut Power;

    /// Direct access to the chip: to examine its cells, age them, and make blocks fail.
    fn oracle(&mut self) -> &mut dyn Oracle;

    /// Access to the chip as through [`Device::oracle`], to look at it.
    fn oracle_ref(&self) -> &dyn Oracle;

    /// The OTP areas; `None` unless the chip has such areas and the driver supports them.
    fn otp(&mut self) -> Option<&mut dyn Otp>;

    /// Reads during a write; `None` if the driver does not support them, so that a read follows the write.
    fn rww(&mut self) -> Option<&mut dyn ReadWhileWrite> {
        None
    }

    /// Restores power; the driver sets up the chip again. Its clock continues.
    ///
    /// # Errors
    /// Reason why the chip cannot be used, as text; also a power cut during the set-up.
    fn restart(&mut self) -> Result<(), String>;

    /// Makes the driver forget which blocks are bad if it reads their markers only when a block is first used. After a boot it
    /// does not know them.
    fn forget_bad_blocks(&mut self) {}

    /// Creates an independent copy. Both share unchanged blocks.
    fn fork(&self) -> Box<dyn Device>;
}

/// Probes a SPI NAND on a controller with its driver.
///
/// # Errors
/// The errors of [`SpiNandDriver::probe`].
pub fn spi_nand(
    controller: SpiController<SpiNand>,
    catalogue: &[SpiNandSpec],
    host: HostProfile,
    ecc: EccProfile,
    options: spi_nand::Options,
) -> Result<Box<dyn Device>, spi_nand::ProbeError> {
    Ok(Box::new(SpiNandDriver::probe(controller, catalogue, host, ecc, options)?))
}

/// Probes a SPI NOR on a controller with its driver.
///
/// # Errors
/// The errors of [`SpiNorDriver::probe`].
pub fn spi_nor(
    controller: SpiController<SpiNor>,
    catalogue: &[SpiNorSpec],
    host: HostProfile,
    options: spi_nor::Options,
) -> Result<Box<dyn Device>, spi_nor::ProbeError> {
    Ok(Box::new(SpiNorDriver::probe(controller, catalogue, host, options)?))
}

/// Probes a raw NAND on a controller with its driver.
///
/// # Errors
/// The errors of [`RawNandDriver::probe`].
pub fn raw_nand(
    controller: NandController<RawNand>,
    catalogue: &[RawNandSpec],
    host: HostProfile,
    ecc: EccProfile,
    options: raw_nand::Options,
) -> Result<Box<dyn Device>, raw_nand::ProbeError> {
    Ok(Box::new(RawNandDriver::probe(controller, catalogue, host, ecc, options)?))
}

/// Probes a parallel NOR on a controller with its driver.
///
/// # Errors
/// The errors of [`CfiDriver::probe`].
pub fn parallel_nor(
    controller: NorController,
    host: HostProfile,
    options: parallel_nor::Options,
) -> Result<Box<dyn Device>, parallel_nor::ProbeError> {
    Ok(Box::new(CfiDriver::probe(controller, Instant::ZERO, host, options)?))
}

impl Clone for Box<dyn Device> {
    fn clone(&self) -> Self {
        (**self).fork()
    }
}

/// Implements all methods except [`Device::link`], the two of [`Oracle`] and [`Device::rww`] by methods of the same names
/// in a driver.
macro_rules! driver_device {
    () => {
        fn host(&mut self) -> &mut Host {
            self.host_mut()
        }

        fn power(&self) -> &Power {
            self.power()
        }

        fn power_mut(&mut self) -> &mut Power {
            self.power_mut()
        }

        fn otp(&mut self) -> Option<&mut dyn Otp> {
            let areas = [OtpArea::User, OtpArea::Factory];
            let has_some = areas.into_iter().any(|area| self.otp_regions(area) > 0);
            if has_some { Some(self) } else { None }
        }

        fn restart(&mut self) -> Result<(), String> {
            self.restart().map_err(|error| error.to_string())
        }

        fn fork(&self) -> Box<dyn Device> {
            Box::new(self.clone())
        }
    };
}

/// Forwards all methods except [`Device::link`] and [`Device::rww`] to the device below a layer.
macro_rules! forward_device {
    () => {
        fn oracle(&mut self) -> &mut dyn Oracle {
            self.inner_mut().oracle()
        }

        fn oracle_ref(&self) -> &dyn Oracle {
            self.inner().oracle_ref()
        }

        fn host(&mut self) -> &mut Host {
            self.inner_mut().host()
        }

        fn power(&self) -> &Power {
            self.inner().power()
        }

        fn power_mut(&mut self) -> &mut Power {
            self.inner_mut().power_mut()
        }

        fn otp(&mut self) -> Option<&mut dyn Otp> {
            self.inner_mut().otp()
        }

        fn restart(&mut self) -> Result<(), String> {
            self.inner_mut().restart()
        }

        fn forget_bad_blocks(&mut self) {
            self.inner_mut().forget_bad_blocks();
        }

        fn fork(&self) -> Box<dyn Device> {
            Box::new(self.clone())
        }
    };
}

impl Device for SlcMode<Box<dyn Device>> {
    forward_device!();

    fn link(&self) -> Link {
        let mut link = self.inner().link();
        let scheme = self.inner().geometry().pairing.scheme();
        link.notes.push(format!("slc-mode: LSB pages only, pairing {scheme}"));
        link
    }
}

impl Device for Partition<Box<dyn Device>> {
    forward_device!();

    fn rww(&mut self) -> Option<&mut dyn ReadWhileWrite> {
        if self.inner_mut().rww().is_some() { Some(self) } else { None }
    }

    fn link(&self) -> Link {
        self.inner().link()
    }
}

impl ReadWhileWrite for Partition<Box<dyn Device>> {
    fn read_while_write(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        let (start, size) = (self.start(), self.geometry().size_bytes);
        check_range(now, write.0, write.1.len() as u64, size)?;
        check_range(now, read.0, read.1.len() as u64, size)?;
        let (write, read) = ((start + write.0, write.1), (start + read.0, read.1));
        let done = read_while_write(self.inner_mut().as_mut(), now, write, read);
        // Addresses in errors are also relative to the start of the partition.
        done.map_err(|error| Error { addr: error.addr.saturating_sub(start), ..error })
    }
}

/// Executes a write, and a read that is requested at the same time. If the device supports it ([`Device::rww`]), the
/// read is executed in another bank or while the program is suspended. Otherwise it follows the write, as with a driver
/// that holds its lock. Returns the results of both.
///
/// # Errors
/// The errors of [`Mtd::write`] and [`Mtd::read`]; the first failure is returned.
pub fn read_while_write(
    device: &mut dyn Device,
    now: Instant,
    write: (u64, &[u8]),
    read: (u64, &mut [u8]),
) -> Result<(Done, Done), Error> {
    if let Some(device) = device.rww() {
        return device.read_while_write(now, write, read);
    }
    let written = device.write(now, write.0, write.1)?;
    let got = device.read(written.at, read.0, read.1)?;
    Ok((written, got))
}

fn describe(op: &SpiOp, clock: Clock) -> String {
    let mhz = f64::from(clock.hz()) / 1e6;
    match op.dummy_cycles {
        0 => format!("{} {:02X}h at {mhz:.2} MHz", op.mode, op.opcode),
        n => format!("{} {:02X}h with {n} dummy cycles at {mhz:.2} MHz", op.mode, op.opcode),
    }
}

fn spi_link<C: SpiChip>(bus: &SpiController<C>, read: &SpiOp, write: &SpiOp) -> Link {
    let clock = bus.clock(read, true);
    let mut not_given: Vec<String> = [read, write].into_iter().filter_map(|op| bus.clock_note(op)).collect();
    not_given.dedup();
    Link {
        read: describe(read, clock),
        write: describe(write, bus.clock(write, true)),
        clock_hz: clock.hz(),
        mode: read.mode.to_string(),
        not_given,
        notes: Vec::new(),
    }
}

fn calibrated(state: PhyState) -> Option<String> {
    match state {
        PhyState::Calibrated { tap, eye: (from, to) } => {
            Some(format!("PHY calibrated: tap {tap}, eye {from} to {to}"))
        }
        PhyState::Uncalibrated => None,
    }
}

impl Device for SpiNandDriver<SpiController<SpiNand>> {
    driver_device!();

    fn forget_bad_blocks(&mut self) {
        self.forget_bad_blocks();
    }

    fn oracle(&mut self) -> &mut dyn Oracle {
        self.bus_mut().chip_mut()
    }

    fn oracle_ref(&self) -> &dyn Oracle {
        self.bus().chip()
    }

    fn link(&self) -> Link {
        let mut link = spi_link(self.bus(), &self.read_operation(), &self.load_operation());
        if let Some(stream) = self.continuous_operation() {
            link.notes
                .push(format!("continuous reads: {}", describe(&stream, self.bus().clock(&stream, true))));
        }
        link.not_given.extend(self.not_given());
        link.not_given.extend(self.ecc_engine().too_weak());
        link.notes.extend(calibrated(self.bus().phy_state()));
        link.notes.extend(self.ecc_engine().describe());
        link
    }
}

impl Device for SpiNorDriver<SpiController<SpiNor>> {
    driver_device!();

    fn rww(&mut self) -> Option<&mut dyn ReadWhileWrite> {
        Some(self)
    }

    fn oracle(&mut self) -> &mut dyn Oracle {
        self.bus_mut().chip_mut()
    }

    fn oracle_ref(&self) -> &dyn Oracle {
        self.bus().chip()
    }

    fn link(&self) -> Link {
        let mut link = spi_link(self.bus(), self.read_op(), self.program_op());
        link.notes.extend(calibrated(self.phy()));
        link
    }
}

impl Device for RawNandDriver<NandController<RawNand>> {
    driver_device!();

    fn forget_bad_blocks(&mut self) {
        self.forget_bad_blocks();
    }

    fn oracle(&mut self) -> &mut dyn Oracle {
        self.bus_mut()
    }

    fn oracle_ref(&self) -> &dyn Oracle {
        self.bus()
    }

    fn link(&self) -> Link {
        let what = self.interface().to_string();
        let notes = self.ecc_engine().describe().into_iter().collect();
        let slower = slower_interface(self.bus().board(), self.info(), self.interface());
        let slower = slower.into_iter().chain(slower_clock(self.bus().board(), self.interface()));
        let others = self.not_given().iter().cloned().chain(self.ecc_engine().too_weak());
        let not_given = slower.chain(others).collect();
        Link { read: what.clone(), write: what.clone(), mode: what, not_given, notes, clock_hz: 0 }
    }
}

/// Text for a clock of the board that exceeds the limit of the interface's data cycles.
fn slower_clock(board: &NandBoard, used: DataInterface) -> Option<String> {
    let cycle_ps = match used {
        DataInterface::Sdr(_) => used.timing().read_ps,
        // NV-DDR transfers two bytes per cycle.
        DataInterface::NvDdr(_) => 2 * used.timing().read_ps,
    };
    let most = 1_000_000_000_000 / cycle_ps.max(1);
    let mhz = |hz: u64| (hz as f64 / 1e4).round() / 100.0;
    let (asked, made) = (mhz(board.clock_hz), mhz(most));
    (board.clock_hz > most)
        .then(|| format!("bus.clock_hz asks for {asked} MHz, and {used} makes {made} MHz at most"))
}

/// Reason why a raw NAND uses another interface than the one required by the board.
fn slower_interface(board: &NandBoard, info: &ChipInfo, used: DataInterface) -> Option<String> {
    let asked = board.interface.filter(|asked| *asked != used)?;
    let offers = match asked {
        DataInterface::Sdr(mode) => info.sdr_modes.contains(mode),
        DataInterface::NvDdr(mode) => info.timing_feature && info.nvddr_modes.contains(mode),
    };
    let why = match offers {
        false => "the chip does not offer it",
        true if used == DataInterface::POWER_ON && board.no_ready_pin => {
            "without R/B# (bus.no_ready_pin) the chip cannot be asked whether it followed the switch"
        }
        true if used == DataInterface::POWER_ON => "the chip does not follow the switch",
        true => "the controller does not offer it",
    };
    Some(format!("bus.interface asks for {asked} and gets {used}: {why}"))
}

impl Device for CfiDriver<NorController> {
    driver_device!();

    fn rww(&mut self) -> Option<&mut dyn ReadWhileWrite> {
        Some(self)
    }

    fn oracle(&mut self) -> &mut dyn Oracle {
        self.bus_mut().chip_mut()
    }

    fn oracle_ref(&self) -> &dyn Oracle {
        self.bus().chip()
    }

    fn link(&self) -> Link {
        let word = self.bus().word_bytes() * 8;
        let what = format!("{word} bits, memory mapped");
        Link { read: what.clone(), write: what, ..Link::default() }
    }
}
