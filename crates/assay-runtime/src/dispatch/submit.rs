//! Submission: straight to the device where nothing stands in the way, else into the queue.

use super::error::DispatchError;
use super::flight::Unissued;
use super::mark::Mark;
use super::queue::{Blocked, Gate, Status, StreamBooks, StreamQueue, Waiting};
use super::work::{Place, WorkId, WorkRequest};
use super::{Shared, lock};
use crate::backend::StreamId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What it takes to come after a piece of work of another stream.
enum Dependency {
    Finished,
    Marked(Arc<Mark>),
    NotIssued,
    Failed(DispatchError),
}

/// Work that was not taken; where its line is full, it comes back to be tried again.
pub(super) struct Refused {
    pub error: DispatchError,
    pub request: Option<WorkRequest>,
}

impl From<DispatchError> for Box<Refused> {
    fn from(error: DispatchError) -> Self {
        Box::new(Refused {
            error,
            request: None,
        })
    }
}

impl Shared {
    pub(super) fn submit(&self, mut request: WorkRequest) -> Result<WorkId, Box<Refused>> {
        let stream = request.stream;
        if let Some(task) = &request.task {
            let known = self.tools.meter.cost_ns(task.id(), &request.name);
            request.cost_ns = known.unwrap_or(request.cost_ns);
        }
        let queue = self.queue(stream)?;
        let own = match self.capture_count.load(Ordering::Acquire) {
            0 => None,
            _ => lock(&queue.books)?.capture.clone(),
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
            let submitted_ns = self.tools.backend.clock().now_ns();
            let mut books = lock(&queue.books)?;
            if books.takes_at_once(&self.tools.options) {
                let sequence = books.next;
                let started = books.start(&self.tools, sequence, request, submitted_ns, None);
                return self.issued(&mut books, stream, started);
            }
        }
        let mut work = self.prepare(request)?;
        let mut books = lock(&queue.books)?;
        books.check_alive()?;
        if !books.has_room(&self.tools.options) {
            drop(books);
            // Takes in what is over, which may make room.
            self.pump(&queue)?;
            books = lock(&queue.books)?;
            books.check_alive()?;
        }
        if let Some(capture) = books.capture.clone() {
            // Begun by another thread in this moment.
            drop(books);
            return Ok(self.capture_work(&capture, &work.request)?);
        }
        work.sequence = books.next;
        let id = WorkId {
            stream,
            place: Place::Queue(work.sequence),
        };
        let next_in_line = work.unresolved.is_empty() && books.waiting.is_empty();
        if next_in_line && books.has_room(&self.tools.options) {
            work.open_gate()?;
        }
        if next_in_line && matches!(work.gate, Gate::Open | Gate::Granted(_)) {
            let issued = books.issue(&self.tools, work);
            return self.issued(&mut books, stream, issued);
        }
        let limit = self.tools.options.waiting;
        if books.waiting.len() >= limit {
            let error = DispatchError::TooManyWaiting {
                name: work.request.name.to_string(),
                stream,
                limit,
            };
            return Err(Box::new(Refused {
                error,
                request: Some(work.request),
            }));
        }
        books.next += 1;
        books.waiting.push_back(work);
        drop(books);
        self.pump(&queue)?;
        Ok(id)
    }

    /// Counts the next piece of a stream, if the device took it.
    fn issued(
        &self,
        books: &mut StreamBooks,
        stream: StreamId,
        outcome: Result<(), Box<Unissued>>,
    ) -> Result<WorkId, Box<Refused>> {
        if let Err(refused) = outcome {
            self.tools.recorder.push(refused.record);
            return Err(refused.error.into());
        }
        let place = Place::Queue(books.next);
        books.next += 1;
        Ok(WorkId { stream, place })
    }

    /// Looks up what the work comes after.
    fn prepare(&self, request: WorkRequest) -> Result<Waiting, DispatchError> {
        let submitted_ns = self.tools.backend.clock().now_ns();
        let mut work = Waiting {
            sequence: 0,
            submitted_ns,
            gate: Gate::Closed,
            marks: Vec::new(),
            unresolved: request.after.clone(),
            request,
        };
        self.resolve(&mut work.unresolved, &mut work.marks, &work.request)?;
        Ok(work)
    }

