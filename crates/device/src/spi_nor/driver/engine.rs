//! Commands to the chip: reads, page programs, erases, status polls. The waiting thread is an argument, because
//! two threads may share the chip.

use super::options::Options;
use crate::spi::{Data, Mode, PollPlan, SpiError, SpiMem, SpiOp};
use crate::spi_nor::command::{self as c, infineon, macronix, micron, spansion};
use crate::spi_nor::spec::{OctalSwitch, RegisterSet, SpiNorSpec};
use crate::timeline::Host;
use floatgate_mtd::{Error, ErrorKind, Nanos};

/// Linux's timeout for a busy chip; a chip erase has this timeout for each 2 MiB.
const TIMEOUT: Nanos = Nanos::from_ms(40_000);
/// Maximum length of a piece of an odd transfer in 8D-8D-8D, bytes (Linux: a page of memory).
const BOUNCE_BYTES: usize = 4096;
/// Bit of the flag status register: a program or erase failed because of protection.
const FSR_PROTECTED: u8 = 1 << 1;

/// Operations of the selected mode, prepared for reuse.
#[derive(Clone, Debug)]
pub(super) struct Ops {
    pub(super) read: SpiOp,
    pub(super) program: SpiOp,
    pub(super) erase: SpiOp,
    pub(super) chip_erase: SpiOp,
    pub(super) write_enable: SpiOp,
    pub(super) write_disable: SpiOp,
    pub(super) status: SpiOp,
    /// Register with fail bits; `None` if it is not read.
    pub(super) failures: Option<Failures>,
    pub(super) octal: bool,
    /// Number of address bytes of commands that depend on the address mode.
    pub(super) current_addr_bytes: u8,
    pub(super) offered: Vec<Mode>,
}

/// Registers in which the chip reports failures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    pub(super) read: SpiOp,
    /// Command that clears the fail bits; `None` if they do not persist.
    pub(super) clear: Option<SpiOp>,
    program: u8,
    erase: u8,
    protected: u8,
}

/// Path of an operation to the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// Through the direct mapping, if the controller has one.
    Mapped,
    /// A plain operation of the controller.
    Plain,
}

impl Path {
    fn write<S: SpiMem>(self, bus: &mut S, host: &mut Host, op: &SpiOp, data: &[u8]) -> Result<(), SpiError> {
        match self {
            Self::Mapped => bus.mapped(host, op, Data::Out(data)),
            Self::Plain => bus.exec(host, op, Data::Out(data)),
        }
    }
}

/// Type of an operation that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Program,
    Erase,
}

/// State of the driver without its thread.
#[derive(Clone, Debug)]
pub(super) struct Engine<S> {
    pub(super) bus: S,
    pub(super) spec: SpiNorSpec,
    pub(super) options: Options,
    pub(super) ops: Ops,
    pub(super) bounce: Box<[u8; BOUNCE_BYTES]>,
    /// Number of data bytes in one page program.
    pub(super) chunk: u32,
    pub(super) erase_bytes: u32,
}

pub(super) fn bounce() -> Box<[u8; BOUNCE_BYTES]> {
    Box::new([0xFF; BOUNCE_BYTES])
}

impl Ops {
    /// A command that has only one form, in 8D-8D-8D or on a single lane.
    pub(super) fn command(spec: &SpiNorSpec, opcode: u8, octal: bool) -> SpiOp {
        let mode = if octal { Mode::OCTAL_DTR } else { Mode::SINGLE };
        let ext = spec.octal.map(|o| o.ext).unwrap_or_default();
        let max_hz = u32::try_from(spec.max_hz(mode)).unwrap_or(u32::MAX);
        SpiOp { ext, max_hz, ..SpiOp::command(opcode).mode(mode) }
    }

    /// A register read of one byte; of two bytes in 8D-8D-8D, which is the minimum there.
    pub(super) fn register_read(spec: &SpiNorSpec, opcode: u8, octal: bool) -> SpiOp {
        let op = Self::command(spec, opcode, octal);
        match spec.octal {
            Some(o) if octal => op.address(0, o.status_addr_bytes).dummy(o.status_dummy).read(2),
            _ => op.read(1),
        }
    }
}

