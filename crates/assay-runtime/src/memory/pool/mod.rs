//! The memory pool: large pieces from the device, blocks to callers.
//!
//! Two locks. `state` guards all books and is held for some tens of nanoseconds on the usual path.
//! `growth` is taken, before `state`, by whoever found nothing: so that one thread at a time goes
//! to the device for more, while the others keep allocating and freeing.

mod effort;
mod reservation;

pub use reservation::Reservation;

use crate::backend::{Address, Backend, DevicePointer, HostPointer, Space, StreamId};
use crate::memory::bins::LARGEST_BLOCK_BYTES;
use crate::memory::block::{BlockState, NONE};
use crate::memory::error::MemoryError;
use crate::memory::heap::COMMON;
use crate::memory::options::PoolOptions;
use crate::memory::order::State;
use crate::memory::quota::TenantUsage;
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, TenantId, Usage};
use crate::memory::size_class::{GRANULE_BYTES, class_of};
use crate::memory::statistics::PoolStatistics;
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
    state: Mutex<State>,
    growth: Mutex<()>,
}

/// A request in the pool's own terms.
#[derive(Clone, Copy)]
struct Wanted {
    requested: u64,
    bytes: u64,
    class: Option<usize>,
    stream: StreamId,
    tenant: TenantId,
}

impl Pool {
    /// Makes a pool that holds nothing yet.
    pub fn new(backend: Arc<dyn Backend>, options: PoolOptions) -> Result<Self> {
        let options = options.validated()?;
        let state = State::new(options.capacity_bytes, options.expected_blocks);
        Ok(Pool {
            backend,
            options,
            state: Mutex::new(state),
            growth: Mutex::new(()),
        })
    }

