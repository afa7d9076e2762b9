//! Stream order: when a block freed on one stream may be reused on another.
//!
//! The stream that freed a block can reuse it without waiting, since its later work is ordered
//! after the free. Any other stream has to wait for an event recorded after the free. An event per
//! free would cost more than the pool itself, so none is recorded until another stream runs out of
//! memory. Then one event seals all blocks freed before it; once it is complete, any stream may
//! reuse the sealed blocks.

use super::block::Zone;
use super::error::MemoryError;
use super::heap::{ANY_STREAM, CHUNK_BYTES, Heap};
use super::quota::QuotaTable;
use super::resource::Result;
use super::statistics::PoolStatistics;
use crate::backend::{Backend, BackendError, EventId, Operation, StreamId};

/// A stream that has used the pool.
struct StreamEntry {
    stream: StreamId,
    event: EventId,
    /// The event is recorded and was not seen complete.
    pending: bool,
    /// The stream gets no more work, so the event is ordered after all its frees.
    closed: bool,
}

const UNREGISTERED: u16 = u16::MAX;

/// Everything behind the pool's lock.
pub(super) struct PoolState {
    pub heap: Heap,
    pub quotas: QuotaTable,
    pub statistics: PoolStatistics,
    /// By slot; [`ANY_STREAM`] has none.
    streams: Vec<Option<StreamEntry>>,
    /// Slot by stream ID.
    slots: Vec<u16>,
}

