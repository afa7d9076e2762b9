//! Errors of the memory layer, one variant per failure.

use crate::backend::{Address, BackendError, Space};
use assay_collections::errors;

errors! {
    /// Why a memory call failed.
    pub enum MemoryError {
        /// No block of that size is free or can be allocated.
        OutOfMemory {
            /// The memory.
            space: Space,
            /// Bytes requested.
            requested: u64,
            /// Bytes allocated.
            allocated: u64,
            /// The resource's capacity.
            capacity: u64,
            /// The largest block free on any stream, or room for a new slab.
            largest_free: u64,
        } = "out_of_memory" =>
            "out of {space} memory in allocate: expected at most {largest_free} contiguous \
             bytes, got a request for {requested} ({allocated} of {capacity} allocated)\nhint: \
             free or evict buffers, or raise the pool's capacity";
        /// The tenant would exceed its quota.
        QuotaExceeded {
            /// The tenant's name.
            tenant: String,
            /// Bytes requested, rounded to the block size.
            requested: u64,
            /// Bytes the tenant uses.
            used: u64,
            /// Its limit.
            limit: u64,
        } = "quota_exceeded" =>
            "quota of tenant \"{tenant}\" exceeded in allocate: expected at most {} bytes, got \
             {requested} ({used} of {limit} used)\nhint: free buffers of this tenant or raise \
             its limit",
            limit.saturating_sub(*used);
        /// The rest of the memory is reserved for other tenants.
        Reserved {
            /// Bytes requested, rounded to the block size.
            requested: u64,
            /// Bytes neither used nor reserved.
            available: u64,
        } = "reserved" =>
            "memory is reserved: expected at most {available} bytes, got {requested}\nhint: \
             the rest is reserved for other tenants until they release it";
        /// There is no such tenant.
        UnknownTenant {
            /// The tenant given.
            tenant: u32,
            /// Number of tenants.
            tenants: usize,
        } = "unknown_tenant" =>
            "unknown tenant: expected one of {tenants} tenants numbered from 0, got {tenant}";
        /// A limiting adaptor is at its limit.
        LimitExceeded {
            /// Bytes requested.
            requested: u64,
            /// Bytes allocated through the adaptor.
            used: u64,
            /// Its limit.
            limit: u64,
        } = "limit_exceeded" =>
            "limit exceeded in allocate: expected at most {} bytes, got {requested} ({used} of \
             {limit} used)",
            limit.saturating_sub(*used);
        /// The allocation belongs to another resource.
        UnknownAllocation {
            /// Its address.
            address: Address,
        } = "unknown_allocation" =>
            "unknown allocation in deallocate: expected one of this resource, got \
             {address}\nhint: free it where it was allocated";
        /// The allocation was already freed.
        AlreadyFreed {
            /// Its address.
            address: Address,
        } = "already_freed" =>
            "double free in deallocate: expected a live allocation, got {address}, already \
             freed";
        /// An option cannot be used.
        InvalidOption {
            /// Its name.
            name: &'static str,
            /// What is allowed.
            expected: &'static str,
            /// What was given.
            got: u64,
        } = "invalid_option" => "invalid option {name}: expected {expected}, got {got}";
        /// There is no such evictable buffer, or it was destroyed.
        UnknownBuffer {
            /// Its number.
            buffer: u32,
        } = "unknown_buffer" =>
            "unknown buffer: expected a live evictable buffer, got {buffer}\nhint: it may have \
             been destroyed";
        /// The buffer is leased, which pins it on the device.
        BufferInUse {
            /// Its number.
            buffer: u32,
            /// Leases held.
            leases: u32,
        } = "buffer_in_use" =>
            "buffer {buffer} is in use: expected no leases, got {leases}\nhint: drop them first";
        /// A thread panicked inside the resource, which may have left it inconsistent.
        Poisoned {
            /// Which resource.
            resource: &'static str,
        } = "poisoned" =>
            "{resource} is unusable: expected a consistent state, got a panic during an \
             update";
        /// Verification found an inconsistency.
        Inconsistent {
            /// The inconsistency.
            what: String,
        } = "inconsistent" => "inconsistent memory pool: {what}";
    }
    wraps {
        /// The device refused.
        Backend(BackendError)
    }
}

impl MemoryError {
    /// Whether freeing or evicting something could make the same request succeed.
    pub const fn is_pressure(&self) -> bool {
        matches!(
            self,
            MemoryError::OutOfMemory { .. }
                | MemoryError::QuotaExceeded { .. }
                | MemoryError::Reserved { .. }
                | MemoryError::LimitExceeded { .. }
                | MemoryError::Backend(BackendError::OutOfMemory { .. })
        )
    }
}

impl std::error::Error for MemoryError {}
