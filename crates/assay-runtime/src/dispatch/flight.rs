//! One stream as seen from the host: the work queued on the device, and how it is taken in.

use super::error::DispatchError;
use super::graph::Graph;
use super::mark::{Mark, MarkPool};
use super::meter::Meter;
use super::options::{DispatchOptions, MARK_EVERY, Timing};
use super::queue::{Gate, StreamBooks, Waiting};
use super::record::{Recorder, WorkRecord};
use super::timeline::{Anchor, Timeline};
use super::work::{Work, WorkRequest};
use crate::backend::{Backend, BackendError, StreamId};
use crate::scheduler::{Grant, Lane};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Work queued on the device: what its record will say, and what ends with it.
///
/// The request itself is gone by then; the device has what it needs of it.
pub(super) struct Issued {
    pub sequence: u64,
    record: WorkRecord,
    graph: Option<Arc<Graph>>,
    start: Option<(Arc<Anchor>, Arc<Mark>)>,
    end: Option<Arc<Mark>>,
    turn: Option<(Grant, Lane)>,
}

/// Work that the device refused, with its record.
pub(super) struct Unissued {
    pub error: DispatchError,
    pub record: WorkRecord,
}

/// What a stream needs of the controller to queue work and take it in.
pub(super) struct Tools {
    pub backend: Arc<dyn Backend>,
    pub marks: Arc<MarkPool>,
    /// Made when the first piece of work is timed.
    timeline: OnceLock<Timeline>,
    pub recorder: Arc<Recorder>,
    pub meter: Meter,
    pub options: DispatchOptions,
    /// How often work failed on any stream, so that nobody looks for failures without need.
    pub failures: AtomicU64,
}

impl Tools {
    pub fn new(
        backend: Arc<dyn Backend>,
        options: DispatchOptions,
        recorder: Arc<Recorder>,
    ) -> Self {
        Tools {
            marks: Arc::new(MarkPool::new(Arc::clone(&backend))),
            timeline: OnceLock::new(),
            backend,
            recorder,
            meter: Meter::default(),
            options,
            failures: AtomicU64::new(0),
        }
    }

    /// Marks the beginning of work on a stream, beside an anchor that tells when that was.
    ///
    /// None where the device refuses: a record without a time is better than work that failed for
    /// want of one.
    fn mark_start(&self, stream: StreamId) -> Option<(Arc<Anchor>, Arc<Mark>)> {
        let timeline = match self.timeline.get() {
            Some(timeline) => timeline,
            None => {
                let made =
                    Timeline::new(Arc::clone(&self.backend), Arc::clone(&self.marks)).ok()?;
                self.timeline.get_or_init(|| made)
            }
        };
        let anchor = timeline.anchor().ok()?;
        Some((anchor, self.marks.record(stream).ok()?))
    }
}

/// The name of the work that failed: of the piece, where it was a graph.
fn failed_name(name: &str, graph: Option<&Graph>, source: &BackendError) -> String {
    let node = match source {
        BackendError::Asynchronous { node, .. } => *node,
        _ => None,
    };
    let piece = graph
        .zip(node)
        .and_then(|(graph, node)| graph.nodes().get(node as usize));
    match piece {
        Some(piece) => format!("{name}: {}", piece.name),
        None => name.to_owned(),
    }
}

/// What is told of work that failed on a stream, or that came after such work of another.
fn failed(
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
        source => DispatchError::StreamFailed {
            name: failed_name(name, graph, &source),
            stream,
            source,
        },
    }
}

pub(super) fn record(
    request: &WorkRequest,
    submitted_ns: u64,
    failure: Option<&'static str>,
) -> WorkRecord {
    WorkRecord {
        sequence: 0,
        kind: request.work.kind(),
        name: Arc::clone(&request.name),
        stream: request.stream,
        bytes: request.bytes,
        flops: request.flops,
        graph: request.work.graph(),
        task: request.task.as_ref().map(|task| task.id()),
        site: None,
        submitted_ns,
        span: None,
        failure,
    }
}

