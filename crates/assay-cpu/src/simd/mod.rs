//! SIMD kernels with run-time dispatch.
//!
//! A kernel is generic over `Vector`: sixteen lanes in one register, two or four, depending on the
//! CPU. `Level::run` instantiates it for each level and calls the instance of the level. Everything
//! between there and the intrinsics must be inlined: a function that is not inlined would be compiled
//! without the level's instructions.

mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
mod level;
mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod prefetch;
mod vector;

pub(crate) use amx::{Amx, AmxSession, TILE_K, TileB, TileC, TileOperands};
pub(crate) use kernel::Kernel;
pub use level::Level;
pub(crate) use math::{error_function, exponential, logistic, tanh};
pub(crate) use prefetch::prefetch;
pub(crate) use vector::{LANES, Vector, load_partial, store_partial};
