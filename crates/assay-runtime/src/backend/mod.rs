//! What a device does for the runtime, and nothing more.
//!
//! One trait, [`Backend`], stands between the runtime (pool, transfer, dispatch, scheduler) and a
//! device. It follows the shape of a GPU driver: memory comes in large pieces, work is queued on
//! streams and returns at once, events order streams among themselves, graphs replay queued work.
//! There is no device-wide synchronization, so that nothing built on this can end in one.
//!
//! The trait is used as `Arc<dyn Backend>`: an indirect call costs about a nanosecond where the
//! driver call behind it costs hundreds, and the memory pool's hot path makes none. In return
//! nothing above is generic over the device.

#![forbid(unsafe_code)]

mod capture_clocks;
pub mod contract;
mod error;
mod operation;
mod types;

pub use capture_clocks::CaptureClocks;
pub use error::BackendError;
pub use operation::Operation;
pub use types::{
    Address, CopyDirection, DeviceKind, DevicePointer, DeviceProperties, EventId, GraphId,
    HostPointer, KernelArgument, KernelId, Launch, MemoryInfo, Space, StreamId, StreamPriority,
};

use crate::clock::Clock;

/// What a call of a backend gives.
pub type Result<T> = std::result::Result<T, BackendError>;

/// A device: memory, streams, events, copies, launches, graphs and a clock.
///
/// Calls that take a stream only queue work, unless their name says `synchronize`. All calls may
/// come from any thread. Every implementation passes [`contract::check`].
pub trait Backend: Send + Sync {
    /// What does not change about the device.
    fn properties(&self) -> &DeviceProperties;

    /// The clock in which this device's times are told.
    fn clock(&self) -> &dyn Clock;

    /// Device memory as it stands now.
    fn memory_info(&self) -> Result<MemoryInfo>;

    /// Allocates device memory; slow, meant for the large pieces a pool divides.
    fn allocate_device(&self, bytes: u64) -> Result<DevicePointer>;

    /// Gives device memory back, after all work queued so far.
    fn free_device(&self, pointer: DevicePointer) -> Result<()>;

    /// Allocates pinned host memory; slow, meant for the large pieces a pool divides.
    fn allocate_host(&self, bytes: u64) -> Result<HostPointer>;

    /// Gives pinned host memory back, after all work queued so far.
    fn free_host(&self, pointer: HostPointer) -> Result<()>;

    /// Reads pinned host memory as it is now; queued work is not waited for.
    fn read_host(&self, source: HostPointer, into: &mut [u8]) -> Result<()>;

    /// Writes pinned host memory now; queued work is not waited for.
    fn write_host(&self, destination: HostPointer, bytes: &[u8]) -> Result<()>;

    /// The stream that always exists.
    fn default_stream(&self) -> StreamId;

    /// Makes a stream.
    fn create_stream(&self, priority: StreamPriority) -> Result<StreamId>;

    /// Ends a stream; work already queued on it still runs.
    fn destroy_stream(&self, stream: StreamId) -> Result<()>;

    /// Whether all work queued on the stream so far is finished.
    fn query_stream(&self, stream: StreamId) -> Result<bool>;

    /// Lets a stream whose work failed take work again; one that did not fail is left as it is.
    ///
    /// What was queued behind the failure stays undone, and marks recorded there stay failed. A
    /// device that a fault has ended refuses.
    fn recover_stream(&self, stream: StreamId) -> Result<()>;

    /// Blocks until all work queued on the stream so far is finished.
    fn synchronize_stream(&self, stream: StreamId) -> Result<()>;

    /// Makes an event; one never recorded counts as finished.
    fn create_event(&self) -> Result<EventId>;

    /// Ends an event; waits already queued for it stay valid.
    fn destroy_event(&self, event: EventId) -> Result<()>;

    /// Marks the end of what is queued on the stream so far; an earlier mark is forgotten.
    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()>;

    /// Makes later work on the stream wait for the event's mark as it is now.
    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()>;

    /// Whether the event's mark has been reached.
    fn query_event(&self, event: EventId) -> Result<bool>;

    /// Blocks until the event's mark has been reached.
    fn synchronize_event(&self, event: EventId) -> Result<()>;

    /// Nanoseconds of device time between two finished events.
    fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64>;

    /// Queues a copy between two disjoint ranges.
    fn copy(
        &self,
        stream: StreamId,
        source: Address,
        destination: Address,
        bytes: u64,
    ) -> Result<()>;

    /// Queues the setting of every byte of a range to `value`.
    fn fill(&self, stream: StreamId, destination: Address, value: u8, bytes: u64) -> Result<()>;

    /// Queues a kernel. How kernels come into being differs by backend and is not part of this.
    fn launch(&self, stream: StreamId, launch: &Launch) -> Result<()>;

    /// From here on, work queued on the stream is noted instead of run.
    ///
    /// Another stream enters the capture by waiting for an event recorded in it, and must be
    /// joined back the same way before the end.
    fn begin_capture(&self, stream: StreamId) -> Result<()>;

    /// Ends the capture begun on this stream and makes the noted work launchable.
    fn end_capture(&self, stream: StreamId) -> Result<GraphId>;

    /// Whether work queued on the stream would be noted instead of run; safe to ask at any time.
    fn is_capturing(&self, stream: StreamId) -> Result<bool>;

    /// Queues the whole graph on the stream.
    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()>;

    /// Ends a graph; launches already queued still run.
    fn destroy_graph(&self, graph: GraphId) -> Result<()>;
}
