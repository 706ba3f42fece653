//! Decoder that finds the command of an operation, and checks that the chip accepts it in this form.

use super::SpiNor;
use crate::spi::{CommandShape, Direction, Mode, ReadOn, SpiOp, Variant};
use crate::spi_nor::command::{self as c, infineon, macronix, micron, spansion, winbond};
use crate::spi_nor::spec::{
    OctalSwitch, OtpSpec, QuadEnable, RegisterSet, SecurityFamily, SpiNorSpec, UNIQUE_ID_DUMMY,
};
use crate::violation::Violation;

/// A command of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cmd {
    Unknown,
    Read,
    Program,
    /// Index of the erase type, smallest size first.
    Erase(u8),
    ChipErase,
    ReadId,
    ReadSfdp,
    Suspend,
    Resume,
    ResetEnable,
    Reset,
    Otp(OtpCmd),
    Register(RegisterCmd),
}

/// Commands of the one-time-programmable area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtpCmd {
    Read,
    Program,
    Erase,
    UniqueId,
    Enter,
    Exit,
    Lock,
}

impl OtpCmd {
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "READ OTP",
            Self::Program => "PROGRAM OTP",
            Self::Erase => "ERASE OTP",
            Self::UniqueId => "READ UNIQUE ID",
            Self::Enter => "ENTER OTP B1h",
            Self::Exit => "EXIT OTP C1h",
            Self::Lock => "LOCK OTP 2Fh",
        }
    }
}

/// Commands that read or write registers or switch modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterCmd {
    WriteEnable,
    WriteDisable,
    ReadStatus,
    WriteStatus,
    ReadStatus2,
    WriteStatus2,
    ReadStatus3,
    WriteStatus3,
    ReadSecurity,
    ReadFlagStatus,
    ClearFlagStatus,
    ReadConfig2,
    WriteConfig2,
    ReadFunction,
    WriteFunction,
    Enter4b,
    Exit4b,
}

impl Cmd {
    /// True for commands that the chip accepts during a program or an erase. A suspend command without a running
    /// operation is rejected when it is executed.
    pub(super) const fn allowed_while_busy(self) -> bool {
        use RegisterCmd::{ReadFlagStatus, ReadSecurity, ReadStatus, ReadStatus2, ReadStatus3};
        matches!(
            self,
            Self::Suspend
                | Self::ResetEnable
                | Self::Reset
                | Self::Register(ReadStatus | ReadStatus2 | ReadStatus3 | ReadSecurity | ReadFlagStatus)
        )
    }
}

/// Number of address bytes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressBytes {
    /// No address bytes.
    No,
    /// The number of address bytes in the current address mode.
    Current,
    /// A fixed number of address bytes.
    Always(u8),
    /// Number of address bytes for id and status registers: 0; in 8D-8D-8D the number in the specification.
    Status,
}

/// Form of a read or program command in one bus mode.
#[derive(Clone, Copy, Debug)]
struct Form {
    opcode: u8,
    dummy: u8,
    mode: Mode,
    max_hz: u32,
    address: AddressBytes,
    /// True if the number of dummy cycles must be the configured one.
    configured: bool,
}

/// Commands of a part by opcode.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    table: [Cmd; 256],
    forms: Vec<Form>,
    erase_4b: Vec<u8>,
    max_sdr_hz: u32,
    max_dtr_hz: u32,
}

/// Maximum number of id bytes that a host may read in pieces.
const ID_BYTES: u32 = 512;

fn clip(hz: u64) -> u32 {
    u32::try_from(hz).unwrap_or(u32::MAX)
}

impl Commands {
    pub(super) fn new(spec: &SpiNorSpec) -> Self {
        let mut all = Self {
            table: [Cmd::Unknown; 256],
            forms: Vec::new(),
            erase_4b: spec.erase.values().filter_map(|e| e.opcode_4b).collect(),
            max_sdr_hz: clip(spec.max_sdr_hz),
            max_dtr_hz: clip(spec.max_dtr_hz),
        };
        all.add_common();
        all.add_optional(spec);
        all.add_registers(spec.registers);
        if spec.octal.is_some_and(|octal| octal.switch == OctalSwitch::InfineonCfr) {
            all.register(infineon::READ_ANY, RegisterCmd::ReadConfig2);
            all.register(infineon::WRITE_ANY, RegisterCmd::WriteConfig2);
            all.register(infineon::CLEAR_FAILURES, RegisterCmd::ClearFlagStatus);
        }
        all.add_otp(spec.otp);
        for (index, erase) in (0u8..).zip(spec.erase_types()) {
            all.set(erase.opcode, Cmd::Erase(index));
            if let Some(opcode) = erase.opcode_4b {
                all.set(opcode, Cmd::Erase(index));
            }
        }
        all.add_forms(spec, &spec.reads, AddressBytes::Current, Cmd::Read);
        all.add_forms(spec, &spec.reads_4b, AddressBytes::Always(4), Cmd::Read);
        all.add_forms(spec, &spec.programs, AddressBytes::Current, Cmd::Program);
        all.add_forms(spec, &spec.programs_4b, AddressBytes::Always(4), Cmd::Program);
        all
    }

