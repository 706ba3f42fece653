//! The command set: the order in which cycles are allowed.

use super::lun::Queue;
use super::{Output, RawNand};
use crate::raw_nand::address::RowAddress;
use crate::raw_nand::command as c;
use crate::raw_nand::timing::{BusTiming, DataInterface, T_FEAT};
use crate::violation::Violation;
use floatgate_mtd::Instant;

/// A command whose address cycles have not been received yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// 00h (01h, 50h): read; column and row follow.
    Read,
    /// 05h: change read column; a column follows.
    Column,
    /// 06h: change read column enhanced; column and row follow.
    ColumnOfPlane,
    /// 80h, 81h: page program; column and row follow.
    Program,
    /// 85h after a copyback read: copyback program; column and row follow.
    CopybackProgram,
    /// 85h within a program: change write column; a column follows.
    ColumnIn,
    /// 60h: block erase; a row follows.
    Erase,
    /// 78h: read status enhanced; a row follows.
    StatusEnhanced,
    /// 90h: READ ID; one address cycle follows.
    Id,
    /// ECh: READ PARAMETER PAGE; one address cycle follows.
    ParameterPage,
    /// EDh: READ UNIQUE ID; one address cycle follows.
    UniqueId,
    /// EEh: GET FEATURES; one address cycle follows.
    GetFeature,
    /// EFh: SET FEATURES; one address cycle follows.
    SetFeature,
    /// D4h: LUN GET FEATURES; LUN and feature address follow.
    GetLunFeature,
    /// D5h: LUN SET FEATURES; LUN and feature address follow.
    SetLunFeature,
    /// 36h: set read retry registers; the address of a register follows.
    Parameter,
}

/// State of a command sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No sequence is running.
    Idle,
    /// The command was received, its address was not.
    Wants(Wants),
    /// The address of a read was received, its confirm command was not.
    ReadAt(RowAddress, usize),
    /// A column was received, E0h was not.
    ColumnAt(usize),
    /// The address of a program was received; data, 85h, 10h, 11h or 15h may follow.
    Loading,
    /// The row of an erase was received; D0h, D1h or 60h may follow.
    EraseAt(RowAddress),
    /// The address of a feature was received, its parameters were not. `lun` is `None` for all LUNs.
    FeatureData { lun: Option<u8>, feature: u8 },
    /// The address of a read retry register was received, its value was not.
    ParameterAt(usize),
}

/// Type of a command, which determines the states of the LUN in which it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Program,
    Erase,
    Other,
}

const WRONG_CYCLES: Violation = Violation::Sequence("wrong number of address cycles");

/// Reason why a command starts no sequence.
const fn not_first(opcode: u8, small: bool) -> Option<&'static str> {
    Some(match opcode {
        c::PROGRAM_CONFIRM => "it ends a program, which 80h, an address and data begin",
        c::PROGRAM_QUEUE => "it ends a program of one plane, which 80h, an address and data begin",
        c::PROGRAM_CACHE => "it ends a cached program, which 80h, an address and data begin",
        c::APPLY_PARAMETERS => "it applies read retry registers, which 36h sets, if the chip has them",
        c::READ_CONFIRM if small => "a chip with pages of 512 bytes reads after the address of 00h",
        c::READ_CONFIRM => "it ends the address of a page read, which 00h begins",
        c::READ_CACHE | c::READ_CACHE_END => "the chip has no cached reads",
        c::READ_QUEUE => "it ends the address of a read of one plane, which 00h begins",
        c::READ_COPYBACK => "it ends the address of a read for copyback, which 00h begins",
        c::ERASE_CONFIRM => "it ends an erase, which 60h and a row begin",
        c::ERASE_QUEUE => "it ends an erase of one plane, which 60h and a row begin",
        c::CHANGE_COLUMN_CONFIRM => "it ends a change of the read column, which 05h and a column begin",
        c::CHANGE_WRITE_COLUMN => "it changes the column of a program, which 80h and an address begin",
        c::CHANGE_COLUMN => "a chip with pages of 512 bytes has no change of the read column",
        c::CHANGE_COLUMN_ENHANCED | c::PROGRAM_NEXT_PLANE => "the chip has no multi-plane operations",
        c::READ_SECOND_HALF | c::READ_OOB => "only chips with pages of 512 bytes have it: expected is 00h",
        c::STATUS_ENHANCED => "the chip has only one LUN and the status of 70h",
        c::READ_PARAMETER_PAGE | c::READ_UNIQUE_ID => "the chip has neither ONFI nor JEDEC parameter pages",
        c::GET_FEATURES | c::SET_FEATURES => "the chip has no features",
        _ => return None,
    })
}

