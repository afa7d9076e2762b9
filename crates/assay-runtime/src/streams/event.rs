//! Events, and the tickets by which queued waits refer to a record.
//!
//! A wait refers to the record that was the event's latest when the wait was queued. Each record
//! therefore has a ticket of its own: the event can be recorded again, or destroyed, while a wait
//! for the earlier record is queued.

use crate::backend::{BackendError, EventId, Operation, Result, StreamId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Work that failed while it ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamFailure {
    /// The work that failed.
    pub operation: Operation,
    /// The stream it was queued on.
    pub stream: StreamId,
    /// Its index in the order of capture, if it was a node of a graph.
    pub node: Option<u32>,
    /// The error's text.
    pub message: Arc<str>,
}

impl From<StreamFailure> for BackendError {
    fn from(failure: StreamFailure) -> Self {
        BackendError::Asynchronous {
            operation: failure.operation,
            stream: failure.stream,
            node: failure.node,
            message: failure.message,
        }
    }
}

/// The state of an event's latest record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum EventState {
    NotRecorded,
    Pending {
        ticket: u64,
    },
    Completed {
        time_ns: u64,
    },
    Failed(StreamFailure),
    /// Recorded inside a capture: a point of the graph, without a time.
    Captured {
        capture: u64,
        /// Index among the records of the capture.
        record: usize,
        /// The vector clock of its branch at the record.
        clock: Vec<u64>,
        stream: StreamId,
    },
}

/// The events of a device and the tickets of their records.
#[derive(Default)]
pub(super) struct EventTable {
    states: HashMap<EventId, EventState>,
    pending_tickets: HashSet<u64>,
    failed_tickets: HashMap<u64, StreamFailure>,
}

impl EventTable {
    pub fn state(&self, operation: Operation, event: EventId) -> Result<&EventState> {
        let state = self.states.get(&event);
        state.ok_or(BackendError::UnknownEvent { operation, event })
    }

    pub fn set_state(&mut self, event: EventId, state: EventState) {
        self.states.insert(event, state);
    }

    pub fn remove(&mut self, event: EventId) -> Result<()> {
        let operation = Operation::DestroyEvent;
        let removed = self.states.remove(&event);
        removed.map(|_| ()).ok_or(BackendError::UnknownEvent { operation, event })
    }

    pub fn add_ticket(&mut self, ticket: u64) {
        self.pending_tickets.insert(ticket);
    }

    pub fn is_pending(&self, ticket: u64) -> bool {
        self.pending_tickets.contains(&ticket)
    }

    /// The failure that a wait for this ticket passes on to the waiting stream.
    pub fn failure(&self, ticket: u64) -> Option<&StreamFailure> {
        self.failed_tickets.get(&ticket)
    }

    /// The stream reached a record. The event takes the outcome if no later record replaced it.
    pub fn resolve(
        &mut self,
        ticket: u64,
        event: Option<EventId>,
        failure: Option<&StreamFailure>,
        now_ns: u64,
    ) {
        self.pending_tickets.remove(&ticket);
        if let Some(failure) = failure {
            self.failed_tickets.insert(ticket, failure.clone());
        }
        let state = event.and_then(|event| self.states.get_mut(&event));
        if let Some(state) = state.filter(|state| **state == (EventState::Pending { ticket })) {
            *state = match failure {
                Some(failure) => EventState::Failed(failure.clone()),
                None => EventState::Completed { time_ns: now_ns },
            };
        }
    }

    /// Drops failed tickets for which no wait is queued; a later wait reads the event's state.
    pub fn retain_failed_tickets(&mut self, is_awaited: impl Fn(u64) -> bool) {
        self.failed_tickets.retain(|ticket, _| is_awaited(*ticket));
    }

    #[cfg(test)]
    pub fn failed_ticket_count(&self) -> usize {
        self.failed_tickets.len()
    }
}
