//! Work of the simulated device, the engines that run it, and spans of the timeline.

use crate::backend::{
    Address, CopyDirection, DevicePointer, KernelId, Launch, Operation, StreamId,
};
use std::sync::Arc;

/// A unit of the device that runs operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Engine {
    /// Copies to the device.
    Upload,
    /// Copies from the device.
    Download,
    /// Kernels, and copies and fills within device memory.
    Compute,
    /// Copies and fills within host memory.
    HostCopy,
    /// Delays, any number at a time.
    Timer,
}

impl Engine {
    /// Those that run one operation at a time.
    pub(super) const ALL: [Engine; 4] =
        [Engine::Upload, Engine::Download, Engine::Compute, Engine::HostCopy];
}

/// Work that occupies an engine for a time.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Copy {
        source: Address,
        destination: Address,
        bytes: u64,
    },
    Fill {
        destination: Address,
        value: u8,
        bytes: u64,
    },
    Launch(Arc<Launch>),
    /// Lets its stream wait for as long as the first word of the slot says, and adds that to the
    /// second.
    Delay {
        slot: DevicePointer,
        kernel: KernelId,
    },
}

impl Work {
    pub fn operation(&self) -> Operation {
        match self {
            Work::Copy { .. } => Operation::Copy,
            Work::Fill { .. } => Operation::Fill,
            Work::Launch(_) | Work::Delay { .. } => Operation::Launch,
        }
    }

    pub fn engine(&self) -> Engine {
        match self {
            Work::Copy { source, destination, .. } => {
                match CopyDirection::between(*source, *destination) {
                    CopyDirection::HostToDevice => Engine::Upload,
                    CopyDirection::DeviceToHost => Engine::Download,
                    CopyDirection::DeviceToDevice => Engine::Compute,
                    CopyDirection::HostToHost => Engine::HostCopy,
                }
            }
            Work::Fill { destination, .. } => match destination {
                Address::Device(_) => Engine::Compute,
                Address::Host(_) => Engine::HostCopy,
            },
            Work::Launch(_) => Engine::Compute,
            Work::Delay { .. } => Engine::Timer,
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Work::Copy { bytes, .. } | Work::Fill { bytes, .. } => *bytes,
            Work::Launch(_) | Work::Delay { .. } => 0,
        }
    }

    pub fn kernel(&self) -> Option<KernelId> {
        match self {
            Work::Launch(launch) => Some(launch.kernel),
            Work::Delay { kernel, .. } => Some(*kernel),
            Work::Copy { .. } | Work::Fill { .. } => None,
        }
    }
}

/// Work as a stream queues it.
#[derive(Clone, Debug)]
pub(super) struct QueuedWork {
    pub work: Work,
    /// The fault plan has this work fail on the device.
    pub injected_failure: bool,
    /// For a node of a graph, the stream the graph was launched on and the node's index.
    pub node: Option<(StreamId, u32)>,
}

/// One finished operation on the device's timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimSpan {
    /// The stream it was queued on.
    pub stream: StreamId,
    /// What it was.
    pub operation: Operation,
    /// Where it ran.
    pub engine: Engine,
    /// The kernel, for a launch.
    pub kernel: Option<KernelId>,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}
