//! Capture of submitted work into a graph.
//!
//! The backend captures work submitted to the stream instead of running it; here each node keeps
//! its operation. Another stream joins the capture by submitting work that depends on captured
//! work, and all are joined to the origin at the end. A thread that captures can neither allocate
//! nor copy host memory outside the captured streams: a replay would not repeat either.

use super::capture_state::{CaptureRecording, CaptureState};
use super::context::DispatchContext;
use super::error::DispatchError;
use super::shared::{Shared, lock};
use super::stream_state::StreamState;
use super::work::{Graph, GraphNode, WorkId, WorkPosition, WorkRequest};
use crate::backend::StreamId;
use std::sync::Arc;

/// A capture in progress. Dropping it without [`Capture::end`] discards it.
pub struct Capture {
    shared: Arc<Shared>,
    state: Arc<CaptureState>,
    ended: bool,
}

impl Shared {
    pub(super) fn begin_capture(
        self: &Arc<Self>,
        stream: StreamId,
    ) -> Result<Capture, DispatchError> {
        let queue = self.queue(stream)?;
        self.progress(&queue)?;
        let mut state = lock(&queue.state)?;
        state.check_usable()?;
        if !state.waiting.is_empty() {
            return Err(DispatchError::CaptureBusy { stream, waiting: state.waiting.len() });
        }
        state.record_before_capture(&self.context, stream)?;
        self.context.backend.begin_capture(stream)?;
        let capture = Arc::new(CaptureState::new(self.new_id(), stream));
        state.capture = Some(Arc::clone(&capture));
        drop(state);
        self.add_capture(Arc::clone(&capture))?;
        Ok(Capture { shared: Arc::clone(self), state: capture, ended: false })
    }

    /// The capture that a request belongs to: its stream's, or that of a dependency.
    pub(super) fn capture_of(
        &self,
        request: &WorkRequest,
        own: Option<&Arc<CaptureState>>,
    ) -> Result<Option<Arc<CaptureState>>, DispatchError> {
        if let Some(capture) = own {
            return Ok(Some(Arc::clone(capture)));
        }
        let joined = request.after.iter().find_map(|work| match work.position {
            WorkPosition::Node { capture, .. } => Some(capture),
            WorkPosition::Queue(_) => None,
        });
        let Some(id) = joined else {
            return Ok(None);
        };
        let captures = self.captures()?;
        match captures.iter().find(|capture| capture.id == id) {
            Some(capture) => Ok(Some(Arc::clone(capture))),
            None => Err(DispatchError::Captured { stream: request.stream }),
        }
    }

    /// Captures work; its stream joins the capture if it was outside.
    pub(super) fn capture_work(
        &self,
        capture: &Arc<CaptureState>,
        request: &WorkRequest,
    ) -> Result<WorkId, DispatchError> {
        let stream = request.stream;
        let refused =
            |source| DispatchError::Refused { name: request.name.to_string(), stream, source };
        let mut events = Vec::new();
        let mut after = Vec::new();
        for work in &request.after {
            match work.position {
                WorkPosition::Node { capture: id, .. } if id == capture.id => {
                    if work.stream != stream {
                        let queue = self.queue(work.stream)?;
                        let _order = lock(&queue.state)?;
                        // The event covers everything captured on that stream so far.
                        after.extend(capture.recording().last_of(work.stream));
                        events.push(self.context.events.record(work.stream).map_err(refused)?);
                    }
                }
                _ if self.is_finished(*work)? => {}
                _ => {
                    return Err(DispatchError::CaptureDependency {
                        name: request.name.to_string(),
                        origin: capture.origin,
                    });
                }
            }
        }
        let queue = self.queue(stream)?;
        let mut state = lock(&queue.state)?;
        state.check_usable()?;
        if state.capture.is_none() {
            state.retire(&self.context, stream);
            if !state.waiting.is_empty() {
                return Err(DispatchError::CaptureBusy { stream, waiting: state.waiting.len() });
            }
            state.record_before_capture(&self.context, stream)?;
        }
        let mut recording = capture.recording();
        if recording.ended {
            return Err(DispatchError::CaptureEnded { name: request.name.to_string(), stream });
        }
        for event in events {
            event.stream_wait(stream).map_err(refused)?;
            recording.events.push(event);
            state.capture = Some(Arc::clone(capture));
            if !recording.streams.contains(&stream) {
                recording.streams.push(stream);
            }
        }
        let enqueued = request.work.enqueue(&*self.context.backend, stream);
        enqueued.map_err(refused)?;
        let index = recording.nodes.len() as u32;
        after.sort_unstable();
        after.dedup();
        let node = GraphNode {
            index,
            kind: request.work.kind(),
            name: Arc::clone(&request.name),
            kernel: request.work.kernel(),
            stream,
            after,
            bytes: request.bytes,
            flops: request.flops,
        };
        recording.nodes.push((node, request.work.clone()));
        Ok(WorkId { stream, position: WorkPosition::Node { capture: capture.id, index } })
    }

    /// Ends a capture in the backend; its streams run again whether or not that succeeds.
    fn end_capture(&self, capture: &Arc<CaptureState>) -> Result<Graph, DispatchError> {
        let joined = self.join_branches(capture);
        let graph = self.context.backend.end_capture(capture.origin);
        // Ended stays set, so that no other thread can add to the capture.
        let recording = std::mem::replace(
            &mut *capture.recording(),
            CaptureRecording { ended: true, ..CaptureRecording::default() },
        );
        for stream in &recording.streams {
            let queue = self.queue(*stream)?;
            lock(&queue.state)?.capture = None;
        }
        self.remove_capture(capture)?;
        drop(recording.events);
        let backend = Arc::clone(&self.context.backend);
        let graph = Graph::new(backend, graph?, recording.nodes);
        joined?;
        Ok(graph)
    }

    /// Makes the first stream of a capture wait for the others.
    fn join_branches(&self, capture: &Arc<CaptureState>) -> Result<(), DispatchError> {
        let mut recording = capture.recording();
        recording.ended = true;
        let others: Vec<StreamId> = recording.streams.iter().skip(1).copied().collect();
        for stream in others {
            let event = self.context.events.record(stream)?;
            event.stream_wait(capture.origin)?;
            recording.events.push(event);
        }
        Ok(())
    }
}

impl StreamState {
    /// Records an event after the work in flight, since one recorded later would be captured.
    fn record_before_capture(
        &mut self,
        context: &DispatchContext,
        stream: StreamId,
    ) -> Result<(), DispatchError> {
        match self.ensure_end_event(context, stream) {
            true => Ok(()),
            false => Err(DispatchError::CaptureBusy { stream, waiting: self.in_flight.len() }),
        }
    }
}

impl Capture {
    /// The stream on which it began.
    pub fn stream(&self) -> StreamId {
        self.state.origin
    }

    /// Ends the capture and returns the graph.
    pub fn end(mut self) -> Result<Graph, DispatchError> {
        self.ended = true;
        self.shared.end_capture(&self.state)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.ended {
            // The graph is discarded; the streams must run again.
            let _ = self.shared.end_capture(&self.state);
        }
    }
}
