//! The steps of a task's life, each leaving the books in order.

use super::books::{Books, TurnState};
use super::error::SchedulerError;
use super::lane::Lane;
use super::life::TaskState;
use super::options::{DeadlinePolicy, PartitionId, TaskId};
use super::record::{Action, Reason};

/// Whether a paused task keeps what it reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holding {
    /// It can go on at once.
    Keep,
    /// Others may have it once the last turn is over; going on needs admission again.
    Release,
}

impl Books {
    pub fn unknown(task: u64) -> SchedulerError {
        SchedulerError::UnknownTask { task: TaskId(task) }
    }

    /// The error that says how a task ended.
    pub fn ended(&self, task: u64) -> SchedulerError {
        match self.tasks.get(task) {
            Some(books) => SchedulerError::Ended {
                task: books.name.to_string(),
                state: books.state,
                reason: books.ended.unwrap_or(Reason::TaskEnded),
            },
            None => Self::unknown(task),
        }
    }

    /// Changes a task's state, or refuses the step.
    fn step(&mut self, task: u64, to: TaskState) -> Result<(), SchedulerError> {
        let books = self
            .tasks
            .get_mut(task)
            .ok_or_else(|| Self::unknown(task))?;
        if !books.state.allows(to) {
            return Err(SchedulerError::IllegalTransition {
                task: books.name.to_string(),
                from: books.state,
                to,
            });
        }
        books.state = to;
        self.changed = true;
        Ok(())
    }

    pub fn start(&mut self, task: u64) -> Result<(), SchedulerError> {
        match self.tasks.get(task).map(|books| books.state) {
            // A paused task is resumed, not started.
            Some(TaskState::Admitted) => {}
            Some(from) => {
                let name = self.tasks.get(task).map(|books| books.name.to_string());
                return Err(SchedulerError::IllegalTransition {
                    task: name.unwrap_or_default(),
                    from,
                    to: TaskState::Running,
                });
            }
            None => return Err(Self::unknown(task)),
        }
        self.step(task, TaskState::Running)?;
        self.note(task, Action::Start, Reason::Asked);
        self.rejoin(task);
        Ok(())
    }

    pub fn pause(&mut self, task: u64, holding: Holding) -> Result<(), SchedulerError> {
        self.step(task, TaskState::Paused)?;
        self.note(task, Action::Pause, Reason::Asked);
        for lane in Lane::ALL {
            self.leave_backlog(lane, task);
            self.serve(lane);
        }
        if holding == Holding::Release {
            if let Some(books) = self.tasks.get_mut(task) {
                books.releasing = true;
            }
            self.release_if_idle(task, Reason::Asked);
        }
        Ok(())
    }

    /// Lets a paused task go on, by way of the admission queue if it gave its reservations back.
    pub fn resume(&mut self, task: u64) -> Result<TaskState, SchedulerError> {
        let books = self.tasks.get(task).ok_or_else(|| Self::unknown(task))?;
        let partition = books.options.partition;
        let next = match (books.state, books.reservation.is_some()) {
            (TaskState::Paused, false) => TaskState::Pending,
            _ => TaskState::Running,
        };
        if books.state != TaskState::Paused {
            return Err(SchedulerError::IllegalTransition {
                task: books.name.to_string(),
                from: books.state,
                to: next,
            });
        }
        self.step(task, next)?;
        self.note(task, Action::Resume, Reason::Asked);
        if let Some(books) = self.tasks.get_mut(task) {
            books.releasing = false;
        }
        if next == TaskState::Running {
            self.rejoin(task);
        } else {
            self.queue_for_admission(task);
            self.admit(partition);
        }
        Ok(self.tasks.get(task).map_or(next, |books| books.state))
    }

    /// Puts a task that runs again back among those with turns waiting.
    fn rejoin(&mut self, task: u64) {
        for lane in Lane::ALL {
            let waiting = self
                .tasks
                .get(task)
                .is_some_and(|books| !books.lanes[lane].waiting.is_empty());
            if waiting {
                self.join_backlog(lane, task);
                self.serve(lane);
            }
        }
    }

