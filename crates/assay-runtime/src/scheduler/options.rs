//! What a scheduler, a partition and a task are told when they are made.

use super::bucket::Rate;
use super::error::SchedulerError;
use super::lane::{Lane, PerLane};
use super::memory::MemorySource;
use std::fmt;
use std::sync::Arc;

/// How much a task may rely on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Reserves bandwidth and gets it before all others.
    Guaranteed,
    /// May reserve some bandwidth and shares in what is left.
    Burstable,
    /// Reserves no bandwidth and shares in what is left.
    BestEffort,
}

impl Class {
    /// The class of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Class::Guaranteed, Class::Burstable, Class::BestEffort];
        all.into_iter().find(|class| class.name() == name)
    }

    /// The class's name.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Guaranteed => "guaranteed",
            Class::Burstable => "burstable",
            Class::BestEffort => "best-effort",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the scheduler treats a class of tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassOptions {
    /// Multiplies the weights of its tasks.
    pub weight: u32,
    /// Tasks of this class queue for admission as if they had come this much later.
    ///
    /// A difference in time, unlike a rank, cannot starve: whoever waited longer goes first.
    pub admission_delay_ns: u64,
}

/// A lane as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneOptions {
    /// What the device does in a second; limits what can be reserved, not what can be done.
    pub units_per_second: u64,
    /// Units that may be under way at once. A turn larger than that goes alone; one that is due to a
    /// guaranteed task may also stand behind a turn of that task which is alone.
    ///
    /// Work under way cannot be called back, so this is also how long the most urgent turn waits.
    pub window_units: u64,
    /// Turns that may be under way at once.
    pub window_turns: u32,
    /// Thousandths of the lane that cannot be reserved, so that nobody starves; at least 1.
    pub unreserved_permille: u32,
}

impl LaneOptions {
    /// Units a second that reservations may add up to.
    pub fn reservable_per_second(&self) -> u64 {
        let share = u128::from(1_000 - self.unreserved_permille.min(1_000));
        u64::try_from(u128::from(self.units_per_second) * share / 1_000).unwrap_or(u64::MAX)
    }

    /// Thousandths of units that the unreserved part can have had in advance: ten milliseconds' worth.
    pub(super) fn advance(&self) -> i128 {
        i128::from(self.units_per_second) * i128::from(self.unreserved_permille) / 100
    }
}

/// How to make a [`Scheduler`](super::Scheduler).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchedulerOptions {
    /// Device memory that partitions can be given.
    pub memory_bytes: u64,
    /// The lanes.
    pub lanes: PerLane<LaneOptions>,
    /// Treatment of guaranteed tasks.
    pub guaranteed: ClassOptions,
    /// Treatment of burstable tasks.
    pub burstable: ClassOptions,
    /// Treatment of best-effort tasks.
    pub best_effort: ClassOptions,
    /// Decisions kept for inspection; older ones are dropped and counted.
    pub decisions: usize,
    /// Turns a task may have waiting in one lane.
    pub waiting_turns: usize,
}

impl SchedulerOptions {
    /// Options for a device with this memory and these rates, the rest as usual.
    ///
    /// The windows hold a millisecond of work, 5 % of each lane cannot be reserved, and class
    /// weights stand at 4 : 2 : 1.
    pub fn new(memory_bytes: u64, units_per_second: PerLane<u64>) -> Self {
        let class = |weight, admission_delay_ns| ClassOptions {
            weight,
            admission_delay_ns,
        };
        SchedulerOptions {
            memory_bytes,
            lanes: PerLane::from_fn(|lane| LaneOptions {
                units_per_second: units_per_second[lane],
                window_units: units_per_second[lane] / 1_000,
                window_turns: 1_024,
                unreserved_permille: 50,
            }),
            guaranteed: class(4, 0),
            burstable: class(2, 1_000_000_000),
            best_effort: class(1, 10_000_000_000),
            decisions: 4_096,
            waiting_turns: 1_024,
        }
    }

    /// A partition that is the whole device.
    pub fn whole_device(&self, name: &str) -> PartitionOptions {
        PartitionOptions {
            name: name.to_owned(),
            weight: 1,
            memory_bytes: self.memory_bytes,
            memory: None,
            lanes: PerLane::from_fn(|lane| PartitionLane {
                reservable_per_second: self.lanes[lane].reservable_per_second(),
                limit: None,
            }),
        }
    }

    /// How a class is treated.
    pub fn class(&self, class: Class) -> ClassOptions {
        match class {
            Class::Guaranteed => self.guaranteed,
            Class::Burstable => self.burstable,
            Class::BestEffort => self.best_effort,
        }
    }

    pub(super) fn validate(&self) -> Result<(), SchedulerError> {
        for lane in Lane::ALL {
            let options = &self.lanes[lane];
            at_least_one("lanes.units_per_second", options.units_per_second)?;
            at_least_one("lanes.window_units", options.window_units)?;
            at_least_one("lanes.window_turns", options.window_turns.into())?;
            if !(1..=1_000).contains(&options.unreserved_permille) {
                return Err(SchedulerError::InvalidOption {
                    name: "lanes.unreserved_permille",
                    expected: "1 to 1000",
                    got: options.unreserved_permille.into(),
                });
            }
        }
        for class in [self.guaranteed, self.burstable, self.best_effort] {
            at_least_one("class weight", class.weight.into())?;
        }
        at_least_one("decisions", self.decisions as u64)?;
        at_least_one("waiting_turns", self.waiting_turns as u64)
    }
}

