//! The scheduler's books: partitions, tasks, turns and lanes, all behind one lock.

use super::bucket::{ReservedRate, TokenBucket};
use super::error::SchedulerError;
use super::fair::{FairClock, Flow};
use super::lane::{Lane, PerLane};
use super::life::TaskState;
use super::memory::MemoryHold;
use super::options::{
    LaneOptions, PartitionId, PartitionOptions, SchedulerOptions, TaskId, TaskOptions,
};
use super::record::{Action, Decision, Reason};
use super::turns::Candidate;
use assay_collections::RingBuffer;
use assay_collections::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A turn asked for: waiting, given, or refused because its task ended.
pub(super) struct TurnBooks {
    pub task: u64,
    pub lane: Lane,
    pub units: u64,
    pub asked_ns: u64,
    pub state: TurnState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TurnState {
    /// In the task's queue.
    Waiting,
    /// Under way, charged to the reservation or to the fair share.
    Granted { reserved: bool },
    /// The task ended first.
    Refused,
}

/// A lane as one task sees it.
pub(super) struct TaskLaneBooks {
    pub waiting: VecDeque<u64>,
    /// Where the task stands in the lane's backlog, if it does.
    pub backlog_position: Option<usize>,
    pub flow: Flow,
    pub reserved: Option<ReservedRate>,
    pub limit: Option<TokenBucket>,
    pub turns: Option<TokenBucket>,
    pub granted_turns: u64,
    pub granted_units: u64,
    pub reserved_units: u64,
    pub measured_units: u64,
    pub turns_under_way: u32,
}

/// What a task holds from admission until it is released.
pub(super) struct Reservation {
    pub memory_bytes: u64,
    pub per_second: PerLane<u64>,
    pub hold: Option<MemoryHold>,
}

pub(super) struct TaskBooks {
    pub name: Arc<str>,
    pub options: TaskOptions,
    pub state: TaskState,
    pub reservation: Option<Reservation>,
    /// A paused task that wants its reservation released once its last turn is over.
    pub releasing: bool,
    pub lanes: PerLane<TaskLaneBooks>,
    /// Place in the partition's queue for admission, while pending.
    pub queue_key: Option<(u64, u64)>,
    /// Why admission was last put off, so that the same reason is recorded once.
    pub deferred: Option<Reason>,
    pub submitted_ns: u64,
    pub turns_under_way: u32,
    /// Handles of turns, whatever their state; the books are kept as long as one exists.
    pub turn_handles: u32,
    pub handle_dropped: bool,
    pub missed_deadline: bool,
    pub ended: Option<Reason>,
    pub message: Option<String>,
}

/// A lane as one partition sees it.
pub(super) struct PartitionLaneBooks {
    pub flow: Flow,
    pub fair: FairClock,
    pub limit: Option<TokenBucket>,
    pub reserved_per_second: u64,
    /// Tasks with turns waiting.
    pub waiting_tasks: usize,
    pub turns_under_way: u32,
}

pub(super) struct PartitionBooks {
    pub options: PartitionOptions,
    pub reserved_bytes: u64,
    pub lanes: PerLane<PartitionLaneBooks>,
    /// Pending tasks in the order of admission: moment, then submission.
    pub pending: BTreeMap<(u64, u64), u64>,
    pub tasks: usize,
}

/// A lane as a whole.
pub(super) struct LaneBooks {
    pub options: LaneOptions,
    /// The next turns of running tasks, in no particular order.
    pub backlog: Vec<Candidate>,
    pub fair: FairClock,
    pub units_under_way: u64,
    pub turns_under_way: u32,
    /// Thousandths of units that the unreserved part is behind by, while reserved turns go first.
    pub owed: i128,
    /// When a held turn may next go.
    pub next_ns: Option<u64>,
}

pub(super) struct Books {
    pub options: SchedulerOptions,
    pub now_ns: u64,
    /// By number; a partition taken away leaves its place empty.
    pub partitions: Vec<Option<Box<PartitionBooks>>>,
    pub tasks: Slab<TaskBooks>,
    pub turns: Slab<TurnBooks>,
    pub lanes: PerLane<LaneBooks>,
    pub deadlines: BTreeSet<(u64, u64)>,
    pub ring: RingBuffer<Decision>,
    pub submissions: u64,
    /// Threads that wait for a change.
    pub waiters: usize,
    /// Something changed that a waiting thread may wait for.
    pub changed: bool,
}

impl TaskLaneBooks {
    fn new(options: &TaskOptions, class_weight: u32, lane: Lane) -> Self {
        let terms = options.lanes[lane];
        TaskLaneBooks {
            waiting: VecDeque::new(),
            backlog_position: None,
            flow: Flow::new(u64::from(class_weight) * u64::from(options.weight)),
            reserved: terms.reserved.map(ReservedRate::new),
            limit: terms.limit.map(TokenBucket::new),
            turns: terms.turns.map(TokenBucket::new),
            granted_turns: 0,
            granted_units: 0,
            reserved_units: 0,
            turns_under_way: 0,
            measured_units: 0,
        }
    }
}

impl TaskBooks {
    pub fn new(options: TaskOptions, class_weight: u32, now_ns: u64) -> Self {
        TaskBooks {
            name: Arc::from(options.name.as_str()),
            state: TaskState::Pending,
            reservation: None,
            releasing: false,
            lanes: PerLane::from_fn(|lane| TaskLaneBooks::new(&options, class_weight, lane)),
            options,
            queue_key: None,
            deferred: None,
            submitted_ns: now_ns,
            turns_under_way: 0,
            turn_handles: 0,
            handle_dropped: false,
            missed_deadline: false,
            ended: None,
            message: None,
        }
    }
}

impl PartitionBooks {
    pub fn new(options: PartitionOptions) -> Self {
        PartitionBooks {
            reserved_bytes: 0,
            lanes: PerLane::from_fn(|lane| PartitionLaneBooks {
                flow: Flow::new(options.weight.into()),
                fair: FairClock::default(),
                limit: options.lanes[lane].limit.map(TokenBucket::new),
                reserved_per_second: 0,
                waiting_tasks: 0,
                turns_under_way: 0,
            }),
            pending: BTreeMap::new(),
            tasks: 0,
            options,
        }
    }
}

impl Books {
    pub fn new(options: SchedulerOptions) -> Self {
        Books {
            now_ns: 0,
            partitions: Vec::new(),
            tasks: Slab::default(),
            turns: Slab::default(),
            lanes: PerLane::from_fn(|lane| LaneBooks {
                options: options.lanes[lane],
                backlog: Vec::new(),
                fair: FairClock::default(),
                units_under_way: 0,
                turns_under_way: 0,
                owed: 0,
                next_ns: None,
            }),
            deadlines: BTreeSet::new(),
            ring: RingBuffer::new(options.decisions),
            submissions: 0,
            waiters: 0,
            changed: false,
            options,
        }
    }

