//! Submission: issues work if nothing blocks it, else queues it.

use super::error::DispatchError;
use super::event_pool::TimingEvent;
use super::in_flight::RejectedWork;
use super::shared::{Shared, lock};
use super::stream_state::{Blocked, Status, StreamQueue, StreamState};
use super::waiting_work::{GrantGate, WaitingWork};
use super::work::{WorkId, WorkPosition, WorkRequest};
use crate::backend::StreamId;
use std::sync::Arc;

/// How to order work after a dependency on another stream.
enum Dependency {
    Finished,
    Recorded(Arc<TimingEvent>),
    NotIssued,
    Failed(DispatchError),
}

/// A failed submission; returns the request if the waiting queue is full, for a retry.
pub(super) struct SubmitError {
    pub error: DispatchError,
    pub request: Option<WorkRequest>,
}

impl From<DispatchError> for Box<SubmitError> {
    fn from(error: DispatchError) -> Self {
        Box::new(SubmitError { error, request: None })
    }
}

impl Shared {
    pub(super) fn submit(&self, mut request: WorkRequest) -> Result<WorkId, Box<SubmitError>> {
        let stream = request.stream;
        if let Some(task) = &request.task {
            let known = self.context.meter.cost_ns(task.id(), &request.name);
            request.cost_ns = known.unwrap_or(request.cost_ns);
        }
        let queue = self.queue(stream)?;
        let own = match self.has_captures() {
            true => lock(&queue.state)?.capture.clone(),
            false => None,
        };
        if let Some(capture) = self.capture_of(&request, own.as_ref())? {
            return Ok(self.capture_work(&capture, &request)?);
        }
        if request.work.is_host_copy()
            && let Some(capture) = self.thread_capture()?
        {
            let error = DispatchError::CaptureHostCopy {
                name: request.name.to_string(),
                stream,
                origin: capture.origin,
            };
            return Err(error.into());
        }
        if request.after.is_empty() && request.task.is_none() {
            let submitted_ns = self.context.backend.clock().now_ns();
            let mut state = lock(&queue.state)?;
            if state.can_issue_now(&self.context.options) {
                let sequence = state.next_sequence;
                let issued = state.enqueue(&self.context, sequence, request, submitted_ns, None);
                return self.count_issued(&mut state, stream, issued);
            }
        }
        let mut work = self.prepare(request)?;
        let mut state = lock(&queue.state)?;
        state.check_usable()?;
        if !state.has_capacity(&self.context.options) {
            drop(state);
            // Retiring completed work may free capacity.
            self.progress(&queue)?;
            state = lock(&queue.state)?;
            state.check_usable()?;
        }
        if let Some(capture) = state.capture.clone() {
            // Another thread has just begun a capture.
            drop(state);
            return Ok(self.capture_work(&capture, &work.request)?);
        }
        work.sequence = state.next_sequence;
        let id = WorkId { stream, position: WorkPosition::Queue(work.sequence) };
        let is_first = work.unresolved.is_empty() && state.waiting.is_empty();
        if is_first && state.has_capacity(&self.context.options) {
            work.poll_grant()?;
        }
        if is_first && work.gate.is_open() {
            let issued = state.issue(&self.context, work);
            return self.count_issued(&mut state, stream, issued);
        }
        let limit = self.context.options.waiting;
        if state.waiting.len() >= limit {
            let error = DispatchError::TooManyWaiting {
                name: work.request.name.to_string(),
                stream,
                limit,
            };
            return Err(Box::new(SubmitError { error, request: Some(work.request) }));
        }
        state.next_sequence += 1;
        state.waiting.push_back(work);
        drop(state);
        self.progress(&queue)?;
        Ok(id)
    }

    /// Numbers work if the device accepted it; else records the rejection.
    fn count_issued(
        &self,
        state: &mut StreamState,
        stream: StreamId,
        outcome: Result<(), Box<RejectedWork>>,
    ) -> Result<WorkId, Box<SubmitError>> {
        if let Err(rejected) = outcome {
            self.context.recorder.push(rejected.record);
            return Err(rejected.error.into());
        }
        let position = WorkPosition::Queue(state.next_sequence);
        state.next_sequence += 1;
        Ok(WorkId { stream, position })
    }

    pub(super) fn poll(&self) -> Result<(), DispatchError> {
        for queue in self.all_queues()? {
            let mut state = lock(&queue.state)?;
            // During capture the event would be captured; work before it has one already.
            if state.capture.is_none() {
                state.ensure_end_event(&self.context, queue.stream);
            }
            drop(state);
            self.progress(&queue)?;
        }
        Ok(())
    }

    /// Resolves the dependencies of a request.
    fn prepare(&self, request: WorkRequest) -> Result<WaitingWork, DispatchError> {
        let submitted_ns = self.context.backend.clock().now_ns();
        let mut work = WaitingWork {
            sequence: 0,
            submitted_ns,
            gate: GrantGate::NotRequested,
            dependencies: Vec::new(),
            unresolved: request.after.clone(),
            request,
        };
        self.resolve(&mut work.unresolved, &mut work.dependencies, &work.request)?;
        Ok(work)
    }

