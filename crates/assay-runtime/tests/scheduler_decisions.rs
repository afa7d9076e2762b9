//! Admission, pausing and waiting: decisions, their order and their reasons.

use assay_runtime::backend::Space;
use assay_runtime::clock::{Clock, MonotonicClock, VirtualClock};
use assay_runtime::memory::{Pool, PoolOptions};
use assay_runtime::scheduler::*;
use assay_runtime::sim::{SimBackend, SimOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SPEED: u64 = 1_000_000_000;

struct World {
    clock: VirtualClock,
    scheduler: Scheduler,
    partition: PartitionId,
}

fn world_with(change: impl FnOnce(&mut SchedulerOptions)) -> World {
    let mut options = SchedulerOptions::new(100, PerLane::from_fn(|_| SPEED));
    change(&mut options);
    let clock = VirtualClock::new();
    let whole = options.whole_device("whole");
    let scheduler = Scheduler::new(options, Arc::new(clock.clone())).expect("valid");
    let partition = scheduler.add_partition(whole).expect("fits");
    World { clock, scheduler, partition }
}

fn world() -> World {
    world_with(|_| {})
}

impl World {
    fn options(&self, name: &str, memory: u64) -> TaskOptions {
        let mut options = TaskOptions::new(name, self.partition);
        options.memory_bytes = memory;
        options
    }

    fn guaranteed(&self, name: &str, memory: u64, rate: u64) -> TaskOptions {
        let mut options = self.options(name, memory);
        options.class = Class::Guaranteed;
        options.lanes.upload.reserved = Some(Rate::per_second(rate));
        options
    }

    fn submit(&self, options: TaskOptions) -> Task {
        self.scheduler.submit(options).expect("can fit")
    }

    fn started(&self, options: TaskOptions) -> Task {
        let task = self.submit(options);
        task.start().expect("admitted");
        task
    }

    /// The decisions since the last call.
    fn decisions(&self) -> Vec<String> {
        let drained = self.scheduler.take_decisions().expect("sound");
        assert_eq!(drained.dropped, 0);
        drained.records.iter().map(ToString::to_string).collect()
    }
}

fn state(task: &Task) -> TaskState {
    task.state().expect("alive")
}

#[test]
fn lifecycle_is_recorded_as_decisions_with_reasons() {
    let world = world();
    let mut options = world.options("decode", 60);
    options.lanes.compute.limit =
        Some(Rate { units_per_second: 1_000_000_000, burst_units: 1_000 });
    let task = world.started(options);
    let waiting = world.submit(world.options("other", 50));
    task.request_grant(Lane::Compute, 1_000).expect("grant").end_measured(700);
    let grant = task.request_grant(Lane::Compute, 1_000).expect("after the limit");
    drop(grant);
    task.finish().expect("running");
    drop(waiting);
    assert_eq!(
        world.decisions(),
        [
            "0 ns: submit decode: requested",
            "0 ns: admit decode: everything requested is free",
            "0 ns: start decode: requested",
            "0 ns: submit other: requested",
            "0 ns: defer other: 50 bytes of memory requested, 40 free",
            "0 ns: grant decode compute 1000 ns: next by weight",
            "0 ns: return decode compute 1000 ns: ended, measured at 700",
            "0 ns: hold decode compute 1000 ns: limit of the task until 700 ns",
            "700 ns: grant decode compute 1000 ns: next by weight",
            "700 ns: return decode compute 1000 ns: ended, at its assumed cost",
            "700 ns: finish decode: requested",
            "700 ns: release decode: task ended",
            "700 ns: admit other: everything requested is free",
            "700 ns: cancel other: handle dropped",
            "700 ns: release other: task ended",
        ]
    );
}

#[test]
fn decision_log_is_bounded_and_counts_dropped_records() {
    let world = world_with(|options| options.decisions = 10);
    for _ in 0..25 {
        drop(world.submit(world.options("short", 0)));
    }
    let drained = world.scheduler.take_decisions().expect("sound");
    // Each task records submit, admit, cancel, release.
    assert_eq!((drained.records.len(), drained.dropped), (10, 90));
    let sequences: Vec<u64> = drained.records.iter().map(|decision| decision.sequence).collect();
    assert_eq!(sequences, (90..100).collect::<Vec<u64>>());
    let again = world.scheduler.take_decisions().expect("sound");
    assert_eq!((again.records.len(), again.dropped), (0, 0));
}

#[test]
fn backfill_never_delays_the_first_blocked_task() {
    let world = world();
    let holder = world.submit(world.guaranteed("holder", 60, 400_000_000));
    let first = world.submit(world.guaranteed("first", 30, 700_000_000));
    // First lacks bandwidth and needs 30 of the 40 bytes left: 10 can be backfilled, 11 cannot.
    let small = world.submit(world.options("small", 10));
    let large = world.submit(world.options("large", 11));
    let reserving = world.submit(world.guaranteed("reserving", 0, 1));
    assert_eq!(
        [&holder, &first, &small, &large, &reserving].map(state),
        [
            TaskState::Admitted,
            TaskState::Pending,
            TaskState::Admitted,
            TaskState::Pending,
            TaskState::Pending
        ]
    );
    drop(holder);
    assert_eq!(state(&first), TaskState::Admitted);
    assert_eq!(state(&large), TaskState::Admitted);
    assert_eq!(state(&reserving), TaskState::Admitted);
}

#[test]
fn admission_order_is_submission_time_plus_class_delay() {
    let world = world_with(|options| options.best_effort.admission_delay_ns = 1_000);
    let holder = world.submit(world.options("holder", 100));
    let patient = world.submit(world.options("patient", 100));
    world.clock.advance_ns(500);
    let early = world.submit(world.guaranteed("early", 100, 1));
    world.clock.advance_ns(1);
    let mut late = world.guaranteed("late", 100, 1);
    late.class = Class::Burstable;
    let late = world.submit(late);
    let order = [early, patient, late];
    let mut previous = holder;
    for next in order {
        assert_eq!(state(&next), TaskState::Pending);
        drop(previous);
        assert_eq!(state(&next), TaskState::Admitted, "{next:?}");
        previous = next;
    }
}

#[test]
fn requests_above_capacity_are_rejected_with_the_limit() {
    let world = world();
    let cases = [
        (
            world.options("big", 101),
            "memory of \"big\" never fits: expected at most 100 bytes, got 101",
        ),
        (
            world.guaranteed("fast", 0, 950_000_001),
            "reserved upload of \"fast\" never fits: expected at most 950000000 bytes/s, got \
             950000001",
        ),
        (
            TaskOptions { partition: PartitionId(7), ..world.options("lost", 0) },
            "unknown partition: expected one made by add_partition, got 7",
        ),
        (
            TaskOptions { class: Class::BestEffort, ..world.guaranteed("greedy", 0, 1) },
            "class of task \"greedy\": expected no reserved rate for best-effort, got the \
             opposite\nhint: burstable tasks may reserve or not",
        ),
        (
            TaskOptions { class: Class::Guaranteed, ..world.options("hollow", 0) },
            "class of task \"hollow\": expected a reserved rate in at least one lane for \
             guaranteed, got the opposite\nhint: burstable tasks may reserve or not",
        ),
        (
            TaskOptions { weight: 0, ..world.options("weightless", 0) },
            "invalid option task weight: expected at least 1, got 0",
        ),
    ];
    for (options, message) in cases {
        let error = world.scheduler.submit(options).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let refused = world.scheduler.take_decisions().expect("sound").records;
    assert_eq!(refused.len(), 6);
    assert!(refused.iter().all(|decision| decision.action == Action::Refuse));
    let second = world.scheduler.add_partition(PartitionOptions {
        name: "second".to_owned(),
        weight: 1,
        memory_bytes: 1,
        memory: None,
        lanes: PerLane::default(),
    });
    assert_eq!(second.map_err(|error| error.code()), Err("memory_never_fits"));
}

#[test]
fn memory_of_an_ended_task_is_held_until_its_last_grant_ends() {
    let world = world();
    let task = world.started(world.options("task", 100));
    let grant = task.request_grant(Lane::Compute, 10).expect("grant");
    let refused = task.request(Lane::Compute, SPEED).expect("running");
    let heir = world.submit(world.options("heir", 100));
    task.cancel().expect("running");
    assert_eq!(state(&heir), TaskState::Pending, "the kernel still uses it");
    let error = refused.wait().expect_err("cancelled");
    assert_eq!(
        error.to_string(),
        "task \"task\" ended: expected it to be alive, got cancelled (requested)"
    );
    drop(task);
    assert_eq!(state(&heir), TaskState::Pending);
    drop(grant);
    assert_eq!(state(&heir), TaskState::Admitted);
}

#[test]
fn paused_task_keeps_or_releases_its_reservation() {
    let world = world();
    let task = world.started(world.options("task", 100));
    let heir = world.submit(world.options("heir", 100));
    let waiting = task.request(Lane::Compute, 10).expect("granted at once");
    task.pause(PausePolicy::Keep).expect("running");
    let error = task.request(Lane::Compute, 10).expect_err("paused");
    assert_eq!(
        error.to_string(),
        "grant for task \"task\": expected it to be running, got paused\nhint: start or resume it \
         first"
    );
    assert_eq!(task.resume(), Ok(TaskState::Running));
    drop(waiting);

    let grant = task.request_grant(Lane::Compute, 10).expect("grant");
    task.pause(PausePolicy::Release).expect("running");
    assert_eq!(state(&heir), TaskState::Pending, "a grant is in flight");
    drop(grant);
    assert_eq!(state(&heir), TaskState::Admitted);
    assert_eq!(task.resume(), Ok(TaskState::Pending));
    drop(heir);
    assert_eq!(state(&task), TaskState::Admitted);
    task.start().expect("admitted again");
    let again = task.start().expect_err("running");
    assert_eq!(
        again.to_string(),
        "illegal transition of task \"task\": expected a transition allowed from running, got running"
    );
}

#[test]
fn requests_that_wait_while_paused_are_granted_after_resuming() {
    let world = world_with(|options| options.lanes.compute.window_grants = 1);
    let task = world.started(world.options("task", 0));
    let first = task.request_grant(Lane::Compute, 10).expect("grant");
    let second = task.request(Lane::Compute, 10).expect("running");
    task.pause(PausePolicy::Keep).expect("running");
    drop(first);
    let Poll::Pending(second) = second.poll().expect("alive") else {
        panic!("a paused task got a grant");
    };
    task.resume().expect("paused");
    assert!(matches!(second.poll(), Ok(Poll::Ready(_))));
}

#[test]
fn pool_backs_a_reservation_and_gets_it_back() {
    let device = Arc::new(SimBackend::new(SimOptions::default()).expect("valid"));
    let options = PoolOptions::new(Space::Device, 1 << 30);
    let pool = Arc::new(Pool::new(device.clone(), options).expect("valid"));
    let tenant = pool.add_tenant("tenant", 1 << 20).expect("room");
    let options = SchedulerOptions::new(1 << 30, PerLane::from_fn(|_| SPEED));
    let mut whole = options.whole_device("whole");
    whole.memory = Some(Arc::new(PoolTenant::new(Arc::clone(&pool), tenant)));
    let clock = Arc::new(device.virtual_clock().clone());
    let scheduler = Scheduler::new(options, clock).expect("valid");
    let partition = scheduler.add_partition(whole).expect("fits");
    let submit = |name: &str, memory_bytes| {
        let mut options = TaskOptions::new(name, partition);
        options.memory_bytes = memory_bytes;
        scheduler.submit(options).expect("can fit")
    };
    let reserved = || pool.tenant_usage(tenant).expect("known").reserved_bytes;
    let first = submit("first", 700_000);
    let second = submit("second", 700_000);
    assert_eq!((state(&first), state(&second)), (TaskState::Admitted, TaskState::Pending));
    assert_eq!(reserved(), 700_000);
    drop(first);
    assert_eq!((state(&second), reserved()), (TaskState::Admitted, 700_000));
    drop(second);
    assert_eq!(reserved(), 0);
    let deferred = scheduler.take_decisions().expect("sound").records;
    assert!(deferred.iter().any(|decision| decision.reason
        == Reason::Memory { requested: 700_000, free: (1 << 20) - 700_000 }));
}

#[test]
fn requests_due_under_reservations_are_granted_by_deadline() {
    let world = world_with(|options| options.lanes.upload.window_grants = 1);
    let fast = world.started(world.guaranteed("fast", 0, 1_000_000));
    let slow = world.started(world.guaranteed("slow", 0, 1_000));
    let blocker = world.started(world.options("blocker", 0));
    let grant = blocker.request_grant(Lane::Upload, 1).expect("grant");
    let mut pending: Vec<_> = [&slow, &fast]
        .map(|task| (task.name().to_owned(), task.request(Lane::Upload, 10).expect("running")))
        .into();
    drop(grant);
    let mut order = Vec::new();
    while !pending.is_empty() {
        let mut waiting = Vec::new();
        let mut granted = None;
        for (name, request) in pending {
            match request.poll().expect("alive") {
                Poll::Ready(grant) => granted = Some((name, grant)),
                Poll::Pending(request) => waiting.push((name, request)),
            }
        }
        let (name, _grant) = granted.expect("one is in flight");
        order.push(name);
        pending = waiting;
    }
    assert_eq!(order, ["fast", "slow"]);
}

#[test]
fn run_ends_the_task_by_the_closures_result() {
    let world = world();
    let outcome = world
        .submit(world.options("good", 10))
        .run(|task| task.request_grant(Lane::Compute, 1).map(|_| 7));
    assert_eq!(outcome, Ok(Ok(7)));
    let failed: Result<std::result::Result<(), &str>> =
        world.submit(world.options("bad", 10)).run(|_| Err("no luck"));
    assert_eq!(failed, Ok(Err("no luck")));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let task = world.submit(world.options("worse", 10));
        let _: Result<std::result::Result<(), String>> =
            task.run(|_| std::panic::resume_unwind(Box::new("injected")));
    }));
    assert!(panicked.is_err());
    let ends: Vec<_> = world
        .scheduler
        .take_decisions()
        .expect("sound")
        .records
        .into_iter()
        .filter(|decision| matches!(decision.action, Action::Finish | Action::Fail))
        .map(|decision| (decision.name.to_string(), decision.reason))
        .collect();
    assert_eq!(
        ends,
        [
            ("good".to_owned(), Reason::Requested),
            ("bad".to_owned(), Reason::Reported),
            ("worse".to_owned(), Reason::Panicked),
        ]
    );
    assert!(world.scheduler.snapshot().expect("sound").is_idle());
}

