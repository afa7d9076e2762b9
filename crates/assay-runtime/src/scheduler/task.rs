//! A task in its owner's hands. Dropping it ends it, on every path.

use super::Scheduler;
use super::driver::Driver;
use super::error::SchedulerError;
use super::lane::Lane;
use super::life::TaskState;
use super::lives::Holding;
use super::options::TaskId;
use super::record::Reason;
use super::shared::{Outlook, Shared};
use super::snapshot::TaskSnapshot;
use super::ticket::{Ticket, Turn};
use std::fmt;
use std::sync::Arc;

/// A task. Its life ends with this value at the latest: cancelled, or failed if a panic drops it.
///
/// What it reserved is released when it has ended and its last turn is over, because work under
/// way still uses the memory.
///
/// ```
/// use assay_runtime::clock::VirtualClock;
/// use assay_runtime::scheduler::{Lane, PerLane, Scheduler, SchedulerOptions, TaskOptions, TaskState};
/// use std::sync::Arc;
/// let rates = PerLane { compute: 1_000_000_000, upload: 25_000_000_000, download: 25_000_000_000 };
/// let options = SchedulerOptions::new(16 << 30, rates);
/// let whole = options.whole_device("whole");
/// let scheduler = Scheduler::new(options, Arc::new(VirtualClock::new()))?;
/// let partition = scheduler.add_partition(whole)?;
/// let task = scheduler.submit(TaskOptions::new("training", partition))?;
/// task.start()?;
/// let turn = task.turn(Lane::Compute, 50_000)?;
/// turn.end_measured(48_000);
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

    /// Its number.
    pub fn id(&self) -> TaskId {
        TaskId(self.key)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything known of it.
    pub fn snapshot(&self) -> Result<TaskSnapshot, SchedulerError> {
        let unknown = SchedulerError::UnknownTask { task: self.id() };
        self.shared
            .with(|books| books.task_snapshot(self.key))?
            .ok_or(unknown)
    }

    /// Where it stands.
    pub fn state(&self) -> Result<TaskState, SchedulerError> {
        let unknown = SchedulerError::UnknownTask { task: self.id() };
        self.shared
            .with(|books| books.tasks.get(self.key).map(|task| task.state))?
            .ok_or(unknown)
    }

    /// Blocks until it has its reservations, or has ended.
    pub fn wait_admitted(&self) -> Result<(), SchedulerError> {
        self.shared.wait(|books| {
            let Some(task) = books.tasks.get(self.key) else {
                return Outlook::Ready(Err(SchedulerError::UnknownTask { task: self.id() }));
            };
            match task.state {
                TaskState::Pending => {}
                state if state.is_final() => return Outlook::Ready(Err(books.ended(self.key))),
                _ => return Outlook::Ready(Ok(())),
            }
            let partition = task.options.partition;
            let deadline = task.options.deadline.map(|deadline| deadline.instant_ns);
            let memory = books
                .partition(partition)
                .and_then(|partition| partition.options.memory.as_ref());
            if memory.is_some() {
                // A memory source does not say when memory comes back, so it is asked again.
                books.admit(partition);
                return Outlook::At(u64::MAX);
            }
            deadline.map_or(Outlook::OnChange(None), Outlook::At)
        })?
    }

    /// Lets it ask for turns; it must be admitted.
    pub fn start(&self) -> Result<(), SchedulerError> {
        self.shared.with(|books| books.start(self.key))?
    }

    /// Stops its turns; those under way go on to their end.
    pub fn pause(&self, holding: Holding) -> Result<(), SchedulerError> {
        self.shared.with(|books| books.pause(self.key, holding))?
    }

    /// Lets it go on, and says in which state it is now.
    ///
    /// If it gave its reservations back it is pending or admitted and must be started again.
    pub fn resume(&self) -> Result<TaskState, SchedulerError> {
        self.shared.with(|books| books.resume(self.key))?
    }

    /// Ends it well; turns still waiting are refused.
    pub fn finish(&self) -> Result<(), SchedulerError> {
        self.end(TaskState::Done, Reason::Asked)
    }

    /// Ends it with an error.
    pub fn fail(&self, message: &str) -> Result<(), SchedulerError> {
        self.shared.with(|books| {
            books.end(self.key, TaskState::Failed, Reason::Reported)?;
            if let Some(task) = books.tasks.get_mut(self.key) {
                task.message = Some(message.to_owned());
            }
            Ok(())
        })?
    }

    /// Ends it because it is no longer wanted.
    pub fn cancel(&self) -> Result<(), SchedulerError> {
        self.end(TaskState::Cancelled, Reason::Asked)
    }

    fn end(&self, to: TaskState, reason: Reason) -> Result<(), SchedulerError> {
        self.shared.with(|books| books.end(self.key, to, reason))?
    }

    /// Asks for a turn of this many units in a lane, without waiting for it.
    pub fn ask(&self, lane: Lane, units: u64) -> Result<Ticket, SchedulerError> {
        if units == 0 {
            return Err(SchedulerError::InvalidOption {
                name: "units of a turn",
                expected: "at least 1",
                got: 0,
            });
        }
        let (key, granted) = self.shared.with(|books| {
            let key = books.ask(self.key, lane, units)?;
            Ok((key, books.is_granted(key)))
        })??;
        Ok(Ticket::new(Arc::clone(&self.shared), key, granted))
    }

    /// Asks for a turn and blocks until it comes.
    pub fn turn(&self, lane: Lane, units: u64) -> Result<Turn, SchedulerError> {
        self.ask(lane, units)?.wait()
    }

    /// Waits for admission, runs `work`, and ends the task by how that went.
    pub fn run<T, E: fmt::Display>(
        self,
        work: impl FnOnce(&Task) -> Result<T, E>,
    ) -> Result<Result<T, E>, SchedulerError> {
        self.wait_admitted()?;
        self.start()?;
        let outcome = work(&self);
        // Someone else may have cancelled it meanwhile, or a deadline failed it.
        if !self.state()?.is_final() {
            match &outcome {
                Ok(_) => self.finish()?,
                Err(error) => self.fail(&error.to_string())?,
            }
        }
        Ok(outcome)
    }

    /// Names someone who will hold this task's turns while work runs on the device.
    ///
    /// Threads that wait for turns of the same scheduler move it on.
    pub fn add_driver(&self, driver: &Arc<dyn Driver>) {
        self.shared.add_driver(driver);
    }

    /// Whether this task belongs to that scheduler.
    pub fn belongs_to(&self, scheduler: &Scheduler) -> bool {
        Arc::ptr_eq(&self.shared, scheduler.shared())
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
        self.shared
            .with_always(|books| books.drop_task(self.key, panicking));
    }
}
