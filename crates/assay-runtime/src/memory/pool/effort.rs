//! What a pool does when nothing free fits, from the cheapest to the last.

use super::{Pool, Wanted};
use crate::backend::{BackendError, Space, StreamId};
use crate::memory::block::Zone;
use crate::memory::error::MemoryError;
use crate::memory::heap::{CHUNK_BYTES, COMMON};
use crate::memory::options::CrossStream;
use crate::memory::resource::{Allocation, Result};

/// What to try when nothing fits, in order.
#[derive(Clone, Copy)]
enum Effort {
    /// Look again, and at what other streams are done with.
    Reclaim,
    /// Join what this stream may use: small blocks held back, own blocks with common ones.
    Join,
    /// Ask the device for a slab.
    Grow,
    /// Take from other streams, waiting for them in stream order.
    Wait,
    /// Do without the boundary between small and large.
    Scrape,
}

impl Pool {
    #[cold]
    pub(super) fn allocate_with_effort(&self, wanted: Wanted) -> Result<Allocation> {
        let _growth = self.growth.lock().map_err(|_| MemoryError::Poisoned {
            resource: "memory pool",
        })?;
        let efforts = match self.options.cross_stream {
            CrossStream::GrowFirst => &[
                Effort::Reclaim,
                Effort::Join,
                Effort::Grow,
                Effort::Wait,
                Effort::Scrape,
            ][..],
            CrossStream::WaitFirst => &[
                Effort::Reclaim,
                Effort::Join,
                Effort::Wait,
                Effort::Grow,
                Effort::Scrape,
            ][..],
            CrossStream::Never => &[Effort::Join, Effort::Grow, Effort::Scrape][..],
        };
        for effort in efforts {
            let taken = match effort {
                Effort::Reclaim => self.by_reclaiming(wanted)?,
                Effort::Join => self.by_joining(wanted)?,
                Effort::Grow => self.by_growing(wanted)?,
                Effort::Wait => self.by_waiting(wanted)?,
                Effort::Scrape => self.by_scraping(wanted)?,
            };
            if let Some(allocation) = taken {
                return Ok(allocation);
            }
        }
        let state = self.lock()?;
        Err(self.out_of_memory(&state, wanted.requested))
    }

    fn by_reclaiming(&self, wanted: Wanted) -> Result<Option<Allocation>> {
        let mut state = self.lock()?;
        if let Some(allocation) = self.try_take(&mut state, wanted)? {
            return Ok(Some(allocation));
        }
        let slot = state.slot(&*self.backend, wanted.stream)?;
        state.reclaim(&*self.backend, slot, false)?;
        self.try_take(&mut state, wanted)
    }

    fn by_joining(&self, wanted: Wanted) -> Result<Option<Allocation>> {
        let mut state = self.lock()?;
        let slot = state.slot(&*self.backend, wanted.stream)?;
        for slot in [slot, COMMON] {
            if state.heap.lists[slot].quick_bytes >= CHUNK_BYTES {
                state.heap.flush_quick(slot);
            }
        }
        state.heap.dissolve(slot);
        self.try_take(&mut state, wanted)
    }

    fn by_growing(&self, wanted: Wanted) -> Result<Option<Allocation>> {
        let room = self.options.capacity_bytes - self.lock()?.statistics.held_bytes;
        let least = match wanted.class {
            Some(_) => CHUNK_BYTES.min(room),
            None => wanted.bytes,
        };
        let usual = self.options.slab_bytes.max(least).min(room);
        if usual < least.max(wanted.bytes) {
            return Ok(None);
        }
        let (address, bytes) = match self.allocate_slab(usual) {
            Ok(address) => (address, usual),
            // The device may be fuller than the pool was told; perhaps the least still fits.
            Err(BackendError::OutOfMemory { .. }) => match self.allocate_slab(least) {
                Ok(address) => (address, least),
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
        self.try_take(&mut state, wanted)
    }

    fn by_waiting(&self, wanted: Wanted) -> Result<Option<Allocation>> {
        let slots = self.lock()?.slot_count();
        for other in 1..slots {
            let taken = if wanted.stream == StreamId::HOST {
                self.by_waiting_on_host(other, wanted)?
            } else {
                let mut state = self.lock()?;
                let slot = state.slot(&*self.backend, wanted.stream)?;
                match state.wait_for_other(&*self.backend, other, slot, wanted.stream)? {
                    true => self.try_take(&mut state, wanted)?,
                    false => None,
                }
            };
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }

    fn by_waiting_on_host(&self, other: usize, wanted: Wanted) -> Result<Option<Allocation>> {
        loop {
            let Some(event) = self.lock()?.event_of(&*self.backend, other)? else {
                return self.try_take(&mut *self.lock()?, wanted);
            };
            // Waiting may take long, so nobody is kept from freeing meanwhile.
            match self.backend.synchronize_event(event) {
                Ok(()) => {}
                Err(error) if error.ends_work() => {}
                Err(error) => return Err(error.into()),
            }
            let mut state = self.lock()?;
            state.statistics.host_waits += 1;
            state.reclaim(&*self.backend, COMMON, false)?;
            let taken = self.try_take(&mut state, wanted)?;
            if taken.is_some() {
                return Ok(taken);
            }
        }
    }

    fn by_scraping(&self, wanted: Wanted) -> Result<Option<Allocation>> {
        let mut state = self.lock()?;
        let slot = state.slot(&*self.backend, wanted.stream)?;
        for slot in [slot, COMMON] {
            state.heap.flush_quick(slot);
        }
        state.heap.dissolve(slot);
        if let Some(allocation) = self.try_take(&mut state, wanted)? {
            return Ok(Some(allocation));
        }
        let found = [Zone::Large, Zone::Small]
            .into_iter()
            .find_map(|zone| state.heap.take(slot, zone, wanted.bytes));
        Ok(found.map(|index| self.commit(&mut state, index, wanted)))
    }

    fn allocate_slab(&self, bytes: u64) -> std::result::Result<u64, BackendError> {
        match self.options.space {
            Space::Device => self.backend.allocate_device(bytes).map(|pointer| pointer.0),
            Space::Host => self.backend.allocate_host(bytes).map(|pointer| pointer.0),
        }
    }
}