    /// Ends a task: its waiting turns are refused, its reservations released after its last turn.
    pub fn end(&mut self, task: u64, to: TaskState, reason: Reason) -> Result<(), SchedulerError> {
        self.step(task, to)?;
        let action = match to {
            TaskState::Done => Action::Finish,
            TaskState::Failed => Action::Fail,
            _ => Action::Cancel,
        };
        self.note(task, action, reason);
        let mut queued = None;
        if let Some(books) = self.tasks.get_mut(task) {
            books.ended = Some(reason);
            queued = books
                .queue_key
                .take()
                .map(|key| (books.options.partition, key));
            if let Some(deadline) = books.options.deadline {
                self.deadlines.remove(&(deadline.instant_ns, task));
            }
        }
        for lane in Lane::ALL {
            self.leave_backlog(lane, task);
            while let Some(turn) = self
                .tasks
                .get_mut(task)
                .and_then(|books| books.lanes[lane].waiting.pop_front())
            {
                if let Some(turn) = self.turns.get_mut(turn) {
                    turn.state = TurnState::Refused;
                }
            }
            self.serve(lane);
        }
        if let Some((partition, key)) = queued {
            self.forget_pending(partition, key);
        }
        self.release_if_idle(task, Reason::TaskEnded);
        Ok(())
    }

    /// Takes an ended task out of the admission queue, which may let others through.
    fn forget_pending(&mut self, partition: PartitionId, key: (u64, u64)) {
        if let Some(books) = self.partition_mut(partition) {
            books.pending.remove(&key);
        }
        self.admit(partition);
    }

    /// Releases the reservations of a task that wants no more turns and has none under way.
    pub fn release_if_idle(&mut self, task: u64, reason: Reason) {
        let Some(books) = self.tasks.get(task) else {
            return;
        };
        if books.turns_under_way == 0 && (books.state.is_final() || books.releasing) {
            self.release(task, reason);
        }
    }

    /// The owner's handle is gone: whatever state the task is in, it ends.
    pub fn drop_task(&mut self, task: u64, panicking: bool) {
        let Some(books) = self.tasks.get_mut(task) else {
            return;
        };
        books.handle_dropped = true;
        if !books.state.is_final() {
            let (to, reason) = match panicking {
                true => (TaskState::Failed, Reason::Panicked),
                false => (TaskState::Cancelled, Reason::Dropped),
            };
            // Every state that is not final may fail and may be cancelled.
            let _ = self.end(task, to, reason);
        }
        self.forget_if_unused(task);
    }

    /// Forgets an ended task that no handle refers to any more.
    pub fn forget_if_unused(&mut self, task: u64) {
        let unused = |books: &super::books::TaskBooks| {
            books.handle_dropped && books.turn_handles == 0 && books.state.is_final()
        };
        if self.tasks.get(task).is_some_and(unused)
            && let Some(books) = self.tasks.remove(task)
            && let Some(partition) = self.partition_mut(books.options.partition)
        {
            partition.tasks -= 1;
        }
    }

    /// Fails or marks the tasks whose deadline has passed.
    pub fn pass_deadlines(&mut self) {
        while let Some((instant_ns, task)) = self.deadlines.first().copied() {
            if instant_ns > self.now_ns {
                return;
            }
            self.deadlines.pop_first();
            let Some(books) = self.tasks.get_mut(task) else {
                continue;
            };
            books.missed_deadline = true;
            let policy = books.options.deadline.map(|deadline| deadline.policy);
            let started = !matches!(books.state, TaskState::Pending | TaskState::Admitted);
            let reason = Reason::DeadlinePassed {
                deadline_ns: instant_ns,
            };
            self.note(task, Action::Miss, reason);
            if !started || policy == Some(DeadlinePolicy::Fail) {
                let _ = self.end(task, TaskState::Failed, reason);
            }
        }
    }
}
