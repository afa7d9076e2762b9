//! The transitions of a task, with their effect on queues and reservations.

use super::decision::{Action, Reason};
use super::error::SchedulerError;
use super::ids::{PartitionId, TaskId};
use super::lane::Lane;
use super::state::{GrantState, SchedulerState, TaskEntry};
use super::task_state::TaskState;

/// Whether a paused task keeps its reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PausePolicy {
    /// It keeps it and can resume at once.
    Keep,
    /// The reservation is released when the last grant ends; resuming needs admission again.
    Release,
}

impl SchedulerState {
    pub fn unknown_task(task: u64) -> SchedulerError {
        SchedulerError::UnknownTask { task: TaskId(task) }
    }

    /// The error that reports how a task ended.
    pub fn ended_error(&self, task: u64) -> SchedulerError {
        match self.tasks.get(task) {
            Some(entry) => SchedulerError::Ended {
                task: entry.name.to_string(),
                state: entry.state,
                reason: entry.ended.unwrap_or(Reason::TaskEnded),
            },
            None => Self::unknown_task(task),
        }
    }

    /// Changes a task's state, or rejects the transition.
    fn transition(&mut self, task: u64, to: TaskState) -> Result<(), SchedulerError> {
        let entry = self.tasks.get_mut(task).ok_or_else(|| Self::unknown_task(task))?;
        if !entry.state.allows(to) {
            return Err(SchedulerError::IllegalTransition {
                task: entry.name.to_string(),
                from: entry.state,
                to,
            });
        }
        entry.state = to;
        self.changed = true;
        Ok(())
    }

    pub fn start(&mut self, task: u64) -> Result<(), SchedulerError> {
        match self.tasks.get(task).map(|entry| entry.state) {
            // A paused task is resumed, not started.
            Some(TaskState::Admitted) => {}
            Some(from) => {
                let name = self.tasks.get(task).map(|entry| entry.name.to_string());
                return Err(SchedulerError::IllegalTransition {
                    task: name.unwrap_or_default(),
                    from,
                    to: TaskState::Running,
                });
            }
            None => return Err(Self::unknown_task(task)),
        }
        self.transition(task, TaskState::Running)?;
        self.record(task, Action::Start, Reason::Requested);
        self.rejoin_backlog(task);
        Ok(())
    }

    pub fn pause(&mut self, task: u64, policy: PausePolicy) -> Result<(), SchedulerError> {
        self.transition(task, TaskState::Paused)?;
        self.record(task, Action::Pause, Reason::Requested);
        for lane in Lane::ALL {
            self.leave_backlog(lane, task);
            self.issue_grants(lane);
        }
        if policy == PausePolicy::Release {
            if let Some(entry) = self.tasks.get_mut(task) {
                entry.releasing = true;
            }
            self.release_if_idle(task, Reason::Requested);
        }
        Ok(())
    }

    /// Resumes a paused task, through the admission queue if it released its reservation.
    pub fn resume(&mut self, task: u64) -> Result<TaskState, SchedulerError> {
        let entry = self.tasks.get(task).ok_or_else(|| Self::unknown_task(task))?;
        let partition = entry.options.partition;
        let next = match (entry.state, entry.reservation.is_some()) {
            (TaskState::Paused, false) => TaskState::Pending,
            _ => TaskState::Running,
        };
        if entry.state != TaskState::Paused {
            return Err(SchedulerError::IllegalTransition {
                task: entry.name.to_string(),
                from: entry.state,
                to: next,
            });
        }
        self.transition(task, next)?;
        self.record(task, Action::Resume, Reason::Requested);
        if let Some(entry) = self.tasks.get_mut(task) {
            entry.releasing = false;
        }
        if next == TaskState::Running {
            self.rejoin_backlog(task);
        } else {
            self.queue_for_admission(task);
            self.admit(partition);
        }
        Ok(self.tasks.get(task).map_or(next, |entry| entry.state))
    }

    /// Puts a task that runs again back into the backlog of every lane it has requests in.
    fn rejoin_backlog(&mut self, task: u64) {
        for lane in Lane::ALL {
            let waiting =
                self.tasks.get(task).is_some_and(|entry| !entry.lanes[lane].waiting.is_empty());
            if waiting {
                self.join_backlog(lane, task);
                self.issue_grants(lane);
            }
        }
    }

    /// Ends a task: refuses its waiting requests and releases its reservation after its last grant.
    pub fn end(&mut self, task: u64, to: TaskState, reason: Reason) -> Result<(), SchedulerError> {
        self.transition(task, to)?;
        let action = match to {
            TaskState::Done => Action::Finish,
            TaskState::Failed => Action::Fail,
            _ => Action::Cancel,
        };
        self.record(task, action, reason);
        let mut queued = None;
        if let Some(entry) = self.tasks.get_mut(task) {
            entry.ended = Some(reason);
            queued = entry.admission_key.take().map(|key| (entry.options.partition, key));
        }
        for lane in Lane::ALL {
            self.leave_backlog(lane, task);
            while let Some(key) =
                self.tasks.get_mut(task).and_then(|entry| entry.lanes[lane].waiting.pop_front())
            {
                if let Some(grant) = self.grants.get_mut(key) {
                    grant.state = GrantState::Refused;
                }
            }
            self.issue_grants(lane);
        }
        if let Some((partition, key)) = queued {
            self.remove_pending(partition, key);
        }
        self.release_if_idle(task, Reason::TaskEnded);
        Ok(())
    }

    /// Removes an ended task from the admission queue, which may admit others.
    fn remove_pending(&mut self, partition: PartitionId, key: (u64, u64)) {
        if let Some(entry) = self.partition_mut(partition) {
            entry.pending.remove(&key);
        }
        self.admit(partition);
    }

    /// Releases the reservation of an ended or releasing task that has no grant in flight.
    pub fn release_if_idle(&mut self, task: u64, reason: Reason) {
        let Some(entry) = self.tasks.get(task) else {
            return;
        };
        if entry.grants_in_flight == 0 && (entry.state.is_final() || entry.releasing) {
            self.release(task, reason);
        }
    }

    /// The owner dropped its handle: ends the task in whatever state it is.
    pub fn drop_task(&mut self, task: u64, panicking: bool) {
        let Some(entry) = self.tasks.get_mut(task) else {
            return;
        };
        entry.handle_dropped = true;
        if !entry.state.is_final() {
            let (to, reason) = match panicking {
                true => (TaskState::Failed, Reason::Panicked),
                false => (TaskState::Cancelled, Reason::Dropped),
            };
            // Every state that is not final may fail and may be cancelled.
            let _ = self.end(task, to, reason);
        }
        self.remove_if_unreferenced(task);
    }

    /// Removes an ended task that no handle refers to.
    pub fn remove_if_unreferenced(&mut self, task: u64) {
        let unreferenced = |entry: &TaskEntry| {
            entry.handle_dropped && entry.grant_handles == 0 && entry.state.is_final()
        };
        if self.tasks.get(task).is_some_and(unreferenced)
            && let Some(entry) = self.tasks.remove(task)
            && let Some(partition) = self.partition_mut(entry.options.partition)
        {
            partition.tasks -= 1;
        }
    }
}
