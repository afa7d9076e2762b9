//! Events of a [`StreamTable`]: record, wait, query and elapsed time.

use super::event::EventState;
use super::table::{Command, StreamTable};
use crate::backend::{BackendError, EventId, Operation, Result, StreamId};

impl<W> StreamTable<W> {
    /// Creates an event that was never recorded.
    pub fn create_event(&mut self) -> EventId {
        let event = EventId(self.new_id());
        self.events.set_state(event, EventState::NotRecorded);
        event
    }

    /// Destroys an event; queued waits for it stay valid.
    pub fn destroy_event(&mut self, event: EventId) -> Result<()> {
        self.events.remove(event)
    }

    /// A new ticket that is pending until a [`Command::Record`] resolves it.
    pub fn new_ticket(&mut self) -> u64 {
        let ticket = self.new_id();
        self.events.add_ticket(ticket);
        ticket
    }

    /// Whether the record of this ticket has not been reached.
    pub fn is_pending(&self, ticket: u64) -> bool {
        self.events.is_pending(ticket)
    }

    /// Records the event on the stream, or in the stream's capture; returns whether it was queued.
    pub fn record_event(&mut self, event: EventId, stream: StreamId) -> Result<bool> {
        self.events.state(Operation::RecordEvent, event)?;
        if self.capture_record(event, stream)? {
            return Ok(false);
        }
        let ticket = self.new_ticket();
        self.events.set_state(event, EventState::Pending { ticket });
        let event = Some(event);
        self.enqueue(stream, Command::Record { ticket, event });
        Ok(true)
    }

    /// Makes later work on the stream wait for the event's latest record; returns whether a wait
    /// was queued.
    pub fn wait_event(&mut self, stream: StreamId, event: EventId) -> Result<bool> {
        let operation = Operation::WaitEvent;
        let state = self.events.state(operation, event)?.clone();
        if let EventState::Captured { capture, record, clock, .. } = state {
            self.capture_wait(stream, capture, record, &clock)?;
            return Ok(false);
        }
        let captured = self.stream(operation, stream)?.capture.is_some();
        match state {
            EventState::NotRecorded | EventState::Captured { .. } => Ok(false),
            // A graph cannot depend on work outside it.
            _ if captured => Err(BackendError::Capturing { operation, stream }),
            EventState::Pending { ticket } => {
                self.enqueue(stream, Command::Wait { ticket });
                Ok(true)
            }
            EventState::Failed(failure) => Err(failure.into()),
            EventState::Completed { .. } => Ok(false),
        }
    }

    /// Whether the event's latest record was reached; true for an event never recorded.
    pub fn query_event(&self, event: EventId) -> Result<bool> {
        let operation = Operation::QueryEvent;
        let pending = self.pending_ticket(operation, event)?.is_some();
        self.event_result(operation, event)?;
        Ok(!pending)
    }

    /// The ticket of the event's latest record, if that is pending.
    pub fn pending_ticket(&self, operation: Operation, event: EventId) -> Result<Option<u64>> {
        Ok(match self.events.state(operation, event)? {
            EventState::Pending { ticket } => Some(*ticket),
            _ => None,
        })
    }

    /// Fails if the event's latest record failed or belongs to a capture.
    pub fn event_result(&self, operation: Operation, event: EventId) -> Result<()> {
        match self.events.state(operation, event)? {
            EventState::Failed(failure) => Err(failure.clone().into()),
            EventState::Captured { stream, .. } => {
                Err(BackendError::Capturing { operation, stream: *stream })
            }
            EventState::NotRecorded | EventState::Pending { .. } | EventState::Completed { .. } => {
                Ok(())
            }
        }
    }

    /// Nanoseconds between two completed events.
    pub fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64> {
        let operation = Operation::Elapsed;
        let time_ns = |event| match self.events.state(operation, event)? {
            EventState::Completed { time_ns } => Ok(*time_ns),
            _ => Err(BackendError::EventNotFinished { operation, event }),
        };
        Ok(time_ns(last)?.saturating_sub(time_ns(first)?))
    }
}
