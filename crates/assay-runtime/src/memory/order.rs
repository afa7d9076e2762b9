//! When freed memory may pass from one stream to another.
//!
//! A block freed on a stream is that stream's at once, since its later work comes after. Anybody
//! else has to wait for an event recorded after the free. Recording one per free would cost more
//! than the pool itself, so nothing is recorded until another stream is short of memory: then one
//! event seals all that was freed before it, and once it has passed, the sealed blocks are common.

use super::block::Zone;
use super::error::MemoryError;
use super::heap::{CHUNK_BYTES, COMMON, Heap};
use super::quota::Ledger;
use super::resource::Result;
use super::statistics::PoolStatistics;
use crate::backend::{Backend, BackendError, EventId, Operation, StreamId};

/// What the pool knows of a stream.
struct StreamState {
    stream: StreamId,
    event: EventId,
    /// The event is recorded and was not seen to pass.
    pending: bool,
    /// The stream takes no more work, so the event covers all it ever did.
    closed: bool,
}

const UNREGISTERED: u16 = u16::MAX;

/// Everything behind the pool's lock.
pub(super) struct State {
    pub heap: Heap,
    pub ledger: Ledger,
    pub statistics: PoolStatistics,
    /// By slot; the common slot has none.
    streams: Vec<Option<StreamState>>,
    /// Slot by stream number.
    slots: Vec<u16>,
}

