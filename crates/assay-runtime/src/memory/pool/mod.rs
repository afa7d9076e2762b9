//! The memory pool: suballocates blocks from slabs of device memory, in stream order.
//!
//! Two locks. `state` guards the whole state and is held for some tens of nanoseconds on the fast
//! path. The slow path takes `growth` before `state`, so that one thread at a time allocates slabs
//! from the device while the others keep allocating and freeing.

mod reservation;
mod slow_path;

pub use reservation::Reservation;

use crate::backend::{
    Address, Backend, BackendError, DevicePointer, EventId, HostPointer, Space, StreamId,
};
use crate::memory::bins::LARGEST_BLOCK_BYTES;
use crate::memory::block::{BlockState, NONE};
use crate::memory::error::MemoryError;
use crate::memory::heap::ANY_STREAM;
use crate::memory::options::PoolOptions;
use crate::memory::quota::TenantUsage;
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, TenantId, Usage};
use crate::memory::size_class::{GRANULE_BYTES, class_of};
use crate::memory::statistics::PoolStatistics;
use crate::memory::stream_order::PoolState;
use crate::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// A pool of device or pinned host memory.
///
/// ```
/// use assay_runtime::backend::{Backend, Space};
/// use assay_runtime::memory::{MemoryResource, Pool, PoolOptions, Request};
/// use assay_runtime::sim::{SimBackend, SimOptions};
/// use std::sync::Arc;
/// let device = Arc::new(SimBackend::new(SimOptions::default())?);
/// let pool = Pool::new(device.clone(), PoolOptions::new(Space::Device, 1 << 30))?;
/// let stream = device.default_stream();
/// let allocation = pool.allocate(&Request::new(1000, stream))?;
/// assert_eq!(pool.usage()?.allocated_bytes, 1024);
/// pool.deallocate(allocation, stream)?;
/// # Ok::<(), assay_runtime::memory::MemoryError>(())
/// ```
pub struct Pool {
    backend: Arc<dyn Backend>,
    options: PoolOptions,
    state: Mutex<PoolState>,
    growth: Mutex<()>,
}

/// A request with its block size and size class.
#[derive(Clone, Copy)]
struct SizedRequest {
    requested: u64,
    bytes: u64,
    class: Option<usize>,
    stream: StreamId,
    tenant: TenantId,
}

impl Pool {
    /// Creates a pool that holds no slab yet.
    pub fn new(backend: Arc<dyn Backend>, options: PoolOptions) -> Result<Self> {
        let options = options.validated()?;
        let state = PoolState::new(options.capacity_bytes, options.expected_blocks);
        Ok(Pool { backend, options, state: Mutex::new(state), growth: Mutex::new(()) })
    }

