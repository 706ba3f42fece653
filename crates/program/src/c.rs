//! The functions of `floatgate.h`; the header is their reference. Each function checks its arguments and calls the device.
//!
//! The functions convert pointers, texts and numbers of C to arguments of the methods of `Device` and `Ledger`, and convert the
//! results back. A panic does not cross into C: it becomes `Status::Internal`.

#![allow(unsafe_code, reason = "pointers of C")]
#![allow(clippy::missing_safety_doc, reason = "the header says what a caller has to keep")]

use crate::device::{Device, Failure, Level, Status, Transfer};
use crate::ledger::Ledger;
use floatgate_mtd::Breakdown;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::slice;

/// Version of the C interface (FG_ABI_VERSION in the header).
const ABI_VERSION: u32 = 1;

/// A device as seen by C: `fg_device`.
pub struct Handle {
    pub(crate) device: Device,
    pub(crate) ledger: Ledger,
    message: CString,
    /// Called when power is lost, instead of a return to a program that has no power any more. The function ends the process.
    pub(crate) power_lost: Option<Rc<dyn Fn(*mut Handle)>>,
}

impl Handle {
    pub(crate) fn new(device: Device) -> Self {
        Self { device, ledger: Ledger::default(), message: CString::default(), power_lost: None }
    }
}

/// Sizes of a device as seen by C: `fg_geometry`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Geometry {
    pub(crate) size_bytes: u64,
    pub(crate) erase_bytes: u32,
    pub(crate) write_bytes: u32,
    oob_bytes: u32,
    oob_free_bytes: u32,
}

type Outcome = Result<(), Failure>;

/// Converts a text to a C string. A zero byte ends it.
fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Calls `work` on a device, and stores the message of a failure.
fn call(handle: *mut Handle, work: impl FnOnce(&mut Device) -> Outcome) -> i32 {
    call_handle(handle, |handle| work(&mut handle.device))
}

/// Access to a device that this crate opened and never closes, while no call of its program that will return is running.
pub(crate) fn with<T>(pointer: *mut Handle, work: impl FnOnce(&mut Handle) -> T) -> T {
    // SAFETY: the device lives until the process ends, and no other reference to it exists during the call.
    work(unsafe { &mut *pointer })
}

/// Calls `work` like [`call_handle`], for programs in Rust.
pub(crate) fn call_of_rust<T>(
    pointer: *mut Handle,
    work: impl FnOnce(&mut Handle) -> Result<T, Failure>,
) -> Result<T, String> {
    let mut result = None;
    call_handle(pointer, |handle| {
        result = Some(work(handle));
        Ok(())
    });
    result.unwrap_or_else(|| Err(Failure::internal())).map_err(|failure| failure.message)
}

/// Calls `work` like [`call`], with access to the whole handle of the device.
fn call_handle(pointer: *mut Handle, work: impl FnOnce(&mut Handle) -> Outcome) -> i32 {
    // SAFETY: the header requires NULL or an open device that is used by one thread at a time.
    let Some(handle) = (unsafe { pointer.as_mut() }) else { return Status::WrongArgument as i32 };
    let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut *handle)));
    if let Some(power_lost) = &handle.power_lost
        && handle.device.power_lost()
    {
        Rc::clone(power_lost)(pointer);
    }
    match outcome.unwrap_or_else(|_| Err(Failure::internal())) {
        Ok(()) => Status::Ok as i32,
        Err(failure) => {
            handle.message = c_text(&failure.message);
            failure.status as i32
        }
    }
}

/// Checks a pointer and a length from C. True if there are bytes; Rust allows at most `isize::MAX` bytes.
fn check_range(is_null: bool, length: usize) -> Result<bool, Failure> {
    if isize::try_from(length).is_err() {
        return Err(Failure::new(Status::WrongArgument, format!("a length of {length} bytes")));
    }
    if is_null && length > 0 { Err(Failure::null()) } else { Ok(length > 0) }
}

/// Bytes passed by C.
unsafe fn bytes<'a>(pointer: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    if !check_range(pointer.is_null(), length)? {
        return Ok(&[]);
    }
    // SAFETY: the header requires that the pointer refers to `length` bytes.
    Ok(unsafe { slice::from_raw_parts(pointer, length) })
}

