//! One transfer: what goes where, how far it is, and how it ended.

use super::error::TransferError;
use super::options::TransferTerms;
use super::staging::Slot;
use crate::backend::{Address, Backend, CopyDirection, DevicePointer};
use crate::dispatch::event_pool::TimingEvent;
use crate::dispatch::timeline::Anchor;
use crate::scheduler::{Grant, Lane, PendingGrant};
use std::sync::{Arc, Mutex, PoisonError};

/// Pageable host memory to read from.
pub type HostSource = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Pageable host memory to write to, of whatever type its owner wants back.
pub(super) trait Sink: Send + Sync {
    /// Writes the bytes that `fill` provides into this range, if it is there.
    fn write(&self, offset: u64, bytes: u64, fill: &mut Filler<'_>) -> Option<FillResult>;
    fn bytes(&self) -> u64;
}

pub(super) type FillResult = crate::backend::Result<()>;
pub(super) type Filler<'a> = dyn FnMut(&mut [u8]) -> FillResult + 'a;

/// A host buffer that its owner gets back when the transfer is over.
pub(super) struct BufferSink<T>(pub Mutex<Option<T>>);

impl<T: AsMut<[u8]> + Send> Sink for BufferSink<T> {
    fn write(&self, offset: u64, bytes: u64, fill: &mut Filler<'_>) -> Option<FillResult> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = held.as_mut()?.as_mut();
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        Some(fill(whole.get_mut(start..end)?))
    }

    fn bytes(&self) -> u64 {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_mut().map_or(0, |whole| whole.as_mut().len() as u64)
    }
}

/// From where to where.
#[derive(Clone)]
pub(super) enum Route {
    Upload {
        source: HostSource,
        destination: DevicePointer,
    },
    Download {
        source: DevicePointer,
        sink: Arc<dyn Sink>,
    },
    Direct {
        source: Address,
        destination: Address,
    },
}

/// The three streams of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Up,
    Down,
    Within,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Up, Way::Down, Way::Within];

    /// The lane that chunks of this way take turns in.
    pub const fn lane(self) -> Lane {
        match self {
            Way::Up => Lane::Upload,
            Way::Down => Lane::Download,
            Way::Within => Lane::Compute,
        }
    }
}

impl Route {
    pub fn direction(&self) -> CopyDirection {
        match self {
            Route::Upload { .. } => CopyDirection::HostToDevice,
            Route::Download { .. } => CopyDirection::DeviceToHost,
            Route::Direct {
                source,
                destination,
            } => CopyDirection::between(*source, *destination),
        }
    }

    pub fn way(&self) -> Way {
        match self.direction() {
            CopyDirection::HostToDevice => Way::Up,
            CopyDirection::DeviceToHost => Way::Down,
            CopyDirection::DeviceToDevice | CopyDirection::HostToHost => Way::Within,
        }
    }

    /// Whether the bytes travel through a staging ring.
    pub fn is_staged(&self) -> bool {
        !matches!(self, Route::Direct { .. })
    }
}

/// Permission of the scheduler for the next chunk.
pub(super) enum Gate {
    /// Not asked for, or not needed.
    Open,
    Asked(PendingGrant),
    /// A thread waits with the ticket in hand.
    Elsewhere,
    Granted(Grant),
}

pub(super) struct Job {
    pub name: Arc<str>,
    pub route: Route,
    pub bytes: u64,
    pub terms: TransferTerms,
    pub gate: Gate,
    /// Bytes whose chunks were handed out.
    pub claimed: u64,
    /// Bytes that have arrived.
    pub arrived: u64,
    /// Chunks being staged, under way or being drained.
    pub chunks_out: u32,
    /// Set by the first thing that goes wrong.
    pub error: Option<TransferError>,
    /// Nothing more will happen to it.
    pub over: bool,
    pub handle_dropped: bool,
    pub submitted_ns: u64,
    pub start: Option<(Arc<Anchor>, Arc<TimingEvent>)>,
}

impl Job {
    /// Whether there are chunks left to hand out.
    pub fn has_more(&self) -> bool {
        self.error.is_none() && self.claimed < self.bytes
    }

    /// The lane and cost of a chunk, as the scheduler counts them.
    pub fn cost(&self, bytes: u64, device_copy_bytes_per_second: u64) -> (Lane, u64) {
        let way = self.route.way();
        if way != Way::Within {
            return (way.lane(), bytes);
        }
        let nanoseconds =
            u128::from(bytes) * 1_000_000_000 / u128::from(device_copy_bytes_per_second.max(1));
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        (way.lane(), nanoseconds.max(1))
    }

    pub fn fail(&mut self, error: TransferError) {
        self.error.get_or_insert(error);
        self.gate = Gate::Open;
    }
}

/// A part of a transfer that is copied at once.
pub(super) struct Chunk {
    pub job: u64,
    pub route: Route,
    pub offset: u64,
    pub bytes: u64,
    pub slot: Option<Slot>,
    /// Kept until the chunk is over, then given back to the scheduler.
    pub turn: Option<Grant>,
    /// Reached when the copy is over; none when recording it failed.
    pub mark: Option<Arc<TimingEvent>>,
}

impl Chunk {
    /// Where the copy reads and writes; none past the end of the address range.
    pub fn addresses(&self) -> Option<(Address, Address)> {
        let staged = self.slot.as_ref().map(Slot::address);
        Some(match &self.route {
            Route::Upload { destination, .. } => {
                (staged?, Address::from(*destination).offset(self.offset)?)
            }
            Route::Download { source, .. } => {
                (Address::from(*source).offset(self.offset)?, staged?)
            }
            Route::Direct {
                source,
                destination,
            } => (
                source.offset(self.offset)?,
                destination.offset(self.offset)?,
            ),
        })
    }

    /// Copies the chunk's bytes from the source into its slot.
    pub fn stage(&self, backend: &dyn Backend) -> Result<(), ChunkError> {
        let (Route::Upload { source, .. }, Some(slot)) = (&self.route, &self.slot) else {
            return Ok(());
        };
        let whole: &[u8] = (**source).as_ref();
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        let part = whole
            .get(start..end)
            .ok_or(ChunkError::Shrank(whole.len() as u64))?;
        backend
            .write_host(slot.pointer, part)
            .map_err(ChunkError::Backend)
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

/// What went wrong with a chunk, before it is known as its transfer's failure.
pub(super) enum ChunkError {
    Backend(crate::backend::BackendError),
    Shrank(u64),
}
