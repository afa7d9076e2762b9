//! Memory sources that back the reservations of tasks.

use crate::memory::{MemoryError, Pool, TenantId};
use std::fmt;
use std::sync::Arc;

/// Reserved memory, released when dropped.
pub type MemoryReservation = Box<dyn Send>;

/// Something that reserves memory, such as a pool.
///
/// It is called, and its reservations are dropped, under the scheduler's lock: it must not call the
/// scheduler.
pub trait MemorySource: Send + Sync + fmt::Debug {
    /// Reserves the bytes, or returns how many could be reserved now.
    fn reserve(&self, bytes: u64) -> Result<MemoryReservation, u64>;
}

/// A tenant of a memory pool, which backs the reservations of a partition.
pub struct PoolTenant {
    pool: Arc<Pool>,
    tenant: TenantId,
}

impl PoolTenant {
    /// Reserves as this tenant of the pool.
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
    fn reserve(&self, bytes: u64) -> Result<MemoryReservation, u64> {
        match self.pool.reserve(self.tenant, bytes) {
            Ok(reservation) => Ok(Box::new(reservation)),
            Err(MemoryError::Reserved { available, .. }) => Err(available),
            Err(MemoryError::QuotaExceeded { used, limit, .. }) => Err(limit.saturating_sub(used)),
            Err(_) => Err(0),
        }
    }
}