/// Opcode of Infineon's command that clears the fail bits.
fn clear_of(spec: &SpiNorSpec) -> u8 {
    match spec.octal.map(|octal| octal.switch) {
        Some(OctalSwitch::InfineonCfr) => infineon::CLEAR_FAILURES,
        _ => spansion::CLEAR_STATUS,
    }
}

impl Failures {
    pub(super) fn of(spec: &SpiNorSpec, options: &Options, octal: bool) -> Option<Self> {
        let register = |opcode| Ops::register_read(spec, opcode, octal);
        match spec.registers {
            RegisterSet::Micron => Some(Self {
                read: register(micron::READ_FLAG_STATUS),
                clear: Some(Ops::command(spec, micron::CLEAR_FLAG_STATUS, octal)),
                program: 1 << 4,
                erase: 1 << 5,
                protected: FSR_PROTECTED,
            }),
            RegisterSet::Spansion => Some(Self {
                read: register(c::READ_STATUS),
                clear: Some(Ops::command(spec, clear_of(spec), octal)),
                program: 1 << 6,
                erase: 1 << 5,
                protected: 0,
            }),
            RegisterSet::Macronix if options.check_security_register => {
                let read = register(macronix::READ_SECURITY);
                Some(Self { read, clear: None, program: 1 << 5, erase: 1 << 6, protected: 0 })
            }
            _ => None,
        }
    }

    fn kind(&self, bits: u8, job: Job) -> Option<ErrorKind> {
        let failed = match job {
            Job::Program => bits & self.program != 0,
            Job::Erase => bits & self.erase != 0,
        };
        match (failed, bits & self.protected != 0, job) {
            (false, _, _) => None,
            (true, true, _) => Some(ErrorKind::WriteProtected),
            (true, false, Job::Program) => Some(ErrorKind::ProgramFailed),
            (true, false, Job::Erase) => Some(ErrorKind::EraseFailed),
        }
    }
}

/// MTD error kind for a bus error.
fn kind(error: SpiError) -> ErrorKind {
    match error {
        SpiError::Chip(violation) => violation.kind(),
        SpiError::NotSupported => ErrorKind::Unsupported("the controller cannot do this operation"),
        SpiError::Timeout => ErrorKind::Timeout,
        SpiError::PowerLost => ErrorKind::PowerLost,
        SpiError::NoEye { .. } | SpiError::NoPhy => ErrorKind::Refused("the PHY is not calibrated"),
    }
}

impl<S: SpiMem> Engine<S> {
    pub(super) fn error(&self, error: SpiError, host: &Host, addr: u64) -> Error {
        kind(error).at(addr, host.now())
    }

    /// Executes a command; a rejection is reported with address `addr`.
    pub(super) fn exec(
        &mut self,
        host: &mut Host,
        op: &SpiOp,
        data: Data<'_>,
        addr: u64,
    ) -> Result<(), Error> {
        self.bus.exec(host, op, data).map_err(|e| kind(e).at(addr, host.now()))
    }

    /// Reads any range of the array.
    #[inline]
    pub(super) fn read(&mut self, host: &mut Host, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        if buf.is_empty() {
            return Ok(());
        }
        if self.ops.octal && (addr | buf.len() as u64) & 1 != 0 {
            let template = self.ops.read;
            return self.read_odd(host, &template, Path::Mapped, addr, buf);
        }
        let op = SpiOp { addr: addr as u32, len: buf.len() as u32, ..self.ops.read };
        self.bus.mapped(host, &op, Data::In(buf)).map_err(|e| kind(e).at(addr, host.now()))
    }

