//! A captured sequence of work, with the operation behind each of its nodes.

use super::record::WorkKind;
use super::work::Work;
use crate::backend::{Backend, GraphId, StreamId};
use std::fmt;
use std::sync::Arc;

/// One node of a graph: which operation it is, and what it was counted as.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphNode {
    /// Its place in the order of capture.
    pub index: u32,
    /// What it does.
    pub kind: WorkKind,
    /// The operation it belongs to.
    pub name: Arc<str>,
    /// The stream it was captured on.
    pub stream: StreamId,
    /// Bytes it moves.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: f64,
}

/// A graph, destroyed with its last handle; replays already queued still run.
pub struct Graph {
    backend: Arc<dyn Backend>,
    id: GraphId,
    nodes: Vec<GraphNode>,
    /// What each node does, for running them one by one.
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
            nodes,
            works,
        }
    }

    /// What each node does.
    pub fn works(&self) -> &[Work] {
        &self.works
    }

    /// The backend's name for it.
    pub fn id(&self) -> GraphId {
        self.id
    }

    /// Its nodes in the order of capture.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
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
        // The device may be gone already; there is nobody left to tell.
        let _ = self.backend.destroy_graph(self.id);
    }
}
