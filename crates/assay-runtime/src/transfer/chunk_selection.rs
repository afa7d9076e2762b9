//! Selects the next chunk of a channel: by priority, once its events completed and its task has a
//! grant.

use super::error::TransferError;
use super::job::{Channel, Chunk, GrantStatus, Job};
use super::staging::StagingRing;
use super::state::TransferState;
use crate::scheduler::Poll;
use std::sync::Arc;

/// Chunks that may overtake a waiting transfer of lower priority before one of its own is issued.
const MAX_OVERTAKES: u32 = 16;

impl TransferState {
    /// Claims the next chunk of a channel that can be issued, if any.
    pub fn claim(&mut self, channel: Channel) -> Option<Chunk> {
        let channel_state = &self.channels[channel as usize];
        if channel_state.in_flight.len() + channel_state.staging >= self.options.slots as usize {
            return None;
        }
        let ready: [Option<u64>; 3] = [0, 1, 2].map(|level| self.first_ready(channel, level));
        let mut levels =
            ready.into_iter().enumerate().filter_map(|(level, key)| Some((level, key?)));
        let (first, highest) = levels.next()?;
        let channel_state = &mut self.channels[channel as usize];
        let (level, key) = match levels.next_back() {
            Some(lowest) if channel_state.overtakes >= MAX_OVERTAKES => {
                channel_state.overtakes = 0;
                lowest
            }
            Some(_) => {
                channel_state.overtakes += 1;
                (first, highest)
            }
            None => (first, highest),
        };
        self.claim_from(channel, level, key)
    }

    /// The first transfer of a queue that has a chunk ready; removes finished ones on the way.
    fn first_ready(&mut self, channel: Channel, level: usize) -> Option<u64> {
        let mut position = 0;
        while let Some(key) = self.channels[channel as usize].queues[level].get(position).copied() {
            if !self.jobs.get(key).is_some_and(Job::has_more) {
                self.channels[channel as usize].queues[level].remove(position);
                continue;
            }
            let no_free_slot =
                self.channels[channel as usize].ring.as_ref().is_some_and(StagingRing::is_empty);
            let staged = self.jobs.get(key).is_some_and(|job| job.route.is_staged());
            if !(staged && no_free_slot) && self.is_ready(key) {
                return Some(key);
            }
            if self.jobs.get(key).is_some_and(|job| job.error.is_none()) {
                position += 1;
            } else {
                self.settle(key);
            }
        }
        None
    }

    /// Whether the transfer's events completed and the scheduler granted its next chunk.
    fn is_ready(&mut self, key: u64) -> bool {
        let backend = Arc::clone(&self.backend);
        let Some(job) = self.jobs.get_mut(key) else {
            return false;
        };
        while let Some(event) = job.attributes.after.last().copied() {
            match backend.query_event(event) {
                Ok(true) => job.attributes.after.pop(),
                Ok(false) => return false,
                Err(source) => {
                    let name = job.name.to_string();
                    job.fail(TransferError::Dependency { name, event, source });
                    return false;
                }
            };
        }
        let Some(task) = &job.attributes.task else {
            return true;
        };
        let bytes = (job.bytes - job.claimed).min(self.options.slot_bytes);
        let polled = match std::mem::replace(&mut job.grant, GrantStatus::HeldByWaiter) {
            GrantStatus::NotRequested => {
                let (lane, cost) = job.cost(bytes, self.options.device_copy_bytes_per_second);
                task.request(lane, cost).and_then(|request| request.poll())
            }
            GrantStatus::Pending(request) => request.poll(),
            GrantStatus::Granted(grant) => Ok(Poll::Ready(grant)),
            GrantStatus::HeldByWaiter => return false,
        };
        match polled {
            Ok(Poll::Ready(grant)) => {
                job.grant = GrantStatus::Granted(grant);
                true
            }
            Ok(Poll::Pending(request)) => {
                job.grant = GrantStatus::Pending(request);
                false
            }
            Err(source) => {
                let name = job.name.to_string();
                job.fail(TransferError::Task { name, source });
                false
            }
        }
    }

    fn claim_from(&mut self, channel: Channel, level: usize, key: u64) -> Option<Chunk> {
        let channel_state = &mut self.channels[channel as usize];
        let job = self.jobs.get_mut(key)?;
        let slot = match (&mut channel_state.ring, job.route.is_staged()) {
            (Some(ring), true) => Some(ring.take()?),
            _ => None,
        };
        let bytes = (job.bytes - job.claimed).min(self.options.slot_bytes);
        let grant = match std::mem::replace(&mut job.grant, GrantStatus::NotRequested) {
            GrantStatus::Granted(grant) => Some(grant),
            other => {
                job.grant = other;
                None
            }
        };
        let chunk = Chunk {
            job: key,
            route: job.route.clone(),
            offset: job.claimed,
            bytes,
            slot,
            grant,
            completion: None,
        };
        job.claimed += bytes;
        job.outstanding_chunks += 1;
        channel_state.staging += 1;
        if !job.has_more() {
            channel_state.queues[level].retain(|other| *other != key);
        }
        Some(chunk)
    }
}
