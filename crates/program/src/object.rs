//! A shared object with a program in C, which is loaded several times: each copy has separate static variables, so that each boot starts
//! with fresh ones.

#![allow(unsafe_code, reason = "functions of a shared object")]

use crate::c::{Geometry, Handle};
use crate::program::{Program, TestDevice};
use std::ffi::{CStr, CString, c_char, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// C function with a device.
type OnDevice = unsafe extern "C" fn(*mut Handle) -> *const c_char;
/// C function with a device and the number of a step.
type OnStep = unsafe extern "C" fn(*mut Handle, u32) -> *const c_char;

/// One loaded copy of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    prepare: Option<OnDevice>,
    recover: OnDevice,
    step: OnStep,
    check: Option<OnDevice>,
}

/// Reason why a program cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read or copied.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file that cannot be read or copied.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The loader rejects the file.
    #[error("{}: {why}", path.display())]
    Refused {
        /// Path of the file that the loader rejects.
        path: PathBuf,
        /// Message of the loader.
        why: String,
    },
    /// Message of a child process that failed to load it.
    #[error("{0}")]
    Message(String),
    /// The shared object lacks a function.
    #[error("{}: no function `{name}`", path.display())]
    NoFunction {
        /// Path of the file that lacks the function.
        path: PathBuf,
        /// Name of the function.
        name: &'static str,
    },
}

/// Loads a shared object with the functions `floatgate_test_*` of `floatgate.h`, `count` times. The copies stay loaded until the process
/// ends.
///
/// # Errors
/// The file cannot be read, or is not a shared object with these functions.
pub fn load(path: &Path, count: usize) -> Result<Vec<Box<dyn Program>>, LoadError> {
    let failed = |error| LoadError::File { path: path.to_owned(), error };
    // The loader identifies a loaded file by its inode, so each copy needs a separate file.
    let folder = tempfile::tempdir().map_err(failed)?;
    (0..count)
        .map(|number| {
            let copy = folder.path().join(format!("{number}.so"));
            std::fs::copy(path, &copy).map_err(failed)?;
            Ok(Box::new(Object::load(path, &copy)?) as Box<dyn Program>)
        })
        .collect()
}

/// A loaded copy of a shared object.
struct Library<'a> {
    path: &'a Path,
    handle: *mut c_void,
}

impl<'a> Library<'a> {
    fn load(path: &'a Path, copy: &Path) -> Result<Self, LoadError> {
        let refused = |why: String| LoadError::Refused { path: path.to_owned(), why };
        let name = CString::new(copy.as_os_str().as_bytes()).map_err(|error| refused(error.to_string()))?;
        // SAFETY: the name is a text that ends with a zero byte. Constructors of the program are executed, as its user intends.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: after a failure dlerror returns a message that ends with a zero byte.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned();
            return Err(refused(why.replace(&*copy.to_string_lossy(), "the loader")));
        }
        Ok(Self { path, handle })
    }

    /// The function with this name. The caller specifies its type, which the header declares.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the library is loaded, and the name ends with a zero byte.
        let at = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        // SAFETY: `at` is a pointer to a function of this type, and `F` has the size of a pointer.
        (!at.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&at) })
    }

    unsafe fn needed<F: Copy>(&self, name: &'static CStr) -> Result<F, LoadError> {
        let missing =
            || LoadError::NoFunction { path: self.path.to_owned(), name: name.to_str().unwrap_or("") };
        // SAFETY: the caller guarantees the type.
        unsafe { self.function(name) }.ok_or_else(missing)
    }
}

impl Object {
    fn load(path: &Path, copy: &Path) -> Result<Self, LoadError> {
        let library = Library::load(path, copy)?;
        // SAFETY: the header declares functions with these names and types.
        unsafe {
            Ok(Self {
                prepare: library.function(c"floatgate_test_prepare"),
                recover: library.needed(c"floatgate_test_recover")?,
                step: library.needed(c"floatgate_test_step")?,
                check: library.function(c"floatgate_test_check"),
            })
        }
    }
}

