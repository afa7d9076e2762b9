//! Progress: collects completed chunks, fills free slots and enqueues copies.
//!
//! Any thread may make progress. Bytes are copied between slots and buffers outside the lock, so
//! several threads stage at once; the lock is held across the two calls that enqueue a chunk, which
//! keeps the state in stream order.

use super::error::TransferError;
use super::job::{Channel, Chunk, ChunkError, Route};
use super::shared::Shared;
use super::state::TransferState;
use crate::backend::BackendError;
use crate::scheduler::{Lane, ProgressEngine};

/// A copy between a slot and a host buffer, done outside the lock.
enum HostCopy {
    Stage(Chunk),
    Drain(Chunk),
}

impl Shared {
    /// Does everything that can be done without blocking.
    pub(super) fn make_progress(&self) -> Result<(), TransferError> {
        let backend = &*self.backend;
        loop {
            let next = {
                let mut state = self.lock()?;
                state.collect_completed();
                state.next_host_copy()
            };
            let Some(host_copy) = next else {
                return Ok(());
            };
            match host_copy {
                HostCopy::Stage(chunk) => {
                    let staged = chunk.stage(backend);
                    let mut state = self.lock()?;
                    if let Err(error) = staged {
                        state.fail_job(&chunk, error);
                    }
                    state.issue(chunk);
                }
                HostCopy::Drain(chunk) => {
                    let drained = chunk.drain(backend);
                    self.lock()?.drained(chunk, drained);
                }
            }
            self.changed.notify_all();
        }
    }
}

impl ProgressEngine for Shared {
    fn make_progress(&self) {
        // A thread that waits for one of the transfers gets the error.
        let _ = Shared::make_progress(self);
    }

    fn wait_for_grant_end(&self, lane: Option<Lane>) -> bool {
        let Ok(state) = self.lock() else {
            return false;
        };
        let holds = |chunk: &&Chunk| chunk.grant.is_some() && chunk.completion.is_some();
        let oldest = Channel::ALL
            .into_iter()
            .filter(|channel| lane.is_none_or(|lane| lane == channel.lane()))
            .find_map(|channel| state.channels[channel as usize].in_flight.iter().find(holds));
        let Some(completion) = oldest.and_then(|chunk| chunk.completion.clone()) else {
            return false;
        };
        drop(state);
        // Collecting the chunk reports its failure.
        let _ = completion.synchronize();
        ProgressEngine::make_progress(self);
        true
    }
}

impl TransferState {
    /// Issues chunks that need no staging, and returns the first that does.
    fn next_host_copy(&mut self) -> Option<HostCopy> {
        if let Some(chunk) = self.to_drain.pop_front() {
            self.channels[chunk.route.channel() as usize].staging += 1;
            return Some(HostCopy::Drain(chunk));
        }
        for channel in Channel::ALL {
            while let Some(chunk) = self.claim(channel) {
                match chunk.route {
                    Route::Upload { .. } => return Some(HostCopy::Stage(chunk)),
                    Route::Download { .. } | Route::Direct { .. } => self.issue(chunk),
                }
            }
        }
        None
    }

    /// Collects every completed chunk.
    fn collect_completed(&mut self) {
        for channel in Channel::ALL {
            loop {
                let state = &self.channels[channel as usize];
                let (Some(first), Some(stream)) = (state.in_flight.front(), state.stream) else {
                    break;
                };
                let completed = match &first.completion {
                    Some(completion) => completion.is_complete(),
                    None => self.backend.query_stream(stream),
                };
                match completed {
                    Ok(false) => break,
                    Ok(true) => self.complete_first(channel),
                    Err(error) => self.replace_stream(channel, error),
                }
            }
        }
    }

    /// The channel's first chunk in flight completed.
    fn complete_first(&mut self, channel: Channel) {
        let Some(mut chunk) = self.channels[channel as usize].in_flight.pop_front() else {
            return;
        };
        drop(chunk.grant.take());
        let healthy = self.jobs.get_mut(chunk.job).filter(|job| job.error.is_none());
        match (healthy, &chunk.route) {
            (Some(_), Route::Download { .. }) => return self.to_drain.push_back(chunk),
            (Some(job), _) => job.completed += chunk.bytes,
            (None, _) => {}
        }
        self.retire(chunk);
    }

    /// A downloaded chunk was copied out of its slot.
    fn drained(&mut self, chunk: Chunk, outcome: Result<(), ChunkError>) {
        self.channels[chunk.route.channel() as usize].staging -= 1;
        match outcome {
            Ok(()) => {
                if let Some(job) = self.jobs.get_mut(chunk.job) {
                    job.completed += chunk.bytes;
                }
            }
            Err(error) => self.fail_job(&chunk, error),
        }
        self.retire(chunk);
    }

    /// The stream failed on its first chunk: that transfer fails, the other chunks are enqueued again.
    ///
    /// A failed stream executes nothing more, so the chunks behind have not been copied. Their bytes
    /// are still in their slots or at their source.
    fn replace_stream(&mut self, channel: Channel, error: BackendError) {
        let state = &mut self.channels[channel as usize];
        if let Some(stream) = state.stream.take() {
            // Work that still runs must not write to reused slots. Its failure is known.
            let _ = self.backend.synchronize_stream(stream);
            let _ = self.backend.destroy_stream(stream);
        }
        let mut retried = std::mem::take(&mut state.in_flight);
        if let Some(first) = retried.pop_front() {
            self.fail_chunk(first, ChunkError::Backend(error));
        }
        for mut chunk in retried {
            chunk.completion = None;
            match self.jobs.get(chunk.job) {
                Some(job) if job.error.is_none() => self.enqueue(channel, chunk),
                _ => self.retire(chunk),
            }
        }
    }
}
