//! Conversion of arguments from Python: single values, a dict, or a tuple for calls that must take only microseconds.
//! An error names its argument.

use crate::failure::Failure;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::fmt::Display;
use std::ops::RangeFrom;
use std::path::PathBuf;

/// Defines a struct whose fields have the names of the keys of a dict, or `in order` the positions in a tuple. These
/// are the argument names of the caller, which errors use.
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

/// Converts the arguments of a function from objects. PyO3 would name the argument only in a note, which older Python
/// versions do not have.
macro_rules! extract {
    ($($name:ident: $kind:ty),* $(,)?) => {
        $(let $name: $kind = $crate::arguments::given(stringify!($name), $name)?;)*
    };
}

pub(crate) use extract;

/// Path on the host.
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

/// Value of the argument `name`.
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

/// Error that names its argument. A number outside the range of `T` is a wrong value, not a wrong type.
fn of_value<T>(name: impl Display, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyOverflowError>(value.py()) {
        return of_argument(value.py(), name, error);
    }
    // The type may be the element of a list or an Option.
    let most = match std::any::type_name::<T>() {
        of if of.contains("u8") => u64::from(u8::MAX),
        of if of.contains("u32") => u64::from(u32::MAX),
        _ => u64::MAX,
    };
    let message = format!("{name}: {value} is out of range");
    Failure::new(message, Some(format!("give 0 to {most}"))).into()
}

/// Error that names its argument.
pub(crate) fn of_argument(py: Python<'_>, name: impl Display, error: PyErr) -> PyErr {
    // A `floatgate.Error` already names its argument. An exception with other arguments than a message is not changed,
    // either.
    let is_of_python = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyBufferError>(py);
    // An `ArgumentError` is also a `ValueError`.
    if !is_of_python || error.value(py).hasattr("help").unwrap_or(false) {
        return error;
    }
    let said = error.get_type(py).call1((format!("{name}: {}", error.value(py)),));
    said.map_or(error, PyErr::from_value)
}
