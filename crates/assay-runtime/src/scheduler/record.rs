//! What the scheduler decides, and the reasons it gives.

use super::lane::Lane;
use super::options::{PartitionId, TaskId};
use std::fmt;
use std::sync::Arc;

/// What was decided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The task was taken on and waits for its reservations.
    Submit,
    /// The task was not taken on.
    Refuse,
    /// The task got its reservations.
    Admit,
    /// The task must wait for its reservations.
    Defer,
    /// The task may ask for turns.
    Start,
    /// The task gets no more turns for now.
    Pause,
    /// The task goes on.
    Resume,
    /// A turn was given.
    Grant,
    /// A turn must wait.
    Hold,
    /// A turn is over.
    Return,
    /// A turn was given up before it came.
    Withdraw,
    /// The task ended well.
    Finish,
    /// The task failed.
    Fail,
    /// The task was cancelled.
    Cancel,
    /// The task's deadline passed.
    Miss,
    /// The task's reservations were given back.
    Release,
}

impl Action {
    /// The action's name.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Submit => "submit",
            Action::Refuse => "refuse",
            Action::Admit => "admit",
            Action::Defer => "defer",
            Action::Start => "start",
            Action::Pause => "pause",
            Action::Resume => "resume",
            Action::Grant => "grant",
            Action::Hold => "hold",
            Action::Return => "return",
            Action::Withdraw => "withdraw",
            Action::Finish => "finish",
            Action::Fail => "fail",
            Action::Cancel => "cancel",
            Action::Miss => "miss",
            Action::Release => "release",
        }
    }
}

/// Why it was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The owner of the task asked for it.
    Asked,
    /// Everything asked for is free.
    Fits,
    /// Memory is short.
    Memory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes free.
        free: u64,
    },
    /// Reservable bandwidth is short.
    Bandwidth {
        /// The lane.
        lane: Lane,
        /// Units a second asked for.
        requested: u64,
        /// Units a second free.
        free: u64,
    },
    /// It would take what a task that waits longer needs.
    Behind {
        /// That task.
        task: TaskId,
    },
    /// The turn is due under the task's reservation.
    Reserved {
        /// By when it should be over.
        deadline_ns: u64,
    },
    /// The turn is next by weight.
    Share,
    /// The turn is next by weight, and the unreserved part of the lane is owed to such turns.
    Floor,
    /// The task's own limit.
    TaskLimit {
        /// When it lets the turn through.
        until_ns: u64,
    },
    /// The partition's limit.
    PartitionLimit {
        /// When it lets the turn through.
        until_ns: u64,
    },
    /// The turn ended and its cost was measured.
    Measured {
        /// Units measured.
        units: u64,
    },
    /// The turn ended at its assumed cost.
    Assumed,
    /// The last turn of an ended task is over.
    LastTurnOver,
    /// The handle was dropped.
    Dropped,
    /// The handle was dropped by a panic.
    Panicked,
    /// The task's owner reported an error.
    Reported,
    /// The deadline passed.
    DeadlinePassed {
        /// The deadline.
        deadline_ns: u64,
    },
    /// The task ended.
    TaskEnded,
    /// Its options contradict each other or name what does not exist.
    Invalid,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Asked => f.write_str("asked for"),
            Reason::Fits => f.write_str("everything asked for is free"),
            Reason::Memory { requested, free } => {
                write!(f, "{requested} bytes of memory asked for, {free} free")
            }
            Reason::Bandwidth {
                lane,
                requested,
                free,
            } => write!(
                f,
                "{requested} {unit}/s of {lane} asked for, {free} free",
                unit = lane.unit()
            ),
            Reason::Behind { task } => write!(f, "task {} waits longer for the same", task.0),
            Reason::Reserved { deadline_ns } => {
                write!(f, "due under its reservation by {deadline_ns} ns")
            }
            Reason::Share => f.write_str("next by weight"),
            Reason::Floor => f.write_str("next by weight, in the unreserved part"),
            Reason::TaskLimit { until_ns } => write!(f, "limit of the task until {until_ns} ns"),
            Reason::PartitionLimit { until_ns } => {
                write!(f, "limit of the partition until {until_ns} ns")
            }
            Reason::Measured { units } => write!(f, "over, measured at {units}"),
            Reason::Assumed => f.write_str("over, at its assumed cost"),
            Reason::LastTurnOver => f.write_str("last turn over"),
            Reason::Dropped => f.write_str("handle dropped"),
            Reason::Panicked => f.write_str("handle dropped by a panic"),
            Reason::Reported => f.write_str("error reported by its owner"),
            Reason::DeadlinePassed { deadline_ns } => {
                write!(f, "deadline of {deadline_ns} ns passed")
            }
            Reason::TaskEnded => f.write_str("task ended"),
            Reason::Invalid => f.write_str("options cannot be used"),
        }
    }
}

/// One decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Counts all decisions of the scheduler, from zero.
    pub sequence: u64,
    /// When it was made.
    pub time_ns: u64,
    /// The task's number; none when it was refused before it got one.
    pub task: Option<TaskId>,
    /// The task's name.
    pub name: Arc<str>,
    /// The task's partition.
    pub partition: PartitionId,
    /// The lane, for decisions on turns.
    pub lane: Option<Lane>,
    /// Units of the lane, for decisions on turns.
    pub units: u64,
    /// What was decided.
    pub action: Action,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ns: {} {}",
            self.time_ns,
            self.action.name(),
            self.name
        )?;
        if let Some(lane) = self.lane {
            write!(f, " {lane} {} {}", self.units, lane.unit())?;
        }
        write!(f, ": {}", self.reason)
    }
}
