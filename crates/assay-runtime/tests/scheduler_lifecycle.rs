//! Random task lifecycles with panics, cancellations and failures: nothing stays reserved.

use assay_runtime::clock::VirtualClock;
use assay_runtime::scheduler::*;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const MEMORY: u64 = 1_000;
const RATE: u64 = 1_000_000;

/// The states from which a task can be cancelled.
const ALIVE: [TaskState; 4] =
    [TaskState::Pending, TaskState::Admitted, TaskState::Running, TaskState::Paused];

/// A memory source that counts reserved bytes and refuses one request in seven.
#[derive(Debug, Default)]
struct Ledger {
    reserved_bytes: Arc<AtomicI64>,
    calls: AtomicU64,
}

struct Promise(Arc<AtomicI64>, i64);

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl MemorySource for Ledger {
    fn reserve(&self, bytes: u64) -> std::result::Result<MemoryReservation, u64> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % 7 == 3 {
            return Err(0);
        }
        self.reserved_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
        Ok(Box::new(Promise(Arc::clone(&self.reserved_bytes), bytes as i64)))
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Submit {
        class: u8,
        memory: u64,
        rate: u64,
    },
    Start(usize),
    Pause(usize, bool),
    Resume(usize),
    Finish(usize),
    Fail(usize),
    Cancel(usize),
    CancelById(usize),
    DropTask(usize),
    Request(usize, u8, u64),
    PollRequest(usize),
    DropRequest(usize),
    EndTurn(usize, Option<u64>),
    /// A panic unwinds through a task, a request and a grant.
    Panic(usize, usize, usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let one = any::<usize>;
    prop_oneof![
        5 => (0_u8..3, 0..MEMORY, 1..RATE).prop_map(|(class, memory, rate)| {
            Step::Submit { class, memory, rate }
        }),
        5 => one().prop_map(Step::Start),
        1 => (one(), any::<bool>()).prop_map(|(task, keep)| Step::Pause(task, keep)),
        1 => one().prop_map(Step::Resume),
        1 => one().prop_map(Step::Finish),
        1 => one().prop_map(Step::Fail),
        1 => one().prop_map(Step::Cancel),
        1 => one().prop_map(Step::CancelById),
        2 => one().prop_map(Step::DropTask),
        6 => (one(), 0_u8..3, 1_u64..3_000).prop_map(|(task, lane, units)| Step::Request(task, lane, units)),
        5 => one().prop_map(Step::PollRequest),
        1 => one().prop_map(Step::DropRequest),
        3 => (one(), prop::option::of(0_u64..5_000)).prop_map(|(grant, cost)| Step::EndTurn(grant, cost)),
        1 => (one(), one(), one()).prop_map(|(a, b, c)| Step::Panic(a, b, c)),
        2 => (0_u64..2_000_000).prop_map(Step::Advance),
    ]
}

/// The scheduler under test with every handle that the steps created.
struct World {
    clock: VirtualClock,
    scheduler: Scheduler,
    partition: PartitionId,
    reserved_bytes: Arc<AtomicI64>,
    tasks: Vec<Task>,
    pending: Vec<PendingGrant>,
    grants: Vec<Grant>,
    lives: u64,
}

fn take<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(which % from.len()))
}

impl World {
    fn new() -> Self {
        let mut options = SchedulerOptions::new(MEMORY, PerLane::from_fn(|_| 2 * RATE));
        options.decisions = 64;
        options.max_waiting_requests = 4;
        options.lanes.compute.window_grants = 2;
        let clock = VirtualClock::new();
        let ledger = Ledger::default();
        let reserved_bytes = Arc::clone(&ledger.reserved_bytes);
        let mut whole = options.whole_device("whole");
        whole.memory = Some(Arc::new(ledger));
        let scheduler = Scheduler::new(options, Arc::new(clock.clone())).expect("valid");
        let partition = scheduler.add_partition(whole).expect("fits");
        World {
            clock,
            scheduler,
            partition,
            reserved_bytes,
            tasks: Vec::new(),
            pending: Vec::new(),
            grants: Vec::new(),
            lives: 0,
        }
    }

    fn options(&self, class: u8, memory: u64, rate: u64) -> TaskOptions {
        let mut options = TaskOptions::new("life", self.partition);
        options.memory_bytes = memory;
        options.class = [Class::Guaranteed, Class::Burstable, Class::BestEffort][class as usize];
        let reserved = Some(Rate::per_second(rate)).filter(|_| class < 2);
        options.lanes.upload.reserved = reserved;
        options.lanes.compute.limit = Some(Rate::per_second(RATE));
        options
    }

