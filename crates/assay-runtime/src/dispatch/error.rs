//! Everything dispatch can refuse or fail at, one variant per failure.

use crate::backend::{BackendError, StreamId};
use crate::scheduler::SchedulerError;
use std::fmt;

/// Why a piece of work, or a call of the controller, failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DispatchError {
    /// An option cannot be used.
    InvalidOption {
        /// Its name.
        name: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// What was given.
        got: u64,
    },
    /// The device refused the work.
    Refused {
        /// The work.
        name: String,
        /// The stream it was for.
        stream: StreamId,
        /// What the device said.
        source: BackendError,
    },
    /// Work that this was to come after failed.
    DependencyFailed {
        /// The work.
        name: String,
        /// Why the other failed.
        source: Box<DispatchError>,
    },
    /// As much work waits for the stream as may.
    TooManyWaiting {
        /// The work refused.
        name: String,
        /// The stream.
        stream: StreamId,
        /// The most that may wait.
        limit: usize,
    },
    /// Work failed on the device, and what was queued behind it was not done.
    StreamFailed {
        /// The stream.
        stream: StreamId,
        /// The work that failed.
        name: String,
        /// What the device said.
        source: BackendError,
    },
    /// Work failed so long ago that only the fact is remembered.
    LongFailed {
        /// The stream.
        stream: StreamId,
    },
    /// The task the work was charged to ended.
    Task {
        /// The work.
        name: String,
        /// What the scheduler said.
        source: SchedulerError,
    },
    /// A capture cannot begin, or be joined, while work waits for the stream.
    CaptureBusy {
        /// The stream.
        stream: StreamId,
        /// Pieces that wait.
        waiting: usize,
    },
    /// Captured work can come after work of the same capture only.
    CaptureDependency {
        /// The work.
        name: String,
        /// The stream on which the capture began.
        origin: StreamId,
    },
    /// While a thread captures, its copies from and to host memory belong on the captured streams.
    CaptureHostCopy {
        /// The work.
        name: String,
        /// The stream it was for.
        stream: StreamId,
        /// The stream on which the capture began.
        origin: StreamId,
    },
    /// The capture ended while another thread submitted work to it.
    CaptureEnded {
        /// The work.
        name: String,
        /// The stream it was for.
        stream: StreamId,
    },
    /// The work belongs to a capture, so it has no end to wait for.
    Captured {
        /// The stream it was captured on.
        stream: StreamId,
    },
    /// The controller went away while the work stood in line.
    Abandoned {
        /// The work.
        name: String,
    },
    /// The device refused a call that is not about one piece of work.
    Backend(BackendError),
    /// A thread panicked inside the controller, whose books can no longer be trusted.
    Poisoned,
}

impl DispatchError {
    /// A stable name for the failure, for mapping it in other languages.
    pub fn code(&self) -> &'static str {
        match self {
            DispatchError::InvalidOption { .. } => "invalid_option",
            DispatchError::Refused { source, .. } => source.code(),
            DispatchError::DependencyFailed { .. } => "dependency_failed",
            DispatchError::TooManyWaiting { .. } => "too_many_waiting",
            DispatchError::StreamFailed { source, .. } => match source {
                BackendError::Asynchronous { .. } => "stream_failed",
                ended => ended.code(),
            },
            DispatchError::LongFailed { .. } => "stream_failed",
            DispatchError::Task { .. } => "task_ended",
            DispatchError::CaptureBusy { .. } => "capture_busy",
            DispatchError::CaptureDependency { .. } => "capture_dependency",
            DispatchError::CaptureHostCopy { .. } => "capture_host_copy",
            DispatchError::CaptureEnded { .. } => "capture_ended",
            DispatchError::Captured { .. } => "captured",
            DispatchError::Abandoned { .. } => "abandoned",
            DispatchError::Backend(error) => error.code(),
            DispatchError::Poisoned => "poisoned",
        }
    }
}

impl From<BackendError> for DispatchError {
    fn from(error: BackendError) -> Self {
        DispatchError::Backend(error)
    }
}

impl fmt::Display for DispatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DispatchError::InvalidOption {
                name,
                expected,
                got,
            } => write!(f, "invalid option {name}: expected {expected}, got {got}"),
            DispatchError::Refused {
                name,
                stream,
                source,
            } => write!(f, "\"{name}\" on stream {} refused: {source}", stream.0),
            DispatchError::DependencyFailed { name, source } => {
                write!(f, "\"{name}\" comes after work that failed: {source}")
            }
            DispatchError::TooManyWaiting {
                name,
                stream,
                limit,
            } => write!(
                f,
                "\"{name}\" refused: expected at most {limit} pieces waiting for stream {}, got \
                 one more\nhint: wait for work on that stream to finish",
                stream.0
            ),
            DispatchError::StreamFailed {
                stream,
                name,
                source,
            } => match source {
                BackendError::Asynchronous { message, .. } => write!(
                    f,
                    "\"{name}\" failed on stream {}: {message}\nhint: what it and the work queued \
                     behind it were to write cannot be used; make it anew",
                    stream.0
                ),
                other => write!(f, "\"{name}\" failed on stream {}: {other}", stream.0),
            },
            DispatchError::LongFailed { stream } => write!(
                f,
                "work on stream {} failed: expected it to finish, got a failure before many \
                 others\nhint: what it was to write cannot be used; make it anew",
                stream.0
            ),
            DispatchError::Task { name, source } => {
                write!(f, "\"{name}\" got no turn: {source}")
            }
            DispatchError::CaptureBusy { stream, waiting } => write!(
                f,
                "capture on stream {}: expected no work waiting for it, got {waiting}\nhint: \
                 synchronize the stream first",
                stream.0
            ),
            DispatchError::CaptureDependency { name, origin } => write!(
                f,
                "\"{name}\" in the capture of stream {}: expected to come after captured work, \
                 got work outside the capture\nhint: wait for it before the capture begins",
                origin.0
            ),
            DispatchError::CaptureHostCopy {
                name,
                stream,
                origin,
            } => write!(
                f,
                "host copy \"{name}\" during capture: expected a stream of the capture begun on \
                 stream {}, got stream {}\nhint: a copy outside would not be replayed",
                origin.0, stream.0
            ),
            DispatchError::CaptureEnded { name, stream } => write!(
                f,
                "\"{name}\" on stream {}: expected the capture there to go on, got its \
                 end\nhint: submit it again, or order the threads",
                stream.0
            ),
            DispatchError::Captured { stream } => write!(
                f,
                "wait for captured work: expected work that runs, got a node captured on stream \
                 {}\nhint: wait for a replay of the graph",
                stream.0
            ),
            DispatchError::Abandoned { name } => write!(
                f,
                "\"{name}\" abandoned: expected its turn to come, got the end of the controller"
            ),
            DispatchError::Backend(error) => error.fmt(f),
            DispatchError::Poisoned => f.write_str(
                "dispatch controller is unusable: expected consistent books, got a panic in the \
                 middle of a change",
            ),
        }
    }
}

impl std::error::Error for DispatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DispatchError::Refused { source, .. } | DispatchError::StreamFailed { source, .. } => {
                Some(source)
            }
            DispatchError::DependencyFailed { source, .. } => Some(&**source),
            DispatchError::Task { source, .. } => Some(source),
            _ => None,
        }
    }
}
