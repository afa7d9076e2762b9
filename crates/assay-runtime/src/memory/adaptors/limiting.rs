//! Limits the bytes allocated from a resource.

use crate::backend::{Space, StreamId};
use crate::memory::error::MemoryError;
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, Usage};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Adds a limit, in requested bytes, to a resource.
pub struct LimitingAdaptor<R> {
    inner: R,
    limit_bytes: u64,
    used: AtomicU64,
}

/// Bytes counted for a request in progress; subtracted on drop unless the request succeeds, also
/// if it panics.
struct PendingBytes<'a> {
    used: &'a AtomicU64,
    bytes: u64,
}

impl PendingBytes<'_> {
    fn commit(self) {
        std::mem::forget(self);
    }
}

impl Drop for PendingBytes<'_> {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl<R: MemoryResource> LimitingAdaptor<R> {
    /// Allows at most `limit_bytes` allocated at once.
    pub fn new(inner: R, limit_bytes: u64) -> Self {
        LimitingAdaptor { inner, limit_bytes, used: AtomicU64::new(0) }
    }

    /// The upstream resource.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    /// Bytes counted against the limit.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    fn add_pending(&self, bytes: u64) -> Result<PendingBytes<'_>> {
        let add = |used: u64| used.checked_add(bytes).filter(|total| *total <= self.limit_bytes);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).map_err(|used| {
            MemoryError::LimitExceeded { requested: bytes, used, limit: self.limit_bytes }
        })?;
        Ok(PendingBytes { used: &self.used, bytes })
    }
}

impl<R: MemoryResource> MemoryResource for LimitingAdaptor<R> {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let pending = self.add_pending(request.bytes)?;
        let allocation = self.inner.allocate(request)?;
        pending.commit();
        Ok(allocation)
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        self.inner.deallocate(allocation, stream)?;
        self.used.fetch_sub(allocation.bytes(), Ordering::AcqRel);
        Ok(())
    }

    fn usage(&self) -> Result<Usage> {
        let usage = self.inner.usage()?;
        Ok(Usage { capacity_bytes: usage.capacity_bytes.min(self.limit_bytes), ..usage })
    }
}
