//! The handler of failed allocations: evict idle memory, wait for busy memory.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use assay_runtime::dispatch::DispatchController;
use assay_runtime::memory::adaptors::{Decision, Failure};
use assay_runtime::memory::{MemoryError, Residency};

/// Evictable memory that a lease keeps on the device after its use.
pub(super) trait Leased: Send + Sync {
    /// Ends the lease if nothing uses the memory; true if there was one.
    fn end_lease(&self) -> bool;

    /// Waits for the work that uses the memory, then ends the lease.
    fn wait_and_end_lease(&self) -> bool;
}

/// Evicts memory when an allocation fails.
pub(super) struct MemoryPressure {
    dispatch: DispatchController,
    residency: OnceLock<Arc<Residency>>,
    /// Evictable allocations; dropped ones are removed lazily.
    allocations: Mutex<Vec<Weak<dyn Leased>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic midway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryPressure {
    pub fn new(dispatch: DispatchController) -> Self {
        MemoryPressure { dispatch, residency: OnceLock::new(), allocations: Mutex::new(Vec::new()) }
    }

    pub fn set_residency(&self, residency: &Arc<Residency>) {
        // A second call passes the same residency.
        let _ = self.residency.set(Arc::clone(residency));
    }

    /// Registers an evictable allocation.
    pub fn add(&self, allocation: Weak<dyn Leased>) {
        lock(&self.allocations).push(allocation);
    }

    fn allocations(&self) -> Vec<Arc<dyn Leased>> {
        let mut allocations = lock(&self.allocations);
        allocations.retain(|allocation| allocation.strong_count() > 0);
        allocations.iter().filter_map(Weak::upgrade).collect()
    }

    /// Ends the leases of idle allocations; returns whether there were any.
    ///
    /// Where all of them are in use, waits for the work of one.
    pub fn end_lease(&self) -> bool {
        let allocations = self.allocations();
        let idle = allocations.iter().filter(|allocation| allocation.end_lease()).count();
        idle > 0 || allocations.iter().any(|allocation| allocation.wait_and_end_lease())
    }

    /// One attempt to free memory for a failed allocation.
    pub fn on_failure(&self, failure: &Failure<'_>) -> Decision {
        match self.evict(failure) || self.end_lease() {
            true => Decision::Retry,
            false => Decision::GiveUp,
        }
    }

    fn evict(&self, failure: &Failure<'_>) -> bool {
        let Some(residency) = self.residency.get() else {
            return false;
        };
        let request = failure.request;
        // If an eviction fails, the allocation's own error is returned.
        let relieved = residency.evict_for(failure.error, request.stream, request.tenant);
        let _ = self.dispatch.record_movements(residency);
        relieved.unwrap_or(false)
    }

    /// Whether a retry after [`end_lease`](MemoryPressure::end_lease) could help.
    pub fn retry_helps(&self, error: &MemoryError) -> bool {
        error.is_pressure() && self.end_lease()
    }
}
