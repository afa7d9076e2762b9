//! Rotary position embedding (RoPE).

mod apply;
mod latent_write;
mod rotary;
mod table;
mod write;

pub use apply::rope;
pub use latent_write::{LatentNorm, latent_write};
pub use rotary::{RopeLayout, Rotary};
pub use table::{RopeScaling, RopeTable};
pub use write::{HeadTransform, rope_write};