/// Value of address cycles, lowest byte first.
#[inline]
fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

impl RawNand {
    pub(super) fn latch_command(
        &mut self,
        at: Instant,
        interface: DataInterface,
        opcode: u8,
    ) -> Result<(), Violation> {
        if opcode == c::RESET {
            self.reset(at);
            return Ok(());
        }
        self.check_interface(interface)?;
        if !self.awake {
            return Err(Violation::Sequence("the first command after power-on is RESET (FFh)"));
        }
        let timing = interface.timing();
        match self.step {
            Step::Idle => self.first_command(at, timing, opcode),
            Step::Wants(Wants::Read) => self.after_bare_00(at, timing, opcode),
            Step::Wants(Wants::Parameter) if opcode == c::APPLY_PARAMETERS => self.apply_parameters(),
            Step::Wants(_) => {
                Err(self.out_of_place(opcode, "expected are the address cycles of the command before"))
            }
            Step::ReadAt(row, column) => self.confirm_read(at, timing, opcode, row, column),
            Step::ColumnAt(column) if opcode == c::CHANGE_COLUMN_CONFIRM => {
                self.column = column;
                self.step = Step::Idle;
                self.hold_data(at + timing.ccs, "data before tCCS was over");
                Ok(())
            }
            Step::Loading => self.confirm_program(at, timing, opcode),
            Step::EraseAt(row) => self.confirm_erase(at, timing, opcode, row),
            Step::ColumnAt(_) => Err(self.out_of_place(opcode, "expected is E0h behind a column")),
            Step::FeatureData { .. } => {
                Err(self.out_of_place(opcode, "expected are the four parameters of a feature"))
            }
            Step::ParameterAt(_) => {
                Err(self.out_of_place(opcode, "expected is the value of a read retry register"))
            }
        }
    }

    /// Handles the command after 00h without an address. 00h ends status output, and on small pages selects the start of a program; the
    /// next command starts a new sequence.
    fn after_bare_00(&mut self, at: Instant, timing: &BusTiming, opcode: u8) -> Result<(), Violation> {
        if matches!(opcode, c::READ_CONFIRM | c::READ_QUEUE | c::READ_COPYBACK) {
            return Err(self.out_of_place(opcode, "expected are the address cycles of 00h"));
        }
        self.step = Step::Idle;
        self.first_command(at, timing, opcode)
    }

    fn first_command(&mut self, at: Instant, timing: &BusTiming, opcode: u8) -> Result<(), Violation> {
        match opcode {
            c::STATUS => {
                self.show_status();
                self.hold_data(at + timing.whr, "data before tWHR was over");
                Ok(())
            }
            c::STATUS_ENHANCED
                if self.spec.onfi.is_some() || self.spec.jedec.is_some() || self.luns.len() > 1 =>
            {
                self.step = Step::Wants(Wants::StatusEnhanced);
                Ok(())
            }
            c::READ_CACHE | c::READ_CACHE_END if self.spec.read_cache => {
                self.cached_read(at, timing, opcode == c::READ_CACHE)
            }
            _ => self.begin(at, opcode),
        }
    }

