//! Waiting for work, with progress on what blocks it.

use super::error::DispatchError;
use super::shared::{Shared, lock};
use super::stream_state::{Blocked, Status, StreamQueue};
use super::waiting_work::GrantGate;
use super::work::{WorkId, WorkPosition};
use crate::backend::{BackendError, StreamId};
use crate::scheduler::{Lane, ProgressEngine};
use std::sync::Arc;

impl Shared {
    /// Blocks until the work has finished; returns its error if it failed.
    pub(super) fn wait(&self, work: WorkId) -> Result<(), DispatchError> {
        let Some(error) = self.outcome(work)? else {
            return Ok(());
        };
        // Returned here, so the next call does not return it again.
        let queue = self.queue(work.stream)?;
        let mut state = lock(&queue.state)?;
        state.unreported_rejection =
            state.unreported_rejection.take().filter(|other| *other != error);
        state.unreported_failure = state.unreported_failure.take().filter(|other| *other != error);
        Err(error)
    }

    /// Blocks until the work has finished or failed; returns the error of failed work.
    pub(super) fn outcome(&self, work: WorkId) -> Result<Option<DispatchError>, DispatchError> {
        let WorkPosition::Queue(sequence) = work.position else {
            return Err(DispatchError::Captured { stream: work.stream });
        };
        let queue = self.queue(work.stream)?;
        loop {
            let blocked = self.progress(&queue)?;
            let status = lock(&queue.state)?.status(work.stream, sequence);
            match status {
                Status::Finished => return Ok(None),
                Status::Failed(error) => return Ok(Some(error)),
                Status::InFlight => self.wait_in_flight(&queue, sequence)?,
                Status::Waiting => self.wait_for_blocker(&queue, blocked)?,
            }
        }
    }

    /// Blocks until the work is on its stream of the device, has finished or has failed.
    pub(super) fn wait_issued(&self, work: WorkId) -> Result<(), DispatchError> {
        let WorkPosition::Queue(sequence) = work.position else {
            return Err(DispatchError::Captured { stream: work.stream });
        };
        let queue = self.queue(work.stream)?;
        loop {
            let blocked = self.progress(&queue)?;
            match lock(&queue.state)?.status(work.stream, sequence) {
                Status::Waiting => {}
                Status::InFlight | Status::Finished | Status::Failed(_) => return Ok(()),
            }
            self.wait_for_blocker(&queue, blocked)?;
        }
    }

    /// Waits for work in flight.
    fn wait_in_flight(&self, queue: &StreamQueue, sequence: u64) -> Result<(), DispatchError> {
        let stream = queue.stream;
        let mut state = lock(&queue.state)?;
        let newest = state.newest();
        if let Some(event) = state.completion_event(&self.context, stream, sequence) {
            drop(state);
            return match event.synchronize() {
                // The work has not finished, and may never.
                Err(error @ BackendError::Watchdog { .. }) => Err(error.into()),
                // Retiring the work reports the failure.
                _ => Ok(()),
            };
        }
        // The device cannot record events, so wait for the whole stream.
        drop(state);
        let outcome = self.context.backend.synchronize_stream(stream);
        let mut state = lock(&queue.state)?;
        match (outcome, newest) {
            (Ok(()), Some(newest)) => state.retire_through(&self.context, newest),
            (Ok(()), None) => {}
            (Err(error), _) if error.ends_work() => {
                state.fail(&self.context, stream, error);
            }
            (Err(error), _) => return Err(error.into()),
        }
        Ok(())
    }

    /// Waits for what blocks the first waiting work of a stream.
    fn wait_for_blocker(&self, queue: &StreamQueue, blocked: Blocked) -> Result<(), DispatchError> {
        match blocked {
            Blocked::Nothing => Ok(()),
            Blocked::InFlight => {
                let oldest = lock(&queue.state)?.oldest();
                oldest.map_or(Ok(()), |oldest| self.wait_in_flight(queue, oldest))
            }
            Blocked::Grant => self.wait_for_grant(queue),
            Blocked::Dependencies(_, unresolved) => {
                // Work depends on older work only, so the recursion ends.
                for work in unresolved {
                    let other = self.queue(work.stream)?;
                    let blocked = self.progress(&other)?;
                    self.wait_for_blocker(&other, blocked)?;
                }
                Ok(())
            }
        }
    }

