//! Loom models of the scheduler's lock, over every interleaving with at most three preemptions.
//!
//! Run with: RUSTFLAGS="--cfg loom" cargo test -p assay-runtime --test scheduler_loom
#![cfg(loom)]

use assay_runtime::clock::VirtualClock;
use assay_runtime::scheduler::*;
use loom::thread;
use std::sync::Arc;

fn scheduler() -> (Scheduler, PartitionId) {
    let mut options = SchedulerOptions::new(10, PerLane::from_fn(|_| 1_000));
    options.decisions = 4;
    options.lanes.compute.window_grants = 1;
    let whole = options.whole_device("whole");
    let scheduler = Scheduler::new(options, Arc::new(VirtualClock::new())).expect("valid");
    let partition = scheduler.add_partition(whole).expect("fits");
    (scheduler, partition)
}

fn started(scheduler: &Scheduler, partition: PartitionId, memory_bytes: u64) -> Task {
    let mut options = TaskOptions::new("task", partition);
    options.memory_bytes = memory_bytes;
    let task = scheduler.submit(options).expect("fits");
    task.start().expect("admitted");
    task
}

/// Explores the orders with at most this many preemptions. All state is behind one lock, so that
/// three reach every order of two threads' critical sections that differ by a handover.
fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

#[test]
fn ending_a_grant_wakes_the_thread_that_waits_for_the_next() {
    model(3, || {
        let (scheduler, partition) = scheduler();
        let first = started(&scheduler, partition, 0);
        let second = started(&scheduler, partition, 0);
        let grant = first.request_grant(Lane::Compute, 1).expect("grant");
        let waiting = thread::spawn(move || second.request_grant(Lane::Compute, 1).map(drop));
        drop(grant);
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
        drop(first);
        assert!(scheduler.snapshot().expect("sound").is_idle());
    });
}

#[test]
fn cancel_racing_with_the_end_of_a_grant_releases_once() {
    model(3, || {
        let (scheduler, partition) = scheduler();
        let task = started(&scheduler, partition, 10);
        let grant = task.request_grant(Lane::Compute, 1).expect("grant");
        let (elsewhere, id) = (scheduler.clone(), task.id());
        let cancelling = thread::spawn(move || elsewhere.cancel(id));
        grant.end_measured(3);
        let dropping = thread::spawn(move || drop(task));
        dropping.join().expect("no panic");
        let outcome = cancelling.join().expect("no panic");
        // The second thread found the task ended or removed.
        assert!(outcome.is_ok() || outcome.map_err(|error| error.code()) == Err("unknown_task"));
        assert!(scheduler.snapshot().expect("sound").is_idle());
    });
}

#[test]
fn release_wakes_the_thread_that_waits_for_admission() {
    model(3, || {
        let (scheduler, partition) = scheduler();
        let holder = started(&scheduler, partition, 10);
        let mut options = TaskOptions::new("heir", partition);
        options.memory_bytes = 10;
        let heir = scheduler.submit(options).expect("can fit");
        let waiting = thread::spawn(move || heir.wait_admitted());
        drop(holder);
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
        assert!(scheduler.snapshot().expect("sound").is_idle());
    });
}
