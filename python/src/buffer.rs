//! Buffers of the caller (bytes, bytearray, memoryview, array, numpy) as slices without a copy.
//!
//! `Py_buffer` is part of the stable ABI only from Python 3.11 on. The old buffer protocol is part of it since 3.2. It
//! returns pointer and length and releases the buffer at once, so a memoryview prevents the owner from freeing or
//! resizing the buffer.
//!
//! Operations run without the interpreter's lock, as in `io.RawIOBase.readinto`: if another thread changes the bytes
//! meanwhile, they are inconsistent.

#![allow(unsafe_code)]

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi::{Py_ssize_t, PyObject};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::slice;

unsafe extern "C" {
    fn PyObject_AsReadBuffer(object: *mut PyObject, bytes: *mut *mut c_void, len: *mut Py_ssize_t) -> c_int;
    fn PyObject_AsWriteBuffer(object: *mut PyObject, bytes: *mut *mut c_void, len: *mut Py_ssize_t) -> c_int;
}

/// Memory of a view.
struct Held<'py> {
    _view: Bound<'py, PyMemoryView>,
    bytes: *mut u8,
    len: usize,
}

type AsBuffer = unsafe extern "C" fn(*mut PyObject, *mut *mut c_void, *mut Py_ssize_t) -> c_int;

impl<'py> Held<'py> {
    fn new(view: Bound<'py, PyMemoryView>, as_buffer: AsBuffer) -> PyResult<Self> {
        let (mut bytes, mut len) = (null_mut(), 0);
        // SAFETY: the view is a Python object, and the interpreter's lock is held.
        if unsafe { as_buffer(view.as_ptr(), &raw mut bytes, &raw mut len) } != 0 {
            return Err(PyErr::fetch(view.py()));
        }
        // An empty buffer may have a null address.
        let len = if bytes.is_null() { 0 } else { usize::try_from(len)? };
        Ok(Self { _view: view, bytes: bytes.cast(), len })
    }
}

/// View of a buffer. A buffer of objects is refused, because its memory contains addresses.
fn view<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyMemoryView>> {
    let view = PyMemoryView::from(object)?;
    if view.getattr(intern!(view.py(), "format"))?.contains(intern!(view.py(), "O"))? {
        return Err(PyTypeError::new_err(
            "a buffer of objects has no bytes of its own: give bytes or numbers",
        ));
    }
    Ok(view)
}

/// Bytes to read: the buffer itself, or a copy if it is not contiguous.
pub(crate) struct Bytes<'py>(Held<'py>);

impl Bytes<'_> {
    pub(crate) fn get(&self) -> &[u8] {
        match self.0.len {
            0 => &[],
            // SAFETY: the view holds this memory.
            len => unsafe { slice::from_raw_parts(self.0.bytes, len) },
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let view = view(&object)?;
        if let Ok(held) = Held::new(view.clone(), PyObject_AsReadBuffer) {
            return Ok(Self(held));
        }
        let copied = PyMemoryView::from(&view.call_method0(intern!(view.py(), "tobytes"))?)?;
        Ok(Self(Held::new(copied, PyObject_AsReadBuffer)?))
    }
}

/// Buffer to write to.
pub(crate) struct BytesMut<'py>(Held<'py>);

impl BytesMut<'_> {
    pub(crate) fn get(&mut self) -> &mut [u8] {
        match self.0.len {
            0 => &mut [],
            // SAFETY: the view holds this memory, and its owner allows writes.
            len => unsafe { slice::from_raw_parts_mut(self.0.bytes, len) },
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for BytesMut<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let held = Held::new(view(&object)?, PyObject_AsWriteBuffer);
        let why = "the buffer is read-only, or its bytes do not lie one after the other";
        held.map(Self).map_err(|_| PyBufferError::new_err(why))
    }
}