    /// Reads data other than the array by a plain operation.
    pub(super) fn read_plain(
        &mut self,
        host: &mut Host,
        template: &SpiOp,
        addr: u64,
        buf: &mut [u8],
    ) -> Result<(), Error> {
        if self.ops.octal && (addr | buf.len() as u64) & 1 != 0 {
            return self.read_odd(host, template, Path::Plain, addr, buf);
        }
        let op = SpiOp { addr: addr as u32, len: buf.len() as u32, ..*template };
        self.exec(host, &op, Data::In(buf), addr)
    }

    /// Reads an odd range. In 8D-8D-8D each clock cycle transfers two bytes, so odd ends use a bounce buffer.
    fn read_odd(
        &mut self,
        host: &mut Host,
        template: &SpiOp,
        path: Path,
        addr: u64,
        buf: &mut [u8],
    ) -> Result<(), Error> {
        let (mut at, mut rest) = (addr, buf);
        while !rest.is_empty() {
            let skip = (at & 1) as usize;
            let len = rest.len().min(BOUNCE_BYTES - 2);
            let (now, later) = rest.split_at_mut(len);
            let whole = (skip + len).next_multiple_of(2);
            let bounce = &mut self.bounce[..whole];
            // A device in timing-only mode leaves the buffer unchanged, so it must first contain the caller's
            // bytes.
            bounce[skip..skip + len].copy_from_slice(now);
            let op = SpiOp { addr: at as u32 & !1, len: whole as u32, ..*template };
            let outcome = match path {
                Path::Mapped => self.bus.mapped(host, &op, Data::In(bounce)),
                Path::Plain => self.bus.exec(host, &op, Data::In(bounce)),
            };
            outcome.map_err(|e| kind(e).at(at, host.now()))?;
            now.copy_from_slice(&bounce[skip..skip + len]);
            (rest, at) = (later, at + len as u64);
        }
        Ok(())
    }

