//! Functions between the page's worker and the module.
//!
//! The worker requests a buffer ([`input`]), writes a request into it, and calls [`call`]. During this call the module reads chosen files
//! through the worker, and passes file contents and the answer to it. All pointers refer to the module's memory, and are valid only during
//! the call that passes them.
#![allow(unsafe_code, reason = "exported names, and functions of the worker")]

use crate::{Page, answer};
use floatgate_files::memory::{Blobs, set_blobs};
use std::io;
use std::sync::{Mutex, PoisonError};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Reads bytes of a blob to `to`. Returns 0 on success.
    safe fn blob_read(blob: u32, offset: f64, to: *mut u8, len: usize) -> u32;
    /// Stores bytes as a new blob. Returns its number, or 0 if memory is exhausted.
    safe fn blob_keep(from: *const u8, len: usize) -> u32;
    /// Releases a blob.
    safe fn blob_release(blob: u32);
    /// Appends bytes to the file that is passed to the page.
    safe fn file_bytes(from: *const u8, len: usize);
    /// Appends a range of a blob to the file that is passed to the page.
    safe fn file_blob(blob: u32, offset: f64, len: f64);
    /// Reports the number of processed bytes.
    safe fn progress(bytes: f64);
    /// Passes the answer to the worker.
    safe fn reply(from: *const u8, len: usize);
}

/// Buffer of the next request.
static INPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The page's worker, through the functions that it exports to the module.
struct Worker;

impl Blobs for Worker {
    fn read(&self, blob: u32, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match blob_read(blob, offset as f64, buf.as_mut_ptr(), buf.len()) {
            0 => Ok(()),
            _ => Err(io::Error::other(
                "the browser cannot read the file: it may have changed since it was chosen",
            )),
        }
    }

    fn keep(&self, bytes: &[u8]) -> io::Result<u32> {
        match blob_keep(bytes.as_ptr(), bytes.len()) {
            0 => Err(io::ErrorKind::StorageFull.into()),
            blob => Ok(blob),
        }
    }

    fn release(&self, blob: u32) {
        blob_release(blob);
    }
}

impl Page for Worker {
    fn bytes(&mut self, bytes: &[u8]) {
        file_bytes(bytes.as_ptr(), bytes.len());
    }

    fn blob(&mut self, blob: u32, offset: u64, len: u64) {
        file_blob(blob, offset as f64, len as f64);
    }

    fn progress(&mut self, bytes: u64) {
        progress(bytes as f64);
    }
}

/// Returns a buffer for a request of `len` bytes.
#[unsafe(no_mangle)]
extern "C" fn input(len: usize) -> *mut u8 {
    set_blobs(Box::new(Worker));
    let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
    input.clear();
    input.resize(len, 0);
    input.as_mut_ptr()
}

/// Answers the request in the buffer of [`input`].
#[unsafe(no_mangle)]
extern "C" fn call() {
    let request = std::mem::take(&mut *INPUT.lock().unwrap_or_else(PoisonError::into_inner));
    let text = answer(&String::from_utf8_lossy(&request), &mut Worker);
    reply(text.as_ptr(), text.len());
}
