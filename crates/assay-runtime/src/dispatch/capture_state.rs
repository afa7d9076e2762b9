//! A capture in progress, as its streams share it.

use super::event_pool::TimingEvent;
use super::work::{GraphNode, Work};
use crate::backend::StreamId;
use crate::sync::{Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};
use std::thread::ThreadId;

pub(super) struct CaptureState {
    pub id: u64,
    pub origin: StreamId,
    pub thread: ThreadId,
    recording: Mutex<CaptureRecording>,
}

/// What was captured so far.
#[derive(Default)]
pub(super) struct CaptureRecording {
    pub nodes: Vec<(GraphNode, Work)>,
    /// Streams that take part; the first one began the capture.
    pub streams: Vec<StreamId>,
    /// Nothing more can be captured.
    pub ended: bool,
    /// Events recorded inside the capture, which the pool may not reuse before its end.
    pub events: Vec<Arc<TimingEvent>>,
}

impl CaptureRecording {
    /// The index of the node captured last on a stream.
    pub fn last_of(&self, stream: StreamId) -> Option<u32> {
        let mut nodes = self.nodes.iter().rev().map(|(node, _)| node);
        nodes.find(|node| node.stream == stream).map(|node| node.index)
    }
}

impl CaptureState {
    /// A capture that the calling thread begins on a stream.
    pub fn new(id: u64, origin: StreamId) -> Self {
        CaptureState {
            id,
            origin,
            thread: std::thread::current().id(),
            recording: Mutex::new(CaptureRecording {
                streams: vec![origin],
                ..CaptureRecording::default()
            }),
        }
    }

    pub fn recording(&self) -> MutexGuard<'_, CaptureRecording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
