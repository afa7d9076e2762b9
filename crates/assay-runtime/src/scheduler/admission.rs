//! Admission control: reserves memory and bandwidth for tasks, in order.
//!
//! Each partition has its own memory and its own reservable rates, so partitions do not wait for
//! each other. Within one, tasks queue by submission time plus the delay of their class. The first
//! task that does not fit blocks the queue. Later tasks backfill: they are admitted only when they
//! leave enough of every resource for the blocked one, so they never delay it, and no task starves.

use super::decision::{Action, Reason};
use super::error::SchedulerError;
use super::ids::{PartitionId, TaskId};
use super::lane::{Lane, PerLane};
use super::options::{PartitionOptions, TaskOptions};
use super::state::{PartitionEntry, Reservation, SchedulerState, TaskEntry};
use super::task_state::TaskState;

/// Tasks tried for backfill behind the first that does not fit, which bounds the cost of a long
/// queue.
const BACKFILL_DEPTH: usize = 16;

/// Memory and reservable rates, requested or free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Amounts {
    memory_bytes: u64,
    per_second: PerLane<u64>,
}

impl Amounts {
    fn requested(options: &TaskOptions) -> Self {
        Amounts {
            memory_bytes: options.memory_bytes,
            per_second: PerLane::from_fn(|lane| options.reserved_per_second(lane)),
        }
    }

    fn free(partition: &PartitionEntry) -> Self {
        let options = &partition.options;
        Amounts {
            memory_bytes: options.memory_bytes.saturating_sub(partition.reserved_bytes),
            per_second: PerLane::from_fn(|lane| {
                let reservable = options.lanes[lane].reservable_per_second;
                reservable.saturating_sub(partition.lanes[lane].reserved_per_second)
            }),
        }
    }

    /// The first resource that `free` has too little of, if any.
    fn shortage(&self, free: &Amounts) -> Option<Reason> {
        if self.memory_bytes > free.memory_bytes {
            return Some(Reason::Memory { requested: self.memory_bytes, free: free.memory_bytes });
        }
        Lane::ALL.into_iter().find_map(|lane| {
            let (requested, free) = (self.per_second[lane], free.per_second[lane]);
            (requested > free).then_some(Reason::Bandwidth { lane, requested, free })
        })
    }

    /// Whether admitting this leaves, of every resource it uses, enough for `first`.
    fn leaves_room_for(&self, first: &Amounts, free: &Amounts) -> bool {
        let enough = |used: u64, needed: u64, free: u64| {
            used == 0 || free.checked_sub(used).is_some_and(|left| left >= needed)
        };
        enough(self.memory_bytes, first.memory_bytes, free.memory_bytes)
            && Lane::ALL.into_iter().all(|lane| {
                enough(self.per_second[lane], first.per_second[lane], free.per_second[lane])
            })
    }
}

impl SchedulerState {
    /// Rejects a partition that exceeds what the device has left.
    pub fn check_partition(&self, options: &PartitionOptions) -> Result<(), SchedulerError> {
        options.validate()?;
        let others = || self.all_partitions().map(|(_, entry)| &entry.options);
        let assigned: u64 = others().map(|other| other.memory_bytes).sum();
        let limit = self.options.memory_bytes.saturating_sub(assigned);
        if options.memory_bytes > limit {
            return Err(SchedulerError::MemoryNeverFits {
                name: options.name.clone(),
                requested: options.memory_bytes,
                limit,
            });
        }
        for lane in Lane::ALL {
            let rate = |options: &PartitionOptions| options.lanes[lane].reservable_per_second;
            let assigned: u64 = others().map(rate).sum();
            let total = self.options.lanes[lane].reservable_per_second();
            let limit = total.saturating_sub(assigned);
            if rate(options) > limit {
                return Err(SchedulerError::BandwidthNeverFits {
                    name: options.name.clone(),
                    lane,
                    requested: rate(options),
                    limit,
                });
            }
        }
        Ok(())
    }

    /// Rejects a task that its partition could not admit even when empty.
    pub fn check_task(&self, options: &TaskOptions) -> Result<(), SchedulerError> {
        options.validate()?;
        let partition = options.partition;
        let Some(entry) = self.partition(partition) else {
            return Err(SchedulerError::UnknownPartition { partition });
        };
        let limit = entry.options.memory_bytes;
        if options.memory_bytes > limit {
            return Err(SchedulerError::MemoryNeverFits {
                name: options.name.clone(),
                requested: options.memory_bytes,
                limit,
            });
        }
        for lane in Lane::ALL {
            let requested = options.reserved_per_second(lane);
            let limit = entry.options.lanes[lane].reservable_per_second;
            if requested > limit {
                return Err(SchedulerError::BandwidthNeverFits {
                    name: options.name.clone(),
                    lane,
                    requested,
                    limit,
                });
            }
        }
        Ok(())
    }

