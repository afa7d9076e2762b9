//! The host's state of one stream: waiting work, work in flight, failures.

use super::capture_state::CaptureState;
use super::context::DispatchContext;
use super::error::DispatchError;
use super::failure_log::FailureLog;
use super::in_flight::InFlightWork;
use super::record::WorkRecord;
use super::waiting_work::{GrantGate, WaitingWork};
use super::work::{WorkId, WorkRequest};
use crate::backend::StreamId;
use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Waiting operations behind the first for which grants are requested, so that the scheduler knows
/// the demand.
const GRANT_LOOKAHEAD: usize = 64;

/// The state of one operation.
pub(super) enum Status {
    Waiting,
    InFlight,
    Finished,
    Failed(DispatchError),
}

/// What blocks the first waiting work.
pub(super) enum Blocked {
    Nothing,
    InFlight,
    Grant,
    /// Dependencies of the work with this number, to be looked up without this stream's lock.
    Dependencies(u64, Vec<WorkId>),
}

pub(super) struct StreamState {
    pub next_sequence: u64,
    pub waiting: VecDeque<WaitingWork>,
    pub in_flight: VecDeque<InFlightWork>,
    pub capture: Option<Arc<CaptureState>>,
    failures: FailureLog,
    /// The device accepts no more work for this stream.
    pub fatal_error: Option<DispatchError>,
    /// A rejection of waiting work that no call has returned yet.
    pub unreported_rejection: Option<DispatchError>,
    /// A failure on the device that no waiting call has returned yet.
    pub unreported_failure: Option<DispatchError>,
    /// Operations in flight after the last event.
    pub since_last_event: u32,
}

/// A stream's state behind a lock of its own, so that streams do not block each other.
///
/// The lock is held across the driver calls that queue work, because it guards their order. No
/// thread holds two of these locks.
pub(super) struct StreamQueue {
    pub stream: StreamId,
    pub state: Mutex<StreamState>,
    pub changed: Condvar,
}

impl StreamQueue {
    pub fn new(stream: StreamId) -> Self {
        StreamQueue {
            stream,
            state: Mutex::new(StreamState {
                next_sequence: 0,
                waiting: VecDeque::new(),
                in_flight: VecDeque::new(),
                capture: None,
                failures: FailureLog::default(),
                fatal_error: None,
                unreported_rejection: None,
                unreported_failure: None,
                since_last_event: 0,
            }),
            changed: Condvar::new(),
        }
    }
}

impl StreamState {
    pub fn status(&self, stream: StreamId, sequence: u64) -> Status {
        if let Some(error) = self.failures.get(stream, sequence) {
            return Status::Failed(error);
        }
        let reaches = |front: Option<u64>| front.is_some_and(|front| sequence >= front);
        if reaches(self.waiting.front().map(|work| work.sequence)) {
            Status::Waiting
        } else if reaches(self.oldest()) {
            Status::InFlight
        } else {
            Status::Finished
        }
    }

    /// The number of the oldest work in flight.
    pub fn oldest(&self) -> Option<u64> {
        self.in_flight.front().map(|work| work.sequence)
    }

    /// The number of the newest work in flight.
    pub fn newest(&self) -> Option<u64> {
        self.in_flight.back().map(|work| work.sequence)
    }

    /// The request of the first waiting work, if it still has this number.
    pub fn first_request(&self, sequence: u64) -> Option<WorkRequest> {
        let first = self.waiting.front()?;
        (first.sequence == sequence).then(|| first.request.clone())
    }

    /// The error of a stream that ended, or a rejection that no call has returned yet.
    pub fn check_usable(&mut self) -> Result<(), DispatchError> {
        let unreported = self.unreported_rejection.take();
        match unreported.or_else(|| self.fatal_error.clone()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Fails the first waiting work.
    pub fn fail_head(&mut self, context: &DispatchContext, error: DispatchError) {
        if let Some(work) = self.waiting.pop_front() {
            let failed = work.record(&error);
            self.fail_waiting(context, work.sequence, failed, error);
        }
    }

    /// Records failed work, and fails all waiting work, which is ordered after it.
    pub fn fail_waiting(
        &mut self,
        context: &DispatchContext,
        sequence: u64,
        failed: WorkRecord,
        error: DispatchError,
    ) {
        context.recorder.push(failed);
        for work in self.waiting.drain(..) {
            context.recorder.push(work.record(&error));
        }
        self.record_failure(context, sequence, error.clone());
        self.unreported_rejection = Some(error);
    }

    /// Whether any of its work ever failed.
    pub fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Marks everything from this number on as failed.
    pub fn record_failure(&mut self, context: &DispatchContext, first: u64, error: DispatchError) {
        self.failures.add(first..self.next_sequence, error);
        context.failures.fetch_add(1, Ordering::Release);
    }

    /// Requests grants for the work behind the first, as far as it has the same task and lane and
    /// no unresolved dependencies.
    ///
    /// Any other work could hold a grant that the work in front of it needs.
    pub fn request_grants_ahead(&mut self) {
        let Some(charge) = self.waiting.front().and_then(WaitingWork::charge) else {
            return;
        };
        for work in self.waiting.iter_mut().skip(1).take(GRANT_LOOKAHEAD) {
            let alike = work.unresolved.is_empty() && work.charge() == Some(charge);
            let requested = !matches!(work.gate, GrantGate::NotRequested);
            if !alike || (!requested && work.poll_grant().is_err()) {
                // The request is repeated, and its error reported, when the work is first in line.
                if let (true, GrantGate::Awaited) = (alike, &work.gate) {
                    work.gate = GrantGate::NotRequested;
                }
                return;
            }
        }
    }
}
