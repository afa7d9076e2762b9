//! Detects calls from inside a host function, which must not wait.

use std::cell::Cell;

use pyo3::prelude::*;

use super::errors;

thread_local! {
    /// Whether this thread is inside a host function and so under the device's locks.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as inside a host function while it lives.
pub(super) struct HostFunctionScope;

impl HostFunctionScope {
    pub fn enter() -> Self {
        INSIDE.set(true);
        HostFunctionScope
    }

    pub fn is_active() -> bool {
        INSIDE.get()
    }
}

impl Drop for HostFunctionScope {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Rejects a call from inside a host function, which would wait for that function itself.
pub(super) fn refuse_reentry(operation: &str) -> PyResult<()> {
    if HostFunctionScope::is_active() {
        return Err(errors::invalid(&format!(
            "{operation}: expected a call between operations, got one from inside an operation"
        )));
    }
    Ok(())
}