    /// Starts a command that needs an address.
    fn begin(&mut self, at: Instant, opcode: u8) -> Result<(), Violation> {
        let small = self.spec.geometry.small_page();
        let (wants, kind) = match opcode {
            c::READ => (Wants::Read, Kind::Read),
            c::READ_SECOND_HALF | c::READ_OOB if small => (Wants::Read, Kind::Read),
            c::CHANGE_COLUMN if !small => (Wants::Column, Kind::Read),
            c::CHANGE_COLUMN_ENHANCED if self.spec.multi_plane => (Wants::ColumnOfPlane, Kind::Read),
            c::PROGRAM => (Wants::Program, Kind::Program),
            c::PROGRAM_NEXT_PLANE if self.spec.multi_plane => (Wants::Program, Kind::Program),
            c::CHANGE_WRITE_COLUMN if self.spec.copyback => (Wants::CopybackProgram, Kind::Program),
            c::ERASE => (Wants::Erase, Kind::Erase),
            c::READ_ID => (Wants::Id, Kind::Other),
            c::READ_PARAMETER_PAGE if self.spec.onfi.is_some() || self.spec.jedec.is_some() => {
                (Wants::ParameterPage, Kind::Other)
            }
            c::READ_UNIQUE_ID if self.spec.onfi.is_some() || self.spec.jedec.is_some() => {
                (Wants::UniqueId, Kind::Other)
            }
            c::GET_FEATURES if self.spec.features.get => (Wants::GetFeature, Kind::Other),
            c::SET_FEATURES if self.spec.features.set => (Wants::SetFeature, Kind::Other),
            c::LUN_GET_FEATURES if self.spec.features.get && self.luns.len() > 1 => {
                (Wants::GetLunFeature, Kind::Other)
            }
            c::LUN_SET_FEATURES if self.spec.features.set && self.luns.len() > 1 => {
                (Wants::SetLunFeature, Kind::Other)
            }
            c::SET_PARAMETERS if self.has_retry_registers() => {
                self.begin_parameters();
                (Wants::Parameter, Kind::Other)
            }
            _ => return Err(self.no_start(opcode)),
        };
        self.admit(at, kind)?;
        self.step = Step::Wants(wants);
        match opcode {
            c::READ => self.enter_read(0),
            c::READ_SECOND_HALF => self.enter_read(self.spec.geometry.page_bytes / 2),
            c::READ_OOB => self.enter_read(self.spec.geometry.page_bytes),
            _ => {}
        }
        Ok(())
    }

    /// Violation of a command that the sequence so far does not allow.
    #[cold]
    pub(super) const fn out_of_place(&self, opcode: u8, why: &'static str) -> Violation {
        Violation::OutOfPlace { opcode, after: self.last_command, refused: self.last_refused, why }
    }

    /// Violation of a command that starts no sequence on this chip.
    #[cold]
    fn no_start(&self, opcode: u8) -> Violation {
        not_first(opcode, self.spec.geometry.small_page())
            .map_or(Violation::UnknownCommand(opcode), |why| self.out_of_place(opcode, why))
    }

    /// 00h, 01h and 50h end status output and select the part of a small page.
    fn enter_read(&mut self, pointer: u32) {
        if self.output == Output::Status {
            self.output = self.resume;
        }
        self.pointer = pointer;
    }

    /// Switches data output to the status until 00h, which restores the previous output.
    fn show_status(&mut self) {
        if self.output != Output::Status {
            self.resume = self.output;
        }
        self.output = Output::Status;
    }

    /// Resets the pointer after 01h, which is valid for one operation only.
    fn use_pointer(&mut self) {
        if self.pointer < self.spec.geometry.page_bytes {
            self.pointer = 0;
        }
    }

    /// Checks that a command is allowed. A command whose address contains the LUN is checked when the address arrives, unless there is only
    /// one LUN.
    fn admit(&self, at: Instant, kind: Kind) -> Result<(), Violation> {
        if let [_] = self.luns.as_slice() {
            return self.admit_lun(at, 0, kind);
        }
        if kind != Kind::Other {
            return Ok(());
        }
        (0..self.luns.len()).try_for_each(|lun| self.admit_lun(at, lun, kind))
    }

    #[inline]
    fn admit_lun(&self, at: Instant, lun: usize, kind: Kind) -> Result<(), Violation> {
        let lun = &self.luns[lun];
        if at < lun.ready {
            return Err(Violation::Busy);
        }
        let expected = match lun.queue {
            Queue::None => kind,
            Queue::Reads => Kind::Read,
            Queue::Programs => Kind::Program,
            Queue::Erases => Kind::Erase,
        };
        if kind != expected {
            return Err(Violation::Sequence("another multi-plane operation was begun and not finished"));
        }
        if lun.caching && kind != Kind::Read {
            return Err(Violation::Sequence("a cached read was not ended with 3Fh"));
        }
        if at < lun.array_ready && !lun.caching && kind != Kind::Program {
            return Err(Violation::Busy);
        }
        Ok(())
    }

