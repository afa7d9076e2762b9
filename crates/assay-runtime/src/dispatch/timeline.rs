//! Moments of events in the time of the backend's clock.
//!
//! A backend tells only how far two events lie apart. An anchor is an event on a stream of its
//! own, recorded while the clock is read, so that the distance from it gives a moment. Drivers
//! measure long distances coarsely, hence a new anchor every second.

use super::mark::{Mark, MarkPool};
use super::record::Span;
use crate::backend::{Backend, Result, StreamId, StreamPriority};
use crate::sync::Mutex;
use std::sync::{Arc, PoisonError};

const ANCHOR_INTERVAL_NS: u64 = 1_000_000_000;

/// A moment known both as an event and as a time.
pub(crate) struct Anchor {
    backend: Arc<dyn Backend>,
    mark: Arc<Mark>,
    time_ns: u64,
}

impl Anchor {
    /// When the mark was reached; it must have been recorded after this anchor.
    pub fn time_ns(&self, mark: &Mark) -> Result<u64> {
        let distance = self.backend.elapsed_ns(self.mark.event(), mark.event())?;
        Ok(self.time_ns.saturating_add(distance))
    }

    /// When the work between two marks ran; none if the backend cannot tell.
    pub fn span(&self, start: &Mark, end: &Mark) -> Option<Span> {
        Some(Span {
            start_ns: self.time_ns(start).ok()?,
            end_ns: self.time_ns(end).ok()?,
        })
    }
}

/// The anchors of one device.
pub(crate) struct Timeline {
    backend: Arc<dyn Backend>,
    marks: Arc<MarkPool>,
    stream: StreamId,
    current: Mutex<Option<Arc<Anchor>>>,
}

impl Timeline {
    pub fn new(backend: Arc<dyn Backend>, marks: Arc<MarkPool>) -> Result<Self> {
        let stream = backend.create_stream(StreamPriority::Normal)?;
        Ok(Timeline {
            backend,
            marks,
            stream,
            current: Mutex::new(None),
        })
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
        let mark = self.marks.record(self.stream)?;
        // The stream is idle, so the event is reached as the call returns.
        let time_ns = self.backend.clock().now_ns();
        mark.wait()?;
        let anchor = Arc::new(Anchor {
            backend: Arc::clone(&self.backend),
            mark,
            time_ns,
        });
        *current = Some(Arc::clone(&anchor));
        Ok(anchor)
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // The device may be gone already; there is nobody left to tell.
        let _ = self.backend.destroy_stream(self.stream);
    }
}
