//! Copies between host and device that run by themselves, in chunks and by priority.
//!
//! Pageable bytes travel through two rings of pinned slots, one each way: a slot is filled while
//! others are under way. Copies between addresses that the device can reach go directly. Every
//! transfer is cut into chunks, so that an urgent one overtakes from chunk to chunk, and charged
//! to a task of the scheduler if it names one. `docs/design/transfer-and-dispatch.md` says why it
//! is so.
//!
//! No thread of its own: [`TransferEngine::poll`], and waiting for any transfer, moves all of
//! them on.

#![forbid(unsafe_code)]

mod books;
mod claim;
mod drive;
mod error;
mod handle;
mod job;
mod options;
mod staging;

pub use error::TransferError;
pub use handle::{Download, Progress, Transfer};
pub use job::HostSource;
pub use options::{TransferOptions, TransferTerms};

use crate::backend::{Address, Backend, BackendError, DevicePointer, HostPointer, StreamPriority};
use crate::dispatch::Recorder;
use crate::dispatch::event_pool::EventPool;
use crate::dispatch::timeline::Timeline;
use crate::scheduler::ProgressEngine;
use crate::sync::{Condvar, Mutex, MutexGuard};
use assay_collections::Slab;
use books::{Books, WayBooks};
use job::{BufferSink, Gate, Job, Route};
use staging::StagingRing;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// What a call of the engine gives.
pub type Result<T> = std::result::Result<T, TransferError>;

/// The books with their lock; waiting threads hear of changes made outside it.
struct Shared {
    backend: Arc<dyn Backend>,
    books: Mutex<Books>,
    changed: Condvar,
    ring: HostPointer,
}

fn lock(books: &Mutex<Books>) -> Result<MutexGuard<'_, Books>> {
    books.lock().map_err(|_| TransferError::Poisoned)
}

/// What the engine has in hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferUsage {
    /// Transfers that wait or are under way.
    pub transfers: usize,
    /// Chunks under way on the device.
    pub chunks_under_way: usize,
    /// Slots in use in both rings.
    pub slots_used: usize,
}

/// The transfer engine of one device. Clones are handles of the same one.
///
/// When the last handle of the engine and of its transfers is gone, what is unfinished ends there
/// and is recorded as cancelled.
#[derive(Clone)]
pub struct TransferEngine {
    shared: Arc<Shared>,
}

impl TransferEngine {
    /// Makes an engine: pins its rings and creates a stream for each way.
    pub fn new(
        backend: Arc<dyn Backend>,
        options: TransferOptions,
        recorder: Arc<Recorder>,
    ) -> Result<Self> {
        options.validate()?;
        let marks = Arc::new(EventPool::new(Arc::clone(&backend)));
        let timeline = match options.timing {
            true => Some(Timeline::new(Arc::clone(&backend), Arc::clone(&marks))?),
            false => None,
        };
        let ring = backend.allocate_host(options.ring_bytes().unwrap_or(u64::MAX))?;
        let mut streams = Vec::new();
        while streams.len() < 3 {
            match backend.create_stream(StreamPriority::Normal) {
                Ok(stream) => streams.push(stream),
                Err(error) => {
                    for stream in streams {
                        // The first error is the one to tell.
                        let _ = backend.destroy_stream(stream);
                    }
                    let _ = backend.free_host(ring);
                    return Err(error.into());
                }
            }
        }
        let one_ring = |base| StagingRing::new(base, options.slot_bytes, options.slots);
        let half = options.slot_bytes * u64::from(options.slots);
        let books = Books {
            backend: Arc::clone(&backend),
            marks,
            timeline,
            recorder,
            jobs: Slab::default(),
            live: 0,
            ways: [
                WayBooks::new(streams[0], Some(one_ring(ring.0))),
                WayBooks::new(streams[1], Some(one_ring(ring.0 + half))),
                WayBooks::new(streams[2], None),
            ],
            to_drain: VecDeque::new(),
            options,
        };
        Ok(TransferEngine {
            shared: Arc::new(Shared {
                backend,
                books: Mutex::new(books),
                changed: Condvar::new(),
                ring,
            }),
        })
    }

