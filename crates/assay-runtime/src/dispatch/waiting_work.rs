//! Work that waits to be issued.

use super::error::DispatchError;
use super::event_pool::TimingEvent;
use super::record::WorkRecord;
use super::work::{WorkId, WorkRequest};
use crate::scheduler::{Grant, Lane, PendingGrant, Poll, TaskId};
use std::sync::Arc;

/// The scheduler's permission to issue work.
pub(super) enum GrantGate {
    NotNeeded,
    NotRequested,
    Requested(PendingGrant),
    /// Another thread took the pending grant to wait for it.
    Awaited,
    Granted(Grant),
}

impl GrantGate {
    pub fn is_open(&self) -> bool {
        matches!(self, GrantGate::NotNeeded | GrantGate::Granted(_))
    }
}

/// Work that is not queued on the device yet.
pub(super) struct WaitingWork {
    pub sequence: u64,
    pub request: WorkRequest,
    pub submitted_ns: u64,
    pub gate: GrantGate,
    /// Events of other streams to wait for.
    pub dependencies: Vec<Arc<TimingEvent>>,
    /// Work of other streams that is not issued either.
    pub unresolved: Vec<WorkId>,
}

impl WaitingWork {
    /// The record of this work if it fails.
    pub fn record(&self, failure: &DispatchError) -> WorkRecord {
        self.request.record(self.submitted_ns, Some(failure.code()))
    }

    /// Requests a grant from the scheduler, or polls the one requested.
    pub fn poll_grant(&mut self) -> Result<(), DispatchError> {
        let request = &self.request;
        let polled = match std::mem::replace(&mut self.gate, GrantGate::Awaited) {
            GrantGate::NotRequested => match (&request.task, request.work.cost(request.cost_ns)) {
                (Some(task), Some((lane, units))) => {
                    task.request(lane, units).and_then(|pending| pending.poll())
                }
                _ => {
                    self.gate = GrantGate::NotNeeded;
                    return Ok(());
                }
            },
            GrantGate::Requested(pending) => pending.poll(),
            other => {
                self.gate = other;
                return Ok(());
            }
        };
        match polled {
            Ok(Poll::Ready(grant)) => self.gate = GrantGate::Granted(grant),
            Ok(Poll::Pending(pending)) => self.gate = GrantGate::Requested(pending),
            Err(source) => {
                return Err(DispatchError::Task { name: request.name.to_string(), source });
            }
        }
        Ok(())
    }

    /// The task that is charged and the lane of the grant, if the work needs one.
    pub fn charge(&self) -> Option<(TaskId, Lane)> {
        let (lane, _) = self.request.work.cost(self.request.cost_ns)?;
        Some((self.request.task.as_ref()?.id(), lane))
    }
}
