//! Work that can be dispatched, and graphs of captured work.

use super::record::{WorkKind, WorkRecord};
use crate::backend::{
    Address, Backend, CopyDirection, GraphId, KernelId, Launch, Result, Space, StreamId,
};
use crate::scheduler::{Lane, Task};
use std::fmt;
use std::sync::Arc;

/// One operation on a stream.
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
        /// Size.
        bytes: u64,
    },
    /// Sets every byte of a range.
    Fill {
        /// Where the range begins.
        destination: Address,
        /// The value.
        value: u8,
        /// Size of the range.
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
            Work::Copy { source, destination, .. } => {
                WorkKind::Copy(CopyDirection::between(*source, *destination))
            }
            Work::Fill { .. } => WorkKind::Fill,
            Work::Graph(_) => WorkKind::Graph,
        }
    }

    pub(super) fn kernel(&self) -> Option<KernelId> {
        match self {
            Work::Launch(launch) => Some(launch.kernel),
            _ => None,
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
        let Work::Copy { source, destination, .. } = self else {
            return false;
        };
        [source, destination].into_iter().any(|address| address.space() == Space::Host)
    }

    /// The scheduler lane it occupies and its cost there, for an estimated device time.
    pub(super) fn cost(&self, cost_ns: u64) -> Option<(Lane, u64)> {
        match self {
            Work::Copy { bytes: 0, .. } | Work::Fill { bytes: 0, .. } => None,
            Work::Copy { source, destination, bytes } => {
                match CopyDirection::between(*source, *destination) {
                    CopyDirection::HostToDevice => Some((Lane::Upload, *bytes)),
                    CopyDirection::DeviceToHost => Some((Lane::Download, *bytes)),
                    CopyDirection::DeviceToDevice => Some((Lane::Compute, cost_ns.max(1))),
                    CopyDirection::HostToHost => None,
                }
            }
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
            Work::Copy { source, destination, bytes } => {
                backend.copy(stream, *source, *destination, *bytes)
            }
            Work::Fill { destination, value, bytes } => {
                backend.fill(stream, *destination, *value, *bytes)
            }
            Work::Graph(graph) => backend.launch_graph(graph.id(), stream),
        }
    }
}

/// One node of a graph: its operation, bytes and FLOPs.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphNode {
    /// Its index in the order of capture.
    pub index: u32,
    /// What it does.
    pub kind: WorkKind,
    /// The operation it belongs to.
    pub name: Arc<str>,
    /// The kernel it launches, where it is a launch.
    pub kernel: Option<KernelId>,
    /// The stream it was captured on.
    pub stream: StreamId,
    /// Nodes of other streams that it comes after, by index; earlier nodes of its own are implied.
    pub after: Vec<u32>,
    /// Bytes it moves.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: f64,
}

/// A graph, destroyed with its last handle; replays already queued still run.
pub struct Graph {
    backend: Arc<dyn Backend>,
    id: GraphId,
    nodes: Arc<[GraphNode]>,
    /// The work of each node, for a replay node by node.
    works: Vec<Work>,
    bytes: u64,
    flops: f64,
}

impl Graph {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        id: GraphId,
        captured: Vec<(GraphNode, Work)>,
    ) -> Self {
        let (nodes, works): (Vec<GraphNode>, Vec<Work>) = captured.into_iter().unzip();
        Graph {
            backend,
            id,
            bytes: nodes.iter().map(|node| node.bytes).sum(),
            flops: nodes.iter().map(|node| node.flops).sum(),
            nodes: nodes.into(),
            works,
        }
    }

    /// The work of each node.
    pub fn works(&self) -> &[Work] {
        &self.works
    }

    /// The backend's ID.
    pub fn id(&self) -> GraphId {
        self.id
    }

    /// Its nodes in the order of capture.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// Its nodes, which outlive it.
    pub(super) fn shared_nodes(&self) -> Arc<[GraphNode]> {
        Arc::clone(&self.nodes)
    }

    /// Bytes that one replay moves.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Floating-point operations of one replay.
    pub fn flops(&self) -> f64 {
        self.flops
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({}, {} nodes)", self.id.0, self.nodes.len())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Errors cannot be reported from a drop; the device may be gone already.
        let _ = self.backend.destroy_graph(self.id);
    }
}

/// Identifies submitted work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkId {
    pub(super) stream: StreamId,
    pub(super) position: WorkPosition,
}

impl WorkId {
    /// The stream it was submitted to.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Whether it is a node of a capture, which runs only when its graph does.
    pub fn is_captured(&self) -> bool {
        matches!(self.position, WorkPosition::Node { .. })
    }
}

/// Where submitted work is queued or captured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum WorkPosition {
    /// The sequence number in its stream.
    Queue(u64),
    /// A node of a capture.
    Node { capture: u64, index: u32 },
}

/// A request to dispatch work.
#[derive(Clone, Debug)]
pub struct WorkRequest {
    /// The operation it belongs to.
    pub name: Arc<str>,
    /// The stream.
    pub stream: StreamId,
    /// The work.
    pub work: Work,
    /// Bytes it moves, as counted by the caller.
    pub bytes: u64,
    /// Floating-point operations, as counted by the caller.
    pub flops: f64,
    /// Dependencies; earlier work of the same stream is implied.
    pub after: Vec<WorkId>,
    /// The task that is charged, whose grants it needs.
    pub task: Option<Arc<Task>>,
    /// Estimated device time, until work of its name has been measured.
    pub cost_ns: u64,
}

impl WorkRequest {
    /// A request with the bytes and FLOPs known from the work, and no dependencies.
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

    /// The record of this work, without its span.
    pub(super) fn record(&self, submitted_ns: u64, failure: Option<&'static str>) -> WorkRecord {
        WorkRecord {
            sequence: 0,
            kind: self.work.kind(),
            name: Arc::clone(&self.name),
            stream: self.stream,
            bytes: self.bytes,
            flops: self.flops,
            graph: self.work.graph(),
            task: self.task.as_ref().map(|task| task.id()),
            site: None,
            submitted_ns,
            span: None,
            failure,
        }
    }
}
