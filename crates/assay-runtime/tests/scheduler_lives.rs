//! Random lives of tasks with panics, cancellations and failures: nothing stays reserved.

use assay_runtime::clock::VirtualClock;
use assay_runtime::scheduler::*;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const MEMORY: u64 = 1_000;
const RATE: u64 = 1_000_000;

/// The states from which a task can still be ended by others.
const ALIVE: [TaskState; 4] = [
    TaskState::Pending,
    TaskState::Admitted,
    TaskState::Running,
    TaskState::Paused,
];

/// A pool that counts what it has promised and refuses now and then.
#[derive(Debug, Default)]
struct Ledger {
    promised: Arc<AtomicI64>,
    asked: AtomicU64,
}

struct Promise(Arc<AtomicI64>, i64);

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl MemorySource for Ledger {
    fn reserve(&self, bytes: u64) -> std::result::Result<MemoryHold, u64> {
        if self.asked.fetch_add(1, Ordering::Relaxed) % 7 == 3 {
            return Err(0);
        }
        self.promised.fetch_add(bytes as i64, Ordering::Relaxed);
        Ok(Box::new(Promise(Arc::clone(&self.promised), bytes as i64)))
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Submit {
        class: u8,
        memory: u64,
        rate: u64,
        deadline: u8,
    },
    Start(usize),
    Pause(usize, bool),
    Resume(usize),
    Finish(usize),
    Fail(usize),
    Cancel(usize),
    CancelByNumber(usize),
    DropTask(usize),
    Ask(usize, u8, u64),
    PollTicket(usize),
    DropTicket(usize),
    EndTurn(usize, Option<u64>),
    /// A panic unwinds through a task, a ticket and a turn.
    Panic(usize, usize, usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let one = any::<usize>;
    prop_oneof![
        5 => (0_u8..3, 0..MEMORY, 1..RATE, 0_u8..8).prop_map(|(class, memory, rate, deadline)| {
            Step::Submit { class, memory, rate, deadline }
        }),
        5 => one().prop_map(Step::Start),
        1 => (one(), any::<bool>()).prop_map(|(task, keep)| Step::Pause(task, keep)),
        1 => one().prop_map(Step::Resume),
        1 => one().prop_map(Step::Finish),
        1 => one().prop_map(Step::Fail),
        1 => one().prop_map(Step::Cancel),
        1 => one().prop_map(Step::CancelByNumber),
        2 => one().prop_map(Step::DropTask),
        6 => (one(), 0_u8..3, 1_u64..3_000).prop_map(|(task, lane, units)| Step::Ask(task, lane, units)),
        5 => one().prop_map(Step::PollTicket),
        1 => one().prop_map(Step::DropTicket),
        3 => (one(), prop::option::of(0_u64..5_000)).prop_map(|(turn, cost)| Step::EndTurn(turn, cost)),
        1 => (one(), one(), one()).prop_map(|(a, b, c)| Step::Panic(a, b, c)),
        2 => (0_u64..2_000_000).prop_map(Step::Advance),
    ]
}

/// The scheduler under test with every handle that the steps have made.
struct World {
    clock: VirtualClock,
    scheduler: Scheduler,
    partition: PartitionId,
    promised: Arc<AtomicI64>,
    tasks: Vec<Task>,
    tickets: Vec<Ticket>,
    turns: Vec<Turn>,
    lives: u64,
}

fn take<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(which % from.len()))
}

impl World {
    fn new() -> Self {
        let mut options = SchedulerOptions::new(MEMORY, PerLane::from_fn(|_| 2 * RATE));
        options.decisions = 64;
        options.waiting_turns = 4;
        options.lanes.compute.window_turns = 2;
        let clock = VirtualClock::new();
        let ledger = Ledger::default();
        let promised = Arc::clone(&ledger.promised);
        let mut whole = options.whole_device("whole");
        whole.memory = Some(Arc::new(ledger));
        let scheduler = Scheduler::new(options, Arc::new(clock.clone())).expect("valid");
        let partition = scheduler.add_partition(whole).expect("fits");
        World {
            clock,
            scheduler,
            partition,
            promised,
            tasks: Vec::new(),
            tickets: Vec::new(),
            turns: Vec::new(),
            lives: 0,
        }
    }

    fn options(&self, class: u8, memory: u64, rate: u64, deadline: u8) -> TaskOptions {
        let mut options = TaskOptions::new("life", self.partition);
        options.memory_bytes = memory;
        options.class = [Class::Guaranteed, Class::Burstable, Class::BestEffort][class as usize];
        let reserved = Some(Rate::per_second(rate)).filter(|_| class < 2);
        options.lanes.upload.reserved = reserved;
        options.lanes.compute.limit = Some(Rate::per_second(RATE));
        options.deadline = (deadline < 3).then(|| Deadline {
            instant_ns: assay_runtime::clock::Clock::now_ns(&self.clock) + 1_000_000,
            policy: if deadline == 0 {
                DeadlinePolicy::Fail
            } else {
                DeadlinePolicy::Record
            },
        });
        options
    }

