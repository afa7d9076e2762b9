//! Who may use the device, how much of it, and when.
//!
//! A [`Task`] reserves memory and bandwidth when it is admitted, and asks for a [`Turn`] in a
//! [`Lane`] for every launch and copy. Reservations are floors, limits are ceilings, and what is
//! left goes by weight: first among partitions, then among the tasks of each. Every decision is
//! recorded with its reason. `docs/design/scheduler.md` gives the bounds and why it is so.
//!
//! Nothing runs by itself here: decisions are made by whichever thread calls, for all who wait.
//! Time comes from a [`Clock`], so the same scheduler runs on a device and in virtual time.

#![forbid(unsafe_code)]

mod admission;
mod books;
mod bucket;
mod driver;
mod error;
mod fair;
mod lane;
mod life;
mod lives;
mod memory;
mod options;
mod record;
mod service;
mod shared;
pub mod sharing;
mod snapshot;
mod task;
mod ticket;
mod turns;

pub use assay_collections::Drained;
pub use bucket::Rate;
pub use driver::Driver;
pub use error::SchedulerError;
pub use lane::{Lane, PerLane};
pub use life::TaskState;
pub use lives::Holding;
pub use memory::{MemoryHold, MemorySource, PoolTenant};
pub use options::{
    Class, ClassOptions, Deadline, DeadlinePolicy, LaneOptions, PartitionId, PartitionLane,
    PartitionOptions, SchedulerOptions, TaskId, TaskLane, TaskOptions,
};
pub use record::{Action, Decision, Reason};
pub use snapshot::{
    LaneSnapshot, PartitionSnapshot, SchedulerSnapshot, TaskLaneSnapshot, TaskSnapshot,
};
pub use task::Task;
pub use ticket::{Poll, Ticket, Turn};

use crate::clock::Clock;
use books::{Books, PartitionBooks};
use shared::Shared;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a call of the scheduler gives.
pub type Result<T> = std::result::Result<T, SchedulerError>;

/// The scheduler of one device. Clones are handles of the same one.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl Scheduler {
    /// A scheduler without partitions, on this clock.
    pub fn new(options: SchedulerOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        options.validate()?;
        Ok(Scheduler {
            shared: Arc::new(Shared::new(Books::new(options), clock)),
        })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The clock it decides by.
    pub fn clock(&self) -> &dyn Clock {
        self.shared.clock()
    }

    /// Gives a part of the device a name, its own memory and reservable rates, and a weight.
    pub fn add_partition(&self, options: PartitionOptions) -> Result<PartitionId> {
        self.shared.with(|books| {
            books.check_partition(&options)?;
            let id = PartitionId(books.partitions.len() as u32);
            let partition = Box::new(PartitionBooks::new(options));
            books.partitions.push(Some(partition));
            Ok(id)
        })?
    }

    /// Takes a partition without tasks away.
    pub fn remove_partition(&self, partition: PartitionId) -> Result<()> {
        self.shared.with(|books| {
            let Some(found) = books.partition(partition) else {
                return Err(SchedulerError::UnknownPartition { partition });
            };
            if found.tasks > 0 {
                return Err(SchedulerError::PartitionInUse {
                    partition: found.options.name.clone(),
                    tasks: found.tasks,
                });
            }
            books.partitions[partition.0 as usize] = None;
            Ok(())
        })?
    }

    /// Takes a task on; it is admitted at once if what it asks for is free.
    ///
    /// A task that could never be admitted is refused.
    pub fn submit(&self, options: TaskOptions) -> Result<Task> {
        let name: Arc<str> = Arc::from(options.name.as_str());
        let key = self
            .shared
            .with(|books| match books.check_task(&options) {
                Ok(()) => Ok(books.submit(options)),
                Err(error) => {
                    books.note_refusal(&options, &error);
                    Err(error)
                }
            })??;
        Ok(Task::new(Arc::clone(&self.shared), key, name))
    }

    /// Cancels a task by its number, whoever holds it.
    pub fn cancel(&self, task: TaskId) -> Result<()> {
        self.shared
            .with(|books| books.end(task.0, TaskState::Cancelled, Reason::Asked))?
    }

    /// Lets everything happen that is due by now; every other call does so too.
    pub fn poll(&self) -> Result<()> {
        self.shared.with(|books| {
            let partitions: Vec<PartitionId> = books.all_partitions().map(|(id, _)| id).collect();
            for partition in partitions {
                books.admit(partition);
            }
        })
    }

    /// When something will be due that time alone brings, if anything; for driving virtual time.
    pub fn next_event_ns(&self) -> Result<Option<u64>> {
        self.shared.with(|books| books.next_event_ns())
    }

    /// Everything known of a task that is not yet forgotten.
    pub fn task(&self, task: TaskId) -> Result<TaskSnapshot> {
        self.shared
            .with(|books| books.task_snapshot(task.0))?
            .ok_or(SchedulerError::UnknownTask { task })
    }

    /// Everything as it stands.
    pub fn snapshot(&self) -> Result<SchedulerSnapshot> {
        self.shared.with(|books| books.snapshot())
    }

    /// Takes the decisions recorded since the last call, and how many were forgotten meanwhile.
    pub fn take_decisions(&self) -> Result<Drained<Decision>> {
        let capacity = self.shared.with(|books| books.ring.capacity())?;
        let fresh = VecDeque::with_capacity(capacity);
        let (taken, dropped) = self.shared.with(|books| books.ring.take(fresh))?;
        Ok(Drained {
            records: taken.into(),
            dropped,
        })
    }
}
