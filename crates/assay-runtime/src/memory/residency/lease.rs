//! Leases pin evictable buffers on the device.

use super::{BufferId, Location, Residency};
use crate::backend::{Address, StreamId};
use crate::memory::resource::{Allocation, Result};
use std::sync::Arc;

/// Pins a buffer on the device, at a fixed address, until dropped.
pub struct Lease {
    residency: Arc<Residency>,
    buffer: BufferId,
    allocation: Allocation,
}

impl Residency {
    /// Restores the buffer if it was spilled, orders `stream` after the copy, and pins the buffer
    /// until the lease is dropped.
    pub fn lease(self: &Arc<Self>, buffer: BufferId, stream: StreamId) -> Result<Lease> {
        let mut state = self.lock()?;
        let allocation = match state.entry(buffer)?.location {
            Location::Device(allocation) => allocation,
            Location::Host(_) => {
                let copy_stream = self.copy_stream(stream);
                self.restore(&mut state, buffer, copy_stream)?
            }
        };
        self.order_after_movement(&mut state, buffer, stream)?;
        let entry = state.entry_mut(buffer)?;
        entry.leases += 1;
        if stream != StreamId::HOST && !entry.users.contains(&stream) {
            entry.users.push(stream);
        }
        state.lru.touch(buffer.index);
        state.usage.leases += 1;
        Ok(Lease { residency: Arc::clone(self), buffer, allocation })
    }

    fn end_lease(&self, buffer: BufferId) {
        if let Ok(mut state) = self.lock() {
            state.usage.leases -= 1;
            if let Ok(entry) = state.entry_mut(buffer) {
                entry.leases -= 1;
            }
        }
    }
}

impl Lease {
    /// The buffer's address.
    pub fn address(&self) -> Address {
        self.allocation.address()
    }

    /// The buffer's size.
    pub fn bytes(&self) -> u64 {
        self.allocation.bytes()
    }

    /// The buffer.
    pub fn buffer(&self) -> BufferId {
        self.buffer
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.residency.end_lease(self.buffer);
    }
}
