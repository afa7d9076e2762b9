//! The books of streams and events: what is queued, what may run, what has finished.

use super::capture::Capture;
use assay_runtime::backend::{
    Address, BackendError, EventId, GraphId, Launch, Operation, Result, StreamId, StreamPriority,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Work that went wrong, where, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    pub operation: Operation,
    pub stream: StreamId,
    pub node: Option<u32>,
    pub message: Arc<str>,
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        BackendError::Asynchronous {
            operation: failure.operation,
            stream: failure.stream,
            node: failure.node,
            message: failure.message,
        }
    }
}

/// One thing to do.
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
    /// Captured work in the order of its capture, which keeps every dependency.
    Graph(Arc<[Work]>),
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

#[derive(Debug)]
pub(super) enum Command {
    Work(Work),
    /// Resolves the ticket, and gives the event its time if it still carries that ticket.
    Record {
        ticket: u64,
        event: EventId,
    },
    /// Holds the stream until the ticket is resolved.
    Wait {
        ticket: u64,
    },
}

/// Where an event's latest record stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    Never,
    Pending {
        ticket: u64,
    },
    Finished {
        time_ns: u64,
    },
    Failed(Failure),
    /// Recorded inside a capture: a place in a graph, not a moment.
    Captured {
        capture: u64,
        /// How much of each lane had been captured where the event was recorded.
        seen: Vec<u64>,
        stream: StreamId,
    },
}

pub(super) struct Stream {
    pub queue: VecDeque<(u64, Command)>,
    pub running: bool,
    pub priority: StreamPriority,
    pub failure: Option<Failure>,
    /// The capture this stream belongs to, and its lane there.
    pub capture: Option<(u64, usize)>,
    /// Destroyed by its owner; kept until its queue is empty.
    pub closed: bool,
}

impl Stream {
    fn new(priority: StreamPriority) -> Self {
        Stream {
            queue: VecDeque::new(),
            running: false,
            priority,
            failure: None,
            capture: None,
            closed: false,
        }
    }

    pub fn is_idle(&self) -> bool {
        !self.running && self.queue.is_empty()
    }

    /// Whether a wait for this ticket is queued.
    fn awaits(&self, ticket: u64) -> bool {
        let mut commands = self.queue.iter().map(|(_, command)| command);
        commands
            .any(|command| matches!(command, Command::Wait { ticket: other } if *other == ticket))
    }
}

/// Everything behind the device's lock.
pub(super) struct State {
    pub streams: BTreeMap<StreamId, Stream>,
    pub events: HashMap<EventId, Mark>,
    pub captures: HashMap<u64, Capture>,
    pub graphs: HashMap<GraphId, Arc<[Work]>>,
    pub ends: bool,
    /// Threads that wait for something to change.
    pub waiters: usize,
    pending_tickets: HashSet<u64>,
    failed_tickets: HashMap<u64, Failure>,
    next_stream: u32,
    next_number: u64,
}

impl State {
    pub fn new(default_stream: StreamId) -> Self {
        let default = (default_stream, Stream::new(StreamPriority::Normal));
        State {
            streams: BTreeMap::from([default]),
            events: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            ends: false,
            waiters: 0,
            pending_tickets: HashSet::new(),
            failed_tickets: HashMap::new(),
            next_stream: default_stream.0 + 1,
            next_number: 1,
        }
    }

    pub fn fresh_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    pub fn create_stream(&mut self, priority: StreamPriority) -> StreamId {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        self.streams.insert(stream, Stream::new(priority));
        stream
    }

    /// The caller's stream of this name, or the error that names the call.
    pub fn stream(&mut self, operation: Operation, stream: StreamId) -> Result<&mut Stream> {
        self.streams
            .get_mut(&stream)
            .filter(|found| !found.closed)
            .ok_or(BackendError::UnknownStream { operation, stream })
    }

