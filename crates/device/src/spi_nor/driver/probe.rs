//! Identification and set-up of the chip.

use super::SpiNorDriver;
use super::choose::{AddressMode, Choice, choose};
use super::engine::{Engine, Failures, Ops, bounce};
use super::options::Options;
use super::probe_error::ProbeError;
use crate::host::HostProfile;
use crate::power::Power;
use crate::spi::{
    Data, Direction, Mode, PhyState, PollPlan, SpiChip, SpiController, SpiError, SpiMem, SpiOp,
};
use crate::spi_nor::command::{self as c, infineon, macronix, micron, winbond};
use crate::spi_nor::sfdp::{learn, merge};
use crate::spi_nor::spec::{Addressing, OctalSwitch, QuadEnable, RegisterSet, SpiNorSpec};
use crate::timeline::{Host, Resource};
use floatgate_media::sfdp::OctalSequence;
use floatgate_mtd::{Error, FlashKind, Geometry, Instant, Nanos, Phase};

/// Number of READ ID bytes that are evaluated (Linux: SPI_NOR_MAX_ID_LEN).
const ID_BYTES: usize = 6;
/// Clock up to which every chip answers READ SFDP (JESD216 section 6.1) and READ ID, Hz.
const SFDP_MAX_HZ: u32 = 50_000_000;
/// Maximum size of an SFDP area that is read, bytes; the longest known areas have a few hundred bytes.
const SFDP_BYTES_MAX: usize = 1 << 16;
/// Pause after the reset pin goes high, as in Linux.
const RESET_PAUSE: Nanos = Nanos::from_us(100);
/// Timeout of register writes, which take much less time.
const REGISTER_TIMEOUT: Nanos = Nanos::from_ms(2_000);

impl<S: SpiMem> SpiNorDriver<S> {
    /// Identifies the chip on the bus and sets it up. The driver is ready at the time of its host's clock.
    ///
    /// # Errors
    /// No chip answers, the chip is unknown, or it cannot be used as required.
    pub fn probe(
        bus: S,
        catalogue: &[SpiNorSpec],
        profile: HostProfile,
        options: Options,
    ) -> Result<Self, ProbeError> {
        Self::probe_at(Instant::ZERO, bus, catalogue, profile, options)
    }

    /// Probes like [`SpiNorDriver::probe`], on a rig that has been running until `now`.
    ///
    /// # Errors
    /// The errors of [`SpiNorDriver::probe`].
    pub fn probe_at(
        now: Instant,
        mut bus: S,
        catalogue: &[SpiNorSpec],
        profile: HostProfile,
        options: Options,
    ) -> Result<Self, ProbeError> {
        let mut host = Host::default();
        host.resume(now);
        reset(&mut bus, &mut host);
        let id = read_id(&mut bus, &mut host)?;
        let spec = identify(&mut bus, &mut host, catalogue, &id)?;
        let options = Options { wide_programs: options.wide_programs || profile.firmware, ..options };
        let choice = choose(&bus, &spec, &options)?;
        let asked = options;
        let options = options.on(&profile);
        let mut engine = Engine {
            ops: Ops::of(&spec, &options, &choice, false),
            chunk: chunk(&bus, spec.geometry.page_bytes),
            erase_bytes: choice.erase_bytes,
            bounce: bounce(),
            bus,
            spec,
            options,
        };
        engine.set_up(&mut host, &choice)?;
        let phy = if engine.bus.wants_phy() { engine.calibrate(&mut host)? } else { PhyState::Uncalibrated };
        Ok(Self { host, profile, asked, geometry: geometry(&engine), engine, phy })
    }
}

impl<C: SpiChip> SpiNorDriver<SpiController<C>> {
    /// Power supply of controller and chip.
    pub const fn power(&self) -> &Power {
        self.engine.bus.power()
    }

    /// Mutable access to the power supply, to cut it.
    pub const fn power_mut(&mut self) -> &mut Power {
        self.engine.bus.power_mut()
    }

    /// Restores power, and sets up the same chip again after power-on. The driver's clock continues.
    ///
    /// # Errors
    /// The errors of [`SpiNorDriver::probe`]; a power cut during the set-up.
    pub fn restart(&mut self) -> Result<(), ProbeError> {
        self.engine.bus.power_on();
        reset(&mut self.engine.bus, &mut self.host);
        let choice = choose(&self.engine.bus, &self.engine.spec, &self.asked)?;
        self.engine.ops = Ops::of(&self.engine.spec, &self.engine.options, &choice, false);
        self.engine.set_up(&mut self.host, &choice)?;
        if self.engine.bus.wants_phy() {
            self.phy = self.engine.calibrate(&mut self.host)?;
        }
        Ok(())
    }
}

