//! Errors of dispatch, one variant per failure.

use crate::backend::{BackendError, StreamId};
use crate::scheduler::SchedulerError;
use assay_collections::errors;

errors! {
    /// Why work, or a call of the controller, failed.
    pub enum DispatchError {
        /// An option cannot be used.
        InvalidOption {
            /// Its name.
            name: &'static str,
            /// What is allowed.
            expected: &'static str,
            /// What was given.
            got: u64,
        } = "invalid_option" => "invalid option {name}: expected {expected}, got {got}";
        /// The device refused the work.
        Refused {
            /// The work.
            name: String,
            /// The stream it was for.
            stream: StreamId,
            /// The device's error.
            source: BackendError,
        } = source.code() => "\"{name}\" on stream {} refused: {source}", stream.0;
        /// A dependency failed.
        DependencyFailed {
            /// The work.
            name: String,
            /// The dependency's error.
            source: Box<DispatchError>,
        } = "dependency_failed" => "\"{name}\" depends on work that failed: {source}";
        /// The stream's waiting queue is full.
        TooManyWaiting {
            /// The work.
            name: String,
            /// The stream.
            stream: StreamId,
            /// The limit.
            limit: usize,
        } = "too_many_waiting" =>
            "\"{name}\" refused: expected at most {limit} operations waiting for stream {}, \
             got one more\nhint: wait for work on that stream to finish",
            stream.0;
        /// Work failed on the device; what was queued behind it did not run.
        StreamFailed {
            /// The stream.
            stream: StreamId,
            /// The work that failed.
            name: String,
            /// The device's error.
            source: BackendError,
        } = match source {
            BackendError::Asynchronous { .. } => "stream_failed",
            ended => ended.code(),
        } => "\"{name}\" failed on stream {}: {}", stream.0, stream_failure(source);
        /// Work failed, and its error is no longer kept.
        ExpiredFailure {
            /// The stream.
            stream: StreamId,
        } = "stream_failed" =>
            "work on stream {} failed: expected it to finish, got a failure followed by many \
             others\nhint: its outputs are invalid; recompute them",
            stream.0;
        /// The task the work was charged to ended.
        Task {
            /// The work.
            name: String,
            /// The scheduler's error.
            source: SchedulerError,
        } = "task_ended" => "\"{name}\" got no grant: {source}";
        /// A capture cannot begin, or be joined, while work waits for the stream.
        CaptureBusy {
            /// The stream.
            stream: StreamId,
            /// Operations that wait.
            waiting: usize,
        } = "capture_busy" =>
            "capture on stream {}: expected no work waiting for it, got {waiting}\nhint: \
             synchronize the stream first",
            stream.0;
        /// Captured work can depend on work of the same capture only.
        CaptureDependency {
            /// The work.
            name: String,
            /// The stream on which the capture began.
            origin: StreamId,
        } = "capture_dependency" =>
            "\"{name}\" in the capture of stream {}: expected dependencies on captured work, \
             got work outside the capture\nhint: wait for it before the capture begins",
            origin.0;
        /// While a thread captures, its copies from and to host memory belong on the captured streams.
        CaptureHostCopy {
            /// The work.
            name: String,
            /// The stream it was for.
            stream: StreamId,
            /// The stream on which the capture began.
            origin: StreamId,
        } = "capture_host_copy" =>
            "host copy \"{name}\" during capture: expected a stream of the capture begun on \
             stream {}, got stream {}\nhint: a copy outside would not be replayed",
            origin.0, stream.0;
        /// The capture ended while another thread submitted work to it.
        CaptureEnded {
            /// The work.
            name: String,
            /// The stream it was for.
            stream: StreamId,
        } = "capture_ended" =>
            "\"{name}\" on stream {}: expected a capture in progress there, got \
             its end\nhint: submit it again, or order the threads",
            stream.0;
        /// The work belongs to a capture, so it cannot be waited for.
        Captured {
            /// The stream it was captured on.
            stream: StreamId,
        } = "captured" =>
            "wait for captured work: expected work that runs, got a node captured on stream \
             {}\nhint: wait for a replay of the graph",
            stream.0;
        /// The controller was dropped while the work was waiting.
        Abandoned {
            /// The work.
            name: String,
        } = "abandoned" => "\"{name}\" abandoned: expected a grant, got the end of the controller";
        /// A trace is captured already.
        Traced = "traced" =>
            "trace: expected one trace of a device at a time, got a second\nhint: end the \
             first one";
        /// A thread panicked inside the controller, which may have left it inconsistent.
        Poisoned = "poisoned" =>
            "dispatch controller is unusable: expected a consistent state, got a panic \
             during an update";
    }
    wraps {
        /// A device call that is not about one operation failed.
        Backend(BackendError)
    }
}

/// What a stream's error says, and what became of the work behind.
fn stream_failure(source: &BackendError) -> String {
    match source {
        BackendError::Asynchronous { message, .. } => format!(
            "{message}\nhint: the outputs of it and of the work queued behind it are invalid; \
             recompute them"
        ),
        other => other.to_string(),
    }
}

/// The result of a call of the controller.
pub type Result<T> = std::result::Result<T, DispatchError>;

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
