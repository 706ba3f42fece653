//! A shared object with a program in C, loaded several times: each copy has static variables of its own, so that a boot begins with fresh ones.

#![allow(unsafe_code, reason = "functions of a shared object")]

use crate::c::{Geometry, Handle};
use crate::program::{Program, TestDevice};
use std::ffi::{CStr, CString, c_char, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Function with a device.
type OnDevice = unsafe extern "C" fn(*mut Handle) -> *const c_char;
/// Function with a device and the number of a step.
type OnStep = unsafe extern "C" fn(*mut Handle, u32) -> *const c_char;

/// One copy of a program.
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
    /// The loader refuses it.
    #[error("{}: {why}", path.display())]
    Refused {
        /// Path of the file that the loader refuses.
        path: PathBuf,
        /// Message of the loader.
        why: String,
    },
    /// Message of a child process that could not load it.
    #[error("{0}")]
    Message(String),
    /// It lacks a function.
    #[error("{}: no function `{name}`", path.display())]
    NoFunction {
        /// Path of the file that lacks the function.
        path: PathBuf,
        /// Name of the function.
        name: &'static str,
    },
}

/// Loads a shared object with the functions `floatgate_test_*` of `floatgate.h`, `count` times. The copies stay loaded until the process ends.
///
/// # Errors
/// The file cannot be read, or is no such object.
pub fn load(path: &Path, count: usize) -> Result<Vec<Box<dyn Program>>, LoadError> {
    let failed = |error| LoadError::File { path: path.to_owned(), error };
    // The loader knows a file that it has by its inode.
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
        // SAFETY: a text that ends with a zero. Constructors of the program run, as its user wants.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: after a failure there is a message, which ends with a zero.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned();
            return Err(refused(why.replace(&*copy.to_string_lossy(), "the loader")));
        }
        Ok(Self { path, handle })
    }

    /// The function of this name. The caller says its type, which the header declares.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: a library that is loaded, and a text that ends with a zero.
        let at = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        // SAFETY: a pointer to a function of this type, and of the size of a pointer.
        (!at.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&at) })
    }

    unsafe fn needed<F: Copy>(&self, name: &'static CStr) -> Result<F, LoadError> {
        let missing =
            || LoadError::NoFunction { path: self.path.to_owned(), name: name.to_str().unwrap_or("") };
        // SAFETY: as the caller promises.
        unsafe { self.function(name) }.ok_or_else(missing)
    }
}

impl Object {
    fn load(path: &Path, copy: &Path) -> Result<Self, LoadError> {
        let library = Library::load(path, copy)?;
        // SAFETY: the header declares functions of these names with these types.
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

/// The text of a function; NULL when all is well.
fn outcome(text: *const c_char) -> Result<(), String> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: the header asks for NULL or a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    Err(if text.trim().is_empty() { "it returned an empty text".to_owned() } else { text })
}

/// Function with an address and a buffer to fill.
type OnRead = unsafe extern "C" fn(*mut Handle, u64, *mut u8, usize) -> *const c_char;
/// Function with an address and bytes.
type OnProgram = unsafe extern "C" fn(*mut Handle, u64, *const u8, usize) -> *const c_char;
/// Function with an address.
type OnErase = unsafe extern "C" fn(*mut Handle, u64) -> *const c_char;

/// A driver of chips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    probe: unsafe extern "C" fn(*mut Handle, *mut Geometry) -> *const c_char,
    read: OnRead,
    program: OnProgram,
    erase: OnErase,
    is_bad: Option<unsafe extern "C" fn(*mut Handle, u64, *mut i32) -> *const c_char>,
    release: Option<OnDevice>,
}

/// Loads a driver.
pub(crate) fn load_driver(path: &Path) -> Result<Driver, LoadError> {
    let whole =
        std::path::absolute(path).map_err(|error| LoadError::File { path: path.to_owned(), error })?;
    let library = Library::load(path, &whole)?;
    // SAFETY: the header declares functions of these names with these types.
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
    /// Finds the chip; its sizes as the driver knows them.
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

    /// Leaves the chip as a boot ROM expects it.
    pub(crate) fn release(&self, chip: *mut Handle) -> Result<(), String> {
        self.release.map_or(Ok(()), |release| outcome(unsafe { release(chip) }))
    }
}
