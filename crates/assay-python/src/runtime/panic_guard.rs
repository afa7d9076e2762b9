//! Converts Rust panics into Assay's own Python exception.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

use super::errors;

/// Runs `work`; a panic inside becomes `assay.errors.PanicError`.
///
/// PyO3's own exception for panics is not caught by `except Exception`.
pub(super) fn guarded<T>(operation: &str, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(errors::panic(operation, &panic_message(&*payload))))
}

/// The message of a panic.
pub(super) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("no message").to_owned()
}

/// Panics inside `guarded`, for tests of the guard.
#[pyfunction]
pub(super) fn provoke_panic(message: String) -> PyResult<()> {
    guarded("provoke_panic", || panic!("{message}"))
}
