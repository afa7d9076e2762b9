//! The functions behind the operators of arrays.
//!
//! Ufuncs build on arrays, so the class of arrays knows them only by these pointers, which
//! `operators` sets.

use std::sync::OnceLock;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::errors;

/// The result of an operator: an array, or NotImplemented.
pub(super) type Operated<'py> = PyResult<Bound<'py, PyAny>>;

/// Applies a ufunc by name.
pub(super) struct Operators {
    pub binary:
        for<'py> fn(&Bound<'py, PyString>, &Bound<'py, PyAny>, &Bound<'py, PyAny>) -> Operated<'py>,
    pub unary: for<'py> fn(&Bound<'py, PyString>, &Bound<'py, PyAny>) -> Operated<'py>,
}

static INSTALLED: OnceLock<Operators> = OnceLock::new();

/// Sets the functions; only the first call has an effect.
pub(super) fn install(operators: Operators) {
    let _ = INSTALLED.set(operators);
}

fn installed(py: Python<'_>) -> PyResult<&'static Operators> {
    if INSTALLED.get().is_none() {
        py.import(intern!(py, "assay.runtime.elementwise"))?;
    }
    let found = INSTALLED.get();
    found.ok_or_else(|| errors::invalid("operators: expected them to be installed, got none"))
}

/// Applies a binary ufunc.
pub(super) fn binary<'py>(
    name: &Bound<'py, PyString>,
    first: &Bound<'py, PyAny>,
    second: &Bound<'py, PyAny>,
) -> Operated<'py> {
    (installed(name.py())?.binary)(name, first, second)
}

/// Applies a unary ufunc.
pub(super) fn unary<'py>(name: &Bound<'py, PyString>, x: &Bound<'py, PyAny>) -> Operated<'py> {
    (installed(name.py())?.unary)(name, x)
}
