//! One stream as seen from the host: the work that waits in line for it.

use super::capture::CaptureBooks;
use super::error::DispatchError;
use super::failures::Failures;
use super::flight::{Issued, Tools, record};
use super::mark::Mark;
use super::record::WorkRecord;
use super::work::{WorkId, WorkRequest};
use crate::backend::StreamId;
use crate::scheduler::{Grant, Lane, PendingGrant, Poll, TaskId};
use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pieces for which turns are asked ahead of their being next, so that the scheduler sees what
/// is coming.
const ASK_AHEAD: usize = 64;

/// Permission of the scheduler to go.
pub(super) enum Gate {
    /// Not needed.
    Open,
    /// Not asked for yet.
    Closed,
    Asked(PendingGrant),
    /// A thread waits with the ticket in hand.
    Elsewhere,
    Granted(Grant),
}

/// Work that has not been queued on the device.
pub(super) struct Waiting {
    pub sequence: u64,
    pub request: WorkRequest,
    pub submitted_ns: u64,
    pub gate: Gate,
    /// Marks of other streams to wait for.
    pub marks: Vec<Arc<Mark>>,
    /// Work of other streams that is not queued on the device either.
    pub unresolved: Vec<WorkId>,
}

/// Where a piece of work stands.
pub(super) enum Status {
    Waiting,
    Issued,
    Finished,
    Failed(DispatchError),
}

/// What the first waiting work waits for.
pub(super) enum Blocked {
    Nothing,
    InFlight,
    Grant,
    /// These are to be looked up without this stream's lock.
    Dependencies(u64, Vec<WorkId>),
}

pub(super) struct StreamBooks {
    pub next: u64,
    pub waiting: VecDeque<Waiting>,
    pub issued: VecDeque<Issued>,
    pub capture: Option<Arc<CaptureBooks>>,
    failures: Failures,
    /// The device takes no more work for this stream.
    pub dead: Option<DispatchError>,
    /// A refusal met in line that no call has returned yet.
    pub untold: Option<DispatchError>,
    /// A failure on the device that nobody who waits has heard of.
    pub unheard: Option<DispatchError>,
    /// Pieces in flight behind the last mark.
    pub unmarked: u32,
}

/// A stream's books behind their own lock, so that streams do not wait for each other.
///
/// The lock is held across the driver calls that queue work, because their order is what it
/// guards. No thread ever holds two of these locks.
pub(super) struct StreamQueue {
    pub stream: StreamId,
    pub books: Mutex<StreamBooks>,
    pub changed: Condvar,
}

impl StreamQueue {
    pub fn new(stream: StreamId) -> Self {
        StreamQueue {
            stream,
            books: Mutex::new(StreamBooks {
                next: 0,
                waiting: VecDeque::new(),
                issued: VecDeque::new(),
                capture: None,
                failures: Failures::default(),
                dead: None,
                untold: None,
                unheard: None,
                unmarked: 0,
            }),
            changed: Condvar::new(),
        }
    }
}

impl Waiting {
    pub fn record(&self, failure: &DispatchError) -> WorkRecord {
        record(&self.request, self.submitted_ns, Some(failure.code()))
    }
}

impl StreamBooks {
    pub fn status(&self, stream: StreamId, sequence: u64) -> Status {
        if let Some(error) = self.failures.of(stream, sequence) {
            return Status::Failed(error);
        }
        let reaches = |front: Option<u64>| front.is_some_and(|front| sequence >= front);
        if reaches(self.waiting.front().map(|work| work.sequence)) {
            Status::Waiting
        } else if reaches(self.issued.front().map(|work| work.sequence)) {
            Status::Issued
        } else {
            Status::Finished
        }
    }

    /// The request of the first waiting work, if that is still this one.
    pub fn first_request(&self, sequence: u64) -> Option<WorkRequest> {
        let first = self.waiting.front()?;
        (first.sequence == sequence).then(|| first.request.clone())
    }

    /// The first waiting work cannot go.
    pub fn fail_first(&mut self, tools: &Tools, error: DispatchError) {
        if let Some(work) = self.waiting.pop_front() {
            let failed = work.record(&error);
            self.give_up(tools, work.sequence, failed, error);
        }
    }

