//! The engine's state: transfers, chunks in flight and free slots, behind one lock.

use super::error::TransferError;
use super::job::{Channel, Chunk, ChunkError, Job};
use super::options::TransferOptions;
use super::staging::{Slot, StagingRing};
use crate::backend::{Address, Backend, BackendError, Operation, StreamId, StreamPriority};
use crate::dispatch::event_pool::EventPool;
use crate::dispatch::timeline::Timeline;
use crate::dispatch::{Recorder, WorkKind, WorkRecord};
use assay_collections::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

/// Priorities from highest to lowest.
const PRIORITY_LEVELS: [StreamPriority; 3] =
    [StreamPriority::High, StreamPriority::Normal, StreamPriority::Low];

/// A DMA channel: its stream, its queues and its chunks in flight in stream order.
pub(super) struct ChannelState {
    /// None after the stream failed and could not be replaced; replacement is then retried.
    pub stream: Option<StreamId>,
    pub queues: [VecDeque<u64>; 3],
    pub in_flight: VecDeque<Chunk>,
    /// Chunks that threads are staging or draining.
    pub staging: usize,
    pub ring: Option<StagingRing>,
    /// Chunks that overtook a waiting transfer of lower priority since one of its own was issued.
    pub overtakes: u32,
}

/// Everything the engine knows.
pub(super) struct TransferState {
    pub backend: Arc<dyn Backend>,
    pub events: Arc<EventPool>,
    pub timeline: Option<Timeline>,
    pub recorder: Arc<Recorder>,
    pub options: TransferOptions,
    pub jobs: Slab<Job>,
    pub live: usize,
    pub channels: [ChannelState; 3],
    /// Downloaded chunks whose slots wait to be read.
    pub to_drain: VecDeque<Chunk>,
}

impl ChannelState {
    pub fn new(stream: StreamId, ring: Option<StagingRing>) -> Self {
        ChannelState {
            stream: Some(stream),
            queues: Default::default(),
            in_flight: VecDeque::new(),
            staging: 0,
            ring,
            overtakes: 0,
        }
    }
}

impl TransferState {
    /// Queues a transfer by its priority.
    pub fn queue(&mut self, job: Job) -> u64 {
        let channel = job.route.channel() as usize;
        let level = PRIORITY_LEVELS
            .iter()
            .position(|priority| *priority == job.attributes.priority)
            .unwrap_or(1);
        let is_empty = job.bytes == 0;
        let key = self.jobs.insert(job);
        self.live += 1;
        if is_empty {
            self.settle(key);
        } else {
            self.channels[channel].queues[level].push_back(key);
        }
        key
    }

    /// Queues a claimed and staged chunk on its stream.
    pub fn issue(&mut self, chunk: Chunk) {
        let channel = chunk.route.channel();
        self.channels[channel as usize].staging -= 1;
        match self.jobs.get(chunk.job) {
            Some(job) if job.error.is_none() => self.enqueue(channel, chunk),
            _ => self.retire(chunk),
        }
    }

    /// Enqueues the copy on the stream; a chunk that cannot be enqueued fails its transfer.
    pub fn enqueue(&mut self, channel: Channel, mut chunk: Chunk) {
        let stream = match self.stream(channel) {
            Ok(stream) => stream,
            Err(error) => return self.fail_chunk(chunk, ChunkError::Backend(error)),
        };
        self.record_start(chunk.job, stream);
        let Some((source, destination)) = chunk.addresses() else {
            let error = BackendError::UnknownAddress {
                operation: Operation::Copy,
                address: Address::new(crate::backend::Space::Device, u64::MAX),
            };
            return self.fail_chunk(chunk, ChunkError::Backend(error));
        };
        let copied = self.backend.copy(stream, source, destination, chunk.bytes);
        if let Err(error) = copied {
            return self.fail_chunk(chunk, ChunkError::Backend(error));
        }
        match self.events.record(stream) {
            Ok(completion) => chunk.completion = Some(completion),
            // The copy is enqueued, so the chunk stays until the stream is idle.
            Err(error) => self.fail_job(&chunk, ChunkError::Backend(error)),
        }
        self.channels[channel as usize].in_flight.push_back(chunk);
    }

