//! What the device queues, and the state behind its lock.

use super::graph::BranchedGraph;
use assay_runtime::backend::{Address, BackendError, GraphId, Launch, Operation, Result, StreamId};
use assay_runtime::streams::StreamTable;
use std::collections::HashMap;
use std::sync::Arc;

/// Work on a stream, with its ticket where a trace is captured.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub work: Work,
    pub ticket: u64,
}

/// A captured graph.
pub(super) type CpuGraph = BranchedGraph<Work>;

/// One operation on a stream.
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
    /// The work of a captured graph.
    Graph(Arc<CpuGraph>),
}

impl Work {
    pub fn operation(&self) -> Operation {
        match self {
            Work::Copy { .. } => Operation::Copy,
            Work::Fill { .. } => Operation::Fill,
            Work::Launch(_) => Operation::Launch,
            Work::Graph(_) => Operation::LaunchGraph,
        }
    }
}

/// Everything behind the device's lock.
#[derive(Default)]
pub(super) struct State {
    pub streams: StreamTable<Queued>,
    graphs: HashMap<GraphId, Arc<CpuGraph>>,
    /// The device is being dropped; workers end.
    pub shut_down: bool,
    /// Threads blocked until something changes.
    pub waiters: usize,
}

impl State {
    pub fn end_capture(&mut self, stream: StreamId) -> Result<GraphId> {
        let captured = self.streams.end_capture(stream)?;
        let graph = GraphId(self.streams.new_id());
        self.graphs.insert(
            graph,
            Arc::new(CpuGraph::new(captured, |queued: Queued| queued.work)),
        );
        Ok(graph)
    }

    pub fn graph(&self, graph: GraphId) -> Result<Arc<CpuGraph>> {
        let operation = Operation::LaunchGraph;
        let found = self.graphs.get(&graph).cloned();
        found.ok_or(BackendError::UnknownGraph { operation, graph })
    }

    pub fn destroy_graph(&mut self, graph: GraphId) -> Result<()> {
        let operation = Operation::DestroyGraph;
        let removed = self.graphs.remove(&graph);
        removed
            .map(|_| ())
            .ok_or(BackendError::UnknownGraph { operation, graph })
    }
}
