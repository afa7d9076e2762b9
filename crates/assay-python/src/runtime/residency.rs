//! Residency of an allocation: pinned while a call uses its address, evictable on request, evicted.
//!
//! A call pins the allocations it uses before it reads their addresses. Pinning an evictable
//! allocation restores and leases it. The lease outlives the call until memory is short: then it
//! ends if no call, view, graph or unfinished work uses the allocation. Pinning writes the counters
//! before it reads the flag, and `allow_eviction` writes the flag before it reads the counters, so
//! no call can miss that an allocation has become evictable.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use assay_runtime::backend::{Space, StreamId};
use assay_runtime::memory::Request;
use pyo3::prelude::*;

use super::allocation::{Allocation, Use, lock};
use super::backing::Backing;
use super::errors;
use super::evictable::Evictable;
use super::memory_pressure::Leased;
use super::reentrancy::refuse_reentry;

/// Allocations whose addresses are stable while this lives.
pub(super) enum Pinned<'a> {
    Uses(&'a [Use<'a>]),
    One(&'a Arc<Allocation>),
}

impl<'a> Pinned<'a> {
    /// Pins the allocations that work of `stream` uses, restoring evicted ones.
    pub fn new(py: Python<'_>, uses: &'a [Use<'a>], stream: StreamId) -> PyResult<Self> {
        for one in uses {
            one.buffer.pins.fetch_add(1, Ordering::SeqCst);
        }
        let pinned = Pinned::Uses(uses);
        if uses.iter().any(|one| one.buffer.is_evictable()) {
            py.detach(|| uses.iter().try_for_each(|one| one.buffer.restore(stream)))?;
        }
        Ok(pinned)
    }

    /// Pins one allocation for the host, which may access it when this returns.
    pub fn for_host(py: Python<'_>, allocation: &'a Arc<Allocation>) -> PyResult<Self> {
        allocation.pins.fetch_add(1, Ordering::SeqCst);
        let pinned = Pinned::One(allocation);
        if allocation.is_evictable() {
            refuse_reentry("buffer")?;
            // A lease to the host waits for the restoring copy, which no other stream is ordered
            // after.
            py.detach(|| allocation.restore(StreamId::HOST))?;
        }
        Ok(pinned)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        let unpin = |allocation: &Allocation| {
            allocation.pins.fetch_sub(1, Ordering::SeqCst);
        };
        match self {
            Pinned::Uses(uses) => uses.iter().for_each(|one| unpin(one.buffer)),
            Pinned::One(allocation) => unpin(allocation),
        }
    }
}

impl Allocation {
    /// Whether the memory may be evicted.
    pub fn is_evictable(&self) -> bool {
        self.evictable.load(Ordering::SeqCst)
    }

    /// Restores evictable memory to the device and leases it.
    fn restore(&self, stream: StreamId) -> PyResult<()> {
        let memory = &self.runtime().memory;
        loop {
            let outcome = match &mut *lock(&self.backing) {
                Some(Backing::Evictable(evictable)) => evictable.lease(stream).map(|address| {
                    self.address.store(address.value(), Ordering::SeqCst);
                }),
                _ => return Ok(()),
            };
            let recorded = memory.record_movements();
            match outcome {
                Ok(()) => return recorded.map_err(|error| errors::memory(&error)),
                Err(error) if memory.pressure.retry_helps(&error) => {}
                Err(error) => return Err(errors::memory(&error)),
            }
        }
    }

    /// Whether a call, a view or a graph uses the address.
    fn is_held(&self) -> bool {
        self.pins.load(Ordering::SeqCst) > 0 || self.exports() > 0
    }

    /// Whether all work that uses the memory is complete; a failed stream does not access it again.
    fn is_over(&self) -> bool {
        let mut uses = lock(&self.uses);
        let works = uses.works();
        let dispatch = &self.runtime().dispatch;
        let over = works.iter().all(|work| dispatch.is_complete(*work).unwrap_or(true));
        if over {
            uses.forget(&works);
        }
        over
    }

