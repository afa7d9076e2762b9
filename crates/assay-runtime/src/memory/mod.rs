//! Memory resources in stream order: the caching pool with quotas, adaptors, eviction, replay.

#![forbid(unsafe_code)]

pub mod adaptors;
mod allocation_log;
mod bins;
mod block;
mod buffer;
pub mod contract;
mod direct_resource;
mod error;
mod heap;
mod options;
mod pool;
mod quota;
pub mod replay;
mod residency;
mod resource;
mod size_class;
mod statistics;
mod stream_order;
pub mod throughput;
mod verify;

pub use allocation_log::{Action, AllocationLog, LogError, Record};
pub use buffer::Buffer;
pub use direct_resource::DirectResource;
pub use error::MemoryError;
pub use options::{CrossStream, PoolOptions};
pub use pool::{Pool, Reservation};
pub use quota::TenantUsage;
pub use residency::{BufferId, Direction, Lease, Movement, Residency, ResidencyUsage};
pub use resource::{Allocation, CallSite, MemoryResource, Request, Result, TenantId, Usage};
pub use size_class::{GRANULE_BYTES, SMALL_LIMIT_BYTES};
pub use statistics::PoolStatistics;
