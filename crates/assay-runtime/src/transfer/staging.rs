//! Staging rings: slots of pinned memory that pageable bytes are copied through.

use crate::backend::{Address, HostPointer};
use std::collections::VecDeque;

/// One slot, owned by one chunk.
#[derive(Debug)]
pub(super) struct Slot {
    pub pointer: HostPointer,
}

impl Slot {
    pub fn address(&self) -> Address {
        self.pointer.into()
    }
}

/// Slots issued in rotation and released in any order.
pub(super) struct StagingRing {
    free: VecDeque<Slot>,
    slots: usize,
}

impl StagingRing {
    pub fn new(base: u64, slot_bytes: u64, slots: u32) -> Self {
        let slot = |index: u32| Slot { pointer: HostPointer(base + u64::from(index) * slot_bytes) };
        StagingRing { free: (0..slots).map(slot).collect(), slots: slots as usize }
    }

    pub fn take(&mut self) -> Option<Slot> {
        self.free.pop_front()
    }

    pub fn release(&mut self, slot: Slot) {
        self.free.push_back(slot);
    }

    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Slots in use.
    pub fn used(&self) -> usize {
        self.slots - self.free.len()
    }
}
