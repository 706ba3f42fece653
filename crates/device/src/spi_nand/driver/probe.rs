//! Identification and set-up of the chip.

use super::super::command as c;
use super::super::spec::{ContinuousKind, IdRead, SpiNandSpec};
use super::lines::Lines;
use super::select::{Choice, NoStream, choose, operation};
use super::{Options, ProbeError, SpiNandDriver, Waits};
use crate::ecc_engine::{EccEngine, EccProfile, EngineKind};
use crate::host::HostProfile;
use crate::nand::bbt::{BadBlockTable, BlockState};
use crate::nand::ecc::PageEcc;
use crate::power::Power;
use crate::spi::{Data, Direction, Mode, SpiChip, SpiController, SpiError, SpiMem, SpiOp};
use crate::timeline::Host;
use floatgate_ecc::OobLayout;
use floatgate_mtd::{FlashKind, Geometry, Pairing};

/// Maximum number of id bytes of a chip (Linux: `SPINAND_MAX_ID_LEN`).
const ID_BYTES: usize = 5;

/// Length of the pattern for the calibration of the PHY, bytes.
const PATTERN_BYTES: usize = 128;

/// Identifies the chip among `catalogue`; the longest matching id is used.
///
/// # Errors
/// `UnknownId` with the bytes that the last form of READ ID returned.
fn discover<'d, S: SpiMem>(
    bus: &mut S,
    host: &mut Host,
    catalogue: &'d [SpiNandSpec],
) -> Result<&'d SpiNandSpec, ProbeError> {
    let mut id = [0; ID_BYTES];
    for way in [IdRead::Opcode, IdRead::Address, IdRead::Dummy] {
        let base = SpiOp::command(c::READ_ID).read(ID_BYTES as u32);
        let op = match way {
            IdRead::Opcode => base,
            IdRead::Address => base.address(0, 1),
            IdRead::Dummy => base.dummy(8),
        };
        bus.exec(host, &op, Data::In(&mut id))?;
        let matching = |s: &&SpiNandSpec| s.id_read == way && !s.id.is_empty() && id.starts_with(&s.id);
        if let Some(found) = catalogue.iter().filter(matching).max_by_key(|s| s.id.len()) {
            return Ok(found);
        }
    }
    Err(ProbeError::UnknownId(id.to_vec()))
}

fn reset<S: SpiMem>(bus: &mut S, host: &mut Host, waits: &Waits) -> Result<(), SpiError> {
    let lines = Lines::unknown();
    // The reset pin is pulsed first, because a chip that a restarted host left in 8D does not accept commands on one lane.
    bus.pulse_reset(host);
    let status = lines.get_feature(c::STATUS);
    bus.poll(host, &status, c::BUSY, 0, waits.reset)?;
    bus.exec(host, &lines.command(c::RESET), Data::None)?;
    bus.poll(host, &status, c::BUSY, 0, waits.reset)?;
    Ok(())
}

/// OOB layout: the free bytes are those that the ECC (of chip or host) does not use, or all except the marker.
fn oob_layout(spec: &SpiNandSpec, engine: &EccEngine) -> OobLayout {
    let bytes = spec.geometry.oob_bytes;
    let layout = match engine.kind() {
        EngineKind::OnDie => spec.oob.layout(bytes).ok(),
        _ => engine.code().map(|code| *code.layout()),
    };
    layout.unwrap_or_else(|| OobLayout::no_ecc(bytes))
}

/// The ECC engine with its code set up for the chip's pages.
fn engine(spec: &SpiNandSpec, ecc: EccProfile, host: &HostProfile) -> Result<EccEngine, ProbeError> {
    if ecc.engine == EngineKind::OnDie && !spec.ecc.on_die {
        return Err(ProbeError::NoOnDieEcc);
    }
    let mut engine = EccEngine::new(ecc, spec.ecc.requirement());
    engine.set_up(spec.geometry.page_bytes, spec.geometry.oob_bytes, host)?;
    Ok(engine)
}

/// Checks that continuous reads are possible: they return no OOB, without which an engine on the host's side cannot correct.
fn may_stream(options: Options, engine: &EccEngine) -> Result<(), NoStream> {
    match options.continuous {
        false => Err(NoStream::NotAsked),
        true if engine.on_host() => {
            Err(NoStream::Cannot("they deliver no OOB, which the ECC engine on the host's side needs"))
        }
        true => Ok(()),
    }
}

