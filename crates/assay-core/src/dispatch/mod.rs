//! What is queued on a device, and a record of every piece of it.

#![forbid(unsafe_code)]

pub(crate) mod mark;
mod record;
pub(crate) mod timeline;

pub use record::{RecordTotals, Recorder, Span, WorkKind, WorkRecord};
