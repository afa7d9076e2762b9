//! Events that are used again, so that work at full speed creates none.

use crate::backend::{Backend, EventId, Result, StreamId};
use crate::sync::Mutex;
use std::sync::{Arc, PoisonError};

/// The events of one device that are free to use.
pub(crate) struct MarkPool {
    backend: Arc<dyn Backend>,
    free: Mutex<Vec<EventId>>,
}

impl MarkPool {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        MarkPool {
            backend,
            free: Mutex::new(Vec::new()),
        }
    }

    fn take(&self) -> Result<EventId> {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        match free {
            Some(event) => Ok(event),
            None => self.backend.create_event(),
        }
    }

    /// Marks the end of what is queued on the stream so far.
    pub fn record(self: &Arc<Self>, stream: StreamId) -> Result<Arc<Mark>> {
        let mark = Mark {
            event: self.take()?,
            pool: Arc::clone(self),
        };
        self.backend.record_event(mark.event, stream)?;
        Ok(Arc::new(mark))
    }
}

impl Drop for MarkPool {
    fn drop(&mut self) {
        let free = std::mem::take(&mut *self.free.lock().unwrap_or_else(PoisonError::into_inner));
        for event in free {
            // The device may be gone already; there is nobody left to tell.
            let _ = self.backend.destroy_event(event);
        }
    }
}

/// A recorded event, kept from being used again as long as someone may wait for it.
///
/// Without that, a wait could meet the event's next mark, which may itself wait for the waiter.
pub(crate) struct Mark {
    event: EventId,
    pool: Arc<MarkPool>,
}

impl Mark {
    pub fn event(&self) -> EventId {
        self.event
    }

    /// Whether it was reached.
    pub fn is_reached(&self) -> Result<bool> {
        self.pool.backend.query_event(self.event)
    }

    /// Blocks until it is reached.
    pub fn wait(&self) -> Result<()> {
        self.pool.backend.synchronize_event(self.event)
    }

    /// Makes later work on the stream wait for it.
    pub fn hold(&self, stream: StreamId) -> Result<()> {
        self.pool.backend.wait_event(stream, self.event)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut free = self
            .pool
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        free.push(self.event);
    }
}
