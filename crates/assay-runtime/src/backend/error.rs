//! Errors of backends, one variant per failure.

use super::operation::Operation;
use super::types::{Address, EventId, GraphId, KernelId, StreamId};
use assay_collections::errors;
use std::sync::Arc;

errors! {
    /// Why a call of a backend failed.
    pub enum BackendError {
        /// The device or the host is out of memory.
        OutOfMemory {
            /// The call.
            operation: Operation,
            /// Bytes requested.
            requested: u64,
            /// Bytes free.
            free: u64,
        } = "out_of_memory" =>
            "out of memory in {operation}: expected at most {free} bytes, got a request for \
             {requested}\nhint: free or evict buffers, or request less";
        /// Zero bytes were requested.
        ZeroBytes {
            /// The call.
            operation: Operation,
        } = "zero_bytes" =>
            "zero bytes in {operation}: expected at least 1 byte, got 0\nhint: an empty array \
             needs no memory";
        /// The address is in no live allocation, or not at the start of one where that is required.
        UnknownAddress {
            /// The call.
            operation: Operation,
            /// The address given.
            address: Address,
        } = "unknown_address" =>
            "unknown address in {operation}: expected an address in a live allocation, got \
             {address}\nhint: it may have been freed, or belong to another device";
        /// The range reaches past the end of its allocation.
        OutOfBounds {
            /// The call.
            operation: Operation,
            /// Where the range begins.
            address: Address,
            /// Its size.
            bytes: u64,
            /// Bytes from there to the end of its allocation.
            available: u64,
        } = "out_of_bounds" =>
            "out of bounds in {operation}: expected at most {available} bytes from {address}, \
             got {bytes}";
        /// Source and destination of a copy overlap.
        Overlap {
            /// Where the copy reads.
            source: Address,
            /// Where it writes.
            destination: Address,
            /// Size.
            bytes: u64,
        } = "overlap" =>
            "overlap in copy: expected disjoint ranges, got {bytes} bytes from {source} to \
             {destination}\nhint: copy through a third buffer";
        /// There is no such stream, or it was destroyed.
        UnknownStream {
            /// The call.
            operation: Operation,
            /// The stream given.
            stream: StreamId,
        } = "unknown_stream" =>
            "unknown stream in {operation}: expected a live stream, got {}\nhint: it may have \
             been destroyed, or belong to another device",
            stream.0;
        /// The default stream cannot be destroyed.
        DefaultStream {
            /// The stream given.
            stream: StreamId,
        } = "default_stream" =>
            "destroy_stream of the default stream: expected a stream from create_stream, \
             got {}",
            stream.0;
        /// There is no such event, or it was destroyed.
        UnknownEvent {
            /// The call.
            operation: Operation,
            /// The event given.
            event: EventId,
        } = "unknown_event" =>
            "unknown event in {operation}: expected a live event, got {}\nhint: it may have \
             been destroyed, or belong to another device",
            event.0;
        /// The event was not recorded, or has not completed.
        EventNotFinished {
            /// The call.
            operation: Operation,
            /// The event given.
            event: EventId,
        } = "event_not_finished" =>
            "event not finished in {operation}: expected a recorded and finished event, got \
             {}\nhint: record it, then synchronize with it",
            event.0;
        /// There is no such kernel.
        UnknownKernel {
            /// The kernel given.
            kernel: KernelId,
        } = "unknown_kernel" =>
            "unknown kernel in launch: expected a registered kernel, got {}",
            kernel.0;
        /// The number of arguments differs from the kernel's parameters.
        ArgumentCount {
            /// The kernel's name.
            kernel: String,
            /// Parameters it has.
            expected: usize,
            /// Arguments it was given.
            got: usize,
        } = "argument_count" =>
            "wrong arguments in launch of {kernel}: expected {expected}, got {got}";
        /// A grid or block has an extent of zero.
        EmptyLaunch {
            /// The kernel's name.
            kernel: String,
            /// The grid given.
            grid: [u32; 3],
            /// The block given.
            block: [u32; 3],
        } = "empty_launch" =>
            "empty launch of {kernel}: expected extents of at least 1, got grid {grid:?} and \
             block {block:?}\nhint: skip the launch when there is nothing to compute";
        /// There is no such graph, or it was destroyed.
        UnknownGraph {
            /// The call.
            operation: Operation,
            /// The graph given.
            graph: GraphId,
        } = "unknown_graph" =>
            "unknown graph in {operation}: expected a live graph, got {}",
            graph.0;
        /// The call is not allowed on a stream, or with an event, of a capture in progress.
        Capturing {
            /// The call.
            operation: Operation,
            /// The stream.
            stream: StreamId,
        } = "capturing" =>
            "{operation} during capture: expected a stream outside any capture, got stream {} \
             inside one\nhint: end the capture first, or use another stream",
            stream.0;
        /// The stream is not the one on which a capture began.
        NotCapturing {
            /// The stream.
            stream: StreamId,
        } = "not_capturing" =>
            "end_capture without capture: expected the stream on which the capture began, got \
             stream {}",
            stream.0;
        /// A stream that joined the capture was not joined back before its end.
        UnjoinedCapture {
            /// The stream on which the capture began.
            origin: StreamId,
            /// The stream left outside.
            stream: StreamId,
        } = "unjoined_capture" =>
            "unjoined capture: expected stream {} to wait for all captured work, got stream \
             {} left outside\nhint: record an event there and wait for it before the end",
            origin.0, stream.0;
        /// The device models time only and stores no contents.
        ContentsNotKept {
            /// The call.
            operation: Operation,
        } = "contents_not_kept" =>
            "no contents in {operation}: expected a device that keeps bytes, got one that \
             models time only\nhint: create the simulated device with contents kept";
        /// Work failed on the device; what was queued behind it on its stream did not run.
        Asynchronous {
            /// The work that failed.
            operation: Operation,
            /// The stream it was queued on.
            stream: StreamId,
            /// Its index in the order of capture, if it was a node of a graph.
            node: Option<u32>,
            /// The error's text.
            message: Arc<str>,
        } = "asynchronous" =>
            "{operation} failed on stream {}: {message}\nhint: its outputs are invalid; \
             recompute them",
            stream.0;
        /// An injected fault.
        Injected {
            /// The call.
            operation: Operation,
            /// Which call of that kind it was, counted from one.
            occurrence: u64,
        } = "injected" =>
            "injected fault in {operation}: expected success, got the planned failure of call \
             {occurrence}";
        /// An option of the device cannot be used.
        InvalidOption {
            /// Its name.
            name: &'static str,
            /// What is allowed.
            expected: &'static str,
            /// What was given.
            got: u64,
        } = "invalid_option" => "invalid option {name}: expected {expected}, got {got}";
        /// A kernel or the hardware faulted; the device is unusable in this process.
        DeviceFault {
            /// The call that reported it.
            operation: Operation,
            /// The fault, and the kernel before it.
            message: String,
        } = "device_fault" =>
            "device fault reported by {operation}: expected kernels to finish, got {message}\n\
             hint: the device is unusable in this process; start a new one, and locate the \
             fault with compute-sanitizer";
        /// Work did not finish within the watchdog's time.
        Watchdog {
            /// The call that waited.
            operation: Operation,
            /// What it waited for.
            waited_for: String,
            /// The time limit.
            limit_ns: u64,
        } = "watchdog" =>
            "watchdog in {operation}: expected {waited_for} to finish within {} ms, got \
             nothing\nhint: raise the watchdog's limit, or look for a kernel that does not end",
            limit_ns / 1_000_000;
        /// The driver or a device library failed.
        Driver {
            /// The call.
            operation: Operation,
            /// Its message.
            message: String,
        } = "driver" => "driver failed in {operation}: {message}";
    }
}

impl BackendError {
    /// The message without the name of the call, for a context that has it.
    pub fn into_message(self) -> String {
        match self {
            BackendError::Driver { message, .. } => message,
            BackendError::Asynchronous { message, .. } => message.to_string(),
            other => other.to_string(),
        }
    }

    /// Whether queued work failed and will not run, so that there is nothing to wait for.
    pub const fn ends_work(&self) -> bool {
        matches!(self, BackendError::Asynchronous { .. } | BackendError::DeviceFault { .. })
    }
}

impl std::error::Error for BackendError {}
