//! The scheduler's state: partitions, tasks, grants and lanes, all behind one lock.

use super::candidate::Candidate;
use super::decision::{Action, Decision, Reason};
use super::error::SchedulerError;
use super::fair_queue::{Flow, VirtualTime};
use super::ids::{PartitionId, TaskId};
use super::lane::{Lane, PerLane};
use super::memory_source::MemoryReservation;
use super::options::{LaneOptions, PartitionOptions, SchedulerOptions, TaskOptions};
use super::task_state::TaskState;
use super::token_bucket::{ReservedRate, TokenBucket};
use assay_collections::RingBuffer;
use assay_collections::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A request for a grant: waiting, granted, or refused because its task ended.
pub(super) struct GrantEntry {
    pub task: u64,
    pub lane: Lane,
    pub units: u64,
    pub requested_ns: u64,
    pub state: GrantState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GrantState {
    /// In the task's queue.
    Waiting,
    /// In flight, charged to the reservation or to the fair share.
    Granted { reserved: bool },
    /// The task ended first.
    Refused,
}

/// One task's queue and accounting in one lane.
pub(super) struct TaskLaneState {
    pub waiting: VecDeque<u64>,
    /// Index of the task's candidate in the lane's backlog, if it has one.
    pub backlog_position: Option<usize>,
    pub flow: Flow,
    pub reserved: Option<ReservedRate>,
    pub limit: Option<TokenBucket>,
    pub grants: u64,
    pub granted_units: u64,
    pub reserved_units: u64,
    pub measured_units: u64,
    pub grants_in_flight: u32,
}

/// Resources a task holds from admission until release.
pub(super) struct Reservation {
    pub memory_bytes: u64,
    pub per_second: PerLane<u64>,
    pub memory: Option<MemoryReservation>,
}

/// One task.
pub(super) struct TaskEntry {
    pub name: Arc<str>,
    pub options: TaskOptions,
    pub state: TaskState,
    pub reservation: Option<Reservation>,
    /// Paused with [`PausePolicy::Release`](super::PausePolicy): the reservation is released when
    /// the last grant ends.
    pub releasing: bool,
    pub lanes: PerLane<TaskLaneState>,
    /// Key in the partition's admission queue, while pending.
    pub admission_key: Option<(u64, u64)>,
    /// The last deferral's reason, so that the same reason is recorded once.
    pub deferred: Option<Reason>,
    pub submitted_ns: u64,
    pub grants_in_flight: u32,
    /// Grant handles in any state; the entry is kept as long as one exists.
    pub grant_handles: u32,
    pub handle_dropped: bool,
    pub ended: Option<Reason>,
    pub message: Option<String>,
}

/// One partition's flow and accounting in one lane.
pub(super) struct PartitionLaneState {
    pub flow: Flow,
    pub virtual_time: VirtualTime,
    pub limit: Option<TokenBucket>,
    pub reserved_per_second: u64,
    /// Backlogged tasks.
    pub waiting_tasks: usize,
    pub grants_in_flight: u32,
}

/// One partition.
pub(super) struct PartitionEntry {
    pub options: PartitionOptions,
    pub reserved_bytes: u64,
    pub lanes: PerLane<PartitionLaneState>,
    /// Pending tasks in admission order: queueing time, then submission.
    pub pending: BTreeMap<(u64, u64), u64>,
    pub tasks: usize,
}

/// The device-wide state of one lane.
pub(super) struct LaneState {
    pub options: LaneOptions,
    /// The head request of each backlogged task, unordered.
    pub backlog: Vec<Candidate>,
    pub virtual_time: VirtualTime,
    pub units_in_flight: u64,
    pub grants_in_flight: u32,
    /// Milliunits that unreserved grants are behind their floor while reserved grants go first.
    pub unreserved_deficit: i128,
    /// When the first throttled request becomes ready.
    pub next_ns: Option<u64>,
}

/// Everything the scheduler knows.
pub(super) struct SchedulerState {
    pub options: SchedulerOptions,
    pub now_ns: u64,
    /// Indexed by id; a removed partition leaves an empty slot.
    pub partitions: Vec<Option<Box<PartitionEntry>>>,
    pub tasks: Slab<TaskEntry>,
    pub grants: Slab<GrantEntry>,
    pub lanes: PerLane<LaneState>,
    pub decisions: RingBuffer<Decision>,
    pub submissions: u64,
    /// Threads blocked on a change.
    pub waiters: usize,
    /// Something changed that a blocked thread may be waiting for.
    pub changed: bool,
}

impl TaskLaneState {
    fn new(options: &TaskOptions, class_weight: u32, lane: Lane) -> Self {
        let lane_options = options.lanes[lane];
        TaskLaneState {
            waiting: VecDeque::new(),
            backlog_position: None,
            flow: Flow::new(u64::from(class_weight) * u64::from(options.weight)),
            reserved: lane_options.reserved.map(ReservedRate::new),
            limit: lane_options.limit.map(TokenBucket::new),
            grants: 0,
            granted_units: 0,
            reserved_units: 0,
            grants_in_flight: 0,
            measured_units: 0,
        }
    }
}

impl TaskEntry {
    pub fn new(options: TaskOptions, class_weight: u32, now_ns: u64) -> Self {
        TaskEntry {
            name: Arc::from(options.name.as_str()),
            state: TaskState::Pending,
            reservation: None,
            releasing: false,
            lanes: PerLane::from_fn(|lane| TaskLaneState::new(&options, class_weight, lane)),
            options,
            admission_key: None,
            deferred: None,
            submitted_ns: now_ns,
            grants_in_flight: 0,
            grant_handles: 0,
            handle_dropped: false,
            ended: None,
            message: None,
        }
    }
}

impl PartitionEntry {
    pub fn new(options: PartitionOptions) -> Self {
        PartitionEntry {
            reserved_bytes: 0,
            lanes: PerLane::from_fn(|lane| PartitionLaneState {
                flow: Flow::new(options.weight.into()),
                virtual_time: VirtualTime::default(),
                limit: options.lanes[lane].limit.map(TokenBucket::new),
                reserved_per_second: 0,
                waiting_tasks: 0,
                grants_in_flight: 0,
            }),
            pending: BTreeMap::new(),
            tasks: 0,
            options,
        }
    }
}

impl SchedulerState {
    pub fn new(options: SchedulerOptions) -> Self {
        SchedulerState {
            now_ns: 0,
            partitions: Vec::new(),
            tasks: Slab::default(),
            grants: Slab::default(),
            lanes: PerLane::from_fn(|lane| LaneState {
                options: options.lanes[lane],
                backlog: Vec::new(),
                virtual_time: VirtualTime::default(),
                units_in_flight: 0,
                grants_in_flight: 0,
                unreserved_deficit: 0,
                next_ns: None,
            }),
            decisions: RingBuffer::new(options.decisions),
            submissions: 0,
            waiters: 0,
            changed: false,
            options,
        }
    }

