//! Memory that may leave the device while nothing uses it.

use std::sync::Arc;

use assay_runtime::backend::{Address, StreamId};
use assay_runtime::dispatch::DispatchController;
use assay_runtime::memory::{self, BufferId, Lease, MemoryError, Request, Residency};

/// A buffer of the residency, with the lease that keeps it on the device while it is used.
pub(super) struct Evictable {
    residency: Arc<Residency>,
    id: BufferId,
    lease: Option<Lease>,
    stream: StreamId,
}

impl Evictable {
    /// Takes over memory of the pool on which no work is under way.
    pub fn adopt(
        residency: &Arc<Residency>,
        buffer: memory::Buffer,
        request: &Request,
    ) -> Result<Self, MemoryError> {
        let stream = buffer.stream();
        let Some(allocation) = buffer.release() else {
            return Err(MemoryError::Inconsistent {
                what: "a buffer without memory cannot be evicted".to_owned(),
            });
        };
        let id = residency.adopt(request, allocation)?;
        Ok(Evictable {
            residency: Arc::clone(residency),
            id,
            // A call may just have looked at the address.
            lease: Some(residency.lease(id, stream)?),
            stream,
        })
    }

    /// Brings it in for work of `stream`, makes it the most recently used, and says where it is.
    pub fn lease(&mut self, stream: StreamId) -> Result<Address, MemoryError> {
        let lease = self.residency.lease(self.id, stream)?;
        let address = lease.address();
        self.lease = Some(lease);
        Ok(address)
    }

    /// Lets others have its place; true if it was kept.
    pub fn end_lease(&mut self) -> bool {
        self.lease.take().is_some()
    }

    /// The stream in whose order its memory was handed out, and is given back.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    pub fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Copies it to the host now.
    pub fn evict(&mut self, stream: StreamId) -> Result<(), MemoryError> {
        self.lease = None;
        self.residency.evict(self.id, stream)
    }

    pub fn is_resident(&self) -> Result<bool, MemoryError> {
        self.residency.is_resident(self.id)
    }

    /// Gives the memory back, wherever it is.
    pub fn free(mut self, dispatch: &DispatchController) {
        self.lease = None;
        if self.residency.destroy(self.id, self.stream).is_err() {
            // The stream may be gone; the host's own order always is there.
            let _ = dispatch.poll();
            let _ = self.residency.destroy(self.id, StreamId::HOST);
        }
    }
}