/// A lane as seen from a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartitionLane {
    /// Units a second that the partition's tasks may reserve together.
    pub reservable_per_second: u64,
    /// The most the partition gets, if limited.
    pub limit: Option<Rate>,
}

/// A part of the device: its own memory and reservable bandwidth, and a share in what is left.
#[derive(Clone, Debug)]
pub struct PartitionOptions {
    /// Its name.
    pub name: String,
    /// Its share of unreserved bandwidth, beside the other partitions.
    pub weight: u32,
    /// Memory its tasks may reserve together.
    pub memory_bytes: u64,
    /// Where that memory is promised for real, such as a pool; none counts bytes only.
    pub memory: Option<Arc<dyn MemorySource>>,
    /// Its lanes.
    pub lanes: PerLane<PartitionLane>,
}

impl PartitionOptions {
    pub(super) fn validate(&self) -> Result<(), SchedulerError> {
        at_least_one("partition weight", self.weight.into())?;
        for lane in Lane::ALL {
            let PartitionLane {
                reservable_per_second,
                limit,
            } = self.lanes[lane];
            validate_limit(limit, reservable_per_second)?;
        }
        Ok(())
    }
}

/// A lane as seen from a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskLane {
    /// The rate promised to the task, if any.
    pub reserved: Option<Rate>,
    /// The most units it gets, if limited.
    pub limit: Option<Rate>,
    /// The most turns it gets, if limited: paces launches whatever each of them costs.
    pub turns: Option<Rate>,
}

/// What happens when a task's deadline passes before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadlinePolicy {
    /// The miss is recorded; a running task goes on, one not yet started fails.
    Record,
    /// The task fails.
    Fail,
}

/// A moment by which a task should be over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// The moment, by the scheduler's clock.
    pub instant_ns: u64,
    /// What happens then.
    pub policy: DeadlinePolicy,
}

/// What a task needs and may rely on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskOptions {
    /// Its name, for records and errors.
    pub name: String,
    /// The partition it belongs to.
    pub partition: PartitionId,
    /// How much it may rely on.
    pub class: Class,
    /// Its share of unreserved bandwidth, beside other tasks of its partition and class.
    pub weight: u32,
    /// Memory it reserves.
    pub memory_bytes: u64,
    /// Its lanes.
    pub lanes: PerLane<TaskLane>,
    /// By when it should be over, if that matters.
    ///
    /// Earlier deadlines are admitted first within a class and served first among turns that are
    /// due under a reservation. A deadline buys no share of unreserved bandwidth.
    pub deadline: Option<Deadline>,
}

impl TaskOptions {
    /// A best-effort task of weight 1 that reserves nothing.
    pub fn new(name: &str, partition: PartitionId) -> Self {
        TaskOptions {
            name: name.to_owned(),
            partition,
            class: Class::BestEffort,
            weight: 1,
            memory_bytes: 0,
            lanes: PerLane::default(),
            deadline: None,
        }
    }

    /// What the task reserves in a lane, in units a second.
    pub(super) fn reserved_per_second(&self, lane: Lane) -> u64 {
        self.lanes[lane]
            .reserved
            .map_or(0, |rate| rate.units_per_second)
    }

    pub(super) fn validate(&self) -> Result<(), SchedulerError> {
        at_least_one("task weight", self.weight.into())?;
        let mut reserved = 0;
        for lane in Lane::ALL {
            let TaskLane { limit, turns, .. } = self.lanes[lane];
            let rate = self.reserved_per_second(lane);
            if self.lanes[lane].reserved.is_some() {
                at_least_one("reserved.units_per_second", rate)?;
            }
            validate_limit(limit, rate)?;
            validate_limit(turns, 1)?;
            reserved |= rate;
        }
        let expected = match (self.class, reserved) {
            (Class::Guaranteed, 0) => "a reserved rate in at least one lane",
            (Class::BestEffort, 1..) => "no reserved rate",
            _ => return Ok(()),
        };
        Err(SchedulerError::ClassMismatch {
            task: self.name.clone(),
            class: self.class,
            expected,
        })
    }
}

/// The number of a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartitionId(pub u32);

/// The number of a task; never used twice by a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub u64);

fn at_least_one(name: &'static str, got: u64) -> Result<(), SchedulerError> {
    match got {
        0 => Err(SchedulerError::InvalidOption {
            name,
            expected: "at least 1",
            got,
        }),
        _ => Ok(()),
    }
}

/// A ceiling below the floor could not be kept, and one of zero would never let anything through.
fn validate_limit(limit: Option<Rate>, floor: u64) -> Result<(), SchedulerError> {
    match limit {
        Some(rate) if rate.units_per_second < floor.max(1) => Err(SchedulerError::InvalidOption {
            name: "limit.units_per_second",
            expected: "at least 1 and at least what is reserved",
            got: rate.units_per_second,
        }),
        _ => Ok(()),
    }
}
