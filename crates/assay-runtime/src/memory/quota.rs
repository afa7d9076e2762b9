//! Who may have how much: limits, use and reservations of tenants.
//!
//! A tenant's claim on the pool is what it uses or what it has reserved, whichever is more, so
//! that memory taken under a reservation is not counted twice. The claims together never exceed
//! the capacity.

use super::error::MemoryError;
use super::resource::{Result, TenantId};

/// One tenant's figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantUsage {
    /// Its name.
    pub name: String,
    /// The most it may use.
    pub limit_bytes: u64,
    /// What it uses.
    pub used_bytes: u64,
    /// The most it has used at once.
    pub peak_bytes: u64,
    /// What is promised to it.
    pub reserved_bytes: u64,
}

impl TenantUsage {
    fn claim(&self) -> u64 {
        self.used_bytes.max(self.reserved_bytes)
    }
}

pub(super) struct Ledger {
    pub tenants: Vec<TenantUsage>,
    pub capacity: u64,
    /// The sum of all claims.
    claimed: u64,
}

impl Ledger {
    /// A ledger with one tenant, which may use everything.
    pub fn new(capacity: u64) -> Self {
        let mut ledger = Ledger {
            tenants: Vec::new(),
            capacity,
            claimed: 0,
        };
        ledger.add("default".to_owned(), u64::MAX);
        ledger
    }

    pub fn add(&mut self, name: String, limit_bytes: u64) -> TenantId {
        self.tenants.push(TenantUsage {
            name,
            limit_bytes,
            used_bytes: 0,
            peak_bytes: 0,
            reserved_bytes: 0,
        });
        TenantId((self.tenants.len() - 1) as u32)
    }

    pub fn tenant(&self, tenant: TenantId) -> Result<&TenantUsage> {
        let tenants = self.tenants.len();
        self.tenants
            .get(tenant.0 as usize)
            .ok_or(MemoryError::UnknownTenant {
                tenant: tenant.0,
                tenants,
            })
    }

    pub fn tenant_mut(&mut self, tenant: TenantId) -> Result<&mut TenantUsage> {
        let tenants = self.tenants.len();
        self.tenants
            .get_mut(tenant.0 as usize)
            .ok_or(MemoryError::UnknownTenant {
                tenant: tenant.0,
                tenants,
            })
    }

    /// Refuses `bytes` more for the tenant where a limit or a promise stands against it.
    #[inline]
    pub fn admit(&self, tenant: TenantId, bytes: u64) -> Result<()> {
        let entry = self.tenant(tenant)?;
        let used = entry.used_bytes.saturating_add(bytes);
        if used > entry.limit_bytes {
            return Err(MemoryError::QuotaExceeded {
                tenant: entry.name.clone(),
                requested: bytes,
                used: entry.used_bytes,
                limit: entry.limit_bytes,
            });
        }
        let growth = used.max(entry.reserved_bytes) - entry.claim();
        self.admit_claim(growth, bytes)
    }

    fn admit_claim(&self, growth: u64, requested: u64) -> Result<()> {
        let available = self.capacity - self.claimed;
        if growth > available {
            return Err(MemoryError::Reserved {
                requested,
                available,
            });
        }
        Ok(())
    }

    /// Books bytes that were admitted.
    #[inline]
    pub fn charge(&mut self, tenant: TenantId, bytes: u64) {
        if let Some(entry) = self.tenants.get_mut(tenant.0 as usize) {
            let before = entry.claim();
            entry.used_bytes += bytes;
            entry.peak_bytes = entry.peak_bytes.max(entry.used_bytes);
            self.claimed += entry.claim() - before;
        }
    }

    /// Takes back what was charged.
    #[inline]
    pub fn refund(&mut self, tenant: TenantId, bytes: u64) {
        if let Some(entry) = self.tenants.get_mut(tenant.0 as usize) {
            let before = entry.claim();
            entry.used_bytes -= bytes;
            self.claimed -= before - entry.claim();
        }
    }

    /// Promises bytes to a tenant, on top of earlier promises.
    pub fn reserve(&mut self, tenant: TenantId, bytes: u64) -> Result<()> {
        let entry = self.tenant(tenant)?;
        let reserved = entry.reserved_bytes.saturating_add(bytes);
        if reserved > entry.limit_bytes {
            return Err(MemoryError::QuotaExceeded {
                tenant: entry.name.clone(),
                requested: bytes,
                used: entry.reserved_bytes,
                limit: entry.limit_bytes,
            });
        }
        let growth = reserved.max(entry.used_bytes) - entry.claim();
        self.admit_claim(growth, bytes)?;
        self.tenant_mut(tenant)?.reserved_bytes = reserved;
        self.claimed += growth;
        Ok(())
    }

    /// Takes a promise back.
    pub fn release(&mut self, tenant: TenantId, bytes: u64) {
        if let Some(entry) = self.tenants.get_mut(tenant.0 as usize) {
            let before = entry.claim();
            entry.reserved_bytes = entry.reserved_bytes.saturating_sub(bytes);
            self.claimed -= before - entry.claim();
        }
    }

    /// Bytes that are promised and not used.
    pub fn promised(&self) -> u64 {
        let used: u64 = self.tenants.iter().map(|entry| entry.used_bytes).sum();
        self.claimed - used
    }

    /// Whether the claims add up; for verification.
    pub fn is_consistent(&self) -> bool {
        let claims: u64 = self.tenants.iter().map(TenantUsage::claim).sum();
        claims == self.claimed && claims <= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_under_a_reservation_is_not_counted_twice() {
        let mut ledger = Ledger::new(100);
        let (first, second) = (ledger.add("a".into(), 80), ledger.add("b".into(), 100));
        ledger.reserve(first, 60).expect("fits");
        assert_eq!(
            ledger.admit(second, 41),
            Err(MemoryError::Reserved {
                requested: 41,
                available: 40
            })
        );
        ledger.admit(first, 70).expect("60 promised and 10 free");
        ledger.charge(first, 70);
        ledger.admit(second, 30).expect("the rest");
        ledger.charge(second, 30);
        assert!(ledger.is_consistent());
        assert_eq!(
            ledger.admit(first, 1).map_err(|e| e.code()),
            Err("reserved")
        );
        assert_eq!(
            ledger.admit(first, 11).map_err(|e| e.code()),
            Err("quota_exceeded")
        );
        ledger.release(first, 60);
        ledger.refund(first, 70);
        assert_eq!(ledger.admit(second, 70), Ok(()));
        assert!(ledger.is_consistent());
    }
}