impl StreamBooks {
    pub fn in_flight(&self) -> usize {
        self.issued.len()
    }

    pub fn has_room(&self, options: &DispatchOptions) -> bool {
        self.issued.len() < options.in_flight
    }

    /// Whether work that comes after nothing and needs no turn can be queued on the device now.
    pub fn takes_at_once(&self, options: &DispatchOptions) -> bool {
        self.dead.is_none()
            && self.untold.is_none()
            && self.capture.is_none()
            && self.waiting.is_empty()
            && self.has_room(options)
    }

    /// Queues work on the device, after the marks of other streams.
    pub fn issue(&mut self, tools: &Tools, work: Waiting) -> Result<(), Box<Unissued>> {
        let stream = work.request.stream;
        let held = work.marks.iter().try_for_each(|mark| mark.hold(stream));
        if let Err(source) = held {
            return Err(unissued(&work.request, work.submitted_ns, source));
        }
        let turn = match work.gate {
            Gate::Granted(turn) => Some(turn),
            _ => None,
        };
        self.start(tools, work.sequence, work.request, work.submitted_ns, turn)
    }

    /// Queues work on the device that nothing stands in the way of.
    pub fn start(
        &mut self,
        tools: &Tools,
        sequence: u64,
        request: WorkRequest,
        submitted_ns: u64,
        turn: Option<Grant>,
    ) -> Result<(), Box<Unissued>> {
        let stream = request.stream;
        // What a task is charged is measured; other work is where everything is.
        let timed = tools.options.timing == Timing::Full || turn.is_some();
        let start = timed.then(|| tools.mark_start(stream)).flatten();
        if let Err(source) = request.work.enqueue(&*tools.backend, stream) {
            return Err(unissued(&request, submitted_ns, source));
        }
        self.unmarked += 1;
        let marked = timed
            || self.unmarked >= MARK_EVERY
            || self.issued.len() + 1 >= tools.options.in_flight;
        let lane = request.work.cost(request.cost_ns).map(|(lane, _)| lane);
        self.issued.push_back(Issued {
            sequence,
            record: record(&request, submitted_ns, None),
            graph: match request.work {
                Work::Graph(graph) => Some(graph),
                _ => None,
            },
            start,
            end: None,
            turn: turn.zip(lane),
        });
        if marked {
            self.mark_end(tools, stream);
        }
        Ok(())
    }

    /// Everything up to this number is known to be over.
    pub fn finish_through(&mut self, tools: &Tools, sequence: u64) {
        let over = self
            .issued
            .iter()
            .take_while(|work| work.sequence <= sequence)
            .count();
        for work in self.issued.drain(..over) {
            work.finish(tools);
        }
    }

    /// The number of the newest work in flight.
    pub fn newest(&self) -> Option<u64> {
        self.issued.back().map(|work| work.sequence)
    }

    /// Sees to it that the end of all work in flight is marked; false if the device refuses.
    pub fn is_marked(&mut self, tools: &Tools, stream: StreamId) -> bool {
        match self.issued.back() {
            Some(last) if last.end.is_none() => self.mark_end(tools, stream).is_some(),
            _ => true,
        }
    }

    /// Whether work in flight holds a turn.
    pub fn holds_turns(&self) -> bool {
        self.issued.iter().any(|work| work.turn.is_some())
    }

    /// The mark of the oldest work in flight that holds a turn in this lane, or in any.
    pub fn oldest_turn(&self, lane: Option<Lane>) -> Option<(u64, Arc<Mark>)> {
        let holds = |work: &&Issued| match &work.turn {
            Some((_, own)) => lane.is_none_or(|lane| lane == *own),
            None => false,
        };
        let oldest = self.issued.iter().find(holds)?;
        Some((oldest.record.submitted_ns, oldest.end.clone()?))
    }

