//! What the device queues, and the state behind its lock.

use super::branch_times::ReplayTimes;
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
    /// The node that it is, where it belongs to a branch of a graph.
    pub node: Option<NodeOf>,
}

/// A node of a replay.
#[derive(Clone, Debug)]
pub(super) struct NodeOf {
    pub index: u32,
    /// The stream that the graph was launched on.
    pub launched_on: StreamId,
    pub times: Option<Arc<ReplayTimes>>,
}

/// A graph, and the streams of its branches where there are several.
#[derive(Clone, Debug)]
pub(super) struct StoredGraph {
    pub graph: Arc<CpuGraph>,
    pub branch_streams: Arc<[StreamId]>,
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
    graphs: HashMap<GraphId, StoredGraph>,
    /// The device is being dropped; workers end.
    pub shut_down: bool,
    /// Threads blocked until something changes.
    pub waiters: usize,
}

impl State {
    /// Ends a capture; returns the graph and the number of its branches.
    pub fn end_capture(&mut self, stream: StreamId) -> Result<(GraphId, usize)> {
        let captured = self.streams.end_capture(stream)?;
        let id = GraphId(self.streams.new_id());
        let graph = CpuGraph::new(captured, |queued: Queued| queued.work);
        let branches = graph.branches;
        let streams = if branches > 1 { branches } else { 0 };
        let stored = StoredGraph {
            graph: Arc::new(graph),
            branch_streams: (0..streams).map(|_| self.streams.create_internal_stream()).collect(),
        };
        self.graphs.insert(id, stored);
        Ok((id, branches))
    }

    pub fn graph(&self, graph: GraphId) -> Result<StoredGraph> {
        let operation = Operation::LaunchGraph;
        let found = self.graphs.get(&graph).cloned();
        found.ok_or(BackendError::UnknownGraph { operation, graph })
    }

    pub fn destroy_graph(&mut self, graph: GraphId) -> Result<()> {
        let operation = Operation::DestroyGraph;
        let removed = self.graphs.remove(&graph);
        let removed = removed.ok_or(BackendError::UnknownGraph { operation, graph })?;
        for stream in &*removed.branch_streams {
            self.streams.close_stream(*stream);
        }
        Ok(())
    }
}
