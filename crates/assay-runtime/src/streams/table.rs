//! Streams: their queues, which work is ready, and how failures spread.

use super::capture::Capture;
use super::event::{EventTable, StreamFailure};
use crate::backend::{BackendError, EventId, Operation, Result, StreamId, StreamPriority};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The stream that always exists.
pub const DEFAULT_STREAM: StreamId = StreamId(0);

/// One entry of a stream's queue.
#[derive(Clone, Debug)]
pub enum Command<W> {
    /// Runs the work.
    Work(W),
    /// Resolves the ticket, and sets the event's state if this is still its latest record.
    Record {
        /// The record's ticket.
        ticket: u64,
        /// The event; none for a record inside a graph.
        event: Option<EventId>,
    },
    /// Blocks the stream until the ticket is resolved.
    Wait {
        /// The ticket of the record.
        ticket: u64,
    },
}

/// Work that left its queue to run.
#[derive(Clone, Debug)]
pub struct ReadyWork<W> {
    /// Its stream, which is running from here on.
    pub stream: StreamId,
    /// Its number in the order of all queues.
    pub sequence: u64,
    /// The work.
    pub work: W,
}

pub(super) struct Stream<W> {
    queue: VecDeque<(u64, Command<W>)>,
    running: bool,
    priority: StreamPriority,
    failure: Option<StreamFailure>,
    /// The capture this stream takes part in, and its branch there.
    pub capture: Option<(u64, usize)>,
    /// Destroyed by its owner; kept until its queue is empty.
    closed: bool,
    /// A branch of a graph, which callers cannot name.
    internal: bool,
}

impl<W> Stream<W> {
    fn is_idle(&self) -> bool {
        !self.running && self.queue.is_empty()
    }

    fn awaits(&self, ticket: u64) -> bool {
        let mut commands = self.queue.iter().map(|(_, command)| command);
        commands
            .any(|command| matches!(command, Command::Wait { ticket: other } if *other == ticket))
    }

    /// Completes a command that needs no execution: work of a failed stream is skipped.
    fn resolve(&mut self, command: &Command<W>, events: &mut EventTable, now_ns: u64) {
        match command {
            Command::Work(_) => {}
            Command::Wait { ticket } => {
                let inherited = events.failure(*ticket).cloned();
                self.failure = self.failure.take().or(inherited);
            }
            Command::Record { ticket, event } => {
                events.resolve(*ticket, *event, self.failure.as_ref(), now_ns);
            }
        }
    }
}

/// Streams, events and captures of one device; callers keep it behind the device's lock.
pub struct StreamTable<W> {
    pub(super) streams: BTreeMap<StreamId, Stream<W>>,
    /// Streams with queued or running work, sorted, so that idle ones cost nothing.
    active: Vec<StreamId>,
    pub(super) events: EventTable,
    pub(super) captures: HashMap<u64, Capture<W>>,
    next_stream: u32,
    next_id: u64,
}

impl<W> Default for StreamTable<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W> StreamTable<W> {
    /// A table with the default stream only.
    pub fn new() -> Self {
        let mut table = StreamTable {
            streams: BTreeMap::new(),
            active: Vec::new(),
            events: EventTable::default(),
            captures: HashMap::new(),
            next_stream: DEFAULT_STREAM.0,
            next_id: 1,
        };
        table.create_stream(StreamPriority::Normal);
        table
    }

    /// A number not used before: for events, tickets, kernels, graphs and queue order.
    pub fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn add_stream(&mut self, priority: StreamPriority, internal: bool) -> StreamId {
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        let stream = Stream {
            queue: VecDeque::new(),
            running: false,
            priority,
            failure: None,
            capture: None,
            closed: false,
            internal,
        };
        self.streams.insert(id, stream);
        id
    }

    /// Creates a stream.
    pub fn create_stream(&mut self, priority: StreamPriority) -> StreamId {
        self.add_stream(priority, false)
    }

