//! The wall that a Rust panic does not pass: Python sees an error of Assay's own instead.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

use super::errors;

/// Runs `work`; a panic inside becomes `assay.errors.PanicError`.
///
/// PyO3 would let it through as an exception that `except Exception` does not catch.
pub(super) fn guarded<T>(operation: &str, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(errors::panic(operation, &said(&*payload))))
}

/// What the panic said, where it said anything.
pub(super) fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("no message").to_owned()
}

/// Panics behind the wall, so that a test can see that the wall stands.
#[pyfunction]
pub(super) fn provoke_panic(message: String) -> PyResult<()> {
    guarded("provoke_panic", || panic!("{message}"))
}
