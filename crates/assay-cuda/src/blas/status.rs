//! Errors of cuBLASLt.

use assay_runtime::backend::{BackendError, Operation, Result};

pub(super) fn check(what: &str, status: u32) -> Result<()> {
    match status {
        0 => Ok(()),
        status => Err(refused(format!("cuBLASLt refused {what}: status {status}"))),
    }
}

pub(super) fn refused(message: String) -> BackendError {
    BackendError::Driver { operation: Operation::Launch, message }
}
