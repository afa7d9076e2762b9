//! Replay of a graph node by node, to time each of them.

use super::error::DispatchError;
use super::record::{Span, WorkKind, WorkRecord};
use super::shared::{Shared, lock};
use super::work::Graph;
use crate::backend::{BackendError, Operation, StreamId};
use std::sync::Arc;

impl Shared {
    /// Runs the nodes on one stream in the order of capture, which keeps every dependency.
    pub(super) fn replay_timed(
        &self,
        name: &str,
        graph: &Graph,
        stream: StreamId,
    ) -> Result<Vec<Span>, DispatchError> {
        self.synchronize(stream)?;
        let (backend, events) = (&self.context.backend, &self.context.events);
        let queue = self.queue(stream)?;
        // Locked so that no other work is issued between the nodes.
        let mut state = lock(&queue.state)?;
        state.check_usable()?;
        if state.capture.is_some() {
            let operation = Operation::LaunchGraph;
            return Err(BackendError::Capturing { operation, stream }.into());
        }
        // The stream is idle, so the first event completes as it is recorded.
        let submitted_ns = backend.clock().now_ns();
        let first = events.record(stream)?;
        let mut ends = Vec::with_capacity(graph.nodes().len());
        for (node, work) in graph.nodes().iter().zip(graph.works()) {
            work.enqueue(&**backend, stream).map_err(|source| DispatchError::Refused {
                name: node.name.to_string(),
                stream,
                source,
            })?;
            ends.push(events.record(stream)?);
        }
        drop(state);
        if let Some(last) = ends.last() {
            last.synchronize()?;
        }
        let mut spans = Vec::with_capacity(ends.len());
        let mut start_ns = submitted_ns;
        for end in &ends {
            let elapsed_ns = backend.elapsed_ns(first.id(), end.id())?;
            let end_ns = submitted_ns.saturating_add(elapsed_ns);
            spans.push(Span { start_ns, end_ns });
            start_ns = end_ns;
        }
        self.context.recorder.push(WorkRecord {
            sequence: 0,
            kind: WorkKind::Graph,
            name: Arc::from(name),
            stream,
            bytes: graph.bytes(),
            flops: graph.flops(),
            graph: Some(graph.id()),
            task: None,
            site: None,
            submitted_ns,
            span: Some(Span { start_ns: submitted_ns, end_ns: start_ns }),
            failure: None,
        });
        Ok(spans)
    }
}
