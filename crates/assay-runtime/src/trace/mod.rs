//! Times of work, launch by launch, while a trace is captured.
//!
//! Dispatch gives every piece of work that it queues a number, its ticket, and keeps what the work
//! is ([`WorkLog`]). The device keeps when each launch of a ticket ran ([`Tracer`]). While no trace
//! is captured both cost one branch. See `docs/design/engine-tracing.md`.

#![forbid(unsafe_code)]

mod span_log;
mod spans;
mod ticket;
mod work_log;

pub use span_log::SpanLog;
pub use spans::{DeviceSpans, LaunchInfo, LaunchKind, LaunchSpan, WorkSpans};
pub use ticket::{current_step, current_ticket, set_step, with_ticket};
pub use work_log::{TracedWork, WorkLog, WorkTrace};

use crate::backend::Result;

/// The tracer of a device.
pub trait Tracer: Send + Sync {
    /// Begins to keep the times of work that is queued with a ticket from now on.
    ///
    /// `capacity` is how many launches it keeps; it counts those beyond.
    fn start(&self, capacity: usize) -> Result<()>;

    /// Waits for the work in flight, ends, and returns the times on the backend's clock.
    fn stop(&self) -> Result<DeviceSpans>;
}
