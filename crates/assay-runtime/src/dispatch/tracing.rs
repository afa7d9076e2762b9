//! Traces of the work that a controller queues.

use super::context::DispatchContext;
use super::error::DispatchError;
use super::shared::Shared;
use super::work::{Work, WorkRequest};
use super::work_log::{TracedWork, WorkTrace};
use crate::backend;
use crate::trace::with_ticket;
use std::sync::Arc;

/// Queues work under a ticket, and keeps what it is.
pub(super) fn enqueue(
    context: &DispatchContext,
    ticket: u64,
    request: &WorkRequest,
) -> backend::Result<()> {
    let clock = context.backend.clock();
    let queued_ns = clock.now_ns();
    with_ticket(ticket, || request.work.enqueue(&*context.backend, request.stream))?;
    let returned_ns = clock.now_ns();
    context.trace.push(TracedWork {
        ticket,
        step: None,
        kind: request.work.kind(),
        name: Arc::clone(&request.name),
        kernel: request.work.kernel(),
        stream: request.stream,
        bytes: request.bytes,
        flops: request.flops,
        graph: match &request.work {
            Work::Graph(graph) => Some((graph.id(), graph.shared_nodes())),
            _ => None,
        },
        queued_ns,
        returned_ns,
    });
    Ok(())
}

impl Shared {
    pub(super) fn start_trace(&self, capacity: usize) -> Result<bool, DispatchError> {
        let Some(tracer) = self.context.backend.tracer() else {
            return Ok(false);
        };
        if self.context.trace.is_on() {
            return Err(DispatchError::Traced);
        }
        tracer.start(capacity)?;
        match self.context.trace.start(capacity) {
            true => Ok(true),
            false => Err(DispatchError::Traced),
        }
    }

    pub(super) fn stop_trace(&self) -> Result<WorkTrace, DispatchError> {
        let Some(tracer) = self.context.backend.tracer() else {
            return Ok(WorkTrace::default());
        };
        let (works, dropped) = self.context.trace.stop();
        let mut device = tracer.stop()?;
        device.dropped += dropped;
        Ok(WorkTrace { works, device })
    }
}
