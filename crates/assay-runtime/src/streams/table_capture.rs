//! Capture of a [`StreamTable`]'s queued work into graphs.

use super::capture::{Capture, CapturedGraph};
use super::event::EventState;
use super::table::StreamTable;
use crate::backend::{BackendError, EventId, Operation, Result, StreamId};

impl<W> StreamTable<W> {
    /// Whether work queued on the stream is captured instead of run.
    pub fn is_capturing(&mut self, stream: StreamId) -> Result<bool> {
        let found = self.stream(Operation::IsCapturing, stream)?;
        Ok(found.capture.is_some())
    }

    /// Fails for a stream under capture: captured work does not run, so nothing can wait for it.
    pub fn check_not_capturing(&mut self, operation: Operation, stream: StreamId) -> Result<()> {
        match self.stream(operation, stream)?.capture {
            Some(_) => Err(BackendError::Capturing { operation, stream }),
            None => Ok(()),
        }
    }

    /// Begins a capture on the stream.
    pub fn begin_capture(&mut self, stream: StreamId) -> Result<()> {
        let operation = Operation::BeginCapture;
        self.check_not_capturing(operation, stream)?;
        let capture = self.new_id();
        self.stream(operation, stream)?.capture = Some((capture, 0));
        self.captures.insert(capture, Capture::new(stream));
        Ok(())
    }

    /// Captures the work if its stream is under capture; otherwise returns it to be queued.
    pub fn capture_work(
        &mut self,
        operation: Operation,
        stream: StreamId,
        work: W,
    ) -> Result<Option<W>> {
        let Some((id, branch)) = self.stream(operation, stream)?.capture else {
            return Ok(Some(work));
        };
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.add_work(branch, work);
        }
        Ok(None)
    }

    /// Records an event in the stream's capture; returns false if there is none.
    pub(super) fn capture_record(&mut self, event: EventId, stream: StreamId) -> Result<bool> {
        let Some((id, branch)) = self.stream(Operation::RecordEvent, stream)?.capture else {
            return Ok(false);
        };
        if let Some(capture) = self.captures.get_mut(&id) {
            let (record, clock) = capture.add_record(branch);
            let state = EventState::Captured { capture: id, record, clock, stream };
            self.events.set_state(event, state);
        }
        Ok(true)
    }

    /// Waits for an event recorded in a capture; the waiting stream joins that capture.
    pub(super) fn capture_wait(
        &mut self,
        stream: StreamId,
        id: u64,
        record: usize,
        clock: &[u64],
    ) -> Result<()> {
        let operation = Operation::WaitEvent;
        let refused = BackendError::Capturing { operation, stream };
        let current = self.stream(operation, stream)?.capture;
        let Some(capture) = self.captures.get_mut(&id) else {
            return Err(refused);
        };
        let branch = match current {
            Some((other, _)) if other != id => return Err(refused),
            Some((_, branch)) => branch,
            None => capture.add_branch(stream),
        };
        capture.add_wait(branch, record, clock);
        self.stream(operation, stream)?.capture = Some((id, branch));
        Ok(())
    }

    /// Ends the capture begun on this stream; its streams run again even if it fails.
    pub fn end_capture(&mut self, stream: StreamId) -> Result<CapturedGraph<W>> {
        let refused = BackendError::NotCapturing { stream };
        let Some((id, 0)) = self.stream(Operation::EndCapture, stream)?.capture else {
            return Err(refused);
        };
        let Some(capture) = self.captures.remove(&id) else {
            return Err(refused);
        };
        for member in capture.streams() {
            if let Some(found) = self.streams.get_mut(member) {
                found.capture = None;
            }
        }
        match capture.unjoined() {
            Some(left) => Err(BackendError::UnjoinedCapture { origin: stream, stream: left }),
            None => Ok(capture.finish()),
        }
    }
}