/// Whether the event is complete, or its stream failed and can no longer touch the memory.
fn is_complete(outcome: std::result::Result<bool, BackendError>) -> Result<bool> {
    match outcome {
        Ok(complete) => Ok(complete),
        // A failed stream runs no more work.
        Err(error) if error.ends_work() => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Whether an event recorded on this stream orders memory: not during capture, nor once the stream
/// is destroyed. Until then the memory freed there stays with the stream.
fn can_record_events(backend: &dyn Backend, stream: StreamId) -> Result<bool> {
    match backend.is_capturing(stream) {
        Ok(capturing) => Ok(!capturing),
        Err(BackendError::UnknownStream { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl PoolState {
    pub fn new(capacity: u64, expected_blocks: usize) -> Self {
        PoolState {
            heap: Heap::new(expected_blocks),
            quotas: QuotaTable::new(capacity),
            statistics: PoolStatistics::default(),
            streams: vec![None],
            slots: Vec::new(),
        }
    }

    /// The slot of a stream, created at its first use.
    #[inline]
    pub fn slot(&mut self, backend: &dyn Backend, stream: StreamId) -> Result<usize> {
        match self.slots.get(stream.0 as usize) {
            Some(&slot) if slot != UNREGISTERED => Ok(usize::from(slot)),
            _ if stream == StreamId::HOST => Ok(ANY_STREAM),
            _ => self.register(backend, stream),
        }
    }

    #[cold]
    fn register(&mut self, backend: &dyn Backend, stream: StreamId) -> Result<usize> {
        // Called for its error on unknown streams.
        backend.is_capturing(stream)?;
        let live = self.streams.iter().flatten().count();
        if live + 1 >= usize::from(UNREGISTERED) {
            return Err(MemoryError::InvalidOption {
                name: "streams",
                expected: "fewer than 65535 live streams",
                got: live as u64 + 1,
            });
        }
        let free_slot = (1..self.streams.len()).find(|&slot| self.streams[slot].is_none());
        let entry = Some(StreamEntry {
            stream,
            event: backend.create_event()?,
            pending: false,
            closed: false,
        });
        let slot = match free_slot {
            Some(slot) => {
                self.streams[slot] = entry;
                slot
            }
            None => {
                self.streams.push(entry);
                self.heap.add_slot()
            }
        };
        let number = stream.0 as usize;
        if self.slots.len() <= number {
            self.slots.resize(number + 1, UNREGISTERED);
        }
        self.slots[number] = slot as u16;
        Ok(slot)
    }

    /// The streams' events, to be destroyed with the pool.
    pub fn events(&self) -> impl Iterator<Item = EventId> + '_ {
        self.streams.iter().flatten().map(|state| state.event)
    }

    /// The events that freed blocks wait for.
    pub fn pending_events(&self) -> impl Iterator<Item = EventId> + '_ {
        let pending = self.streams.iter().flatten().filter(|state| state.pending);
        pending.map(|state| state.event)
    }

    /// Releases to any stream what the other streams have freed and finished using.
    ///
    /// With `flush_all`, also empties their size classes' free lists, which costs them their fast
    /// path.
    pub fn reclaim(&mut self, backend: &dyn Backend, except: usize, flush_all: bool) -> Result<()> {
        for slot in 1..self.streams.len() {
            let closed = self.streams[slot].as_ref().is_some_and(|state| state.closed);
            if slot == except || (self.heap.lists[slot].is_empty() && !closed) {
                continue;
            }
            if flush_all || self.heap.lists[slot].cached_bytes >= CHUNK_BYTES {
                self.heap.coalesce_cached(slot);
            }
            self.release_sealed(backend, slot)?;
            if self.seal(backend, slot)? {
                self.release_sealed(backend, slot)?;
            }
        }
        Ok(())
    }

    /// Releases sealed blocks to any stream if their event is complete.
    fn release_sealed(&mut self, backend: &dyn Backend, slot: usize) -> Result<()> {
        let Some(state) = &mut self.streams[slot] else {
            return Ok(());
        };
        if !state.pending || !is_complete(backend.query_event(state.event))? {
            return Ok(());
        }
        state.pending = false;
        if state.closed {
            self.heap.coalesce_cached(slot);
            self.heap.seal(slot);
        }
        self.heap.transfer_sealed(slot, ANY_STREAM);
        self.statistics.completed_events += 1;
        self.remove_if_closed(backend, slot)
    }

    /// Records the slot's event after all its frees; returns whether it was recorded.
    fn seal(&mut self, backend: &dyn Backend, slot: usize) -> Result<bool> {
        let Some(state) = &mut self.streams[slot] else {
            return Ok(false);
        };
        if state.pending || state.closed || !self.heap.lists[slot].has_unsealed {
            return Ok(false);
        }
        if !can_record_events(backend, state.stream)? {
            return Ok(false);
        }
        backend.record_event(state.event, state.stream)?;
        state.pending = true;
        self.heap.seal(slot);
        self.statistics.recorded_events += 1;
        Ok(true)
    }

    /// Makes `stream` wait for another slot's stream and transfers that slot's blocks to it.
    ///
    /// Returns whether there were any.
    pub fn take_from_slot(
        &mut self,
        backend: &dyn Backend,
        other: usize,
        slot: usize,
        stream: StreamId,
    ) -> Result<bool> {
        if other == slot || self.heap.lists[other].is_empty() {
            return Ok(false);
        }
        let Some(state) = &mut self.streams[other] else {
            return Ok(false);
        };
        if !can_record_events(backend, stream)? {
            return Ok(false);
        }
        if !state.closed {
            if !can_record_events(backend, state.stream)? {
                return Ok(false);
            }
            backend.record_event(state.event, state.stream)?;
            self.statistics.recorded_events += 1;
            state.pending = true;
        }
        match backend.wait_event(stream, state.event) {
            Ok(()) => {}
            Err(error) if error.ends_work() => {}
            Err(error) => return Err(error.into()),
        }
        state.pending = state.closed;
        self.heap.coalesce_cached(other);
        self.heap.seal(other);
        self.heap.transfer_sealed(other, slot);
        self.statistics.stream_waits += 1;
        Ok(true)
    }

    /// Seals all blocks freed on a slot and returns the event to wait for on the host.
    pub fn event_of(&mut self, backend: &dyn Backend, slot: usize) -> Result<Option<EventId>> {
        if self.heap.lists[slot].is_empty() {
            return Ok(None);
        }
        self.heap.coalesce_cached(slot);
        self.release_sealed(backend, slot)?;
        self.seal(backend, slot)?;
        let state = self.streams[slot].as_ref();
        Ok(state.filter(|state| state.pending).map(|state| state.event))
    }

    pub fn slot_count(&self) -> usize {
        self.streams.len()
    }

    /// Closes a stream that is about to be destroyed: any stream may reuse its memory once its work
    /// has finished.
    pub fn forget_stream(&mut self, backend: &dyn Backend, stream: StreamId) -> Result<()> {
        let slot = match self.slots.get(stream.0 as usize) {
            Some(&slot) if slot != UNREGISTERED && usize::from(slot) != ANY_STREAM => {
                usize::from(slot)
            }
            _ => return Ok(()),
        };
        let Some(state) = &mut self.streams[slot] else {
            return Ok(());
        };
        if backend.is_capturing(stream)? {
            let operation = Operation::RecordEvent;
            return Err(BackendError::Capturing { operation, stream }.into());
        }
        backend.record_event(state.event, stream)?;
        state.pending = true;
        state.closed = true;
        self.release_sealed(backend, slot)
    }

    /// Frees the slot of a closed stream whose work has finished.
    fn remove_if_closed(&mut self, backend: &dyn Backend, slot: usize) -> Result<()> {
        let Some(state) = self.streams[slot].take_if(|state| state.closed) else {
            return Ok(());
        };
        // Later frees on that stream are ordered after its finished work.
        if let Some(entry) = self.slots.get_mut(state.stream.0 as usize) {
            *entry = ANY_STREAM as u16;
        }
        Ok(backend.destroy_event(state.event)?)
    }

    /// A free block of the slot, or of [`ANY_STREAM`].
    #[inline]
    pub fn take(&mut self, slot: usize, bytes: u64, class: Option<usize>) -> Option<u32> {
        match class {
            Some(class) => self.heap.take_class(slot, class, bytes),
            None => self.heap.take(slot, Zone::Large, bytes),
        }
    }
}
