//! The operations: each checks its arguments, divides its work among threads, and runs vector code
//! chosen at run time.

mod activation;
mod attention;
mod attention_paged;
mod attention_prefill;
mod attention_tile;
mod element;
mod embedding;
mod epilogue;
mod kv_cache;
mod linear;
mod linear_many;
mod linear_tiles;
mod matmul;
mod matmul_thin;
mod matmul_tiles;
mod microkernel;
mod norm;
mod packing;
mod penalties;
mod rope;
mod rope_write;
mod sampling;
mod softmax;
mod tiles;

pub use activation::{activate, swiglu};
pub use assay_operations::Activation;
pub use attention_paged::{PagedBatch, paged_attention};
pub use attention_prefill::{AttentionShape, prefill_attention};
pub(crate) use element::narrow;
pub use element::{Bf16, Element, F16};
pub use embedding::{embedding, packed_embedding};
pub use epilogue::Epilogue;
pub use kv_cache::CacheShape;
pub use linear::{LinearShape, linear};
pub use matmul::{Matrix, matmul};
pub(crate) use matmul_tiles::fits_tiles;
pub use norm::{add_layer_norm, add_rms_norm, layer_norm, rms_norm};
pub use penalties::{Penalties, penalize};
pub use rope::{RopePairs, RopeScaling, RopeTable, rope};
pub use rope_write::{HeadSteps, Turns, rope_write};
pub use sampling::{Sampling, argmax, log_probability, sample, uniform};
pub use softmax::softmax;
pub(crate) use tiles::{Finish, Panels, TILE_ROWS, multiply, with_narrow_rows};

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