    /// Records work that failed; what waits behind it was meant to come after it, and fails too.
    fn give_up(&mut self, tools: &Tools, sequence: u64, failed: WorkRecord, error: DispatchError) {
        tools.recorder.push(failed);
        for work in self.waiting.drain(..) {
            tools.recorder.push(work.record(&error));
        }
        self.remember(tools, sequence, error.clone());
        self.untold = Some(error);
    }

    /// Whether any of its work ever failed.
    pub fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Everything from this number on failed.
    pub fn remember(&mut self, tools: &Tools, first: u64, error: DispatchError) {
        self.failures.add(first..self.next, error);
        tools.failures.fetch_add(1, Ordering::Release);
    }

    /// Asks for turns of the work behind the first, as far as it is charged to the same task in
    /// the same lane and waits for nothing else.
    ///
    /// Any other work could hold a turn that the work in front of it needs.
    fn ask_ahead(&mut self) {
        let Some(charge) = self.waiting.front().and_then(Waiting::charge) else {
            return;
        };
        for work in self.waiting.iter_mut().skip(1).take(ASK_AHEAD) {
            let alike = work.unresolved.is_empty() && work.charge() == Some(charge);
            let asked = !matches!(work.gate, Gate::Closed);
            if !alike || (!asked && work.open_gate().is_err()) {
                // It is asked again, and its error told, when its time has come.
                if let (true, Gate::Elsewhere) = (alike, &work.gate) {
                    work.gate = Gate::Closed;
                }
                return;
            }
        }
    }

    /// Queues waiting work on the device until something stands in the way.
    pub fn advance(&mut self, tools: &Tools, stream: StreamId) -> Blocked {
        loop {
            self.take_in(tools, stream);
            let has_room = self.has_room(&tools.options);
            let Some(first) = self.waiting.front_mut() else {
                return Blocked::Nothing;
            };
            if !first.unresolved.is_empty() {
                return Blocked::Dependencies(first.sequence, first.unresolved.clone());
            }
            if let Err(error) = first.open_gate() {
                self.fail_first(tools, error);
                continue;
            }
            self.ask_ahead();
            let Some(first) = self.waiting.front() else {
                return Blocked::Nothing;
            };
            if !matches!(first.gate, Gate::Open | Gate::Granted(_)) {
                return Blocked::Grant;
            }
            if !has_room {
                return Blocked::InFlight;
            }
            let Some(work) = self.waiting.pop_front() else {
                return Blocked::Nothing;
            };
            let sequence = work.sequence;
            if let Err(refused) = self.issue(tools, work) {
                self.give_up(tools, sequence, refused.record, refused.error);
            }
        }
    }
}

impl Waiting {
    /// Asks the scheduler for a turn, or whether it has come.
    pub fn open_gate(&mut self) -> Result<(), DispatchError> {
        let request = &self.request;
        let polled = match std::mem::replace(&mut self.gate, Gate::Elsewhere) {
            Gate::Closed => match (&request.task, request.work.cost(request.cost_ns)) {
                (Some(task), Some((lane, units))) => {
                    task.request(lane, units).and_then(|ticket| ticket.poll())
                }
                _ => {
                    self.gate = Gate::Open;
                    return Ok(());
                }
            },
            Gate::Asked(ticket) => ticket.poll(),
            other => {
                self.gate = other;
                return Ok(());
            }
        };
        match polled {
            Ok(Poll::Ready(turn)) => self.gate = Gate::Granted(turn),
            Ok(Poll::Pending(ticket)) => self.gate = Gate::Asked(ticket),
            Err(source) => {
                return Err(DispatchError::Task {
                    name: request.name.to_string(),
                    source,
                });
            }
        }
        Ok(())
    }

    /// The task it is charged to and the lane it takes a turn in, if it needs one.
    fn charge(&self) -> Option<(TaskId, Lane)> {
        let (lane, _) = self.request.work.cost(self.request.cost_ns)?;
        Some((self.request.task.as_ref()?.id(), lane))
    }
}
