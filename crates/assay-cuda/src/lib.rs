//! An NVIDIA GPU behind [`assay_runtime::backend::Backend`].
//!
//! Only the driver is required. NVRTC, cuBLASLt and CUPTI come from wheels, a toolkit or the system. All are
//! opened at run time, and a missing library is an error value, never a panic. Kernels are CUDA C++,
//! compiled for the device and cached on disk.

pub mod blas;
pub mod compiler;
pub mod cupti;
pub mod device;
pub mod discovery;
mod library;
mod notices;
pub mod operations;
pub mod sources;

pub use library::{LibraryProblem, set_library_folders};
