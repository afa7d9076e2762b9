//! Which chunk goes next: by priority, once its events are reached and its task has a turn.

use super::books::Books;
use super::error::TransferError;
use super::job::{Chunk, Gate, Job, Way};
use super::staging::StagingRing;
use crate::scheduler::Poll;
use std::sync::Arc;

/// Chunks that may overtake a waiting transfer of lower priority before it gets one.
const OVERTAKES: u32 = 16;

impl Books {
    /// Hands out the next chunk of a way, if one can go.
    pub fn claim(&mut self, way: Way) -> Option<Chunk> {
        let books = &self.ways[way as usize];
        if books.under_way.len() + books.in_hand >= self.options.slots as usize {
            return None;
        }
        let ready: [Option<u64>; 3] = [0, 1, 2].map(|level| self.first_ready(way, level));
        let mut levels = ready
            .into_iter()
            .enumerate()
            .filter_map(|(level, key)| Some((level, key?)));
        let (first, urgent) = levels.next()?;
        let books = &mut self.ways[way as usize];
        let (level, key) = match levels.next_back() {
            Some(patient) if books.overtaken >= OVERTAKES => {
                books.overtaken = 0;
                patient
            }
            Some(_) => {
                books.overtaken += 1;
                (first, urgent)
            }
            None => (first, urgent),
        };
        self.claim_from(way, level, key)
    }

    /// The first transfer of a queue that has a chunk ready; ended ones are taken out on the way.
    fn first_ready(&mut self, way: Way, level: usize) -> Option<u64> {
        let mut position = 0;
        while let Some(key) = self.ways[way as usize].queues[level].get(position).copied() {
            if !self.jobs.get(key).is_some_and(Job::has_more) {
                self.ways[way as usize].queues[level].remove(position);
                continue;
            }
            let ring_is_full = self.ways[way as usize]
                .ring
                .as_ref()
                .is_some_and(StagingRing::is_empty);
            let staged = self.jobs.get(key).is_some_and(|job| job.route.is_staged());
            if !(staged && ring_is_full) && self.is_ready(key) {
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

    /// Whether the transfer's events are reached and the scheduler lets its next chunk go.
    fn is_ready(&mut self, key: u64) -> bool {
        let backend = Arc::clone(&self.backend);
        let Some(job) = self.jobs.get_mut(key) else {
            return false;
        };
        while let Some(event) = job.terms.after.last().copied() {
            match backend.query_event(event) {
                Ok(true) => job.terms.after.pop(),
                Ok(false) => return false,
                Err(source) => {
                    let name = job.name.to_string();
                    job.fail(TransferError::Dependency {
                        name,
                        event,
                        source,
                    });
                    return false;
                }
            };
        }
        let Some(task) = &job.terms.task else {
            return true;
        };
        let bytes = (job.bytes - job.claimed).min(self.options.slot_bytes);
        let polled = match std::mem::replace(&mut job.gate, Gate::Elsewhere) {
            Gate::Open => {
                let (lane, cost) = job.cost(bytes, self.options.device_copy_bytes_per_second);
                task.request(lane, cost).and_then(|ticket| ticket.poll())
            }
            Gate::Asked(ticket) => ticket.poll(),
            Gate::Granted(turn) => Ok(Poll::Ready(turn)),
            Gate::Elsewhere => return false,
        };
        match polled {
            Ok(Poll::Ready(turn)) => {
                job.gate = Gate::Granted(turn);
                true
            }
            Ok(Poll::Pending(ticket)) => {
                job.gate = Gate::Asked(ticket);
                false
            }
            Err(source) => {
                let name = job.name.to_string();
                job.fail(TransferError::Task { name, source });
                false
            }
        }
    }

    fn claim_from(&mut self, way: Way, level: usize, key: u64) -> Option<Chunk> {
        let books = &mut self.ways[way as usize];
        let job = self.jobs.get_mut(key)?;
        let slot = match (&mut books.ring, job.route.is_staged()) {
            (Some(ring), true) => Some(ring.take()?),
            _ => None,
        };
        let bytes = (job.bytes - job.claimed).min(self.options.slot_bytes);
        let turn = match std::mem::replace(&mut job.gate, Gate::Open) {
            Gate::Granted(turn) => Some(turn),
            other => {
                job.gate = other;
                None
            }
        };
        let chunk = Chunk {
            job: key,
            route: job.route.clone(),
            offset: job.claimed,
            bytes,
            slot,
            turn,
            mark: None,
        };
        job.claimed += bytes;
        job.chunks_out += 1;
        books.in_hand += 1;
        if !job.has_more() {
            books.queues[level].retain(|other| *other != key);
        }
        Some(chunk)
    }
}
