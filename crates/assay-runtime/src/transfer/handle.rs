//! The owner's handle of a transfer.

use super::error::TransferError;
use super::job::{BufferSink, GrantStatus};
use super::shared::Shared;
use crate::backend::{EventId, StreamId};
use crate::dispatch::event_pool::TimingEvent;
use crate::scheduler::PendingGrant;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// Progress of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes that have been copied.
    pub completed: u64,
    /// Total bytes.
    pub bytes: u64,
}

/// A transfer. It continues when the handle is dropped, as long as the engine lives;
/// [`Transfer::cancel`] ends it.
///
/// After [`Transfer::wait`] has returned, with or without an error, neither source nor destination
/// is accessed.
pub struct Transfer {
    shared: Arc<Shared>,
    key: u64,
}

/// What a thread that waits for a transfer blocks on.
enum WaitTarget {
    Done(Result<(), TransferError>),
    /// The oldest chunk in flight.
    Chunk(Arc<TimingEvent>),
    Stream(StreamId),
    Event(EventId),
    Grant(PendingGrant),
    /// Another thread is staging, draining or waiting for a grant.
    Thread,
}

impl Transfer {
    pub(super) fn new(shared: Arc<Shared>, key: u64) -> Self {
        Transfer { shared, key }
    }

    /// Makes progress without blocking; returns whether the transfer is done.
    pub fn poll(&self) -> Result<bool, TransferError> {
        self.shared.make_progress()?;
        let state = self.shared.lock()?;
        match state.jobs.get(self.key) {
            Some(job) if !job.done => Ok(false),
            Some(job) => job.error.clone().map_or(Ok(true), Err),
            None => Err(TransferError::Poisoned),
        }
    }

    /// Blocks until it is done.
    pub fn wait(&self) -> Result<(), TransferError> {
        loop {
            self.shared.make_progress()?;
            if let Some(outcome) = self.wait_for_progress()? {
                return outcome;
            }
        }
    }

    /// Blocks on the transfer's wait target, or returns the result if it is done.
    fn wait_for_progress(&self) -> Result<Option<Result<(), TransferError>>, TransferError> {
        match self.wait_target()? {
            WaitTarget::Done(outcome) => return Ok(Some(outcome)),
            // Collecting the chunk reports its failure.
            WaitTarget::Chunk(completion) => drop(completion.synchronize()),
            WaitTarget::Stream(stream) => drop(self.shared.backend.synchronize_stream(stream)),
            WaitTarget::Event(event) => drop(self.shared.backend.synchronize_event(event)),
            WaitTarget::Grant(request) => self.wait_for_grant(request)?,
            WaitTarget::Thread => self.wait_for_thread()?,
        }
        Ok(None)
    }

    fn wait_target(&self) -> Result<WaitTarget, TransferError> {
        let mut state = self.shared.lock()?;
        let Some(job) = state.jobs.get_mut(self.key) else {
            return Err(TransferError::Poisoned);
        };
        if job.done {
            return Ok(WaitTarget::Done(job.error.clone().map_or(Ok(()), Err)));
        }
        let channel = job.route.channel() as usize;
        let event = job.attributes.after.last().copied();
        if let Some(first) = state.channels[channel].in_flight.front() {
            let idle_stream = state.channels[channel].stream.map(WaitTarget::Stream);
            let completion = first.completion.clone().map(WaitTarget::Chunk);
            return Ok(completion.or(idle_stream).unwrap_or(WaitTarget::Thread));
        }
        if let Some(event) = event {
            return Ok(WaitTarget::Event(event));
        }
        let Some(job) = state.jobs.get_mut(self.key) else {
            return Err(TransferError::Poisoned);
        };
        match std::mem::replace(&mut job.grant, GrantStatus::HeldByWaiter) {
            GrantStatus::Pending(request) => Ok(WaitTarget::Grant(request)),
            other => {
                job.grant = other;
                Ok(WaitTarget::Thread)
            }
        }
    }

    /// Waits for the scheduler outside the lock and stores the grant.
    fn wait_for_grant(&self, request: PendingGrant) -> Result<(), TransferError> {
        let grant = request.wait();
        let mut state = self.shared.lock()?;
        if let Some(job) = state.jobs.get_mut(self.key) {
            match grant {
                Ok(grant) if job.error.is_none() => job.grant = GrantStatus::Granted(grant),
                Ok(_) => {}
                Err(source) => {
                    let name = job.name.to_string();
                    job.fail(TransferError::Task { name, source });
                }
            }
        }
        state.settle(self.key);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn wait_for_thread(&self) -> Result<(), TransferError> {
        let state = self.shared.lock()?;
        let done = state.jobs.get(self.key).is_none_or(|job| job.done);
        let held_by_waiter = state
            .jobs
            .get(self.key)
            .is_some_and(|job| matches!(job.grant, GrantStatus::HeldByWaiter));
        let staging = state.channels.iter().any(|channel| channel.staging > 0);
        if !done && (staging || held_by_waiter) {
            let woken = self.shared.changed.wait(state);
            drop(woken.map_err(|_| TransferError::Poisoned)?);
        }
        Ok(())
    }

    /// Its progress.
    pub fn progress(&self) -> Result<Progress, TransferError> {
        let state = self.shared.lock()?;
        let job = state.jobs.get(self.key).ok_or(TransferError::Poisoned)?;
        Ok(Progress { completed: job.completed, bytes: job.bytes })
    }

    /// Cancels it: chunks in flight complete, the rest does not start.
    pub fn cancel(&self) -> Result<(), TransferError> {
        let mut state = self.shared.lock()?;
        if let Some(job) = state.jobs.get_mut(self.key)
            && !job.done
        {
            let name = job.name.to_string();
            job.fail(TransferError::Cancelled { name });
        }
        state.settle(self.key);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transfer({})", self.key)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match state.jobs.get_mut(self.key) {
            Some(job) => {
                job.handle_dropped = true;
                job.done
            }
            None => false,
        };
        if done {
            state.jobs.remove(self.key);
        }
    }
}

/// A download into a buffer that is returned when it is done.
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

    /// Blocks until the download is done and returns the buffer.
    pub fn wait(self) -> Result<T, TransferError> {
        self.transfer.wait()?;
        let mut buffer = self.sink.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.take().ok_or(TransferError::Poisoned)
    }
}
