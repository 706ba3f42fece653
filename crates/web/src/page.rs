//! The functions between the page's worker and the module.
//!
//! The worker asks for room for a request ([`input`]), writes the request there, and calls [`call`]. During the call the module asks the
//! worker for bytes of chosen files, hands bytes to it, and gives the answer at the end. All pointers lead into the module's memory and are
//! valid during the call in which they are given.
#![allow(unsafe_code, reason = "exported names, and functions of the worker")]

use crate::{Page, answer};
use floatgate_files::memory::{Blobs, set_blobs};
use std::io;
use std::sync::{Mutex, PoisonError};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Reads bytes of a blob to `to`; 0 when they were read.
    safe fn blob_read(blob: u32, offset: f64, to: *mut u8, len: usize) -> u32;
    /// Keeps bytes as a new blob; its number, or 0 when there is no room.
    safe fn blob_keep(from: *const u8, len: usize) -> u32;
    /// Ends the use of a blob.
    safe fn blob_release(blob: u32);
    /// Takes the next bytes of a file.
    safe fn file_bytes(from: *const u8, len: usize);
    /// Takes a range of a blob as the next bytes of a file.
    safe fn file_blob(blob: u32, offset: f64, len: f64);
    /// Shows the bytes that are done.
    safe fn progress(bytes: f64);
    /// Takes the answer to a request.
    safe fn reply(from: *const u8, len: usize);
}

/// Bytes of the next request.
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

/// Room for a request of `len` bytes.
#[unsafe(no_mangle)]
extern "C" fn input(len: usize) -> *mut u8 {
    set_blobs(Box::new(Worker));
    let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
    input.clear();
    input.resize(len, 0);
    input.as_mut_ptr()
}

/// Answers the request in the room that [`input`] gave.
#[unsafe(no_mangle)]
extern "C" fn call() {
    let request = std::mem::take(&mut *INPUT.lock().unwrap_or_else(PoisonError::into_inner));
    let text = answer(&String::from_utf8_lossy(&request), &mut Worker);
    reply(text.as_ptr(), text.len());
}
