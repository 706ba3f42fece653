//! Arguments that Python passes: one by one, in a dict, or in a tuple where a call takes microseconds. An error of one says which it is about.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::fmt::Display;
use std::ops::RangeFrom;

/// A struct whose fields are those of a dict with the same names, or `in order` of a tuple. They are the names of the caller's arguments: an error
/// says which it is about.
macro_rules! arguments {
    (in order: $(#[$about:meta])* $vis:vis struct $name:ident { $($(#[$what:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        $vis struct $name {
            $($(#[$what])* $field: $kind,)*
        }

        impl<'py> pyo3::FromPyObject<'_, 'py> for $name {
            type Error = pyo3::PyErr;

            fn extract(all: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                let all = all.cast::<pyo3::types::PyTuple>()?;
                let mut places = 0..;
                Ok(Self { $($field: $crate::arguments::placed(&all, &mut places, stringify!($field))?,)* })
            }
        }
    };
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($(#[$what:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        $vis struct $name {
            $($(#[$what])* $field: $kind,)*
        }

        impl<'py> pyo3::FromPyObject<'_, 'py> for $name {
            type Error = pyo3::PyErr;

            fn extract(all: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                let py = all.py();
                Ok(Self { $($field: $crate::arguments::argument(&all, pyo3::intern!(py, stringify!($field)))?,)* })
            }
        }
    };
}

pub(crate) use arguments;

/// Converts arguments of a function, which come as objects: those of PyO3 are named in a note alone, which older Pythons do not have.
macro_rules! take {
    ($($name:ident: $kind:ty),* $(,)?) => {
        $(let $name: $kind = $crate::arguments::given(stringify!($name), $name)?;)*
    };
}

pub(crate) use take;

/// The value of the argument `name`.
pub(crate) fn given<'py, T: FromPyObjectOwned<'py>>(
    name: impl Display,
    value: &Bound<'py, PyAny>,
) -> PyResult<T> {
    value.extract().map_err(|error: T::Error| of_argument(value.py(), name, error.into()))
}

/// The entry of a dict that is the argument `name`.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(
    all: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<T> {
    given(name, &all.get_item(name)?)
}

/// The next entry of a tuple, which is the argument `name`.
pub(crate) fn placed<'py, T: FromPyObjectOwned<'py>>(
    all: &Bound<'py, PyTuple>,
    places: &mut RangeFrom<usize>,
    name: &str,
) -> PyResult<T> {
    let value = all.get_borrowed_item(places.next().unwrap_or(usize::MAX))?;
    value.extract().map_err(|error: T::Error| of_argument(all.py(), name, error.into()))
}

/// An error with the name of the argument that it is about.
pub(crate) fn of_argument(py: Python<'_>, name: impl Display, error: PyErr) -> PyErr {
    // `floatgate.Error` says itself what it is about; an exception with other arguments than a message stays as it is, too.
    let is_of_python = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py)
        || error.is_instance_of::<PyBufferError>(py);
    if !is_of_python {
        return error;
    }
    let said = error.get_type(py).call1((format!("{name}: {}", error.value(py)),));
    said.map_or(error, PyErr::from_value)
}