    /// The channel's stream, recreated if the last one failed.
    fn stream(&mut self, channel: Channel) -> crate::backend::Result<StreamId> {
        let channel_state = &mut self.channels[channel as usize];
        match channel_state.stream {
            Some(stream) => Ok(stream),
            None => {
                let stream = self.backend.create_stream(StreamPriority::Normal)?;
                channel_state.stream = Some(stream);
                Ok(stream)
            }
        }
    }

    /// Records the start time of a transfer.
    fn record_start(&mut self, key: u64, stream: StreamId) {
        let Some(timeline) = &self.timeline else {
            return;
        };
        let Some(job) = self.jobs.get_mut(key).filter(|job| job.start.is_none()) else {
            return;
        };
        // A missing start time must not fail the transfer.
        if let Ok(anchor) = timeline.anchor() {
            job.start = self.events.record(stream).ok().map(|completion| (anchor, completion));
        }
    }

    /// Retires a failed chunk and fails its transfer.
    pub fn fail_chunk(&mut self, chunk: Chunk, error: ChunkError) {
        self.fail_job(&chunk, error);
        self.retire(chunk);
    }

    /// Fails the transfer of a chunk.
    pub fn fail_job(&mut self, chunk: &Chunk, error: ChunkError) {
        if let Some(job) = self.jobs.get_mut(chunk.job) {
            let name = job.name.to_string();
            let (offset, bytes) = (chunk.offset, chunk.bytes);
            job.fail(match error {
                ChunkError::Backend(source) => TransferError::Chunk { name, offset, bytes, source },
                ChunkError::Shrank(got) => {
                    TransferError::BufferShrank { name, expected: job.bytes, got }
                }
            });
        }
    }

    /// Ends a chunk that is no longer in use: releases its slot and its grant.
    pub fn retire(&mut self, mut chunk: Chunk) {
        self.free_slot(chunk.route.channel(), chunk.slot.take());
        drop(chunk.grant.take());
        if let Some(job) = self.jobs.get_mut(chunk.job) {
            job.outstanding_chunks -= 1;
        }
        self.finish(chunk.job, chunk.completion.as_deref());
    }

    fn free_slot(&mut self, channel: Channel, slot: Option<Slot>) {
        if let (Some(ring), Some(slot)) = (&mut self.channels[channel as usize].ring, slot) {
            ring.release(slot);
        }
    }

    /// Ends a transfer that has no chunk in flight.
    pub fn settle(&mut self, key: u64) {
        self.finish(key, None);
    }

    /// Cancels every unfinished transfer, once nothing is in flight.
    pub fn abandon(&mut self) {
        let unfinished: Vec<u64> =
            self.jobs.iter().filter(|(_, job)| !job.done).map(|(key, _)| key).collect();
        for key in unfinished {
            if let Some(job) = self.jobs.get_mut(key) {
                let name = job.name.to_string();
                job.fail(TransferError::Cancelled { name });
                job.outstanding_chunks = 0;
            }
            self.settle(key);
        }
    }

    fn finish(&mut self, key: u64, end: Option<&crate::dispatch::event_pool::TimingEvent>) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let complete = job.completed == job.bytes || job.error.is_some();
        if job.done || !complete || job.outstanding_chunks > 0 {
            return;
        }
        job.done = true;
        self.live -= 1;
        let span = match (&job.start, end) {
            (Some((anchor, start)), Some(end)) => anchor.span(start, end),
            _ => None,
        };
        self.recorder.push(WorkRecord {
            sequence: 0,
            kind: WorkKind::Copy(job.route.direction()),
            name: Arc::clone(&job.name),
            stream: self.channels[job.route.channel() as usize].stream.unwrap_or(StreamId::HOST),
            bytes: job.completed,
            flops: 0.0,
            graph: None,
            task: job.attributes.task.as_ref().map(|task| task.id()),
            site: None,
            submitted_ns: job.submitted_ns,
            span: span.filter(|_| job.error.is_none()),
            failure: job.error.as_ref().map(TransferError::code),
        });
        job.start = None;
        if job.handle_dropped {
            self.jobs.remove(key);
        }
    }
}