    /// Marks the end of what is queued so far; without success it is tried again when needed.
    fn mark_end(&mut self, tools: &Tools, stream: StreamId) -> Option<Arc<Mark>> {
        let mark = tools.marks.record(stream).ok()?;
        self.issued.back_mut()?.end = Some(Arc::clone(&mark));
        self.unmarked = 0;
        Some(mark)
    }

    /// A mark that is reached once this work, if it is queued, is over.
    pub fn covering_mark(
        &mut self,
        tools: &Tools,
        stream: StreamId,
        sequence: u64,
    ) -> Option<Arc<Mark>> {
        let covering = self
            .issued
            .iter()
            .filter(|work| work.sequence >= sequence)
            .find_map(|work| work.end.clone());
        covering.or_else(|| self.mark_end(tools, stream))
    }

    /// The number of the oldest work in flight.
    pub fn oldest(&self) -> Option<u64> {
        self.issued.front().map(|work| work.sequence)
    }

    /// Takes in work that is over.
    pub fn take_in(&mut self, tools: &Tools, stream: StreamId) {
        loop {
            let marked = self.issued.iter().position(|work| work.end.is_some());
            let Some(position) = marked else {
                return;
            };
            let reached = match &self.issued[position].end {
                Some(mark) => mark.is_reached(),
                None => return,
            };
            match reached {
                Ok(false) => return,
                Ok(true) => {
                    for work in self.issued.drain(..=position) {
                        work.finish(tools);
                    }
                }
                Err(error) => return self.fail(tools, stream, error),
            }
        }
    }

    /// The device failed the stream: nothing queued or waiting will be done.
    ///
    /// What is submitted from here on runs again, unless the device itself has ended.
    pub fn fail(&mut self, tools: &Tools, stream: StreamId, source: BackendError) {
        let first = self.issued.front();
        let recovers = matches!(source, BackendError::Asynchronous { .. });
        let error = match first {
            Some(work) => failed(&work.record.name, work.graph.as_deref(), stream, source),
            None => source.into(),
        };
        let waiting = self.waiting.front().map(|work| work.sequence);
        let oldest = first.map(|work| work.sequence).or(waiting);
        for mut work in self.issued.drain(..) {
            work.record.failure = Some(error.code());
            tools.recorder.push(work.record);
        }
        for work in self.waiting.drain(..) {
            tools.recorder.push(work.record(&error));
        }
        self.unmarked = 0;
        self.remember(tools, oldest.unwrap_or(self.next), error.clone());
        match recovers && tools.backend.recover_stream(stream).is_ok() {
            true => self.unheard = Some(error),
            false => self.dead = Some(error),
        }
    }
}

/// The error and the record of work that the device refused.
fn unissued(request: &WorkRequest, submitted_ns: u64, source: BackendError) -> Box<Unissued> {
    let stream = request.stream;
    let graph = match &request.work {
        Work::Graph(graph) => Some(&**graph),
        _ => None,
    };
    let error = match source {
        // The processor's default stream does the work in the call that queues it.
        BackendError::Asynchronous { .. } => failed(&request.name, graph, stream, source),
        source => DispatchError::Refused {
            name: request.name.to_string(),
            stream,
            source,
        },
    };
    Box::new(Unissued {
        record: record(request, submitted_ns, Some(error.code())),
        error,
    })
}

impl Issued {
    /// Writes the record and lets go of the turn, at once or once its cost is known.
    fn finish(mut self, tools: &Tools) {
        if let (Some((anchor, start)), Some(end)) = (&self.start, &self.end) {
            self.record.span = anchor.span(start, end);
        }
        let (span, task) = (self.record.span, self.record.task);
        let name = self.turn.is_some().then(|| Arc::clone(&self.record.name));
        tools.recorder.push(self.record);
        if let (Some((turn, Lane::Compute)), Some(span), Some(task), Some(name)) =
            (self.turn, span, task, name)
        {
            tools.meter.add(span, turn, (task, name));
        }
    }
}
