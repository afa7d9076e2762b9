//! A fork-join thread pool for all kernels.
//!
//! A call is partitioned into tasks that workers claim from a shared counter. Workers spin for a
//! while and then park. Nothing is allocated per call. A call that finds the pool busy, or that runs
//! in a forked child where the workers do not exist, runs all tasks itself.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// How often a worker polls for the next call before it parks: some tens of microseconds, the gap
/// between the kernels of a decode step.
const SPINS_BEFORE_PARK: u32 = 4_000;

/// The current call; the pointer is valid while [`Shared::epoch`] holds the call's number.
#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    tasks: usize,
}

struct Shared {
    job: UnsafeCell<Option<Job>>,
    /// The number of the call that workers may join, or zero.
    epoch: AtomicU64,
    /// The next unclaimed task.
    next_task: AtomicUsize,
    /// Workers between joining and leaving a call.
    workers_inside: AtomicUsize,
    panicked: AtomicBool,
    shutdown: AtomicBool,
    /// Threads that may run tasks, the caller's among them.
    limit: AtomicUsize,
    parked: Mutex<usize>,
    unpark: Condvar,
}

// SAFETY: `job` is written only while no call is open and no worker is inside, and read only from
// inside an open call; `epoch` and `workers_inside` order the two.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `job` is followed under the same rule, from any thread.
unsafe impl Send for Shared {}

impl Shared {
    /// Joins the open call and runs tasks, unless its number is `seen`.
    fn try_join(&self, index: usize, seen: &mut u64) -> bool {
        let number = self.epoch.load(Ordering::Acquire);
        if number == 0 || number == *seen {
            return false;
        }
        if index >= self.limit.load(Ordering::Relaxed) {
            *seen = number;
            return false;
        }
        // Counted before the epoch is read again, so that the caller waits for this worker once it
        // has closed the call.
        self.workers_inside.fetch_add(1, Ordering::SeqCst);
        let number = self.epoch.load(Ordering::SeqCst);
        if number != 0 {
            *seen = number;
            // SAFETY: the call is open and cannot end before this worker has left.
            if let Some(job) = unsafe { *self.job.get() } {
                self.run_tasks(job);
            }
        }
        self.workers_inside.fetch_sub(1, Ordering::SeqCst);
        true
    }

    fn run_tasks(&self, job: Job) {
        let run = AssertUnwindSafe(|| {
            // SAFETY: the caller's closure lives until the call is over.
            let work = unsafe { &*job.work };
            loop {
                let task = self.next_task.fetch_add(1, Ordering::Relaxed);
                if task >= job.tasks {
                    return;
                }
                work(task);
            }
        });
        if catch_unwind(run).is_err() {
            self.panicked.store(true, Ordering::Release);
        }
    }

    fn worker_loop(&self, index: usize) {
        let mut seen = 0;
        let mut spins = 0;
        while !self.shutdown.load(Ordering::Acquire) {
            if self.try_join(index, &mut seen) {
                spins = 0;
            } else if spins < SPINS_BEFORE_PARK {
                spins += 1;
                std::hint::spin_loop();
            } else {
                self.park(index, seen);
                spins = 0;
            }
        }
    }

    fn park(&self, index: usize, seen: u64) {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        *parked += 1;
        loop {
            let number = self.epoch.load(Ordering::SeqCst);
            let within_limit = index < self.limit.load(Ordering::Relaxed);
            let new_call = within_limit && number != 0 && number != seen;
            if self.shutdown.load(Ordering::Acquire) || new_call {
                break;
            }
            parked = self.unpark.wait(parked).unwrap_or_else(PoisonError::into_inner);
        }
        *parked -= 1;
    }
}

/// A fork-join pool of worker threads.
pub struct ThreadPool {
    shared: Arc<Shared>,
    /// Held during a call; counts calls.
    calls: Mutex<u64>,
    workers: Vec<JoinHandle<()>>,
    process: u32,
}

