//! Index-based containers shared by the runtime and the KV cache, and macros that declare enums.

#![forbid(unsafe_code)]

mod errors;
mod lru;
mod named;
mod ring_buffer;
mod slab;

pub use lru::Lru;
pub use ring_buffer::{Drained, RingBuffer};
pub use slab::Slab;
