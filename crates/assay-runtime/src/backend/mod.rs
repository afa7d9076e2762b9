//! The interface between the runtime and a device.
//!
//! The trait [`Backend`] separates the runtime (pool, transfer, dispatch, scheduler) from a device.
//! It follows the shape of a GPU driver: memory is allocated in slabs, calls that queue work on
//! streams return immediately, events order streams among each other, graphs replay captured work.
//! There is no device-wide synchronization, so that nothing built on this can call one.
//!
//! The trait is used as `Arc<dyn Backend>`: an indirect call costs about a nanosecond where the
//! driver call behind it costs hundreds, and the memory pool's hot path makes none. In return
//! nothing above is generic over the device.

#![forbid(unsafe_code)]

mod capture_clocks;
pub mod contract;
mod error;
mod operation;
mod tracer;
mod types;

pub use capture_clocks::CaptureClocks;
pub use error::BackendError;
pub use operation::Operation;
pub use tracer::Tracer;
pub use types::{
    Address, CopyDirection, DELAY_SLOT_BYTES, DeviceKind, DevicePointer, DeviceProperties, EventId,
    GraphId, HostPointer, KernelArgument, KernelId, Launch, MemoryInfo, Space, StreamId,
    StreamPriority,
};

use crate::clock::Clock;

/// The result of a backend call.
pub type Result<T> = std::result::Result<T, BackendError>;

/// A device: memory, streams, events, copies, launches, graphs and a clock.
///
/// Calls that take a stream only queue work, unless their name says `synchronize`. All calls may
/// come from any thread. Every implementation passes [`contract::check`].
pub trait Backend: Send + Sync {
    /// Constant properties of the device.
    fn properties(&self) -> &DeviceProperties;

    /// The clock of the device's times.
    fn clock(&self) -> &dyn Clock;

    /// Free and total device memory.
    fn memory_info(&self) -> Result<MemoryInfo>;

    /// Allocates device memory; slow, meant for the slabs of a pool.
    fn allocate_device(&self, bytes: u64) -> Result<DevicePointer>;

    /// Frees device memory, after all work queued so far.
    fn free_device(&self, pointer: DevicePointer) -> Result<()>;

    /// Returns device memory freed so far to other processes; waits for the work queued before it was freed.
    fn release_freed(&self) -> Result<()> {
        Ok(())
    }

    /// Allocates pinned host memory; slow, meant for the slabs of a pool.
    fn allocate_host(&self, bytes: u64) -> Result<HostPointer>;

    /// Frees pinned host memory, after all work queued so far.
    fn free_host(&self, pointer: HostPointer) -> Result<()>;

    /// Reads pinned host memory now, without waiting for queued work.
    fn read_host(&self, source: HostPointer, into: &mut [u8]) -> Result<()>;

    /// Writes pinned host memory now, without waiting for queued work.
    fn write_host(&self, destination: HostPointer, bytes: &[u8]) -> Result<()>;

    /// The stream that always exists.
    fn default_stream(&self) -> StreamId;

    /// Creates a stream.
    fn create_stream(&self, priority: StreamPriority) -> Result<StreamId>;

    /// Destroys a stream; work already queued on it still runs.
    fn destroy_stream(&self, stream: StreamId) -> Result<()>;

    /// Whether all work queued on the stream so far has finished.
    fn query_stream(&self, stream: StreamId) -> Result<bool>;

    /// Clears the failure of a stream, so that it accepts work again; no effect on other streams.
    ///
    /// Work queued behind the failure does not run, and events recorded there stay failed. Fails on
    /// a device after a device fault.
    fn recover_stream(&self, stream: StreamId) -> Result<()>;

    /// Blocks until all work queued on the stream so far has finished.
    fn synchronize_stream(&self, stream: StreamId) -> Result<()>;

    /// Creates an event; one never recorded counts as complete.
    fn create_event(&self) -> Result<EventId>;

    /// Destroys an event; waits already queued for it stay valid.
    fn destroy_event(&self, event: EventId) -> Result<()>;

    /// Records the event after what is queued on the stream so far; replaces an earlier record.
    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()>;

    /// Makes later work on the stream wait for the event's latest record.
    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()>;

    /// Whether the event's latest record is complete.
    fn query_event(&self, event: EventId) -> Result<bool>;

    /// Blocks until the event's latest record is complete.
    fn synchronize_event(&self, event: EventId) -> Result<()>;

    /// Nanoseconds of device time between two completed events.
    fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64>;

    /// Queues a copy between two disjoint ranges.
    fn copy(
        &self,
        stream: StreamId,
        source: Address,
        destination: Address,
        bytes: u64,
    ) -> Result<()>;

    /// Queues a fill of a range with `value`.
    fn fill(&self, stream: StreamId, destination: Address, value: u8, bytes: u64) -> Result<()>;

    /// Queues a kernel launch. How kernels are registered differs by backend.
    fn launch(&self, stream: StreamId, launch: &Launch) -> Result<()>;

    /// Begins a capture: work queued on the stream is captured instead of run.
    ///
    /// Another stream joins the capture by waiting for an event recorded in it, and must be joined
    /// back the same way before the end.
    fn begin_capture(&self, stream: StreamId) -> Result<()>;

    /// Ends the capture begun on this stream and returns the graph.
    fn end_capture(&self, stream: StreamId) -> Result<GraphId>;

    /// Whether work queued on the stream would be captured; allowed at any time.
    fn is_capturing(&self, stream: StreamId) -> Result<bool>;

    /// Queues a launch of the graph.
    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()>;

    /// Destroys a graph; launches already queued still run.
    fn destroy_graph(&self, graph: GraphId) -> Result<()>;

    /// Its tracer; none where it cannot tell when a launch ran.
    fn tracer(&self) -> Option<&dyn Tracer> {
        None
    }
}
