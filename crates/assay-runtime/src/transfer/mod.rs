//! Asynchronous copies between host and device, in chunks and by priority.
//!
//! Pageable bytes are staged through two rings of pinned slots, one per direction: a slot is filled
//! while others are in flight. Copies between addresses that the device can reach are direct. Every
//! transfer is split into chunks, so that a transfer of higher priority overtakes from chunk to
//! chunk, and is charged to a task of the scheduler if it names one.
//! `docs/design/transfer-and-dispatch.md` gives the rationale.
//!
//! There is no thread of its own: [`TransferEngine::poll`], and waiting for any transfer, makes all
//! of them progress.

#![forbid(unsafe_code)]

mod chunk_selection;
mod engine;
mod error;
mod handle;
mod job;
mod options;
mod progress;
mod shared;
mod staging;
mod state;

pub use engine::{TransferEngine, TransferUsage};
pub use error::{Result, TransferError};
pub use handle::{Download, Progress, Transfer};
pub use job::HostSource;
pub use options::{TransferAttributes, TransferOptions};