/// Bytes passed by C; `None` for NULL.
unsafe fn optional<'a>(pointer: *const u8, length: usize) -> Result<Option<&'a [u8]>, Failure> {
    if pointer.is_null() && length == 0 {
        return Ok(None);
    }
    // SAFETY: as in `bytes`.
    unsafe { bytes(pointer, length) }.map(Some)
}

/// Buffer passed by C.
unsafe fn buffer<'a>(pointer: *mut u8, length: usize) -> Result<&'a mut [u8], Failure> {
    if !check_range(pointer.is_null(), length)? {
        return Ok(&mut []);
    }
    // SAFETY: the header requires that the pointer refers to a buffer of `length` bytes.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, length) })
}

/// Writes a result to a pointer passed by C.
unsafe fn give<T>(pointer: *mut T, value: T) -> Outcome {
    if pointer.is_null() {
        return Err(Failure::null());
    }
    // SAFETY: the header requires that the pointer refers to memory for the value.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Copies a text to a buffer of C, truncated to the size of the buffer.
unsafe fn give_text(pointer: *mut c_char, size: usize, text: &str) {
    if pointer.is_null() || size == 0 {
        return;
    }
    let text = c_text(text);
    let kept = text.as_bytes().len().min(size - 1);
    // SAFETY: the header requires that the buffer has `size` bytes.
    unsafe {
        text.as_ptr().copy_to_nonoverlapping(pointer, kept);
        pointer.add(kept).write(0);
    }
}

unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::null());
    }
    // SAFETY: the header requires a text that ends with a zero byte.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::new(Status::WrongArgument, "a text that is not UTF-8"))
}

/// A list of texts from C, which ends with NULL.
unsafe fn texts<'a>(mut list: *const *const c_char) -> Result<Vec<&'a str>, Failure> {
    let mut all = Vec::new();
    // SAFETY: the header requires NULL or a list that ends with NULL.
    unsafe {
        while !list.is_null() && !(*list).is_null() {
            all.push(text(*list)?);
            list = list.add(1);
        }
    }
    Ok(all)
}

/// Returns the version of the C interface.
#[unsafe(no_mangle)]
pub extern "C" fn fg_abi_version() -> u32 {
    ABI_VERSION
}

/// Returns the text of a status code.
#[unsafe(no_mangle)]
pub extern "C" fn fg_status_text(status: i32) -> *const c_char {
    Status::text(status).as_ptr()
}

/// Returns the message of the last failed call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_message(handle: *const Handle) -> *const c_char {
    // SAFETY: as in `call`.
    unsafe { handle.as_ref() }.map_or(c"".as_ptr(), |handle| handle.message.as_ptr())
}

/// Opens the device `target` and stores its handle in `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_open(
    target: *const c_char,
    sets: *const *const c_char,
    seed: u64,
    level: i32,
    handle: *mut *mut Handle,
    message: *mut c_char,
    message_size: usize,
) -> i32 {
    if handle.is_null() {
        // SAFETY: the arguments meet the requirements of the header.
        unsafe { give_text(message, message_size, "a null pointer for the device") };
        return Status::WrongArgument as i32;
    }
    // SAFETY: the pointer is not NULL, and the header requires that it refers to memory for a pointer.
    unsafe { handle.write(std::ptr::null_mut()) };
    // SAFETY: the arguments meet the requirements of the header.
    let open = || unsafe { Device::open(text(target)?, &texts(sets)?, seed, Level::from_number(level)?) };
    match catch_unwind(open).unwrap_or_else(|_| Err(Failure::internal())) {
        Ok(device) => {
            let new = Box::new(Handle::new(device));
            // SAFETY: the pointer was checked above.
            unsafe { handle.write(Box::into_raw(new)) };
            Status::Ok as i32
        }
        Err(failure) => {
            // SAFETY: the arguments meet the requirements of the header.
            unsafe { give_text(message, message_size, &failure.message) };
            failure.status as i32
        }
    }
}

/// Closes an open device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_close(handle: *mut Handle) {
    if !handle.is_null() {
        // SAFETY: the header requires an open device.
        let handle = unsafe { Box::from_raw(handle) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    }
}

