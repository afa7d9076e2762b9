//! The operations: each checks its arguments, divides its work among threads, and runs vector code
//! chosen at run time.

mod activation;
mod element;
mod epilogue;
mod linear;
mod matmul;
mod microkernel;
mod packing;

pub use activation::{Activation, activate, swiglu};
pub use element::{Bf16, Element};
pub use epilogue::Epilogue;
pub use linear::{LinearShape, linear};
pub use matmul::{Matrix, matmul};

use crate::simd::Level;
use crate::threads::Threads;

/// Where operations run: which threads, which instructions.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The threads that share the work.
    pub threads: &'a Threads,
    /// The instructions to use.
    pub level: Level,
}

impl Context<'static> {
    /// All cores, and the best instructions they have.
    pub fn best() -> Self {
        Context {
            threads: Threads::global(),
            level: Level::best(),
        }
    }
}
