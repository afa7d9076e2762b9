//! Taking work from the queues and doing it, in workers and in threads that wait.

use super::kernel::{CpuKernel, KernelCall};
use super::queue::{Failure, State, Work};
use super::{DEFAULT_STREAM, Shared, copying};
use assay_runtime::backend::{BackendError, KernelId, Launch, Operation, Result, StreamId};
use assay_runtime::clock::Clock;
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
        while !state.ends {
            state.settle(self.clock.now_ns());
            // The default stream's work belongs to the threads that queue it.
            state = match state.take_ready(|stream| stream != DEFAULT_STREAM) {
                Some((stream, work)) => self.run(state, stream, &work),
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
            state.settle(self.clock.now_ns());
            if reached(&state) {
                return state;
            }
            state = match state.take_ready(|_| true) {
                Some((stream, work)) => self.run(state, stream, &work),
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

    fn finish(&self, stream: StreamId, failure: Option<Failure>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.finish(stream, failure, self.clock.now_ns());
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
        if state.capture_work(stream, &work)? {
            return Ok(());
        }
        if stream == DEFAULT_STREAM {
            return self.run_inline(state, &work);
        }
        state.enqueue(stream, super::queue::Command::Work(work));
        self.progress(state, stream);
        Ok(())
    }

    /// Does work of the default stream in this thread; a failure is this call's, so the stream
    /// itself does not fail.
    fn run_inline(&self, state: MutexGuard<'_, State>, work: &Work) -> Result<()> {
        let stream = DEFAULT_STREAM;
        let mut state = self.run_until(state, |state| state.is_stream_idle(stream));
        let found = state.stream(work.operation(), stream)?;
        // What it waited for failed: nothing else comes after that, so it is told and over.
        if let Some(failure) = found.failure.take() {
            return Err(failure.into());
        }
        found.running = true;
        drop(state);
        let outcome = self.perform(stream, work);
        drop(self.finish(stream, None));
        outcome.map_err(BackendError::from)
    }

    /// Wakes workers for what was queued; the default stream is served here and now.
    pub fn progress(&self, state: MutexGuard<'_, State>, stream: StreamId) {
        if stream == DEFAULT_STREAM {
            let idle = self.run_until(state, |state| state.is_stream_idle(stream));
            self.wake(&idle);
        } else {
            self.wake(&state);
        }
    }

    /// Does the work, or tells what went wrong and at which piece of a graph.
    fn perform(&self, stream: StreamId, work: &Work) -> std::result::Result<(), Failure> {
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
                    self.perform(stream, work).map_err(|failure| Failure {
                        node: Some(node),
                        ..failure
                    })?;
                }
                Ok(())
            }
        };
        outcome.map_err(|error| Failure {
            operation: work.operation(),
            stream,
            node: None,
            message: error.into_words().into(),
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
