//! The right to use an evictable buffer.

use super::{BufferId, Residency};
use crate::backend::Address;
use crate::memory::resource::Allocation;
use std::sync::Arc;

/// Keeps a buffer on the device, at one address, while it lives.
pub struct Lease {
    residency: Arc<Residency>,
    buffer: BufferId,
    allocation: Allocation,
}

impl Lease {
    pub(super) fn new(residency: Arc<Residency>, buffer: BufferId, allocation: Allocation) -> Self {
        Lease {
            residency,
            buffer,
            allocation,
        }
    }

    /// Where the buffer is now.
    pub fn address(&self) -> Address {
        self.allocation.address()
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.allocation.bytes()
    }

    /// Which buffer it is.
    pub fn buffer(&self) -> BufferId {
        self.buffer
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.residency.end_lease(self.buffer);
    }
}
