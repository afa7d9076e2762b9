//! A transfer in its owner's hands.

use super::error::TransferError;
use super::job::{BufferSink, Gate};
use super::{Shared, lock};
use crate::backend::{EventId, StreamId};
use crate::dispatch::event_pool::TimingEvent;
use crate::scheduler::PendingGrant;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes that have arrived.
    pub arrived: u64,
    /// Bytes in all.
    pub bytes: u64,
}

/// A transfer. Dropping the handle lets it go on as long as the engine lives;
/// [`Transfer::cancel`] ends it.
///
/// When [`Transfer::wait`] has returned, with or without an error, neither end of the transfer is
/// touched any more.
pub struct Transfer {
    shared: Arc<Shared>,
    key: u64,
}

/// What a waiting thread can wait for.
enum Obstacle {
    Over(Result<(), TransferError>),
    /// The oldest chunk under way.
    Chunk(Arc<TimingEvent>),
    Stream(StreamId),
    Event(EventId),
    Grant(PendingGrant),
    /// Another thread has something in hand.
    Thread,
}

impl Transfer {
    pub(super) fn new(shared: Arc<Shared>, key: u64) -> Self {
        Transfer { shared, key }
    }

    /// Whether it is over, after doing what can be done without waiting.
    pub fn poll(&self) -> Result<bool, TransferError> {
        self.shared.drive()?;
        let books = lock(&self.shared.books)?;
        match books.jobs.get(self.key) {
            Some(job) if !job.over => Ok(false),
            Some(job) => job.error.clone().map_or(Ok(true), Err),
            None => Err(TransferError::Poisoned),
        }
    }

    /// Blocks until it is over.
    pub fn wait(&self) -> Result<(), TransferError> {
        loop {
            self.shared.drive()?;
            if let Some(outcome) = self.wait_for_obstacle()? {
                return outcome;
            }
        }
    }

    /// Waits for whatever is in the way, or gives the outcome if nothing is.
    fn wait_for_obstacle(&self) -> Result<Option<Result<(), TransferError>>, TransferError> {
        match self.obstacle()? {
            Obstacle::Over(outcome) => return Ok(Some(outcome)),
            // A failure shows again, with its chunk, when the books are next brought up to date.
            Obstacle::Chunk(mark) => drop(mark.synchronize()),
            Obstacle::Stream(stream) => drop(self.shared.backend.synchronize_stream(stream)),
            Obstacle::Event(event) => drop(self.shared.backend.synchronize_event(event)),
            Obstacle::Grant(ticket) => self.wait_for_turn(ticket)?,
            Obstacle::Thread => self.wait_for_thread()?,
        }
        Ok(None)
    }

    fn obstacle(&self) -> Result<Obstacle, TransferError> {
        let mut books = lock(&self.shared.books)?;
        let Some(job) = books.jobs.get_mut(self.key) else {
            return Err(TransferError::Poisoned);
        };
        if job.over {
            return Ok(Obstacle::Over(job.error.clone().map_or(Ok(()), Err)));
        }
        let way = job.route.way() as usize;
        let event = job.terms.after.last().copied();
        if let Some(first) = books.ways[way].under_way.front() {
            let idle_stream = books.ways[way].stream.map(Obstacle::Stream);
            let mark = first.mark.clone().map(Obstacle::Chunk);
            return Ok(mark.or(idle_stream).unwrap_or(Obstacle::Thread));
        }
        if let Some(event) = event {
            return Ok(Obstacle::Event(event));
        }
        let Some(job) = books.jobs.get_mut(self.key) else {
            return Err(TransferError::Poisoned);
        };
        match std::mem::replace(&mut job.gate, Gate::Elsewhere) {
            Gate::Asked(ticket) => Ok(Obstacle::Grant(ticket)),
            other => {
                job.gate = other;
                Ok(Obstacle::Thread)
            }
        }
    }

