//! A pool of events, so that steady-state work creates none.

use crate::backend::{Backend, EventId, Result, StreamId};
use crate::sync::Mutex;
use std::sync::{Arc, PoisonError};

/// The unused events of one device.
pub(crate) struct EventPool {
    backend: Arc<dyn Backend>,
    unused: Mutex<Vec<EventId>>,
}

impl EventPool {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        EventPool { backend, unused: Mutex::new(Vec::new()) }
    }

    fn acquire(&self) -> Result<EventId> {
        let unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match unused {
            Some(event) => Ok(event),
            None => self.backend.create_event(),
        }
    }

    /// Records an event after what is queued on the stream so far.
    pub fn record(self: &Arc<Self>, stream: StreamId) -> Result<Arc<TimingEvent>> {
        let event = TimingEvent { id: self.acquire()?, pool: Arc::clone(self) };
        self.backend.record_event(event.id, stream)?;
        Ok(Arc::new(event))
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        for event in std::mem::take(&mut *unused) {
            // Errors cannot be reported from a drop; the device may be gone already.
            let _ = self.backend.destroy_event(event);
        }
    }
}

/// A recorded event, returned to its pool when the last user drops it.
///
/// Without that, a wait could meet the event's next record, which may itself wait for the waiter.
pub(crate) struct TimingEvent {
    id: EventId,
    pool: Arc<EventPool>,
}

impl TimingEvent {
    pub fn id(&self) -> EventId {
        self.id
    }

    /// Whether the stream reached the record.
    pub fn is_complete(&self) -> Result<bool> {
        self.pool.backend.query_event(self.id)
    }

    /// Blocks the host until the stream reaches the record.
    pub fn synchronize(&self) -> Result<()> {
        self.pool.backend.synchronize_event(self.id)
    }

    /// Makes later work on the stream wait for the event.
    pub fn stream_wait(&self, stream: StreamId) -> Result<()> {
        self.pool.backend.wait_event(stream, self.id)
    }
}

impl Drop for TimingEvent {
    fn drop(&mut self) {
        let mut unused = self.pool.unused.lock().unwrap_or_else(PoisonError::into_inner);
        unused.push(self.id);
    }
}