/// Whether a refusal means that the stream does nothing now that could touch the memory.
fn is_over(outcome: std::result::Result<bool, BackendError>) -> Result<bool> {
    match outcome {
        Ok(passed) => Ok(passed),
        // A failed stream does no more work.
        Err(error) if error.ends_work() => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Whether events on this stream mark moments: not during capture, nor once it is destroyed.
///
/// Until they do again, the memory freed there stays with the stream.
fn takes_events(backend: &dyn Backend, stream: StreamId) -> Result<bool> {
    match backend.is_capturing(stream) {
        Ok(capturing) => Ok(!capturing),
        Err(BackendError::UnknownStream { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl State {
    pub fn new(capacity: u64, expected_blocks: usize) -> Self {
        State {
            heap: Heap::new(expected_blocks),
            ledger: Ledger::new(capacity),
            statistics: PoolStatistics::default(),
            streams: vec![None],
            slots: Vec::new(),
        }
    }

    /// The slot of a stream, made when it is first seen.
    #[inline]
    pub fn slot(&mut self, backend: &dyn Backend, stream: StreamId) -> Result<usize> {
        match self.slots.get(stream.0 as usize) {
            Some(&slot) if slot != UNREGISTERED => Ok(usize::from(slot)),
            _ if stream == StreamId::HOST => Ok(COMMON),
            _ => self.register(backend, stream),
        }
    }

    #[cold]
    fn register(&mut self, backend: &dyn Backend, stream: StreamId) -> Result<usize> {
        // Asked for its refusal of unknown streams.
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
        let state = Some(StreamState {
            stream,
            event: backend.create_event()?,
            pending: false,
            closed: false,
        });
        let slot = match free_slot {
            Some(slot) => {
                self.streams[slot] = state;
                slot
            }
            None => {
                self.streams.push(state);
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

    /// Events made for streams, to be destroyed with the pool.
    pub fn events(&self) -> impl Iterator<Item = EventId> + '_ {
        self.streams.iter().flatten().map(|state| state.event)
    }

    /// Makes common what other streams have freed and no longer use.
    ///
    /// A thorough search also empties their quick lists, which costs them their fast path.
    pub fn reclaim(&mut self, backend: &dyn Backend, except: usize, thorough: bool) -> Result<()> {
        for slot in 1..self.streams.len() {
            let closed = self.streams[slot]
                .as_ref()
                .is_some_and(|state| state.closed);
            if slot == except || (self.heap.lists[slot].is_empty() && !closed) {
                continue;
            }
            if thorough || self.heap.lists[slot].quick_bytes >= CHUNK_BYTES {
                self.heap.flush_quick(slot);
            }
            self.settle(backend, slot)?;
            if self.seal(backend, slot)? {
                self.settle(backend, slot)?;
            }
        }
        Ok(())
    }

    /// Makes sealed blocks common if their event has passed.
    fn settle(&mut self, backend: &dyn Backend, slot: usize) -> Result<()> {
        let Some(state) = &mut self.streams[slot] else {
            return Ok(());
        };
        if !state.pending || !is_over(backend.query_event(state.event))? {
            return Ok(());
        }
        state.pending = false;
        if state.closed {
            self.heap.flush_quick(slot);
            self.heap.seal(slot);
        }
        self.heap.hand_over_sealed(slot, COMMON);
        self.statistics.settled_events += 1;
        self.drop_if_closed(backend, slot)
    }

    /// Records the slot's event after all it has freed, and says whether one is now pending.
    fn seal(&mut self, backend: &dyn Backend, slot: usize) -> Result<bool> {
        let Some(state) = &mut self.streams[slot] else {
            return Ok(false);
        };
        if state.pending || state.closed || !self.heap.lists[slot].has_open {
            return Ok(false);
        }
        if !takes_events(backend, state.stream)? {
            return Ok(false);
        }
        backend.record_event(state.event, state.stream)?;
        state.pending = true;
        self.heap.seal(slot);
        self.statistics.recorded_events += 1;
        Ok(true)
    }

    /// Makes `stream` wait for another slot and hands that slot's blocks over to it.
    ///
    /// Says whether there was anything to hand over.
    pub fn wait_for_other(
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
        if !takes_events(backend, stream)? {
            return Ok(false);
        }
        if !state.closed {
            if !takes_events(backend, state.stream)? {
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
        self.heap.flush_quick(other);
        self.heap.seal(other);
        self.heap.hand_over_sealed(other, slot);
        self.statistics.stream_waits += 1;
        Ok(true)
    }

    /// Seals everything freed on a slot and returns the event that covers it, for the host to wait.
    pub fn event_of(&mut self, backend: &dyn Backend, slot: usize) -> Result<Option<EventId>> {
        if self.heap.lists[slot].is_empty() {
            return Ok(None);
        }
        self.heap.flush_quick(slot);
        self.settle(backend, slot)?;
        self.seal(backend, slot)?;
        let state = self.streams[slot].as_ref();
        Ok(state.filter(|state| state.pending).map(|state| state.event))
    }

    pub fn slot_count(&self) -> usize {
        self.streams.len()
    }

    /// Closes a stream that is about to be destroyed: its memory is common once its work is done.
    pub fn forget(&mut self, backend: &dyn Backend, stream: StreamId) -> Result<()> {
        let slot = match self.slots.get(stream.0 as usize) {
            Some(&slot) if slot != UNREGISTERED && usize::from(slot) != COMMON => usize::from(slot),
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
        self.settle(backend, slot)
    }

    /// Gives the slot of a closed and finished stream to whoever comes next.
    fn drop_if_closed(&mut self, backend: &dyn Backend, slot: usize) -> Result<()> {
        let Some(state) = self.streams[slot].take_if(|state| state.closed) else {
            return Ok(());
        };
        // Whatever is still freed on that stream is done with already.
        if let Some(entry) = self.slots.get_mut(state.stream.0 as usize) {
            *entry = COMMON as u16;
        }
        Ok(backend.destroy_event(state.event)?)
    }

    /// A block for the slot without asking anybody else.
    #[inline]
    pub fn take(&mut self, slot: usize, bytes: u64, class: Option<usize>) -> Option<u32> {
        match class {
            Some(class) => self.heap.take_class(slot, class, bytes),
            None => self.heap.take(slot, Zone::Large, bytes),
        }
    }
}
