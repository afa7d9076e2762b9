//! The scheduler's errors, one variant per failure.

use super::class::Class;
use super::decision::Reason;
use super::ids::{PartitionId, TaskId};
use super::lane::Lane;
use super::task_state::TaskState;
use std::fmt;

/// Why a call of the scheduler failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SchedulerError {
    /// An option cannot be used.
    InvalidOption {
        /// Its name.
        name: &'static str,
        /// What is valid.
        expected: &'static str,
        /// What was given.
        got: u64,
    },
    /// The reserved rates contradict the class.
    ClassMismatch {
        /// The task.
        task: String,
        /// Its class.
        class: Class,
        /// What that class requires.
        expected: &'static str,
    },
    /// There is no such partition.
    UnknownPartition {
        /// The partition given.
        partition: PartitionId,
    },
    /// There is no such task, or it has ended and was removed.
    UnknownTask {
        /// The task given.
        task: TaskId,
    },
    /// The partition still has tasks.
    PartitionInUse {
        /// Its name.
        partition: String,
        /// How many tasks it has.
        tasks: usize,
    },
    /// The memory exceeds the partition's or device's total.
    MemoryNeverFits {
        /// The task or partition.
        name: String,
        /// Bytes requested.
        requested: u64,
        /// Bytes available to it at most.
        limit: u64,
    },
    /// The reserved rate exceeds the partition's or device's total.
    BandwidthNeverFits {
        /// The task or partition.
        name: String,
        /// The lane.
        lane: Lane,
        /// Units a second requested.
        requested: u64,
        /// Units a second available to it at most.
        limit: u64,
    },
    /// The transition between the two states is not allowed.
    IllegalTransition {
        /// The task.
        task: String,
        /// Its state.
        from: TaskState,
        /// The state requested.
        to: TaskState,
    },
    /// Only a running task may request grants.
    NotRunning {
        /// The task.
        task: String,
        /// Its state.
        state: TaskState,
    },
    /// The task ended while a thread waited on it.
    Ended {
        /// The task.
        task: String,
        /// How it ended.
        state: TaskState,
        /// Why.
        reason: Reason,
    },
    /// The task's request queue of the lane is full.
    TooManyWaiting {
        /// The task.
        task: String,
        /// The lane.
        lane: Lane,
        /// Its capacity.
        limit: usize,
    },
    /// A thread panicked while it changed the scheduler's state.
    Poisoned,
}

impl SchedulerError {
    /// A stable name for the failure, for mapping it in other languages.
    pub const fn code(&self) -> &'static str {
        match self {
            SchedulerError::InvalidOption { .. } => "invalid_option",
            SchedulerError::ClassMismatch { .. } => "class_mismatch",
            SchedulerError::UnknownPartition { .. } => "unknown_partition",
            SchedulerError::UnknownTask { .. } => "unknown_task",
            SchedulerError::PartitionInUse { .. } => "partition_in_use",
            SchedulerError::MemoryNeverFits { .. } => "memory_never_fits",
            SchedulerError::BandwidthNeverFits { .. } => "bandwidth_never_fits",
            SchedulerError::IllegalTransition { .. } => "illegal_transition",
            SchedulerError::NotRunning { .. } => "not_running",
            SchedulerError::Ended { .. } => "ended",
            SchedulerError::TooManyWaiting { .. } => "too_many_waiting",
            SchedulerError::Poisoned => "poisoned",
        }
    }
}

impl fmt::Display for SchedulerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedulerError::InvalidOption {
                name,
                expected,
                got,
            } => write!(f, "invalid option {name}: expected {expected}, got {got}"),
            SchedulerError::ClassMismatch {
                task,
                class,
                expected,
            } => write!(
                f,
                "class of task \"{task}\": expected {expected} for {class}, got the opposite\n\
                 hint: burstable tasks may reserve or not"
            ),
            SchedulerError::UnknownPartition { partition } => write!(
                f,
                "unknown partition: expected one made by add_partition, got {}",
                partition.0
            ),
            SchedulerError::UnknownTask { task } => write!(
                f,
                "unknown task: expected one that has not ended, got {}\nhint: ended tasks are \
                 found in the decisions",
                task.0
            ),
            SchedulerError::PartitionInUse { partition, tasks } => write!(
                f,
                "removal of partition \"{partition}\": expected no tasks, got {tasks}\nhint: \
                 finish or cancel them first"
            ),
            SchedulerError::MemoryNeverFits {
                name,
                requested,
                limit,
            } => write!(
                f,
                "memory of \"{name}\" never fits: expected at most {limit} bytes, got {requested}"
            ),
            SchedulerError::BandwidthNeverFits {
                name,
                lane,
                requested,
                limit,
            } => write!(
                f,
                "reserved {lane} of \"{name}\" never fits: expected at most {limit} {}/s, got \
                 {requested}",
                lane.unit()
            ),
            SchedulerError::IllegalTransition { task, from, to } => write!(
                f,
                "illegal transition of task \"{task}\": expected a transition allowed from {from}, got \
                 {to}"
            ),
            SchedulerError::NotRunning { task, state } => write!(
                f,
                "grant for task \"{task}\": expected it to be running, got {state}\nhint: start or \
                 resume it first"
            ),
            SchedulerError::Ended {
                task,
                state,
                reason,
            } => write!(
                f,
                "task \"{task}\" ended: expected it to be alive, got {state} ({reason})"
            ),
            SchedulerError::TooManyWaiting { task, lane, limit } => write!(
                f,
                "too many requests of task \"{task}\" waiting for {lane}: expected at most {limit}, \
                 got one more\nhint: wait for a grant before requesting the next"
            ),
            SchedulerError::Poisoned => f.write_str(
                "scheduler is unusable: expected consistent state, got a panic in the middle of a \
                 change",
            ),
        }
    }
}

impl std::error::Error for SchedulerError {}