    /// Waits for the scheduler's grant without the stream's lock.
    fn wait_for_grant(&self, queue: &StreamQueue) -> Result<(), DispatchError> {
        let mut state = lock(&queue.state)?;
        let Some(first) = state.waiting.front_mut() else {
            return Ok(());
        };
        let sequence = first.sequence;
        match std::mem::replace(&mut first.gate, GrantGate::Awaited) {
            GrantGate::Requested(pending) => {
                drop(state);
                let grant = pending.wait();
                let mut state = lock(&queue.state)?;
                let first = state.waiting.front_mut();
                let Some(first) = first.filter(|work| work.sequence == sequence) else {
                    return Ok(());
                };
                match grant {
                    Ok(grant) => first.gate = GrantGate::Granted(grant),
                    Err(source) => {
                        let name = first.request.name.to_string();
                        state.fail_head(&self.context, DispatchError::Task { name, source });
                    }
                }
                drop(state);
                queue.changed.notify_all();
            }
            GrantGate::Awaited => {
                let woken = queue.changed.wait(state);
                drop(woken.map_err(|_| DispatchError::Poisoned)?);
            }
            other => first.gate = other,
        }
        Ok(())
    }

    /// Blocks until the first waiting work of a stream can progress.
    pub(super) fn wait_for_capacity(&self, stream: StreamId) -> Result<(), DispatchError> {
        let queue = self.queue(stream)?;
        let blocked = self.progress(&queue)?;
        self.wait_for_blocker(&queue, blocked)
    }

    /// Blocks until everything submitted to the stream so far is issued, with an event behind it.
    ///
    /// A wait for that work is then no wait for what is submitted later.
    pub(super) fn flush(&self, stream: StreamId) -> Result<(), DispatchError> {
        let queue = self.queue(stream)?;
        let next_sequence = lock(&queue.state)?.next_sequence;
        loop {
            let blocked = self.progress(&queue)?;
            let mut state = lock(&queue.state)?;
            state.check_usable()?;
            if state.waiting.front().is_none_or(|work| work.sequence >= next_sequence) {
                if state.capture.is_none() {
                    state.ensure_end_event(&self.context, stream);
                }
                return Ok(());
            }
            drop(state);
            self.wait_for_blocker(&queue, blocked)?;
        }
    }

    /// Blocks until everything submitted to the stream so far has finished or failed.
    pub(super) fn drain(&self, stream: StreamId) -> Result<(), DispatchError> {
        let queue = self.queue(stream)?;
        let next_sequence = lock(&queue.state)?.next_sequence;
        if let Some(last) = next_sequence.checked_sub(1) {
            self.outcome(WorkId { stream, position: WorkPosition::Queue(last) })?;
        }
        Ok(())
    }

    /// Blocks until everything submitted to the stream so far has finished; returns an unreported
    /// failure.
    pub(super) fn synchronize(&self, stream: StreamId) -> Result<(), DispatchError> {
        self.drain(stream)?;
        let queue = self.queue(stream)?;
        let mut state = lock(&queue.state)?;
        state.check_usable()?;
        state.unreported_failure.take().map_or(Ok(()), Err)
    }
}

impl Drop for Shared {
    /// Waits for work in flight, whose grants must not end before it; waiting work is abandoned.
    fn drop(&mut self) {
        for queue in self.all_queues().unwrap_or_default() {
            let stream = queue.stream;
            let Ok(mut state) = lock(&queue.state) else {
                continue;
            };
            if let Some(newest) = state.newest() {
                match self.context.backend.synchronize_stream(stream) {
                    Ok(()) => state.retire_through(&self.context, newest),
                    Err(error) => state.fail(&self.context, stream, error),
                }
            }
            while let Some(name) = state.waiting.front().map(|work| work.request.name.to_string()) {
                state.fail_head(&self.context, DispatchError::Abandoned { name });
            }
        }
        self.context.meter.charge();
    }
}

impl ProgressEngine for Shared {
    fn make_progress(&self) {
        // Calls that wait for the work return the error.
        let _ = self.poll();
    }

    fn wait_for_grant_end(&self, lane: Option<Lane>) -> bool {
        let Ok(queues) = self.all_queues() else {
            return false;
        };
        let oldest = queues.iter().filter_map(|queue| {
            let (submitted_ns, event) = lock(&queue.state).ok()?.oldest_grant_event(lane)?;
            Some((submitted_ns, event, Arc::clone(queue)))
        });
        let Some((_, event, queue)) = oldest.min_by_key(|(submitted_ns, ..)| *submitted_ns) else {
            return false;
        };
        // Retiring the work reports a failure.
        let _ = event.synchronize();
        self.progress(&queue).is_ok()
    }
}
