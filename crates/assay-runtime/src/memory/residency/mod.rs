//! Residency of evictable buffers: spill to pinned host memory under pressure, restore on use.
//!
//! A buffer is used through a [`Lease`], which restores it if it was spilled and pins it. Under
//! memory pressure, buffers without leases are evicted in LRU order. All copies are queued on the
//! stream that needs the memory, after the work of every stream that used the buffer, so nothing
//! here blocks the host.

mod lease;
mod spill;

pub use lease::Lease;

use super::error::MemoryError;
use super::resource::{Allocation, MemoryResource, Request, Result, TenantId};
use crate::backend::{Backend, EventId, StreamId};
use crate::sync::{Mutex, MutexGuard};
use assay_collections::Lru;
use std::collections::VecDeque;
use std::sync::Arc;

/// An evictable buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId {
    index: u32,
    generation: u32,
}

/// The direction of a movement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Device to host, to free device memory.
    Spilled,
    /// Host to device, for use.
    Restored,
}

/// One spill or restore of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movement {
    /// When it was queued.
    pub time_ns: u64,
    /// The buffer.
    pub buffer: BufferId,
    /// Its direction.
    pub direction: Direction,
    /// The buffer's size.
    pub bytes: u64,
    /// The stream of the copy.
    pub stream: StreamId,
}

/// Totals of a [`Residency`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResidencyUsage {
    /// Requested bytes of resident buffers.
    pub resident_bytes: u64,
    /// Requested bytes of spilled buffers.
    pub spilled_bytes: u64,
    /// Spills so far.
    pub spills: u64,
    /// Restores so far.
    pub restores: u64,
    /// Leases held.
    pub leases: u64,
    /// Movements dropped because the log was full.
    pub dropped_movements: u64,
}

/// Movements kept for [`Residency::take_movements`].
const MOVEMENT_LOG_CAPACITY: usize = 1 << 16;

#[derive(Clone, Copy)]
enum Location {
    Device(Allocation),
    Host(Allocation),
}

struct Entry {
    request: Request,
    location: Location,
    leases: u32,
    /// Streams that may have unfinished work on the buffer.
    users: Vec<StreamId>,
    /// The event after the last spill or restore, and the stream of that copy.
    last_copy: Option<(EventId, StreamId)>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    /// Resident buffers.
    lru: Lru,
    spare_events: Vec<EventId>,
    movements: VecDeque<Movement>,
    usage: ResidencyUsage,
}

/// Evictable buffers over a device resource, spilled to a host resource.
///
/// Neither resource may call back into this one: a failure callback belongs above it.
pub struct Residency {
    backend: Arc<dyn Backend>,
    device: Arc<dyn MemoryResource>,
    host: Arc<dyn MemoryResource>,
    state: Mutex<State>,
}

impl Residency {
    /// Keeps buffers in `device` memory and spills them to `host` memory.
    pub fn new(
        backend: Arc<dyn Backend>,
        device: Arc<dyn MemoryResource>,
        host: Arc<dyn MemoryResource>,
    ) -> Arc<Self> {
        Arc::new(Residency { backend, device, host, state: Mutex::new(State::default()) })
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        self.state.lock().map_err(|_| MemoryError::Poisoned { resource: "buffer residency" })
    }

    /// Creates a buffer on the device, evicting others if necessary.
    pub fn create(&self, request: &Request) -> Result<BufferId> {
        let mut state = self.lock()?;
        let allocation = self.allocate(&mut state, request)?;
        Ok(state.insert(request, allocation))
    }

    /// Creates a buffer from an existing allocation of the device resource.
    ///
    /// `request` is that of the allocation; no work may be queued on the memory.
    pub fn adopt(&self, request: &Request, allocation: Allocation) -> Result<BufferId> {
        Ok(self.lock()?.insert(request, allocation))
    }

    /// Destroys a buffer; its memory is freed in the order of `stream`.
    pub fn destroy(&self, buffer: BufferId, stream: StreamId) -> Result<()> {
        let mut state = self.lock()?;
        let entry = state.entry(buffer)?;
        if entry.leases > 0 {
            return Err(MemoryError::BufferInUse { buffer: buffer.index, leases: entry.leases });
        }
        match self.order_after_users(&mut state, buffer, stream) {
            // Work that failed does not touch the memory again.
            Ok(()) => {}
            Err(MemoryError::Backend(error)) if error.ends_work() => {}
            Err(error) => return Err(error),
        }
        let entry = state.entry(buffer)?;
        let bytes = entry.request.bytes;
        match entry.location {
            Location::Device(allocation) => {
                self.device.deallocate(allocation, stream)?;
                state.usage.resident_bytes -= bytes;
            }
            Location::Host(allocation) => {
                self.host.deallocate(allocation, stream)?;
                state.usage.spilled_bytes -= bytes;
            }
        }
        state.lru.remove(buffer.index);
        let slot = &mut state.slots[buffer.index as usize];
        let last_copy = slot.entry.take().and_then(|entry| entry.last_copy);
        state.spare_events.extend(last_copy.map(|(event, _)| event));
        state.free_slots.push(buffer.index);
        Ok(())
    }