    pub fn partition(&self, partition: PartitionId) -> Option<&PartitionBooks> {
        self.partitions.get(partition.0 as usize)?.as_deref()
    }

    pub fn partition_mut(&mut self, partition: PartitionId) -> Option<&mut PartitionBooks> {
        self.partitions
            .get_mut(partition.0 as usize)?
            .as_deref_mut()
    }

    /// Every partition with its number.
    pub fn all_partitions(&self) -> impl Iterator<Item = (PartitionId, &PartitionBooks)> {
        let numbered = (0..).map(PartitionId).zip(&self.partitions);
        numbered.filter_map(|(id, books)| Some((id, books.as_deref()?)))
    }

    /// Records a decision on a task as a whole.
    pub fn note(&mut self, task: u64, action: Action, reason: Reason) {
        self.note_turn(task, None, 0, action, reason);
    }

    /// Records a decision on one of a task's turns.
    pub fn note_turn(
        &mut self,
        task: u64,
        lane: Option<Lane>,
        units: u64,
        action: Action,
        reason: Reason,
    ) {
        let Some(books) = self.tasks.get(task) else {
            return;
        };
        self.ring.push(|sequence| Decision {
            sequence,
            time_ns: self.now_ns,
            task: Some(TaskId(task)),
            name: Arc::clone(&books.name),
            partition: books.options.partition,
            lane,
            units,
            action,
            reason,
        });
    }

    /// Records that a task was not taken on.
    pub fn note_refusal(&mut self, options: &TaskOptions, error: &SchedulerError) {
        let reason = match *error {
            SchedulerError::MemoryNeverFits {
                requested, limit, ..
            } => Reason::Memory {
                requested,
                free: limit,
            },
            SchedulerError::BandwidthNeverFits {
                lane,
                requested,
                limit,
                ..
            } => Reason::Bandwidth {
                lane,
                requested,
                free: limit,
            },
            _ => Reason::Invalid,
        };
        self.ring.push(|sequence| Decision {
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

    /// Lets everything happen that is due by now.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        self.pass_deadlines();
        for lane in Lane::ALL {
            if self.lanes[lane]
                .next_ns
                .is_some_and(|next| next <= self.now_ns)
            {
                self.serve(lane);
            }
        }
    }

    /// When something will be due, if anything.
    pub fn next_event_ns(&self) -> Option<u64> {
        let deadline = self.deadlines.first().map(|(instant_ns, _)| *instant_ns);
        let lanes = Lane::ALL
            .into_iter()
            .filter_map(|lane| self.lanes[lane].next_ns);
        lanes.chain(deadline).min()
    }
}
