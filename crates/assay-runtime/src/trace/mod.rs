//! Times of work, launch by launch, while a trace is captured.
//!
//! Dispatch gives every piece of work that it queues a number, its ticket, and keeps what the work
//! is. The device keeps when each launch of a ticket ran ([`DeviceSpans`]). While no trace
//! is captured both cost one branch. See `docs/design/engine-tracing.md`.

#![forbid(unsafe_code)]

mod span_log;
mod spans;
mod ticket;

pub use span_log::SpanLog;
pub use spans::{DeviceSpans, LaunchInfo, LaunchKind, LaunchSpan, WorkSpans};
pub use ticket::{current_step, current_ticket, set_step, with_ticket};
