//! Arguments that Python passes together, in a dict.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A struct whose fields are those of a dict with the same names. They are the names of the caller's arguments: an error says which it is about.
macro_rules! arguments {
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

/// The entry of a dict that is the argument `name`.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(
    all: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<T> {
    all.get_item(name)?.extract().map_err(|error: T::Error| of_argument(name, error.into()))
}

/// An error with the name of the argument that it is about.
pub(crate) fn of_argument(name: &Bound<'_, PyString>, error: PyErr) -> PyErr {
    let py = name.py();
    // `floatgate.Error` says itself what it is about; an exception with other arguments than a message stays as it is, too.
    let is_of_python = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py);
    if !is_of_python {
        return error;
    }
    let said = error.get_type(py).call1((format!("{name}: {}", error.value(py)),));
    said.map_or(error, PyErr::from_value)
}
