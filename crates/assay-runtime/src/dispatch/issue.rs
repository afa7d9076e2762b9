//! Issue of work to the device, and retirement of completed work.

use super::context::DispatchContext;
use super::event_pool::TimingEvent;
use super::in_flight::{InFlightWork, RejectedWork};
use super::options::{DispatchOptions, EVENT_INTERVAL, Timing};
use super::stream_state::{Blocked, StreamState};
use super::waiting_work::{GrantGate, WaitingWork};
use super::work::{Work, WorkRequest};
use crate::backend::{BackendError, StreamId};
use crate::scheduler::{Grant, Lane};
use std::sync::Arc;

impl StreamState {
    pub fn has_capacity(&self, options: &DispatchOptions) -> bool {
        self.in_flight.len() < options.in_flight
    }

    /// Whether work without dependencies and without a task can be issued now.
    pub fn can_issue_now(&self, options: &DispatchOptions) -> bool {
        self.fatal_error.is_none()
            && self.unreported_rejection.is_none()
            && self.capture.is_none()
            && self.waiting.is_empty()
            && self.has_capacity(options)
    }

    /// Issues waiting work until something blocks it, and returns what does.
    pub fn issue_waiting(&mut self, context: &DispatchContext, stream: StreamId) -> Blocked {
        loop {
            self.retire(context, stream);
            let has_capacity = self.has_capacity(&context.options);
            let Some(first) = self.waiting.front_mut() else {
                return Blocked::Nothing;
            };
            if !first.unresolved.is_empty() {
                return Blocked::Dependencies(first.sequence, first.unresolved.clone());
            }
            if let Err(error) = first.poll_grant() {
                self.fail_head(context, error);
                continue;
            }
            self.request_grants_ahead();
            let Some(first) = self.waiting.front() else {
                return Blocked::Nothing;
            };
            if !first.gate.is_open() {
                return Blocked::Grant;
            }
            if !has_capacity {
                return Blocked::InFlight;
            }
            let Some(work) = self.waiting.pop_front() else {
                return Blocked::Nothing;
            };
            let sequence = work.sequence;
            if let Err(rejected) = self.issue(context, work) {
                self.fail_waiting(context, sequence, rejected.record, rejected.error);
            }
        }
    }

    /// Issues work whose grant is open, after the events of other streams.
    pub fn issue(
        &mut self,
        context: &DispatchContext,
        work: WaitingWork,
    ) -> Result<(), Box<RejectedWork>> {
        let stream = work.request.stream;
        let mut dependencies = work.dependencies.iter();
        if let Err(source) = dependencies.try_for_each(|event| event.stream_wait(stream)) {
            return Err(RejectedWork::new(&work.request, work.submitted_ns, source));
        }
        let grant = match work.gate {
            GrantGate::Granted(grant) => Some(grant),
            _ => None,
        };
        self.enqueue(context, work.sequence, work.request, work.submitted_ns, grant)
    }

    /// Queues work on the device.
    pub fn enqueue(
        &mut self,
        context: &DispatchContext,
        sequence: u64,
        request: WorkRequest,
        submitted_ns: u64,
        grant: Option<Grant>,
    ) -> Result<(), Box<RejectedWork>> {
        let stream = request.stream;
        // Work that a task is charged for is always timed.
        let timed = context.options.timing == Timing::Full || grant.is_some();
        let start = timed.then(|| context.record_start(stream)).flatten();
        let ticket = context.trace.ticket();
        let queued = match ticket {
            0 => request.work.enqueue(&*context.backend, stream),
            _ => super::tracing::enqueue(context, ticket, &request),
        };
        if let Err(source) = queued {
            return Err(RejectedWork::new(&request, submitted_ns, source));
        }
        self.since_last_event += 1;
        // A graph is a whole step: a wait for it must not become a wait for the step behind it.
        let records_end = timed
            || matches!(request.work, Work::Graph(_))
            || self.since_last_event >= EVENT_INTERVAL
            || self.in_flight.len() + 1 >= context.options.in_flight;
        let lane = request.work.cost(request.cost_ns).map(|(lane, _)| lane);
        self.in_flight.push_back(InFlightWork {
            sequence,
            record: request.record(submitted_ns, None),
            graph: match request.work {
                Work::Graph(graph) => Some(graph),
                _ => None,
            },
            start,
            end: None,
            grant: grant.zip(lane),
        });
        if records_end {
            self.record_end(context, stream);
        }
        Ok(())
    }

