//! One pool of threads for all kernels: a call is cut into parts, and every core takes parts.
//!
//! Nothing is allocated per call. A call that finds the pool at work, or comes from a forked
//! child where the threads are gone, does all parts itself.

mod disjoint;

pub(crate) use disjoint::Disjoint;

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// How often a thread looks for the next call before it sleeps: some tens of microseconds, the
/// distance between the kernels of a decoding step.
const LOOKS_BEFORE_SLEEP: u32 = 4_000;

/// The call under way; the pointer is good while [`Shared::open`] shows its number.
#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    parts: usize,
}

struct Shared {
    job: UnsafeCell<Option<Job>>,
    /// The number of the call that threads may enter, or zero.
    open: AtomicU64,
    /// The part that nobody has taken yet.
    next: AtomicUsize,
    /// Threads between entering and leaving.
    inside: AtomicUsize,
    panicked: AtomicBool,
    ends: AtomicBool,
    /// Threads that may take parts, the caller's among them.
    active: AtomicUsize,
    asleep: Mutex<usize>,
    wake: Condvar,
}

// SAFETY: `job` is written only while no call is open and nobody is inside, and read only from
// inside an open call; `open` and `inside` order the two.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `job` is followed under the same rule, from any thread.
unsafe impl Send for Shared {}

