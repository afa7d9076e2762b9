//! How a pool is set up: the knobs that a replayed log can compare.

use super::bins::LARGEST_BLOCK_BYTES;
use super::error::MemoryError;
use super::resource::Result;
use super::size_class::{GRANULE_BYTES, SMALL_LIMIT_BYTES};
use crate::backend::Space;

/// What a pool does about memory that another stream freed and may still be using.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CrossStream {
    /// Take what is finished; else grow; at capacity, wait in stream order. Keeps streams apart.
    GrowFirst,
    /// Take what is finished; else wait in stream order; grow only then. Keeps the pool small.
    WaitFirst,
    /// Leave it to the stream that freed it.
    Never,
}

/// How a pool is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// Which memory.
    pub space: Space,
    /// The most bytes the pool may hold.
    pub capacity_bytes: u64,
    /// How many bytes it usually asks of the device at once.
    pub slab_bytes: u64,
    /// Requests up to this size use size classes; 0 turns them off.
    pub small_limit_bytes: u64,
    /// What to do about other streams' memory.
    pub cross_stream: CrossStream,
    /// Blocks for which descriptions are set aside from the start.
    pub expected_blocks: usize,
}

impl PoolOptions {
    /// The usual options for this much of this memory.
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

    /// The same, in whole granules, or the name of what cannot be used.
    pub(super) fn validated(mut self) -> Result<Self> {
        let invalid = |name, expected, got| {
            Err(MemoryError::InvalidOption {
                name,
                expected,
                got,
            })
        };
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