#[test]
fn requests_beyond_the_queue_capacity_are_refused() {
    let world = world_with(|options| {
        options.max_waiting_requests = 2;
        options.lanes.compute.window_grants = 1;
    });
    let task = world.started(world.options("task", 0));
    let held: Vec<PendingGrant> =
        (0..3).map(|_| task.request(Lane::Compute, 1).expect("one granted, two waiting")).collect();
    let error = task.request(Lane::Compute, 1).expect_err("full");
    assert_eq!(
        error.to_string(),
        "too many requests of task \"task\" waiting for compute: expected at most 2, got one \
         more\nhint: wait for a grant before requesting the next"
    );
    drop(held);
}

#[test]
fn threads_block_on_grants_and_cancellation_wakes_them() {
    let mut options = SchedulerOptions::new(0, PerLane::from_fn(|_| SPEED));
    options.lanes.compute.window_grants = 1;
    let whole = options.whole_device("whole");
    let scheduler = Scheduler::new(options, Arc::new(MonotonicClock::new())).expect("valid");
    let partition = scheduler.add_partition(whole).expect("fits");
    let overlap = AtomicBool::new(false);
    let total: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|index| {
                let (scheduler, overlap) = (&scheduler, &overlap);
                scope.spawn(move || {
                    let task = scheduler
                        .submit(TaskOptions::new(&format!("worker {index}"), partition))
                        .expect("fits");
                    task.start().expect("admitted");
                    for _ in 0..500 {
                        let grant = task.request_grant(Lane::Compute, 1_000).expect("grant");
                        assert!(!overlap.swap(true, Ordering::SeqCst), "two at once");
                        overlap.store(false, Ordering::SeqCst);
                        drop(grant);
                    }
                    task.snapshot().expect("alive").lanes.compute.grants
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("worker")).sum()
    });
    assert_eq!(total, 2_000);

    let holder = scheduler.submit(TaskOptions::new("holder", partition)).expect("fits");
    holder.start().expect("admitted");
    let grant = holder.request_grant(Lane::Compute, 1).expect("grant");
    let blocked = scheduler.submit(TaskOptions::new("blocked", partition)).expect("fits");
    blocked.start().expect("admitted");
    let id = blocked.id();
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| blocked.request_grant(Lane::Compute, 1));
        std::thread::sleep(Duration::from_millis(5));
        scheduler.cancel(id).expect("running");
        waiting.join().expect("no panic")
    });
    assert_eq!(outcome.map_err(|error| error.code()).err(), Some("ended"));
    drop((grant, holder, blocked));
    assert!(scheduler.snapshot().expect("sound").is_idle());
}

