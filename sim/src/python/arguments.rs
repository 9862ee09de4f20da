//! Arguments from Python, and errors in them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::time::{Time, ns};

pub fn time(what: &str, value: f64) -> PyResult<Time> {
    if !(value.is_finite() && value >= 0.0) {
        return Err(PyValueError::new_err(format!("{what} is {value}: a time is zero or more")));
    }
    Ok(ns(value))
}

pub fn unknown<T>(what: &str, word: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("{word:?} is no {what}")))
}
