//! The block manager of a paged KV cache: block tables, reference counts, prefix cache, eviction.
//!
//! A sequence holds a list of blocks, its block table. A full block is identified by its tokens and
//! its prefix, so that a later prompt with the same prefix reuses it instead of recomputing it.
//! Unreferenced full blocks stay in the prefix cache until they are evicted, least recently used
//! first. The keys and values themselves belong to the engine; this crate manages block ids only.

#![forbid(unsafe_code)]

mod block_pool;
mod cached_blocks;
mod error;
mod manager;
mod prefix_cache;
mod statistics;
mod step_layout;
mod verify;

pub use cached_blocks::CachedBlock;
pub use error::{KvError, Result};
pub use manager::{BlockCopy, BlockManager, KvOptions, OpenedSequence, SequenceId};
pub use statistics::KvStatistics;
pub use step_layout::StepLayout;
