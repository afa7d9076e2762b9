//! The transfer engine's errors, one variant per failure.

use crate::backend::{BackendError, EventId};
use crate::scheduler::SchedulerError;
use std::fmt;

/// Why a transfer, or a call of the engine, failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TransferError {
    /// An option cannot be used.
    InvalidOption {
        /// Its name.
        name: &'static str,
        /// What is valid.
        expected: &'static str,
        /// What was given.
        got: u64,
    },
    /// The queue of transfers is full.
    TooManyWaiting {
        /// The rejected transfer.
        name: String,
        /// The queue's capacity.
        limit: usize,
    },
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
    },
    /// An event that the transfer depends on cannot be waited for.
    Dependency {
        /// The transfer.
        name: String,
        /// The event.
        event: EventId,
        /// The device's error.
        source: BackendError,
    },
    /// The host buffer became shorter while it was read or written.
    BufferShrank {
        /// The transfer.
        name: String,
        /// Bytes it must have.
        expected: u64,
        /// Bytes it has.
        got: u64,
    },
    /// The task the transfer was charged to ended.
    Task {
        /// The transfer.
        name: String,
        /// The scheduler's error.
        source: SchedulerError,
    },
    /// The transfer was cancelled.
    Cancelled {
        /// The transfer.
        name: String,
    },
    /// A device call outside any transfer failed.
    Backend(BackendError),
    /// A thread panicked while it changed the engine's state.
    Poisoned,
}

impl TransferError {
    /// A stable name for the failure, for mapping it in other languages.
    pub const fn code(&self) -> &'static str {
        match self {
            TransferError::InvalidOption { .. } => "invalid_option",
            TransferError::TooManyWaiting { .. } => "too_many_waiting",
            TransferError::Chunk { .. } => "chunk_failed",
            TransferError::Dependency { .. } => "dependency_failed",
            TransferError::BufferShrank { .. } => "buffer_shrank",
            TransferError::Task { .. } => "task_ended",
            TransferError::Cancelled { .. } => "cancelled",
            TransferError::Backend(error) => error.code(),
            TransferError::Poisoned => "poisoned",
        }
    }
}

impl From<BackendError> for TransferError {
    fn from(error: BackendError) -> Self {
        TransferError::Backend(error)
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransferError::InvalidOption {
                name,
                expected,
                got,
            } => write!(f, "invalid option {name}: expected {expected}, got {got}"),
            TransferError::TooManyWaiting { name, limit } => write!(
                f,
                "transfer \"{name}\" refused: expected at most {limit} waiting, got one \
                 more\nhint: wait for one to finish"
            ),
            TransferError::Chunk {
                name,
                offset,
                bytes,
                source,
            } => write!(
                f,
                "transfer \"{name}\" failed in the chunk of {bytes} bytes at {offset}: {source}"
            ),
            TransferError::Dependency {
                name,
                event,
                source,
            } => write!(
                f,
                "transfer \"{name}\" cannot wait for event {}: {source}",
                event.0
            ),
            TransferError::BufferShrank {
                name,
                expected,
                got,
            } => write!(
                f,
                "host buffer of transfer \"{name}\" shrank: expected {expected} bytes, got \
                 {got}\nhint: keep it unchanged until the transfer is done"
            ),
            TransferError::Task { name, source } => {
                write!(f, "transfer \"{name}\" got no grant: {source}")
            }
            TransferError::Cancelled { name } => write!(f, "transfer \"{name}\" was cancelled"),
            TransferError::Backend(error) => error.fmt(f),
            TransferError::Poisoned => f.write_str(
                "transfer engine is unusable: expected consistent state, got a panic in the \
                 middle of a change",
            ),
        }
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