/// Creates a copy of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_fork(handle: *const Handle, copy: *mut *mut Handle) -> i32 {
    call_handle(handle.cast_mut(), |handle| {
        let mut new = Handle::new(handle.device.clone());
        new.ledger = handle.ledger.clone();
        // SAFETY: the arguments meet the requirements of the header. For a NULL pointer no copy is created.
        if copy.is_null() {
            Err(Failure::null())
        } else {
            unsafe { give(copy, Box::into_raw(Box::new(new))) }
        }
    })
}

/// Returns the virtual time of a device, ns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_now(handle: *mut Handle) -> u64 {
    let mut now = 0;
    call(handle, |device| {
        now = device.now().as_ns();
        Ok(())
    });
    now
}

/// Advances the virtual time of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_advance(handle: *mut Handle, ns: u64) -> i32 {
    call(handle, |device| device.advance(ns))
}

/// Transfers bytes of a SPI command.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_spi_transfer(
    handle: *mut Handle,
    lanes: u32,
    flags: u32,
    sent: *const u8,
    received: *mut u8,
    length: usize,
) -> i32 {
    call(handle, |device| {
        let data = match (sent.is_null(), received.is_null()) {
            // SAFETY: the arguments meet the requirements of the header.
            (false, true) => Transfer::Write(unsafe { bytes(sent, length)? }),
            // SAFETY: the arguments meet the requirements of the header.
            (_, false) => unsafe {
                if !sent.is_null() && check_range(false, length)? {
                    // `sent` and `received` may be the same buffer.
                    sent.copy_to(received, length);
                }
                let buffer = buffer(received, length)?;
                if sent.is_null() { Transfer::Read(buffer) } else { Transfer::Exchange(buffer) }
            },
            (true, true) => Transfer::Nothing,
        };
        device.spi_transfer(lanes, flags, data)
    })
}

/// Sends dummy clock cycles of a SPI command.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_spi_dummy(handle: *mut Handle, cycles: u32) -> i32 {
    call(handle, |device| device.spi_dummy(cycles))
}

/// Drives CS# high, which ends the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_spi_deselect(handle: *mut Handle) -> i32 {
    call(handle, Device::spi_deselect)
}

/// Sets the clock frequency of a SPI bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_spi_clock(handle: *mut Handle, hz: u32) -> i32 {
    call(handle, |device| device.spi_clock(hz))
}

/// Drives the pin WP# of a SPI NOR.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_spi_write_protect(handle: *mut Handle, low: i32) -> i32 {
    call(handle, |device| device.spi_write_protect(low != 0))
}

/// Selects a target of a raw NAND by its CE# line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_nand_select(handle: *mut Handle, target: u32) -> i32 {
    call(handle, |device| device.nand_select(target))
}

/// Sends a command cycle to a raw NAND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_nand_command(handle: *mut Handle, opcode: u8) -> i32 {
    call(handle, |device| device.nand().map(|wire| wire.command(opcode)))
}

/// Sends address cycles to a raw NAND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_nand_address(handle: *mut Handle, address: *const u8, length: usize) -> i32 {
    call(handle, |device| {
        // SAFETY: the arguments meet the requirements of the header.
        let bytes = unsafe { bytes(address, length)? };
        device.nand()?.address(bytes);
        Ok(())
    })
}

/// Sends data cycles to a raw NAND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_nand_write(handle: *mut Handle, data: *const u8, length: usize) -> i32 {
    call(handle, |device| {
        // SAFETY: the arguments meet the requirements of the header.
        let bytes = unsafe { bytes(data, length)? };
        device.nand()?.write(bytes);
        Ok(())
    })
}

/// Receives data cycles from a raw NAND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_nand_read(handle: *mut Handle, data: *mut u8, length: usize) -> i32 {
    call(handle, |device| {
        // SAFETY: the arguments meet the requirements of the header.
        let bytes = unsafe { buffer(data, length)? };
        device.nand()?.read(bytes);
        Ok(())
    })
}

