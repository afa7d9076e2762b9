//! Where the memory that tasks reserve is promised for real.

use crate::memory::{MemoryError, Pool, TenantId};
use std::fmt;
use std::sync::Arc;

/// A promise of memory, kept until dropped.
pub type MemoryHold = Box<dyn Send>;

/// Something that promises memory, such as a pool.
///
/// It is asked, and its holds are dropped, while the scheduler's lock is held: it must not call
/// the scheduler.
pub trait MemorySource: Send + Sync + fmt::Debug {
    /// Promises the bytes, or gives how many could be promised now.
    fn reserve(&self, bytes: u64) -> Result<MemoryHold, u64>;
}

/// A tenant of a memory pool, for a partition whose reservations the pool is to keep.
pub struct PoolTenant {
    pool: Arc<Pool>,
    tenant: TenantId,
}

impl PoolTenant {
    /// This tenant of this pool.
    pub fn new(pool: Arc<Pool>, tenant: TenantId) -> Self {
        PoolTenant { pool, tenant }
    }
}

impl fmt::Debug for PoolTenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolTenant({})", self.tenant.0)
    }
}

impl MemorySource for PoolTenant {
    fn reserve(&self, bytes: u64) -> Result<MemoryHold, u64> {
        match self.pool.reserve(self.tenant, bytes) {
            Ok(reservation) => Ok(Box::new(reservation)),
            Err(MemoryError::Reserved { available, .. }) => Err(available),
            Err(MemoryError::QuotaExceeded { used, limit, .. }) => Err(limit.saturating_sub(used)),
            Err(_) => Err(0),
        }
    }
}
