//! An NVIDIA GPU behind [`assay_runtime::backend::Backend`].
//!
//! Only the driver has to be there. NVRTC and cuBLASLt come from wheels, a toolkit or the system;
//! everything is opened at run time, and what is missing is a value, never a panic. Kernels are
//! CUDA C++ compiled for the device at hand and kept on disk.

pub mod blas;
pub mod compiler;
pub mod device;
pub mod discovery;
mod library;
mod notices;
pub mod operations;
pub mod sources;

pub use library::{LibraryProblem, set_library_folders};