    /// Records an event after the work in flight; if that fails, it is retried when needed.
    fn record_end(
        &mut self,
        context: &DispatchContext,
        stream: StreamId,
    ) -> Option<Arc<TimingEvent>> {
        let event = context.events.record(stream).ok()?;
        self.in_flight.back_mut()?.end = Some(Arc::clone(&event));
        self.since_last_event = 0;
        Some(event)
    }

    /// Ensures that an event follows all work in flight; false if the device fails.
    pub fn ensure_end_event(&mut self, context: &DispatchContext, stream: StreamId) -> bool {
        match self.in_flight.back() {
            Some(last) if last.end.is_none() => self.record_end(context, stream).is_some(),
            _ => true,
        }
    }

    /// An event that completes no earlier than this work, if it is in flight.
    pub fn completion_event(
        &mut self,
        context: &DispatchContext,
        stream: StreamId,
        sequence: u64,
    ) -> Option<Arc<TimingEvent>> {
        let later = self
            .in_flight
            .iter()
            .filter(|work| work.sequence >= sequence)
            .find_map(|work| work.end.clone());
        later.or_else(|| self.record_end(context, stream))
    }

    /// Whether work in flight holds a grant.
    pub fn holds_grants(&self) -> bool {
        self.in_flight.iter().any(|work| work.grant.is_some())
    }

    /// Submission time and event of the oldest work that holds a grant in this lane, or in any.
    pub fn oldest_grant_event(&self, lane: Option<Lane>) -> Option<(u64, Arc<TimingEvent>)> {
        let holds = |work: &&InFlightWork| match &work.grant {
            Some((_, own)) => lane.is_none_or(|lane| lane == *own),
            None => false,
        };
        let oldest = self.in_flight.iter().find(holds)?;
        Some((oldest.record.submitted_ns, oldest.end.clone()?))
    }

    /// Retires work that has completed.
    pub fn retire(&mut self, context: &DispatchContext, stream: StreamId) {
        loop {
            let with_event = self.in_flight.iter().position(|work| work.end.is_some());
            let Some(position) = with_event else {
                return;
            };
            let complete = match &self.in_flight[position].end {
                Some(event) => event.is_complete(),
                None => return,
            };
            match complete {
                Ok(false) => return,
                Ok(true) => {
                    for work in self.in_flight.drain(..=position) {
                        work.complete(context);
                    }
                }
                Err(error) => return self.fail(context, stream, error),
            }
        }
    }

    /// Retires everything up to this number, which is known to have completed.
    pub fn retire_through(&mut self, context: &DispatchContext, sequence: u64) {
        let completed = self.in_flight.iter().take_while(|work| work.sequence <= sequence).count();
        for work in self.in_flight.drain(..completed) {
            work.complete(context);
        }
    }

    /// Fails all work in flight and waiting after the device failed the stream.
    ///
    /// The stream is recovered for later work, unless the device itself has ended.
    pub fn fail(&mut self, context: &DispatchContext, stream: StreamId, source: BackendError) {
        let first = self.in_flight.front();
        let recoverable = matches!(source, BackendError::Asynchronous { .. });
        let error = match first {
            Some(work) => work.failure(stream, source),
            None => source.into(),
        };
        let waiting = self.waiting.front().map(|work| work.sequence);
        let oldest = first.map(|work| work.sequence).or(waiting);
        for mut work in self.in_flight.drain(..) {
            work.record.failure = Some(error.code());
            context.recorder.push(work.record);
        }
        for work in self.waiting.drain(..) {
            context.recorder.push(work.record(&error));
        }
        self.since_last_event = 0;
        self.record_failure(context, oldest.unwrap_or(self.next_sequence), error.clone());
        match recoverable && context.backend.recover_stream(stream).is_ok() {
            true => self.unreported_failure = Some(error),
            false => self.fatal_error = Some(error),
        }
    }
}
