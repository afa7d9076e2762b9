//! Device events on the time axis of the backend's clock.
//!
//! A backend measures only the time between two events. An anchor is an event recorded on an idle
//! stream while the clock is read, so that the time since the anchor gives an absolute time.
//! Drivers measure long intervals coarsely, hence a new anchor every second.

use super::event_pool::{EventPool, TimingEvent};
use super::record::Span;
use crate::backend::{Backend, Result, StreamId, StreamPriority};
use crate::sync::Mutex;
use std::sync::{Arc, PoisonError};

const ANCHOR_INTERVAL_NS: u64 = 1_000_000_000;

/// An event whose time on the clock is known.
pub(crate) struct Anchor {
    backend: Arc<dyn Backend>,
    event: Arc<TimingEvent>,
    time_ns: u64,
}

impl Anchor {
    /// When the event completed; it must have been recorded after this anchor.
    pub fn time_ns(&self, event: &TimingEvent) -> Result<u64> {
        let elapsed_ns = self.backend.elapsed_ns(self.event.id(), event.id())?;
        Ok(self.time_ns.saturating_add(elapsed_ns))
    }

    /// The span between two events; none if the backend cannot measure it.
    pub fn span(&self, start: &TimingEvent, end: &TimingEvent) -> Option<Span> {
        Some(Span { start_ns: self.time_ns(start).ok()?, end_ns: self.time_ns(end).ok()? })
    }
}

/// The anchors of one device.
pub(crate) struct Timeline {
    backend: Arc<dyn Backend>,
    events: Arc<EventPool>,
    stream: StreamId,
    current: Mutex<Option<Arc<Anchor>>>,
}

impl Timeline {
    pub fn new(backend: Arc<dyn Backend>, events: Arc<EventPool>) -> Result<Self> {
        let stream = backend.create_stream(StreamPriority::Normal)?;
        Ok(Timeline { backend, events, stream, current: Mutex::new(None) })
    }

    /// An anchor not older than a second.
    pub fn anchor(&self) -> Result<Arc<Anchor>> {
        let now_ns = self.backend.clock().now_ns();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(anchor) = &*current
            && now_ns.saturating_sub(anchor.time_ns) < ANCHOR_INTERVAL_NS
        {
            return Ok(Arc::clone(anchor));
        }
        let event = self.events.record(self.stream)?;
        // The stream is idle, so the event completes as the call returns.
        let time_ns = self.backend.clock().now_ns();
        event.synchronize()?;
        let anchor = Arc::new(Anchor { backend: Arc::clone(&self.backend), event, time_ns });
        *current = Some(Arc::clone(&anchor));
        Ok(anchor)
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // Errors cannot be reported from a drop; the device may be gone already.
        let _ = self.backend.destroy_stream(self.stream);
    }
}
