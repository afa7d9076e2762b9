//! The scheduler's decisions and their reasons.

use super::ids::{PartitionId, TaskId};
use super::lane::Lane;
use assay_collections::named;
use std::fmt;
use std::sync::Arc;

named! {
    /// The kind of a decision.
    pub enum Action {
        /// The task was accepted and waits for admission.
        Submit = "submit",
        /// The task was rejected at submission.
        Refuse = "refuse",
        /// The task was admitted.
        Admit = "admit",
        /// The task waits for admission.
        Defer = "defer",
        /// The task may request grants.
        Start = "start",
        /// The task gets no grants until it resumes.
        Pause = "pause",
        /// The task resumed.
        Resume = "resume",
        /// A grant was issued.
        Grant = "grant",
        /// A limit holds a request.
        Hold = "hold",
        /// A grant ended.
        Return = "return",
        /// A request was withdrawn.
        Withdraw = "withdraw",
        /// The task finished.
        Finish = "finish",
        /// The task failed.
        Fail = "fail",
        /// The task was cancelled.
        Cancel = "cancel",
        /// The task's reservation was released.
        Release = "release",
    }
}

/// The reason of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The task's owner requested it.
    Requested,
    /// Everything requested is free.
    Fits,
    /// Memory is short.
    Memory {
        /// Bytes requested.
        requested: u64,
        /// Bytes free.
        free: u64,
    },
    /// Reservable bandwidth is short.
    Bandwidth {
        /// The lane.
        lane: Lane,
        /// Units a second requested.
        requested: u64,
        /// Units a second free.
        free: u64,
    },
    /// Admission would delay a task that is ahead in the queue.
    Behind {
        /// That task.
        task: TaskId,
    },
    /// The request is due under the task's reservation.
    Reserved {
        /// By when its grant should end.
        deadline_ns: u64,
    },
    /// The request has the smallest start tag.
    Share,
    /// The request has the smallest start tag, and the lane's unreserved floor is in deficit.
    Floor,
    /// The task's own limit throttles it.
    TaskLimit {
        /// When the limit admits the request.
        until_ns: u64,
    },
    /// The partition's limit throttles it.
    PartitionLimit {
        /// When the limit admits the request.
        until_ns: u64,
    },
    /// The grant ended at its measured cost.
    Measured {
        /// Units measured.
        units: u64,
    },
    /// The grant ended at its assumed cost.
    Assumed,
    /// The last grant of an ended task has ended.
    LastGrantEnded,
    /// The handle was dropped.
    Dropped,
    /// The handle was dropped by a panic.
    Panicked,
    /// The task's owner reported an error.
    Reported,
    /// The task ended.
    TaskEnded,
    /// Its options are invalid.
    Invalid,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Requested => f.write_str("requested"),
            Reason::Fits => f.write_str("everything requested is free"),
            Reason::Memory { requested, free } => {
                write!(f, "{requested} bytes of memory requested, {free} free")
            }
            Reason::Bandwidth { lane, requested, free } => write!(
                f,
                "{requested} {unit}/s of {lane} requested, {free} free",
                unit = lane.unit()
            ),
            Reason::Behind { task } => write!(f, "task {} is ahead in the queue", task.0),
            Reason::Reserved { deadline_ns } => {
                write!(f, "due under its reservation by {deadline_ns} ns")
            }
            Reason::Share => f.write_str("next by weight"),
            Reason::Floor => f.write_str("next by weight, in the unreserved part"),
            Reason::TaskLimit { until_ns } => write!(f, "limit of the task until {until_ns} ns"),
            Reason::PartitionLimit { until_ns } => {
                write!(f, "limit of the partition until {until_ns} ns")
            }
            Reason::Measured { units } => write!(f, "ended, measured at {units}"),
            Reason::Assumed => f.write_str("ended, at its assumed cost"),
            Reason::LastGrantEnded => f.write_str("last grant ended"),
            Reason::Dropped => f.write_str("handle dropped"),
            Reason::Panicked => f.write_str("handle dropped by a panic"),
            Reason::Reported => f.write_str("error reported by its owner"),
            Reason::TaskEnded => f.write_str("task ended"),
            Reason::Invalid => f.write_str("invalid options"),
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
    /// The task's id; none when it was rejected before it got one.
    pub task: Option<TaskId>,
    /// The task's name.
    pub name: Arc<str>,
    /// The task's partition.
    pub partition: PartitionId,
    /// The lane, for decisions on grants.
    pub lane: Option<Lane>,
    /// Units of the lane, for decisions on grants.
    pub units: u64,
    /// The kind of a decision.
    pub action: Action,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns: {} {}", self.time_ns, self.action.name(), self.name)?;
        if let Some(lane) = self.lane {
            write!(f, " {lane} {} {}", self.units, lane.unit())?;
        }
        write!(f, ": {}", self.reason)
    }
}