/// Number of data bytes in one page program: the number that the controller sends without releasing CS#, even for
/// 8D-8D-8D.
fn chunk(bus: &impl SpiMem, page_bytes: u32) -> u32 {
    let most = u32::try_from(bus.max_mapped(Direction::Out)).unwrap_or(u32::MAX);
    (most & !1).max(1).min(page_bytes)
}

fn reset(bus: &mut impl SpiMem, host: &mut Host) {
    if bus.has_reset_pin() {
        bus.pulse_reset(host);
        host.spend(Resource::Cpu, Phase::Polling, RESET_PAUSE, "after reset");
    }
}

fn read_id(bus: &mut impl SpiMem, host: &mut Host) -> Result<[u8; ID_BYTES], ProbeError> {
    let mut id = [0; ID_BYTES];
    let op = SpiOp { max_hz: SFDP_MAX_HZ, ..SpiOp::command(c::READ_ID).read(ID_BYTES as u32) };
    bus.exec(host, &op, Data::In(&mut id))?;
    let dead = |byte| id.iter().all(|&b| b == byte);
    if dead(0x00) || dead(0xFF) { Err(ProbeError::NoChip) } else { Ok(id) }
}

/// Specification from the catalogue's entry with the longest matching id and from the chip's SFDP tables; one of them is
/// sufficient.
fn identify(
    bus: &mut impl SpiMem,
    host: &mut Host,
    catalogue: &[SpiNorSpec],
    id: &[u8; ID_BYTES],
) -> Result<SpiNorSpec, ProbeError> {
    let matches = |spec: &&SpiNorSpec| spec.id.iter().zip(id).all(|(a, b)| a == b);
    let known = catalogue.iter().rev().filter(matches).max_by_key(|spec| spec.id.len());
    if let Some(spec) = known.filter(|spec| !spec.sfdp) {
        return Ok(spec.clone());
    }
    match (known, read_sfdp(bus, host)) {
        (Some(spec), None) => Ok(spec.clone()),
        (Some(spec), Some(area)) => {
            // A known chip with invalid tables is used according to the catalogue.
            let told = learn(&area, &spec.id).ok();
            Ok(told.map_or_else(|| spec.clone(), |told| merge(spec.clone(), &told)))
        }
        (None, Some(area)) => Ok(learn(&area, &id[..3])?),
        (None, None) => Err(ProbeError::Unknown { id: id.to_vec() }),
    }
}

/// The SFDP area from its first header to the end of its last table; `None` if the chip has none.
fn read_sfdp(bus: &mut impl SpiMem, host: &mut Host) -> Option<Vec<u8>> {
    let header = sfdp_bytes(bus, host, 8)?;
    if !header.starts_with(b"SFDP") {
        return None;
    }
    let tables = 8 * (usize::from(header[6]) + 1);
    let headers = sfdp_bytes(bus, host, 8 + tables)?;
    let end = |h: &[u8]| {
        let pointer = u32::from_le_bytes([h[4], h[5], h[6], 0]) as usize;
        pointer + 4 * usize::from(h[3])
    };
    let len = headers[8..].chunks_exact(8).map(end).max()?;
    sfdp_bytes(bus, host, len.max(headers.len()).min(SFDP_BYTES_MAX))
}

fn sfdp_bytes(bus: &mut impl SpiMem, host: &mut Host, len: usize) -> Option<Vec<u8>> {
    let mut area = vec![0xFF; len];
    let op = SpiOp::command(c::READ_SFDP).address(0, 3).dummy(8).read(len as u32);
    let op = SpiOp { max_hz: SFDP_MAX_HZ, ..op };
    // A chip without this command does not drive the lines, or rejects the command.
    bus.exec(host, &op, Data::In(&mut area)).ok()?;
    Some(area)
}

fn geometry<S>(engine: &Engine<S>) -> Geometry {
    let chip = &engine.spec.geometry;
    let plain = Geometry::plain(FlashKind::Nor, chip.size_bytes, engine.erase_bytes, 1);
    Geometry { buffer_bytes: chip.page_bytes, ..plain }
}

