//! The transfer engine's errors, one variant per failure.

use crate::backend::{BackendError, EventId};
use crate::scheduler::SchedulerError;
use assay_collections::errors;

errors! {
    /// Why a transfer, or a call of the engine, failed.
    pub enum TransferError {
        /// An option cannot be used.
        InvalidOption {
            /// Its name.
            name: &'static str,
            /// What is valid.
            expected: &'static str,
            /// What was given.
            got: u64,
        } = "invalid_option" => "invalid option {name}: expected {expected}, got {got}";
        /// The queue of transfers is full.
        TooManyWaiting {
            /// The rejected transfer.
            name: String,
            /// The queue's capacity.
            limit: usize,
        } = "too_many_waiting" =>
            "transfer \"{name}\" refused: expected at most {limit} waiting, got one \
             more\nhint: wait for one to finish";
        /// A chunk failed, and with it the transfer.
        Chunk {
            /// The transfer.
            name: String,
            /// The chunk's offset.
            offset: u64,
            /// The chunk's length.
            bytes: u64,
            /// The device's error.
            source: BackendError,
        } = "chunk_failed" =>
            "transfer \"{name}\" failed in the chunk of {bytes} bytes at {offset}: {source}";
        /// An event that the transfer depends on cannot be waited for.
        Dependency {
            /// The transfer.
            name: String,
            /// The event.
            event: EventId,
            /// The device's error.
            source: BackendError,
        } = "dependency_failed" =>
            "transfer \"{name}\" cannot wait for event {}: {source}",
            event.0;
        /// The host buffer became shorter while it was read or written.
        BufferShrank {
            /// The transfer.
            name: String,
            /// Bytes it must have.
            expected: u64,
            /// Bytes it has.
            got: u64,
        } = "buffer_shrank" =>
            "host buffer of transfer \"{name}\" shrank: expected {expected} bytes, got \
             {got}\nhint: keep it unchanged until the transfer is done";
        /// The task the transfer was charged to ended.
        Task {
            /// The transfer.
            name: String,
            /// The scheduler's error.
            source: SchedulerError,
        } = "task_ended" => "transfer \"{name}\" got no grant: {source}";
        /// The transfer was cancelled.
        Cancelled {
            /// The transfer.
            name: String,
        } = "cancelled" => "transfer \"{name}\" was cancelled";
        /// A thread panicked while it changed the engine's state.
        Poisoned = "poisoned" =>
            "transfer engine is unusable: expected consistent state, got a panic in the \
             middle of a change";
    }
    wraps {
        /// A device call outside any transfer failed.
        Backend(BackendError)
    }
}

/// Result of a transfer engine call.
pub type Result<T> = std::result::Result<T, TransferError>;

impl std::error::Error for TransferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TransferError::Chunk { source, .. } | TransferError::Dependency { source, .. } => {
                Some(source)
            }
            TransferError::Task { source, .. } => Some(source),
            _ => None,
        }
    }
}
