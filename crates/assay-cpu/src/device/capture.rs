//! Capture of queued work into graphs.
//!
//! Work is noted in the order it was queued. A wait is only ever queued after the record it waits
//! for, so that order keeps every dependency, and a replay simply runs the list: side streams
//! would gain nothing, because each kernel uses all cores. What streams and events are needed for
//! is to know, at the end, that everything captured is joined to the stream that began.

use super::queue::{Mark, State, Work};
use assay_runtime::backend::{
    BackendError, CaptureLanes, EventId, GraphId, Operation, Result, StreamId,
};

/// A capture under way.
pub(super) struct Capture {
    lanes: CaptureLanes,
    works: Vec<Work>,
}

impl State {
    /// Refuses calls that would wait for captured work, which does not run.
    pub fn outside_capture(&mut self, operation: Operation, stream: StreamId) -> Result<()> {
        match self.stream(operation, stream)?.capture {
            Some(_) => Err(BackendError::Capturing { operation, stream }),
            None => Ok(()),
        }
    }

    pub fn begin_capture(&mut self, stream: StreamId) -> Result<()> {
        self.outside_capture(Operation::BeginCapture, stream)?;
        let capture = self.fresh_number();
        self.stream(Operation::BeginCapture, stream)?.capture = Some((capture, 0));
        let begun = Capture {
            lanes: CaptureLanes::begin(stream),
            works: Vec::new(),
        };
        self.captures.insert(capture, begun);
        Ok(())
    }

    /// Notes the work if the stream is being captured, and says whether it was.
    pub fn capture_work(&mut self, stream: StreamId, work: &Work) -> Result<bool> {
        let Some((id, lane)) = self.stream(work.operation(), stream)?.capture else {
            return Ok(false);
        };
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.works.push(work.clone());
            capture.lanes.advance(lane);
        }
        Ok(true)
    }

    /// Records an event inside a capture, and says whether the stream was in one.
    pub fn capture_record(&mut self, event: EventId, stream: StreamId) -> Result<bool> {
        let Some((id, lane)) = self.stream(Operation::RecordEvent, stream)?.capture else {
            return Ok(false);
        };
        if let Some(capture) = self.captures.get(&id) {
            let seen = capture.lanes.seen(lane);
            let mark = Mark::Captured {
                capture: id,
                seen,
                stream,
            };
            self.events.insert(event, mark);
        }
        Ok(true)
    }

    /// Waits for an event recorded inside a capture; the waiting stream joins that capture.
    pub fn capture_wait(&mut self, stream: StreamId, id: u64, seen: &[u64]) -> Result<()> {
        let operation = Operation::WaitEvent;
        let refused = BackendError::Capturing { operation, stream };
        let current = self.stream(operation, stream)?.capture;
        let Some(capture) = self.captures.get_mut(&id) else {
            return Err(refused);
        };
        let lane = match current {
            Some((other, _)) if other != id => return Err(refused),
            Some((_, lane)) => lane,
            None => capture.lanes.enter(stream),
        };
        capture.lanes.come_after(lane, seen);
        self.stream(operation, stream)?.capture = Some((id, lane));
        Ok(())
    }

    pub fn end_capture(&mut self, stream: StreamId) -> Result<GraphId> {
        let operation = Operation::EndCapture;
        let refused = BackendError::NotCapturing { stream };
        let Some((id, 0)) = self.stream(operation, stream)?.capture else {
            return Err(refused);
        };
        let Some(capture) = self.captures.remove(&id) else {
            return Err(refused);
        };
        for lane in capture.lanes.streams() {
            if let Some(found) = self.streams.get_mut(lane) {
                found.capture = None;
            }
        }
        if let Some(left) = capture.lanes.unjoined() {
            return Err(BackendError::UnjoinedCapture {
                origin: stream,
                stream: left,
            });
        }
        let graph = GraphId(self.fresh_number());
        self.graphs.insert(graph, capture.works.into());
        Ok(graph)
    }
}