    /// Copies pageable bytes to the device.
    pub fn upload(
        &self,
        name: &str,
        source: HostSource,
        destination: DevicePointer,
        terms: TransferTerms,
    ) -> Result<Transfer> {
        let bytes = (*source).as_ref().len() as u64;
        let route = Route::Upload {
            source,
            destination,
        };
        self.submit(name, route, bytes, terms)
    }

    /// Copies from the device into a buffer, filling it; the buffer comes back at the end.
    pub fn download<T: AsMut<[u8]> + Send + 'static>(
        &self,
        name: &str,
        source: DevicePointer,
        mut buffer: T,
        terms: TransferTerms,
    ) -> Result<Download<T>> {
        let bytes = buffer.as_mut().len() as u64;
        let sink = Arc::new(BufferSink(std::sync::Mutex::new(Some(buffer))));
        let route = Route::Download {
            source,
            sink: Arc::clone(&sink) as Arc<dyn job::Sink>,
        };
        let transfer = self.submit(name, route, bytes, terms)?;
        Ok(Download::new(transfer, sink))
    }

    /// Copies between addresses that the device reaches: its own memory and pinned memory.
    pub fn copy(
        &self,
        name: &str,
        source: Address,
        destination: Address,
        bytes: u64,
        terms: TransferTerms,
    ) -> Result<Transfer> {
        // Chunks of overlapping ranges could be disjoint and overwrite what is still to be read.
        if source.space() == destination.space()
            && source.value().abs_diff(destination.value()) < bytes
        {
            return Err(TransferError::Backend(BackendError::Overlap {
                source,
                destination,
                bytes,
            }));
        }
        let route = Route::Direct {
            source,
            destination,
        };
        self.submit(name, route, bytes, terms)
    }

    fn submit(
        &self,
        name: &str,
        route: Route,
        bytes: u64,
        terms: TransferTerms,
    ) -> Result<Transfer> {
        if let Some(task) = &terms.task {
            let engine: Arc<dyn ProgressEngine> = self.shared.clone();
            task.add_progress_engine(&engine);
        }
        let submitted_ns = self.shared.backend.clock().now_ns();
        let key = {
            let mut books = lock(&self.shared.books)?;
            let limit = books.options.waiting_transfers;
            if books.live >= limit {
                return Err(TransferError::TooManyWaiting {
                    name: name.to_owned(),
                    limit,
                });
            }
            books.queue(Job {
                name: Arc::from(name),
                route,
                bytes,
                terms,
                gate: Gate::Open,
                claimed: 0,
                arrived: 0,
                chunks_out: 0,
                error: None,
                over: false,
                handle_dropped: false,
                submitted_ns,
                start: None,
            })
        };
        let transfer = Transfer::new(Arc::clone(&self.shared), key);
        self.shared.drive()?;
        Ok(transfer)
    }

    /// Does everything that can be done without waiting.
    pub fn poll(&self) -> Result<()> {
        self.shared.drive()
    }

    /// What is in hand now.
    pub fn usage(&self) -> Result<TransferUsage> {
        let books = lock(&self.shared.books)?;
        let used = |way: &WayBooks| way.ring.as_ref().map_or(0, StagingRing::used);
        Ok(TransferUsage {
            transfers: books.live,
            chunks_under_way: books.ways.iter().map(|way| way.under_way.len()).sum(),
            slots_used: books.ways.iter().map(used).sum(),
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        for way in &mut books.ways {
            if let Some(stream) = way.stream.take() {
                // Copies under way use the rings, so they end first; the device may be gone
                // already, and then there is nobody left to tell.
                let _ = self.backend.synchronize_stream(stream);
                let _ = self.backend.destroy_stream(stream);
            }
            way.under_way.clear();
        }
        books.to_drain.clear();
        books.abandon();
        let _ = self.backend.free_host(self.ring);
    }
}
