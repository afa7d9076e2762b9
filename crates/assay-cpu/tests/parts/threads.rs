//! The thread pool: every task once, limits, nesting, panics.

use assay_cpu::threads::ThreadPool;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

#[test]
fn every_task_runs_once() {
    for count in [1, 2, 3, 5] {
        let threads = ThreadPool::new(count);
        assert_eq!(threads.count(), count);
        for tasks in [0, 1, 2, 7, 64, 1000] {
            let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            threads.run(tasks, &|task| {
                done[task].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}

#[test]
fn limit_bounds_the_threads_that_run_tasks() {
    let threads = ThreadPool::new(3);
    for limit in [1, 2, 3, 9, 2] {
        threads.limit(limit);
        assert_eq!((threads.count(), threads.capacity()), (limit.min(3), 3));
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
fn many_short_calls_with_parking_run_all_tasks() {
    let threads = ThreadPool::new(3);
    let total = AtomicUsize::new(0);
    for round in 0..20_000 {
        threads.run(4, &|task| {
            total.fetch_add(task, Ordering::Relaxed);
        });
        if round % 5_000 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    assert_eq!(total.load(Ordering::Relaxed), 20_000 * 6);
}

#[test]
fn nested_call_runs_serially() {
    let threads = ThreadPool::new(2);
    let total = AtomicUsize::new(0);
    threads.run(4, &|_| {
        threads.run(5, &|_| {
            total.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(total.load(Ordering::Relaxed), 20);
}

#[test]
fn panic_propagates_and_the_pool_stays_usable() {
    let threads = ThreadPool::new(2);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        threads.run(8, &|task| assert_ne!(task, 5, "planned"));
    }));
    assert!(outcome.is_err());
    let total = AtomicUsize::new(0);
    threads.run(8, &|_| {
        total.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(total.load(Ordering::Relaxed), 8);
}

#[test]
fn calls_from_several_threads_do_not_interfere() {
    let threads = ThreadPool::new(2);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let total = AtomicUsize::new(0);
                    threads.run(16, &|task| {
                        total.fetch_add(task + 1, Ordering::Relaxed);
                    });
                    assert_eq!(total.load(Ordering::Relaxed), 136);
                }
            });
        }
    });
}

#[test]
fn parallel_for_covers_every_index_once() {
    let threads = ThreadPool::new(3);
    for (length, grain) in [(0, 1), (1, 16), (100, 7), (1000, 1), (1000, 5000)] {
        let seen: Vec<AtomicUsize> = (0..length).map(|_| AtomicUsize::new(0)).collect();
        threads.parallel_for(length, grain, &|range| {
            for index in range {
                seen[index].fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}
