//! The engine: submits transfers and reports what is in flight.

use super::error::{Result, TransferError};
use super::handle::{Download, Transfer};
use super::job::{BufferSink, GrantStatus, HostSource, Job, Route, Sink};
use super::options::{TransferAttributes, TransferOptions};
use super::shared::Shared;
use super::staging::StagingRing;
use super::state::{ChannelState, TransferState};
use crate::backend::{Address, Backend, BackendError, DevicePointer, StreamPriority};
use crate::dispatch::Recorder;
use crate::dispatch::event_pool::EventPool;
use crate::dispatch::timeline::Timeline;
use crate::scheduler::ProgressEngine;
use crate::sync::{Condvar, Mutex};
use assay_collections::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

/// Transfers, chunks and slots in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferUsage {
    /// Transfers that wait or are in flight.
    pub transfers: usize,
    /// Chunks in flight on the device.
    pub chunks_in_flight: usize,
    /// Slots in use in both rings.
    pub slots_used: usize,
}

/// The transfer engine of one device. Clones share the same state.
///
/// When the last handle of the engine and of its transfers is dropped, unfinished transfers are
/// recorded as cancelled.
#[derive(Clone)]
pub struct TransferEngine {
    shared: Arc<Shared>,
}

impl TransferEngine {
    /// Creates an engine: pins its staging rings and creates a stream per channel.
    pub fn new(
        backend: Arc<dyn Backend>,
        options: TransferOptions,
        recorder: Arc<Recorder>,
    ) -> Result<Self> {
        options.validate()?;
        let events = Arc::new(EventPool::new(Arc::clone(&backend)));
        let timeline = match options.timing {
            true => Some(Timeline::new(Arc::clone(&backend), Arc::clone(&events))?),
            false => None,
        };
        let ring = backend.allocate_host(options.ring_bytes().unwrap_or(u64::MAX))?;
        let mut streams = Vec::new();
        while streams.len() < 3 {
            match backend.create_stream(StreamPriority::Normal) {
                Ok(stream) => streams.push(stream),
                Err(error) => {
                    for stream in streams {
                        // The first error is the one to report.
                        let _ = backend.destroy_stream(stream);
                    }
                    let _ = backend.free_host(ring);
                    return Err(error.into());
                }
            }
        }
        let staging_ring = |base| StagingRing::new(base, options.slot_bytes, options.slots);
        let half = options.slot_bytes * u64::from(options.slots);
        let state = TransferState {
            backend: Arc::clone(&backend),
            events,
            timeline,
            recorder,
            jobs: Slab::default(),
            live: 0,
            channels: [
                ChannelState::new(streams[0], Some(staging_ring(ring.0))),
                ChannelState::new(streams[1], Some(staging_ring(ring.0 + half))),
                ChannelState::new(streams[2], None),
            ],
            to_drain: VecDeque::new(),
            options,
        };
        Ok(TransferEngine {
            shared: Arc::new(Shared {
                backend,
                state: Mutex::new(state),
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
        attributes: TransferAttributes,
    ) -> Result<Transfer> {
        let bytes = (*source).as_ref().len() as u64;
        let route = Route::Upload { source, destination };
        self.submit(name, route, bytes, attributes)
    }

    /// Copies from the device into a buffer, filling it; [`Download::wait`] returns the buffer.
    pub fn download<T: AsMut<[u8]> + Send + 'static>(
        &self,
        name: &str,
        source: DevicePointer,
        mut buffer: T,
        attributes: TransferAttributes,
    ) -> Result<Download<T>> {
        let bytes = buffer.as_mut().len() as u64;
        let sink = Arc::new(BufferSink(std::sync::Mutex::new(Some(buffer))));
        let route = Route::Download { source, sink: Arc::clone(&sink) as Arc<dyn Sink> };
        let transfer = self.submit(name, route, bytes, attributes)?;
        Ok(Download::new(transfer, sink))
    }

    /// Copies between addresses that the device reaches: its own memory and pinned memory.
    pub fn copy(
        &self,
        name: &str,
        source: Address,
        destination: Address,
        bytes: u64,
        attributes: TransferAttributes,
    ) -> Result<Transfer> {
        // A chunk could overwrite bytes of an overlapping range that are yet to be read.
        if source.space() == destination.space()
            && source.value().abs_diff(destination.value()) < bytes
        {
            return Err(TransferError::Backend(BackendError::Overlap {
                source,
                destination,
                bytes,
            }));
        }
        let route = Route::Direct { source, destination };
        self.submit(name, route, bytes, attributes)
    }

    fn submit(
        &self,
        name: &str,
        route: Route,
        bytes: u64,
        attributes: TransferAttributes,
    ) -> Result<Transfer> {
        if let Some(task) = &attributes.task {
            let engine: Arc<dyn ProgressEngine> = self.shared.clone();
            task.add_progress_engine(&engine);
        }
        let submitted_ns = self.shared.backend.clock().now_ns();
        let key = {
            let mut state = self.shared.lock()?;
            let limit = state.options.waiting_transfers;
            if state.live >= limit {
                return Err(TransferError::TooManyWaiting { name: name.to_owned(), limit });
            }
            state.queue(Job {
                name: Arc::from(name),
                route,
                bytes,
                attributes,
                grant: GrantStatus::NotRequested,
                claimed: 0,
                completed: 0,
                outstanding_chunks: 0,
                error: None,
                done: false,
                handle_dropped: false,
                submitted_ns,
                start: None,
            })
        };
        let transfer = Transfer::new(Arc::clone(&self.shared), key);
        self.shared.make_progress()?;
        Ok(transfer)
    }

    /// Makes all transfers progress, without blocking.
    pub fn poll(&self) -> Result<()> {
        self.shared.make_progress()
    }

    /// Transfers, chunks and slots in use now.
    pub fn usage(&self) -> Result<TransferUsage> {
        let state = self.shared.lock()?;
        let used = |channel: &ChannelState| channel.ring.as_ref().map_or(0, StagingRing::used);
        Ok(TransferUsage {
            transfers: state.live,
            chunks_in_flight: state.channels.iter().map(|channel| channel.in_flight.len()).sum(),
            slots_used: state.channels.iter().map(used).sum(),
        })
    }
}