    pub(super) fn latch_address(
        &mut self,
        at: Instant,
        interface: DataInterface,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let Step::Wants(wants) = self.step else {
            return Err(Violation::Sequence("address cycles without a command that takes them"));
        };
        let timing = interface.timing();
        match wants {
            Wants::Read => self.address_read(at, timing, bytes),
            Wants::Column => {
                self.step = Step::ColumnAt(self.column_of(bytes)?);
                Ok(())
            }
            Wants::ColumnOfPlane => self.address_plane(at, bytes),
            Wants::Program => self.address_program(at, timing, bytes),
            Wants::CopybackProgram => self.address_copyback(at, timing, bytes),
            Wants::ColumnIn => self.address_column_in(at, timing, bytes),
            Wants::Erase => {
                let row = self.row_of(bytes)?;
                self.activate(at, row, Kind::Erase)?;
                self.check_erase(row)?;
                self.step = Step::EraseAt(row);
                Ok(())
            }
            Wants::StatusEnhanced => {
                let row = self.row_of(bytes)?;
                self.active = row.lun as usize;
                self.step = Step::Idle;
                self.show_status();
                self.hold_data(at + timing.whr, "data before tWHR was over");
                Ok(())
            }
            Wants::Parameter => self.address_parameter(at, timing, bytes),
            Wants::Id => self.output_id(at, timing, bytes),
            Wants::ParameterPage | Wants::UniqueId => {
                self.output_pages(at, timing, bytes, wants == Wants::UniqueId)
            }
            Wants::GetFeature | Wants::SetFeature | Wants::GetLunFeature | Wants::SetLunFeature => {
                self.address_feature(at, timing, wants, bytes)
            }
        }
    }

    /// Handles column and row of a read; a small page is read immediately.
    #[inline]
    fn address_read(&mut self, at: Instant, timing: &BusTiming, bytes: &[u8]) -> Result<(), Violation> {
        let (column, row) = self.column_and_row(bytes)?;
        self.activate(at, row, Kind::Read)?;
        if self.spec.geometry.small_page() {
            self.use_pointer();
            return self.read_page(at, timing, row, column);
        }
        self.step = Step::ReadAt(row, column);
        Ok(())
    }

    fn address_plane(&mut self, at: Instant, bytes: &[u8]) -> Result<(), Violation> {
        let (column, row) = self.column_and_row(bytes)?;
        self.activate(at, row, Kind::Read)?;
        let plane = self.plane_of(row);
        self.lun_mut().plane = plane;
        self.step = Step::ColumnAt(column);
        Ok(())
    }

    #[inline]
    fn address_program(&mut self, at: Instant, timing: &BusTiming, bytes: &[u8]) -> Result<(), Violation> {
        let (column, row) = self.column_and_row(bytes)?;
        self.activate(at, row, Kind::Program)?;
        self.begin_load(row, column)?;
        self.use_pointer();
        self.step = Step::Loading;
        self.hold_data(at + timing.adl, "data before tADL was over");
        Ok(())
    }

    fn address_copyback(&mut self, at: Instant, timing: &BusTiming, bytes: &[u8]) -> Result<(), Violation> {
        let (column, row) = self.column_and_row(bytes)?;
        self.activate(at, row, Kind::Program)?;
        self.begin_copyback(row, column)?;
        self.step = Step::Loading;
        self.hold_data(at + timing.adl, "data before tADL was over");
        Ok(())
    }

    fn address_column_in(&mut self, at: Instant, timing: &BusTiming, bytes: &[u8]) -> Result<(), Violation> {
        let column = self.column_of(bytes)?;
        self.set_load_column(column);
        self.step = Step::Loading;
        self.hold_data(at + timing.ccs, "data before tCCS was over");
        Ok(())
    }

    /// Makes the LUN of `row` active, if its state allows this kind of command.
    #[inline]
    fn activate(&mut self, at: Instant, row: RowAddress, kind: Kind) -> Result<(), Violation> {
        let lun = row.lun as usize;
        if self.luns.len() > 1 {
            self.admit_lun(at, lun, kind)?;
        }
        self.active = lun;
        Ok(())
    }

    /// Decodes a column address.
    fn column_of(&self, bytes: &[u8]) -> Result<usize, Violation> {
        match bytes {
            [low, high] if !self.spec.geometry.small_page() => {
                self.check_column(u32::from(*low) | u32::from(*high) << 8)
            }
            _ => Err(WRONG_CYCLES),
        }
    }

