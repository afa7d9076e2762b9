//! An allocation that deallocates itself.

use super::resource::{Allocation, MemoryResource, Request, Result};
use crate::backend::{Address, StreamId};
use std::sync::Arc;

/// An allocation that is deallocated on drop, in the order of its stream.
pub struct Buffer {
    resource: Arc<dyn MemoryResource>,
    allocation: Option<Allocation>,
    stream: StreamId,
}

impl Buffer {
    /// Allocates from a resource.
    pub fn new(resource: Arc<dyn MemoryResource>, request: &Request) -> Result<Self> {
        let allocation = resource.allocate(request)?;
        Ok(Buffer { resource, allocation: Some(allocation), stream: request.stream })
    }

    /// Where it begins, or `None` when it has no bytes.
    pub fn address(&self) -> Option<Address> {
        let allocation = self.allocation.filter(|allocation| allocation.bytes > 0)?;
        Some(allocation.address)
    }

    /// Bytes requested.
    pub fn bytes(&self) -> u64 {
        self.allocation.map_or(0, |allocation| allocation.bytes)
    }

    /// The stream in whose order it will be deallocated.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the allocation; the caller deallocates it.
    pub fn release(mut self) -> Option<Allocation> {
        self.allocation.take()
    }

    /// Deallocates now and returns the outcome.
    pub fn free(mut self) -> Result<()> {
        match self.allocation.take() {
            Some(allocation) => self.resource.deallocate(allocation, self.stream),
            None => Ok(()),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            // Errors cannot be reported from a drop; the pool counts them in its statistics.
            let _ = self.resource.deallocate(allocation, self.stream);
        }
    }
}
