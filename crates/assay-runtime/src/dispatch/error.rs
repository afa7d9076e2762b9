//! Errors of dispatch, one variant per failure.

use crate::backend::{BackendError, StreamId};
use crate::scheduler::SchedulerError;
use std::fmt;

/// Why work, or a call of the controller, failed.
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
        /// The device's error.
        source: BackendError,
    },
    /// A dependency failed.
    DependencyFailed {
        /// The work.
        name: String,
        /// The dependency's error.
        source: Box<DispatchError>,
    },
    /// The stream's waiting queue is full.
    TooManyWaiting {
        /// The work.
        name: String,
        /// The stream.
        stream: StreamId,
        /// The limit.
        limit: usize,
    },
    /// Work failed on the device; what was queued behind it did not run.
    StreamFailed {
        /// The stream.
        stream: StreamId,
        /// The work that failed.
        name: String,
        /// The device's error.
        source: BackendError,
    },
    /// Work failed, and its error is no longer kept.
    ExpiredFailure {
        /// The stream.
        stream: StreamId,
    },
    /// The task the work was charged to ended.
    Task {
        /// The work.
        name: String,
        /// The scheduler's error.
        source: SchedulerError,
    },
    /// A capture cannot begin, or be joined, while work waits for the stream.
    CaptureBusy {
        /// The stream.
        stream: StreamId,
        /// Operations that wait.
        waiting: usize,
    },
    /// Captured work can depend on work of the same capture only.
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
    /// The work belongs to a capture, so it cannot be waited for.
    Captured {
        /// The stream it was captured on.
        stream: StreamId,
    },
    /// The controller was dropped while the work was waiting.
    Abandoned {
        /// The work.
        name: String,
    },
    /// A trace is captured already.
    Traced,
    /// A device call that is not about one operation failed.
    Backend(BackendError),
    /// A thread panicked inside the controller, which may have left it inconsistent.
    Poisoned,
}

/// The result of a call of the controller.
pub type Result<T> = std::result::Result<T, DispatchError>;

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
            DispatchError::ExpiredFailure { .. } => "stream_failed",
            DispatchError::Task { .. } => "task_ended",
            DispatchError::CaptureBusy { .. } => "capture_busy",
            DispatchError::CaptureDependency { .. } => "capture_dependency",
            DispatchError::CaptureHostCopy { .. } => "capture_host_copy",
            DispatchError::CaptureEnded { .. } => "capture_ended",
            DispatchError::Captured { .. } => "captured",
            DispatchError::Abandoned { .. } => "abandoned",
            DispatchError::Traced => "traced",
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
                write!(f, "\"{name}\" depends on work that failed: {source}")
            }
            DispatchError::TooManyWaiting {
                name,
                stream,
                limit,
            } => write!(
                f,
                "\"{name}\" refused: expected at most {limit} operations waiting for stream {}, \
                 got one more\nhint: wait for work on that stream to finish",
                stream.0
            ),
            DispatchError::StreamFailed {
                stream,
                name,
                source,
            } => match source {
                BackendError::Asynchronous { message, .. } => write!(
                    f,
                    "\"{name}\" failed on stream {}: {message}\nhint: the outputs of it and of the \
                     work queued behind it are invalid; recompute them",
                    stream.0
                ),
                other => write!(f, "\"{name}\" failed on stream {}: {other}", stream.0),
            },
            DispatchError::ExpiredFailure { stream } => write!(
                f,
                "work on stream {} failed: expected it to finish, got a failure followed by many \
                 others\nhint: its outputs are invalid; recompute them",
                stream.0
            ),
            DispatchError::Task { name, source } => {
                write!(f, "\"{name}\" got no grant: {source}")
            }
            DispatchError::CaptureBusy { stream, waiting } => write!(
                f,
                "capture on stream {}: expected no work waiting for it, got {waiting}\nhint: \
                 synchronize the stream first",
                stream.0
            ),
            DispatchError::CaptureDependency { name, origin } => write!(
                f,
                "\"{name}\" in the capture of stream {}: expected dependencies on captured work, \
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
                "\"{name}\" on stream {}: expected a capture in progress there, got \
                 its end\nhint: submit it again, or order the threads",
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
                "\"{name}\" abandoned: expected a grant, got the end of the controller"
            ),
            DispatchError::Traced => f.write_str(
                "trace: expected one trace of a device at a time, got a second\nhint: end the \
                 first one",
            ),
            DispatchError::Backend(error) => error.fmt(f),
            DispatchError::Poisoned => f.write_str(
                "dispatch controller is unusable: expected a consistent state, got a panic \
                 during an update",
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
