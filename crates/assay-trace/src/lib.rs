//! Event traces as columns in Arrow's layout, without Python and CUDA.
//!
//! A trace is a table of events ([`schema`]): what ran on which device, stream or thread, and when.
//! [`EventBuilder`] makes a [`TraceTable`] event by event; a [`ShardWriter`] stores what a process
//! records while it runs. [`kineto`] reads traces of PyTorch's profiler.

mod builder;
pub mod columns;
mod error;
mod interner;
pub mod kineto;
pub mod schema;
mod shard;
mod table;

pub use builder::{Event, EventBuilder};
pub use error::{Fault, Result, TraceError};
pub use schema::{BATCH_ROWS, Kind, Phase};
pub use shard::{Shard, ShardWriter, read_shard};
pub use table::{Batch, TraceTable};