    /// Applies a transition that only these states allow, and checks the result.
    fn change(&self, which: usize, from: &[TaskState], step: impl Fn(&Task) -> Result<()>) {
        let Some(task) = self.tasks.get(which % self.tasks.len().max(1)) else {
            return;
        };
        let before = task.state().expect("alive");
        let outcome = step(task);
        let after = task.state().expect("alive");
        if from.contains(&before) {
            assert_eq!(outcome, Ok(()));
            assert!(before.allows(after) || before == TaskState::Paused, "{before} {after}");
        } else {
            let code = outcome.expect_err("not allowed").code();
            assert_eq!((code, after), ("illegal_transition", before));
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Submit { class, memory, rate } => {
                let options = self.options(class, memory, rate);
                self.tasks.push(self.scheduler.submit(options).expect("can fit"));
                self.lives += 1;
            }
            Step::Start(task) => self.change(task, &[TaskState::Admitted], Task::start),
            Step::Pause(task, keep) => {
                let policy = if keep { PausePolicy::Keep } else { PausePolicy::Release };
                self.change(task, &[TaskState::Running], |task| task.pause(policy));
            }
            Step::Resume(task) => {
                self.change(task, &[TaskState::Paused], |task| task.resume().map(|_| ()));
            }
            Step::Finish(task) => self.change(task, &[TaskState::Running], Task::finish),
            Step::Fail(task) => self.change(task, &ALIVE, |task| task.fail("injected")),
            Step::Cancel(task) => self.change(task, &ALIVE, Task::cancel),
            Step::CancelById(task) => {
                self.change(task, &ALIVE, |task| self.scheduler.cancel(task.id()))
            }
            Step::DropTask(task) => drop(take(&mut self.tasks, task)),
            Step::Request(task, lane, units) => {
                if let Some(task) = self.tasks.get(task % self.tasks.len().max(1)) {
                    let running = task.state().expect("alive") == TaskState::Running;
                    match task.request(Lane::ALL[lane as usize], units) {
                        Ok(request) => self.pending.push(request),
                        Err(SchedulerError::TooManyWaiting { .. }) => assert!(running),
                        Err(_) => assert!(!running),
                    }
                }
            }
            Step::PollRequest(which) => {
                match take(&mut self.pending, which).map(PendingGrant::poll) {
                    Some(Ok(Poll::Ready(grant))) => self.grants.push(grant),
                    Some(Ok(Poll::Pending(request))) => self.pending.push(request),
                    Some(Err(error)) => assert_eq!(error.code(), "ended"),
                    None => {}
                }
            }
            Step::DropRequest(which) => drop(take(&mut self.pending, which)),
            Step::EndTurn(which, measured) => match (take(&mut self.grants, which), measured) {
                (Some(grant), Some(units)) => grant.end_measured(units),
                (grant, _) => drop(grant),
            },
            Step::Panic(task, request, grant) => {
                let held = (
                    take(&mut self.tasks, task),
                    take(&mut self.pending, request),
                    take(&mut self.grants, grant),
                );
                // Unlike panic!, this does not print.
                let outcome = catch_unwind(AssertUnwindSafe(move || {
                    let _held = held;
                    resume_unwind(Box::new("injected"));
                }));
                assert!(outcome.is_err());
            }
            Step::Advance(nanoseconds) => {
                self.clock.advance_ns(nanoseconds);
                self.scheduler.poll().expect("sound");
            }
        }
    }

    /// Invariants that hold after every step.
    fn check(&self) {
        let snapshot = self.scheduler.snapshot().expect("sound");
        let partition = &snapshot.partitions[0];
        let mut in_flight = 0;
        let mut pending = 0;
        for task in &snapshot.tasks {
            let entitled = match task.state {
                TaskState::Pending => false,
                TaskState::Admitted | TaskState::Running => true,
                TaskState::Paused => task.holds_reservation,
                _ => task.holds_reservation && task.grants_in_flight > 0,
            };
            assert_eq!(task.holds_reservation, entitled, "{task:?}");
            in_flight += task.grants_in_flight;
            pending += usize::from(task.state == TaskState::Pending);
        }
        let lanes = [snapshot.lanes.compute, snapshot.lanes.upload, snapshot.lanes.download];
        assert_eq!(in_flight, lanes.iter().map(|lane| lane.grants_in_flight).sum::<u32>());
        assert_eq!(pending, partition.pending);
        assert!(partition.reserved_bytes <= MEMORY);
        assert!(partition.reserved_per_second.upload <= 2 * RATE * 95 / 100);
        // Every reserved byte is backed by the memory source.
        assert_eq!(partition.reserved_bytes as i64, self.reserved_bytes.load(Ordering::Relaxed));
    }
}

fn run_lifecycle(steps: &[Step]) -> u64 {
    let mut world = World::new();
    for step in steps {
        world.apply(*step);
        world.check();
    }
    // Worst-case drop order: grants in flight outlive their tasks.
    world.tasks.clear();
    world.check();
    world.pending.clear();
    world.grants.clear();
    let snapshot = world.scheduler.snapshot().expect("sound");
    assert!(snapshot.is_idle(), "{snapshot:?}");
    assert_eq!(world.reserved_bytes.load(Ordering::Relaxed), 0);
    assert_eq!(world.scheduler.remove_partition(world.partition), Ok(()));
    world.lives
}

fn random_lifecycles(cases: u32, at_least: u64) {
    let lives = std::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&prop::collection::vec(step(), 1..1_000), |steps| {
        lives.set(lives.get() + run_lifecycle(&steps));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(lives.get() >= at_least, "only {} lives", lives.get());
}

#[test]
fn every_reservation_is_released_in_random_lifecycles() {
    random_lifecycles(150, 5_000);
}

#[test]
#[ignore = "takes tens of seconds; run with: cargo test -p assay-runtime --test scheduler_lifecycle -- --ignored"]
fn every_reservation_is_released_in_a_hundred_thousand_random_lifecycles() {
    random_lifecycles(2_000, 100_000);
}