    fn check_column(&self, column: u32) -> Result<usize, Violation> {
        if column < self.spec.geometry.full_page() { Ok(column as usize) } else { Err(Violation::BadAddress) }
    }

    /// Decodes column and row, with the number of cycles that the chip uses.
    #[inline(always)]
    fn column_and_row(&self, bytes: &[u8]) -> Result<(usize, RowAddress), Violation> {
        match self.position(bytes) {
            Some(position) => Ok(position),
            None => Err(self.wrong_position(bytes)),
        }
    }

    /// Decodes column and row; `None` if they violate a rule. Returning the error here would pass the result through memory, which takes
    /// longer than all other work for these cycles.
    #[inline(always)]
    fn position(&self, bytes: &[u8]) -> Option<(usize, RowAddress)> {
        let small = self.spec.geometry.small_page();
        let (column, row) = match bytes {
            [low, high, row @ ..] if !small => (u32::from(*low) | u32::from(*high) << 8, row),
            [column, row @ ..] if small => (self.pointer + u32::from(*column), row),
            _ => return None,
        };
        if column >= self.spec.geometry.full_page() || row.len() != usize::from(self.map.cycles()) {
            return None;
        }
        Some((column as usize, self.map.decode(little_endian(row))?))
    }

    /// The rule that a column and a row violate.
    #[cold]
    fn wrong_position(&self, bytes: &[u8]) -> Violation {
        let column_cycles = if self.spec.geometry.small_page() { 1 } else { 2 };
        match bytes.split_at_checked(column_cycles) {
            // The column is checked first, because its cycles come first.
            Some((column, _)) if self.column_is_beyond(column) => Violation::BadAddress,
            Some((_, row)) if row.len() == usize::from(self.map.cycles()) => Violation::BadAddress,
            _ => WRONG_CYCLES,
        }
    }

    fn column_is_beyond(&self, column: &[u8]) -> bool {
        let first = if self.spec.geometry.small_page() { self.pointer } else { 0 };
        first + little_endian(column) >= self.spec.geometry.full_page()
    }

    #[inline]
    fn row_of(&self, bytes: &[u8]) -> Result<RowAddress, Violation> {
        if bytes.len() != usize::from(self.map.cycles()) {
            return Err(WRONG_CYCLES);
        }
        self.map.decode(little_endian(bytes)).ok_or(Violation::BadAddress)
    }

    /// Executes RESET: all operations are interrupted, registers and queues are lost, NV-DDR falls back to SDR mode 0 (ONFI 4.2 section
    /// 4.1.2). The part of a program or erase that was done so far remains.
    fn reset(&mut self, at: Instant) {
        let start = at + DataInterface::POWER_ON.timing().wb;
        self.awake = true;
        self.step = Step::Idle;
        self.output = Output::Register;
        self.pointer = 0;
        if matches!(self.interface, DataInterface::NvDdr(_)) {
            self.interface = DataInterface::POWER_ON;
        }
        self.leave_otp();
        for lun in 0..self.luns.len() {
            self.active = lun;
            self.luns[lun].empty_registers();
            self.luns[lun].drop_queue();
            self.luns[lun].operations.clear();
            let state = &mut self.luns[lun];
            (state.fail, state.fail_before, state.chained) = (false, false, false);
            self.busy(start, self.spec.timing.t_rst_us, "tRST");
        }
        self.active = 0;
    }

    #[inline]
    pub(super) fn write_data(
        &mut self,
        at: Instant,
        interface: DataInterface,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        if at < self.data_from {
            return Err(Violation::Timing(self.data_rule));
        }
        match self.step {
            Step::Loading => self.load(bytes),
            Step::FeatureData { lun, feature } => self.set_feature(at, interface, lun, feature, bytes),
            Step::ParameterAt(index) => self.set_parameter(index, bytes),
            _ => Err(Violation::Sequence("data to the chip that no command asked for")),
        }
    }

    /// Makes the LUN busy with a feature for tFEAT.
    pub(super) fn feature_busy(&mut self, at: Instant, timing: &BusTiming) {
        self.busy(at + timing.wb, T_FEAT, "tFEAT");
    }
}
