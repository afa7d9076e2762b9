//! Rotary position embedding (RoPE).

mod apply;
mod rotary;
mod table;
mod write;

pub use apply::rope;
pub use rotary::{RopeLayout, Rotary};
pub use table::{RopeScaling, RopeTable};
pub use write::{HeadTransform, rope_write};
