//! The concurrent replay of a graph's branches.
//!
//! A graph that was captured on one stream is one piece of work. Of several branches each gets a
//! stream of its own, which callers cannot name; workers and waiting threads run their nodes in the
//! order of the records and waits that were captured. A branch that waits, for a delay or for
//! memory, leaves its core to the others; a kernel that finds the thread pool busy with one of
//! another branch runs in its own thread.

use super::branch_times::ReplayTimes;
use super::graph::Step;
use super::shared::Shared;
use super::state::{NodeOf, Queued, State, StoredGraph};
use assay_runtime::backend::{BackendError, Result, StreamId};
use assay_runtime::streams::{Command, DEFAULT_STREAM};
use assay_runtime::trace;
use std::sync::{Arc, MutexGuard};

impl Shared {
    /// Queues the branches of a graph behind the work of a stream, which goes on behind them.
    pub(super) fn submit_branches<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        stream: StreamId,
        stored: &StoredGraph,
    ) -> Result<()> {
        if stream == DEFAULT_STREAM {
            state = self.run_until(state, |state| state.streams.is_stream_idle(stream));
            // The failure of an event it waited for: reported once, then the stream goes on.
            if let Some(failure) = state.streams.take_failure(stream) {
                return Err(failure.into());
            }
        }
        self.enqueue_branches(&mut state, stream, stored);
        self.progress(state, stream);
        if stream != DEFAULT_STREAM {
            return Ok(());
        }
        // As of other work there: a failure is returned by this call and does not fail the stream.
        match self.lock().streams.take_failure(stream) {
            Some(failure) => Err(BackendError::from(failure)),
            None => Ok(()),
        }
    }

    fn enqueue_branches(&self, state: &mut State, stream: StreamId, stored: &StoredGraph) {
        let (graph, branch_streams) = (&stored.graph, &stored.branch_streams);
        let ticket = trace::current_ticket();
        let is_traced = ticket != 0 && self.trace.is_on();
        let times = is_traced.then(|| Arc::new(ReplayTimes::new(ticket, graph.works.len())));
        let streams = &mut state.streams;
        let tickets: Vec<u64> = (0..graph.records).map(|_| streams.new_ticket()).collect();
        let (start, end) = (streams.new_ticket(), streams.new_ticket());
        let record = |ticket| Command::Record { ticket, event: None };
        streams.enqueue(stream, record(start));
        for branch in branch_streams.iter() {
            // A replay that failed does not fail the next one.
            if streams.is_stream_idle(*branch) {
                streams.take_failure(*branch);
            }
            streams.enqueue(*branch, Command::Wait { ticket: start });
        }
        for (branch, step) in &graph.steps {
            let Some(target) = branch_streams.get(*branch) else {
                continue;
            };
            let command = match *step {
                Step::Node(index) => Command::Work(Queued {
                    work: graph.works[index as usize].clone(),
                    ticket: 0,
                    node: Some(NodeOf { index, launched_on: stream, times: times.clone() }),
                }),
                Step::Record(index) => record(tickets[index]),
                Step::Wait(index) => Command::Wait { ticket: tickets[index] },
            };
            streams.enqueue(*target, command);
        }
        // The first branch has joined all others.
        if let Some(first) = branch_streams.first() {
            streams.enqueue(*first, record(end));
            streams.enqueue(stream, Command::Wait { ticket: end });
        }
    }
}