    /// Does a step that is allowed from these states only, and checks that it was or was not.
    fn change(&self, which: usize, from: &[TaskState], step: impl Fn(&Task) -> Result<()>) {
        let Some(task) = self.tasks.get(which % self.tasks.len().max(1)) else {
            return;
        };
        let before = task.state().expect("alive");
        let outcome = step(task);
        let after = task.state().expect("alive");
        if from.contains(&before) {
            assert_eq!(outcome, Ok(()));
            assert!(
                before.allows(after) || before == TaskState::Paused,
                "{before} {after}"
            );
        } else {
            let code = outcome.expect_err("not allowed").code();
            assert_eq!((code, after), ("illegal_transition", before));
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Submit {
                class,
                memory,
                rate,
                deadline,
            } => {
                let options = self.options(class, memory, rate, deadline);
                self.tasks
                    .push(self.scheduler.submit(options).expect("can fit"));
                self.lives += 1;
            }
            Step::Start(task) => self.change(task, &[TaskState::Admitted], Task::start),
            Step::Pause(task, keep) => {
                let holding = if keep {
                    Holding::Keep
                } else {
                    Holding::Release
                };
                self.change(task, &[TaskState::Running], |task| task.pause(holding));
            }
            Step::Resume(task) => {
                self.change(task, &[TaskState::Paused], |task| task.resume().map(|_| ()));
            }
            Step::Finish(task) => self.change(task, &[TaskState::Running], Task::finish),
            Step::Fail(task) => self.change(task, &ALIVE, |task| task.fail("injected")),
            Step::Cancel(task) => self.change(task, &ALIVE, Task::cancel),
            Step::CancelByNumber(task) => {
                self.change(task, &ALIVE, |task| self.scheduler.cancel(task.id()))
            }
            Step::DropTask(task) => drop(take(&mut self.tasks, task)),
            Step::Ask(task, lane, units) => {
                if let Some(task) = self.tasks.get(task % self.tasks.len().max(1)) {
                    let running = task.state().expect("alive") == TaskState::Running;
                    match task.ask(Lane::ALL[lane as usize], units) {
                        Ok(ticket) => self.tickets.push(ticket),
                        Err(SchedulerError::TooManyWaiting { .. }) => assert!(running),
                        Err(_) => assert!(!running),
                    }
                }
            }
            Step::PollTicket(which) => match take(&mut self.tickets, which).map(Ticket::poll) {
                Some(Ok(Poll::Ready(turn))) => self.turns.push(turn),
                Some(Ok(Poll::Waiting(ticket))) => self.tickets.push(ticket),
                Some(Err(error)) => assert_eq!(error.code(), "ended"),
                None => {}
            },
            Step::DropTicket(which) => drop(take(&mut self.tickets, which)),
            Step::EndTurn(which, measured) => match (take(&mut self.turns, which), measured) {
                (Some(turn), Some(units)) => turn.end_measured(units),
                (turn, _) => drop(turn),
            },
            Step::Panic(task, ticket, turn) => {
                let held = (
                    take(&mut self.tasks, task),
                    take(&mut self.tickets, ticket),
                    take(&mut self.turns, turn),
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

    /// What must hold after every step.
    fn check(&self) {
        let snapshot = self.scheduler.snapshot().expect("sound");
        let partition = &snapshot.partitions[0];
        let mut under_way = 0;
        let mut pending = 0;
        for task in &snapshot.tasks {
            let entitled = match task.state {
                TaskState::Pending => false,
                TaskState::Admitted | TaskState::Running => true,
                TaskState::Paused => task.holds_reservation,
                _ => task.holds_reservation && task.turns_under_way > 0,
            };
            assert_eq!(task.holds_reservation, entitled, "{task:?}");
            under_way += task.turns_under_way;
            pending += usize::from(task.state == TaskState::Pending);
        }
        let lanes = [
            snapshot.lanes.compute,
            snapshot.lanes.upload,
            snapshot.lanes.download,
        ];
        assert_eq!(
            under_way,
            lanes.iter().map(|lane| lane.turns_under_way).sum::<u32>()
        );
        assert_eq!(pending, partition.pending);
        assert!(partition.reserved_bytes <= MEMORY);
        assert!(partition.reserved_per_second.upload <= 2 * RATE * 95 / 100);
        // Every byte counted here is promised there, tasks without memory aside.
        assert_eq!(
            partition.reserved_bytes as i64,
            self.promised.load(Ordering::Relaxed)
        );
    }
}

fn live(steps: &[Step]) -> u64 {
    let mut world = World::new();
    for step in steps {
        world.apply(*step);
        world.check();
    }
    // What is left goes in the order that is worst: turns under way outlive their tasks.
    world.tasks.clear();
    world.check();
    world.tickets.clear();
    world.turns.clear();
    let snapshot = world.scheduler.snapshot().expect("sound");
    assert!(snapshot.is_idle(), "{snapshot:?}");
    assert_eq!(world.promised.load(Ordering::Relaxed), 0);
    assert_eq!(world.scheduler.remove_partition(world.partition), Ok(()));
    world.lives
}

fn random_lives(cases: u32, at_least: u64) {
    let lives = std::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&prop::collection::vec(step(), 1..1_000), |steps| {
        lives.set(lives.get() + live(&steps));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(lives.get() >= at_least, "only {} lives", lives.get());
}

#[test]
fn every_reservation_is_released_in_random_lives() {
    random_lives(150, 5_000);
}

#[test]
#[ignore = "takes tens of seconds; run with: cargo test -p assay-runtime --test scheduler_lives -- --ignored"]
fn every_reservation_is_released_in_a_hundred_thousand_random_lives() {
    random_lives(2_000, 100_000);
}
