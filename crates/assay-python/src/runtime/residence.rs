//! Where a block is: pinned while a call uses its address, evictable on request, evicted.
//!
//! A call pins the blocks it uses before it looks at their addresses. An evictable block that is
//! pinned is brought in and leased, and the lease stays after the call until memory is wanted:
//! then it is let go of if no call, view, graph or unfinished work holds it. The counters are
//! written before the flag is read, and the flag before the counters, so that no call can miss
//! that a block has become evictable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use assay_runtime::backend::{Space, StreamId};
use assay_runtime::memory::Request;
use pyo3::prelude::*;

use super::block::{Block, Held, Use, lock};
use super::errors;
use super::evictable::Evictable;
use super::machine::outside_operation;

/// Blocks whose addresses stay as they are while this lives.
pub(super) enum Pinned<'a> {
    Uses(&'a [Use<'a>]),
    One(&'a Arc<Block>),
}

impl<'a> Pinned<'a> {
    /// Pins what a piece of work of `stream` uses, bringing it in if need be.
    pub fn new(py: Python<'_>, uses: &'a [Use<'a>], stream: StreamId) -> PyResult<Self> {
        for one in uses {
            one.buffer.pins.fetch_add(1, Ordering::SeqCst);
        }
        let pinned = Pinned::Uses(uses);
        if uses.iter().any(|one| one.buffer.is_evictable()) {
            py.detach(|| uses.iter().try_for_each(|one| one.buffer.bring_in(stream)))?;
        }
        Ok(pinned)
    }

    /// Pins one block for the host, which can look at it when this returns.
    pub fn for_host(py: Python<'_>, block: &'a Arc<Block>) -> PyResult<Self> {
        block.pins.fetch_add(1, Ordering::SeqCst);
        let pinned = Pinned::One(block);
        if block.is_evictable() {
            outside_operation("buffer")?;
            // Leased to the host, it is there when this returns: nobody else knows of the copy
            // that brought it in.
            py.detach(|| block.bring_in(StreamId::HOST))?;
        }
        Ok(pinned)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        let unpin = |block: &Block| {
            block.pins.fetch_sub(1, Ordering::SeqCst);
        };
        match self {
            Pinned::Uses(uses) => uses.iter().for_each(|one| unpin(one.buffer)),
            Pinned::One(block) => unpin(block),
        }
    }
}

impl Block {
    /// Whether the memory may leave the device.
    pub fn is_evictable(&self) -> bool {
        self.evictable.load(Ordering::SeqCst)
    }

    /// Brings evictable memory onto the device and keeps it there.
    fn bring_in(&self, stream: StreamId) -> PyResult<()> {
        let memory = &self.machine().memory;
        loop {
            let outcome = match &mut *lock(&self.held) {
                Some(Held::Evictable(evictable)) => evictable.lease(stream).map(|address| {
                    self.address.store(address.value(), Ordering::SeqCst);
                }),
                _ => return Ok(()),
            };
            let recorded = memory.record_movements();
            match outcome {
                Ok(()) => return recorded.map_err(|error| errors::memory(&error)),
                Err(error) if memory.relief.helps(&error) => {}
                Err(error) => return Err(errors::memory(&error)),
            }
        }
    }

    /// Whether something holds the address: a call, a view or a graph.
    fn is_held(&self) -> bool {
        self.pins.load(Ordering::SeqCst) > 0 || self.exports() > 0
    }

    /// Lets go of memory that nothing uses any more; true if it was kept until now.
    pub fn let_go(&self) -> bool {
        let Ok(mut held) = self.held.try_lock() else {
            return false;
        };
        match &mut *held {
            Some(Held::Evictable(evictable)) if !self.is_held() && self.is_over() => {
                evictable.let_go()
            }
            _ => false,
        }
    }

    /// Waits for the work that uses the memory, then lets it go.
    pub fn wait_and_let_go(&self) -> bool {
        let kept = match self.held.try_lock() {
            Ok(held) => matches!(&*held, Some(Held::Evictable(one)) if one.is_kept()),
            Err(_) => false,
        };
        kept && !self.is_held() && self.wait().is_ok() && self.let_go()
    }

    /// Whether all work that uses the memory is over; a failed stream does not touch it again.
    fn is_over(&self) -> bool {
        let mut uses = lock(&self.uses);
        let works = uses.works();
        let dispatch = &self.machine().dispatch;
        let over = works
            .iter()
            .all(|work| dispatch.is_complete(*work).unwrap_or(true));
        if over {
            uses.forget(&works);
        }
        over
    }

    /// Lets the memory leave the device from now on, whenever nothing uses it.
    pub fn allow_eviction(self: &Arc<Self>) -> PyResult<()> {
        self.alive("allow_eviction")?;
        if self.is_evictable() || self.bytes() == 0 {
            return Ok(());
        }
        self.refuse_held("allow_eviction")?;
        self.wait()?;
        let machine = self.machine();
        let residency = machine.memory.residency();
        let residency = residency.map_err(|error| errors::memory(&error))?;
        let mut held = lock(&self.held);
        let buffer = match held.take() {
            Some(Held::Pool(buffer, _)) if is_of_device(&buffer) => buffer,
            other => {
                *held = other;
                return Err(errors::invalid(
                    "allow_eviction: expected memory of the device's pool, got other memory\n\
                     hint: copy the array first",
                ));
            }
        };
        let request = Request::new(self.bytes(), buffer.stream()).for_tenant(self.tenant());
        let adopted = Evictable::adopt(residency, buffer, &request);
        let adopted = adopted.map_err(|error| errors::memory(&error))?;
        *held = Some(Held::Evictable(adopted));
        self.evictable.store(true, Ordering::SeqCst);
        drop(held);
        machine.memory.relief.add(self);
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

    /// Copies the memory to the host and gives its place on the device back.
    pub fn evict(self: &Arc<Self>, stream: StreamId) -> PyResult<()> {
        self.allow_eviction()?;
        if self.bytes() == 0 {
            return Ok(());
        }
        self.wait()?;
        let outcome = match &mut *lock(&self.held) {
            Some(Held::Evictable(evictable)) => {
                self.refuse_held("evict")?;
                evictable.evict(stream).map(|()| {
                    self.address.store(0, Ordering::SeqCst);
                })
            }
            _ => return Err(errors::freed("evict", "buffer")),
        };
        let recorded = self.machine().memory.record_movements();
        outcome
            .and(recorded)
            .map_err(|error| errors::memory(&error))
    }

    /// Whether the memory is on the device, as memory that cannot be evicted always is.
    pub fn is_resident(&self) -> PyResult<bool> {
        match &*lock(&self.held) {
            Some(Held::Evictable(evictable)) => evictable
                .is_resident()
                .map_err(|error| errors::memory(&error)),
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }
}

fn is_of_device(buffer: &assay_runtime::memory::Buffer) -> bool {
    let address = buffer.address();
    address.is_some_and(|address| address.space() == Space::Device)
}