fn geometry(spec: &SpiNandSpec, engine: &EccEngine, oob: &OobLayout) -> Geometry {
    let g = &spec.geometry;
    let ecc = engine.requirement();
    Geometry {
        kind: if g.bits_per_cell > 1 { FlashKind::MlcNand } else { FlashKind::SlcNand },
        size_bytes: u64::from(g.block_bytes()) * u64::from(g.blocks()),
        partition_of: None,
        erase_bytes: g.block_bytes(),
        write_bytes: g.page_bytes,
        buffer_bytes: g.page_bytes,
        // Linux does not support sub-pages on SPI NAND.
        sub_page_bytes: g.page_bytes,
        oob_bytes: g.oob_bytes,
        oob_free_bytes: oob.free_bytes(),
        ecc_strength: ecc.strength,
        ecc_step_bytes: ecc.step_bytes,
        bitflip_threshold: Geometry::default_bitflip_threshold(ecc.strength),
        pairing: Pairing::NONE,
    }
}

impl<C: SpiChip> SpiNandDriver<SpiController<C>> {
    /// Power supply of controller and chip.
    pub const fn power(&self) -> &Power {
        self.bus.power()
    }

    /// Mutable access to the power supply, to cut it.
    pub const fn power_mut(&mut self) -> &mut Power {
        self.bus.power_mut()
    }

    /// Restores power, and sets up the chip again.
    ///
    /// # Errors
    /// The errors of [`SpiNandDriver::probe`]; a power cut during the set-up.
    pub fn restart(&mut self) -> Result<(), ProbeError> {
        self.bus.power_on();
        self.set_up_again()
    }
}

impl<S: SpiMem> SpiNandDriver<S> {
    /// Identifies the chip on `bus` among `catalogue`, and sets it up: reset, bus mode, protection off, ECC, PHY.
    ///
    /// # Errors
    /// The chip is unknown, or chip, controller and board do not support the required operations.
    pub fn probe(
        mut bus: S,
        catalogue: &[SpiNandSpec],
        profile: HostProfile,
        ecc: EccProfile,
        options: Options,
    ) -> Result<Self, ProbeError> {
        let mut host = Host::default();
        let waits = Waits::new(&profile);
        reset(&mut bus, &mut host, &waits)?;
        let spec = discover(&mut bus, &mut host, catalogue)?.clone();
        let engine = engine(&spec, ecc, &profile)?;
        if options.randomizer == Some(true) && spec.randomizer.is_none() {
            return Err(ProbeError::NoRandomizer);
        }
        let choice = choose(&bus, &spec, may_stream(options, &engine))?;
        let layout = oob_layout(&spec, &engine);
        let lines = Lines::single(&spec);
        let g = spec.geometry;
        let (pages, keeps_data) = (u64::from(g.blocks()) * u64::from(g.pages_per_block), bus.keeps_data());
        let mut driver = Self {
            bus,
            host,
            profile,
            waits,
            geometry: geometry(&spec, &engine, &layout),
            retries: 0,
            layout,
            ecc: PageEcc::new(engine, pages, keeps_data),
            status_op: lines.get_feature(c::STATUS),
            lines,
            read_op: operation(&spec, &choice.read, Direction::In, g.page_bytes),
            load_op: operation(&spec, &choice.load.variant(), Direction::Out, g.raw_page_bytes()),
            stream: choice.stream,
            options,
            die: 0,
            config: vec![0; spec.selectable_dies() as usize],
            page: vec![0xFF; g.raw_page_bytes() as usize],
            bbt: BadBlockTable::new(g.blocks(), BlockState::Unknown),
            spec,
        };
        driver.set_up(&choice)?;
        Ok(driver)
    }

    /// Sets up the same chip again after power-on. The driver's clock continues.
    fn set_up_again(&mut self) -> Result<(), ProbeError> {
        reset(&mut self.bus, &mut self.host, &self.waits)?;
        self.lines = Lines::single(&self.spec);
        self.status_op = self.lines.get_feature(c::STATUS);
        self.die = 0;
        self.config.fill(0);
        self.bbt = BadBlockTable::new(self.spec.geometry.blocks(), BlockState::Unknown);
        let choice = choose(&self.bus, &self.spec, may_stream(self.options, &self.ecc.engine))?;
        self.set_up(&choice)
    }

    fn set_up(&mut self, choice: &Choice) -> Result<(), ProbeError> {
        for die in (0..self.spec.selectable_dies()).rev() {
            self.select_die(die)?;
            self.set_up_die(choice)?;
        }
        self.configure_octal(choice)?;
        if choice.read.mode.is_stateful() {
            self.switch_to_octal()?;
        }
        if self.bus.wants_phy() {
            self.calibrate()?;
        }
        Ok(())
    }

