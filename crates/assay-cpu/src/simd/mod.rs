//! Vector instructions chosen at run time.
//!
//! A kernel is written once, over `Vector`: sixteen lanes that are one register, two or four,
//! depending on the processor. `Level::run` compiles it for each level and calls the one asked
//! for. Everything between there and the instructions is inlined; a function that is not would
//! be compiled without the level's instructions.

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
