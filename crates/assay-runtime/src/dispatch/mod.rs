//! Dispatch of work to a device's streams, with a record of each operation.
//!
//! Work is issued to its stream as long as fewer than a limit of operations are in flight there,
//! everything it depends on is issued, and its task has a grant of the scheduler. Otherwise it
//! waits here in order, and past a second limit it is refused. Events order streams among each
//! other. A stream under capture collects work into a graph instead of running it, and the graph
//! knows the operation behind every node. See `docs/design/transfer-and-dispatch.md`.
//!
//! There is no dispatch thread: submitting to a stream, waiting and [`DispatchController::poll`]
//! issue waiting work and retire completed work.

#![forbid(unsafe_code)]

mod capture;
mod capture_state;
mod context;
mod controller;
mod error;
pub(crate) mod event_pool;
mod failure_log;
mod in_flight;
mod issue;
mod memory;
mod meter;
mod options;
mod recapture;
mod record;
mod replay;
mod shared;
mod stream_state;
mod submit;
pub(crate) mod timeline;
mod tracing;
mod wait;
mod waiting_work;
mod work;
mod work_log;

pub use capture::Capture;
pub use controller::{DispatchController, StreamUsage};
pub use error::{DispatchError, Result};
pub use memory::RecordedMemory;
pub use options::{DispatchOptions, Timing};
pub use record::{RecordTotals, Recorder, Span, WorkKind, WorkRecord};
pub use work::{Graph, GraphNode, Work, WorkId, WorkRequest};
pub use work_log::{TracedWork, WorkTrace};