    /// Name of a command, for traces; register commands are named with their opcodes, as in data sheets.
    pub(super) const fn name(&self, opcode: u8) -> &'static str {
        use RegisterCmd as R;
        match self.table[opcode as usize] {
            Cmd::Unknown => "unknown command",
            Cmd::Read => "READ",
            Cmd::Program => "PAGE PROGRAM",
            Cmd::Erase(_) => "ERASE",
            Cmd::ChipErase => "CHIP ERASE",
            Cmd::ReadId => "READ ID 9Fh",
            Cmd::ReadSfdp => "READ SFDP 5Ah",
            Cmd::Suspend => "SUSPEND",
            Cmd::Resume => "RESUME",
            Cmd::ResetEnable => "RESET ENABLE 66h",
            Cmd::Reset => "RESET 99h",
            Cmd::Otp(otp) => otp.name(),
            Cmd::Register(R::WriteEnable) => "WRITE ENABLE 06h",
            Cmd::Register(R::WriteDisable) => "WRITE DISABLE 04h",
            Cmd::Register(R::ReadStatus) => "READ STATUS 05h",
            Cmd::Register(R::WriteStatus) => "WRITE STATUS 01h",
            Cmd::Register(R::ReadStatus2) => "READ STATUS 2",
            Cmd::Register(R::WriteStatus2) => "WRITE STATUS 2",
            Cmd::Register(R::ReadStatus3) => "READ STATUS 3",
            Cmd::Register(R::WriteStatus3) => "WRITE STATUS 3",
            Cmd::Register(R::ReadSecurity) => "READ SECURITY 2Bh",
            Cmd::Register(R::ReadFlagStatus) => "READ FLAG STATUS 70h",
            Cmd::Register(R::ClearFlagStatus) => "CLEAR FLAG STATUS",
            Cmd::Register(R::ReadConfig2) => "READ CONFIG",
            Cmd::Register(R::WriteConfig2) => "WRITE CONFIG",
            Cmd::Register(R::ReadFunction) => "READ FUNCTION",
            Cmd::Register(R::WriteFunction) => "WRITE FUNCTION",
            Cmd::Register(R::Enter4b) => "ENTER 4-BYTE B7h",
            Cmd::Register(R::Exit4b) => "EXIT 4-BYTE E9h",
        }
    }

    /// Data of a read while CS# stays low.
    pub(super) const fn read_on(&self, opcode: u8) -> ReadOn {
        match self.table[opcode as usize] {
            Cmd::Register(_) => ReadOn::Register,
            Cmd::ReadId | Cmd::Otp(OtpCmd::UniqueId) => ReadOn::Bytes(ID_BYTES),
            _ => ReadOn::Address,
        }
    }

    fn set(&mut self, opcode: u8, cmd: Cmd) {
        self.table[usize::from(opcode)] = cmd;
    }

    fn register(&mut self, opcode: u8, cmd: RegisterCmd) {
        self.set(opcode, Cmd::Register(cmd));
    }

    fn add_common(&mut self) {
        self.register(c::WRITE_ENABLE, RegisterCmd::WriteEnable);
        self.register(c::WRITE_DISABLE, RegisterCmd::WriteDisable);
        self.register(c::READ_STATUS, RegisterCmd::ReadStatus);
        self.register(c::WRITE_STATUS, RegisterCmd::WriteStatus);
        self.set(c::READ_ID, Cmd::ReadId);
        self.set(c::CHIP_ERASE, Cmd::ChipErase);
        self.set(c::CHIP_ERASE_OLD, Cmd::ChipErase);
    }

    fn add_optional(&mut self, spec: &SpiNorSpec) {
        if spec.sfdp {
            self.set(c::READ_SFDP, Cmd::ReadSfdp);
        }
        if spec.soft_reset {
            self.set(c::RESET_ENABLE, Cmd::ResetEnable);
            self.set(c::RESET, Cmd::Reset);
        }
        if spec.addressing != crate::spi_nor::spec::Addressing::Fixed {
            self.register(c::ENTER_4B, RegisterCmd::Enter4b);
            self.register(c::EXIT_4B, RegisterCmd::Exit4b);
        }
        if let Some(suspend) = spec.suspend {
            self.set(suspend.suspend, Cmd::Suspend);
            self.set(suspend.resume, Cmd::Resume);
        }
    }

    fn add_registers(&mut self, set: RegisterSet) {
        use RegisterCmd as R;
        let more: &[(u8, R)] = match set {
            RegisterSet::Plain => &[],
            RegisterSet::Winbond => &[
                (winbond::READ_STATUS_2, R::ReadStatus2),
                (winbond::WRITE_STATUS_2, R::WriteStatus2),
                (winbond::READ_STATUS_3, R::ReadStatus3),
                (winbond::WRITE_STATUS_3, R::WriteStatus3),
            ],
            RegisterSet::Macronix => &[
                (macronix::READ_CONFIG, R::ReadStatus2),
                (macronix::READ_SECURITY, R::ReadSecurity),
                (macronix::READ_CONFIG_2, R::ReadConfig2),
                (macronix::WRITE_CONFIG_2, R::WriteConfig2),
            ],
            RegisterSet::Spansion => {
                &[(winbond::READ_STATUS_2, R::ReadStatus2), (spansion::CLEAR_STATUS, R::ClearFlagStatus)]
            }
            RegisterSet::Micron => &[
                (micron::READ_FLAG_STATUS, R::ReadFlagStatus),
                (micron::CLEAR_FLAG_STATUS, R::ClearFlagStatus),
                (micron::READ_VCR, R::ReadConfig2),
                (micron::WRITE_VCR, R::WriteConfig2),
            ],
        };
        for &(opcode, cmd) in more {
            self.register(opcode, cmd);
        }
    }

    fn add_otp(&mut self, otp: Option<OtpSpec>) {
        let commands: &[(u8, OtpCmd)] = match otp {
            None => &[],
            Some(OtpSpec::SecurityRegisters { family, unique_id_bytes, .. }) => {
                return self.add_security(family, unique_id_bytes > 0);
            }
            Some(OtpSpec::Secured { .. }) => &[
                (macronix::ENTER_OTP, OtpCmd::Enter),
                (macronix::EXIT_OTP, OtpCmd::Exit),
                (macronix::WRITE_SECURITY, OtpCmd::Lock),
            ],
            Some(OtpSpec::ControlByte { .. }) => {
                &[(micron::READ_OTP, OtpCmd::Read), (micron::PROGRAM_OTP, OtpCmd::Program)]
            }
        };
        for &(opcode, cmd) in commands {
            self.set(opcode, Cmd::Otp(cmd));
        }
    }

    fn add_security(&mut self, family: SecurityFamily, unique_id: bool) {
        let [read, program, erase] = family.commands();
        self.set(read, Cmd::Otp(OtpCmd::Read));
        self.set(program, Cmd::Otp(OtpCmd::Program));
        self.set(erase, Cmd::Otp(OtpCmd::Erase));
        if family == SecurityFamily::Issi {
            let [read, write] = family.lock_commands();
            self.register(read, RegisterCmd::ReadFunction);
            self.register(write, RegisterCmd::WriteFunction);
        }
        if unique_id {
            self.set(c::READ_UNIQUE_ID, Cmd::Otp(OtpCmd::UniqueId));
        }
    }

    fn add_forms(&mut self, spec: &SpiNorSpec, variants: &[Variant], address: AddressBytes, cmd: Cmd) {
        for v in variants {
            self.set(v.opcode, cmd);
            let limit = if v.max_hz == 0 { spec.max_hz(v.mode) } else { v.max_hz };
            self.forms.push(Form {
                opcode: v.opcode,
                dummy: v.dummy,
                mode: v.mode,
                max_hz: clip(limit),
                address,
                configured: spec.dummy.as_ref().is_some_and(|d| d.modes.contains(&v.mode)) && v.dummy > 0,
            });
        }
    }

    #[inline]
    fn form(&self, op: &SpiOp) -> Option<&Form> {
        self.forms.iter().find(|f| f.opcode == op.opcode && f.dummy == op.dummy_cycles && f.mode == op.mode)
    }

    /// Direction, address bytes and dummy cycles (in single-lane mode) of commands with only one form.
    fn shape(&self, cmd: Cmd, opcode: u8) -> (Direction, AddressBytes, u8) {
        use AddressBytes::{Always, Current, No, Status};
        use Direction::{In, None, Out};
        use RegisterCmd as R;
        match cmd {
            Cmd::Erase(_) if self.erase_4b.contains(&opcode) => (None, Always(4), 0),
            Cmd::Erase(_) | Cmd::Otp(OtpCmd::Erase) => (None, Current, 0),
            Cmd::Otp(OtpCmd::Program) => (Out, Current, 0),
            Cmd::Otp(OtpCmd::Read) => (In, Current, 8),
            Cmd::Otp(OtpCmd::UniqueId) => (In, No, UNIQUE_ID_DUMMY),
            Cmd::ReadSfdp => (In, Always(3), 8),
            Cmd::ReadId => (In, Status, 0),
            Cmd::Register(R::ReadConfig2) => (In, Always(4), 0),
            Cmd::Register(R::WriteConfig2) => (Out, Always(4), 0),
            Cmd::Register(R::WriteStatus | R::WriteStatus2 | R::WriteStatus3 | R::WriteFunction) => {
                (Out, No, 0)
            }
            Cmd::Register(R::ReadFunction) => (In, No, 0),
            Cmd::Register(
                R::ReadStatus | R::ReadStatus2 | R::ReadStatus3 | R::ReadSecurity | R::ReadFlagStatus,
            ) => (In, Status, 0),
            _ => (None, No, 0),
        }
    }
}