impl Ops {
    /// Operations for a selection of commands; `octal` is true after the switch to 8D-8D-8D.
    fn of(spec: &SpiNorSpec, options: &Options, choice: &Choice, octal: bool) -> Self {
        let command = |opcode| Self::command(spec, opcode, octal);
        let erase_addr = if octal { 4 } else { choice.addressing.bytes() };
        let four = octal || choice.addressing == AddressMode::FourByteMode;
        Self {
            read: choice.read,
            program: choice.program,
            erase: command(choice.erase_opcode).address(0, erase_addr),
            chip_erase: command(c::CHIP_ERASE),
            write_enable: command(c::WRITE_ENABLE),
            write_disable: command(c::WRITE_DISABLE),
            status: Self::register_read(spec, c::READ_STATUS, octal),
            failures: Failures::of(spec, options, octal),
            octal,
            current_addr_bytes: if four { 4 } else { 3 },
            offered: choice.offered.clone(),
        }
    }
}

impl<S: SpiMem> Engine<S> {
    /// Switches the chip to the selected modes.
    fn set_up(&mut self, host: &mut Host, choice: &Choice) -> Result<(), ProbeError> {
        if choice.read.mode.is_stateful() {
            return self.enter_octal(host, choice);
        }
        if choice.addressing == AddressMode::FourByteMode {
            self.enter_4b(host)?;
        }
        if choice.read.mode.data.lanes == 4 || choice.program.mode.data.lanes == 4 {
            self.enable_quad(host)?;
        }
        self.set_dummy(host, choice)
    }

    /// Reverts the volatile settings of [`Engine::set_up`].
    pub(super) fn restore(&mut self, host: &mut Host) -> Result<(), Error> {
        let four = self.ops.current_addr_bytes == 4;
        let command = |engine: &Self, opcode| Ops::command(&engine.spec, opcode, engine.ops.octal);
        if (self.ops.octal || four) && self.spec.soft_reset {
            for opcode in [c::RESET_ENABLE, c::RESET] {
                let op = command(self, opcode);
                self.exec(host, &op, Data::None, 0)?;
            }
        } else if self.ops.octal {
            self.bus.pulse_reset(host);
        } else if four {
            if self.spec.addressing == Addressing::WrenEn4b {
                let op = command(self, c::WRITE_ENABLE);
                self.exec(host, &op, Data::None, 0)?;
            }
            let op = command(self, c::EXIT_4B);
            return self.exec(host, &op, Data::None, 0);
        }
        host.spend(Resource::Cpu, Phase::Polling, RESET_PAUSE, "after reset");
        Ok(())
    }

    fn enter_4b(&mut self, host: &mut Host) -> Result<(), ProbeError> {
        let (enable, enter) = (self.ops.write_enable, Ops::command(&self.spec, c::ENTER_4B, false));
        // The write enable has no effect on chips that do not need it before B7h (Linux sends it to all Micron chips).
        if self.spec.addressing == Addressing::WrenEn4b {
            self.bus.exec(host, &enable, Data::None)?;
        }
        self.bus.exec(host, &enter, Data::None)?;
        Ok(())
    }

    /// Sets the quad enable bit if it is not set, by a write of its register.
    fn enable_quad(&mut self, host: &mut Host) -> Result<(), ProbeError> {
        let (read, bit) = match self.spec.quad_enable {
            QuadEnable::None => return Ok(()),
            QuadEnable::Sr1Bit6 => (c::READ_STATUS, 1 << 6),
            QuadEnable::Sr2Bit1 | QuadEnable::Sr2Bit1By01 => (winbond::READ_STATUS_2, 1 << 1),
        };
        let value = self.register(host, read)?;
        if value & bit != 0 {
            return Ok(());
        }
        match self.spec.quad_enable {
            QuadEnable::Sr2Bit1 => self.write_register(host, winbond::WRITE_STATUS_2, &[value | bit])?,
            QuadEnable::Sr2Bit1By01 => {
                let first = self.register(host, c::READ_STATUS)?;
                self.write_register(host, c::WRITE_STATUS, &[first, value | bit])?;
            }
            QuadEnable::Sr1Bit6 | QuadEnable::None => {
                self.write_register(host, c::WRITE_STATUS, &[value | bit])?
            }
        }
        if self.register(host, read)? & bit == 0 { Err(ProbeError::QuadEnableFailed) } else { Ok(()) }
    }

    /// Reads a one-byte register.
    fn register(&mut self, host: &mut Host, opcode: u8) -> Result<u8, SpiError> {
        let op = Ops::register_read(&self.spec, opcode, self.ops.octal);
        let mut value = [0; 2];
        self.bus.exec(host, &op, Data::In(&mut value[..op.len as usize]))?;
        Ok(value[0])
    }

    /// Writes non-volatile registers and waits until the chip is ready.
    fn write_register(&mut self, host: &mut Host, opcode: u8, values: &[u8]) -> Result<(), SpiError> {
        let enable = self.ops.write_enable;
        self.bus.exec(host, &enable, Data::None)?;
        self.write_enabled_register(host, opcode, values)
    }

