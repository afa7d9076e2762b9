//! Options of a pool, which a replayed log can compare.

use super::bins::LARGEST_BLOCK_BYTES;
use super::error::MemoryError;
use super::resource::Result;
use super::size_class::{GRANULE_BYTES, SMALL_LIMIT_BYTES};
use crate::backend::Space;

/// How a pool reuses memory that another stream freed and whose work may not have finished.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CrossStream {
    /// Reuse what has finished; else grow; at capacity, insert a stream wait. Avoids dependencies
    /// between streams.
    GrowFirst,
    /// Reuse what has finished; else insert a stream wait; grow last. Keeps the pool small.
    WaitFirst,
    /// Only the stream that freed it reuses it.
    Never,
}

/// Options of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// The memory space.
    pub space: Space,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// The usual size of a slab.
    pub slab_bytes: u64,
    /// Requests up to this size use size classes; 0 disables them.
    pub small_limit_bytes: u64,
    /// Reuse of other streams' memory.
    pub cross_stream: CrossStream,
    /// Block descriptors to preallocate.
    pub expected_blocks: usize,
}

impl PoolOptions {
    /// The default options for a capacity and a memory space.
    pub fn new(space: Space, capacity_bytes: u64) -> Self {
        PoolOptions {
            space,
            capacity_bytes,
            slab_bytes: 64 << 20,
            small_limit_bytes: SMALL_LIMIT_BYTES,
            cross_stream: CrossStream::GrowFirst,
            expected_blocks: 1 << 12,
        }
    }

    /// The options rounded to whole granules, or the name of an invalid one.
    pub(super) fn validated(mut self) -> Result<Self> {
        let invalid = |name, expected, got| Err(MemoryError::InvalidOption { name, expected, got });
        if self.capacity_bytes < GRANULE_BYTES {
            return invalid("capacity_bytes", "at least 256", self.capacity_bytes);
        }
        if self.slab_bytes < GRANULE_BYTES {
            return invalid("slab_bytes", "at least 256", self.slab_bytes);
        }
        self.capacity_bytes -= self.capacity_bytes % GRANULE_BYTES;
        self.slab_bytes = self.slab_bytes.min(self.capacity_bytes);
        self.slab_bytes -= self.slab_bytes % GRANULE_BYTES;
        if self.slab_bytes > LARGEST_BLOCK_BYTES {
            return invalid("slab_bytes", "less than 1 TiB", self.slab_bytes);
        }
        if self.small_limit_bytes > SMALL_LIMIT_BYTES {
            return invalid("small_limit_bytes", "at most 32768", self.small_limit_bytes);
        }
        Ok(self)
    }
}
