//! The head request of a backlogged task, as the selection compares it.

use super::class::Class;
use super::fair_queue::Tag;
use super::ids::PartitionId;

/// A task's next request with every value that the selection orders by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub task: u64,
    pub grant: u64,
    pub units: u64,
    /// Start tag of the task's flow.
    pub tag: Tag,
    pub partition: PartitionId,
    pub class: Class,
    /// When the task's own limits admit the request.
    pub ready_ns: u64,
    /// From when on the request is covered by the reservation; `u64::MAX` without one.
    pub due_ns: u64,
    /// By when the grant should end to keep the reserved rate.
    pub deadline_ns: u64,
    /// Whether the hold by a limit was recorded already.
    pub hold_recorded: bool,
}
