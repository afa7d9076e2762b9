//! Read-only copies of the scheduler's state.

use super::class::Class;
use super::decision::Reason;
use super::ids::{PartitionId, TaskId};
use super::lane::{Lane, PerLane};
use super::state::SchedulerState;
use super::task_state::TaskState;

/// One task's requests and grants in one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskLaneSnapshot {
    /// Requests that wait.
    pub waiting_requests: usize,
    /// Grants issued so far.
    pub grants: u64,
    /// Units granted so far, at assumed cost.
    pub granted_units: u64,
    /// Of these, units granted under the reservation.
    pub reserved_units: u64,
    /// Measured units so far, of grants that were measured.
    pub measured_units: u64,
}

/// One task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSnapshot {
    /// Its id.
    pub task: TaskId,
    /// Its name.
    pub name: String,
    /// Its partition.
    pub partition: PartitionId,
    /// Its class.
    pub class: Class,
    /// Its state.
    pub state: TaskState,
    /// Why it ended, if it has.
    pub ended: Option<Reason>,
    /// The error its owner reported when it failed.
    pub message: Option<String>,
    /// Whether it holds its reservation.
    pub holds_reservation: bool,
    /// When it was submitted.
    pub submitted_ns: u64,
    /// Grants in flight in all lanes.
    pub grants_in_flight: u32,
    /// Its lanes.
    pub lanes: PerLane<TaskLaneSnapshot>,
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionSnapshot {
    /// Its id.
    pub partition: PartitionId,
    /// Its name.
    pub name: String,
    /// Tasks not yet removed.
    pub tasks: usize,
    /// Tasks that wait for admission.
    pub pending: usize,
    /// Memory reserved by its tasks.
    pub reserved_bytes: u64,
    /// Rates reserved by its tasks.
    pub reserved_per_second: PerLane<u64>,
}

/// One lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneSnapshot {
    /// Backlogged tasks.
    pub waiting_tasks: usize,
    /// Grants in flight.
    pub grants_in_flight: u32,
    /// Units in flight.
    pub units_in_flight: u64,
}

/// The scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchedulerSnapshot {
    /// When the snapshot was taken.
    pub time_ns: u64,
    /// Every task not yet removed, unordered.
    pub tasks: Vec<TaskSnapshot>,
    /// Every partition.
    pub partitions: Vec<PartitionSnapshot>,
    /// Every lane.
    pub lanes: PerLane<LaneSnapshot>,
}

impl SchedulerSnapshot {
    /// Whether nothing is reserved, waiting or in flight, and there is no task.
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
            && self.partitions.iter().all(|partition| {
                partition.reserved_bytes == 0
                    && partition.reserved_per_second == PerLane::default()
                    && partition.tasks == 0
                    && partition.pending == 0
            })
            && self.lanes == PerLane::default()
    }
}

impl SchedulerState {
    pub fn task_snapshot(&self, task: u64) -> Option<TaskSnapshot> {
        let entry = self.tasks.get(task)?;
        Some(TaskSnapshot {
            task: TaskId(task),
            name: entry.name.to_string(),
            partition: entry.options.partition,
            class: entry.options.class,
            state: entry.state,
            ended: entry.ended,
            message: entry.message.clone(),
            holds_reservation: entry.reservation.is_some(),
            submitted_ns: entry.submitted_ns,
            grants_in_flight: entry.grants_in_flight,
            lanes: PerLane::from_fn(|lane| {
                let task_lane = &entry.lanes[lane];
                TaskLaneSnapshot {
                    waiting_requests: task_lane.waiting.len(),
                    grants: task_lane.grants,
                    granted_units: task_lane.granted_units,
                    reserved_units: task_lane.reserved_units,
                    measured_units: task_lane.measured_units,
                }
            }),
        })
    }

    pub fn snapshot(&self) -> SchedulerSnapshot {
        SchedulerSnapshot {
            time_ns: self.now_ns,
            tasks: self.tasks.iter().filter_map(|(key, _)| self.task_snapshot(key)).collect(),
            partitions: self
                .all_partitions()
                .map(|(id, entry)| PartitionSnapshot {
                    partition: id,
                    name: entry.options.name.clone(),
                    tasks: entry.tasks,
                    pending: entry.pending.len(),
                    reserved_bytes: entry.reserved_bytes,
                    reserved_per_second: PerLane::from_fn(|lane| {
                        entry.lanes[lane].reserved_per_second
                    }),
                })
                .collect(),
            lanes: PerLane::from_fn(|lane: Lane| {
                let entry = &self.lanes[lane];
                LaneSnapshot {
                    waiting_tasks: entry.backlog.len(),
                    grants_in_flight: entry.grants_in_flight,
                    units_in_flight: entry.units_in_flight,
                }
            }),
        }
    }
}
