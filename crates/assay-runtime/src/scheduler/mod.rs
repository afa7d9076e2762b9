//! Shares one device among tasks: admission control and weighted fair queueing.
//!
//! A [`Task`] reserves memory and bandwidth when it is admitted, and requests a [`Grant`] in a
//! [`Lane`] for every launch and copy. Reservations are floors, limits are ceilings, and the rest is
//! shared by weight: first among partitions, then among the tasks of each. Every decision is
//! recorded with its reason. `docs/design/scheduler.md` states the bounds and the rationale.
//!
//! There is no scheduler thread: the calling thread makes the decisions, for all waiting threads.
//! Time comes from a [`Clock`], so the same scheduler runs on a device and in virtual time.

#![forbid(unsafe_code)]

mod admission;
mod candidate;
mod class;
mod decision;
mod error;
mod fair_queue;
mod grant;
mod grants;
mod ids;
mod lane;
mod lifecycle;
mod memory_source;
mod options;
mod progress;
mod selection;
pub mod share_simulation;
mod shared;
mod snapshot;
mod state;
mod task;
mod task_state;
mod token_bucket;

pub use assay_collections::Drained;
pub use class::Class;
pub use decision::{Action, Decision, Reason};
pub use error::SchedulerError;
pub use grant::{Grant, PendingGrant, Poll};
pub use ids::{PartitionId, TaskId};
pub use lane::{Lane, PerLane};
pub use lifecycle::PausePolicy;
pub use memory_source::{MemoryReservation, MemorySource, PoolTenant};
pub use options::{
    ClassOptions, LaneOptions, PartitionLane, PartitionOptions, SchedulerOptions, TaskLane,
    TaskOptions,
};
pub use progress::ProgressEngine;
pub use snapshot::{
    LaneSnapshot, PartitionSnapshot, SchedulerSnapshot, TaskLaneSnapshot, TaskSnapshot,
};
pub use task::Task;
pub use task_state::TaskState;
pub use token_bucket::Rate;

use crate::clock::Clock;
use shared::Shared;
use state::{PartitionEntry, SchedulerState};
use std::collections::VecDeque;
use std::sync::Arc;

/// Result of a scheduler call.
pub type Result<T> = std::result::Result<T, SchedulerError>;

/// The scheduler of one device. Clones share the same state.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl Scheduler {
    /// A scheduler without partitions, on this clock.
    pub fn new(options: SchedulerOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        options.validate()?;
        Ok(Scheduler { shared: Arc::new(Shared::new(SchedulerState::new(options), clock)) })
    }

    /// Its clock.
    pub fn clock(&self) -> &dyn Clock {
        self.shared.clock()
    }

    /// Adds a partition: a share of the device's memory and reservable rates, and a weight.
    pub fn add_partition(&self, options: PartitionOptions) -> Result<PartitionId> {
        self.shared.with(|state| {
            state.check_partition(&options)?;
            let id = PartitionId(state.partitions.len() as u32);
            let partition = Box::new(PartitionEntry::new(options));
            state.partitions.push(Some(partition));
            Ok(id)
        })?
    }

    /// Removes a partition that has no tasks.
    pub fn remove_partition(&self, partition: PartitionId) -> Result<()> {
        self.shared.with(|state| {
            let Some(found) = state.partition(partition) else {
                return Err(SchedulerError::UnknownPartition { partition });
            };
            if found.tasks > 0 {
                return Err(SchedulerError::PartitionInUse {
                    partition: found.options.name.clone(),
                    tasks: found.tasks,
                });
            }
            state.partitions[partition.0 as usize] = None;
            Ok(())
        })?
    }

    /// Submits a task; it is admitted at once if what it requests is free.
    ///
    /// Fails if the task could never be admitted.
    pub fn submit(&self, options: TaskOptions) -> Result<Task> {
        let name: Arc<str> = Arc::from(options.name.as_str());
        let key = self.shared.with(|state| match state.check_task(&options) {
            Ok(()) => Ok(state.submit(options)),
            Err(error) => {
                state.record_refusal(&options, &error);
                Err(error)
            }
        })??;
        Ok(Task::new(Arc::clone(&self.shared), key, name))
    }

    /// Cancels a task by its id.
    pub fn cancel(&self, task: TaskId) -> Result<()> {
        self.shared.with(|state| state.end(task.0, TaskState::Cancelled, Reason::Requested))?
    }

    /// Applies everything due by now, as every other call does, and retries admission.
    pub fn poll(&self) -> Result<()> {
        self.shared.with(|state| {
            let partitions: Vec<PartitionId> = state.all_partitions().map(|(id, _)| id).collect();
            for partition in partitions {
                state.admit(partition);
            }
        })
    }

    /// The next time at which time alone changes something, if any; for driving a virtual clock.
    pub fn next_event_ns(&self) -> Result<Option<u64>> {
        self.shared.with(|state| state.next_event_ns())
    }

    /// A snapshot of a task that is not yet removed.
    pub fn task(&self, task: TaskId) -> Result<TaskSnapshot> {
        self.shared
            .with(|state| state.task_snapshot(task.0))?
            .ok_or(SchedulerError::UnknownTask { task })
    }

    /// A snapshot of everything.
    pub fn snapshot(&self) -> Result<SchedulerSnapshot> {
        self.shared.with(|state| state.snapshot())
    }

    /// Drains the decisions recorded since the last call, and counts those dropped meanwhile.
    pub fn take_decisions(&self) -> Result<Drained<Decision>> {
        let capacity = self.shared.with(|state| state.decisions.capacity())?;
        let replacement = VecDeque::with_capacity(capacity);
        let (records, dropped) = self.shared.with(|state| state.decisions.take(replacement))?;
        Ok(Drained { records: records.into(), dropped })
    }
}