impl SpiNor {
    /// Finds the command of an operation, and checks mode, address length, dummy cycles and clock.
    #[inline]
    pub(super) fn decode(&self, op: &SpiOp, hz: u32) -> Result<Cmd, Violation> {
        let cmd = self.commands.table[usize::from(op.opcode)];
        match cmd {
            Cmd::Unknown => Err(Violation::UnknownCommand(op.opcode)),
            Cmd::Read | Cmd::Program => self.check_form(cmd, op, hz),
            _ => self.check_shape(cmd, op, hz),
        }
    }

    #[inline]
    fn check_form(&self, cmd: Cmd, op: &SpiOp, hz: u32) -> Result<Cmd, Violation> {
        let wrong = Violation::WrongMode(op.opcode);
        let form = self.commands.form(op).ok_or(wrong)?;
        self.check_command_phase(op)?;
        if self.address_bytes(form.address) != op.addr_bytes {
            return Err(wrong);
        }
        if form.configured && form.dummy != self.regs.dummy {
            return Err(Violation::Sequence("dummy cycles other than configured"));
        }
        if op.mode.data.lanes == 4 && !self.quad_enabled() {
            return Err(Violation::Sequence("four data lines while the quad enable bit is clear"));
        }
        // Each clock cycle transfers two bytes, so addresses and lengths must be even.
        if self.regs.octal && (op.addr | op.len) & 1 != 0 {
            return Err(Violation::Sequence("odd address or length in 8D-8D-8D"));
        }
        let wanted = if cmd == Cmd::Read { Direction::In } else { Direction::Out };
        check_direction(op, wanted)?;
        check_clock(hz, form.max_hz)?;
        Ok(cmd)
    }