/// Reads the state of the R/B# line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_nand_ready(handle: *mut Handle, ready: *mut i32) -> i32 {
    // SAFETY: the arguments meet the requirements of the header.
    call(handle, |device| unsafe { give(ready, device.nand()?.is_ready().into()) })
}

/// Waits until R/B# is high.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_nand_wait(handle: *mut Handle) -> i32 {
    call(handle, |device| device.nand().map(|wire| wire.wait_ready()))
}

/// Writes a word to a parallel NOR in one bus cycle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_cfi_write(handle: *mut Handle, address: u32, word: u16) -> i32 {
    call(handle, |device| device.cfi().map(|wire| wire.write(address, word)))
}

/// Reads words from a parallel NOR.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_cfi_read(handle: *mut Handle, address: u32, data: *mut u8, length: usize) -> i32 {
    call(handle, |device| {
        // SAFETY: the arguments meet the requirements of the header.
        let bytes = unsafe { buffer(data, length)? };
        device.cfi()?.read(address, bytes);
        Ok(())
    })
}

/// Returns the sizes of a device behind its driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_mtd_geometry(handle: *mut Handle, geometry: *mut Geometry) -> i32 {
    call(handle, |device| {
        let of = device.geometry()?;
        let value = Geometry {
            size_bytes: of.size_bytes,
            erase_bytes: of.erase_bytes,
            write_bytes: of.write_bytes,
            oob_bytes: of.oob_bytes,
            oob_free_bytes: of.oob_free_bytes,
        };
        // SAFETY: the arguments meet the requirements of the header.
        unsafe { give(geometry, value) }
    })
}

/// Reads data through the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_mtd_read(
    handle: *mut Handle,
    address: u64,
    data: *mut u8,
    length: usize,
    corrected: *mut u32,
) -> i32 {
    call(handle, |device| {
        // SAFETY: the arguments meet the requirements of the header.
        let done = device.read(address, unsafe { buffer(data, length)? })?;
        // SAFETY: the arguments meet the requirements of the header.
        if corrected.is_null() { Ok(()) } else { unsafe { give(corrected, done.bitflips) } }
    })
}

/// Programs data through the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_mtd_write(
    handle: *mut Handle,
    address: u64,
    data: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the arguments meet the requirements of the header.
    call(handle, |device| device.write(address, unsafe { bytes(data, length)? }))
}

/// Erases blocks through the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_mtd_erase(handle: *mut Handle, address: u64, length: u64) -> i32 {
    call(handle, |device| device.erase(address, length))
}

/// Reads the free OOB bytes of a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_mtd_read_oob(
    handle: *mut Handle,
    address: u64,
    oob: *mut u8,
    length: usize,
) -> i32 {
    // SAFETY: the arguments meet the requirements of the header.
    call(handle, |device| device.read_oob(address, unsafe { buffer(oob, length)? }))
}

/// Programs the free OOB bytes of a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_mtd_write_oob(
    handle: *mut Handle,
    address: u64,
    oob: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the arguments meet the requirements of the header.
    call(handle, |device| device.write_oob(address, unsafe { bytes(oob, length)? }))
}

/// Checks if a block is marked bad.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_mtd_is_bad(handle: *mut Handle, address: u64, bad: *mut i32) -> i32 {
    // SAFETY: the arguments meet the requirements of the header.
    call(handle, |device| unsafe { give(bad, device.is_bad(address)?.into()) })
}

/// Marks a block bad.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_mtd_mark_bad(handle: *mut Handle, address: u64) -> i32 {
    call(handle, |device| device.mark_bad(address))
}

/// Schedules a power cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_cut_power(handle: *mut Handle, operation: u64, share: f64) -> i32 {
    call(handle, |device| device.cut_power(operation, share))
}

/// Checks if power was lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_power_lost(handle: *mut Handle, lost: *mut i32) -> i32 {
    // SAFETY: the arguments meet the requirements of the header.
    call(handle, |device| unsafe { give(lost, device.power_lost().into()) })
}

/// Restores power after a cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_restore_power(handle: *mut Handle) -> i32 {
    call(handle, Device::restore_power)
}

/// Makes programs and erases of a block fail, or ends this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_break_block(handle: *mut Handle, address: u64, fails: i32) -> i32 {
    call(handle, |device| device.break_block(address, fails != 0))
}

