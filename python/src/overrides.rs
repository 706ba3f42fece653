//! Overrides of a setup, as Python's mappings have them.

use crate::arguments::{arguments, of_argument};
use crate::failure::Failure;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyMapping, PyString};

/// Overrides as `--set` takes them, `key=value`, of a mapping or None.
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

/// One override as `--set` takes it.
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

/// A value of a setup as TOML has it, or as a text.
fn value_text(key: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Some(text) = scalar_text(value)? {
        return Ok(text);
    }
    // Scalars of numpy have the value itself in item(), which fails for arrays.
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

/// A scalar of Python's own as TOML has it, or as a text; `None` of everything else.
fn scalar_text(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(number) = value.cast::<PyFloat>() {
        let number = number.value();
        // Rust, too, writes a float so that it is no whole number, and the same one when it is read.
        return Ok(number.is_finite().then(|| format!("{number:?}")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_string();
        return Ok(Some(if text.is_empty() { "\"\"".to_owned() } else { text }));
    }
    // A bool is an int, too.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Some(truth.is_true().to_string()));
    }
    Ok(if value.is_instance_of::<PyInt>() { Some(value.str()?.to_string()) } else { None })
}

arguments! {
    /// Overrides alone.
    pub(crate) struct Changes {
        set: Overrides,
    }
}

/// All overrides as `--set` takes them.
#[pyfunction]
pub(crate) fn overrides(changes: Changes) -> Vec<String> {
    changes.set.0
}

/// One override as `--set` takes it; the first text is the name of the mapping.
#[pyfunction]
#[pyo3(name = "override")]
pub(crate) fn one_override<'py>(
    name: &Bound<'py, PyString>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<String> {
    text(key, value).map_err(|error| of_argument(name.py(), name, error))
}