impl Program for Object {
    fn prepare(&mut self, device: TestDevice) -> Result<(), String> {
        self.prepare.map_or(Ok(()), |prepare| outcome(unsafe { prepare(device.pointer()) }))
    }

    fn recover(&mut self, device: TestDevice) -> Result<(), String> {
        outcome(unsafe { (self.recover)(device.pointer()) })
    }

    fn step(&mut self, device: TestDevice, number: u32) -> Result<(), String> {
        outcome(unsafe { (self.step)(device.pointer(), number) })
    }

    fn check(&mut self, device: TestDevice) -> Result<(), String> {
        self.check.map_or(Ok(()), |check| outcome(unsafe { check(device.pointer()) }))
    }

    fn has_check(&self) -> bool {
        self.check.is_some()
    }
}

/// Converts the text returned by a function to a result; NULL means success.
fn outcome(text: *const c_char) -> Result<(), String> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: the header requires NULL or a text that ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    Err(if text.trim().is_empty() { "it returned an empty text".to_owned() } else { text })
}

/// C function with an address and a buffer to fill.
type OnRead = unsafe extern "C" fn(*mut Handle, u64, *mut u8, usize) -> *const c_char;
/// C function with an address and bytes to program.
type OnProgram = unsafe extern "C" fn(*mut Handle, u64, *const u8, usize) -> *const c_char;
/// C function with an address.
type OnErase = unsafe extern "C" fn(*mut Handle, u64) -> *const c_char;

/// Functions of a driver under test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    probe: unsafe extern "C" fn(*mut Handle, *mut Geometry) -> *const c_char,
    read: OnRead,
    program: OnProgram,
    erase: OnErase,
    is_bad: Option<unsafe extern "C" fn(*mut Handle, u64, *mut i32) -> *const c_char>,
    release: Option<OnDevice>,
}

/// Loads a driver from a shared object.
pub(crate) fn load_driver(path: &Path) -> Result<Driver, LoadError> {
    let whole =
        std::path::absolute(path).map_err(|error| LoadError::File { path: path.to_owned(), error })?;
    let library = Library::load(path, &whole)?;
    // SAFETY: the header declares functions with these names and types.
    unsafe {
        Ok(Driver {
            probe: library.needed(c"floatgate_driver_probe")?,
            read: library.needed(c"floatgate_driver_read")?,
            program: library.needed(c"floatgate_driver_program")?,
            erase: library.needed(c"floatgate_driver_erase")?,
            is_bad: library.function(c"floatgate_driver_is_bad"),
            release: library.function(c"floatgate_driver_release"),
        })
    }
}

impl Driver {
    /// Probes the chip, and returns the sizes that the driver reports.
    pub(crate) fn probe(&self, chip: *mut Handle) -> Result<Geometry, String> {
        let mut geometry = Geometry::default();
        outcome(unsafe { (self.probe)(chip, &raw mut geometry) })?;
        Ok(geometry)
    }

    pub(crate) fn read(&self, chip: *mut Handle, address: u64, length: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0x69; length];
        outcome(unsafe { (self.read)(chip, address, bytes.as_mut_ptr(), length) })?;
        Ok(bytes)
    }

    pub(crate) fn program(&self, chip: *mut Handle, address: u64, bytes: &[u8]) -> Result<(), String> {
        outcome(unsafe { (self.program)(chip, address, bytes.as_ptr(), bytes.len()) })
    }

    pub(crate) fn erase(&self, chip: *mut Handle, address: u64) -> Result<(), String> {
        outcome(unsafe { (self.erase)(chip, address) })
    }

    pub(crate) fn is_bad(&self, chip: *mut Handle, address: u64) -> Result<bool, String> {
        let Some(is_bad) = self.is_bad else { return Err("no function floatgate_driver_is_bad".to_owned()) };
        let mut bad = 0;
        outcome(unsafe { is_bad(chip, address, &raw mut bad) })?;
        Ok(bad != 0)
    }

    /// Calls the driver's release function, after which a boot ROM must be able to read the chip.
    pub(crate) fn release(&self, chip: *mut Handle) -> Result<(), String> {
        self.release.map_or(Ok(()), |release| outcome(unsafe { release(chip) }))
    }
}
