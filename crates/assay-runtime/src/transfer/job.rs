//! One transfer: its route, its progress and its result.

use super::error::TransferError;
use super::options::TransferAttributes;
use super::staging::Slot;
use crate::backend::{Address, Backend, CopyDirection, DevicePointer};
use crate::dispatch::event_pool::TimingEvent;
use crate::dispatch::timeline::Anchor;
use crate::scheduler::{Grant, Lane, PendingGrant};
use std::sync::{Arc, Mutex, PoisonError};

/// Pageable host memory to read from.
pub type HostSource = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Pageable host memory to write to.
pub(super) trait Sink: Send + Sync {
    /// Writes the bytes that `fill` provides into this range, if it is there.
    fn write(&self, offset: u64, bytes: u64, fill: &mut Filler<'_>) -> Option<FillResult>;
    fn bytes(&self) -> u64;
}

pub(super) type FillResult = crate::backend::Result<()>;
pub(super) type Filler<'a> = dyn FnMut(&mut [u8]) -> FillResult + 'a;

/// A host buffer that is returned to its owner when the transfer is done.
pub(super) struct BufferSink<T>(pub Mutex<Option<T>>);

impl<T: AsMut<[u8]> + Send> Sink for BufferSink<T> {
    fn write(&self, offset: u64, bytes: u64, fill: &mut Filler<'_>) -> Option<FillResult> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes_of_buffer = buffer.as_mut()?.as_mut();
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        Some(fill(bytes_of_buffer.get_mut(start..end)?))
    }

    fn bytes(&self) -> u64 {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.as_mut().map_or(0, |buffer| buffer.as_mut().len() as u64)
    }
}

/// Source and destination.
#[derive(Clone)]
pub(super) enum Route {
    Upload { source: HostSource, destination: DevicePointer },
    Download { source: DevicePointer, sink: Arc<dyn Sink> },
    Direct { source: Address, destination: Address },
}

/// A DMA channel of the engine; each has a stream of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Channel {
    Upload,
    Download,
    DeviceLocal,
}

impl Channel {
    pub const ALL: [Channel; 3] = [Channel::Upload, Channel::Download, Channel::DeviceLocal];

    /// The scheduler's lane of this channel.
    pub const fn lane(self) -> Lane {
        match self {
            Channel::Upload => Lane::Upload,
            Channel::Download => Lane::Download,
            Channel::DeviceLocal => Lane::Compute,
        }
    }
}

impl Route {
    pub fn direction(&self) -> CopyDirection {
        match self {
            Route::Upload { .. } => CopyDirection::HostToDevice,
            Route::Download { .. } => CopyDirection::DeviceToHost,
            Route::Direct { source, destination } => CopyDirection::between(*source, *destination),
        }
    }

    pub fn channel(&self) -> Channel {
        match self.direction() {
            CopyDirection::HostToDevice => Channel::Upload,
            CopyDirection::DeviceToHost => Channel::Download,
            CopyDirection::DeviceToDevice | CopyDirection::HostToHost => Channel::DeviceLocal,
        }
    }

    /// Whether the bytes are staged through a ring of pinned slots.
    pub fn is_staged(&self) -> bool {
        !matches!(self, Route::Direct { .. })
    }
}

/// The scheduler's grant for the next chunk.
pub(super) enum GrantStatus {
    /// Not requested, or not needed.
    NotRequested,
    Pending(PendingGrant),
    /// A thread took the request out to wait for it.
    HeldByWaiter,
    Granted(Grant),
}

/// A transfer as the engine tracks it.
pub(super) struct Job {
    pub name: Arc<str>,
    pub route: Route,
    pub bytes: u64,
    pub attributes: TransferAttributes,
    pub grant: GrantStatus,
    /// Bytes whose chunks were claimed.
    pub claimed: u64,
    /// Bytes that have been copied.
    pub completed: u64,
    /// Chunks being staged, in flight or being drained.
    pub outstanding_chunks: u32,
    /// The first failure.
    pub error: Option<TransferError>,
    /// Whether it has finished, failed or been cancelled.
    pub done: bool,
    pub handle_dropped: bool,
    pub submitted_ns: u64,
    pub start: Option<(Arc<Anchor>, Arc<TimingEvent>)>,
}

impl Job {
    /// Whether there are chunks left to claim.
    pub fn has_more(&self) -> bool {
        self.error.is_none() && self.claimed < self.bytes
    }

    /// The lane and cost of a chunk, in the scheduler's units.
    pub fn cost(&self, bytes: u64, device_copy_bytes_per_second: u64) -> (Lane, u64) {
        let channel = self.route.channel();
        if channel != Channel::DeviceLocal {
            return (channel.lane(), bytes);
        }
        let nanoseconds =
            u128::from(bytes) * 1_000_000_000 / u128::from(device_copy_bytes_per_second.max(1));
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        (channel.lane(), nanoseconds.max(1))
    }

    pub fn fail(&mut self, error: TransferError) {
        self.error.get_or_insert(error);
        self.grant = GrantStatus::NotRequested;
    }
}

/// A part of a transfer that is copied by one command.
pub(super) struct Chunk {
    pub job: u64,
    pub route: Route,
    pub offset: u64,
    pub bytes: u64,
    pub slot: Option<Slot>,
    /// Held until the chunk has completed.
    pub grant: Option<Grant>,
    /// Completes with the copy; none when recording it failed.
    pub completion: Option<Arc<TimingEvent>>,
}

impl Chunk {
    /// Source and destination of the copy; none past the end of the address range.
    pub fn addresses(&self) -> Option<(Address, Address)> {
        let staged = self.slot.as_ref().map(Slot::address);
        Some(match &self.route {
            Route::Upload { destination, .. } => {
                (staged?, Address::from(*destination).offset(self.offset)?)
            }
            Route::Download { source, .. } => {
                (Address::from(*source).offset(self.offset)?, staged?)
            }
            Route::Direct { source, destination } => {
                (source.offset(self.offset)?, destination.offset(self.offset)?)
            }
        })
    }

    /// Copies the chunk's bytes from the source into its slot.
    pub fn stage(&self, backend: &dyn Backend) -> Result<(), ChunkError> {
        let (Route::Upload { source, .. }, Some(slot)) = (&self.route, &self.slot) else {
            return Ok(());
        };
        let bytes: &[u8] = (**source).as_ref();
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        let chunk = bytes.get(start..end).ok_or(ChunkError::Shrank(bytes.len() as u64))?;
        backend.write_host(slot.pointer, chunk).map_err(ChunkError::Backend)
    }

    /// Copies the chunk's bytes from its slot into the sink.
    pub fn drain(&self, backend: &dyn Backend) -> Result<(), ChunkError> {
        let (Route::Download { sink, .. }, Some(slot)) = (&self.route, &self.slot) else {
            return Ok(());
        };
        let read = &mut |into: &mut [u8]| backend.read_host(slot.pointer, into);
        match sink.write(self.offset, self.bytes, read) {
            Some(outcome) => outcome.map_err(ChunkError::Backend),
            None => Err(ChunkError::Shrank(sink.bytes())),
        }
    }
}

/// Why a chunk failed.
pub(super) enum ChunkError {
    Backend(crate::backend::BackendError),
    Shrank(u64),
}
