//! Layouts of CUPTI's activity records.
//!
//! CUPTI versions its records, but only ever appends fields: what is declared here is the common start
//! of every version from CUDA 12.0 (CUPTI 19, `CUpti_ActivityKernel8`) to 13.x. CUPTI itself knows
//! where the next record begins (`cuptiActivityGetNextRecord`), so a longer record is no problem.

use std::ffi::c_char;

/// Kinds of record, `CUpti_ActivityKind`.
pub mod kind {
    /// A copy between memories of a device or the host.
    pub const MEMCPY: u32 = 1;
    /// A fill.
    pub const MEMSET: u32 = 2;
    /// A kernel, when kernels are serialized.
    pub const KERNEL: u32 = 3;
    /// A call of the driver.
    pub const DRIVER: u32 = 4;
    /// A call of the CUDA runtime.
    pub const RUNTIME: u32 = 5;
    /// A kernel.
    pub const CONCURRENT_KERNEL: u32 = 10;
    /// An NVTX marker, or the start or the end of an NVTX range.
    pub const MARKER: u32 = 12;
    /// Time that CUPTI or the driver took for itself.
    pub const OVERHEAD: u32 = 17;
    /// A copy between devices.
    pub const MEMCPY2: u32 = 22;
    /// A wait.
    pub const SYNCHRONIZATION: u32 = 38;
    /// The number that a framework gave to an API call.
    pub const EXTERNAL_CORRELATION: u32 = 39;
    /// A whole CUDA graph.
    pub const GRAPH_TRACE: u32 = 51;
}

/// The start of `CUpti_ActivityKernel8` and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Kernel {
    /// The kind of record.
    pub kind: u32,
    /// Cache and shared-memory configuration.
    pub configuration: [u8; 2],
    /// Registers of a thread.
    pub registers: u16,
    /// Partitioned global caching, requested and executed.
    pub global_cache: [u32; 2],
    /// Start in nanoseconds; 0 where it is not known.
    pub start: u64,
    /// End in nanoseconds; 0 where it is not known.
    pub end: u64,
    /// When the kernel and its children were done.
    pub completed: u64,
    /// The device.
    pub device: u32,
    /// The context.
    pub context: u32,
    /// The stream.
    pub stream: u32,
    /// Thread blocks.
    pub grid: [i32; 3],
    /// Threads of a thread block.
    pub block: [i32; 3],
    /// Static shared memory of a thread block in bytes.
    pub static_shared: i32,
    /// Dynamic shared memory of a thread block in bytes.
    pub dynamic_shared: i32,
    /// Local memory of a thread, and in all.
    pub local: [u32; 2],
    /// Joins it with the API call.
    pub correlation: u32,
    /// The launch.
    pub grid_id: i64,
    /// The mangled name; CUPTI keeps it.
    pub name: *const c_char,
    /// Not used.
    pub reserved: u64,
    /// When the launch was queued; 0 unless asked for.
    pub queued: u64,
    /// When the launch was submitted; 0 unless asked for.
    pub submitted: u64,
    /// Launch type, carve-out of shared memory.
    pub launch: [u8; 4],
    /// Shared memory that the driver set aside.
    pub shared_executed: u32,
    /// The node of a CUDA graph; 0 outside.
    pub graph_node: u64,
    /// Limit of shared memory.
    pub shared_limit: u32,
    /// The CUDA graph; 0 outside.
    pub graph: u32,
    /// Access policy window.
    pub access_policy: u64,
    /// The hardware channel and its type.
    pub channel: [u32; 2],
    /// Thread blocks of a cluster; 0 without clusters.
    pub cluster: [u32; 3],
}

/// The start of `CUpti_ActivityMemcpy5` and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy {
    /// The kind of record.
    pub kind: u32,
    /// `CUpti_ActivityMemcpyKind`.
    pub copy_kind: u8,
    /// `CUpti_ActivityMemoryKind` of the source.
    pub source: u8,
    /// `CUpti_ActivityMemoryKind` of the destination.
    pub destination: u8,
    /// Bit 0: asynchronous.
    pub flags: u8,
    /// Bytes copied.
    pub bytes: u64,
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds.
    pub end: u64,
    /// The device.
    pub device: u32,
    /// The context.
    pub context: u32,
    /// The stream.
    pub stream: u32,
    /// Joins it with the API call.
    pub correlation: u32,
    /// Not used.
    pub runtime_correlation: u32,
    /// Not used.
    pub padding: u32,
    /// Not used.
    pub reserved: u64,
    /// The node of a CUDA graph; 0 outside.
    pub graph_node: u64,
    /// The CUDA graph; 0 outside.
    pub graph: u32,
    /// The hardware channel and its type.
    pub channel: [u32; 2],
}

/// The start of `CUpti_ActivityMemcpyPtoP4`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PeerMemcpy {
    /// The kind of record.
    pub kind: u32,
    /// `CUpti_ActivityMemcpyKind`.
    pub copy_kind: u8,
    /// `CUpti_ActivityMemoryKind` of the source.
    pub source: u8,
    /// `CUpti_ActivityMemoryKind` of the destination.
    pub destination: u8,
    /// Bit 0: asynchronous.
    pub flags: u8,
    /// Bytes copied.
    pub bytes: u64,
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds.
    pub end: u64,
    /// The device.
    pub device: u32,
    /// The context.
    pub context: u32,
    /// The stream.
    pub stream: u32,
    /// Device and context of the source.
    pub from: [u32; 2],
    /// Device and context of the destination.
    pub to: [u32; 2],
    /// Joins it with the API call.
    pub correlation: u32,
    /// Not used.
    pub reserved: u64,
    /// The node of a CUDA graph; 0 outside.
    pub graph_node: u64,
    /// The CUDA graph; 0 outside.
    pub graph: u32,
    /// The hardware channel and its type.
    pub channel: [u32; 2],
}