    pub fn close_stream(&mut self, stream: StreamId) {
        if let Some(found) = self.streams.get_mut(&stream) {
            found.closed = true;
            if found.is_idle() {
                self.streams.remove(&stream);
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.streams.values().all(Stream::is_idle)
    }

    pub fn is_stream_idle(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_none_or(Stream::is_idle)
    }

    pub fn enqueue(&mut self, stream: StreamId, command: Command) {
        let sequence = self.fresh_number();
        if let Some(found) = self.streams.get_mut(&stream) {
            found.queue.push_back((sequence, command));
        }
    }

    /// A mark at the end of the stream's queue, under a ticket others can wait for.
    pub fn record(&mut self, event: EventId, stream: StreamId) {
        let ticket = self.fresh_number();
        self.pending_tickets.insert(ticket);
        self.events.insert(event, Mark::Pending { ticket });
        self.enqueue(stream, Command::Record { ticket, event });
    }

    pub fn is_pending(&self, ticket: u64) -> bool {
        self.pending_tickets.contains(&ticket)
    }

    /// Whether nothing is queued behind what runs now.
    pub fn is_drained(&self) -> bool {
        self.streams.values().all(|stream| stream.queue.is_empty())
    }

    /// The next piece of work that may run now, of the streams that the caller serves; its stream
    /// is running from here on.
    pub fn take_ready(&mut self, serves: impl Fn(StreamId) -> bool) -> Option<(StreamId, Work)> {
        let waiting = self
            .streams
            .iter()
            .filter(|(id, stream)| !stream.running && serves(**id));
        let ready = waiting.filter_map(|(id, stream)| match stream.queue.front() {
            Some((sequence, Command::Work(_))) => Some((stream.priority, *sequence, *id)),
            _ => None,
        });
        let urgent_then_old = |(priority, sequence, _): &(StreamPriority, u64, StreamId)| {
            (*priority, std::cmp::Reverse(*sequence))
        };
        let (_, _, id) = ready.max_by_key(urgent_then_old)?;
        let stream = self.streams.get_mut(&id)?;
        match stream.queue.pop_front() {
            Some((_, Command::Work(work))) => {
                stream.running = true;
                Some((id, work))
            }
            _ => None,
        }
    }

    /// Lets all marks pass that can.
    pub fn settle(&mut self, now_ns: u64) {
        while self.pass_marks(now_ns) {}
    }

    /// Takes marks, and the work of failed streams, off the heads of all queues.
    fn pass_marks(&mut self, now_ns: u64) -> bool {
        let State {
            streams,
            events,
            pending_tickets,
            failed_tickets,
            ..
        } = self;
        let mut moved = false;
        for stream in streams.values_mut().filter(|stream| !stream.running) {
            while let Some((_, command)) = stream.queue.front() {
                match command {
                    Command::Work(_) if stream.failure.is_none() => break,
                    Command::Work(_) => {}
                    Command::Wait { ticket } if pending_tickets.contains(ticket) => break,
                    Command::Wait { ticket } => {
                        let spread = failed_tickets.get(ticket).cloned();
                        stream.failure = stream.failure.take().or(spread);
                    }
                    Command::Record { ticket, event } => {
                        pending_tickets.remove(ticket);
                        let reached = match &stream.failure {
                            Some(failure) => {
                                failed_tickets.insert(*ticket, failure.clone());
                                Mark::Failed(failure.clone())
                            }
                            None => Mark::Finished { time_ns: now_ns },
                        };
                        let pending = Mark::Pending { ticket: *ticket };
                        if events.get(event) == Some(&pending) {
                            events.insert(*event, reached);
                        }
                    }
                }
                stream.queue.pop_front();
                moved = true;
            }
        }
        if moved {
            streams.retain(|_, stream| !(stream.closed && stream.is_idle()));
            // Who waits for an event from now on reads the event's own mark.
            failed_tickets
                .retain(|ticket, _| streams.values().any(|stream| stream.awaits(*ticket)));
        }
        moved
    }

    /// Drops what is queued behind a failure, fails the marks there, and lets the stream go on.
    pub fn recover(&mut self, stream: StreamId, now_ns: u64) {
        let Some(found) = self.streams.get_mut(&stream) else {
            return;
        };
        if found.failure.is_none() {
            return;
        }
        // Without these waits nothing holds the marks and the work behind them back.
        found
            .queue
            .retain(|(_, command)| !matches!(command, Command::Wait { .. }));
        self.settle(now_ns);
        if let Some(found) = self.streams.get_mut(&stream) {
            found.failure = None;
        }
    }

    /// Notes the end of the work its stream was running.
    pub fn finish(&mut self, stream: StreamId, failure: Option<Failure>, now_ns: u64) {
        if let Some(found) = self.streams.get_mut(&stream) {
            found.running = false;
            found.failure = found.failure.take().or(failure);
            if found.closed && found.is_idle() {
                self.streams.remove(&stream);
            }
        }
        self.settle(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_stream_keeps_no_tickets_that_nobody_waits_for() {
        let mut state = State::new(StreamId(0));
        let (failed, waiting) = (
            state.create_stream(StreamPriority::Normal),
            state.create_stream(StreamPriority::Normal),
        );
        let failure = Failure {
            operation: Operation::Launch,
            stream: failed,
            node: None,
            message: "planned".into(),
        };
        state.finish(failed, Some(failure), 0);
        for event in 0..100 {
            state.record(EventId(event), failed);
            state.settle(0);
        }
        assert!(state.failed_tickets.is_empty());
        // One that is waited for spreads the failure before it is forgotten.
        if let Some(stream) = state.streams.get_mut(&waiting) {
            stream.running = true;
        }
        state.record(EventId(100), failed);
        let Some(Mark::Pending { ticket }) = state.events.get(&EventId(100)).cloned() else {
            panic!("the event was just recorded");
        };
        state.enqueue(waiting, Command::Wait { ticket });
        state.settle(0);
        assert_eq!(state.failed_tickets.len(), 1);
        state.finish(waiting, None, 0);
        assert!(state.streams[&waiting].failure.is_some());
        assert!(state.failed_tickets.is_empty());
    }
}
