//! Who gets memory and reserved bandwidth, and in which order.
//!
//! Each partition has its own memory and its own reservable rates, so partitions do not wait for
//! each other. Within one, tasks queue by the moment they were submitted plus the delay of their
//! class; a deadline shortens that delay. The first task that does not fit blocks what it needs:
//! later ones are let past only when they leave enough of everything for it, so it is never
//! delayed by them, and nobody waits forever.

use super::books::{Books, PartitionBooks, Reservation, TaskBooks};
use super::error::SchedulerError;
use super::lane::{Lane, PerLane};
use super::life::TaskState;
use super::options::{PartitionId, PartitionOptions, TaskOptions};
use super::record::{Action, Reason};

/// Tasks looked at behind the first that does not fit, so that a long queue costs little.
const LOOK_BEHIND: usize = 16;

/// Memory and reserved rates, asked for or free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Amounts {
    memory_bytes: u64,
    per_second: PerLane<u64>,
}

impl Amounts {
    fn asked(options: &TaskOptions) -> Self {
        Amounts {
            memory_bytes: options.memory_bytes,
            per_second: PerLane::from_fn(|lane| options.reserved_per_second(lane)),
        }
    }

    fn free(partition: &PartitionBooks) -> Self {
        let options = &partition.options;
        Amounts {
            memory_bytes: options
                .memory_bytes
                .saturating_sub(partition.reserved_bytes),
            per_second: PerLane::from_fn(|lane| {
                let reservable = options.lanes[lane].reservable_per_second;
                reservable.saturating_sub(partition.lanes[lane].reserved_per_second)
            }),
        }
    }

    /// What is missing for this, if anything.
    fn shortage(&self, free: &Amounts) -> Option<Reason> {
        if self.memory_bytes > free.memory_bytes {
            return Some(Reason::Memory {
                requested: self.memory_bytes,
                free: free.memory_bytes,
            });
        }
        Lane::ALL.into_iter().find_map(|lane| {
            let (requested, free) = (self.per_second[lane], free.per_second[lane]);
            (requested > free).then_some(Reason::Bandwidth {
                lane,
                requested,
                free,
            })
        })
    }

    /// Whether taking this leaves, of everything it takes, enough for `first`.
    fn spares(&self, first: &Amounts, free: &Amounts) -> bool {
        let enough = |taken: u64, needed: u64, free: u64| {
            taken == 0 || free.checked_sub(taken).is_some_and(|left| left >= needed)
        };
        enough(self.memory_bytes, first.memory_bytes, free.memory_bytes)
            && Lane::ALL.into_iter().all(|lane| {
                enough(
                    self.per_second[lane],
                    first.per_second[lane],
                    free.per_second[lane],
                )
            })
    }
}