    /// The validated options.
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }

    fn lock(&self) -> Result<MutexGuard<'_, PoolState>> {
        self.state.lock().map_err(|_| MemoryError::Poisoned { resource: "memory pool" })
    }

    /// The pool's counters.
    pub fn statistics(&self) -> Result<PoolStatistics> {
        let state = self.lock()?;
        Ok(PoolStatistics {
            splits: state.heap.splits,
            coalesces: state.heap.coalesces,
            ..state.statistics
        })
    }

    /// Adds a tenant that may use at most `limit_bytes`.
    pub fn add_tenant(&self, name: &str, limit_bytes: u64) -> Result<TenantId> {
        Ok(self.lock()?.quotas.add(name.to_owned(), limit_bytes))
    }

    /// Changes a tenant's limit; allocations above a lower limit stay valid.
    pub fn set_tenant_limit(&self, tenant: TenantId, limit_bytes: u64) -> Result<()> {
        self.lock()?.quotas.tenant_mut(tenant)?.limit_bytes = limit_bytes;
        Ok(())
    }

    /// A tenant's figures.
    pub fn tenant_usage(&self, tenant: TenantId) -> Result<TenantUsage> {
        Ok(self.lock()?.quotas.tenant(tenant)?.clone())
    }

    /// Tells the pool that a stream is about to be destroyed.
    ///
    /// Blocks freed on it become reusable by any stream once its work has finished. Without this
    /// call, they stay reserved for the destroyed stream.
    pub fn forget_stream(&self, stream: StreamId) -> Result<()> {
        self.lock()?.forget_stream(&*self.backend, stream)
    }

    /// Returns unused slabs to the device, once the work queued before their frees has finished; returns their bytes.
    pub fn trim(&self) -> Result<u64> {
        let _growth =
            self.growth.lock().map_err(|_| MemoryError::Poisoned { resource: "memory pool" })?;
        let pending: Vec<EventId> = {
            let mut state = self.lock()?;
            state.reclaim(&*self.backend, ANY_STREAM, true)?;
            state.pending_events().collect()
        };
        for event in pending {
            match self.backend.synchronize_event(event) {
                // Its stream was destroyed meanwhile, after its work had finished.
                Err(BackendError::UnknownEvent { .. }) => {}
                outcome => outcome?,
            }
        }
        let mut released = Vec::new();
        {
            let mut state = self.lock()?;
            state.heap.coalesce_cached(ANY_STREAM);
            state.reclaim(&*self.backend, ANY_STREAM, true)?;
            state.heap.coalesce_all(ANY_STREAM);
            for position in (0..state.heap.slabs.len()).rev() {
                if let Some(slab) = state.heap.remove_slab(position) {
                    state.statistics.held_bytes -= slab.bytes;
                    state.statistics.slabs_released += 1;
                    released.push(slab);
                }
            }
        }
        let mut bytes = 0;
        for slab in released {
            self.free_slab(slab.address)?;
            bytes += slab.bytes;
        }
        if bytes > 0 && self.options.space == Space::Device {
            self.backend.release_freed()?;
        }
        Ok(bytes)
    }

    /// Checks the pool's state for consistency; slow, for tests and diagnosis.
    pub fn verify(&self) -> Result<()> {
        crate::memory::verify::verify(&*self.lock()?)
    }

    fn sized(&self, request: &Request) -> Option<SizedRequest> {
        let (class, bytes) = if request.bytes <= self.options.small_limit_bytes {
            let (class, bytes) = class_of(request.bytes);
            (Some(class), bytes)
        } else {
            (None, request.bytes.checked_next_multiple_of(GRANULE_BYTES)?)
        };
        if bytes > LARGEST_BLOCK_BYTES {
            return None;
        }
        Some(SizedRequest {
            requested: request.bytes,
            bytes,
            class,
            stream: request.stream,
            tenant: request.tenant,
        })
    }

    fn out_of_memory(&self, state: &PoolState, requested: u64) -> MemoryError {
        let largest_free = state.heap.largest_free();
        let room = self.room_to_grow(state);
        MemoryError::OutOfMemory {
            space: self.options.space,
            requested,
            allocated: state.statistics.allocated_bytes,
            capacity: self.options.capacity_bytes,
            // Room that did not suffice although it is large enough is none.
            largest_free: largest_free.max(if room < requested { room } else { 0 }),
        }
    }

    /// Bytes that a new slab could have: the rest of the capacity, and of the device's memory.
    fn room_to_grow(&self, state: &PoolState) -> u64 {
        let room = self.options.capacity_bytes - state.statistics.held_bytes;
        match (self.options.space, self.backend.memory_info()) {
            (Space::Device, Ok(info)) => room.min(info.free_bytes),
            _ => room,
        }
    }

    /// Coalesces cached small blocks before a large request, if nothing is allocated.
    ///
    /// A large block split beside them would fragment an empty pool.
    #[inline]
    fn coalesce_if_empty(&self, state: &mut PoolState, request: SizedRequest) -> Result<()> {
        if request.class.is_some() || state.statistics.allocated_bytes > 0 {
            return Ok(());
        }
        let slot = state.slot(&*self.backend, request.stream)?;
        let has_cached = |slot: &usize| state.heap.lists[*slot].cached_bytes > 0;
        if [slot, ANY_STREAM].iter().any(has_cached) {
            state.heap.coalesce_cached(slot);
            state.heap.coalesce_cached(ANY_STREAM);
            state.heap.coalesce_all(slot);
        }
        Ok(())
    }

    /// The fast path: checks the quota, then takes a free block of the stream's slot.
    #[inline]
    fn try_allocate(
        &self,
        state: &mut PoolState,
        request: SizedRequest,
    ) -> Result<Option<Allocation>> {
        let slot = state.slot(&*self.backend, request.stream)?;
        if let Err(refusal) = state.quotas.check(request.tenant, request.bytes) {
            let exhausted = matches!(refusal, MemoryError::Reserved { .. });
            return Err(if exhausted && state.quotas.unused_reservations() == 0 {
                self.out_of_memory(state, request.requested)
            } else {
                refusal
            });
        }
        let block = state.take(slot, request.bytes, request.class);
        Ok(block.map(|index| self.commit(state, index, request)))
    }

    #[inline]
    fn commit(&self, state: &mut PoolState, index: u32, request: SizedRequest) -> Allocation {
        let block = &mut state.heap.blocks[index];
        block.state = BlockState::Allocated;
        block.generation = block.generation.wrapping_add(1);
        block.tenant = request.tenant.0;
        block.requested = request.requested;
        let allocation = Allocation {
            address: Address::new(self.options.space, block.address),
            bytes: request.requested,
            index,
            generation: block.generation,
        };
        state.quotas.charge(request.tenant, request.bytes);
        let statistics = &mut state.statistics;
        statistics.allocations += 1;
        statistics.requested_bytes += request.requested;
        statistics.allocated_bytes += request.bytes;
        statistics.peak_allocated_bytes =
            statistics.peak_allocated_bytes.max(statistics.allocated_bytes);
        allocation
    }

    fn free_slab(&self, address: u64) -> Result<()> {
        match self.options.space {
            Space::Device => self.backend.free_device(DevicePointer(address))?,
            Space::Host => self.backend.free_host(HostPointer(address))?,
        }
        Ok(())
    }

    #[inline]
    fn free_block(
        &self,
        state: &mut PoolState,
        allocation: Allocation,
        stream: StreamId,
    ) -> Result<()> {
        let slot = state.slot(&*self.backend, stream)?;
        let address = allocation.address;
        let Some(block) = state.heap.blocks.get(allocation.index) else {
            return Err(MemoryError::UnknownAllocation { address });
        };
        let current = block.generation == allocation.generation
            && block.state == BlockState::Allocated
            && block.address == address.value()
            && address.space() == self.options.space;
        if !current {
            return Err(self.invalid_free(state, allocation));
        }
        let (tenant, bytes, requested) = (TenantId(block.tenant), block.bytes, block.requested);
        state.quotas.refund(tenant, bytes);
        state.statistics.deallocations += 1;
        state.statistics.allocated_bytes -= bytes;
        state.statistics.requested_bytes -= requested;
        let use_class_list = bytes <= self.options.small_limit_bytes;
        state.heap.free(allocation.index, slot, use_class_list);
        Ok(())
    }

    #[cold]
    fn invalid_free(&self, state: &PoolState, allocation: Allocation) -> MemoryError {
        let address = allocation.address;
        let own =
            address.space() == self.options.space
                && state.heap.slabs.iter().any(|slab| {
                    (slab.address..slab.address + slab.bytes).contains(&address.value())
                });
        if own {
            MemoryError::AlreadyFreed { address }
        } else {
            MemoryError::UnknownAllocation { address }
        }
    }
}

