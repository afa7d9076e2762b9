//! The scheduler's errors, one variant per failure.

use super::class::Class;
use super::decision::Reason;
use super::ids::{PartitionId, TaskId};
use super::lane::Lane;
use super::task_state::TaskState;
use assay_collections::errors;

errors! {
    /// Why a call of the scheduler failed.
    pub enum SchedulerError {
        /// An option cannot be used.
        InvalidOption {
            /// Its name.
            name: &'static str,
            /// What is valid.
            expected: &'static str,
            /// What was given.
            got: u64,
        } = "invalid_option" => "invalid option {name}: expected {expected}, got {got}";
        /// The reserved rates contradict the class.
        ClassMismatch {
            /// The task.
            task: String,
            /// Its class.
            class: Class,
            /// What that class requires.
            expected: &'static str,
        } = "class_mismatch" =>
            "class of task \"{task}\": expected {expected} for {class}, got the opposite\n\
             hint: burstable tasks may reserve or not";
        /// There is no such partition.
        UnknownPartition {
            /// The partition given.
            partition: PartitionId,
        } = "unknown_partition" =>
            "unknown partition: expected one made by add_partition, got {}",
            partition.0;
        /// There is no such task, or it has ended and was removed.
        UnknownTask {
            /// The task given.
            task: TaskId,
        } = "unknown_task" =>
            "unknown task: expected one that has not ended, got {}\nhint: ended tasks are \
             found in the decisions",
            task.0;
        /// The partition still has tasks.
        PartitionInUse {
            /// Its name.
            partition: String,
            /// How many tasks it has.
            tasks: usize,
        } = "partition_in_use" =>
            "removal of partition \"{partition}\": expected no tasks, got {tasks}\nhint: \
             finish or cancel them first";
        /// The memory exceeds the partition's or device's total.
        MemoryNeverFits {
            /// The task or partition.
            name: String,
            /// Bytes requested.
            requested: u64,
            /// Bytes available to it at most.
            limit: u64,
        } = "memory_never_fits" =>
            "memory of \"{name}\" never fits: expected at most {limit} bytes, got {requested}";
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
        } = "bandwidth_never_fits" =>
            "reserved {lane} of \"{name}\" never fits: expected at most {limit} {}/s, got \
             {requested}",
            lane.unit();
        /// The transition between the two states is not allowed.
        IllegalTransition {
            /// The task.
            task: String,
            /// Its state.
            from: TaskState,
            /// The state requested.
            to: TaskState,
        } = "illegal_transition" =>
            "illegal transition of task \"{task}\": expected a transition allowed from {from}, got \
             {to}";
        /// Only a running task may request grants.
        NotRunning {
            /// The task.
            task: String,
            /// Its state.
            state: TaskState,
        } = "not_running" =>
            "grant for task \"{task}\": expected it to be running, got {state}\nhint: start or \
             resume it first";
        /// The task ended while a thread waited on it.
        Ended {
            /// The task.
            task: String,
            /// How it ended.
            state: TaskState,
            /// Why.
            reason: Reason,
        } = "ended" => "task \"{task}\" ended: expected it to be alive, got {state} ({reason})";
        /// The task's request queue of the lane is full.
        TooManyWaiting {
            /// The task.
            task: String,
            /// The lane.
            lane: Lane,
            /// Its capacity.
            limit: usize,
        } = "too_many_waiting" =>
            "too many requests of task \"{task}\" waiting for {lane}: expected at most {limit}, \
             got one more\nhint: wait for a grant before requesting the next";
        /// A thread panicked while it changed the scheduler's state.
        Poisoned = "poisoned" =>
            "scheduler is unusable: expected consistent state, got a panic in the middle of a \
             change";
    }
}

impl std::error::Error for SchedulerError {}
