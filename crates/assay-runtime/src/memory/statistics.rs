//! What a pool has done so far, in numbers.

/// Counters of a pool; they only grow, apart from the current figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStatistics {
    /// Allocations made, empty ones not counted.
    pub allocations: u64,
    /// Allocations given back.
    pub deallocations: u64,
    /// Allocations refused.
    pub failures: u64,
    /// Bytes in callers' hands, rounding included.
    pub allocated_bytes: u64,
    /// The most of them at once.
    pub peak_allocated_bytes: u64,
    /// Bytes in callers' hands, as asked for.
    pub requested_bytes: u64,
    /// Bytes held from the device.
    pub held_bytes: u64,
    /// The most of them at once.
    pub peak_held_bytes: u64,
    /// Slabs asked of the device.
    pub slabs_allocated: u64,
    /// Slabs given back to it.
    pub slabs_released: u64,
    /// Blocks cut in two.
    pub splits: u64,
    /// Blocks joined with a neighbor.
    pub joins: u64,
    /// Events recorded to pass memory between streams.
    pub recorded_events: u64,
    /// Events seen to have passed, so that memory became common.
    pub settled_events: u64,
    /// Times a stream was made to wait for another to get its memory.
    pub stream_waits: u64,
    /// Times the host waited for a stream to get its memory.
    pub host_waits: u64,
    /// Frees refused: of something unknown or freed before.
    pub refused_deallocations: u64,
}