    /// Creates a stream that callers cannot name, for a branch of a graph.
    pub fn create_internal_stream(&mut self) -> StreamId {
        self.add_stream(StreamPriority::Normal, true)
    }

    /// The caller's stream, or the error that names the call.
    pub(super) fn stream(
        &mut self,
        operation: Operation,
        stream: StreamId,
    ) -> Result<&mut Stream<W>> {
        self.streams
            .get_mut(&stream)
            .filter(|found| !found.closed && !found.internal)
            .ok_or(BackendError::UnknownStream { operation, stream })
    }

    /// Fails unless the caller may use the stream.
    pub fn check_stream(&mut self, operation: Operation, stream: StreamId) -> Result<()> {
        self.stream(operation, stream).map(|_| ())
    }

    /// Destroys a caller's stream; work already queued on it still runs.
    pub fn destroy_stream(&mut self, stream: StreamId) -> Result<()> {
        if stream == DEFAULT_STREAM {
            return Err(BackendError::DefaultStream { stream });
        }
        self.check_not_capturing(Operation::DestroyStream, stream)?;
        self.close_stream(stream);
        Ok(())
    }

    /// Removes a stream once its queue is empty.
    pub fn close_stream(&mut self, stream: StreamId) {
        if let Some(found) = self.streams.get_mut(&stream) {
            found.closed = true;
            if found.is_idle() {
                self.streams.remove(&stream);
                self.active.retain(|active| *active != stream);
            }
        }
    }

    /// Whether all work queued on the stream has finished, or the failure that stopped it.
    pub fn query_stream(&mut self, stream: StreamId) -> Result<bool> {
        self.check_not_capturing(Operation::QueryStream, stream)?;
        self.stream_result(stream)?;
        Ok(self.is_stream_idle(stream))
    }

    /// The failure that stopped the stream, if it failed.
    pub fn stream_result(&self, stream: StreamId) -> Result<()> {
        let found = self.streams.get(&stream);
        match found.and_then(|found| found.failure.clone()) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    /// Clears the stream's failure and returns it.
    pub fn take_failure(&mut self, stream: StreamId) -> Option<StreamFailure> {
        self.streams.get_mut(&stream)?.failure.take()
    }

    /// Whether nothing is queued or running on the stream.
    pub fn is_stream_idle(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_none_or(Stream::is_idle)
    }

    /// Whether nothing is queued or running on any stream.
    pub fn is_idle(&self) -> bool {
        self.active.iter().all(|stream| self.is_stream_idle(*stream))
    }

    /// Whether every queue is empty; work may still be running.
    pub fn is_drained(&self) -> bool {
        let mut streams = self.active.iter().filter_map(|id| self.streams.get(id));
        streams.all(|stream| stream.queue.is_empty())
    }

    fn activate(&mut self, stream: StreamId) {
        if let Err(position) = self.active.binary_search(&stream) {
            self.active.insert(position, stream);
        }
    }

    /// Appends a command to the stream's queue.
    pub fn enqueue(&mut self, stream: StreamId, command: Command<W>) {
        let sequence = self.new_id();
        if let Some(found) = self.streams.get_mut(&stream) {
            found.queue.push_back((sequence, command));
            self.activate(stream);
        }
    }

    /// Marks an idle stream as running work that was not queued; [`finish`](Self::finish) ends it.
    pub fn start(&mut self, stream: StreamId) {
        if let Some(found) = self.streams.get_mut(&stream) {
            found.running = true;
            self.activate(stream);
        }
    }

    /// Takes the eligible work at the head of a queue that has the highest priority, then the
    /// lowest sequence number.
    pub fn take_ready(&mut self, eligible: impl Fn(StreamId, &W) -> bool) -> Option<ReadyWork<W>> {
        let heads = self.active.iter().filter_map(|id| {
            let stream = self.streams.get(id)?;
            match stream.queue.front()? {
                (sequence, Command::Work(work)) if !stream.running && eligible(*id, work) => {
                    Some((Reverse(stream.priority), *sequence, *id))
                }
                _ => None,
            }
        });
        let (_, sequence, id) = heads.min()?;
        let stream = self.streams.get_mut(&id)?;
        match stream.queue.pop_front() {
            Some((_, Command::Work(work))) => {
                stream.running = true;
                Some(ReadyWork { stream: id, sequence, work })
            }
            _ => None,
        }
    }

    /// Ends the work that the stream was running; a failure stops the stream.
    pub fn finish(&mut self, stream: StreamId, failure: Option<StreamFailure>) {
        if let Some(found) = self.streams.get_mut(&stream) {
            found.running = false;
            found.failure = found.failure.take().or(failure);
        }
    }

    /// Resolves records and waits at the heads of all queues until none is left.
    pub fn settle(&mut self, now_ns: u64) {
        while self.resolve_heads(now_ns) {}
    }

    /// One pass over the queues that resolves their heads as far as nothing has to run; returns
    /// whether any moved.
    pub fn resolve_heads(&mut self, now_ns: u64) -> bool {
        let mut progressed = false;
        let mut position = 0;
        while let Some(&id) = self.active.get(position) {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.active.remove(position);
                continue;
            };
            while let Some((_, command)) = stream.queue.front() {
                let blocked = stream.running
                    || match command {
                        Command::Work(_) => stream.failure.is_none(),
                        Command::Wait { ticket } => self.events.is_pending(*ticket),
                        Command::Record { .. } => false,
                    };
                if blocked {
                    break;
                }
                if let Some((_, command)) = stream.queue.pop_front() {
                    stream.resolve(&command, &mut self.events, now_ns);
                    progressed = true;
                }
            }
            if !stream.is_idle() {
                position += 1;
                continue;
            }
            if stream.closed {
                self.streams.remove(&id);
            }
            self.active.remove(position);
        }
        if progressed {
            self.drop_unawaited_failures();
        }
        progressed
    }