    /// Splits data for `addr` into page programs.
    pub(super) fn pages<'d>(&self, addr: u64, data: &'d [u8]) -> Pages<'d> {
        let page = u64::from(self.spec.geometry.page_bytes);
        Pages {
            rest: data,
            room: (page - addr % page) as usize,
            page: page as usize,
            most: self.chunk as usize,
        }
    }

    /// Programs data within a page: WRITE ENABLE, PAGE PROGRAM, wait, check of the status.
    pub(super) fn program(&mut self, host: &mut Host, addr: u64, data: &[u8]) -> Result<(), Error> {
        self.start_program(host, addr, data)?;
        self.wait(host, addr, Job::Program, TIMEOUT)
    }

    pub(super) fn start_program(&mut self, host: &mut Host, addr: u64, data: &[u8]) -> Result<(), Error> {
        let template = self.ops.program;
        self.start_write(host, &template, Path::Mapped, addr, data)
    }

    /// Sends WRITE ENABLE and a command that programs the array or another area.
    pub(super) fn start_write(
        &mut self,
        host: &mut Host,
        template: &SpiOp,
        path: Path,
        addr: u64,
        data: &[u8],
    ) -> Result<(), Error> {
        let enable = self.ops.write_enable;
        self.exec(host, &enable, Data::None, addr)?;
        let odd = self.ops.octal && (addr | data.len() as u64) & 1 != 0;
        let op = SpiOp { addr: addr as u32, len: data.len() as u32, ..*template };
        let outcome = if odd {
            // A byte FFh does not change the array.
            let skip = (addr & 1) as usize;
            let whole = (skip + data.len()).next_multiple_of(2);
            let bounce = &mut self.bounce[..whole];
            (bounce[0], bounce[whole - 1]) = (0xFF, 0xFF);
            bounce[skip..skip + data.len()].copy_from_slice(data);
            let op = SpiOp { addr: op.addr & !1, len: whole as u32, ..op };
            path.write(&mut self.bus, host, &op, bounce)
        } else {
            path.write(&mut self.bus, host, &op, data)
        };
        self.started(host, outcome, addr)
    }

    /// Result of a command that starts a program or erase. A chip with fail bits sets them if the area is protected, and they are cleared
    /// here, so that the next operation does not seem to fail.
    fn started(&mut self, host: &mut Host, outcome: Result<(), SpiError>, addr: u64) -> Result<(), Error> {
        let error = match outcome {
            Ok(()) => return Ok(()),
            Err(error) => kind(error).at(addr, host.now()),
        };
        if error.kind == ErrorKind::WriteProtected
            && let Some(Failures { clear: Some(clear), .. }) = self.ops.failures
        {
            self.exec(host, &clear, Data::None, addr)?;
        }
        Err(error)
    }

    /// Polls the status register until the chip is ready, then checks for failures.
    pub(super) fn wait(&mut self, host: &mut Host, addr: u64, job: Job, timeout: Nanos) -> Result<(), Error> {
        self.wait_ready(host, addr, timeout)?;
        self.check_failed(host, addr, job)
    }

    /// Checks a ready chip for failures.
    pub(super) fn check_failed(&mut self, host: &mut Host, addr: u64, job: Job) -> Result<(), Error> {
        let Some(failures) = self.ops.failures else { return Ok(()) };
        let mut bits = [0; 2];
        let len = failures.read.len as usize;
        self.exec(host, &failures.read, Data::In(&mut bits[..len]), addr)?;
        let Some(found) = failures.kind(bits[0], job) else { return Ok(()) };
        if let Some(clear) = failures.clear {
            self.exec(host, &clear, Data::None, addr)?;
        }
        Err(found.at(addr, host.now()))
    }

    pub(super) fn wait_ready(&mut self, host: &mut Host, addr: u64, timeout: Nanos) -> Result<(), Error> {
        let (initial, interval) = (self.options.poll_initial_us, self.options.poll_interval_us);
        let plan = PollPlan { initial, interval, timeout };
        let status = self.ops.status;
        self.bus.poll(host, &status, 1, 0, plan).map_err(|e| kind(e).at(addr, host.now()))?;
        Ok(())
    }

    /// Erases whole blocks, or the whole chip with the chip erase command.
    pub(super) fn erase(&mut self, host: &mut Host, addr: u64, len: u64) -> Result<(), Error> {
        let size = self.spec.geometry.size_bytes;
        if len == size {
            self.start_erase(host, None)?;
            let timeout = TIMEOUT * (size >> 21).max(1);
            self.wait(host, 0, Job::Erase, timeout)?;
        } else {
            for block in (addr..addr + len).step_by(self.erase_bytes as usize) {
                self.start_erase(host, Some(block))?;
                self.wait(host, block, Job::Erase, TIMEOUT)?;
            }
        }
        let disable = self.ops.write_disable;
        self.exec(host, &disable, Data::None, addr)
    }

    /// Sends WRITE ENABLE and the erase command for a block or for the whole chip.
    pub(super) fn start_erase(&mut self, host: &mut Host, block: Option<u64>) -> Result<(), Error> {
        let addr = block.unwrap_or(0);
        let enable = self.ops.write_enable;
        self.exec(host, &enable, Data::None, addr)?;
        let op = match block {
            Some(block) => SpiOp { addr: block as u32, ..self.ops.erase },
            None => self.ops.chip_erase,
        };
        let outcome = self.bus.exec(host, &op, Data::None);
        self.started(host, outcome, addr)
    }
}

/// Data split at page boundaries, see [`Engine::pages`].
#[derive(Clone, Debug)]
pub(super) struct Pages<'d> {
    rest: &'d [u8],
    /// Number of bytes left in the current page.
    room: usize,
    page: usize,
    /// Maximum number of bytes in one operation.
    most: usize,
}

impl<'d> Iterator for Pages<'d> {
    type Item = &'d [u8];

    fn next(&mut self) -> Option<&'d [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let len = self.room.min(self.most).min(self.rest.len());
        let (now, later) = self.rest.split_at(len);
        self.rest = later;
        self.room = if len == self.room { self.page } else { self.room - len };
        Some(now)
    }
}