    /// Waits for the scheduler outside the lock and brings the turn back.
    fn wait_for_turn(&self, ticket: PendingGrant) -> Result<(), TransferError> {
        let turn = ticket.wait();
        let mut books = lock(&self.shared.books)?;
        if let Some(job) = books.jobs.get_mut(self.key) {
            match turn {
                Ok(turn) if job.error.is_none() => job.gate = Gate::Granted(turn),
                Ok(_) => {}
                Err(source) => {
                    let name = job.name.to_string();
                    job.fail(TransferError::Task { name, source });
                }
            }
        }
        books.settle(self.key);
        drop(books);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn wait_for_thread(&self) -> Result<(), TransferError> {
        let books = lock(&self.shared.books)?;
        let over = books.jobs.get(self.key).is_none_or(|job| job.over);
        let elsewhere = books
            .jobs
            .get(self.key)
            .is_some_and(|job| matches!(job.gate, Gate::Elsewhere));
        let in_hand = books.ways.iter().any(|way| way.in_hand > 0);
        if !over && (in_hand || elsewhere) {
            let woken = self.shared.changed.wait(books);
            drop(woken.map_err(|_| TransferError::Poisoned)?);
        }
        Ok(())
    }

    /// How far it is.
    pub fn progress(&self) -> Result<Progress, TransferError> {
        let books = lock(&self.shared.books)?;
        let job = books.jobs.get(self.key).ok_or(TransferError::Poisoned)?;
        Ok(Progress {
            arrived: job.arrived,
            bytes: job.bytes,
        })
    }

    /// Ends it: what is under way goes on to its end, the rest does not start.
    pub fn cancel(&self) -> Result<(), TransferError> {
        let mut books = lock(&self.shared.books)?;
        if let Some(job) = books.jobs.get_mut(self.key)
            && !job.over
        {
            let name = job.name.to_string();
            job.fail(TransferError::Cancelled { name });
        }
        books.settle(self.key);
        drop(books);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Makes later work on a stream come after this transfer.
    ///
    /// Returns once its last chunk is queued, which for pageable memory means staged; the host
    /// does not wait for the device beyond that.
    pub fn order_before(&self, stream: StreamId) -> Result<(), TransferError> {
        loop {
            self.shared.drive()?;
            let books = lock(&self.shared.books)?;
            let Some(job) = books.jobs.get(self.key) else {
                return Err(TransferError::Poisoned);
            };
            if job.over {
                return job.error.clone().map_or(Ok(()), Err);
            }
            let under_way = &books.ways[job.route.way() as usize].under_way;
            let mine = || under_way.iter().filter(|chunk| chunk.job == self.key);
            let queued = job.claimed == job.bytes && mine().count() == job.chunks_out as usize;
            let last = mine().next_back().and_then(|chunk| chunk.mark.clone());
            if let (true, Some(mark)) = (queued && job.error.is_none(), last) {
                drop(books);
                return mark.stream_wait(stream).map_err(TransferError::Backend);
            }
            drop(books);
            if let Some(outcome) = self.wait_for_obstacle()? {
                return outcome;
            }
        }
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transfer({})", self.key)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let mut books = self
            .shared
            .books
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let over = match books.jobs.get_mut(self.key) {
            Some(job) => {
                job.handle_dropped = true;
                job.over
            }
            None => false,
        };
        if over {
            books.jobs.remove(self.key);
        }
    }
}

/// A download into a buffer that comes back when it is over.
pub struct Download<T> {
    transfer: Transfer,
    sink: Arc<BufferSink<T>>,
}

impl<T> Download<T> {
    pub(super) fn new(transfer: Transfer, sink: Arc<BufferSink<T>>) -> Self {
        Download { transfer, sink }
    }

    /// The transfer, for polling, ordering and cancelling.
    pub fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// Blocks until the bytes are there and gives the buffer back.
    pub fn wait(self) -> Result<T, TransferError> {
        self.transfer.wait()?;
        let mut held = self.sink.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.take().ok_or(TransferError::Poisoned)
    }
}
