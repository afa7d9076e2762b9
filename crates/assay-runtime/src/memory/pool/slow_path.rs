//! The slow path of an allocation: fallbacks when no free block fits, cheapest first.

use super::{Pool, SizedRequest};
use crate::backend::{BackendError, Space, StreamId};
use crate::memory::block::Zone;
use crate::memory::error::MemoryError;
use crate::memory::heap::{ANY_STREAM, CHUNK_BYTES};
use crate::memory::options::CrossStream;
use crate::memory::resource::{Allocation, Result};

/// One way to find memory when no free block fits.
#[derive(Clone, Copy)]
enum Fallback {
    /// Retry, with blocks that other streams freed and no longer use.
    Reclaim,
    /// Coalesce all that this stream may use, including cached small blocks.
    Coalesce,
    /// Allocate a slab from the device.
    Grow,
    /// Take other streams' blocks, ordered by an event wait.
    Wait,
    /// Ignore the boundary between the small and the large zone.
    AnyZone,
}

impl Pool {
    #[cold]
    pub(super) fn allocate_slow_path(&self, request: SizedRequest) -> Result<Allocation> {
        let _growth =
            self.growth.lock().map_err(|_| MemoryError::Poisoned { resource: "memory pool" })?;
        let fallbacks = match self.options.cross_stream {
            CrossStream::GrowFirst => &[
                Fallback::Reclaim,
                Fallback::Coalesce,
                Fallback::Grow,
                Fallback::Wait,
                Fallback::AnyZone,
            ][..],
            CrossStream::WaitFirst => &[
                Fallback::Reclaim,
                Fallback::Coalesce,
                Fallback::Wait,
                Fallback::Grow,
                Fallback::AnyZone,
            ][..],
            CrossStream::Never => &[Fallback::Coalesce, Fallback::Grow, Fallback::AnyZone][..],
        };
        for fallback in fallbacks {
            let found = match fallback {
                Fallback::Reclaim => self.try_reclaim(request)?,
                Fallback::Coalesce => self.try_coalesce(request)?,
                Fallback::Grow => self.try_grow(request)?,
                Fallback::Wait => self.try_wait(request)?,
                Fallback::AnyZone => self.try_any_zone(request)?,
            };
            if let Some(allocation) = found {
                return Ok(allocation);
            }
        }
        let state = self.lock()?;
        Err(self.out_of_memory(&state, request.requested))
    }

    fn try_reclaim(&self, request: SizedRequest) -> Result<Option<Allocation>> {
        let mut state = self.lock()?;
        if let Some(allocation) = self.try_allocate(&mut state, request)? {
            return Ok(Some(allocation));
        }
        let slot = state.slot(&*self.backend, request.stream)?;
        state.reclaim(&*self.backend, slot, false)?;
        self.try_allocate(&mut state, request)
    }

    fn try_coalesce(&self, request: SizedRequest) -> Result<Option<Allocation>> {
        let mut state = self.lock()?;
        let slot = state.slot(&*self.backend, request.stream)?;
        for slot in [slot, ANY_STREAM] {
            if state.heap.lists[slot].cached_bytes >= CHUNK_BYTES {
                state.heap.coalesce_cached(slot);
            }
        }
        state.heap.coalesce_all(slot);
        self.try_allocate(&mut state, request)
    }

    fn try_grow(&self, request: SizedRequest) -> Result<Option<Allocation>> {
        let room = self.options.capacity_bytes - self.lock()?.statistics.held_bytes;
        let minimum = match request.class {
            Some(_) => CHUNK_BYTES.min(room),
            None => request.bytes,
        };
        let preferred = self.options.slab_bytes.max(minimum).min(room);
        if preferred < minimum.max(request.bytes) {
            return Ok(None);
        }
        let (address, bytes) = match self.allocate_slab(preferred) {
            Ok(address) => (address, preferred),
            // The device may have less memory than the pool's capacity; the minimum may still fit.
            Err(BackendError::OutOfMemory { .. }) => match self.allocate_slab(minimum) {
                Ok(address) => (address, minimum),
                Err(BackendError::OutOfMemory { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        let mut state = self.lock()?;
        state.heap.add_slab(address, bytes);
        let statistics = &mut state.statistics;
        statistics.slabs_allocated += 1;
        statistics.held_bytes += bytes;
        statistics.peak_held_bytes = statistics.peak_held_bytes.max(statistics.held_bytes);
        self.try_allocate(&mut state, request)
    }

    fn try_wait(&self, request: SizedRequest) -> Result<Option<Allocation>> {
        let slots = self.lock()?.slot_count();
        for other in 1..slots {
            let found = if request.stream == StreamId::HOST {
                self.try_wait_on_host(other, request)?
            } else {
                let mut state = self.lock()?;
                let slot = state.slot(&*self.backend, request.stream)?;
                match state.take_from_slot(&*self.backend, other, slot, request.stream)? {
                    true => self.try_allocate(&mut state, request)?,
                    false => None,
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn try_wait_on_host(&self, other: usize, request: SizedRequest) -> Result<Option<Allocation>> {
        loop {
            let Some(event) = self.lock()?.event_of(&*self.backend, other)? else {
                return self.try_allocate(&mut *self.lock()?, request);
            };
            // Waits without the lock, so that other threads can free meanwhile.
            match self.backend.synchronize_event(event) {
                Ok(()) => {}
                Err(error) if error.ends_work() => {}
                Err(error) => return Err(error.into()),
            }
            let mut state = self.lock()?;
            state.statistics.host_waits += 1;
            state.reclaim(&*self.backend, ANY_STREAM, false)?;
            let found = self.try_allocate(&mut state, request)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn try_any_zone(&self, request: SizedRequest) -> Result<Option<Allocation>> {
        let mut state = self.lock()?;
        let slot = state.slot(&*self.backend, request.stream)?;
        for slot in [slot, ANY_STREAM] {
            state.heap.coalesce_cached(slot);
        }
        state.heap.coalesce_all(slot);
        if let Some(allocation) = self.try_allocate(&mut state, request)? {
            return Ok(Some(allocation));
        }
        let found = [Zone::Large, Zone::Small]
            .into_iter()
            .find_map(|zone| state.heap.take(slot, zone, request.bytes));
        Ok(found.map(|index| self.commit(&mut state, index, request)))
    }

    fn allocate_slab(&self, bytes: u64) -> std::result::Result<u64, BackendError> {
        match self.options.space {
            Space::Device => self.backend.allocate_device(bytes).map(|pointer| pointer.0),
            Space::Host => self.backend.allocate_host(bytes).map(|pointer| pointer.0),
        }
    }
}
