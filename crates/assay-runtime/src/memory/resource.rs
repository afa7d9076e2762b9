//! The interface of everything that hands out memory, and the values it speaks in.

use super::block::NONE;
use super::error::MemoryError;
use crate::backend::{Address, Space, StreamId};
use std::panic::Location;
use std::sync::Arc;

/// What a memory call gives.
pub type Result<T> = std::result::Result<T, MemoryError>;

/// Who is charged for memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TenantId(pub u32);

impl TenantId {
    /// The tenant that always exists.
    pub const DEFAULT: TenantId = TenantId(0);
}

/// The line of source that asked for memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallSite {
    /// Source file.
    pub file: &'static str,
    /// Line in it.
    pub line: u32,
}

impl CallSite {
    /// The caller's own line.
    #[track_caller]
    pub fn here() -> Self {
        let location = Location::caller();
        CallSite {
            file: location.file(),
            line: location.line(),
        }
    }
}

/// A request for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// How many bytes; zero is allowed and gives nothing.
    pub bytes: u64,
    /// The stream whose work will use the memory first.
    pub stream: StreamId,
    /// Who is charged.
    pub tenant: TenantId,
    /// Who asks.
    pub site: CallSite,
}

impl Request {
    /// A request of the default tenant, made by the calling line.
    #[track_caller]
    pub fn new(bytes: u64, stream: StreamId) -> Self {
        Request {
            bytes,
            stream,
            tenant: TenantId::DEFAULT,
            site: CallSite::here(),
        }
    }

    /// The same request, charged to `tenant`.
    pub fn for_tenant(self, tenant: TenantId) -> Self {
        Request { tenant, ..self }
    }
}

/// Memory in a caller's hands: where it is, how long, and what its resource knows it by.
///
/// It is a plain value. Freeing it twice, or elsewhere than where it came from, is an error that
/// the resource reports; [`Buffer`](super::Buffer) frees by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Allocation {
    pub(super) address: Address,
    pub(super) bytes: u64,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Allocation {
    /// No memory at all.
    pub(super) fn nothing(space: Space) -> Self {
        Allocation {
            address: Address::new(space, 0),
            bytes: 0,
            index: NONE,
            generation: 0,
        }
    }

    /// Where it begins; zero when it has no bytes.
    pub fn address(&self) -> Address {
        self.address
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A resource's totals at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Bytes in callers' hands, rounding included.
    pub allocated_bytes: u64,
    /// Allocations in callers' hands, empty ones not counted.
    pub live: u64,
    /// Bytes held from the device.
    pub held_bytes: u64,
    /// The most bytes the resource may hold.
    pub capacity_bytes: u64,
}

/// Something that hands out memory in the order of streams.
///
/// Memory freed on a stream may be handed out again before the work queued on that stream is done,
/// if whoever gets it is ordered after that work. The caller sees to it that the stream given to
/// [`deallocate`](MemoryResource::deallocate) is ordered after every use of the memory.
///
/// Every implementation passes [`contract::check`](super::contract::check).
pub trait MemoryResource: Send + Sync {
    /// The memory handed out.
    fn space(&self) -> Space;

    /// Hands out memory that work queued on the request's stream from now on may use.
    fn allocate(&self, request: &Request) -> Result<Allocation>;

    /// Takes memory back, in the order of `stream`.
    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()>;

    /// The totals now.
    fn usage(&self) -> Result<Usage>;
}

impl<R: MemoryResource + ?Sized> MemoryResource for Arc<R> {
    fn space(&self) -> Space {
        (**self).space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        (**self).allocate(request)
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        (**self).deallocate(allocation, stream)
    }

    fn usage(&self) -> Result<Usage> {
        (**self).usage()
    }
}