impl Books {
    /// Refuses a partition for which the device has not enough left.
    pub fn check_partition(&self, options: &PartitionOptions) -> Result<(), SchedulerError> {
        options.validate()?;
        let others = || self.all_partitions().map(|(_, books)| &books.options);
        let given: u64 = others().map(|other| other.memory_bytes).sum();
        let limit = self.options.memory_bytes.saturating_sub(given);
        if options.memory_bytes > limit {
            return Err(SchedulerError::MemoryNeverFits {
                name: options.name.clone(),
                requested: options.memory_bytes,
                limit,
            });
        }
        for lane in Lane::ALL {
            let rate = |options: &PartitionOptions| options.lanes[lane].reservable_per_second;
            let given: u64 = others().map(rate).sum();
            let whole = self.options.lanes[lane].reservable_per_second();
            let limit = whole.saturating_sub(given);
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

    /// Refuses a task that its partition could not hold even if it were empty.
    pub fn check_task(&self, options: &TaskOptions) -> Result<(), SchedulerError> {
        options.validate()?;
        let partition = options.partition;
        let Some(books) = self.partition(partition) else {
            return Err(SchedulerError::UnknownPartition { partition });
        };
        let limit = books.options.memory_bytes;
        if options.memory_bytes > limit {
            return Err(SchedulerError::MemoryNeverFits {
                name: options.name.clone(),
                requested: options.memory_bytes,
                limit,
            });
        }
        for lane in Lane::ALL {
            let requested = options.reserved_per_second(lane);
            let limit = books.options.lanes[lane].reservable_per_second;
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

    /// Takes a task on and admits it at once if it fits.
    pub fn submit(&mut self, options: TaskOptions) -> u64 {
        let partition = options.partition;
        let class_weight = self.options.class(options.class).weight;
        let deadline = options.deadline;
        let key = self
            .tasks
            .insert(TaskBooks::new(options, class_weight, self.now_ns));
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline.instant_ns, key));
        }
        if let Some(books) = self.partition_mut(partition) {
            books.tasks += 1;
        }
        self.note(key, Action::Submit, Reason::Asked);
        self.queue_for_admission(key);
        self.admit(partition);
        key
    }

    /// Puts a pending task into its partition's queue.
    pub fn queue_for_admission(&mut self, task: u64) {
        let Some(books) = self.tasks.get_mut(task) else {
            return;
        };
        let mut delay = self.options.class(books.options.class).admission_delay_ns;
        if let Some(deadline) = books.options.deadline {
            delay = delay.min(deadline.instant_ns.saturating_sub(self.now_ns));
        }
        let queue_key = (self.now_ns.saturating_add(delay), self.submissions);
        self.submissions += 1;
        books.queue_key = Some(queue_key);
        books.deferred = None;
        if let Some(partition) = self.partitions[books.options.partition.0 as usize].as_mut() {
            partition.pending.insert(queue_key, task);
        }
    }

    /// Admits everyone who fits now, in order.
    pub fn admit(&mut self, partition: PartitionId) {
        let mut first_blocked: Option<(u64, Amounts)> = None;
        let mut looked_behind = 0;
        let mut after = None;
        loop {
            let Some(books) = self.partition(partition) else {
                return;
            };
            let free = Amounts::free(books);
            let next = match after {
                None => books.pending.first_key_value(),
                Some(key) => books
                    .pending
                    .range((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded))
                    .next(),
            };
            let Some((&queue_key, &task)) = next else {
                return;
            };
            after = Some(queue_key);
            let Some(asked) = self
                .tasks
                .get(task)
                .map(|task| Amounts::asked(&task.options))
            else {
                continue;
            };
            let refusal = match &first_blocked {
                Some((first, needed)) if !asked.spares(needed, &free) => Some(Reason::Behind {
                    task: super::options::TaskId(*first),
                }),
                _ => asked
                    .shortage(&free)
                    .or_else(|| self.reserve(partition, task, &asked)),
            };
            let Some(reason) = refusal else {
                continue;
            };
            self.defer(task, reason);
            looked_behind += usize::from(first_blocked.is_some());
            first_blocked.get_or_insert((task, asked));
            if looked_behind >= LOOK_BEHIND {
                return;
            }
        }
    }

    /// Gives a task its reservations, or says why the memory behind them is not to be had.
    fn reserve(&mut self, partition: PartitionId, task: u64, asked: &Amounts) -> Option<Reason> {
        let books = self.partitions[partition.0 as usize].as_mut()?;
        let hold = match &books.options.memory {
            Some(source) if asked.memory_bytes > 0 => match source.reserve(asked.memory_bytes) {
                Ok(hold) => Some(hold),
                Err(free) => {
                    return Some(Reason::Memory {
                        requested: asked.memory_bytes,
                        free,
                    });
                }
            },
            _ => None,
        };
        books.reserved_bytes += asked.memory_bytes;
        for lane in Lane::ALL {
            books.lanes[lane].reserved_per_second += asked.per_second[lane];
        }
        let task_books = self.tasks.get_mut(task)?;
        if let Some(key) = task_books.queue_key.take() {
            books.pending.remove(&key);
        }
        task_books.reservation = Some(Reservation {
            memory_bytes: asked.memory_bytes,
            per_second: asked.per_second,
            hold,
        });
        task_books.state = TaskState::Admitted;
        self.changed = true;
        self.note(task, Action::Admit, Reason::Fits);
        None
    }

    fn defer(&mut self, task: u64, reason: Reason) {
        let Some(books) = self.tasks.get_mut(task) else {
            return;
        };
        let kind = std::mem::discriminant(&reason);
        if books.deferred.map(|last| std::mem::discriminant(&last)) != Some(kind) {
            books.deferred = Some(reason);
            self.note(task, Action::Defer, reason);
        }
    }

    /// Gives back what a task holds and lets others have it.
    pub fn release(&mut self, task: u64, reason: Reason) {
        let Some(books) = self.tasks.get_mut(task) else {
            return;
        };
        let Some(reservation) = books.reservation.take() else {
            return;
        };
        let partition = books.options.partition;
        if let Some(partition) = self.partition_mut(partition) {
            partition.reserved_bytes -= reservation.memory_bytes;
            for lane in Lane::ALL {
                partition.lanes[lane].reserved_per_second -= reservation.per_second[lane];
            }
        }
        // Before anyone is admitted, who may want the same bytes from the same source.
        drop(reservation.hold);
        self.note(task, Action::Release, reason);
        self.admit(partition);
    }
}
