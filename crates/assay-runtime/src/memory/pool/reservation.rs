//! Memory reserved for a tenant.

use super::Pool;
use crate::memory::resource::{Result, TenantId};
use std::sync::Arc;

/// Memory reserved for a tenant while this value lives.
pub struct Reservation {
    pool: Arc<Pool>,
    tenant: TenantId,
    bytes: u64,
}

impl Pool {
    /// Reserves memory for a tenant until the reservation is dropped.
    ///
    /// Reserves a quantity that others cannot use up, not a contiguous block.
    pub fn reserve(self: &Arc<Self>, tenant: TenantId, bytes: u64) -> Result<Reservation> {
        self.lock()?.quotas.reserve(tenant, bytes)?;
        Ok(Reservation { pool: Arc::clone(self), tenant, bytes })
    }
}

impl Reservation {
    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The tenant.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Ok(mut state) = self.pool.lock() {
            state.quotas.release(self.tenant, self.bytes);
        }
    }
}