impl ThreadPool {
    /// A pool of `count` threads, the caller's among them.
    pub fn new(count: usize) -> Self {
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            epoch: AtomicU64::new(0),
            next_task: AtomicUsize::new(0),
            workers_inside: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            shutdown: AtomicBool::new(false),
            limit: AtomicUsize::new(count.max(1)),
            parked: Mutex::new(0),
            unpark: Condvar::new(),
        });
        let start = |index| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("assay-kernel-{index}"))
                .spawn(move || shared.worker_loop(index))
        };
        // A worker that cannot be started means one core fewer: slower, but correct.
        let workers = (1..count).map_while(|index| start(index).ok()).collect();
        ThreadPool { shared, calls: Mutex::new(0), workers, process: std::process::id() }
    }

    /// The process's pool: one thread per available core.
    pub fn global() -> &'static ThreadPool {
        static GLOBAL: OnceLock<ThreadPool> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            let cores = std::thread::available_parallelism();
            ThreadPool::new(cores.map_or(1, std::num::NonZero::get))
        })
    }

    /// How many threads run tasks.
    pub fn count(&self) -> usize {
        self.capacity().min(self.shared.limit.load(Ordering::Relaxed))
    }

    /// How many threads exist, the caller's among them.
    pub fn capacity(&self) -> usize {
        self.workers.len() + 1
    }

    /// Limits later calls to `count` threads, the caller's among them.
    pub fn limit(&self, count: usize) {
        self.shared.limit.store(count.max(1), Ordering::Relaxed);
    }

    /// Calls `work` once with each task number below `tasks`, on all threads, and returns when all
    /// are done. Propagates a panic of any task.
    pub fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
        let serial = tasks <= 1 || self.count() == 1 || self.process != std::process::id();
        let calls = match serial {
            true => None,
            false => self.calls.try_lock().ok(),
        };
        let Some(mut calls) = calls else {
            (0..tasks).for_each(work);
            return;
        };
        *calls += 1;
        let shared = &*self.shared;
        // SAFETY: only the lifetime is erased; the call is closed and left by all workers before
        // this function, and with it the borrow, ends.
        let work: *const (dyn Fn(usize) + Sync) = unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync)>(
                work,
            )
        };
        let job = Job { work, tasks };
        // SAFETY: no call is open and no worker is inside, because the last call ended so.
        unsafe { *shared.job.get() = Some(job) };
        shared.next_task.store(0, Ordering::Relaxed);
        shared.epoch.store(*calls, Ordering::SeqCst);
        let parked = shared.parked.lock().unwrap_or_else(PoisonError::into_inner);
        if *parked > 0 {
            shared.unpark.notify_all();
        }
        drop(parked);
        shared.run_tasks(job);
        shared.epoch.store(0, Ordering::SeqCst);
        let mut spins = 0_u32;
        while shared.workers_inside.load(Ordering::SeqCst) != 0 {
            spins += 1;
            // A worker inside may have lost its core to another process: yield this one.
            if spins.is_multiple_of(SPINS_BEFORE_PARK) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        if shared.panicked.swap(false, Ordering::AcqRel) {
            drop(calls);
            resume_unwind(Box::new("a task of a kernel panicked"));
        }
    }

    /// Partitions `0..length` into ranges of at least `grain`, several per thread so that a slow
    /// core takes fewer, and calls `work` with each.
    pub fn parallel_for(
        &self,
        length: usize,
        grain: usize,
        work: &(dyn Fn(std::ops::Range<usize>) + Sync),
    ) {
        let max_tasks = length.div_ceil(grain.max(1));
        let tasks = max_tasks.min(self.count() * if self.count() == 1 { 1 } else { 8 });
        if tasks <= 1 {
            work(0..length);
            return;
        }
        self.run(tasks, &|task| {
            work(length * task / tasks..length * (task + 1) / tasks);
        });
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.shutdown.store(true, Ordering::Release);
        // Locked so that no worker is between checking for shutdown and parking.
        drop(self.shared.parked.lock());
        self.shared.unpark.notify_all();
        for worker in self.workers.drain(..) {
            // Workers catch panics of tasks, so joining cannot fail.
            let _ = worker.join();
        }
    }
}
