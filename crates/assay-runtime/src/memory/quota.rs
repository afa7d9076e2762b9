//! Quotas of tenants: limits, use and reservations.
//!
//! A tenant commits the greater of its use and its reservations, so that memory allocated under a
//! reservation is not counted twice. The commitments together never exceed the capacity.

use super::error::MemoryError;
use super::resource::{Result, TenantId};

/// The quota and usage of one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantUsage {
    /// Its name.
    pub name: String,
    /// Its limit.
    pub limit_bytes: u64,
    /// Bytes it uses.
    pub used_bytes: u64,
    /// High-water mark of `used_bytes`.
    pub peak_bytes: u64,
    /// Bytes reserved for it.
    pub reserved_bytes: u64,
}

impl TenantUsage {
    fn committed_bytes(&self) -> u64 {
        self.used_bytes.max(self.reserved_bytes)
    }
}

pub(super) struct QuotaTable {
    pub tenants: Vec<TenantUsage>,
    pub capacity: u64,
    /// The sum of all commitments.
    committed: u64,
}

impl QuotaTable {
    /// A table with the default tenant, which has no limit.
    pub fn new(capacity: u64) -> Self {
        let mut quotas = QuotaTable { tenants: Vec::new(), capacity, committed: 0 };
        quotas.add("default".to_owned(), u64::MAX);
        quotas
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
            .ok_or(MemoryError::UnknownTenant { tenant: tenant.0, tenants })
    }

    pub fn tenant_mut(&mut self, tenant: TenantId) -> Result<&mut TenantUsage> {
        let tenants = self.tenants.len();
        self.tenants
            .get_mut(tenant.0 as usize)
            .ok_or(MemoryError::UnknownTenant { tenant: tenant.0, tenants })
    }

    /// Fails if `bytes` more for the tenant would exceed its limit or others' reservations.
    #[inline]
    pub fn check(&self, tenant: TenantId, bytes: u64) -> Result<()> {
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
        let growth = used.max(entry.reserved_bytes) - entry.committed_bytes();
        self.check_capacity(growth, bytes)
    }

    fn check_capacity(&self, growth: u64, requested: u64) -> Result<()> {
        let available = self.capacity - self.committed;
        if growth > available {
            return Err(MemoryError::Reserved { requested, available });
        }
        Ok(())
    }

    /// Adds bytes that were checked to the tenant's use.
    #[inline]
    pub fn charge(&mut self, tenant: TenantId, bytes: u64) {
        if let Some(entry) = self.tenants.get_mut(tenant.0 as usize) {
            let before = entry.committed_bytes();
            entry.used_bytes += bytes;
            entry.peak_bytes = entry.peak_bytes.max(entry.used_bytes);
            self.committed += entry.committed_bytes() - before;
        }
    }

    /// Subtracts bytes from the tenant's use.
    #[inline]
    pub fn refund(&mut self, tenant: TenantId, bytes: u64) {
        if let Some(entry) = self.tenants.get_mut(tenant.0 as usize) {
            let before = entry.committed_bytes();
            entry.used_bytes -= bytes;
            self.committed -= before - entry.committed_bytes();
        }
    }

    /// Reserves bytes for a tenant, on top of earlier reservations.
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
        let growth = reserved.max(entry.used_bytes) - entry.committed_bytes();
        self.check_capacity(growth, bytes)?;
        self.tenant_mut(tenant)?.reserved_bytes = reserved;
        self.committed += growth;
        Ok(())
    }

    /// Releases reserved bytes.
    pub fn release(&mut self, tenant: TenantId, bytes: u64) {
        if let Some(entry) = self.tenants.get_mut(tenant.0 as usize) {
            let before = entry.committed_bytes();
            entry.reserved_bytes = entry.reserved_bytes.saturating_sub(bytes);
            self.committed -= before - entry.committed_bytes();
        }
    }

    /// Bytes that are reserved and not used.
    pub fn unused_reservations(&self) -> u64 {
        let used: u64 = self.tenants.iter().map(|entry| entry.used_bytes).sum();
        self.committed - used
    }

    /// Whether the commitments add up; for verification.
    pub fn is_consistent(&self) -> bool {
        let committed: u64 = self.tenants.iter().map(TenantUsage::committed_bytes).sum();
        committed == self.committed && committed <= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_under_a_reservation_is_counted_once() {
        let mut quotas = QuotaTable::new(100);
        let (first, second) = (quotas.add("a".into(), 80), quotas.add("b".into(), 100));
        quotas.reserve(first, 60).expect("fits");
        assert_eq!(
            quotas.check(second, 41),
            Err(MemoryError::Reserved { requested: 41, available: 40 })
        );
        quotas.check(first, 70).expect("60 reserved and 10 free");
        quotas.charge(first, 70);
        quotas.check(second, 30).expect("the rest");
        quotas.charge(second, 30);
        assert!(quotas.is_consistent());
        assert_eq!(quotas.check(first, 1).map_err(|e| e.code()), Err("reserved"));
        assert_eq!(quotas.check(first, 11).map_err(|e| e.code()), Err("quota_exceeded"));
        quotas.release(first, 60);
        quotas.refund(first, 70);
        assert_eq!(quotas.check(second, 70), Ok(()));
        assert!(quotas.is_consistent());
    }
}
