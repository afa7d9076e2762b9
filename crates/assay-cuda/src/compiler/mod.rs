//! CUDA C++ to machine code for one device: NVRTC, with a cubin cache on disk.

mod architecture;
mod cache;
mod compile;
mod diagnostics;
mod error;
mod program;
mod ptxas;
mod source;

pub use architecture::Architecture;
pub use cache::CubinCache;
pub use compile::{compile, compile_cached, source_key};
pub use diagnostics::{Diagnostic, diagnostics};
pub use error::CompileError;
pub use source::{Image, Source};
