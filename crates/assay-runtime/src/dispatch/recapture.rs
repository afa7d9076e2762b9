//! Capture of a graph anew, with launches before some of its nodes.
//!
//! Causal profiling delays a node by a launch that comes after everything the node waits for and
//! before the node itself, on its stream.

use super::error::DispatchError;
use super::shared::Shared;
use super::work::{Graph, Work, WorkId, WorkRequest};
use crate::backend::{BackendError, Launch, StreamId};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Shared {
    /// Captures the nodes of a graph in their order, on a stream of `streams` for each of theirs.
    pub(super) fn recapture(
        self: &Arc<Self>,
        graph: &Graph,
        streams: &[StreamId],
        (name, before): (&Arc<str>, &BTreeMap<u32, Launch>),
    ) -> Result<Graph, DispatchError> {
        let captured_on = graph.streams();
        let (Some(origin), true) = (streams.first(), streams.len() >= captured_on.len()) else {
            return Err(BackendError::InvalidOption {
                name: "streams",
                expected: "one stream for each that the graph was captured on",
                got: streams.len() as u64,
            }
            .into());
        };
        if let Some(unknown) = before.keys().find(|index| **index as usize >= graph.nodes().len()) {
            return Err(BackendError::InvalidOption {
                name: "nodes",
                expected: "indices of nodes of the graph",
                got: u64::from(*unknown),
            }
            .into());
        }
        let capture = self.begin_capture(*origin)?;
        let mut captured: Vec<WorkId> = Vec::with_capacity(graph.nodes().len());
        for (node, work) in graph.nodes().iter().zip(graph.works()) {
            let branch = captured_on.iter().position(|stream| *stream == node.stream);
            let stream = branch.map_or(*origin, |branch| streams[branch]);
            let known = node.after.iter();
            let mut after: Vec<WorkId> =
                known.filter_map(|index| captured.get(*index as usize).copied()).collect();
            if let Some(launch) = before.get(&node.index) {
                let mut request =
                    WorkRequest::new(Arc::clone(name), stream, Work::Launch(launch.clone()));
                request.after = std::mem::take(&mut after);
                self.submit(request).map_err(|failed| failed.error)?;
            }
            let mut request = WorkRequest::new(Arc::clone(&node.name), stream, work.clone());
            (request.bytes, request.flops, request.after) = (node.bytes, node.flops, after);
            captured.push(self.submit(request).map_err(|failed| failed.error)?);
        }
        capture.end()
    }
}

impl Graph {
    /// The streams that it was captured on, the first of them first.
    pub fn streams(&self) -> Vec<StreamId> {
        let mut streams: Vec<StreamId> = Vec::new();
        for node in self.nodes() {
            if !streams.contains(&node.stream) {
                streams.push(node.stream);
            }
        }
        streams
    }
}