    /// Writes registers like [`write_register`](Self::write_register), after WRITE ENABLE.
    fn write_enabled_register(&mut self, host: &mut Host, opcode: u8, values: &[u8]) -> Result<(), SpiError> {
        let op = Ops::command(&self.spec, opcode, self.ops.octal).write(values.len() as u32);
        self.bus.exec(host, &op, Data::Out(values))?;
        let status = self.ops.status;
        let plan = PollPlan { initial: Nanos::ZERO, interval: Nanos::ZERO, timeout: REGISTER_TIMEOUT };
        self.bus.poll(host, &status, 1, 0, plan)?;
        Ok(())
    }

    /// Writes Macronix's CR2, or Micron's or Infineon's volatile configuration register. All take effect immediately.
    fn write_config(&mut self, host: &mut Host, addr: u32, value: u8) -> Result<(), SpiError> {
        let switch = self.spec.octal.map(|o| o.switch);
        let (opcode, bytes) = match (switch, self.spec.registers) {
            (Some(OctalSwitch::MicronVcr), _) | (None, RegisterSet::Micron) => {
                (micron::WRITE_VCR, self.ops.current_addr_bytes)
            }
            (Some(OctalSwitch::InfineonCfr), _) => (infineon::WRITE_ANY, self.ops.current_addr_bytes),
            _ => (macronix::WRITE_CONFIG_2, 4),
        };
        let enable = self.ops.write_enable;
        self.bus.exec(host, &enable, Data::None)?;
        let op = Ops::command(&self.spec, opcode, false).address(addr, bytes).write(1);
        self.bus.exec(host, &op, Data::Out(&[value]))
    }

    /// Configures the dummy cycles of the selected read command, if they are configurable and differ from the default.
    fn set_dummy(&mut self, host: &mut Host, choice: &Choice) -> Result<(), ProbeError> {
        let Some(control) = &self.spec.dummy else { return Ok(()) };
        let cycles = choice.read.dummy_cycles;
        if cycles == control.default || !control.modes.contains(&choice.read.mode) {
            return Ok(());
        }
        let register = control.register;
        let value = control.value(cycles).ok_or(ProbeError::NoCommand("dummy cycle"))?;
        self.write_config(host, register, value)?;
        Ok(())
    }

    /// Executes the commands of an SFDP sequence. The table does not distinguish address and data bytes, because the
    /// bytes on a serial line are the same. One or two bytes after a command are data (a write of status registers).
    /// With three or more bytes, the last one is data and the others are the address.
    fn run_sequence(&mut self, host: &mut Host, sequence: &OctalSequence) -> Result<(), SpiError> {
        for step in &sequence.steps {
            match *step.sent() {
                [] => {}
                [opcode] => self.bus.exec(host, &Ops::command(&self.spec, opcode, false), Data::None)?,
                [opcode, ref values @ ..] if values.len() <= 2 => {
                    self.write_enabled_register(host, opcode, values)?;
                }
                [opcode, ref address @ .., value] => {
                    let addr = address.iter().fold(0, |addr, &b| addr << 8 | u32::from(b));
                    let op =
                        Ops::command(&self.spec, opcode, false).address(addr, address.len() as u8).write(1);
                    self.bus.exec(host, &op, Data::Out(&[value]))?;
                }
            }
        }
        Ok(())
    }

    /// Switches to 8D-8D-8D and checks that the chip answers in this mode.
    fn enter_octal(&mut self, host: &mut Host, choice: &Choice) -> Result<(), ProbeError> {
        let Some(octal) = self.spec.octal else { return Err(ProbeError::NoCommand("octal switch")) };
        self.set_dummy(host, choice)?;
        if let OctalSwitch::Sequence(sequence) = octal.switch {
            self.run_sequence(host, &sequence)?;
        } else {
            let (register, _, on) = octal.mode_register();
            self.write_config(host, register, on)?;
        }
        self.ops = Ops::of(&self.spec, &self.options, choice, true);
        let mut op = Ops::register_read(&self.spec, c::READ_ID, true);
        op.dummy_cycles = octal.id_dummy.unwrap_or(op.dummy_cycles);
        op.len = 2 * ID_BYTES as u32;
        let mut got = [0; 2 * ID_BYTES];
        self.bus.exec(host, &op, Data::In(&mut got))?;
        // Macronix chips send each byte twice.
        let same = |step| got.iter().step_by(step).zip(&self.spec.id).all(|(a, b)| a == b);
        if same(1) || same(2) { Ok(()) } else { Err(ProbeError::SwitchFailed(Mode::OCTAL_DTR)) }
    }
}
