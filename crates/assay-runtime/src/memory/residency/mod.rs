//! Buffers that may leave the device when it is full and come back byte for byte when used.
//!
//! A buffer is used through a [`Lease`], which brings it in if need be and keeps it there. When
//! memory is short, buffers without leases leave in true order of last use. All copies are queued
//! on the stream that needs the memory, after the work of every stream that used the buffer, so
//! nothing here blocks the host.

mod lease;
mod movement;

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

/// Which way a buffer went.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// From the device to the host, to make room.
    Spilled,
    /// From the host to the device, to be used.
    Restored,
}

/// One movement of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movement {
    /// When it was queued.
    pub time_ns: u64,
    /// The buffer.
    pub buffer: BufferId,
    /// Which way.
    pub direction: Direction,
    /// How many bytes.
    pub bytes: u64,
    /// On which stream.
    pub stream: StreamId,
}

/// Totals of a [`Residency`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResidencyUsage {
    /// Bytes of buffers on the device, as asked for.
    pub resident_bytes: u64,
    /// Bytes of buffers on the host, as asked for.
    pub spilled_bytes: u64,
    /// Spills so far.
    pub spills: u64,
    /// Restores so far.
    pub restores: u64,
    /// Leases held.
    pub leases: u64,
    /// Movements dropped from the record because nobody took them.
    pub dropped_movements: u64,
}

/// Movements kept for [`Residency::take_movements`].
const KEPT_MOVEMENTS: usize = 1 << 16;

#[derive(Clone, Copy)]
enum Place {
    Device(Allocation),
    Host(Allocation),
}

struct Entry {
    request: Request,
    place: Place,
    leases: u32,
    /// Streams that may still have work on the buffer.
    users: Vec<StreamId>,
    /// The last movement: done when the event passes, in order for its stream.
    moved: Option<(EventId, StreamId)>,
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
    /// Buffers on the device, by last use.
    order: Lru,
    spare_events: Vec<EventId>,
    movements: VecDeque<Movement>,
    usage: ResidencyUsage,
}