    fn drop_unawaited_failures(&mut self) {
        let StreamTable { streams, events, .. } = self;
        events.retain_failed_tickets(|ticket| {
            let mut streams = streams.values();
            streams.any(|stream| stream.awaits(ticket))
        });
    }

    /// Drops what is queued behind a failure, fails the records there, and clears the failure.
    pub fn recover(&mut self, stream: StreamId, now_ns: u64) -> Result<()> {
        self.check_not_capturing(Operation::RecoverStream, stream)?;
        let found = self.streams.get_mut(&stream);
        let Some(found) = found.filter(|found| found.failure.is_some()) else {
            return Ok(());
        };
        for (_, command) in std::mem::take(&mut found.queue) {
            found.resolve(&command, &mut self.events, now_ns);
        }
        found.failure = None;
        self.drop_unawaited_failures();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tickets_are_dropped_once_no_wait_is_queued_for_them() {
        let mut table: StreamTable<()> = StreamTable::new();
        let (failed, waiting) = (
            table.create_stream(StreamPriority::Normal),
            table.create_stream(StreamPriority::Normal),
        );
        let failure = StreamFailure {
            operation: Operation::Launch,
            stream: failed,
            node: None,
            message: "planned".into(),
        };
        table.finish(failed, Some(failure));
        let event = table.create_event();
        for _ in 0..100 {
            assert_eq!(table.record_event(event, failed), Ok(true));
            table.settle(0);
        }
        assert_eq!(table.events.failed_ticket_count(), 0);
        // A queued wait passes the failure on before its ticket is dropped.
        table.start(waiting);
        assert_eq!(table.record_event(event, failed), Ok(true));
        assert_eq!(table.wait_event(waiting, event), Ok(true));
        table.settle(0);
        assert_eq!(table.events.failed_ticket_count(), 1);
        table.finish(waiting, None);
        table.settle(0);
        assert!(table.stream_result(waiting).is_err());
        assert_eq!(table.events.failed_ticket_count(), 0);
    }
}
