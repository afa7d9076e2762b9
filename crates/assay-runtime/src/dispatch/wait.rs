//! Waiting for work, which moves on whatever stands in its way.

use super::error::DispatchError;
use super::queue::{Blocked, Gate, Status, StreamQueue};
use super::work::{Place, WorkId};
use super::{Shared, lock};
use crate::backend::{BackendError, StreamId};
use crate::scheduler::{Lane, ProgressEngine};
use std::sync::Arc;

impl Shared {
    /// Blocks until the work is over, and gives the error it ended with.
    pub(super) fn wait(&self, work: WorkId) -> Result<(), DispatchError> {
        let Some(error) = self.outcome(work)? else {
            return Ok(());
        };
        // Told here, so not told again to the next caller.
        let queue = self.queue(work.stream)?;
        let mut books = lock(&queue.books)?;
        books.untold = books.untold.take().filter(|untold| *untold != error);
        books.unheard = books.unheard.take().filter(|unheard| *unheard != error);
        Err(error)
    }

    /// Blocks until the work is over; gives why it failed, if it did.
    pub(super) fn outcome(&self, work: WorkId) -> Result<Option<DispatchError>, DispatchError> {
        let Place::Queue(sequence) = work.place else {
            return Err(DispatchError::Captured {
                stream: work.stream,
            });
        };
        let queue = self.queue(work.stream)?;
        loop {
            let blocked = self.pump(&queue)?;
            let status = lock(&queue.books)?.status(work.stream, sequence);
            match status {
                Status::Finished => return Ok(None),
                Status::Failed(error) => return Ok(Some(error)),
                Status::Issued => self.wait_in_flight(&queue, sequence)?,
                Status::Waiting => self.unblock(&queue, blocked)?,
            }
        }
    }

    /// Waits until work that is queued on the device is over.
    fn wait_in_flight(&self, queue: &StreamQueue, sequence: u64) -> Result<(), DispatchError> {
        let stream = queue.stream;
        let mut books = lock(&queue.books)?;
        let newest = books.newest();
        if let Some(mark) = books.covering_mark(&self.tools, stream, sequence) {
            drop(books);
            return match mark.wait() {
                // The work is not over, and may never be.
                Err(error @ BackendError::Watchdog { .. }) => Err(error.into()),
                // A failure shows again when the work is next taken in.
                _ => Ok(()),
            };
        }
        // The device takes no marks, so the stream as a whole has to do.
        drop(books);
        let outcome = self.tools.backend.synchronize_stream(stream);
        let mut books = lock(&queue.books)?;
        match (outcome, newest) {
            (Ok(()), Some(newest)) => books.finish_through(&self.tools, newest),
            (Ok(()), None) => {}
            (Err(error), _) if error.ends_work() => {
                books.fail(&self.tools, stream, error);
            }
            (Err(error), _) => return Err(error.into()),
        }
        Ok(())
    }

    /// Waits for what stands in the way of the first waiting work of a stream.
    fn unblock(&self, queue: &StreamQueue, blocked: Blocked) -> Result<(), DispatchError> {
        match blocked {
            Blocked::Nothing => Ok(()),
            Blocked::InFlight => {
                let oldest = lock(&queue.books)?.oldest();
                oldest.map_or(Ok(()), |oldest| self.wait_in_flight(queue, oldest))
            }
            Blocked::Grant => self.wait_for_turn(queue),
            Blocked::Dependencies(_, unresolved) => {
                // Work comes after older work only, so this chain ends.
                for work in unresolved {
                    let other = self.queue(work.stream)?;
                    let blocked = self.pump(&other)?;
                    self.unblock(&other, blocked)?;
                }
                Ok(())
            }
        }
    }

    /// Waits for the scheduler without the stream's lock, and brings the turn back.
    fn wait_for_turn(&self, queue: &StreamQueue) -> Result<(), DispatchError> {
        let mut books = lock(&queue.books)?;
        let Some(first) = books.waiting.front_mut() else {
            return Ok(());
        };
        let sequence = first.sequence;
        match std::mem::replace(&mut first.gate, Gate::Elsewhere) {
            Gate::Asked(ticket) => {
                drop(books);
                let turn = ticket.wait();
                let mut books = lock(&queue.books)?;
                let first = books.waiting.front_mut();
                let Some(first) = first.filter(|work| work.sequence == sequence) else {
                    return Ok(());
                };
                match turn {
                    Ok(turn) => first.gate = Gate::Granted(turn),
                    Err(source) => {
                        let name = first.request.name.to_string();
                        books.fail_first(&self.tools, DispatchError::Task { name, source });
                    }
                }
                drop(books);
                queue.changed.notify_all();
            }
            Gate::Elsewhere => {
                let woken = queue.changed.wait(books);
                drop(woken.map_err(|_| DispatchError::Poisoned)?);
            }
            other => first.gate = other,
        }
        Ok(())
    }

    /// Blocks until the first waiting work of a stream has moved on.
    pub(super) fn wait_for_room(&self, stream: StreamId) -> Result<(), DispatchError> {
        let queue = self.queue(stream)?;
        let blocked = self.pump(&queue)?;
        self.unblock(&queue, blocked)
    }

    /// Blocks until everything submitted to the stream so far is over, however it ended.
    pub(super) fn drain(&self, stream: StreamId) -> Result<(), DispatchError> {
        let queue = self.queue(stream)?;
        let next = lock(&queue.books)?.next;
        if let Some(last) = next.checked_sub(1) {
            self.outcome(WorkId {
                stream,
                place: Place::Queue(last),
            })?;
        }
        Ok(())
    }

    /// Blocks until everything submitted to the stream so far is over, and tells what failed.
    pub(super) fn synchronize(&self, stream: StreamId) -> Result<(), DispatchError> {
        self.drain(stream)?;
        let queue = self.queue(stream)?;
        let mut books = lock(&queue.books)?;
        books.check_alive()?;
        books.unheard.take().map_or(Ok(()), Err)
    }
}

impl Drop for Shared {
    /// Waits for work in flight, whose turns must not end before it; work in line is given up.
    fn drop(&mut self) {
        for queue in self.all_queues().unwrap_or_default() {
            let stream = queue.stream;
            let Ok(mut books) = lock(&queue.books) else {
                continue;
            };
            if let Some(newest) = books.newest() {
                match self.tools.backend.synchronize_stream(stream) {
                    Ok(()) => books.finish_through(&self.tools, newest),
                    Err(error) => books.fail(&self.tools, stream, error),
                }
            }
            while let Some(name) = books
                .waiting
                .front()
                .map(|work| work.request.name.to_string())
            {
                books.fail_first(&self.tools, DispatchError::Abandoned { name });
            }
        }
        self.tools.meter.settle();
    }
}

impl ProgressEngine for Shared {
    fn make_progress(&self) {
        // Whoever waits for the work meets the error.
        let _ = self.poll();
    }

    fn wait_for_grant_end(&self, lane: Option<Lane>) -> bool {
        let Ok(queues) = self.all_queues() else {
            return false;
        };
        let oldest = queues.iter().filter_map(|queue| {
            let (submitted_ns, mark) = lock(&queue.books).ok()?.oldest_turn(lane)?;
            Some((submitted_ns, mark, Arc::clone(queue)))
        });
        let Some((_, mark, queue)) = oldest.min_by_key(|(submitted_ns, ..)| *submitted_ns) else {
            return false;
        };
        // A failure shows again when the work is next taken in.
        let _ = mark.wait();
        self.pump(&queue).is_ok()
    }
}
