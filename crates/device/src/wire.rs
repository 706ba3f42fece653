//! A driver with its chip behind it, whatever its kind: an [`Mtd`] that can be watched, copied, and lose its power.

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
use serde::Serialize;
use std::fmt;

/// Link between driver and chip, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Read operation or interface: `1S-8S-8S CBh, 8 dummies`.
    pub read: String,
    /// Write operation or interface.
    pub write: String,
    /// Clock of a page read's data in Hz; 0 where there is none.
    pub clock_hz: u32,
    /// Bus mode of reads, as a setup writes it; empty where there is none.
    pub mode: String,
    /// Requests of the setup that are not met, each with the reason.
    pub not_given: Vec<String>,
    /// Whatever else was found out: calibration, dies, retry modes.
    pub notes: Vec<String>,
}

/// A driver with its chip.
pub trait Device: Mtd + fmt::Debug + Send + Sync {
    /// The driver's thread.
    fn host(&mut self) -> &mut Host;

    /// Bus modes and clocks between driver and chip.
    fn link(&self) -> Link;

    /// The supply of controller and chip.
    fn power(&self) -> &Power;

    /// The supply, for cutting it.
    fn power_mut(&mut self) -> &mut Power;

    /// The chip as the driver does not see it: to look at its cells, age them, and make blocks fail.
    fn oracle(&mut self) -> &mut dyn Oracle;

    /// The OTP areas, where the chip has some that the driver can use.
    fn otp(&mut self) -> Option<&mut dyn Otp>;

    /// Reads while a write is under way, where the driver can serve them. Elsewhere a read follows the write.
    fn rww(&mut self) -> Option<&mut dyn ReadWhileWrite> {
        None
    }

    /// Power is back: the driver sets the chip up again, as after power-on. Its time goes on.
    ///
    /// # Errors
    /// Reason why the chip cannot be driven, in words; that is also a cut which comes meanwhile.
    fn restart(&mut self) -> Result<(), String>;

    /// A copy that goes its own way. Blocks that neither changes are shared.
    fn fork(&self) -> Box<dyn Device>;
}

/// The driver of a SPI NAND, which finds its chip on the controller.
///
/// # Errors
/// As [`SpiNandDriver::probe`].
pub fn spi_nand(
    controller: SpiController<SpiNand>,
    catalogue: &[SpiNandSpec],
    host: HostProfile,
    ecc: EccProfile,
    options: spi_nand::Options,
) -> Result<Box<dyn Device>, spi_nand::ProbeError> {
    Ok(Box::new(SpiNandDriver::probe(controller, catalogue, host, ecc, options)?))
}

/// The driver of a SPI NOR, which finds its chip on the controller.
///
/// # Errors
/// As [`SpiNorDriver::probe`].
pub fn spi_nor(
    controller: SpiController<SpiNor>,
    catalogue: &[SpiNorSpec],
    host: HostProfile,
    options: spi_nor::Options,
) -> Result<Box<dyn Device>, spi_nor::ProbeError> {
    Ok(Box::new(SpiNorDriver::probe(controller, catalogue, host, options)?))
}

/// The driver of a raw NAND, which finds its chips on the controller.
///
/// # Errors
/// As [`RawNandDriver::probe`].
pub fn raw_nand(
    controller: NandController<RawNand>,
    catalogue: &[RawNandSpec],
    host: HostProfile,
    ecc: EccProfile,
    options: raw_nand::Options,
) -> Result<Box<dyn Device>, raw_nand::ProbeError> {
    Ok(Box::new(RawNandDriver::probe(controller, catalogue, host, ecc, options)?))
}

/// The driver of a parallel NOR, which finds its chip on the controller.
///
/// # Errors
/// As [`CfiDriver::probe`].
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

/// All but [`Device::link`], [`Device::oracle`] and [`Device::rww`] of a driver, which has methods of the same names.
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

/// Forwards all but [`Device::link`] and [`Device::rww`] to the device under a layer.
macro_rules! forward_device {
    () => {
        fn oracle(&mut self) -> &mut dyn Oracle {
            self.inner_mut().oracle()
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
        // Addresses count from the start of the partition, in errors too.
        done.map_err(|error| Error { addr: error.addr.saturating_sub(start), ..error })
    }
}

/// Runs a write, and a read that is requested at the same time. Where the device can ([`Device::rww`]), the read is
/// served in another bank or by suspending the program. Elsewhere it follows the write, as with a driver that holds its
/// lock. Returns when each was done.
///
/// # Errors
/// As [`Mtd::write`] and [`Mtd::read`]; the first failure is returned.
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

    fn oracle(&mut self) -> &mut dyn Oracle {
        self.bus_mut().chip_mut()
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

    fn link(&self) -> Link {
        let mut link = spi_link(self.bus(), self.read_op(), self.program_op());
        link.notes.extend(calibrated(self.phy()));
        link
    }
}

impl Device for RawNandDriver<NandController<RawNand>> {
    driver_device!();

    fn oracle(&mut self) -> &mut dyn Oracle {
        self.bus_mut()
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

/// A clock of the board above what the interface's data cycles can have.
fn slower_clock(board: &NandBoard, used: DataInterface) -> Option<String> {
    let cycle_ps = match used {
        DataInterface::Sdr(_) => used.timing().read_ps,
        // Two bytes a cycle.
        DataInterface::NvDdr(_) => 2 * used.timing().read_ps,
    };
    let most = 1_000_000_000_000 / cycle_ps.max(1);
    let mhz = |hz: u64| (hz as f64 / 1e4).round() / 100.0;
    let (asked, made) = (mhz(board.clock_hz), mhz(most));
    (board.clock_hz > most)
        .then(|| format!("bus.clock_hz asks for {asked} MHz, and {used} makes {made} MHz at most"))
}

/// Reason for which a raw NAND runs in another interface than the board asks for.
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

    fn link(&self) -> Link {
        let word = self.bus().word_bytes() * 8;
        let what = format!("{word} bits, memory mapped");
        Link { read: what.clone(), write: what, ..Link::default() }
    }
}
