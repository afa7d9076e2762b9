//! Work that is queued on the device.

use super::context::DispatchContext;
use super::error::DispatchError;
use super::event_pool::TimingEvent;
use super::record::WorkRecord;
use super::timeline::Anchor;
use super::work::{Graph, Work, WorkRequest};
use crate::backend::{BackendError, StreamId};
use crate::scheduler::{Grant, Lane};
use std::sync::Arc;

/// Work in flight: its record, and what is released when it completes.
///
/// The request is dropped when the work is issued; the device has copied what it needs.
pub(super) struct InFlightWork {
    pub sequence: u64,
    pub record: WorkRecord,
    pub graph: Option<Arc<Graph>>,
    pub start: Option<(Arc<Anchor>, Arc<TimingEvent>)>,
    pub end: Option<Arc<TimingEvent>>,
    pub grant: Option<(Grant, Lane)>,
}

/// Work that the device rejected, with its record.
pub(super) struct RejectedWork {
    pub error: DispatchError,
    pub record: WorkRecord,
}

impl InFlightWork {
    /// Writes the record and ends the grant, immediately or once its cost is known.
    pub fn complete(mut self, context: &DispatchContext) {
        if let (Some((anchor, start)), Some(end)) = (&self.start, &self.end) {
            self.record.span = anchor.span(start, end);
        }
        let (span, task) = (self.record.span, self.record.task);
        let name = self.grant.is_some().then(|| Arc::clone(&self.record.name));
        context.recorder.push(self.record);
        if let (Some((grant, Lane::Compute)), Some(span), Some(task), Some(name)) =
            (self.grant, span, task, name)
        {
            context.meter.add(span, grant, (task, name));
        }
    }

    /// The error of this work if it is the first that the device failed.
    pub fn failure(&self, stream: StreamId, source: BackendError) -> DispatchError {
        failure(&self.record.name, self.graph.as_deref(), stream, source)
    }
}

impl RejectedWork {
    pub fn new(request: &WorkRequest, submitted_ns: u64, source: BackendError) -> Box<Self> {
        let stream = request.stream;
        let graph = match &request.work {
            Work::Graph(graph) => Some(&**graph),
            _ => None,
        };
        let error = match source {
            // The CPU's default stream runs work in the call that queues it.
            BackendError::Asynchronous { .. } => failure(&request.name, graph, stream, source),
            source => DispatchError::Refused { name: request.name.to_string(), stream, source },
        };
        Box::new(RejectedWork { record: request.record(submitted_ns, Some(error.code())), error })
    }
}

/// The error of work that failed on a stream, or that depends on failed work of another stream.
fn failure(
    name: &str,
    graph: Option<&Graph>,
    stream: StreamId,
    source: BackendError,
) -> DispatchError {
    match source {
        BackendError::Asynchronous { stream: origin, .. } if origin != stream => {
            DispatchError::DependencyFailed {
                name: name.to_owned(),
                source: Box::new(source.into()),
            }
        }
        source => {
            DispatchError::StreamFailed { name: failed_name(name, graph, &source), stream, source }
        }
    }
}

/// The name of the work that failed, with the node's name in a graph.
fn failed_name(name: &str, graph: Option<&Graph>, source: &BackendError) -> String {
    let index = match source {
        BackendError::Asynchronous { node, .. } => *node,
        _ => None,
    };
    let node = graph.zip(index).and_then(|(graph, index)| graph.nodes().get(index as usize));
    match node {
        Some(node) => format!("{name}: {}", node.name),
        None => name.to_owned(),
    }
}
