//! Counters of a pool.

/// Counters of a pool; all but the current sizes only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStatistics {
    /// Allocations, empty ones not counted.
    pub allocations: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Bytes allocated, rounding included.
    pub allocated_bytes: u64,
    /// High-water mark of `allocated_bytes`.
    pub peak_allocated_bytes: u64,
    /// Bytes allocated, as requested.
    pub requested_bytes: u64,
    /// Bytes of all slabs.
    pub held_bytes: u64,
    /// High-water mark of `held_bytes`.
    pub peak_held_bytes: u64,
    /// Slabs allocated from the device.
    pub slabs_allocated: u64,
    /// Slabs returned to the device.
    pub slabs_released: u64,
    /// Blocks split.
    pub splits: u64,
    /// Blocks coalesced with a neighbor.
    pub coalesces: u64,
    /// Events recorded to transfer blocks between streams.
    pub recorded_events: u64,
    /// Of these, events seen complete, which released their blocks to any stream.
    pub completed_events: u64,
    /// Waits of one stream for another to take its blocks.
    pub stream_waits: u64,
    /// Waits of the host for a stream to take its blocks.
    pub host_waits: u64,
    /// Invalid deallocations: of an unknown or already freed allocation.
    pub refused_deallocations: u64,
}
