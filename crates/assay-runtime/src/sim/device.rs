//! The state of a simulated device: streams with their queues, events, and what runs now.

use super::command::{Command, Engine, SimSpan, Work};
use super::fault::FaultPlan;
use super::graph::{Capture, Graph};
use super::kernel::SimKernel;
use super::memory::SimMemory;
use super::profile::SimProfile;
use crate::backend::{
    BackendError, EventId, GraphId, KernelId, Operation, Result, StreamId, StreamPriority,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Work that went wrong on the device, where, and why.
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
        local: usize,
        stream: StreamId,
    },
}

pub(super) struct Running {
    pub work: Work,
    pub fails: bool,
    pub node: Option<(StreamId, u32)>,
    pub start_ns: u64,
}

pub(super) struct Stream {
    pub queue: VecDeque<(u64, Command)>,
    pub running: Option<Running>,
    pub priority: StreamPriority,
    pub failure: Option<Failure>,
    /// The capture this stream belongs to, and its lane there.
    pub capture: Option<(u64, usize)>,
    /// Destroyed by its owner; kept until its queue is empty.
    pub closed: bool,
    /// Made for a lane of a graph, not for a caller.
    pub internal: bool,
}

impl Stream {
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.queue.is_empty()
    }
}

/// The whole state of a simulated device, behind its lock.
pub(super) struct Device {
    pub profile: SimProfile,
    pub memory: SimMemory,
    pub faults: FaultPlan,
    pub events: HashMap<EventId, Mark>,
    pub kernels: HashMap<KernelId, SimKernel>,
    pub captures: HashMap<u64, Capture>,
    pub graphs: HashMap<GraphId, Graph>,
    /// Finished work, when it is recorded.
    pub timeline: Option<Vec<SimSpan>>,
    pub streams: BTreeMap<StreamId, Stream>,
    /// Streams with something queued or running, so that idle ones cost nothing.
    pub active: BTreeSet<StreamId>,
    next_stream: u32,
    next_number: u64,
    pub busy: [bool; Engine::ALL.len()],
    pub completions: BinaryHeap<Reverse<(u64, u64, StreamId)>>,
    pub pending_tickets: HashSet<u64>,
    pub failed_tickets: HashMap<u64, Failure>,
    /// Everything up to this moment has happened.
    pub frontier_ns: u64,
}

impl Device {
    pub fn new(profile: SimProfile, memory: SimMemory, record_timeline: bool) -> Self {
        Device {
            profile,
            memory,
            faults: FaultPlan::default(),
            events: HashMap::new(),
            kernels: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            timeline: record_timeline.then(Vec::new),
            streams: BTreeMap::new(),
            active: BTreeSet::new(),
            next_stream: 0,
            next_number: 0,
            busy: [false; Engine::ALL.len()],
            completions: BinaryHeap::new(),
            pending_tickets: HashSet::new(),
            failed_tickets: HashMap::new(),
            frontier_ns: 0,
        }
    }

    /// A number not given out before: for events, tickets, kernels, graphs and queue order.
    pub fn fresh_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub fn create_stream(&mut self, priority: StreamPriority, internal: bool) -> StreamId {
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        self.streams.insert(
            id,
            Stream {
                queue: VecDeque::new(),
                running: None,
                priority,
                failure: None,
                capture: None,
                closed: false,
                internal,
            },
        );
        id
    }

    /// The caller's stream of this name, or the error that names the call.
    pub fn stream(&mut self, operation: Operation, stream: StreamId) -> Result<&mut Stream> {
        self.streams
            .get_mut(&stream)
            .filter(|found| !found.closed && !found.internal)
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

    pub fn failure(&self, stream: StreamId) -> Option<Failure> {
        let found = self.streams.get(&stream)?;
        found.failure.clone()
    }

    pub fn is_idle(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_none_or(Stream::is_idle)
    }

    pub fn fresh_ticket(&mut self) -> u64 {
        let ticket = self.fresh_number();
        self.pending_tickets.insert(ticket);
        ticket
    }

    pub fn is_pending(&self, ticket: u64) -> bool {
        self.pending_tickets.contains(&ticket)
    }

    pub fn enqueue(&mut self, stream: StreamId, command: Command) {
        let sequence = self.fresh_number();
        if let Some(found) = self.streams.get_mut(&stream) {
            found.queue.push_back((sequence, command));
            self.active.insert(stream);
        }
    }
}
