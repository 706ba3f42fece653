//! Arguments that Python passes together, in a dict.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;

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
                Ok(Self { $($field: $crate::arguments::argument(&all, stringify!($field))?,)* })
            }
        }
    };
}

pub(crate) use arguments;

/// The entry of a dict that is the argument `name`.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(all: &Bound<'py, PyAny>, name: &str) -> PyResult<T> {
    let py = all.py();
    all.get_item(name)?.extract().map_err(|error: T::Error| {
        let error: PyErr = error.into();
        // An exception with other arguments than a message stays as it is.
        let said = error.get_type(py).call1((format!("{name}: {}", error.value(py)),));
        said.map_or(error, PyErr::from_value)
    })
}
