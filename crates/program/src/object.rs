//! A shared object with a program in C, loaded several times: each copy has static variables of its own, so that a boot begins with fresh ones.

#![allow(unsafe_code, reason = "functions of a shared object")]

use crate::c::Handle;
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
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The loader refuses it.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Message of the loader.
        why: String,
    },
    /// It lacks a function.
    #[error("{}: no function `{name}`", path.display())]
    NoFunction {
        /// The file.
        path: PathBuf,
        /// Name of the function.
        name: &'static str,
    },
}

/// Loads `count` copies of a program. They stay loaded until the process ends.
pub(crate) fn load(path: &Path, count: usize) -> Result<Vec<Object>, LoadError> {
    let failed = |error| LoadError::File { path: path.to_owned(), error };
    // The loader knows a file that it has by its inode.
    let folder = tempfile::tempdir().map_err(failed)?;
    (0..count)
        .map(|number| {
            let copy = folder.path().join(format!("{number}.so"));
            std::fs::copy(path, &copy).map_err(failed)?;
            Object::load(path, &copy)
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

    /// Brings an erased device into the state in which it leaves the factory.
    pub(crate) fn prepare(&self, device: *mut Handle) -> Result<(), String> {
        self.prepare.map_or(Ok(()), |prepare| outcome(unsafe { prepare(device) }))
    }

    /// Boots: reads and repairs what is on flash.
    pub(crate) fn recover(&self, device: *mut Handle) -> Result<(), String> {
        outcome(unsafe { (self.recover)(device) })
    }

    /// Does a step of the workload.
    pub(crate) fn step(&self, device: *mut Handle, number: u32) -> Result<(), String> {
        outcome(unsafe { (self.step)(device, number) })
    }

    /// Looks at what is there.
    pub(crate) fn check(&self, device: *mut Handle) -> Result<(), String> {
        self.check.map_or(Ok(()), |check| outcome(unsafe { check(device) }))
    }
}

/// The text of a function; NULL when all is well.
fn outcome(text: *const c_char) -> Result<(), String> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: the header asks for NULL or a text that ends with a zero.
    Err(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