    /// Evicts this buffer, whatever its LRU position.
    pub fn evict(&self, buffer: BufferId, stream: StreamId) -> Result<()> {
        let mut state = self.lock()?;
        let entry = state.entry(buffer)?;
        match (entry.location, entry.leases) {
            (Location::Host(_), _) => Ok(()),
            (Location::Device(_), 0) => {
                let copy_stream = self.copy_stream(stream);
                self.spill(&mut state, buffer, copy_stream)
            }
            (Location::Device(_), leases) => {
                Err(MemoryError::BufferInUse { buffer: buffer.index, leases })
            }
        }
    }

    /// Evicts one buffer in response to `pressure`; returns false if none can be evicted.
    ///
    /// Evicts the least recently used buffer; for an exceeded quota, that of the tenant. Meant for
    /// a [`FailureCallbackAdaptor`](super::adaptors::FailureCallbackAdaptor).
    pub fn evict_for(
        &self,
        pressure: &MemoryError,
        stream: StreamId,
        tenant: TenantId,
    ) -> Result<bool> {
        self.evict_lru(&mut *self.lock()?, pressure, stream, tenant)
    }

    /// Tells that a stream is about to be destroyed and all its work has finished.
    pub fn forget_stream(&self, stream: StreamId) -> Result<()> {
        let mut state = self.lock()?;
        for entry in state.slots.iter_mut().filter_map(|slot| slot.entry.as_mut()) {
            entry.users.retain(|user| *user != stream);
        }
        Ok(())
    }

    /// Whether the buffer is resident on the device.
    pub fn is_resident(&self, buffer: BufferId) -> Result<bool> {
        let state = self.lock()?;
        Ok(matches!(state.entry(buffer)?.location, Location::Device(_)))
    }

    /// Resident buffers, least recently used first.
    pub fn resident_order(&self) -> Result<Vec<BufferId>> {
        let state = self.lock()?;
        let ids = state.lru.iter().map(|index| state.id(index)).collect();
        Ok(ids)
    }

    /// Current totals.
    pub fn usage(&self) -> Result<ResidencyUsage> {
        Ok(self.lock()?.usage)
    }

    /// Movements since the last call, oldest first.
    pub fn take_movements(&self) -> Result<Vec<Movement>> {
        Ok(self.lock()?.movements.drain(..).collect())
    }
}

impl State {
    /// Adds a resident buffer.
    fn insert(&mut self, request: &Request, allocation: Allocation) -> BufferId {
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.entry = Some(Entry {
            request: *request,
            location: Location::Device(allocation),
            leases: 0,
            users: Vec::from_iter((request.stream != StreamId::HOST).then_some(request.stream)),
            last_copy: None,
        });
        let generation = slot.generation;
        self.lru.touch(index);
        self.usage.resident_bytes += request.bytes;
        BufferId { index, generation }
    }

    fn id(&self, index: u32) -> BufferId {
        BufferId { index, generation: self.slots[index as usize].generation }
    }

    fn entry(&self, buffer: BufferId) -> Result<&Entry> {
        let slot = self.slots.get(buffer.index as usize);
        slot.filter(|slot| slot.generation == buffer.generation)
            .and_then(|slot| slot.entry.as_ref())
            .ok_or(MemoryError::UnknownBuffer { buffer: buffer.index })
    }

    fn entry_mut(&mut self, buffer: BufferId) -> Result<&mut Entry> {
        let slot = self.slots.get_mut(buffer.index as usize);
        slot.filter(|slot| slot.generation == buffer.generation)
            .and_then(|slot| slot.entry.as_mut())
            .ok_or(MemoryError::UnknownBuffer { buffer: buffer.index })
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        let Ok(mut state) = self.lock() else {
            return;
        };
        let slots = std::mem::take(&mut state.slots);
        let mut events = std::mem::take(&mut state.spare_events);
        drop(state);
        // Errors cannot be reported from a drop.
        for entry in slots.into_iter().filter_map(|slot| slot.entry) {
            let copy_stream = entry.last_copy.map(|(_, stream)| stream);
            for user in entry.users.iter().copied().chain(copy_stream) {
                let _ = self.backend.synchronize_stream(user);
            }
            let _ = match entry.location {
                Location::Device(allocation) => self.device.deallocate(allocation, StreamId::HOST),
                Location::Host(allocation) => self.host.deallocate(allocation, StreamId::HOST),
            };
            events.extend(entry.last_copy.map(|(event, _)| event));
        }
        for event in events {
            let _ = self.backend.destroy_event(event);
        }
    }
}