    fn check_shape(&self, cmd: Cmd, op: &SpiOp, hz: u32) -> Result<Cmd, Violation> {
        let wanted = self.fixed_shape(cmd, op.opcode);
        self.check_command_phase(op)?;
        let header = (op.mode, op.addr_bytes, op.dummy_cycles);
        if header != (wanted.mode, wanted.addr_bytes, wanted.dummy_cycles) {
            return Err(Violation::WrongMode(op.opcode));
        }
        if self.regs.octal && op.len & 1 != 0 {
            return Err(Violation::Sequence("odd address or length in 8D-8D-8D"));
        }
        check_direction(op, wanted.dir)?;
        let limit = if self.regs.octal { self.commands.max_dtr_hz } else { self.commands.max_sdr_hz };
        check_clock(hz, limit)?;
        Ok(cmd)
    }

    /// Form of a command that has only one form in the current bus mode.
    fn fixed_shape(&self, cmd: Cmd, opcode: u8) -> CommandShape {
        let (dir, mut address, mut dummy_cycles) = self.commands.shape(cmd, opcode);
        if cmd.is_vcr_access(self.spec.registers) {
            address = AddressBytes::Current;
        }
        if self.regs.octal {
            (address, dummy_cycles) = self.octal_shape(cmd, dir, address);
        } else if cmd == Cmd::Otp(OtpCmd::UniqueId) && self.regs.addr_4b {
            dummy_cycles += 8;
        }
        let mode = if self.regs.octal { Mode::OCTAL_DTR } else { Mode::SINGLE };
        CommandShape { mode, addr_bytes: self.address_bytes(address), dummy_cycles, dir }
    }

