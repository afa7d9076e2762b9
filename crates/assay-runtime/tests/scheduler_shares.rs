//! Reservations, limits and weighted shares, measured in virtual time on a lane of known speed.

use assay_runtime::clock::{Clock, VirtualClock};
use assay_runtime::scheduler::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
const MB: u64 = 1_000_000;
/// The lane's real speed, in bytes a second.
const SPEED: u64 = 1_000 * MB;

/// A backlogged task with `depth` requests of `units` outstanding.
struct Load {
    task: Task,
    units: u64,
    depth: usize,
    pending: VecDeque<PendingGrant>,
    served: u64,
    grants: Vec<(u64, u64)>,
    longest_wait_ns: u64,
    /// Requests again only when a grant has ended.
    closed: bool,
    in_flight: usize,
}

/// A lane that executes one grant after the other at a fixed speed.
struct Bench {
    clock: VirtualClock,
    scheduler: Scheduler,
    options: SchedulerOptions,
    loads: Vec<Load>,
    in_flight: VecDeque<(u64, usize, Grant)>,
    speed: u64,
    free_at_ns: u64,
}

impl Bench {
    fn new(change: impl FnOnce(&mut SchedulerOptions)) -> Self {
        let rates = PerLane::from_fn(|_| SPEED);
        let mut options = SchedulerOptions::new(1 << 30, rates);
        change(&mut options);
        let clock = VirtualClock::new();
        let scheduler = Scheduler::new(options.clone(), Arc::new(clock.clone())).expect("valid");
        Bench {
            clock,
            scheduler,
            options,
            loads: Vec::new(),
            in_flight: VecDeque::new(),
            speed: SPEED,
            free_at_ns: 0,
        }
    }

    fn partition(&self, change: impl FnOnce(&mut PartitionOptions)) -> PartitionId {
        let mut options = self.options.whole_device("part");
        change(&mut options);
        self.scheduler.add_partition(options).expect("fits")
    }

    fn add(&mut self, options: TaskOptions, units: u64, depth: usize) -> usize {
        let task = self.scheduler.submit(options).expect("fits");
        task.start().expect("admitted at once");
        self.loads.push(Load {
            task,
            units,
            depth,
            pending: VecDeque::new(),
            served: 0,
            grants: Vec::new(),
            longest_wait_ns: 0,
            closed: false,
            in_flight: 0,
        });
        self.loads.len() - 1
    }