    pub fn partition(&self, partition: PartitionId) -> Option<&PartitionEntry> {
        self.partitions.get(partition.0 as usize)?.as_deref()
    }

    pub fn partition_mut(&mut self, partition: PartitionId) -> Option<&mut PartitionEntry> {
        self.partitions.get_mut(partition.0 as usize)?.as_deref_mut()
    }

    /// Every partition with its id.
    pub fn all_partitions(&self) -> impl Iterator<Item = (PartitionId, &PartitionEntry)> {
        let numbered = (0..).map(PartitionId).zip(&self.partitions);
        numbered.filter_map(|(id, entry)| Some((id, entry.as_deref()?)))
    }

    /// Records a decision about a task.
    pub fn record(&mut self, task: u64, action: Action, reason: Reason) {
        self.record_grant(task, None, 0, action, reason);
    }

    /// Records a decision about one of a task's grants.
    pub fn record_grant(
        &mut self,
        task: u64,
        lane: Option<Lane>,
        units: u64,
        action: Action,
        reason: Reason,
    ) {
        let Some(entry) = self.tasks.get(task) else {
            return;
        };
        self.decisions.push(|sequence| Decision {
            sequence,
            time_ns: self.now_ns,
            task: Some(TaskId(task)),
            name: Arc::clone(&entry.name),
            partition: entry.options.partition,
            lane,
            units,
            action,
            reason,
        });
    }

    /// Records that a task was rejected at submission.
    pub fn record_refusal(&mut self, options: &TaskOptions, error: &SchedulerError) {
        let reason = match *error {
            SchedulerError::MemoryNeverFits { requested, limit, .. } => {
                Reason::Memory { requested, free: limit }
            }
            SchedulerError::BandwidthNeverFits { lane, requested, limit, .. } => {
                Reason::Bandwidth { lane, requested, free: limit }
            }
            _ => Reason::Invalid,
        };
        self.decisions.push(|sequence| Decision {
            sequence,
            time_ns: self.now_ns,
            task: None,
            name: Arc::from(options.name.as_str()),
            partition: options.partition,
            lane: None,
            units: 0,
            action: Action::Refuse,
            reason,
        });
    }

    /// Issues the grants of throttled requests that are ready by `now_ns`.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        for lane in Lane::ALL {
            if self.lanes[lane].next_ns.is_some_and(|next| next <= self.now_ns) {
                self.issue_grants(lane);
            }
        }
    }

    /// The next time at which [`advance`](Self::advance) has something to do.
    pub fn next_event_ns(&self) -> Option<u64> {
        let lanes = Lane::ALL.into_iter();
        lanes.filter_map(|lane| self.lanes[lane].next_ns).min()
    }
}