    /// Forms of a command in the current bus mode.
    pub(super) fn command_shapes(&self, opcode: u8) -> Vec<CommandShape> {
        let cmd = self.commands.table[usize::from(opcode)];
        let dir = match cmd {
            Cmd::Unknown => return Vec::new(),
            Cmd::Read => Direction::In,
            Cmd::Program => Direction::Out,
            _ => return vec![self.fixed_shape(cmd, opcode)],
        };
        let forms = self.commands.forms.iter().filter(|form| form.opcode == opcode);
        let usable = forms.filter(|form| {
            form.mode.is_stateful() == self.regs.octal && (!form.configured || form.dummy == self.regs.dummy)
        });
        let shape = |form: &Form| CommandShape {
            mode: form.mode,
            addr_bytes: self.address_bytes(form.address),
            dummy_cycles: form.dummy,
            dir,
        };
        usable.map(shape).collect()
    }

    /// Form in 8D-8D-8D: every address has four bytes, and reads of registers and of SFDP need dummy cycles.
    fn octal_shape(&self, cmd: Cmd, dir: Direction, address: AddressBytes) -> (AddressBytes, u8) {
        let status_dummy = self.spec.octal.map_or(0, |o| o.status_dummy);
        match (cmd, dir) {
            (Cmd::ReadSfdp, _) => (AddressBytes::Always(4), self.regs.dummy),
            (Cmd::ReadId, _) => {
                (address, self.spec.octal.and_then(|octal| octal.id_dummy).unwrap_or(status_dummy))
            }
            (_, Direction::In) => (address, status_dummy),
            (Cmd::Register(RegisterCmd::WriteStatus), _) => (AddressBytes::Status, 0),
            _ => (address, 0),
        }
    }

    fn check_command_phase(&self, op: &SpiOp) -> Result<(), Violation> {
        if op.mode.is_stateful() != self.regs.octal {
            return Err(Violation::WrongMode(op.opcode));
        }
        match self.spec.octal {
            Some(octal) if self.regs.octal && octal.ext != op.ext => {
                Err(Violation::UnknownCommand(op.opcode))
            }
            _ => Ok(()),
        }
    }

    fn address_bytes(&self, address: AddressBytes) -> u8 {
        match address {
            AddressBytes::No => 0,
            AddressBytes::Always(bytes) => bytes,
            AddressBytes::Current => 3 + u8::from(self.regs.addr_4b || self.regs.octal),
            AddressBytes::Status if self.regs.octal => self.spec.octal.map_or(0, |o| o.status_addr_bytes),
            AddressBytes::Status => 0,
        }
    }

    pub(super) fn quad_enabled(&self) -> bool {
        match self.spec.quad_enable {
            QuadEnable::None => true,
            QuadEnable::Sr1Bit6 => self.regs.sr1 & 1 << 6 != 0,
            QuadEnable::Sr2Bit1 | QuadEnable::Sr2Bit1By01 => self.regs.sr2 & 1 << 1 != 0,
        }
    }
}

impl Cmd {
    /// True for an access to volatile configuration registers. Addresses of Micron's and Infineon's configuration
    /// registers have the length of array addresses; those of Macronix always have four bytes.
    fn is_vcr_access(self, set: RegisterSet) -> bool {
        let config = matches!(self, Self::Register(RegisterCmd::ReadConfig2 | RegisterCmd::WriteConfig2));
        config && matches!(set, RegisterSet::Micron | RegisterSet::Spansion)
    }
}

fn check_direction(op: &SpiOp, wanted: Direction) -> Result<(), Violation> {
    if op.dir == wanted { Ok(()) } else { Err(Violation::WrongMode(op.opcode)) }
}

const fn check_clock(hz: u32, max: u32) -> Result<(), Violation> {
    if hz <= max { Ok(()) } else { Err(Violation::ClockTooFast { hz, max }) }
}
