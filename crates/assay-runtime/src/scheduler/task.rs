//! The owner's handle of a task. Dropping it ends the task, on every path.

use super::decision::Reason;
use super::error::SchedulerError;
use super::grant::{Grant, PendingGrant};
use super::ids::TaskId;
use super::lane::Lane;
use super::lifecycle::PausePolicy;
use super::progress::ProgressEngine;
use super::shared::{Shared, WaitStatus};
use super::snapshot::TaskSnapshot;
use super::task_state::TaskState;
use std::fmt;
use std::sync::Arc;

/// A task. It ends with this value at the latest: cancelled, or failed if a panic drops it.
///
/// Its reservation is released when it has ended and its last grant has ended, because work in
/// flight still uses the memory.
///
/// ```
/// use assay_runtime::clock::VirtualClock;
/// use assay_runtime::scheduler::{Lane, PerLane, Scheduler, SchedulerOptions, TaskOptions, TaskState};
/// use std::sync::Arc;
/// let rates = PerLane { compute: 1_000_000_000, upload: 25_000_000_000, download: 25_000_000_000 };
/// let options = SchedulerOptions::new(16 << 30, rates);
/// let device = options.whole_device("device");
/// let scheduler = Scheduler::new(options, Arc::new(VirtualClock::new()))?;
/// let partition = scheduler.add_partition(device)?;
/// let task = scheduler.submit(TaskOptions::new("training", partition))?;
/// task.start()?;
/// let grant = task.request_grant(Lane::Compute, 50_000)?;
/// grant.end_measured(48_000);
/// task.finish()?;
/// assert_eq!(task.state()?, TaskState::Done);
/// # Ok::<(), assay_runtime::scheduler::SchedulerError>(())
/// ```
pub struct Task {
    shared: Arc<Shared>,
    key: u64,
    name: Arc<str>,
}

impl Task {
    pub(super) fn new(shared: Arc<Shared>, key: u64, name: Arc<str>) -> Self {
        Task { shared, key, name }
    }

    /// Its id.
    pub fn id(&self) -> TaskId {
        TaskId(self.key)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A snapshot of the task.
    pub fn snapshot(&self) -> Result<TaskSnapshot, SchedulerError> {
        let unknown = SchedulerError::UnknownTask { task: self.id() };
        self.shared.with(|state| state.task_snapshot(self.key))?.ok_or(unknown)
    }

    /// Its state.
    pub fn state(&self) -> Result<TaskState, SchedulerError> {
        let unknown = SchedulerError::UnknownTask { task: self.id() };
        self.shared.with(|state| state.tasks.get(self.key).map(|task| task.state))?.ok_or(unknown)
    }

    /// Blocks until it is admitted, or has ended.
    pub fn wait_admitted(&self) -> Result<(), SchedulerError> {
        self.shared.wait(|state| {
            let Some(task) = state.tasks.get(self.key) else {
                return WaitStatus::Ready(Err(SchedulerError::UnknownTask { task: self.id() }));
            };
            match task.state {
                TaskState::Pending => {}
                ended if ended.is_final() => {
                    return WaitStatus::Ready(Err(state.ended_error(self.key)));
                }
                _ => return WaitStatus::Ready(Ok(())),
            }
            let partition = task.options.partition;
            let memory =
                state.partition(partition).and_then(|partition| partition.options.memory.as_ref());
            if memory.is_some() {
                // A memory source does not notify of freed memory, so admission is retried.
                state.admit(partition);
                return WaitStatus::At(u64::MAX);
            }
            WaitStatus::OnChange(None)
        })?
    }

    /// Starts it; it must be admitted.
    pub fn start(&self) -> Result<(), SchedulerError> {
        self.shared.with(|state| state.start(self.key))?
    }

    /// Pauses it; grants in flight continue to their end.
    pub fn pause(&self, policy: PausePolicy) -> Result<(), SchedulerError> {
        self.shared.with(|state| state.pause(self.key, policy))?
    }

    /// Resumes it and returns its new state.
    ///
    /// If it released its reservation it is pending or admitted and must be started again.
    pub fn resume(&self) -> Result<TaskState, SchedulerError> {
        self.shared.with(|state| state.resume(self.key))?
    }

    /// Ends it successfully; waiting requests are refused.
    pub fn finish(&self) -> Result<(), SchedulerError> {
        self.end(TaskState::Done, Reason::Requested)
    }

    /// Ends it with an error.
    pub fn fail(&self, message: &str) -> Result<(), SchedulerError> {
        self.shared.with(|state| {
            state.end(self.key, TaskState::Failed, Reason::Reported)?;
            if let Some(task) = state.tasks.get_mut(self.key) {
                task.message = Some(message.to_owned());
            }
            Ok(())
        })?
    }

    /// Cancels it.
    pub fn cancel(&self) -> Result<(), SchedulerError> {
        self.end(TaskState::Cancelled, Reason::Requested)
    }

    fn end(&self, to: TaskState, reason: Reason) -> Result<(), SchedulerError> {
        self.shared.with(|state| state.end(self.key, to, reason))?
    }

    /// Requests a grant of this many units in a lane, without blocking.
    pub fn request(&self, lane: Lane, units: u64) -> Result<PendingGrant, SchedulerError> {
        if units == 0 {
            return Err(SchedulerError::InvalidOption {
                name: "units of a grant",
                expected: "at least 1",
                got: 0,
            });
        }
        let (key, granted) = self.shared.with(|state| {
            let key = state.request(self.key, lane, units)?;
            Ok((key, state.is_granted(key)))
        })??;
        Ok(PendingGrant::new(Arc::clone(&self.shared), key, granted))
    }

    /// Requests a grant and blocks until it is issued.
    pub fn request_grant(&self, lane: Lane, units: u64) -> Result<Grant, SchedulerError> {
        self.request(lane, units)?.wait()
    }

    /// Waits for admission, runs `work`, and ends the task by its result.
    pub fn run<T, E: fmt::Display>(
        self,
        work: impl FnOnce(&Task) -> Result<T, E>,
    ) -> Result<Result<T, E>, SchedulerError> {
        self.wait_admitted()?;
        self.start()?;
        let outcome = work(&self);
        // Another thread may have cancelled it meanwhile.
        if !self.state()?.is_final() {
            match &outcome {
                Ok(_) => self.finish()?,
                Err(error) => self.fail(&error.to_string())?,
            }
        }
        Ok(outcome)
    }

    /// Registers an engine that holds this task's grants while work runs on the device.
    ///
    /// Threads that wait for grants of the same scheduler make it progress.
    pub fn add_progress_engine(&self, engine: &Arc<dyn ProgressEngine>) {
        self.shared.add_progress_engine(engine);
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({}, {})", self.key, self.name)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let panicking = std::thread::panicking();
        self.shared.with_always(|state| state.drop_task(self.key, panicking));
    }
}