impl MemoryResource for Pool {
    fn space(&self) -> Space {
        self.options.space
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        if request.bytes == 0 {
            return Ok(Allocation::empty(self.options.space));
        }
        let outcome = match self.sized(request) {
            Some(request) => {
                let mut state = self.lock()?;
                self.coalesce_if_empty(&mut state, request)?;
                let fast = self.try_allocate(&mut state, request);
                drop(state);
                match fast {
                    Ok(None) => self.allocate_slow_path(request),
                    Ok(Some(allocation)) => return Ok(allocation),
                    Err(error) => Err(error),
                }
            }
            None => Err(self.out_of_memory(&*self.lock()?, request.bytes)),
        };
        if outcome.is_err() {
            self.lock()?.statistics.failures += 1;
        }
        outcome
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        if allocation.index == NONE {
            return Ok(());
        }
        let mut state = self.lock()?;
        let outcome = self.free_block(&mut state, allocation, stream);
        if outcome.is_err() {
            state.statistics.refused_deallocations += 1;
        }
        outcome
    }

    fn usage(&self) -> Result<Usage> {
        let state = self.lock()?;
        let statistics = &state.statistics;
        Ok(Usage {
            allocated_bytes: statistics.allocated_bytes,
            live: statistics.allocations - statistics.deallocations,
            held_bytes: statistics.held_bytes,
            capacity_bytes: self.options.capacity_bytes,
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The slabs are freed even if a panic left the state inconsistent.
        let state = match self.state.lock() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        let slabs: Vec<u64> = state.heap.slabs.iter().map(|slab| slab.address).collect();
        let events: Vec<_> = state.events().collect();
        drop(state);
        // The device frees after all queued work; errors cannot be reported from a drop.
        for event in events {
            let _ = self.backend.destroy_event(event);
        }
        for address in slabs {
            let _ = self.free_slab(address);
        }
    }
}
