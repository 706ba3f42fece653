//! Commands, status bits and addresses of raw NAND (ONFI 4.2 chapter 5; Samsung's for small pages; Hynix's for read retry).

/// Page read that starts in the first half of a small page, or at any byte of a large page. Also switches output from
/// status to data.
pub(super) const READ: u8 = 0x00;
/// Page read that starts in the second half of a small page.
pub(super) const READ_SECOND_HALF: u8 = 0x01;
/// Change read column, first cycle.
pub(super) const CHANGE_COLUMN: u8 = 0x05;
/// Change read column enhanced, which also selects the plane.
pub(super) const CHANGE_COLUMN_ENHANCED: u8 = 0x06;
/// Second cycle of a page program.
pub(super) const PROGRAM_CONFIRM: u8 = 0x10;
/// Second cycle of a page program that waits for another plane's program.
pub(super) const PROGRAM_QUEUE: u8 = 0x11;
/// Second cycle of a cached program.
pub(super) const PROGRAM_CACHE: u8 = 0x15;
/// Applies the values of the read retry registers (Hynix).
pub(super) const APPLY_PARAMETERS: u8 = 0x16;
/// Second cycle of a page read.
pub(super) const READ_CONFIRM: u8 = 0x30;
/// Cached read, sequential or of the addressed page.
pub(super) const READ_CACHE: u8 = 0x31;
/// Second cycle of a page read that waits for another plane's read.
pub(super) const READ_QUEUE: u8 = 0x32;
/// Second cycle of a page read for copyback.
pub(super) const READ_COPYBACK: u8 = 0x35;
/// Starts setting the read retry registers (Hynix).
pub(super) const SET_PARAMETERS: u8 = 0x36;
/// End of a cached read.
pub(super) const READ_CACHE_END: u8 = 0x3F;
/// Page read that starts in the OOB of a small page.
pub(super) const READ_OOB: u8 = 0x50;
/// Block erase.
pub(super) const ERASE: u8 = 0x60;
/// Status of the LUN addressed last.
pub(super) const STATUS: u8 = 0x70;
/// Status of the addressed LUN.
pub(super) const STATUS_ENHANCED: u8 = 0x78;
/// Page program.
pub(super) const PROGRAM: u8 = 0x80;
/// Page program of a further plane.
pub(super) const PROGRAM_NEXT_PLANE: u8 = 0x81;
/// Change write column; after a copyback read, the program of the page in the register.
pub(super) const CHANGE_WRITE_COLUMN: u8 = 0x85;
/// READ ID.
pub(super) const READ_ID: u8 = 0x90;
/// Second cycle of a block erase.
pub(super) const ERASE_CONFIRM: u8 = 0xD0;
/// Second cycle of a block erase that waits for another plane's erase.
pub(super) const ERASE_QUEUE: u8 = 0xD1;
/// GET FEATURES of one LUN.
pub(super) const LUN_GET_FEATURES: u8 = 0xD4;
/// SET FEATURES of one LUN.
pub(super) const LUN_SET_FEATURES: u8 = 0xD5;
/// Second cycle of the change of the read column.
pub(super) const CHANGE_COLUMN_CONFIRM: u8 = 0xE0;
/// READ PARAMETER PAGE.
pub(super) const READ_PARAMETER_PAGE: u8 = 0xEC;
/// READ UNIQUE ID.
pub(super) const READ_UNIQUE_ID: u8 = 0xED;
/// GET FEATURES.
pub(super) const GET_FEATURES: u8 = 0xEE;
/// SET FEATURES.
pub(super) const SET_FEATURES: u8 = 0xEF;
/// RESET.
pub(super) const RESET: u8 = 0xFF;

/// Status bit: the last program or erase failed, or the on-die ECC could not correct the page.
pub(super) const FAIL: u8 = 1 << 0;
/// Status bit: the previous cached program failed.
pub(super) const FAIL_BEFORE: u8 = 1 << 1;
/// Status bit of Toshiba BENAND: the page should be rewritten, because the ECC corrected many of its bits.
pub(super) const REWRITE: u8 = 1 << 3;
/// Status bit: the array is idle (ARDY).
pub(super) const ARRAY_READY: u8 = 1 << 5;
/// Status bit: the chip accepts commands (RDY).
pub(super) const READY: u8 = 1 << 6;
/// Status bit: not write protected.
pub(super) const NOT_PROTECTED: u8 = 1 << 7;

/// READ ID address of the id bytes.
pub(super) const MAKER_ID: u8 = 0x00;
/// Address of the ONFI parameter page.
pub(super) const ONFI_PAGE: u8 = 0x00;
/// Address of the ONFI signature.
pub(super) const ONFI_SIGNATURE: u8 = 0x20;
/// Address of the JEDEC signature and parameter page (JESD230).
pub(super) const JEDEC: u8 = 0x40;
/// Feature address of the timing mode (ONFI 4.2 table 5-1).
pub(super) const TIMING_MODE: u8 = 0x01;

/// Name of a command cycle, for traces.
pub(super) const fn name(opcode: u8) -> &'static str {
    match opcode {
        READ => "READ 00h",
        CHANGE_COLUMN => "RANDOM DATA OUT 05h",
        PROGRAM_CONFIRM => "PROGRAM 10h",
        PROGRAM_QUEUE => "MULTI-PLANE 11h",
        PROGRAM_CACHE => "CACHE PROGRAM 15h",
        READ_CONFIRM => "READ 30h",
        READ_CACHE => "CACHE READ 31h",
        READ_CACHE_END => "CACHE READ END 3Fh",
        ERASE => "ERASE 60h",
        STATUS => "STATUS 70h",
        PROGRAM => "PROGRAM 80h",
        CHANGE_WRITE_COLUMN => "RANDOM DATA IN 85h",
        READ_ID => "READ ID 90h",
        ERASE_CONFIRM => "ERASE D0h",
        CHANGE_COLUMN_CONFIRM => "RANDOM DATA OUT E0h",
        READ_PARAMETER_PAGE => "READ PARAMETER PAGE ECh",
        GET_FEATURES => "GET FEATURES EEh",
        SET_FEATURES => "SET FEATURES EFh",
        RESET => "RESET FFh",
        _ => "command",
    }
}
