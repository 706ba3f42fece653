//! Arguments that Python passes: one by one, in a dict, or in a tuple where a call takes microseconds. An error of one says which it is about.

use crate::failure::Failure;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::fmt::Display;
use std::ops::RangeFrom;
use std::path::PathBuf;

/// A struct whose fields are those of a dict with the same names, or `in order` of a tuple. They are the names of the caller's arguments: an error
/// says which it is about.
macro_rules! arguments {
    (@ $all:ident $(#[$about:meta])* $vis:vis struct $name:ident { $($(#[$what:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        $vis struct $name {
            $($(#[$what])* $field: $kind,)*
        }

        impl<'py> pyo3::FromPyObject<'_, 'py> for $name {
            type Error = pyo3::PyErr;

            fn extract(all: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                let mut all = $crate::arguments::$all::new(&all)?;
                Ok(Self { $($field: all.argument(stringify!($field))?,)* })
            }
        }
    };
    (in order: $($fields:tt)*) => {
        $crate::arguments::arguments! { @ InOrder $($fields)* }
    };
    ($($fields:tt)*) => {
        $crate::arguments::arguments! { @ ByName $($fields)* }
    };
}

pub(crate) use arguments;

/// Converts arguments of a function, which come as objects: those of PyO3 are named in a note alone, which older Pythons do not have.
macro_rules! extract {
    ($($name:ident: $kind:ty),* $(,)?) => {
        $(let $name: $kind = $crate::arguments::given(stringify!($name), $name)?;)*
    };
}

pub(crate) use extract;

/// A path of the host.
pub(crate) struct HostPath(pub(crate) PathBuf);

impl FromPyObject<'_, '_> for HostPath {
    type Error = PyErr;

    fn extract(path: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let wrong = |got| PyTypeError::new_err(format!("expected a str or a path, got {got}"));
        match path.extract() {
            Ok(found) => Ok(Self(found)),
            Err(_) => Err(wrong(path.repr()?)),
        }
    }
}

/// The value of the argument `name`.
pub(crate) fn given<'py, T: FromPyObjectOwned<'py>>(
    name: impl Display,
    value: &Bound<'py, PyAny>,
) -> PyResult<T> {
    value.extract().map_err(|error: T::Error| of_value::<T>(name, value, error.into()))
}

/// Arguments in a dict.
pub(crate) struct ByName<'a, 'py>(&'a Bound<'py, PyAny>);

impl<'a, 'py> ByName<'a, 'py> {
    pub(crate) fn new(all: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self(all))
    }

    pub(crate) fn argument<T: FromPyObjectOwned<'py>>(&mut self, name: &str) -> PyResult<T> {
        given(name, &self.0.get_item(name)?)
    }
}

/// Arguments in a tuple.
pub(crate) struct InOrder<'a, 'py> {
    all: &'a Bound<'py, PyTuple>,
    indices: RangeFrom<usize>,
}

impl<'a, 'py> InOrder<'a, 'py> {
    pub(crate) fn new(all: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self { all: all.cast()?, indices: 0.. })
    }

    pub(crate) fn argument<T: FromPyObjectOwned<'py>>(&mut self, name: &str) -> PyResult<T> {
        let value = self.all.get_borrowed_item(self.indices.next().unwrap_or(usize::MAX))?;
        value.extract().map_err(|error: T::Error| of_value::<T>(name, &value, error.into()))
    }
}

/// An error with the name of the argument that it is about; a number that a `T` does not have is a wrong value, and no wrong type.
fn of_value<T>(name: impl Display, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyOverflowError>(value.py()) {
        return of_argument(value.py(), name, error);
    }
    // Those in a list or an Option, too.
    let most = match std::any::type_name::<T>() {
        of if of.contains("u8") => u64::from(u8::MAX),
        of if of.contains("u32") => u64::from(u32::MAX),
        _ => u64::MAX,
    };
    let message = format!("{name}: {value} is out of range");
    Failure::new(message, Some(format!("give 0 to {most}"))).into()
}

/// An error with the name of the argument that it is about.
pub(crate) fn of_argument(py: Python<'_>, name: impl Display, error: PyErr) -> PyErr {
    // `floatgate.Error` says itself what it is about; an exception with other arguments than a message stays as it is, too.
    let is_of_python = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyBufferError>(py);
    // An `ArgumentError` is a `ValueError`, too.
    if !is_of_python || error.value(py).hasattr("help").unwrap_or(false) {
        return error;
    }
    let said = error.get_type(py).call1((format!("{name}: {}", error.value(py)),));
    said.map_or(error, PyErr::from_value)
}
