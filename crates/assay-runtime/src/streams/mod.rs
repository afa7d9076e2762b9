//! The stream and event state machine of devices that run their queues in this process.
//!
//! [`StreamTable`] keeps streams in order, resolves events, spreads failures along waits and
//! captures queued work into graphs. It is generic over the work and never runs it: the simulated
//! device advances virtual time from completion to completion, the CPU device runs work in worker
//! threads. A GPU's driver has a state machine of its own.

#![forbid(unsafe_code)]

mod capture;
mod event;
mod table;
mod table_capture;
mod table_events;

pub use capture::{CapturedCommand, CapturedGraph};
pub use event::StreamFailure;
pub use table::{Command, DEFAULT_STREAM, ReadyWork, StreamTable};
