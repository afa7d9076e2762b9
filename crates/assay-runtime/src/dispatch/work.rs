//! What can be dispatched.

use super::graph::Graph;
use super::record::WorkKind;
use crate::backend::{Address, Backend, CopyDirection, GraphId, Launch, Result, Space, StreamId};
use crate::scheduler::{Lane, Task};
use std::sync::Arc;

/// One thing for a stream to do.
#[derive(Clone, Debug)]
pub enum Work {
    /// Runs a kernel.
    Launch(Launch),
    /// Copies between two disjoint ranges.
    Copy {
        /// Where it reads.
        source: Address,
        /// Where it writes.
        destination: Address,
        /// How much.
        bytes: u64,
    },
    /// Sets every byte of a range.
    Fill {
        /// Where the range begins.
        destination: Address,
        /// The value.
        value: u8,
        /// How long the range is.
        bytes: u64,
    },
    /// Replays a graph.
    Graph(Arc<Graph>),
}

impl Work {
    /// The kind, for the record.
    pub fn kind(&self) -> WorkKind {
        match self {
            Work::Launch(_) => WorkKind::Launch,
            Work::Copy {
                source,
                destination,
                ..
            } => WorkKind::Copy(CopyDirection::between(*source, *destination)),
            Work::Fill { .. } => WorkKind::Fill,
            Work::Graph(_) => WorkKind::Graph,
        }
    }

    pub(super) fn graph(&self) -> Option<GraphId> {
        match self {
            Work::Graph(graph) => Some(graph.id()),
            _ => None,
        }
    }

    /// Whether it copies from or to host memory.
    pub(super) fn is_host_copy(&self) -> bool {
        let Work::Copy {
            source,
            destination,
            ..
        } = self
        else {
            return false;
        };
        [source, destination]
            .into_iter()
            .any(|address| address.space() == Space::Host)
    }

    /// The lane it occupies, and for how much, given what its device time is assumed to be.
    pub(super) fn cost(&self, cost_ns: u64) -> Option<(Lane, u64)> {
        match self {
            Work::Copy { bytes: 0, .. } | Work::Fill { bytes: 0, .. } => None,
            Work::Copy {
                source,
                destination,
                bytes,
            } => match CopyDirection::between(*source, *destination) {
                CopyDirection::HostToDevice => Some((Lane::Upload, *bytes)),
                CopyDirection::DeviceToHost => Some((Lane::Download, *bytes)),
                CopyDirection::DeviceToDevice => Some((Lane::Compute, cost_ns.max(1))),
                CopyDirection::HostToHost => None,
            },
            Work::Fill { destination, .. } if destination.space() == Space::Host => None,
            Work::Launch(_) | Work::Fill { .. } | Work::Graph(_) => {
                Some((Lane::Compute, cost_ns.max(1)))
            }
        }
    }

    /// Queues it on the stream.
    pub(super) fn enqueue(&self, backend: &dyn Backend, stream: StreamId) -> Result<()> {
        match self {
            Work::Launch(launch) => backend.launch(stream, launch),
            Work::Copy {
                source,
                destination,
                bytes,
            } => backend.copy(stream, *source, *destination, *bytes),
            Work::Fill {
                destination,
                value,
                bytes,
            } => backend.fill(stream, *destination, *value, *bytes),
            Work::Graph(graph) => backend.launch_graph(graph.id(), stream),
        }
    }
}

/// The number of a piece of work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkId {
    pub(super) stream: StreamId,
    pub(super) place: Place,
}

impl WorkId {
    /// The stream it was submitted to.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Whether it is a node of a capture, which runs only when its graph does.
    pub fn is_captured(&self) -> bool {
        matches!(self.place, Place::Node { .. })
    }
}

/// Where a piece of work is to be found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Place {
    /// In the queue of its stream.
    Queue(u64),
    /// In a capture.
    Node { capture: u64, index: u32 },
}

/// A piece of work with what is known about it.
#[derive(Clone, Debug)]
pub struct WorkRequest {
    /// The operation it belongs to.
    pub name: Arc<str>,
    /// The stream it goes to.
    pub stream: StreamId,
    /// What to do.
    pub work: Work,
    /// Bytes it moves, as its caller counts them.
    pub bytes: u64,
    /// Floating-point operations, as its caller counts them.
    pub flops: f64,
    /// Work it comes after; what went to the same stream before it needs no mention.
    pub after: Vec<WorkId>,
    /// The task it is charged to and paced by.
    pub task: Option<Arc<Task>>,
    /// Device time it is assumed to take, for charging the task until work of its name was
    /// measured.
    pub cost_ns: u64,
}

impl WorkRequest {
    /// A request with the bytes and operations that the work itself tells, and nothing else.
    pub fn new(name: impl Into<Arc<str>>, stream: StreamId, work: Work) -> Self {
        let (bytes, flops) = match &work {
            Work::Launch(_) => (0, 0.0),
            Work::Copy { bytes, .. } | Work::Fill { bytes, .. } => (*bytes, 0.0),
            Work::Graph(graph) => (graph.bytes(), graph.flops()),
        };
        WorkRequest {
            name: name.into(),
            stream,
            work,
            bytes,
            flops,
            after: Vec::new(),
            task: None,
            cost_ns: 0,
        }
    }
}