    /// Makes the memory evictable while nothing uses it.
    pub fn allow_eviction(self: &Arc<Self>) -> PyResult<()> {
        self.alive("allow_eviction")?;
        if self.is_evictable() || self.bytes() == 0 {
            return Ok(());
        }
        self.refuse_held("allow_eviction")?;
        self.wait()?;
        let runtime = self.runtime();
        let residency = runtime.memory.residency();
        let residency = residency.map_err(|error| errors::memory(&error))?;
        let mut backing = lock(&self.backing);
        let buffer = match backing.take() {
            Some(Backing::Pool(buffer, _)) if is_of_device(&buffer) => buffer,
            other => {
                *backing = other;
                return Err(errors::invalid(
                    "allow_eviction: expected memory of the device's pool, got other memory\n\
                     hint: copy the array first",
                ));
            }
        };
        let request = Request::new(self.bytes(), buffer.stream()).for_tenant(self.tenant());
        let adopted = Evictable::adopt(residency, buffer, &request);
        let adopted = adopted.map_err(|error| errors::memory(&error))?;
        *backing = Some(Backing::Evictable(adopted));
        self.evictable.store(true, Ordering::SeqCst);
        drop(backing);
        let allocation: Weak<Allocation> = Arc::downgrade(self);
        runtime.memory.pressure.add(allocation);
        Ok(())
    }

    fn refuse_held(&self, operation: &str) -> PyResult<()> {
        match self.is_held() {
            false => Ok(()),
            true => Err(errors::invalid(&format!(
                "{operation}: expected memory that nothing looks at, got memory with {} views \
                 and {} calls under way\nhint: delete the arrays that share it and close the \
                 graphs that use it first",
                self.exports(),
                self.pins.load(Ordering::SeqCst)
            ))),
        }
    }

    /// Copies the memory to the host and frees its device memory.
    pub fn evict(self: &Arc<Self>, stream: StreamId) -> PyResult<()> {
        self.allow_eviction()?;
        if self.bytes() == 0 {
            return Ok(());
        }
        self.wait()?;
        let outcome = match &mut *lock(&self.backing) {
            Some(Backing::Evictable(evictable)) => {
                self.refuse_held("evict")?;
                evictable.evict(stream).map(|()| {
                    self.address.store(0, Ordering::SeqCst);
                })
            }
            _ => return Err(errors::freed("evict", "buffer")),
        };
        let recorded = self.runtime().memory.record_movements();
        outcome.and(recorded).map_err(|error| errors::memory(&error))
    }

    /// Whether the memory is on the device; always true for memory that is not evictable.
    pub fn is_resident(&self) -> PyResult<bool> {
        match &*lock(&self.backing) {
            Some(Backing::Evictable(evictable)) => {
                evictable.is_resident().map_err(|error| errors::memory(&error))
            }
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }
}

impl Leased for Allocation {
    /// Ends the lease of memory that nothing uses; true if there was one.
    fn end_lease(&self) -> bool {
        let Ok(mut backing) = self.backing.try_lock() else {
            return false;
        };
        match &mut *backing {
            Some(Backing::Evictable(evictable)) if !self.is_held() && self.is_over() => {
                evictable.end_lease()
            }
            _ => false,
        }
    }

    /// Waits for the work that uses the memory, then ends its lease.
    fn wait_and_end_lease(&self) -> bool {
        let leased = match self.backing.try_lock() {
            Ok(backing) => matches!(&*backing, Some(Backing::Evictable(one)) if one.is_leased()),
            Err(_) => false,
        };
        leased && !self.is_held() && self.wait().is_ok() && self.end_lease()
    }
}

fn is_of_device(buffer: &assay_runtime::memory::Buffer) -> bool {
    let address = buffer.address();
    address.is_some_and(|address| address.space() == Space::Device)
}
