//! Memory set aside for a tenant.

use super::Pool;
use crate::memory::resource::TenantId;
use std::sync::Arc;

/// Memory promised to a tenant for as long as this value lives.
pub struct Reservation {
    pub(super) pool: Arc<Pool>,
    pub(super) tenant: TenantId,
    pub(super) bytes: u64,
}

impl Reservation {
    /// Bytes promised.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// To whom.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Ok(mut state) = self.pool.lock() {
            state.ledger.release(self.tenant, self.bytes);
        }
    }
}
