//! The dispatch controller.

use super::capture::Capture;
use super::context::DispatchContext;
use super::error::{DispatchError, Result};
use super::memory::RecordedMemory;
use super::options::DispatchOptions;
use super::record::{Recorder, Span};
use super::shared::{Shared, lock};
use super::work::{Graph, WorkId, WorkRequest};
use super::work_log::WorkTrace;
use crate::backend::{Backend, Launch, StreamId, StreamPriority};
use crate::memory::{MemoryError, MemoryResource, Residency};
use crate::scheduler::ProgressEngine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The queue lengths of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamUsage {
    /// Operations queued on the device and not yet retired.
    pub in_flight: usize,
    /// Operations that wait to be issued.
    pub waiting: usize,
}

/// The dispatch controller of one device. Clones are handles of the same one.
///
/// Dropping the last handle waits for work in flight and records waiting work as abandoned.
#[derive(Clone)]
pub struct DispatchController {
    shared: Arc<Shared>,
}

impl DispatchController {
    /// A controller that writes its records to `recorder`.
    pub fn new(
        backend: Arc<dyn Backend>,
        options: DispatchOptions,
        recorder: Arc<Recorder>,
    ) -> Result<Self> {
        options.validate()?;
        Ok(DispatchController {
            shared: Arc::new(Shared::new(DispatchContext::new(backend, options, recorder))),
        })
    }

    /// The recorder.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.shared.context.recorder
    }

    /// Creates a stream.
    pub fn create_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        Ok(self.shared.context.backend.create_stream(priority)?)
    }

    /// Destroys a stream after everything submitted to it, and drops its state.
    ///
    /// The log of failures is kept: what was written on the stream may outlive it.
    pub fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        let outcome = self.shared.synchronize(stream);
        let queue = self.shared.queue(stream)?;
        if !lock(&queue.state)?.has_failed() {
            lock(&self.shared.queues)?.remove(&stream);
        }
        self.shared.context.backend.destroy_stream(stream)?;
        outcome
    }

    /// Issues work, or queues it here if its stream is at capacity or its dependencies are not
    /// issued.
    ///
    /// The rejection of work that waited is returned by the next call for its stream.
    pub fn submit(&self, request: WorkRequest) -> Result<WorkId> {
        self.add_progress_engine(&request);
        let submitted = self.shared.submit(request);
        submitted.map_err(|refused| refused.error)
    }

    /// Submits work, blocking while the stream's waiting queue is full.
    pub fn submit_blocking(&self, mut request: WorkRequest) -> Result<WorkId> {
        self.add_progress_engine(&request);
        loop {
            let refused = match self.shared.submit(request) {
                Ok(work) => return Ok(work),
                Err(refused) => *refused,
            };
            match (refused.error, refused.request) {
                (DispatchError::TooManyWaiting { stream, .. }, Some(back)) => {
                    self.shared.wait_for_capacity(stream)?;
                    request = back;
                }
                (error, _) => return Err(error),
            }
        }
    }

    fn add_progress_engine(&self, request: &WorkRequest) {
        if let Some(task) = &request.task {
            let engine: Arc<dyn ProgressEngine> = self.shared.clone();
            task.add_progress_engine(&engine);
        }
    }

    /// Whether the work has finished, after progress on its stream.
    pub fn is_complete(&self, work: WorkId) -> Result<bool> {
        self.shared.progress(&*self.shared.queue(work.stream())?)?;
        self.shared.is_complete(work)
    }

    /// Failures so far, on all streams; while it does not change, nothing failed.
    pub fn failures(&self) -> u64 {
        self.shared.context.failures.load(Ordering::Acquire)
    }

    /// The error of the work, if it is known to have failed; none for a node of a capture.
    pub fn failure(&self, work: WorkId) -> Result<Option<DispatchError>> {
        match work.is_captured() {
            true => Ok(None),
            false => self.shared.failure(work),
        }
    }

    /// Blocks until the work has finished; returns its error if it failed.
    pub fn wait(&self, work: WorkId) -> Result<()> {
        self.shared.wait(work)
    }

    /// Blocks until the work was issued to its stream of the device, or has failed.
    pub fn wait_issued(&self, work: WorkId) -> Result<()> {
        self.shared.wait_issued(work)
    }

    /// Blocks until the work has finished or failed.
    pub fn wait_complete(&self, work: WorkId) -> Result<()> {
        self.shared.outcome(work).map(|_| ())
    }

    /// Blocks until everything submitted to the stream so far has finished or failed.
    pub fn drain(&self, stream: StreamId) -> Result<()> {
        self.shared.drain(stream)
    }

    /// Blocks until everything submitted to the stream so far has finished.
    ///
    /// Returns a failure on the device once, if no other call has returned it; the stream stays
    /// usable.
    pub fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.shared.synchronize(stream)
    }

    /// Blocks until everything submitted to the stream so far is issued to the device.
    pub fn flush(&self, stream: StreamId) -> Result<()> {
        self.shared.flush(stream)
    }

    /// Issues waiting work and retires completed work of every stream.
    pub fn poll(&self) -> Result<()> {
        self.shared.poll()
    }

    /// The queue lengths of a stream.
    pub fn usage(&self, stream: StreamId) -> Result<StreamUsage> {
        let queue = self.shared.queue(stream)?;
        let state = lock(&queue.state)?;
        Ok(StreamUsage { in_flight: state.in_flight.len(), waiting: state.waiting.len() })
    }

    /// Begins a capture: work submitted to the stream is captured instead of run.
    pub fn begin_capture(&self, stream: StreamId) -> Result<Capture> {
        self.shared.begin_capture(stream)
    }

    /// Captures a graph anew on other streams, with a launch before some of its nodes.
    ///
    /// `streams` has one for each of [`Graph::streams`]; `before` has launches by index of node,
    /// recorded under `name`. A launch comes after everything that its node waits for.
    pub fn recapture(
        &self,
        graph: &Graph,
        streams: &[StreamId],
        name: &Arc<str>,
        before: &BTreeMap<u32, Launch>,
    ) -> Result<Graph> {
        self.shared.recapture(graph, streams, (name, before))
    }

    /// Replays a graph node by node, waits for it, and returns the span of each node.
    ///
    /// The events between nodes take time, so this takes longer than a graph launch.
    pub fn replay_timed(&self, name: &str, graph: &Graph, stream: StreamId) -> Result<Vec<Span>> {
        self.shared.replay_timed(name, graph, stream)
    }

    /// Begins a trace of `capacity` launches; false if the device has no tracer.
    pub fn start_trace(&self, capacity: usize) -> Result<bool> {
        self.shared.start_trace(capacity)
    }

    /// Waits for the work in flight, ends the trace and returns it.
    pub fn stop_trace(&self) -> Result<WorkTrace> {
        self.shared.stop_trace()
    }

    /// Records the spills and restores of evictable buffers since the last call.
    pub fn record_movements(&self, residency: &Residency) -> std::result::Result<(), MemoryError> {
        self.shared.record_movements(residency)
    }

    /// Wraps a resource: its allocations are recorded here, and fail during capture.
    pub fn record_memory<R: MemoryResource>(&self, resource: R, name: &str) -> RecordedMemory<R> {
        RecordedMemory::new(resource, name, Arc::clone(&self.shared))
    }
}