    /// Sets the registers of the selected die.
    fn set_up_die(&mut self, choice: &Choice) -> Result<(), SpiError> {
        self.config[self.die as usize] = self.get_feature(c::CONFIG)?;
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let quad = choice.read.mode.data.lanes == 4 || choice.load.mode.data.lanes == 4;
        let mut mask = c::ECC_ENABLE | c::OTP_ENABLE | flag(self.spec.quad_enable, c::QUAD_ENABLE);
        let mut value =
            flag(self.on_die(), c::ECC_ENABLE) | flag(self.spec.quad_enable && quad, c::QUAD_ENABLE);
        if let Some(cont) = &self.spec.continuous {
            // In some chips this bit survives a reset, and they then hide their OOB.
            mask |= 1 << cont.config_bit;
            value |= flag(cont.kind == ContinuousKind::Winbond, 1 << cont.config_bit);
        }
        if let Some(octal) = self.spec.octal.as_ref() {
            let hz = u64::from(self.bus.clock(&self.read_op, true).hz());
            let fast = choice.read.mode.is_stateful() && hz >= octal.fast_from_hz;
            mask |= 1 << octal.fast_config_bit;
            value |= flag(fast, 1 << octal.fast_config_bit);
        }
        self.update_config(mask, value)?;
        if let Some(speed) = self.spec.high_speed {
            let on = flag(self.spec.needs_high_speed(&choice.read), 1 << speed.bit);
            let old = self.get_feature(speed.feature)?;
            self.set_feature(speed.feature, old & !(1 << speed.bit) | on)?;
        }
        if let (Some(randomizer), Some(on)) = (self.spec.randomizer, self.options.randomizer) {
            self.set_feature(randomizer.feature, flag(on, 1 << randomizer.bit))?;
        }
        self.set_feature(c::PROTECTION, 0)
    }

    fn write_vcr(&mut self, register: u32, value: u8) -> Result<(), SpiError> {
        self.exec(&self.lines.command(c::WRITE_ENABLE), Data::None)?;
        let op = self.lines.command(c::WRITE_VCR).address(register, 3).write(1);
        self.exec(&op, Data::Out(&[value]))
    }

    /// Writes the registers of a chip with an octal mode in the order of Linux's `w35n0xjw_vcr_cfg`: dummy cycles first, then the I/O
    /// mode if reads do not need 8D-8D-8D.
    fn configure_octal(&mut self, choice: &Choice) -> Result<(), SpiError> {
        let Some(octal) = self.spec.octal.clone() else { return Ok(()) };
        self.write_vcr(octal.dummy_register, choice.read.dummy)?;
        let mode = choice.read.mode;
        let value = if mode == Mode::SINGLE { Some(octal.io_single) } else { octal.io_octal_sdr };
        match value.filter(|_| !mode.is_stateful()) {
            Some(value) => self.write_vcr(octal.io_register, value),
            None => Ok(()),
        }
    }

    /// Switches to 8D-8D-8D and checks that the chip answers in this mode.
    fn switch_to_octal(&mut self) -> Result<(), ProbeError> {
        let failed = ProbeError::SwitchFailed(Mode::OCTAL_DTR);
        let Some(octal) = self.spec.octal.clone() else { return Err(failed) };
        let value = octal.io_octal_dtr.first().copied().ok_or_else(|| failed.clone())?;
        self.write_vcr(octal.io_register, value)?;
        self.lines = Lines::octal(&self.spec, &octal);
        self.status_op = self.lines.get_feature(c::STATUS);
        // Double rate transfers bytes in pairs.
        let mut id = [0; ID_BYTES + 1];
        self.exec(&self.lines.read_id(id.len() as u32), Data::In(&mut id))?;
        if id.starts_with(&self.spec.id) { Ok(()) } else { Err(failed) }
    }

    /// Tunes the controller's sampling point with a pattern that is loaded into the cache and never programmed.
    fn calibrate(&mut self) -> Result<(), SpiError> {
        let mut pattern = [0; PATTERN_BYTES];
        // Long and short runs of each value on each lane, from a Galois LFSR (x^8 + x^6 + x^5 + x^4 + 1).
        let mut state: u8 = 0x5A;
        for byte in &mut pattern {
            *byte = state;
            state = state >> 1 ^ if state & 1 == 1 { 0xB8 } else { 0 };
        }
        self.exec(&self.lines.command(c::WRITE_ENABLE), Data::None)?;
        let load = SpiOp { len: PATTERN_BYTES as u32, ..self.load_op };
        self.exec(&load, Data::Out(&pattern))?;
        let read = SpiOp { len: PATTERN_BYTES as u32, ..self.read_op };
        self.bus.calibrate(&mut self.host, &read, &pattern)?;
        self.exec(&self.lines.command(c::WRITE_DISABLE), Data::None)
    }
}