    /// Turns work into marks to wait for; what is not queued on the device stays unresolved.
    fn resolve(
        &self,
        unresolved: &mut Vec<WorkId>,
        marks: &mut Vec<Arc<Mark>>,
        request: &WorkRequest,
    ) -> Result<(), DispatchError> {
        let mut left = Vec::new();
        for work in unresolved.drain(..) {
            match self.dependency(work, request)? {
                Dependency::Finished => {}
                Dependency::Marked(mark) => marks.push(mark),
                Dependency::NotIssued => left.push(work),
                Dependency::Failed(source) => {
                    return Err(DispatchError::DependencyFailed {
                        name: request.name.to_string(),
                        source: Box::new(source),
                    });
                }
            }
        }
        *unresolved = left;
        Ok(())
    }

    fn dependency(&self, work: WorkId, request: &WorkRequest) -> Result<Dependency, DispatchError> {
        let Place::Queue(sequence) = work.place else {
            return Err(DispatchError::Captured {
                stream: work.stream,
            });
        };
        let queue = self.queue(work.stream)?;
        let mut books = lock(&queue.books)?;
        Ok(match books.status(work.stream, sequence) {
            Status::Finished => Dependency::Finished,
            Status::Failed(error) => Dependency::Failed(error),
            // The order of the stream sees to it.
            _ if work.stream == request.stream => Dependency::Finished,
            Status::Waiting => Dependency::NotIssued,
            Status::Issued => {
                let mark = books.covering_mark(&self.tools, work.stream, sequence);
                mark.map_or(Dependency::NotIssued, Dependency::Marked)
            }
        })
    }

    pub(super) fn is_finished(&self, work: WorkId) -> Result<bool, DispatchError> {
        let Place::Queue(sequence) = work.place else {
            return Ok(false);
        };
        let queue = self.queue(work.stream)?;
        let mut books = lock(&queue.books)?;
        books.take_in(&self.tools, work.stream);
        Ok(matches!(
            books.status(work.stream, sequence),
            Status::Finished
        ))
    }

    /// Why the work failed, if it has.
    pub(super) fn failure(&self, work: WorkId) -> Result<Option<DispatchError>, DispatchError> {
        match self.is_over(work) {
            Ok(_) => Ok(None),
            Err(DispatchError::Poisoned) => Err(DispatchError::Poisoned),
            Err(error) => Ok(Some(error)),
        }
    }

    /// Whether the work is over, or the error it ended with.
    pub(super) fn is_over(&self, work: WorkId) -> Result<bool, DispatchError> {
        let Place::Queue(sequence) = work.place else {
            return Err(DispatchError::Captured {
                stream: work.stream,
            });
        };
        let queue = self.queue(work.stream)?;
        let status = lock(&queue.books)?.status(work.stream, sequence);
        match status {
            Status::Finished => Ok(true),
            Status::Failed(error) => Err(error),
            Status::Waiting | Status::Issued => Ok(false),
        }
    }

    /// Ends the turns of work that is over, having taken in what else is over on other streams.
    fn settle(&self) -> Result<bool, DispatchError> {
        if self.tools.meter.is_empty() {
            return Ok(false);
        }
        for queue in self.all_queues()? {
            let mut books = lock(&queue.books)?;
            if books.holds_turns() {
                books.take_in(&self.tools, queue.stream);
            }
        }
        self.tools.meter.settle();
        Ok(true)
    }

    /// Moves a stream on as far as it goes, and says what stands in the way.
    pub(super) fn pump(&self, queue: &StreamQueue) -> Result<Blocked, DispatchError> {
        loop {
            let blocked = lock(&queue.books)?.advance(&self.tools, queue.stream);
            queue.changed.notify_all();
            if self.settle()? {
                continue;
            }
            let Blocked::Dependencies(sequence, mut unresolved) = blocked else {
                return Ok(blocked);
            };
            // Other streams are asked without holding this one, so that no two locks are held.
            let before = unresolved.len();
            let Some(request) = lock(&queue.books)?.first_request(sequence) else {
                continue;
            };
            let mut marks = Vec::new();
            let resolved = self.resolve(&mut unresolved, &mut marks, &request);
            let mut books = lock(&queue.books)?;
            let Some(first) = books
                .waiting
                .front_mut()
                .filter(|work| work.sequence == sequence)
            else {
                continue;
            };
            match resolved {
                Ok(()) => {
                    let stuck = unresolved.len() == before;
                    first.marks.append(&mut marks);
                    first.unresolved.clone_from(&unresolved);
                    if stuck {
                        return Ok(Blocked::Dependencies(sequence, unresolved));
                    }
                }
                Err(error) => books.fail_first(&self.tools, error),
            }
        }
    }
}
