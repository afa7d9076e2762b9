//! Why a device could not be created.

use crate::discovery::CudaUnavailable;
use assay_runtime::backend::BackendError;
use std::fmt;

/// Why a device could not be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// CUDA, or a part of it, is unavailable.
    CudaUnavailable(CudaUnavailable),
    /// A driver call failed.
    Backend(BackendError),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::CudaUnavailable(missing) => missing.fmt(formatter),
            DeviceError::Backend(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for DeviceError {}

impl From<BackendError> for DeviceError {
    fn from(error: BackendError) -> Self {
        DeviceError::Backend(error)
    }
}
