//! SIMD kernels with run-time dispatch.
//!
//! A kernel is generic over `Vector`: sixteen lanes in one register, two or four, depending on the
//! CPU. `Level::run` instantiates it for each level and calls the instance of the level. Everything
//! between there and the intrinsics must be inlined: a function that is not inlined would be compiled
//! without the level's instructions.
//!
//! `cfg(level = "...")` is set by the build script, for each level that is compiled.

mod amx;
#[cfg(level = "avx2")]
mod avx2;
#[cfg(any(level = "avx512", level = "avx512+vnni"))]
mod avx512;
mod detection;
mod level;
mod math;
#[cfg(any(level = "neon", level = "neon+dotprod"))]
mod neon;
#[cfg(level = "portable")]
mod portable;
mod prefetch;
mod vector;

pub(crate) use amx::{
    Amx, AmxSession, SPLIT_SIDE, SPLIT_TERMS, SplitColumns, SplitStep, StepOffsets, TILE_K, TileB,
    TileC, TileOperands,
};
pub use level::Level;
pub(crate) use math::{error_function, exponential, logistic, sine, tanh};
pub(crate) use prefetch::prefetch;
pub(crate) use vector::{Kernel, LANES, Vector, load_partial, store_partial};
