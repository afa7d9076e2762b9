//! Counts allocations and bytes.

use crate::backend::{Space, StreamId};
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, Usage};
use crate::sync::atomic::{AtomicU64, Ordering};

/// The counters of a [`StatisticsAdaptor`], in requested bytes; empty allocations are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes allocated now.
    pub bytes: u64,
    /// High-water mark of `bytes`.
    pub peak_bytes: u64,
    /// Bytes ever allocated.
    pub total_bytes: u64,
    /// Live allocations.
    pub allocations: u64,
    /// High-water mark of `allocations`.
    pub peak_allocations: u64,
    /// Allocations ever made.
    pub total_allocations: u64,
    /// Requests that failed.
    pub failures: u64,
}

/// Adds counters to a resource.
pub struct StatisticsAdaptor<R> {
    inner: R,
    bytes: AtomicU64,
    peak_bytes: AtomicU64,
    total_bytes: AtomicU64,
    allocations: AtomicU64,
    peak_allocations: AtomicU64,
    total_allocations: AtomicU64,
    failures: AtomicU64,
}

impl<R: MemoryResource> StatisticsAdaptor<R> {
    /// Counts from zero.
    pub fn new(inner: R) -> Self {
        StatisticsAdaptor {
            inner,
            bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            peak_allocations: AtomicU64::new(0),
            total_allocations: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// The upstream resource.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    /// The counters now; each is exact, but they are not one atomic snapshot.
    pub fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            bytes: read(&self.bytes),
            peak_bytes: read(&self.peak_bytes),
            total_bytes: read(&self.total_bytes),
            allocations: read(&self.allocations),
            peak_allocations: read(&self.peak_allocations),
            total_allocations: read(&self.total_allocations),
            failures: read(&self.failures),
        }
    }
}

/// Raises a high-water mark; most allocations only load it.
fn raise(peak: &AtomicU64, amount: u64) {
    if peak.load(Ordering::Relaxed) < amount {
        peak.fetch_max(amount, Ordering::Relaxed);
    }
}

impl<R: MemoryResource> MemoryResource for StatisticsAdaptor<R> {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let outcome = self.inner.allocate(request);
        if outcome.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return outcome;
        }
        if request.bytes == 0 {
            return outcome;
        }
        let add =
            |counter: &AtomicU64, amount| counter.fetch_add(amount, Ordering::Relaxed) + amount;
        let bytes = add(&self.bytes, request.bytes);
        let allocations = add(&self.allocations, 1);
        add(&self.total_bytes, request.bytes);
        add(&self.total_allocations, 1);
        raise(&self.peak_bytes, bytes);
        raise(&self.peak_allocations, allocations);
        outcome
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        self.inner.deallocate(allocation, stream)?;
        if allocation.bytes() == 0 {
            return Ok(());
        }
        self.bytes.fetch_sub(allocation.bytes(), Ordering::Relaxed);
        self.allocations.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }
}