    /// The options as the pool uses them.
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        self.state.lock().map_err(|_| MemoryError::Poisoned {
            resource: "memory pool",
        })
    }

    /// What the pool has done so far.
    pub fn statistics(&self) -> Result<PoolStatistics> {
        let state = self.lock()?;
        Ok(PoolStatistics {
            splits: state.heap.splits,
            joins: state.heap.joins,
            ..state.statistics
        })
    }

    /// Adds a tenant that may use at most `limit_bytes`.
    pub fn add_tenant(&self, name: &str, limit_bytes: u64) -> Result<TenantId> {
        Ok(self.lock()?.ledger.add(name.to_owned(), limit_bytes))
    }

    /// Changes a tenant's limit; what it already has above it, it keeps.
    pub fn set_tenant_limit(&self, tenant: TenantId, limit_bytes: u64) -> Result<()> {
        self.lock()?.ledger.tenant_mut(tenant)?.limit_bytes = limit_bytes;
        Ok(())
    }

    /// A tenant's figures.
    pub fn tenant_usage(&self, tenant: TenantId) -> Result<TenantUsage> {
        Ok(self.lock()?.ledger.tenant(tenant)?.clone())
    }

    /// Promises a tenant memory until the reservation is dropped.
    ///
    /// The promise is one of quantity: others cannot use the bytes up. It is not one of contiguity.
    pub fn reserve(self: &Arc<Self>, tenant: TenantId, bytes: u64) -> Result<Reservation> {
        self.lock()?.ledger.reserve(tenant, bytes)?;
        Ok(Reservation {
            pool: Arc::clone(self),
            tenant,
            bytes,
        })
    }

    /// Tells the pool that a stream is about to be destroyed.
    ///
    /// Memory freed on it becomes common once its work is done. Without this call, that memory is
    /// kept for a stream that never comes back.
    pub fn forget_stream(&self, stream: StreamId) -> Result<()> {
        self.lock()?.forget(&*self.backend, stream)
    }

    /// Gives wholly free slabs back to the device and returns how many bytes that were.
    pub fn trim(&self) -> Result<u64> {
        let _growth = self.growth.lock().map_err(|_| MemoryError::Poisoned {
            resource: "memory pool",
        })?;
        let mut released = Vec::new();
        {
            let mut state = self.lock()?;
            state.heap.flush_quick(COMMON);
            state.reclaim(&*self.backend, COMMON, true)?;
            state.heap.dissolve(COMMON);
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
        Ok(bytes)
    }

    /// Checks all books against each other; slow, for tests and diagnosis.
    pub fn verify(&self) -> Result<()> {
        crate::memory::verify::verify(&*self.lock()?)
    }

    fn wanted(&self, request: &Request) -> Option<Wanted> {
        let (class, bytes) = if request.bytes <= self.options.small_limit_bytes {
            let (class, bytes) = class_of(request.bytes);
            (Some(class), bytes)
        } else {
            (None, request.bytes.checked_next_multiple_of(GRANULE_BYTES)?)
        };
        if bytes > LARGEST_BLOCK_BYTES {
            return None;
        }
        Some(Wanted {
            requested: request.bytes,
            bytes,
            class,
            stream: request.stream,
            tenant: request.tenant,
        })
    }

    fn out_of_memory(&self, state: &State, requested: u64) -> MemoryError {
        MemoryError::OutOfMemory {
            space: self.options.space,
            requested,
            allocated: state.statistics.allocated_bytes,
            capacity: self.options.capacity_bytes,
            largest_free: state.heap.largest_free(),
        }
    }

    /// Joins small blocks held back, where nothing is in callers' hands and a large block is wanted.
    ///
    /// A large block cut beside them would leave an empty pool unable to give all it has.
    #[inline]
    fn join_if_empty(&self, state: &mut State, wanted: Wanted) -> Result<()> {
        if wanted.class.is_some() || state.statistics.allocated_bytes > 0 {
            return Ok(());
        }
        let slot = state.slot(&*self.backend, wanted.stream)?;
        let held_back = |slot: &usize| state.heap.lists[*slot].quick_bytes > 0;
        if [slot, COMMON].iter().any(held_back) {
            state.heap.flush_quick(slot);
            state.heap.flush_quick(COMMON);
            state.heap.dissolve(slot);
        }
        Ok(())
    }

    /// Refuses by quota, or hands out what the stream can have without effort.
    #[inline]
    fn try_take(&self, state: &mut State, wanted: Wanted) -> Result<Option<Allocation>> {
        let slot = state.slot(&*self.backend, wanted.stream)?;
        if let Err(refusal) = state.ledger.admit(wanted.tenant, wanted.bytes) {
            let exhausted = matches!(refusal, MemoryError::Reserved { .. });
            return Err(if exhausted && state.ledger.promised() == 0 {
                self.out_of_memory(state, wanted.requested)
            } else {
                refusal
            });
        }
        let taken = state.take(slot, wanted.bytes, wanted.class);
        Ok(taken.map(|index| self.commit(state, index, wanted)))
    }

    #[inline]
    fn commit(&self, state: &mut State, index: u32, wanted: Wanted) -> Allocation {
        let block = &mut state.heap.blocks[index];
        block.state = BlockState::Allocated;
        block.generation = block.generation.wrapping_add(1);
        block.tenant = wanted.tenant.0;
        block.requested = wanted.requested;
        let allocation = Allocation {
            address: Address::new(self.options.space, block.address),
            bytes: wanted.requested,
            index,
            generation: block.generation,
        };
        state.ledger.charge(wanted.tenant, wanted.bytes);
        let statistics = &mut state.statistics;
        statistics.allocations += 1;
        statistics.requested_bytes += wanted.requested;
        statistics.allocated_bytes += wanted.bytes;
        statistics.peak_allocated_bytes = statistics
            .peak_allocated_bytes
            .max(statistics.allocated_bytes);
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
    fn give_back(&self, state: &mut State, allocation: Allocation, stream: StreamId) -> Result<()> {
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
            return Err(self.refusal(state, allocation));
        }
        let (tenant, bytes, requested) = (TenantId(block.tenant), block.bytes, block.requested);
        state.ledger.refund(tenant, bytes);
        state.statistics.deallocations += 1;
        state.statistics.allocated_bytes -= bytes;
        state.statistics.requested_bytes -= requested;
        let use_quick = bytes <= self.options.small_limit_bytes;
        state.heap.give(allocation.index, slot, use_quick);
        Ok(())
    }

    #[cold]
    fn refusal(&self, state: &State, allocation: Allocation) -> MemoryError {
        let address = allocation.address;
        let ours =
            address.space() == self.options.space
                && state.heap.slabs.iter().any(|slab| {
                    (slab.address..slab.address + slab.bytes).contains(&address.value())
                });
        if ours {
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
            return Ok(Allocation::nothing(self.options.space));
        }
        let outcome = match self.wanted(request) {
            Some(wanted) => {
                let mut state = self.lock()?;
                self.join_if_empty(&mut state, wanted)?;
                let quickly = self.try_take(&mut state, wanted);
                drop(state);
                match quickly {
                    Ok(None) => self.allocate_with_effort(wanted),
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
        let outcome = self.give_back(&mut state, allocation, stream);
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
        // Books that cannot be trusted still tell which slabs there are.
        let state = match self.state.lock() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        let slabs: Vec<u64> = state.heap.slabs.iter().map(|slab| slab.address).collect();
        let events: Vec<_> = state.events().collect();
        drop(state);
        // The device frees after all queued work; a refusal here has nobody left to hear it.
        for event in events {
            let _ = self.backend.destroy_event(event);
        }
        for address in slabs {
            let _ = self.free_slab(address);
        }
    }
}
