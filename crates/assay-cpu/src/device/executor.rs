//! Runs queued work, in workers and in waiting threads.

use super::kernel::{CpuKernel, KernelCall};
use super::shared::Shared;
use super::state::{NodeOf, Queued, State, Work};
use super::transfers;
use assay_runtime::backend::{BackendError, KernelId, Launch, Operation, Result, StreamId};
use assay_runtime::clock::Clock;
use assay_runtime::streams::{Command, DEFAULT_STREAM, StreamFailure};
use assay_runtime::trace;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};

thread_local! {
    /// The times of the graph that this thread replays; kept, so that no replay allocates.
    static TIMES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    pub fn kernel(&self, kernel: KernelId) -> Result<Arc<CpuKernel>> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        let found = kernels.get(&kernel).cloned();
        found.ok_or(BackendError::UnknownKernel { kernel })
    }

    /// The loop of a worker thread.
    pub fn worker_loop(&self) {
        let mut state = self.lock();
        while !state.shut_down {
            state.streams.settle(self.clock.now_ns());
            // The threads that queue work on the default stream run it.
            state = match state.streams.take_ready(|stream, _| stream != DEFAULT_STREAM) {
                Some(ready) => self.run(state, ready.stream, &ready.work),
                None => self.wait_for_work(state),
            };
        }
    }

    /// Runs queued work until `reached` holds.
    pub fn run_until<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        reached: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        loop {
            state.streams.settle(self.clock.now_ns());
            if reached(&state) {
                return state;
            }
            state = match state.streams.take_ready(|_, _| true) {
                Some(ready) => self.run(state, ready.stream, &ready.work),
                None => self.wait(state),
            };
        }
    }

    /// Runs one operation outside the lock.
    fn run<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        stream: StreamId,
        queued: &Queued,
    ) -> MutexGuard<'a, State> {
        drop(state);
        let failure = self.perform_queued(stream, queued).err();
        self.finish(stream, failure)
    }

    fn finish(&self, stream: StreamId, failure: Option<StreamFailure>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.streams.finish(stream, failure);
        state.streams.settle(self.clock.now_ns());
        self.wake(&state);
        state
    }

    /// Queues work; on the default stream runs it at once.
    pub fn submit(
        &self,
        mut state: MutexGuard<'_, State>,
        stream: StreamId,
        work: Work,
    ) -> Result<()> {
        let operation = work.operation();
        let queued = Queued { work, ticket: trace::current_ticket(), node: None };
        let Some(queued) = state.streams.capture_work(operation, stream, queued)? else {
            return Ok(());
        };
        if stream == DEFAULT_STREAM {
            return self.run_inline(state, &queued);
        }
        state.streams.enqueue(stream, Command::Work(queued));
        self.progress(state, stream);
        Ok(())
    }

    /// Runs work of the default stream in this thread. A failure is returned by this call and does not
    /// fail the stream.
    fn run_inline(&self, state: MutexGuard<'_, State>, queued: &Queued) -> Result<()> {
        let stream = DEFAULT_STREAM;
        let mut state = self.run_until(state, |state| state.streams.is_stream_idle(stream));
        // The failure of an event it waited for: reported once, then the stream goes on.
        if let Some(failure) = state.streams.take_failure(stream) {
            return Err(failure.into());
        }
        state.streams.start(stream);
        drop(state);
        let outcome = self.perform_queued(stream, queued);
        drop(self.finish(stream, None));
        outcome.map_err(BackendError::from)
    }

    /// Wakes workers for queued work; work of the default stream runs here.
    pub fn progress(&self, state: MutexGuard<'_, State>, stream: StreamId) {
        if stream == DEFAULT_STREAM {
            let idle = self.run_until(state, |state| state.streams.is_stream_idle(stream));
            self.wake(&idle);
        } else {
            self.wake(&state);
        }
    }

    /// Runs the work, and keeps when its launches ran where a trace is captured.
    fn perform_queued(
        &self,
        stream: StreamId,
        queued: &Queued,
    ) -> std::result::Result<(), StreamFailure> {
        if let Some(node) = &queued.node {
            return self.perform_node(node, &queued.work);
        }
        if queued.ticket == 0 || !self.trace.is_on() {
            return self.perform(stream, &queued.work);
        }
        // Taken, not borrowed: a kernel may call a host function, which queues work of its own.
        let mut times = TIMES.take();
        times.clear();
        times.push(self.clock.now_ns());
        let outcome = match &queued.work {
            Work::Graph(graph) => self.perform_nodes(stream, &graph.works, |_| {
                times.push(self.clock.now_ns());
            }),
            work => {
                let outcome = self.perform(stream, work);
                times.push(self.clock.now_ns());
                outcome
            }
        };
        self.trace.push(queued.ticket, &times);
        TIMES.set(times);
        outcome
    }

    /// Runs the nodes of a graph in order, and calls `ended` after each.
    fn perform_nodes(
        &self,
        stream: StreamId,
        works: &[Work],
        mut ended: impl FnMut(u32),
    ) -> std::result::Result<(), StreamFailure> {
        for (node, work) in (0..).zip(works) {
            self.perform(stream, work)
                .map_err(|failure| StreamFailure { node: Some(node), ..failure })?;
            ended(node);
        }
        Ok(())
    }

    /// Runs a node of a branch, and keeps when it ran where a trace is captured.
    fn perform_node(&self, node: &NodeOf, work: &Work) -> std::result::Result<(), StreamFailure> {
        let start_ns = self.clock.now_ns();
        let outcome = self.perform(node.launched_on, work);
        if let Some(times) = &node.times {
            times.keep(&self.trace, node.index, start_ns, self.clock.now_ns());
        }
        outcome.map_err(|failure| StreamFailure { node: Some(node.index), ..failure })
    }

    /// Runs the work; a failure names the node of a graph.
    fn perform(&self, stream: StreamId, work: &Work) -> std::result::Result<(), StreamFailure> {
        let outcome = match work {
            Work::Copy { source, destination, bytes } => {
                transfers::copy(&self.memory, *source, *destination, *bytes)
            }
            Work::Fill { destination, value, bytes } => {
                transfers::fill(&self.memory, *destination, *value, *bytes)
            }
            Work::Launch(launch) => self.call(launch),
            Work::Graph(graph) => return self.perform_nodes(stream, &graph.works, |_| ()),
        };
        outcome.map_err(|error| StreamFailure {
            operation: work.operation(),
            stream,
            node: None,
            message: error.into_message().into(),
        })
    }

    fn call(&self, launch: &Launch) -> Result<()> {
        let kernel = self.kernel(launch.kernel)?;
        let call = KernelCall { launch, memory: &self.memory };
        // A panic fails its stream, not the thread that runs it.
        let outcome = catch_unwind(AssertUnwindSafe(|| (kernel.body)(&call)));
        outcome.unwrap_or_else(|panic| {
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("without a message");
            Err(BackendError::Driver {
                operation: Operation::Launch,
                message: format!("{} panicked: {message}", kernel.name),
            })
        })
    }
}
