//! The books as they stand, for whoever wants to look.

use super::books::Books;
use super::lane::{Lane, PerLane};
use super::life::TaskState;
use super::options::{Class, PartitionId, TaskId};
use super::record::Reason;

/// What one task has asked for and got in one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskLaneSnapshot {
    /// Turns that wait.
    pub waiting_turns: usize,
    /// Turns given so far.
    pub granted_turns: u64,
    /// Units given so far, as assumed when asked for.
    pub granted_units: u64,
    /// Of these, units given under the reservation.
    pub reserved_units: u64,
    /// Units measured so far, of turns that were measured.
    pub measured_units: u64,
}

/// One task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSnapshot {
    /// Its number.
    pub task: TaskId,
    /// Its name.
    pub name: String,
    /// Its partition.
    pub partition: PartitionId,
    /// Its class.
    pub class: Class,
    /// Where it stands.
    pub state: TaskState,
    /// Why it ended, if it has.
    pub ended: Option<Reason>,
    /// What its owner said when it failed.
    pub message: Option<String>,
    /// Whether it holds its reservations.
    pub holds_reservation: bool,
    /// Whether its deadline passed before its end.
    pub missed_deadline: bool,
    /// When it was submitted.
    pub submitted_ns: u64,
    /// Turns under way in all lanes.
    pub turns_under_way: u32,
    /// Its lanes.
    pub lanes: PerLane<TaskLaneSnapshot>,
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionSnapshot {
    /// Its number.
    pub partition: PartitionId,
    /// Its name.
    pub name: String,
    /// Tasks not yet forgotten.
    pub tasks: usize,
    /// Tasks that wait for admission.
    pub pending: usize,
    /// Memory its tasks have reserved.
    pub reserved_bytes: u64,
    /// Rates its tasks have reserved.
    pub reserved_per_second: PerLane<u64>,
}

/// One lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneSnapshot {
    /// Tasks with turns waiting.
    pub waiting_tasks: usize,
    /// Turns under way.
    pub turns_under_way: u32,
    /// Units under way.
    pub units_under_way: u64,
}

/// The whole scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchedulerSnapshot {
    /// When this was.
    pub time_ns: u64,
    /// Every task not yet forgotten, in no particular order.
    pub tasks: Vec<TaskSnapshot>,
    /// Every partition.
    pub partitions: Vec<PartitionSnapshot>,
    /// Every lane.
    pub lanes: PerLane<LaneSnapshot>,
}

impl SchedulerSnapshot {
    /// Whether nothing is reserved, waiting or under way, and no task is remembered.
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

impl Books {
    pub fn task_snapshot(&self, task: u64) -> Option<TaskSnapshot> {
        let books = self.tasks.get(task)?;
        Some(TaskSnapshot {
            task: TaskId(task),
            name: books.name.to_string(),
            partition: books.options.partition,
            class: books.options.class,
            state: books.state,
            ended: books.ended,
            message: books.message.clone(),
            holds_reservation: books.reservation.is_some(),
            missed_deadline: books.missed_deadline,
            submitted_ns: books.submitted_ns,
            turns_under_way: books.turns_under_way,
            lanes: PerLane::from_fn(|lane| {
                let terms = &books.lanes[lane];
                TaskLaneSnapshot {
                    waiting_turns: terms.waiting.len(),
                    granted_turns: terms.granted_turns,
                    granted_units: terms.granted_units,
                    reserved_units: terms.reserved_units,
                    measured_units: terms.measured_units,
                }
            }),
        })
    }

    pub fn snapshot(&self) -> SchedulerSnapshot {
        SchedulerSnapshot {
            time_ns: self.now_ns,
            tasks: self
                .tasks
                .iter()
                .filter_map(|(key, _)| self.task_snapshot(key))
                .collect(),
            partitions: self
                .all_partitions()
                .map(|(id, books)| PartitionSnapshot {
                    partition: id,
                    name: books.options.name.clone(),
                    tasks: books.tasks,
                    pending: books.pending.len(),
                    reserved_bytes: books.reserved_bytes,
                    reserved_per_second: PerLane::from_fn(|lane| {
                        books.lanes[lane].reserved_per_second
                    }),
                })
                .collect(),
            lanes: PerLane::from_fn(|lane: Lane| {
                let books = &self.lanes[lane];
                LaneSnapshot {
                    waiting_tasks: books.backlog.len(),
                    turns_under_way: books.turns_under_way,
                    units_under_way: books.units_under_way,
                }
            }),
        }
    }
}
