//! Events as callers see them: a driver event and what it was last recorded on.

use super::context::PrimaryContext;
use super::driver_event::DriverEvent;
use super::stream::{Capture, Stream};
use assay_runtime::backend::Result;
use std::sync::{Arc, Mutex};

/// What an event's latest record stands for.
#[derive(Clone)]
pub(super) enum EventState {
    /// Never recorded: counts as finished.
    Unrecorded,
    /// Recorded on a stream.
    Recorded(Arc<Stream>),
    /// Recorded inside a capture: a node position in a graph, not a moment in time.
    Captured(CapturePoint),
}

/// Where in a capture an event was recorded.
#[derive(Clone)]
pub(super) struct CapturePoint {
    pub capture: Arc<Capture>,
    /// The vector clock of the branch at the record.
    pub clock: Vec<u64>,
    pub stream: Arc<Stream>,
}

/// A driver event with its state.
pub(super) struct Event {
    pub driver: DriverEvent,
    pub state: Mutex<EventState>,
}

impl Event {
    pub fn new(context: &Arc<PrimaryContext>) -> Result<Self> {
        Ok(Event { driver: DriverEvent::new(context)?, state: Mutex::new(EventState::Unrecorded) })
    }
}
