//! GEMM through cuBLASLt.
//!
//! A plan holds the descriptors and the algorithm that the heuristic chose; it is made once for each
//! problem, and every later GEMM of that problem is one call.

mod handle;
mod layout;
mod library;
mod plan;
mod problem;
mod status;

pub(crate) use handle::BlasHandle;
pub(crate) use library::unavailable_message;
pub use library::{is_available, library_info};
pub(crate) use plan::WORKSPACE_BYTES;
pub use problem::{Element, Epilogue, GemmPointers, GemmProblem, Matrix};
