//! Commands and status bits of the two command sets of parallel NOR.

/// Device address of the cycle that enters the CFI query.
pub(super) const QUERY_AT: u32 = 0x55;
/// CFI query command of both command sets.
pub(super) const QUERY: u8 = 0x98;

/// Command set 0002 (AMD/Fujitsu/Spansion).
pub(super) mod amd {
    /// Device address of the first unlock cycle, and of commands after both unlock cycles.
    pub(in super::super) const UNLOCK_1_AT: u32 = 0x555;
    /// Device address of the second unlock cycle.
    pub(in super::super) const UNLOCK_2_AT: u32 = 0x2AA;
    /// Byte address of the second unlock cycle in byte mode: the alternating pattern continues in
    ///
    pub(in super::super) const UNLOCK_2_AT_BYTE: u32 = 0x555;
    /// First unlock cycle.
    pub(in super::super) const UNLOCK_1: u8 = 0xAA;
    /// Second unlock cycle.
    pub(in super::super) const UNLOCK_2: u8 = 0x55;
    /// Second cycle of the exit from a mode.
    pub(in super::super) const EXIT_CONFIRM: u8 = 0x00;
    /// Erase of the whole chip, after [`ERASE_SETUP`].
    pub(in super::super) const CHIP_ERASE: u8 = 0x10;
    /// Load of the write buffer.
    pub(in super::super) const WRITE_TO_BUFFER: u8 = 0x25;
    /// Program of the contents of the write buffer.
    pub(in super::super) const BUFFER_CONFIRM: u8 = 0x29;
    /// Erase of a block, after [`ERASE_SETUP`]; an additional block while the erase window is open.
    pub(in super::super) const BLOCK_ERASE: u8 = 0x30;
    /// Resume of a suspended operation.
    pub(in super::super) const RESUME: u8 = 0x30;
    /// Entry into the lock register command set.
    pub(in super::super) const ENTER_LOCK_REGISTER: u8 = 0x40;
    /// First command of an erase.
    pub(in super::super) const ERASE_SETUP: u8 = 0x80;
    /// Entry into the secured silicon sector command set.
    pub(in super::super) const ENTER_SECURED_SILICON: u8 = 0x88;
    /// Autoselect mode, in which reads return ids.
    pub(in super::super) const AUTOSELECT: u8 = 0x90;
    /// First cycle of the exit from a mode.
    pub(in super::super) const EXIT: u8 = 0x90;
    /// Program of a word.
    pub(in super::super) const PROGRAM: u8 = 0xA0;
    /// Suspend of the running operation.
    pub(in super::super) const SUSPEND: u8 = 0xB0;
    /// Reset to read-array mode; after unlock cycles also the abort of a failed buffer load.
    pub(in super::super) const RESET: u8 = 0xF0;

    /// Status bit: inverse of bit 7 of the last word while it is being programmed.
    pub(in super::super) const DQ7: u8 = 0x80;
    /// Status bit: toggles with each read during an operation.
    pub(in super::super) const DQ6: u8 = 0x40;
    /// Status bit: the operation exceeded its time limit.
    pub(in super::super) const DQ5: u8 = 0x20;
    /// Status bit: the erase accepts no further blocks.
    pub(in super::super) const DQ3: u8 = 0x08;
}

/// Command set 0001 (Intel/Sharp).
pub(super) mod intel {
    /// Second cycle of a lock.
    pub(in super::super) const LOCK: u8 = 0x01;
    /// Program of a word, older opcode.
    pub(in super::super) const PROGRAM_OLD: u8 = 0x10;
    /// Erase of a block.
    pub(in super::super) const BLOCK_ERASE: u8 = 0x20;
    /// Program of a word.
    pub(in super::super) const PROGRAM: u8 = 0x40;
    /// Clear of the status register.
    pub(in super::super) const CLEAR_STATUS: u8 = 0x50;
    /// First cycle of a lock or unlock.
    pub(in super::super) const LOCK_SETUP: u8 = 0x60;
    /// Switch to read-status mode.
    pub(in super::super) const READ_STATUS: u8 = 0x70;
    /// Switch to read-id mode.
    pub(in super::super) const READ_ID: u8 = 0x90;
    /// Suspend of the running operation.
    pub(in super::super) const SUSPEND: u8 = 0xB0;
    /// Program of the protection register.
    pub(in super::super) const PROGRAM_PROTECTION: u8 = 0xC0;
    /// Second cycle of an erase, a buffered program or an unlock.
    pub(in super::super) const CONFIRM: u8 = 0xD0;
    /// Resume of a suspended operation.
    pub(in super::super) const RESUME: u8 = 0xD0;
    /// Load of the program buffer.
    pub(in super::super) const BUFFERED_PROGRAM: u8 = 0xE8;
    /// Switch to read-array mode.
    pub(in super::super) const READ_ARRAY: u8 = 0xFF;

    /// Status bit: ready.
    pub(in super::super) const READY: u8 = 0x80;
    /// Status bit: an erase is suspended.
    pub(in super::super) const ERASE_SUSPENDED: u8 = 0x40;
    /// Status bit: an erase failed.
    pub(in super::super) const ERASE_ERROR: u8 = 0x20;
    /// Status bit: a program failed.
    pub(in super::super) const PROGRAM_ERROR: u8 = 0x10;
    /// Status bit: the programming voltage is too low.
    pub(in super::super) const VPP_LOW: u8 = 0x08;
    /// Status bit: a program is suspended.
    pub(in super::super) const PROGRAM_SUSPENDED: u8 = 0x04;
    /// Status bit: the block is locked.
    pub(in super::super) const BLOCK_LOCKED: u8 = 0x02;
}
