//! Taking work from the queues and doing it, in workers and in threads that wait.

use super::kernel::{CpuKernel, KernelCall};
use super::queue::{State, Work};
use super::{DEFAULT_STREAM, Shared, copying};
use assay_core::backend::{BackendError, KernelId, Launch, Operation, Result, StreamId};
use assay_core::clock::Clock;
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
        let failed = self.perform(work).err();
        self.finish(stream, failed)
    }

    fn finish(&self, stream: StreamId, failed: Option<Operation>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.finish(stream, failed, self.clock.now_ns());
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
        if stream == DEFAULT_STREAM && state.is_stream_idle(stream) {
            let found = state.stream(work.operation(), stream)?;
            if let Some(failure) = found.failure {
                return Err(failure.into());
            }
            found.running = true;
            let _finished = self.run(state, stream, &work);
            return Ok(());
        }
        state.enqueue(stream, super::queue::Command::Work(work));
        self.progress(state, stream);
        Ok(())
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

    /// Gives the call that failed, if one did.
    fn perform(&self, work: &Work) -> std::result::Result<(), Operation> {
        match work {
            Work::Copy {
                source,
                destination,
                bytes,
            } => copying::copy(&self.memory, *source, *destination, *bytes)
                .map_err(|_| Operation::Copy),
            Work::Fill {
                destination,
                value,
                bytes,
            } => copying::fill(&self.memory, *destination, *value, *bytes)
                .map_err(|_| Operation::Fill),
            Work::Launch(launch) => self.call(launch).map_err(|_| Operation::Launch),
            Work::Graph(works) => works.iter().try_for_each(|work| self.perform(work)),
        }
    }

    fn call(&self, launch: &Launch) -> Result<()> {
        let kernel = self.kernel(launch.kernel)?;
        let call = KernelCall {
            launch,
            memory: &self.memory,
        };
        // A panic must fail its stream and not the worker, or the waiter, that met it.
        let outcome = catch_unwind(AssertUnwindSafe(|| (kernel.body)(&call)));
        outcome.unwrap_or_else(|_| {
            Err(BackendError::Driver {
                operation: Operation::Launch,
                message: format!("{} panicked", kernel.name),
            })
        })
    }
}