/// The start of `CUpti_ActivityMemset4` and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memset {
    /// The kind of record.
    pub kind: u32,
    /// The value written.
    pub value: u32,
    /// Bytes filled.
    pub bytes: u64,
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds.
    pub end: u64,
    /// The device.
    pub device: u32,
    /// The context.
    pub context: u32,
    /// The stream.
    pub stream: u32,
    /// Joins it with the API call.
    pub correlation: u32,
    /// Bit 0: asynchronous.
    pub flags: u16,
    /// `CUpti_ActivityMemoryKind`.
    pub memory: u16,
    /// Not used.
    pub padding: u32,
    /// Not used.
    pub reserved: u64,
    /// The node of a CUDA graph; 0 outside.
    pub graph_node: u64,
    /// The CUDA graph; 0 outside.
    pub graph: u32,
    /// The hardware channel and its type.
    pub channel: [u32; 2],
}

/// `CUpti_ActivityAPI`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Api {
    /// The kind of record: driver or runtime.
    pub kind: u32,
    /// Which function.
    pub function: u32,
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds.
    pub end: u64,
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// Joins it with what it started.
    pub correlation: u32,
    /// What the function returned.
    pub status: u32,
}

/// The start of `CUpti_ActivityMarker2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Marker {
    /// The kind of record.
    pub kind: u32,
    /// Whether it starts a range, ends one, or stands alone.
    pub flags: u32,
    /// Nanoseconds.
    pub timestamp: u64,
    /// Joins the start with the end.
    pub id: u32,
    /// What `object` is: a thread (2), a device, a context, a stream.
    pub object_kind: u32,
    /// Process and thread, or device, context and stream.
    pub object: [u32; 3],
    /// Not used.
    pub padding: u32,
    /// The message; null at the end of a range.
    pub name: *const c_char,
    /// The NVTX domain; null for the default one.
    pub domain: *const c_char,
}

/// The start of `CUpti_ActivityOverhead2` and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Overhead {
    /// The kind of record.
    pub kind: u32,
    /// `CUpti_ActivityOverheadKind`.
    pub overhead_kind: u32,
    /// What `object` is.
    pub object_kind: u32,
    /// Process and thread, or device, context and stream.
    pub object: [u32; 3],
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds.
    pub end: u64,
}

/// The start of `CUpti_ActivitySynchronization` and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Synchronization {
    /// The kind of record.
    pub kind: u32,
    /// `CUpti_ActivitySynchronizationType`.
    pub wait: u32,
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds.
    pub end: u64,
    /// Joins it with the API call.
    pub correlation: u32,
    /// The context.
    pub context: u32,
    /// The stream; `u32::MAX` where there is none.
    pub stream: u32,
    /// The event; `u32::MAX` where there is none.
    pub event: u32,
}

/// `CUpti_ActivityExternalCorrelation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ExternalCorrelation {
    /// The kind of record.
    pub kind: u32,
    /// Whose number it is.
    pub external_kind: u32,
    /// The framework's number.
    pub external: u64,
    /// Joins it with the API call.
    pub correlation: u32,
    /// Not used.
    pub reserved: u32,
}

/// The start of `CUpti_ActivityGraphTrace` and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GraphTrace {
    /// The kind of record.
    pub kind: u32,
    /// Joins it with the API call.
    pub correlation: u32,
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds.
    pub end: u64,
    /// The device of the first node.
    pub device: u32,
    /// The CUDA graph.
    pub graph: u32,
    /// The context of the first node.
    pub context: u32,
    /// The stream of the launch.
    pub stream: u32,
}

/// What CUPTI gives as a time that it does not know.
pub const UNKNOWN_TIME: u64 = 0;
/// The object of a marker or an overhead is a thread.
pub const OBJECT_THREAD: u32 = 2;
/// A marker without a duration.
pub const MARKER_INSTANT: u32 = 1;
/// The start of a range.
pub const MARKER_START: u32 = 1 << 1;
/// The end of a range.
pub const MARKER_END: u32 = 1 << 2;

// The offsets of CUPTI's own declarations, which are packed and naturally aligned.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Kernel, start) == 16);
    assert!(offset_of!(Kernel, grid) == 52);
    assert!(offset_of!(Kernel, correlation) == 92);
    assert!(offset_of!(Kernel, name) == 104);
    assert!(offset_of!(Kernel, graph_node) == 144);
    assert!(offset_of!(Kernel, graph) == 156);
    assert!(offset_of!(Kernel, cluster) == 176);
    assert!(offset_of!(Memcpy, correlation) == 44);
    assert!(offset_of!(Memcpy, graph_node) == 64);
    assert!(offset_of!(PeerMemcpy, correlation) == 60);
    assert!(offset_of!(PeerMemcpy, graph_node) == 72);
    assert!(offset_of!(Memset, flags) == 48);
    assert!(offset_of!(Memset, graph_node) == 64);
    assert!(offset_of!(Api, status) == 36);
    assert!(offset_of!(Marker, object) == 24);
    assert!(offset_of!(Marker, name) == 40);
    assert!(offset_of!(Overhead, object) == 12);
    assert!(offset_of!(Overhead, start) == 24);
    assert!(offset_of!(Synchronization, event) == 36);
    assert!(offset_of!(ExternalCorrelation, external) == 8);
    assert!(offset_of!(GraphTrace, stream) == 36);
};
