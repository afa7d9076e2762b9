//! Memory that may be evicted from the device while unused.

use std::sync::Arc;

use assay_runtime::backend::{Address, StreamId};
use assay_runtime::dispatch::DispatchController;
use assay_runtime::memory::{self, BufferId, Lease, MemoryError, Request, Residency};

/// A buffer of the residency manager, with the lease that keeps it on the device while used.
pub(super) struct Evictable {
    residency: Arc<Residency>,
    id: BufferId,
    lease: Option<Lease>,
    stream: StreamId,
}

impl Evictable {
    /// Takes over pool memory that no unfinished work uses.
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
            // A concurrent call may just have read the address.
            lease: Some(residency.lease(id, stream)?),
            stream,
        })
    }

    /// Restores it for work of `stream`, marks it as most recently used, and returns its address.
    pub fn lease(&mut self, stream: StreamId) -> Result<Address, MemoryError> {
        let lease = self.residency.lease(self.id, stream)?;
        let address = lease.address();
        self.lease = Some(lease);
        Ok(address)
    }

    /// Ends the lease, so that it may be evicted; true if there was one.
    pub fn end_lease(&mut self) -> bool {
        self.lease.take().is_some()
    }

    /// The stream in whose order its memory was allocated and is freed.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    pub fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Evicts it to the host now.
    pub fn evict(&mut self, stream: StreamId) -> Result<(), MemoryError> {
        self.lease = None;
        self.residency.evict(self.id, stream)
    }

    pub fn is_resident(&self) -> Result<bool, MemoryError> {
        self.residency.is_resident(self.id)
    }

    /// Frees the memory, on the device or on the host.
    pub fn free(mut self, dispatch: &DispatchController) {
        self.lease = None;
        if self.residency.destroy(self.id, self.stream).is_err() {
            // The stream may be destroyed; the host stream always exists.
            let _ = dispatch.poll();
            let _ = self.residency.destroy(self.id, StreamId::HOST);
        }
    }
}
