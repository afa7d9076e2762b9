//! The engine's books: transfers, chunks under way and free slots, behind one lock.

use super::error::TransferError;
use super::job::{Chunk, ChunkError, Job, Way};
use super::options::TransferOptions;
use super::staging::{Slot, StagingRing};
use crate::backend::{Address, Backend, BackendError, Operation, StreamId, StreamPriority};
use crate::dispatch::event_pool::EventPool;
use crate::dispatch::timeline::Timeline;
use crate::dispatch::{Recorder, WorkKind, WorkRecord};
use assay_collections::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

/// Priorities from most to least urgent.
const URGENCY: [StreamPriority; 3] = [
    StreamPriority::High,
    StreamPriority::Normal,
    StreamPriority::Low,
];

/// One way: its stream, its queues and its chunks under way in stream order.
pub(super) struct WayBooks {
    /// None after the stream failed and could not be replaced; it is then tried again.
    pub stream: Option<StreamId>,
    pub queues: [VecDeque<u64>; 3],
    pub under_way: VecDeque<Chunk>,
    /// Chunks in the hands of threads, being staged or drained.
    pub in_hand: usize,
    pub ring: Option<StagingRing>,
    /// Chunks that overtook a waiting transfer since one of lower priority last got its turn.
    pub overtaken: u32,
}

pub(super) struct Books {
    pub backend: Arc<dyn Backend>,
    pub marks: Arc<EventPool>,
    pub timeline: Option<Timeline>,
    pub recorder: Arc<Recorder>,
    pub options: TransferOptions,
    pub jobs: Slab<Job>,
    pub live: usize,
    pub ways: [WayBooks; 3],
    /// Downloaded chunks whose slots wait to be read.
    pub to_drain: VecDeque<Chunk>,
}

impl WayBooks {
    pub fn new(stream: StreamId, ring: Option<StagingRing>) -> Self {
        WayBooks {
            stream: Some(stream),
            queues: Default::default(),
            under_way: VecDeque::new(),
            in_hand: 0,
            ring,
            overtaken: 0,
        }
    }
}

impl Books {
    pub fn queue(&mut self, job: Job) -> u64 {
        let way = job.route.way() as usize;
        let level = URGENCY
            .iter()
            .position(|priority| *priority == job.terms.priority)
            .unwrap_or(1);
        let nothing_to_do = job.bytes == 0;
        let key = self.jobs.insert(job);
        self.live += 1;
        if nothing_to_do {
            self.settle(key);
        } else {
            self.ways[way].queues[level].push_back(key);
        }
        key
    }

    /// Queues a claimed and staged chunk on its stream.
    pub fn issue(&mut self, chunk: Chunk) {
        let way = chunk.route.way();
        self.ways[way as usize].in_hand -= 1;
        match self.jobs.get(chunk.job) {
            Some(job) if job.error.is_none() => self.enqueue(way, chunk),
            _ => self.retire(chunk),
        }
    }

    /// Puts the copy on the stream; a chunk that cannot go there fails its transfer.
    pub fn enqueue(&mut self, way: Way, mut chunk: Chunk) {
        let stream = match self.stream(way) {
            Ok(stream) => stream,
            Err(error) => return self.fail_chunk(chunk, ChunkError::Backend(error)),
        };
        self.note_start(chunk.job, stream);
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
        match self.marks.record(stream) {
            Ok(mark) => chunk.mark = Some(mark),
            // The copy is queued all the same, so the chunk stays until the stream is idle.
            Err(error) => self.fail_job(&chunk, ChunkError::Backend(error)),
        }
        self.ways[way as usize].under_way.push_back(chunk);
    }

    /// The way's stream, made anew if the last one failed.
    fn stream(&mut self, way: Way) -> crate::backend::Result<StreamId> {
        let books = &mut self.ways[way as usize];
        match books.stream {
            Some(stream) => Ok(stream),
            None => {
                let stream = self.backend.create_stream(StreamPriority::Normal)?;
                books.stream = Some(stream);
                Ok(stream)
            }
        }
    }

    /// Marks the moment a transfer begins, for its record.
    fn note_start(&mut self, key: u64, stream: StreamId) {
        let Some(timeline) = &self.timeline else {
            return;
        };
        let Some(job) = self.jobs.get_mut(key).filter(|job| job.start.is_none()) else {
            return;
        };
        // A record without a time is better than a transfer that failed for want of one.
        if let Ok(anchor) = timeline.anchor() {
            job.start = self.marks.record(stream).ok().map(|mark| (anchor, mark));
        }
    }

    /// Takes a failed chunk out of use and fails its transfer.
    pub fn fail_chunk(&mut self, chunk: Chunk, error: ChunkError) {
        self.fail_job(&chunk, error);
        self.retire(chunk);
    }

    pub fn fail_job(&mut self, chunk: &Chunk, error: ChunkError) {
        if let Some(job) = self.jobs.get_mut(chunk.job) {
            let name = job.name.to_string();
            let (offset, bytes) = (chunk.offset, chunk.bytes);
            job.fail(match error {
                ChunkError::Backend(source) => TransferError::Chunk {
                    name,
                    offset,
                    bytes,
                    source,
                },
                ChunkError::Shrank(got) => TransferError::BufferShrank {
                    name,
                    expected: job.bytes,
                    got,
                },
            });
        }
    }

    /// Ends a chunk that nothing uses any more: slot and turn go back.
    pub fn retire(&mut self, mut chunk: Chunk) {
        self.free_slot(chunk.route.way(), chunk.slot.take());
        drop(chunk.turn.take());
        if let Some(job) = self.jobs.get_mut(chunk.job) {
            job.chunks_out -= 1;
        }
        self.finish(chunk.job, chunk.mark.as_deref());
    }

    fn free_slot(&mut self, way: Way, slot: Option<Slot>) {
        if let (Some(ring), Some(slot)) = (&mut self.ways[way as usize].ring, slot) {
            ring.give_back(slot);
        }
    }

    /// Ends a transfer of which nothing is under way.
    pub fn settle(&mut self, key: u64) {
        self.finish(key, None);
    }

    /// Ends every transfer that is not over, when nothing of them is under way any more.
    pub fn abandon(&mut self) {
        let unfinished: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| !job.over)
            .map(|(key, _)| key)
            .collect();
        for key in unfinished {
            if let Some(job) = self.jobs.get_mut(key) {
                let name = job.name.to_string();
                job.fail(TransferError::Cancelled { name });
                job.chunks_out = 0;
            }
            self.settle(key);
        }
    }

    fn finish(&mut self, key: u64, end: Option<&crate::dispatch::event_pool::TimingEvent>) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let complete = job.arrived == job.bytes || job.error.is_some();
        if job.over || !complete || job.chunks_out > 0 {
            return;
        }
        job.over = true;
        self.live -= 1;
        let span = match (&job.start, end) {
            (Some((anchor, start)), Some(end)) => anchor.span(start, end),
            _ => None,
        };
        self.recorder.push(WorkRecord {
            sequence: 0,
            kind: WorkKind::Copy(job.route.direction()),
            name: Arc::clone(&job.name),
            stream: self.ways[job.route.way() as usize]
                .stream
                .unwrap_or(StreamId::HOST),
            bytes: job.arrived,
            flops: 0.0,
            graph: None,
            task: job.terms.task.as_ref().map(|task| task.id()),
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
