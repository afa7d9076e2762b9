//! Taking work from the queues and doing it, in workers and in threads that wait.

use super::kernel::{CpuKernel, KernelCall};
use super::queue::{State, Work};
use super::{Shared, copying};
use assay_runtime::backend::{BackendError, KernelId, Launch, Operation, Result, StreamId};
use assay_runtime::clock::Clock;
use assay_runtime::streams::{Command, DEFAULT_STREAM, StreamFailure};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};

impl Shared {
    pub fn kernel(&self, kernel: KernelId) -> Result<Arc<CpuKernel>> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        let found = kernels.get(&kernel).cloned();
        found.ok_or(BackendError::UnknownKernel { kernel })
    }

    /// A worker's life.
    pub fn work_until_the_end(&self) {
        let mut state = self.lock();
        while !state.shut_down {
            state.streams.settle(self.clock.now_ns());
            // The default stream's work belongs to the threads that queue it.
            state = match state
                .streams
                .take_ready(|stream, _| stream != DEFAULT_STREAM)
            {
                Some(ready) => self.run(state, ready.stream, &ready.work),
                None => self.wait_for_work(state),
            };
        }
    }

    /// Takes part in the work until `reached` holds.
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

    /// Does one piece of work outside the lock.
    fn run<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        stream: StreamId,
        work: &Work,
    ) -> MutexGuard<'a, State> {
        drop(state);
        let failure = self.perform(stream, work).err();
        self.finish(stream, failure)
    }

    fn finish(&self, stream: StreamId, failure: Option<StreamFailure>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.streams.finish(stream, failure);
        state.streams.settle(self.clock.now_ns());
        self.wake(&state);
        state
    }

    /// Queues work, or does it at once on the default stream.
    pub fn submit(
        &self,
        mut state: MutexGuard<'_, State>,
        stream: StreamId,
        work: Work,
    ) -> Result<()> {
        let operation = work.operation();
        let Some(work) = state.streams.capture_work(operation, stream, work)? else {
            return Ok(());
        };
        if stream == DEFAULT_STREAM {
            return self.run_inline(state, &work);
        }
        state.streams.enqueue(stream, Command::Work(work));
        self.progress(state, stream);
        Ok(())
    }

    /// Does work of the default stream in this thread; a failure is this call's, so the stream
    /// itself does not fail.
    fn run_inline(&self, state: MutexGuard<'_, State>, work: &Work) -> Result<()> {
        let stream = DEFAULT_STREAM;
        let mut state = self.run_until(state, |state| state.streams.is_stream_idle(stream));
        // The failure of an event it waited for: reported once, then the stream goes on.
        if let Some(failure) = state.streams.take_failure(stream) {
            return Err(failure.into());
        }
        state.streams.start(stream);
        drop(state);
        let outcome = self.perform(stream, work);
        drop(self.finish(stream, None));
        outcome.map_err(BackendError::from)
    }

    /// Wakes workers for what was queued; the default stream is served here and now.
    pub fn progress(&self, state: MutexGuard<'_, State>, stream: StreamId) {
        if stream == DEFAULT_STREAM {
            let idle = self.run_until(state, |state| state.streams.is_stream_idle(stream));
            self.wake(&idle);
        } else {
            self.wake(&state);
        }
    }

    /// Does the work, or tells what went wrong and at which piece of a graph.
    fn perform(&self, stream: StreamId, work: &Work) -> std::result::Result<(), StreamFailure> {
        let outcome = match work {
            Work::Copy {
                source,
                destination,
                bytes,
            } => copying::copy(&self.memory, *source, *destination, *bytes),
            Work::Fill {
                destination,
                value,
                bytes,
            } => copying::fill(&self.memory, *destination, *value, *bytes),
            Work::Launch(launch) => self.call(launch),
            Work::Graph(works) => {
                for (node, work) in (0..).zip(works.iter()) {
                    self.perform(stream, work)
                        .map_err(|failure| StreamFailure {
                            node: Some(node),
                            ..failure
                        })?;
                }
                Ok(())
            }
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
        let call = KernelCall {
            launch,
            memory: &self.memory,
        };
        // A panic must fail its stream and not the worker, or the waiter, that met it.
        let outcome = catch_unwind(AssertUnwindSafe(|| (kernel.body)(&call)));
        outcome.unwrap_or_else(|panic| {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("without words");
            Err(BackendError::Driver {
                operation: Operation::Launch,
                message: format!("{} panicked: {said}", kernel.name),
            })
        })
    }
}
