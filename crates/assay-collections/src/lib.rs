//! Index-based containers shared by the runtime and the KV cache, and how both declare errors.

#![forbid(unsafe_code)]

mod errors;
mod lru;
mod ring_buffer;
mod slab;

pub use lru::Lru;
pub use ring_buffer::{Drained, RingBuffer};
pub use slab::Slab;