    /// Adds a task and admits it at once if it fits.
    pub fn submit(&mut self, options: TaskOptions) -> u64 {
        let partition = options.partition;
        let class_weight = self.options.class(options.class).weight;
        let key = self.tasks.insert(TaskEntry::new(options, class_weight, self.now_ns));
        if let Some(entry) = self.partition_mut(partition) {
            entry.tasks += 1;
        }
        self.record(key, Action::Submit, Reason::Requested);
        self.queue_for_admission(key);
        self.admit(partition);
        key
    }

    /// Puts a pending task into its partition's admission queue.
    pub fn queue_for_admission(&mut self, task: u64) {
        let Some(entry) = self.tasks.get_mut(task) else {
            return;
        };
        let delay = self.options.class(entry.options.class).admission_delay_ns;
        let admission_key = (self.now_ns.saturating_add(delay), self.submissions);
        self.submissions += 1;
        entry.admission_key = Some(admission_key);
        entry.deferred = None;
        if let Some(partition) = self.partitions[entry.options.partition.0 as usize].as_mut() {
            partition.pending.insert(admission_key, task);
        }
    }

    /// Admits every task that fits now, in order.
    pub fn admit(&mut self, partition: PartitionId) {
        let mut first_blocked: Option<(u64, Amounts)> = None;
        let mut backfill_attempts = 0;
        let mut after = None;
        loop {
            let Some(entry) = self.partition(partition) else {
                return;
            };
            let free = Amounts::free(entry);
            let next = match after {
                None => entry.pending.first_key_value(),
                Some(key) => entry
                    .pending
                    .range((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded))
                    .next(),
            };
            let Some((&admission_key, &task)) = next else {
                return;
            };
            after = Some(admission_key);
            let Some(requested) =
                self.tasks.get(task).map(|task| Amounts::requested(&task.options))
            else {
                continue;
            };
            let refusal = match &first_blocked {
                Some((first, needed)) if !requested.leaves_room_for(needed, &free) => {
                    Some(Reason::Behind { task: TaskId(*first) })
                }
                _ => {
                    requested.shortage(&free).or_else(|| self.reserve(partition, task, &requested))
                }
            };
            let Some(reason) = refusal else {
                continue;
            };
            self.defer(task, reason);
            backfill_attempts += usize::from(first_blocked.is_some());
            first_blocked.get_or_insert((task, requested));
            if backfill_attempts >= BACKFILL_DEPTH {
                return;
            }
        }
    }

    /// Reserves a task's resources and admits it, or returns why the memory source cannot.
    fn reserve(
        &mut self,
        partition: PartitionId,
        task: u64,
        requested: &Amounts,
    ) -> Option<Reason> {
        let entry = self.partitions[partition.0 as usize].as_mut()?;
        let memory = match &entry.options.memory {
            Some(source) if requested.memory_bytes > 0 => {
                match source.reserve(requested.memory_bytes) {
                    Ok(memory) => Some(memory),
                    Err(free) => {
                        return Some(Reason::Memory { requested: requested.memory_bytes, free });
                    }
                }
            }
            _ => None,
        };
        entry.reserved_bytes += requested.memory_bytes;
        for lane in Lane::ALL {
            entry.lanes[lane].reserved_per_second += requested.per_second[lane];
        }
        let task_entry = self.tasks.get_mut(task)?;
        if let Some(key) = task_entry.admission_key.take() {
            entry.pending.remove(&key);
        }
        task_entry.reservation = Some(Reservation {
            memory_bytes: requested.memory_bytes,
            per_second: requested.per_second,
            memory,
        });
        task_entry.state = TaskState::Admitted;
        self.changed = true;
        self.record(task, Action::Admit, Reason::Fits);
        None
    }

    fn defer(&mut self, task: u64, reason: Reason) {
        let Some(entry) = self.tasks.get_mut(task) else {
            return;
        };
        let kind = std::mem::discriminant(&reason);
        if entry.deferred.map(|last| std::mem::discriminant(&last)) != Some(kind) {
            entry.deferred = Some(reason);
            self.record(task, Action::Defer, reason);
        }
    }

    /// Releases a task's reservation and admits the tasks that now fit.
    pub fn release(&mut self, task: u64, reason: Reason) {
        let Some(entry) = self.tasks.get_mut(task) else {
            return;
        };
        let Some(reservation) = entry.reservation.take() else {
            return;
        };
        let partition = entry.options.partition;
        if let Some(partition) = self.partition_mut(partition) {
            partition.reserved_bytes -= reservation.memory_bytes;
            for lane in Lane::ALL {
                partition.lanes[lane].reserved_per_second -= reservation.per_second[lane];
            }
        }
        // First, because a task admitted next may reserve the same bytes from the same source.
        drop(reservation.memory);
        self.record(task, Action::Release, reason);
        self.admit(partition);
    }
}
