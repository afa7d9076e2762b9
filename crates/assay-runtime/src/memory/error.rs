//! Errors of the memory layer, one variant per failure.

use crate::backend::{Address, BackendError, Space};
use std::fmt;

/// Why a memory call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
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
    },
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
    },
    /// The rest of the memory is reserved for other tenants.
    Reserved {
        /// Bytes requested, rounded to the block size.
        requested: u64,
        /// Bytes neither used nor reserved.
        available: u64,
    },
    /// There is no such tenant.
    UnknownTenant {
        /// The tenant given.
        tenant: u32,
        /// Number of tenants.
        tenants: usize,
    },
    /// A limiting adaptor is at its limit.
    LimitExceeded {
        /// Bytes requested.
        requested: u64,
        /// Bytes allocated through the adaptor.
        used: u64,
        /// Its limit.
        limit: u64,
    },
    /// The allocation belongs to another resource.
    UnknownAllocation {
        /// Its address.
        address: Address,
    },
    /// The allocation was already freed.
    AlreadyFreed {
        /// Its address.
        address: Address,
    },
    /// An option cannot be used.
    InvalidOption {
        /// Its name.
        name: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// What was given.
        got: u64,
    },
    /// There is no such evictable buffer, or it was destroyed.
    UnknownBuffer {
        /// Its number.
        buffer: u32,
    },
    /// The buffer is leased, which pins it on the device.
    BufferInUse {
        /// Its number.
        buffer: u32,
        /// Leases held.
        leases: u32,
    },
    /// A thread panicked inside the resource, which may have left it inconsistent.
    Poisoned {
        /// Which resource.
        resource: &'static str,
    },
    /// Verification found an inconsistency.
    Inconsistent {
        /// The inconsistency.
        what: String,
    },
    /// The device refused.
    Backend(BackendError),
}

impl MemoryError {
    /// A stable name for the failure, for mapping it in other languages.
    pub const fn code(&self) -> &'static str {
        match self {
            MemoryError::OutOfMemory { .. } => "out_of_memory",
            MemoryError::QuotaExceeded { .. } => "quota_exceeded",
            MemoryError::Reserved { .. } => "reserved",
            MemoryError::UnknownTenant { .. } => "unknown_tenant",
            MemoryError::LimitExceeded { .. } => "limit_exceeded",
            MemoryError::UnknownAllocation { .. } => "unknown_allocation",
            MemoryError::AlreadyFreed { .. } => "already_freed",
            MemoryError::InvalidOption { .. } => "invalid_option",
            MemoryError::UnknownBuffer { .. } => "unknown_buffer",
            MemoryError::BufferInUse { .. } => "buffer_in_use",
            MemoryError::Poisoned { .. } => "poisoned",
            MemoryError::Inconsistent { .. } => "inconsistent",
            MemoryError::Backend(error) => error.code(),
        }
    }

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

impl From<BackendError> for MemoryError {
    fn from(error: BackendError) -> Self {
        MemoryError::Backend(error)
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::OutOfMemory {
                space,
                requested,
                allocated,
                capacity,
                largest_free,
            } => write!(
                f,
                "out of {space} memory in allocate: expected at most {largest_free} contiguous \
                 bytes, got a request for {requested} ({allocated} of {capacity} allocated)\nhint: \
                 free or evict buffers, or raise the pool's capacity"
            ),
            MemoryError::QuotaExceeded {
                tenant,
                requested,
                used,
                limit,
            } => write!(
                f,
                "quota of tenant \"{tenant}\" exceeded in allocate: expected at most {} bytes, got \
                 {requested} ({used} of {limit} used)\nhint: free buffers of this tenant or raise \
                 its limit",
                limit.saturating_sub(*used)
            ),
            MemoryError::Reserved {
                requested,
                available,
            } => write!(
                f,
                "memory is reserved: expected at most {available} bytes, got {requested}\nhint: \
                 the rest is reserved for other tenants until they release it"
            ),
            MemoryError::UnknownTenant { tenant, tenants } => write!(
                f,
                "unknown tenant: expected one of {tenants} tenants numbered from 0, got {tenant}"
            ),
            MemoryError::LimitExceeded {
                requested,
                used,
                limit,
            } => write!(
                f,
                "limit exceeded in allocate: expected at most {} bytes, got {requested} ({used} of \
                 {limit} used)",
                limit.saturating_sub(*used)
            ),
            MemoryError::UnknownAllocation { address } => write!(
                f,
                "unknown allocation in deallocate: expected one of this resource, got \
                 {address}\nhint: free it where it was allocated"
            ),
            MemoryError::AlreadyFreed { address } => write!(
                f,
                "double free in deallocate: expected a live allocation, got {address}, already \
                 freed"
            ),
            MemoryError::InvalidOption {
                name,
                expected,
                got,
            } => write!(f, "invalid option {name}: expected {expected}, got {got}"),
            MemoryError::UnknownBuffer { buffer } => write!(
                f,
                "unknown buffer: expected a live evictable buffer, got {buffer}\nhint: it may have \
                 been destroyed"
            ),
            MemoryError::BufferInUse { buffer, leases } => write!(
                f,
                "buffer {buffer} is in use: expected no leases, got {leases}\nhint: drop them first"
            ),
            MemoryError::Poisoned { resource } => write!(
                f,
                "{resource} is unusable: expected a consistent state, got a panic during an \
                 update"
            ),
            MemoryError::Inconsistent { what } => write!(f, "inconsistent memory pool: {what}"),
            MemoryError::Backend(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MemoryError {}
