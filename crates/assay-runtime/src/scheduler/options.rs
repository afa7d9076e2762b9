//! Options of a scheduler, a partition and a task.

use super::class::Class;
use super::error::SchedulerError;
use super::ids::PartitionId;
use super::lane::{Lane, PerLane};
use super::memory_source::MemorySource;
use super::token_bucket::Rate;
use std::sync::Arc;

/// Options of a class of tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassOptions {
    /// Multiplies the weights of its tasks.
    pub weight: u32,
    /// Tasks of this class queue for admission as if they had come this much later.
    ///
    /// A delay, unlike a strict priority, cannot starve a task.
    pub admission_delay_ns: u64,
}

/// Options of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneOptions {
    /// The device's rate; it bounds what can be reserved, not what can be done.
    pub units_per_second: u64,
    /// Units that may be in flight at once. A larger grant is issued alone; one that is due to a
    /// guaranteed task may also follow the only grant in flight if that is the same task's.
    ///
    /// Work in flight cannot be preempted, so this also bounds how long the most urgent request waits.
    pub window_units: u64,
    /// Grants that may be in flight at once.
    pub window_grants: u32,
    /// Thousandths of the lane that cannot be reserved, so that no task starves; at least 1.
    pub unreserved_permille: u32,
}

impl LaneOptions {
    /// The most units a second that reservations may sum to.
    pub fn reservable_per_second(&self) -> u64 {
        let share = u128::from(1_000 - self.unreserved_permille.min(1_000));
        u64::try_from(u128::from(self.units_per_second) * share / 1_000).unwrap_or(u64::MAX)
    }

    /// The most credit of the unreserved part in milliunits: ten milliseconds' worth.
    pub(super) fn max_unreserved_credit(&self) -> i128 {
        i128::from(self.units_per_second) * i128::from(self.unreserved_permille) / 100
    }
}

/// Options of a [`Scheduler`](super::Scheduler).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchedulerOptions {
    /// Device memory to divide among partitions.
    pub memory_bytes: u64,
    /// The lanes.
    pub lanes: PerLane<LaneOptions>,
    /// Options of the guaranteed class.
    pub guaranteed: ClassOptions,
    /// Options of the burstable class.
    pub burstable: ClassOptions,
    /// Options of the best-effort class.
    pub best_effort: ClassOptions,
    /// Capacity of the decision log; older decisions are dropped and counted.
    pub decisions: usize,
    /// Requests a task may have waiting in one lane.
    pub max_waiting_requests: usize,
}

impl SchedulerOptions {
    /// Options for a device with this memory and these rates, with defaults for the rest.
    ///
    /// The windows hold a millisecond of work, 5 % of each lane cannot be reserved, and the class
    /// weights are 4 : 2 : 1.
    pub fn new(memory_bytes: u64, units_per_second: PerLane<u64>) -> Self {
        let class = |weight, admission_delay_ns| ClassOptions { weight, admission_delay_ns };
        SchedulerOptions {
            memory_bytes,
            lanes: PerLane::from_fn(|lane| LaneOptions {
                units_per_second: units_per_second[lane],
                window_units: units_per_second[lane] / 1_000,
                window_grants: 1_024,
                unreserved_permille: 50,
            }),
            guaranteed: class(4, 0),
            burstable: class(2, 1_000_000_000),
            best_effort: class(1, 10_000_000_000),
            decisions: 4_096,
            max_waiting_requests: 1_024,
        }
    }

    /// A partition that spans the whole device.
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

    /// The options of a class.
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
            at_least_one("lanes.window_grants", options.window_grants.into())?;
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
        at_least_one("max_waiting_requests", self.max_waiting_requests as u64)
    }
}

/// A partition's options in one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartitionLane {
    /// Units a second that the partition's tasks may reserve together.
    pub reservable_per_second: u64,
    /// The most units the partition is granted, if limited.
    pub limit: Option<Rate>,
}

/// A partition of the device: its own memory and reservable bandwidth, and a share of the rest.
#[derive(Clone, Debug)]
pub struct PartitionOptions {
    /// Its name.
    pub name: String,
    /// Its weight among the partitions.
    pub weight: u32,
    /// Memory its tasks may reserve together.
    pub memory_bytes: u64,
    /// What backs that memory, such as a pool; without one, bytes are only counted.
    pub memory: Option<Arc<dyn MemorySource>>,
    /// Its lanes.
    pub lanes: PerLane<PartitionLane>,
}

impl PartitionOptions {
    pub(super) fn validate(&self) -> Result<(), SchedulerError> {
        at_least_one("partition weight", self.weight.into())?;
        for lane in Lane::ALL {
            let PartitionLane { reservable_per_second, limit } = self.lanes[lane];
            validate_limit(limit, reservable_per_second)?;
        }
        Ok(())
    }
}

/// A task's options in one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskLane {
    /// The rate reserved for the task, if any.
    pub reserved: Option<Rate>,
    /// The most units it is granted, if limited.
    pub limit: Option<Rate>,
}

/// Options of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskOptions {
    /// Its name, for records and errors.
    pub name: String,
    /// The partition it belongs to.
    pub partition: PartitionId,
    /// Its class.
    pub class: Class,
    /// Its weight among the tasks of its partition and class.
    pub weight: u32,
    /// Memory it reserves.
    pub memory_bytes: u64,
    /// Its lanes.
    pub lanes: PerLane<TaskLane>,
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
        }
    }

    /// What the task reserves in a lane, in units a second.
    pub(super) fn reserved_per_second(&self, lane: Lane) -> u64 {
        self.lanes[lane].reserved.map_or(0, |rate| rate.units_per_second)
    }

    pub(super) fn validate(&self) -> Result<(), SchedulerError> {
        at_least_one("task weight", self.weight.into())?;
        let mut reserved = 0;
        for lane in Lane::ALL {
            let rate = self.reserved_per_second(lane);
            if self.lanes[lane].reserved.is_some() {
                at_least_one("reserved.units_per_second", rate)?;
            }
            validate_limit(self.lanes[lane].limit, rate)?;
            reserved |= rate;
        }
        let expected = match (self.class, reserved) {
            (Class::Guaranteed, 0) => "a reserved rate in at least one lane",
            (Class::BestEffort, 1..) => "no reserved rate",
            _ => return Ok(()),
        };
        Err(SchedulerError::ClassMismatch { task: self.name.clone(), class: self.class, expected })
    }
}

fn at_least_one(name: &'static str, got: u64) -> Result<(), SchedulerError> {
    match got {
        0 => Err(SchedulerError::InvalidOption { name, expected: "at least 1", got }),
        _ => Ok(()),
    }
}

/// A limit below the reserved rate contradicts it, and one of zero would admit nothing.
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
