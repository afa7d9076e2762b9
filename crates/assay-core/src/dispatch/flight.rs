//! One stream as seen from the host: the work queued on the device, and how it is taken in.

use super::error::DispatchError;
use super::mark::{Mark, MarkPool};
use super::meter::Meter;
use super::options::{DispatchOptions, MARK_EVERY, Timing};
use super::queue::{Gate, StreamBooks, Waiting};
use super::record::{Recorder, WorkRecord};
use super::timeline::{Anchor, Timeline};
use super::work::{Work, WorkRequest};
use crate::backend::{Backend, BackendError, StreamId};
use crate::scheduler::{Lane, Turn};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Work queued on the device.
pub(super) struct Issued {
    pub sequence: u64,
    request: WorkRequest,
    submitted_ns: u64,
    start: Option<(Arc<Anchor>, Arc<Mark>)>,
    end: Option<Arc<Mark>>,
    turn: Option<Turn>,
}

/// What a stream needs of the controller to queue work and take it in.
pub(super) struct Tools {
    pub backend: Arc<dyn Backend>,
    pub marks: Arc<MarkPool>,
    pub timeline: Option<Timeline>,
    pub recorder: Arc<Recorder>,
    pub meter: Meter,
    pub options: DispatchOptions,
    /// How often work failed on any stream, so that nobody looks for failures without need.
    pub failures: AtomicU64,
}

/// The name of the work that failed: of the piece, where it was a graph.
fn failed_name(request: &WorkRequest, source: &BackendError) -> String {
    match (source, &request.work) {
        (
            BackendError::Asynchronous {
                node: Some(node), ..
            },
            Work::Graph(graph),
        ) => match graph.nodes().get(*node as usize) {
            Some(piece) => format!("{}: {}", request.name, piece.name),
            None => request.name.to_string(),
        },
        _ => request.name.to_string(),
    }
}

/// What is told of work that failed on a stream, or that came after such work of another.
fn failed(request: &WorkRequest, stream: StreamId, source: BackendError) -> DispatchError {
    match source {
        BackendError::Asynchronous { stream: origin, .. } if origin != stream => {
            DispatchError::DependencyFailed {
                name: request.name.to_string(),
                source: Box::new(source.into()),
            }
        }
        source => DispatchError::StreamFailed {
            name: failed_name(request, &source),
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

    /// Queues work on the device, after the marks of other streams.
    pub fn issue(&mut self, tools: &Tools, work: Waiting) -> Result<(), DispatchError> {
        let stream = work.request.stream;
        // The processor's default stream does the work in the call that queues it.
        let refused = |source: BackendError| match source {
            BackendError::Asynchronous { .. } => failed(&work.request, stream, source),
            source => DispatchError::Refused {
                name: work.request.name.to_string(),
                stream,
                source,
            },
        };
        for mark in &work.marks {
            mark.hold(stream).map_err(refused)?;
        }
        let turn = match work.gate {
            Gate::Granted(turn) => Some(turn),
            _ => None,
        };
        // A record without a time is better than work that failed for want of one.
        let start = tools.timeline.as_ref().and_then(|timeline| {
            let anchor = timeline.anchor().ok()?;
            Some((anchor, tools.marks.record(stream).ok()?))
        });
        work.request
            .work
            .enqueue(&*tools.backend, stream)
            .map_err(refused)?;
        self.unmarked += 1;
        let wanted = tools.options.timing == Timing::Full
            || turn.is_some()
            || self.unmarked >= MARK_EVERY
            || self.issued.len() + 1 >= tools.options.in_flight;
        self.issued.push_back(Issued {
            sequence: work.sequence,
            request: work.request,
            submitted_ns: work.submitted_ns,
            start,
            end: None,
            turn,
        });
        if wanted {
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
        let holds = |work: &&Issued| {
            let own = work.request.work.cost(work.request.cost_ns);
            work.turn.is_some() && lane.is_none_or(|lane| own.is_some_and(|(own, _)| own == lane))
        };
        let oldest = self.issued.iter().find(holds)?;
        Some((oldest.submitted_ns, oldest.end.clone()?))
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
            Some(work) => failed(&work.request, stream, source),
            None => source.into(),
        };
        let waiting = self.waiting.front().map(|work| work.sequence);
        let oldest = first.map(|work| work.sequence).or(waiting);
        for work in self.issued.drain(..) {
            let failure = Some(error.code());
            let failed = record(&work.request, work.submitted_ns, failure);
            tools.recorder.push(failed);
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

impl Issued {
    /// Writes the record and lets go of the turn, at once or once its cost is known.
    fn finish(self, tools: &Tools) {
        let span = match (&self.start, &self.end) {
            (Some((anchor, start)), Some(end)) => anchor.span(start, end),
            _ => None,
        };
        let mut finished = record(&self.request, self.submitted_ns, None);
        finished.span = span;
        tools.recorder.push(finished);
        let cost = self.request.work.cost(self.request.cost_ns);
        let task = self.request.task.as_ref().map(|task| task.id());
        match (self.turn, span, cost, task) {
            (Some(turn), Some(span), Some((Lane::Compute, _)), Some(task)) => {
                tools.meter.add(span, turn, (task, self.request.name));
            }
            (turn, ..) => drop(turn),
        }
    }
}
