//! Lets only so many bytes through.

use crate::backend::{Space, StreamId};
use crate::memory::error::MemoryError;
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, Usage};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Adds a limit, in bytes as asked for, to a resource.
pub struct Limiting<R> {
    inner: R,
    limit_bytes: u64,
    used: AtomicU64,
}

/// Bytes set aside for a request under way; given back unless the request succeeds, whatever
/// happens meanwhile.
struct Claim<'a> {
    used: &'a AtomicU64,
    bytes: u64,
}

impl Claim<'_> {
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl<R: MemoryResource> Limiting<R> {
    /// Lets at most `limit_bytes` through at a time.
    pub fn new(inner: R, limit_bytes: u64) -> Self {
        Limiting {
            inner,
            limit_bytes,
            used: AtomicU64::new(0),
        }
    }

    /// The resource below.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    /// Bytes counted against the limit.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    fn claim(&self, bytes: u64) -> Result<Claim<'_>> {
        let add = |used: u64| {
            used.checked_add(bytes)
                .filter(|total| *total <= self.limit_bytes)
        };
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
            .map_err(|used| MemoryError::LimitExceeded {
                requested: bytes,
                used,
                limit: self.limit_bytes,
            })?;
        Ok(Claim {
            used: &self.used,
            bytes,
        })
    }
}

impl<R: MemoryResource> MemoryResource for Limiting<R> {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let claim = self.claim(request.bytes)?;
        let allocation = self.inner.allocate(request)?;
        claim.keep();
        Ok(allocation)
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        self.inner.deallocate(allocation, stream)?;
        self.used.fetch_sub(allocation.bytes(), Ordering::AcqRel);
        Ok(())
    }

    fn usage(&self) -> Result<Usage> {
        let usage = self.inner.usage()?;
        Ok(Usage {
            capacity_bytes: usage.capacity_bytes.min(self.limit_bytes),
            ..usage
        })
    }
}
