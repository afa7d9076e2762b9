//! The error of an operation that cannot be launched.

use assay_runtime::backend::{BackendError, Operation};

/// A failed launch, with this message.
pub(super) fn launch_error(message: String) -> BackendError {
    BackendError::Driver { operation: Operation::Launch, message }
}