/// Inverts a bit of a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_flip_bit(handle: *mut Handle, page: u32, bit: u32) -> i32 {
    call(handle, |device| device.flip_bit(page, bit))
}

/// Writes the contents of a device to a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_save(handle: *mut Handle, path: *const c_char) -> i32 {
    // SAFETY: the arguments meet the requirements of the header.
    call(handle, |device| device.save(Path::new(unsafe { text(path)? })))
}

/// Loads the contents of a new device from a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_load(handle: *mut Handle, path: *const c_char) -> i32 {
    // SAFETY: the arguments meet the requirements of the header.
    call(handle, |device| device.load(Path::new(unsafe { text(path)? })))
}

/// Returns the time breakdown of a driver, as text or JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_breakdown(
    handle: *mut Handle,
    json: i32,
    out: *mut c_char,
    out_size: usize,
) -> i32 {
    call(handle, |device| {
        let breakdown = device.breakdown()?;
        let words = if json == 0 { breakdown.to_string() } else { breakdown_json(&breakdown) };
        if out.is_null() || words.len() >= out_size {
            return Err(Failure::new(
                Status::WrongArgument,
                format!("the text needs {} bytes", words.len() + 1),
            ));
        }
        // SAFETY: the arguments meet the requirements of the header.
        unsafe { give_text(out, out_size, &words) };
        Ok(())
    })
}

/// Formats a JSON object with the nanoseconds of each phase.
fn breakdown_json(breakdown: &Breakdown) -> String {
    let phases: Vec<String> =
        breakdown.iter().map(|(phase, spent)| format!("\"{}\": {}", phase.name(), spent.as_ns())).collect();
    format!("{{ {} }}", phases.join(", "))
}

/// Returns the number of rule violations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_violation_count(handle: *const Handle) -> u64 {
    // SAFETY: as in `call`.
    unsafe { handle.as_ref() }.map_or(0, |handle| handle.device.violations().map_or(0, |log| log.count()))
}

/// Returns one of the first rule violations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_violation(
    handle: *mut Handle,
    index: u64,
    at_ns: *mut u64,
    rule: *mut c_char,
    rule_size: usize,
    sent: *mut c_char,
    sent_size: usize,
) -> i32 {
    call(handle, |device| {
        let log = device.violations().ok_or_else(Failure::wrong_kind)?;
        let none = || Failure::new(Status::OutOfRange, "no violation has this number");
        let one = usize::try_from(index).ok().and_then(|index| log.recorded().get(index)).ok_or_else(none)?;
        let hex: Vec<String> = one.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        // SAFETY: the arguments meet the requirements of the header.
        unsafe {
            give_text(rule, rule_size, &one.rule.to_string());
            give_text(sent, sent_size, &hex.join(" "));
            if at_ns.is_null() { Ok(()) } else { give(at_ns, one.at.as_ns()) }
        }
    })
}

/// Records a value that may be found after a power cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_expect_write(
    handle: *mut Handle,
    name: *const c_char,
    value: *const u8,
    length: usize,
) -> i32 {
    call_handle(handle, |handle| {
        // SAFETY: the arguments meet the requirements of the header.
        let (name, value) = unsafe { (text(name)?, optional(value, length)?) };
        handle.ledger.write(name, value);
        Ok(())
    })
}

/// Records that values are on flash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_expect_synced(handle: *mut Handle, name: *const c_char) -> i32 {
    call_handle(handle, |handle| {
        // SAFETY: the arguments meet the requirements of the header.
        let name = if name.is_null() { None } else { Some(unsafe { text(name)? }) };
        handle.ledger.synced(name);
        Ok(())
    })
}

/// Compares a value that was found with the expected values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fg_expect_found(
    handle: *mut Handle,
    name: *const c_char,
    value: *const u8,
    length: usize,
) -> i32 {
    call_handle(handle, |handle| {
        // SAFETY: the arguments meet the requirements of the header.
        let (name, value) = unsafe { (text(name)?, optional(value, length)?) };
        handle.ledger.found(name, value).map_err(|why| Failure::new(Status::Lost, why))
    })
}