impl Shared {
    /// Takes parts of the open call, if there is one with a number other than `seen`.
    fn take_part(&self, index: usize, seen: &mut u64) -> bool {
        let number = self.open.load(Ordering::Acquire);
        if number == 0 || number == *seen {
            return false;
        }
        if index >= self.active.load(Ordering::Relaxed) {
            *seen = number;
            return false;
        }
        // Announced before looking again: whoever closes the call then waits for this thread.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let number = self.open.load(Ordering::SeqCst);
        if number != 0 {
            *seen = number;
            // SAFETY: the call is open and cannot end before this thread has left.
            if let Some(job) = unsafe { *self.job.get() } {
                self.do_parts(job);
            }
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        true
    }

    fn do_parts(&self, job: Job) {
        let run = AssertUnwindSafe(|| {
            // SAFETY: the caller's closure lives until the call is over.
            let work = unsafe { &*job.work };
            loop {
                let part = self.next.fetch_add(1, Ordering::Relaxed);
                if part >= job.parts {
                    return;
                }
                work(part);
            }
        });
        if catch_unwind(run).is_err() {
            self.panicked.store(true, Ordering::Release);
        }
    }

    fn live(&self, index: usize) {
        let mut seen = 0;
        let mut looks = 0;
        while !self.ends.load(Ordering::Acquire) {
            if self.take_part(index, &mut seen) {
                looks = 0;
            } else if looks < LOOKS_BEFORE_SLEEP {
                looks += 1;
                std::hint::spin_loop();
            } else {
                self.sleep(index, seen);
                looks = 0;
            }
        }
    }

    fn sleep(&self, index: usize, seen: u64) {
        let mut asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        *asleep += 1;
        loop {
            let number = self.open.load(Ordering::SeqCst);
            let wanted = index < self.active.load(Ordering::Relaxed);
            if self.ends.load(Ordering::Acquire) || (wanted && number != 0 && number != seen) {
                break;
            }
            asleep = self
                .wake
                .wait(asleep)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *asleep -= 1;
    }
}

/// Threads that share the work of kernels.
pub struct Threads {
    shared: Arc<Shared>,
    /// Held over a call; counts calls.
    calls: Mutex<u64>,
    workers: Vec<JoinHandle<()>>,
    process: u32,
}

impl Threads {
    /// A pool in which `count` threads work, the caller's among them.
    pub fn new(count: usize) -> Self {
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            open: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            active: AtomicUsize::new(count.max(1)),
            asleep: Mutex::new(0),
            wake: Condvar::new(),
        });
        let start = |index| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("assay-kernel-{index}"))
                .spawn(move || shared.live(index))
        };
        // A thread that cannot be started is one core fewer, which is slower and not wrong.
        let workers = (1..count).map_while(|index| start(index).ok()).collect();
        Threads {
            shared,
            calls: Mutex::new(0),
            workers,
            process: std::process::id(),
        }
    }

    /// The process's pool: one thread per core it may use.
    pub fn global() -> &'static Threads {
        static GLOBAL: OnceLock<Threads> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            let cores = std::thread::available_parallelism();
            Threads::new(cores.map_or(1, std::num::NonZero::get))
        })
    }

    /// How many threads take parts.
    pub fn count(&self) -> usize {
        self.most().min(self.shared.active.load(Ordering::Relaxed))
    }

    /// How many threads there are, the caller's among them.
    pub fn most(&self) -> usize {
        self.workers.len() + 1
    }

    /// Has at most `count` threads take parts from the next call on, the caller's among them.
    pub fn limit(&self, count: usize) {
        self.shared.active.store(count.max(1), Ordering::Relaxed);
    }

    /// Calls `work` once with each number below `parts`, on all threads, and returns when all are
    /// done. A panic in any part comes out here.
    pub fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        let alone = parts <= 1 || self.count() == 1 || self.process != std::process::id();
        let calls = match alone {
            true => None,
            false => self.calls.try_lock().ok(),
        };
        let Some(mut calls) = calls else {
            (0..parts).for_each(work);
            return;
        };
        *calls += 1;
        let shared = &*self.shared;
        // SAFETY: only the lifetime is forgotten; the call is closed and left by all threads
        // before this function, and with it the borrow, ends.
        let work: *const (dyn Fn(usize) + Sync) = unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync)>(
                work,
            )
        };
        let job = Job { work, parts };
        // SAFETY: no call is open and nobody is inside, because the last call ended so.
        unsafe { *shared.job.get() = Some(job) };
        shared.next.store(0, Ordering::Relaxed);
        shared.open.store(*calls, Ordering::SeqCst);
        let asleep = shared.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        if *asleep > 0 {
            shared.wake.notify_all();
        }
        drop(asleep);
        shared.do_parts(job);
        shared.open.store(0, Ordering::SeqCst);
        let mut looks = 0_u32;
        while shared.inside.load(Ordering::SeqCst) != 0 {
            looks += 1;
            // A thread inside may have lost its core to another process: give it this one.
            if looks.is_multiple_of(LOOKS_BEFORE_SLEEP) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        if shared.panicked.swap(false, Ordering::AcqRel) {
            drop(calls);
            resume_unwind(Box::new("a part of a kernel panicked"));
        }
    }

    /// Cuts `length` things into parts of at least `least`, a few per thread so that a slow core
    /// takes fewer, and calls `work` with each range.
    pub(crate) fn ranges(
        &self,
        length: usize,
        least: usize,
        work: &(dyn Fn(std::ops::Range<usize>) + Sync),
    ) {
        let most = length.div_ceil(least.max(1));
        let parts = most.min(self.count() * if self.count() == 1 { 1 } else { 8 });
        if parts <= 1 {
            work(0..length);
            return;
        }
        self.run(parts, &|part| {
            work(length * part / parts..length * (part + 1) / parts);
        });
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // Taken so that no thread is between looking and sleeping.
        drop(self.shared.asleep.lock());
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of parts, so there is nothing to hear of.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_done_once() {
        for count in [1, 2, 3, 5] {
            let threads = Threads::new(count);
            assert_eq!(threads.count(), count);
            for parts in [0, 1, 2, 7, 64, 1000] {
                let done: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                threads.run(parts, &|part| {
                    done[part].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn a_limit_keeps_threads_out_until_it_is_lifted() {
        let threads = Threads::new(3);
        for limit in [1, 2, 3, 9, 2] {
            threads.limit(limit);
            assert_eq!((threads.count(), threads.most()), (limit.min(3), 3));
            let seen = Mutex::new(std::collections::HashSet::new());
            for _ in 0..50 {
                threads.run(64, &|_| {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.insert(std::thread::current().id());
                });
            }
            let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
            assert!(seen.len() <= limit, "{} threads of {limit}", seen.len());
        }
    }

    #[test]
    fn many_short_calls_and_sleeps_between_lose_nothing() {
        let threads = Threads::new(3);
        let total = AtomicUsize::new(0);
        for round in 0..20_000 {
            threads.run(4, &|part| {
                total.fetch_add(part, Ordering::Relaxed);
            });
            if round % 5_000 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        assert_eq!(total.load(Ordering::Relaxed), 20_000 * 6);
    }

    #[test]
    fn a_call_inside_a_call_runs_alone() {
        let threads = Threads::new(2);
        let total = AtomicUsize::new(0);
        threads.run(4, &|_| {
            threads.run(5, &|_| {
                total.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(total.load(Ordering::Relaxed), 20);
    }

    #[test]
    fn a_panic_comes_out_and_the_pool_goes_on() {
        let threads = Threads::new(2);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            threads.run(8, &|part| assert_ne!(part, 5, "planned"));
        }));
        assert!(outcome.is_err());
        let total = AtomicUsize::new(0);
        threads.run(8, &|_| {
            total.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(total.load(Ordering::Relaxed), 8);
    }

    #[test]
    fn calls_from_several_threads_do_not_meet() {
        let threads = Threads::new(2);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let total = AtomicUsize::new(0);
                        threads.run(16, &|part| {
                            total.fetch_add(part + 1, Ordering::Relaxed);
                        });
                        assert_eq!(total.load(Ordering::Relaxed), 136);
                    }
                });
            }
        });
    }

    #[test]
    fn ranges_cover_everything_once() {
        let threads = Threads::new(3);
        for (length, least) in [(0, 1), (1, 16), (100, 7), (1000, 1), (1000, 5000)] {
            let seen: Vec<AtomicUsize> = (0..length).map(|_| AtomicUsize::new(0)).collect();
            threads.ranges(length, least, &|range| {
                for index in range {
                    seen[index].fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}
