//! Overrides of a setup from Python mappings.

use crate::arguments::{arguments, of_argument};
use crate::failure::Failure;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyMapping, PyString};

/// Overrides in the form of `--set`, `key=value`, from a mapping or None.
pub(crate) struct Overrides(pub(crate) Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Overrides {
    type Error = PyErr;

    fn extract(changes: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if changes.is_none() {
            return Ok(Self(Vec::new()));
        }
        let Ok(mapping) = changes.cast::<PyMapping>() else {
            let got = changes.repr()?;
            let expected = "expected a mapping such as {'bus.clock_hz': 50e6}";
            return Err(PyTypeError::new_err(format!("{expected}, got {got}")));
        };
        let items = mapping.items()?;
        let text = |item: Bound<'py, PyAny>| {
            let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
            text(&key, &value)
        };
        Ok(Self(items.iter().map(text).collect::<PyResult<_>>()?))
    }
}

/// One override in the form of `--set`.
fn text(key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(name) = key.cast::<PyString>() else {
        let got = key.repr()?;
        return Err(PyTypeError::new_err(format!("expected keys such as 'bus.clock_hz', got {got}")));
    };
    let name = name.to_string();
    if name.contains('=') {
        let help = "keys are like `bus.clock_hz`; the value stands behind the colon".to_owned();
        return Err(Failure::new(format!("{} is no key", key.repr()?), Some(help)).into());
    }
    let value = value_text(&name, value)?;
    Ok(format!("{name}={value}"))
}

/// Value of a setup as TOML, or as a text.
fn value_text(key: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Some(text) = scalar_text(value)? {
        return Ok(text);
    }
    // The method item() of a numpy scalar returns its value; it fails for arrays.
    if let Ok(item) = value.call_method0("item")
        && let Some(text) = scalar_text(&item)?
    {
        return Ok(text);
    }
    let got = value.repr()?;
    if !value.is_instance_of::<PyFloat>() {
        let expected = "expected a str, a bool, an int or a float";
        return Err(PyTypeError::new_err(format!("{key}: {expected}, got {got}")));
    }
    let help = "give a finite number".to_owned();
    Err(Failure::new(format!("{key}: {got} is no value of a setup"), Some(help)).into())
}

/// Built-in Python scalar as TOML or as a text; `None` for any other object.
fn scalar_text(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(number) = value.cast::<PyFloat>() {
        let number = number.value();
        // Rust also writes a float with a decimal point or exponent, and so that the same float is
        // read back.
        return Ok(number.is_finite().then(|| format!("{number:?}")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_string();
        return Ok(Some(if text.is_empty() { "\"\"".to_owned() } else { text }));
    }
    // In Python, a bool is also an int.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Some(truth.is_true().to_string()));
    }
    Ok(if value.is_instance_of::<PyInt>() { Some(value.str()?.to_string()) } else { None })
}

arguments! {
    /// A mapping of overrides as the only argument.
    pub(crate) struct Changes {
        set: Overrides,
    }
}

/// All overrides in the form of `--set`.
#[pyfunction]
pub(crate) fn overrides(changes: Changes) -> Vec<String> {
    changes.set.0
}

/// One override in the form of `--set`; the first text is the name of the mapping.
#[pyfunction]
#[pyo3(name = "override")]
pub(crate) fn one_override<'py>(
    name: &Bound<'py, PyString>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<String> {
    text(key, value).map_err(|error| of_argument(name.py(), name, error))
}
