//! Attention over contiguous keys and values, and over a paged KV cache.

mod bf16_tiled;
mod kv_cache;
mod latent;
mod latent_kernel;
mod online_softmax;
mod paged;
mod paged_kernel;
mod prefill;
mod prefill_kernel;
mod shape;
mod tile_operands;
mod tiled;

pub use kv_cache::CacheShape;
pub(super) use kv_cache::MAX_HEAD_SIZE;
pub use latent::latent_attention;
pub(super) use latent_kernel::LatentTile;
pub use paged::{PagedBatch, paged_attention};
pub(super) use paged_kernel::PagedTile;
pub use prefill::prefill_attention;
pub(super) use prefill_kernel::PrefillTile;
pub use shape::{AttentionShape, LatentShape, ScoreOptions};
