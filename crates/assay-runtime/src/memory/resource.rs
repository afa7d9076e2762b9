//! The memory resource interface.

use super::block::NONE;
use super::error::MemoryError;
use crate::backend::{Address, Space, StreamId};
use std::panic::Location;
use std::sync::Arc;

/// The result of a memory call.
pub type Result<T> = std::result::Result<T, MemoryError>;

/// The tenant that is charged for memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TenantId(pub u32);

impl TenantId {
    /// The tenant that always exists.
    pub const DEFAULT: TenantId = TenantId(0);
}

/// The source line that requested memory.
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
        CallSite { file: location.file(), line: location.line() }
    }
}

/// A request for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Size; zero is allowed and allocates nothing.
    pub bytes: u64,
    /// The stream whose work will use the memory first.
    pub stream: StreamId,
    /// The tenant to charge.
    pub tenant: TenantId,
    /// The requesting line.
    pub site: CallSite,
}

impl Request {
    /// A request of the default tenant, made by the calling line.
    #[track_caller]
    pub fn new(bytes: u64, stream: StreamId) -> Self {
        Request { bytes, stream, tenant: TenantId::DEFAULT, site: CallSite::here() }
    }

    /// The same request, charged to `tenant`.
    pub fn for_tenant(self, tenant: TenantId) -> Self {
        Request { tenant, ..self }
    }
}

/// A handle to allocated memory.
///
/// It is a copyable value. A double free, or a free in another resource, is an error that the
/// resource reports; [`Buffer`](super::Buffer) deallocates on drop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Allocation {
    pub(super) address: Address,
    pub(super) bytes: u64,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Allocation {
    /// An allocation of zero bytes.
    pub(super) fn empty(space: Space) -> Self {
        Allocation { address: Address::new(space, 0), bytes: 0, index: NONE, generation: 0 }
    }

    /// Where it begins; zero when it has no bytes.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Bytes requested.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Current totals of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Bytes allocated, rounding included.
    pub allocated_bytes: u64,
    /// Live allocations, empty ones not counted.
    pub live: u64,
    /// Bytes held from the device.
    pub held_bytes: u64,
    /// Capacity of the resource.
    pub capacity_bytes: u64,
}

/// A stream-ordered memory resource.
///
/// Memory freed on a stream may be allocated again before the work queued on that stream has
/// finished, if the new user is ordered after that work. The caller ensures that the stream passed
/// to [`deallocate`](MemoryResource::deallocate) is ordered after every use of the memory.
///
/// Every implementation passes [`contract::check`](super::contract::check).
pub trait MemoryResource: Send + Sync {
    /// The memory space.
    fn space(&self) -> Space;

    /// Allocates memory for work queued on the request's stream from now on.
    fn allocate(&self, request: &Request) -> Result<Allocation>;

    /// Frees memory in the order of `stream`.
    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()>;

    /// Current totals.
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