    /// Tops up the outstanding requests and starts what was granted.
    fn feed(&mut self) {
        loop {
            let mut moved = false;
            let now = self.clock.now_ns();
            for (index, load) in self.loads.iter_mut().enumerate() {
                let counted = if load.closed { load.in_flight } else { 0 };
                while load.pending.len() + counted < load.depth {
                    let request = load.task.request(Lane::Upload, load.units).expect("running");
                    load.pending.push_back(request);
                }
                while let Some(request) = load.pending.pop_front() {
                    match request.poll().expect("running") {
                        Poll::Pending(request) => {
                            load.pending.push_front(request);
                            break;
                        }
                        Poll::Ready(grant) => {
                            moved = true;
                            load.in_flight += 1;
                            let nanoseconds = (load.units * SECOND).div_ceil(self.speed);
                            self.free_at_ns = self.free_at_ns.max(now) + nanoseconds;
                            self.in_flight.push_back((self.free_at_ns, index, grant));
                            let last = load.grants.last().map_or(0, |(time, _)| *time);
                            load.longest_wait_ns = load.longest_wait_ns.max(now - last);
                            load.grants.push((now, load.units));
                        }
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn run(&mut self, nanoseconds: u64) {
        let end = self.clock.now_ns() + nanoseconds;
        loop {
            self.feed();
            let done = self.in_flight.front().map(|(time, ..)| *time);
            let due = self.scheduler.next_event_ns().expect("sound");
            let next = done.into_iter().chain(due).min().expect("something to do");
            if next > end {
                self.clock.advance_to_ns(end);
                return;
            }
            self.clock.advance_to_ns(next);
            while self.in_flight.front().is_some_and(|(time, ..)| *time <= next) {
                let (_, index, grant) = self.in_flight.pop_front().expect("seen");
                self.loads[index].served += self.loads[index].units;
                self.loads[index].in_flight -= 1;
                drop(grant);
            }
        }
    }

    fn shares(&self, of: &[usize]) -> Vec<f64> {
        let total: u64 = of.iter().map(|load| self.loads[*load].served).sum();
        of.iter().map(|load| self.loads[*load].served as f64 / total as f64).collect()
    }
}

fn guaranteed(partition: PartitionId, rate: Rate) -> TaskOptions {
    let mut options = TaskOptions::new("guaranteed", partition);
    options.class = Class::Guaranteed;
    options.lanes.upload.reserved = Some(rate);
    options
}

fn best_effort(partition: PartitionId, weight: u32) -> TaskOptions {
    let mut options = TaskOptions::new("best effort", partition);
    options.weight = weight;
    options
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn guaranteed_tasks_keep_their_reservation_under_any_best_effort_load(
        permille in prop::collection::vec(20_u64..400, 1..4),
        reserved_units in 100_000_u64..1_000_000,
        crowd in prop::collection::vec((100_000_u64..8_000_000, 1_usize..9, 1_u32..1_000), 1..10),
        window_us in 10_u64..5_000,
        burst in 0_u64..10_000_000,
    ) {
        let mut bench = Bench::new(|options| {
            options.lanes.upload.window_units = SPEED / MB * window_us;
            options.best_effort.weight = 1_000;
        });
        let partition = bench.partition(|_| {});
        for (units, depth, weight) in &crowd {
            bench.add(best_effort(partition, *weight), *units, *depth);
        }
        // A backlog deep enough to outlast the largest grant, until the window opens.
        let largest = crowd.iter().map(|(units, ..)| *units).max().unwrap_or(0);
        let blocked = bench.options.lanes.upload.window_units + largest + reserved_units;
        let depth = 1 + (blocked / reserved_units) as usize;
        let total: u64 = permille.iter().sum();
        let mut reserved = Vec::new();
        for share in &permille {
            let share = share * 950 / total.max(950);
            let rate = Rate { units_per_second: SPEED / 1_000 * share, burst_units: burst };
            let load = bench.add(guaranteed(partition, rate), reserved_units, depth);
            reserved.push((load, rate.units_per_second));
        }
        bench.run(SECOND);
        for (load, _) in &reserved {
            bench.loads[*load].served = 0;
        }
        let seconds = 4;
        bench.run(seconds * SECOND);
        for (load, rate) in reserved {
            let kept = bench.loads[load].served as f64 / (rate * seconds) as f64;
            prop_assert!(kept >= 0.99, "kept {kept} of {rate} bytes/s");
        }
    }

    #[test]
    fn shares_follow_weights_within_two_percent(
        loads in prop::collection::vec((1_u32..10, 250_000_u64..1_000_000), 2..6),
        partitions in prop::collection::vec(1_u32..10, 1..4),
    ) {
        let mut bench = Bench::new(|options| options.lanes.upload.window_units = 1_000_000);
        let mut parts = Vec::new();
        for weight in &partitions {
            parts.push((*weight, Vec::new(), bench.partition(|options| {
                options.weight = *weight;
                options.memory_bytes = 0;
                options.lanes = PerLane::default();
            })));
        }
        for (index, (weight, units)) in loads.iter().enumerate() {
            let part = index % parts.len();
            // A backlog deep enough to outlast a large grant of another task.
            let depth = 1 + (1_000_000 / units) as usize;
            let load = bench.add(best_effort(parts[part].2, *weight), *units, depth);
            parts[part].1.push((load, *weight));
        }
        bench.run(20 * SECOND);
        let busy: Vec<_> = parts.iter().filter(|(_, tasks, _)| !tasks.is_empty()).collect();
        let part_total: u32 = busy.iter().map(|(weight, ..)| *weight).sum();
        let all: u64 = bench.loads.iter().map(|load| load.served).sum();
        for (part_weight, tasks, _) in busy {
            let task_total: u32 = tasks.iter().map(|(_, weight)| *weight).sum();
            for (load, weight) in tasks {
                let ideal = f64::from(*part_weight) / f64::from(part_total)
                    * f64::from(*weight) / f64::from(task_total);
                let got = bench.loads[*load].served as f64 / all as f64;
                prop_assert!((got / ideal - 1.0).abs() <= 0.02, "got {got}, ideal {ideal}");
            }
        }
        prop_assert!(all as f64 >= 0.999 * (20 * SPEED) as f64, "the lane stood idle");
    }

    #[test]
    fn no_task_starves_under_full_reservations_even_at_half_the_nominal_speed(
        crowd in prop::collection::vec((1_u32..200, 100_000_u64..2_000_000), 1..6),
        reserved_units in 100_000_u64..1_000_000,
        slow in any::<bool>(),
    ) {
        let mut bench = Bench::new(|options| options.lanes.upload.window_units = 500_000);
        bench.speed = if slow { SPEED / 2 } else { SPEED };
        let partition = bench.partition(|_| {});
        let rate = Rate { units_per_second: SPEED / 1_000 * 950, burst_units: MB };
        bench.add(guaranteed(partition, rate), reserved_units, 8);
        for (weight, units) in &crowd {
            bench.add(best_effort(partition, *weight), *units, 2);
        }
        bench.run(10 * SECOND);
        // The guaranteed task has class weight 4 and shares the unreserved part.
        let weights: f64 = 4.0 + crowd.iter().map(|(weight, _)| f64::from(*weight)).sum::<f64>();
        let largest: f64 = reserved_units as f64
            + crowd.iter().map(|(_, units)| *units as f64).sum::<f64>();
        let unreserved = 0.05 * bench.speed as f64;
        for (load, (weight, units)) in bench.loads[1..].iter().zip(&crowd) {
            let per_turn = weights * *units as f64 / f64::from(*weight);
            let bound = (per_turn + 2.0 * largest) / unreserved
                + (500_000.0 + 2.0 * largest) / bench.speed as f64;
            let waited = load.longest_wait_ns as f64 / SECOND as f64;
            prop_assert!(waited <= bound, "waited {waited} s, bound {bound} s");
            prop_assert!(load.served > 0 || bound > 10.0);
        }
    }

    #[test]
    fn limits_hold_over_every_interval_and_are_fully_used(
        limit in 1_u64..400,
        burst in 100_000_u64..5_000_000,
        units in 20_000_u64..2_000_000,
        on_partition in any::<bool>(),
    ) {
        let rate = Rate { units_per_second: limit * MB, burst_units: burst };
        let mut bench = Bench::new(|_| {});
        let partition = bench.partition(|options| {
            options.lanes.upload = PartitionLane::default();
            if on_partition {
                options.lanes.upload.limit = Some(rate);
            }
        });
        let mut options = best_effort(partition, 1);
        if !on_partition {
            options.lanes.upload.limit = Some(rate);
        }
        bench.add(options, units, 3);
        bench.run(10 * SECOND);
        let grants = &bench.loads[0].grants;
        let allowed = |nanoseconds: u64| {
            burst.max(units) as f64 + rate.units_per_second as f64 * nanoseconds as f64 / 1e9
        };
        for first in (0..grants.len()).step_by(1 + grants.len() / 50) {
            let mut sum = 0;
            for (time, units) in &grants[first..] {
                sum += units;
                let allowed = allowed(time - grants[first].0);
                prop_assert!(sum as f64 <= allowed + 1.0, "{sum} over {allowed}");
            }
        }
        let total: u64 = grants.iter().map(|(_, units)| units).sum();
        let promised = rate.units_per_second * 10;
        prop_assert!(total + units >= promised, "{total} of {promised}");
    }
}

#[test]
fn unreserved_bandwidth_is_shared_by_weight_on_top_of_reservations() {
    let mut bench = Bench::new(|options| options.guaranteed.weight = 1);
    let partition = bench.partition(|_| {});
    let rate = Rate::per_second(400 * MB);
    let first = bench.add(guaranteed(partition, rate), 50_000, 8);
    let second = bench.add(best_effort(partition, 1), 50_000, 8);
    bench.run(20 * SECOND);
    let shares = bench.shares(&[first, second]);
    // 40 % reserved, and half of the remaining 60 % each.
    assert!((shares[0] - 0.7).abs() < 0.005, "{shares:?}");
    let lanes = bench.loads[first].task.snapshot().expect("alive").lanes;
    let reserved = lanes.upload.reserved_units as f64 / (20 * SPEED) as f64;
    assert!((reserved - 0.4).abs() < 0.005, "{reserved}");
}

#[test]
fn closed_loop_task_keeps_a_rate_that_its_grant_size_supports() {
    let (window, largest) = (500_000, 1_000_000);
    for (permille, units) in [(100, 300_000), (300, 1_000_000), (500, 2_000_000)] {
        let mut bench = Bench::new(|options| options.lanes.upload.window_units = window);
        let partition = bench.partition(|_| {});
        let rate = SPEED / 1_000 * permille;
        // Each request exceeds the reserved rate times its latency.
        assert!(units * SPEED >= rate * (window + largest + units));
        let burst_units = window + largest;
        let options = guaranteed(partition, Rate { units_per_second: rate, burst_units });
        let load = bench.add(options, units, 1);
        bench.loads[load].closed = true;
        bench.add(best_effort(partition, 100), largest, 8);
        bench.add(best_effort(partition, 100), 70_000, 8);
        bench.run(10 * SECOND);
        let kept = bench.loads[load].served as f64 / (10 * rate) as f64;
        assert!(kept >= 0.99, "kept {kept} of {permille} permille");
    }
}

#[test]
fn late_task_gets_its_share_without_catching_up() {
    let mut bench = Bench::new(|_| {});
    let partition = bench.partition(|_| {});
    let first = bench.add(best_effort(partition, 1), 200_000, 4);
    bench.run(5 * SECOND);
    let second = bench.add(best_effort(partition, 1), 200_000, 4);
    bench.loads[first].served = 0;
    bench.run(5 * SECOND);
    let shares = bench.shares(&[first, second]);
    assert!((shares[0] - 0.5).abs() < 0.001, "{shares:?}");
}

#[test]
fn measured_costs_replace_assumed_costs_in_the_shares() {
    // Both assume the same cost; the second really costs three times as much.
    let bench = Bench::new(|options| options.lanes.compute.window_grants = 1);
    let partition = bench.partition(|_| {});
    let mut grants = [0_u64; 2];
    let tasks: Vec<Task> = (0..2)
        .map(|_| {
            let task = bench.scheduler.submit(best_effort(partition, 1)).expect("fits");
            task.start().expect("admitted");
            task
        })
        .collect();
    let mut pending: Vec<Vec<PendingGrant>> = (0..2).map(|_| Vec::new()).collect();
    for _ in 0..4_000 {
        for (task, pending) in tasks.iter().zip(&mut pending) {
            while pending.len() < 2 {
                pending.push(task.request(Lane::Compute, 1_000).expect("running"));
            }
        }
        let mut granted = None;
        for (index, waiting) in pending.iter_mut().enumerate() {
            match waiting.remove(0).poll().expect("running") {
                Poll::Ready(grant) => granted = Some((index, grant)),
                Poll::Pending(request) => waiting.insert(0, request),
            }
        }
        let (index, grant) = granted.expect("one at a time");
        grants[index] += 1;
        grant.end_measured([1_000, 3_000][index]);
    }
    let ratio = grants[0] as f64 / grants[1] as f64;
    assert!((ratio - 3.0).abs() < 0.01, "grants {grants:?}");
    let measured = |task: &Task| task.snapshot().expect("alive").lanes.compute.measured_units;
    assert!(measured(&tasks[0]).abs_diff(measured(&tasks[1])) <= 4_000);
}