/// Evictable buffers over a device resource, spilled to a host resource.
///
/// Neither resource may call back into this one: put a failure callback above, not below.
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
        Arc::new(Residency {
            backend,
            device,
            host,
            state: Mutex::new(State::default()),
        })
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        self.state.lock().map_err(|_| MemoryError::Poisoned {
            resource: "residency of buffers",
        })
    }

    /// Makes a buffer on the device, evicting others if need be.
    pub fn create(&self, request: &Request) -> Result<BufferId> {
        let mut state = self.lock()?;
        let allocation = self.allocate(&mut state, request)?;
        Ok(state.enter(request, allocation))
    }

    /// Makes a buffer of memory that was allocated before from the device resource.
    ///
    /// The request is the one that it was allocated by; no work may be under way on the memory.
    pub fn adopt(&self, request: &Request, allocation: Allocation) -> Result<BufferId> {
        Ok(self.lock()?.enter(request, allocation))
    }

    /// Ends a buffer; its memory is given back in the order of `stream`.
    pub fn destroy(&self, buffer: BufferId, stream: StreamId) -> Result<()> {
        let mut state = self.lock()?;
        let entry = state.entry(buffer)?;
        if entry.leases > 0 {
            return Err(MemoryError::BufferInUse {
                buffer: buffer.index,
                leases: entry.leases,
            });
        }
        match self.order_after_users(&mut state, buffer, stream) {
            // What failed on the device does not touch the memory again.
            Ok(()) => {}
            Err(MemoryError::Backend(error)) if error.ends_work() => {}
            Err(error) => return Err(error),
        }
        let entry = state.entry(buffer)?;
        let bytes = entry.request.bytes;
        match entry.place {
            Place::Device(allocation) => {
                self.device.deallocate(allocation, stream)?;
                state.usage.resident_bytes -= bytes;
            }
            Place::Host(allocation) => {
                self.host.deallocate(allocation, stream)?;
                state.usage.spilled_bytes -= bytes;
            }
        }
        state.order.remove(buffer.index);
        let slot = &mut state.slots[buffer.index as usize];
        let moved = slot.entry.take().and_then(|entry| entry.moved);
        state.spare_events.extend(moved.map(|(event, _)| event));
        state.free_slots.push(buffer.index);
        Ok(())
    }

    /// Brings the buffer in, makes `stream` wait for it, and keeps it there until dropped.
    pub fn lease(self: &Arc<Self>, buffer: BufferId, stream: StreamId) -> Result<Lease> {
        let mut state = self.lock()?;
        let allocation = match state.entry(buffer)?.place {
            Place::Device(allocation) => allocation,
            Place::Host(_) => {
                let on = self.copying_stream(stream);
                self.restore(&mut state, buffer, on)?
            }
        };
        self.order_after_movement(&mut state, buffer, stream)?;
        let entry = state.entry_mut(buffer)?;
        entry.leases += 1;
        if stream != StreamId::HOST && !entry.users.contains(&stream) {
            entry.users.push(stream);
        }
        state.order.touch(buffer.index);
        state.usage.leases += 1;
        Ok(Lease::new(Arc::clone(self), buffer, allocation))
    }

    fn end_lease(&self, buffer: BufferId) {
        if let Ok(mut state) = self.lock() {
            state.usage.leases -= 1;
            if let Ok(entry) = state.entry_mut(buffer) {
                entry.leases -= 1;
            }
        }
    }

    /// Evicts this buffer now, whatever its place in the order.
    pub fn evict(&self, buffer: BufferId, stream: StreamId) -> Result<()> {
        let mut state = self.lock()?;
        let entry = state.entry(buffer)?;
        match (entry.place, entry.leases) {
            (Place::Host(_), _) => Ok(()),
            (Place::Device(_), 0) => {
                let on = self.copying_stream(stream);
                self.spill(&mut state, buffer, on)
            }
            (Place::Device(_), leases) => Err(MemoryError::BufferInUse {
                buffer: buffer.index,
                leases,
            }),
        }
    }

    /// Evicts the one buffer that would help most against `shortage`, if any is left.
    ///
    /// That is the least recently used; under a quota, the least recently used of that tenant.
    /// Meant for a [`FailureCallback`](super::adaptors::FailureCallback).
    pub fn relieve(
        &self,
        shortage: &MemoryError,
        stream: StreamId,
        tenant: TenantId,
    ) -> Result<bool> {
        self.evict_oldest(&mut *self.lock()?, shortage, stream, tenant)
    }

    /// Tells that a stream is about to be destroyed and all its work is over.
    pub fn forget_stream(&self, stream: StreamId) -> Result<()> {
        let mut state = self.lock()?;
        for entry in state
            .slots
            .iter_mut()
            .filter_map(|slot| slot.entry.as_mut())
        {
            entry.users.retain(|user| *user != stream);
        }
        Ok(())
    }

    /// Whether the buffer is on the device.
    pub fn is_resident(&self, buffer: BufferId) -> Result<bool> {
        let state = self.lock()?;
        Ok(matches!(state.entry(buffer)?.place, Place::Device(_)))
    }

    /// Buffers on the device, least recently used first.
    pub fn resident_order(&self) -> Result<Vec<BufferId>> {
        let state = self.lock()?;
        let ids = state.order.iter().map(|index| state.id(index)).collect();
        Ok(ids)
    }

    /// Totals now.
    pub fn usage(&self) -> Result<ResidencyUsage> {
        Ok(self.lock()?.usage)
    }

    /// Movements since the last call, oldest first.
    pub fn take_movements(&self) -> Result<Vec<Movement>> {
        Ok(self.lock()?.movements.drain(..).collect())
    }
}

impl State {
    /// Books a buffer that is on the device.
    fn enter(&mut self, request: &Request, allocation: Allocation) -> BufferId {
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.entry = Some(Entry {
            request: *request,
            place: Place::Device(allocation),
            leases: 0,
            users: Vec::from_iter((request.stream != StreamId::HOST).then_some(request.stream)),
            moved: None,
        });
        let generation = slot.generation;
        self.order.touch(index);
        self.usage.resident_bytes += request.bytes;
        BufferId { index, generation }
    }

    fn id(&self, index: u32) -> BufferId {
        BufferId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    fn entry(&self, buffer: BufferId) -> Result<&Entry> {
        let slot = self.slots.get(buffer.index as usize);
        slot.filter(|slot| slot.generation == buffer.generation)
            .and_then(|slot| slot.entry.as_ref())
            .ok_or(MemoryError::UnknownBuffer {
                buffer: buffer.index,
            })
    }

    fn entry_mut(&mut self, buffer: BufferId) -> Result<&mut Entry> {
        let slot = self.slots.get_mut(buffer.index as usize);
        slot.filter(|slot| slot.generation == buffer.generation)
            .and_then(|slot| slot.entry.as_mut())
            .ok_or(MemoryError::UnknownBuffer {
                buffer: buffer.index,
            })
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
        // A refusal here has nobody left to hear it.
        for entry in slots.into_iter().filter_map(|slot| slot.entry) {
            let moved = entry.moved.map(|(_, stream)| stream);
            for user in entry.users.iter().copied().chain(moved) {
                let _ = self.backend.synchronize_stream(user);
            }
            let _ = match entry.place {
                Place::Device(allocation) => self.device.deallocate(allocation, StreamId::HOST),
                Place::Host(allocation) => self.host.deallocate(allocation, StreamId::HOST),
            };
            events.extend(entry.moved.map(|(event, _)| event));
        }
        for event in events {
            let _ = self.backend.destroy_event(event);
        }
    }
}