    /// Replaces issued dependencies by events; those not issued stay unresolved.
    fn resolve(
        &self,
        unresolved: &mut Vec<WorkId>,
        events: &mut Vec<Arc<TimingEvent>>,
        request: &WorkRequest,
    ) -> Result<(), DispatchError> {
        let mut not_issued = Vec::new();
        for work in unresolved.drain(..) {
            match self.dependency(work, request)? {
                Dependency::Finished => {}
                Dependency::Recorded(event) => events.push(event),
                Dependency::NotIssued => not_issued.push(work),
                Dependency::Failed(source) => {
                    return Err(DispatchError::DependencyFailed {
                        name: request.name.to_string(),
                        source: Box::new(source),
                    });
                }
            }
        }
        *unresolved = not_issued;
        Ok(())
    }

    fn dependency(&self, work: WorkId, request: &WorkRequest) -> Result<Dependency, DispatchError> {
        let WorkPosition::Queue(sequence) = work.position else {
            return Err(DispatchError::Captured { stream: work.stream });
        };
        let queue = self.queue(work.stream)?;
        let mut state = lock(&queue.state)?;
        Ok(match state.status(work.stream, sequence) {
            Status::Finished => Dependency::Finished,
            Status::Failed(error) => Dependency::Failed(error),
            // Stream order suffices.
            _ if work.stream == request.stream => Dependency::Finished,
            Status::Waiting => Dependency::NotIssued,
            Status::InFlight => {
                let event = state.completion_event(&self.context, work.stream, sequence);
                event.map_or(Dependency::NotIssued, Dependency::Recorded)
            }
        })
    }

    pub(super) fn is_finished(&self, work: WorkId) -> Result<bool, DispatchError> {
        let WorkPosition::Queue(sequence) = work.position else {
            return Ok(false);
        };
        let queue = self.queue(work.stream)?;
        let mut state = lock(&queue.state)?;
        state.retire(&self.context, work.stream);
        Ok(matches!(state.status(work.stream, sequence), Status::Finished))
    }

    /// The error of the work, if it failed.
    pub(super) fn failure(&self, work: WorkId) -> Result<Option<DispatchError>, DispatchError> {
        match self.is_complete(work) {
            Ok(_) => Ok(None),
            Err(DispatchError::Poisoned) => Err(DispatchError::Poisoned),
            Err(error) => Ok(Some(error)),
        }
    }

    /// Whether the work has finished, or its error.
    pub(super) fn is_complete(&self, work: WorkId) -> Result<bool, DispatchError> {
        let WorkPosition::Queue(sequence) = work.position else {
            return Err(DispatchError::Captured { stream: work.stream });
        };
        let queue = self.queue(work.stream)?;
        let status = lock(&queue.state)?.status(work.stream, sequence);
        match status {
            Status::Finished => Ok(true),
            Status::Failed(error) => Err(error),
            Status::Waiting | Status::InFlight => Ok(false),
        }
    }

    /// Charges the grants of completed work, after retiring completed work on all streams that
    /// hold grants; returns false if there is none.
    fn charge_completed(&self) -> Result<bool, DispatchError> {
        if self.context.meter.is_empty() {
            return Ok(false);
        }
        for queue in self.all_queues()? {
            let mut state = lock(&queue.state)?;
            if state.holds_grants() {
                state.retire(&self.context, queue.stream);
            }
        }
        self.context.meter.charge();
        Ok(true)
    }

    /// Retires and issues work of a stream as far as possible; returns what blocks the rest.
    pub(super) fn progress(&self, queue: &StreamQueue) -> Result<Blocked, DispatchError> {
        loop {
            let blocked = lock(&queue.state)?.issue_waiting(&self.context, queue.stream);
            queue.changed.notify_all();
            if self.charge_completed()? {
                continue;
            }
            let Blocked::Dependencies(sequence, mut unresolved) = blocked else {
                return Ok(blocked);
            };
            // Other streams are locked without holding this one's lock.
            let before = unresolved.len();
            let Some(request) = lock(&queue.state)?.first_request(sequence) else {
                continue;
            };
            let mut events = Vec::new();
            let resolved = self.resolve(&mut unresolved, &mut events, &request);
            let mut state = lock(&queue.state)?;
            let Some(first) = state.waiting.front_mut().filter(|work| work.sequence == sequence)
            else {
                continue;
            };
            match resolved {
                Ok(()) => {
                    let unchanged = unresolved.len() == before;
                    first.dependencies.append(&mut events);
                    first.unresolved.clone_from(&unresolved);
                    if unchanged {
                        return Ok(Blocked::Dependencies(sequence, unresolved));
                    }
                }
                Err(error) => state.fail_head(&self.context, error),
            }
        }
    }
}
