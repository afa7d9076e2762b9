//! Memory: the pool, its quotas, and what is built around it.

#![forbid(unsafe_code)]

pub mod adaptors;
mod bins;
mod block;
mod buffer;
pub mod contract;
mod direct;
mod error;
mod heap;
mod log;
mod options;
mod order;
mod pool;
mod quota;
pub mod replay;
mod residency;
mod resource;
mod size_class;
mod statistics;
pub mod throughput;
mod verify;

pub use buffer::Buffer;
pub use direct::Direct;
pub use error::MemoryError;
pub use log::{Action, AllocationLog, LogError, Record};
pub use options::{CrossStream, PoolOptions};
pub use pool::{Pool, Reservation};
pub use quota::TenantUsage;
pub use residency::{BufferId, Direction, Lease, Movement, Residency, ResidencyUsage};
pub use resource::{Allocation, CallSite, MemoryResource, Request, Result, TenantId, Usage};
pub use size_class::{GRANULE_BYTES, SMALL_LIMIT_BYTES};
pub use statistics::PoolStatistics;
