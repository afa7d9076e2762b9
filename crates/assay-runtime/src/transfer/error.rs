//! Everything a transfer can fail at, one variant per failure.

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
        /// What is allowed.
        expected: &'static str,
        /// What was given.
        got: u64,
    },
    /// As many transfers wait as may.
    TooManyWaiting {
        /// The transfer refused.
        name: String,
        /// The most that may wait.
        limit: usize,
    },
    /// A chunk failed, and with it the transfer.
    Chunk {
        /// The transfer.
        name: String,
        /// Where in it the chunk begins.
        offset: u64,
        /// How long the chunk is.
        bytes: u64,
        /// What the device said.
        source: BackendError,
    },
    /// An event that the transfer was to come after cannot be waited for.
    Dependency {
        /// The transfer.
        name: String,
        /// The event.
        event: EventId,
        /// What the device said.
        source: BackendError,
    },
    /// The host buffer became shorter while it was read or written.
    BufferShrank {
        /// The transfer.
        name: String,
        /// Bytes it had to have.
        expected: u64,
        /// Bytes it has.
        got: u64,
    },
    /// The task the transfer was charged to ended.
    Task {
        /// The transfer.
        name: String,
        /// What the scheduler said.
        source: SchedulerError,
    },
    /// The transfer was cancelled.
    Cancelled {
        /// The transfer.
        name: String,
    },
    /// The device refused a call that is not part of a transfer.
    Backend(BackendError),
    /// A thread panicked inside the engine, whose books can no longer be trusted.
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
                "transfer \"{name}\" cannot come after event {}: {source}",
                event.0
            ),
            TransferError::BufferShrank {
                name,
                expected,
                got,
            } => write!(
                f,
                "host buffer of transfer \"{name}\" shrank: expected {expected} bytes, got \
                 {got}\nhint: keep it unchanged until the transfer is over"
            ),
            TransferError::Task { name, source } => {
                write!(f, "transfer \"{name}\" got no turn: {source}")
            }
            TransferError::Cancelled { name } => write!(f, "transfer \"{name}\" was cancelled"),
            TransferError::Backend(error) => error.fmt(f),
            TransferError::Poisoned => f.write_str(
                "transfer engine is unusable: expected consistent books, got a panic in the \
                 middle of a change",
            ),
        }
    }
}

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
