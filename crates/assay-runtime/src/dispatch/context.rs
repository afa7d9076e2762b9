//! What all streams of a controller share.

use super::event_pool::{EventPool, TimingEvent};
use super::meter::Meter;
use super::options::DispatchOptions;
use super::record::Recorder;
use super::timeline::{Anchor, Timeline};
use super::work_log::WorkLog;
use crate::backend::{Backend, StreamId};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// The backend, event pool, recorder, meter and options of a controller.
pub(super) struct DispatchContext {
    pub backend: Arc<dyn Backend>,
    pub events: Arc<EventPool>,
    /// Created when the first operation is timed.
    timeline: OnceLock<Timeline>,
    pub recorder: Arc<Recorder>,
    pub meter: Meter,
    /// What is queued while a trace is captured.
    pub trace: WorkLog,
    pub options: DispatchOptions,
    /// Failures on all streams, so that callers look for failures only after one.
    pub failures: AtomicU64,
}

impl DispatchContext {
    pub fn new(
        backend: Arc<dyn Backend>,
        options: DispatchOptions,
        recorder: Arc<Recorder>,
    ) -> Self {
        DispatchContext {
            events: Arc::new(EventPool::new(Arc::clone(&backend))),
            timeline: OnceLock::new(),
            backend,
            recorder,
            meter: Meter::default(),
            trace: WorkLog::default(),
            options,
            failures: AtomicU64::new(0),
        }
    }

    /// Records an event before work on a stream, with an anchor to convert it to a time.
    ///
    /// None if the device fails: a record without a time is better than failing the work.
    pub fn record_start(&self, stream: StreamId) -> Option<(Arc<Anchor>, Arc<TimingEvent>)> {
        let timeline = match self.timeline.get() {
            Some(timeline) => timeline,
            None => {
                let (backend, events) = (Arc::clone(&self.backend), Arc::clone(&self.events));
                let created = Timeline::new(backend, events).ok()?;
                self.timeline.get_or_init(|| created)
            }
        };
        let anchor = timeline.anchor().ok()?;
        Some((anchor, self.events.record(stream).ok()?))
    }
}