#[test]
fn only_waiting_for_a_limit_advances_a_virtual_clock() {
    let world = world();
    let mut options = world.options("paced", 0);
    options.lanes.upload.limit = Some(Rate { units_per_second: 1_000, burst_units: 10 });
    let task = world.started(options);
    for _ in 0..101 {
        drop(task.request_grant(Lane::Upload, 10).expect("grant"));
    }
    assert_eq!(world.clock.now_ns(), 1_000_000_000);
}

#[test]
fn due_request_may_follow_its_own_grant_only() {
    let world = world_with(|options| options.lanes.upload.window_units = 100);
    let reserved = world.started(world.guaranteed("reserved", 0, SPEED / 2));
    let other = world.started(world.options("other", 0));
    world.clock.advance_ns(1_000_000);
    let poll = |request: PendingGrant| match request.poll().expect("alive") {
        Poll::Ready(grant) => Ok(grant),
        Poll::Pending(request) => Err(request),
    };
    let request = |task: &Task| poll(task.request(Lane::Upload, 100).expect("running"));

    let theirs = request(&other).expect("nothing in flight");
    let waiting = request(&reserved).expect_err("another's grant is in flight");
    assert!(request(&other).is_err(), "only a guaranteed task's grant follows");
    drop(theirs);
    let first = poll(waiting).expect("due");
    let second = request(&reserved).expect("follows the first");
    let third = request(&reserved).expect_err("two are in flight");
    drop(first);
    let third = poll(third).expect("follows the second");
    drop((second, third));
}
