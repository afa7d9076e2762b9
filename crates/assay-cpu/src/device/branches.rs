//! The concurrent replay of a graph's branches.
//!
//! Nodes of one branch run in order in one thread. A graph of several branches runs each in a thread
//! of its own: a branch that waits, for a delay or for memory, leaves its core to the others. A
//! kernel that finds the thread pool busy with one of another branch runs in its own thread.

use super::graph::Step;
use super::shared::Shared;
use super::state::CpuGraph;
use assay_runtime::backend::StreamId;
use assay_runtime::clock::Clock;
use assay_runtime::streams::StreamFailure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What the branches of one replay share.
struct Replay<'a> {
    graph: &'a CpuGraph,
    stream: StreamId,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// Start and end of each node, where they are kept.
    times: Option<&'a [AtomicU64]>,
}

#[derive(Default)]
struct Progress {
    /// Whether the branches may begin: false means that a thread is missing, and they end.
    begun: Option<bool>,
    recorded: Vec<bool>,
    failure: Option<StreamFailure>,
}

impl Replay<'_> {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        // Nothing under the lock can panic midway.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Blocks until the progress gives an answer.
    fn wait<T>(&self, answer: impl Fn(&Progress) -> Option<T>) -> T {
        let mut progress = self.lock();
        loop {
            if let Some(found) = answer(&progress) {
                return found;
            }
            progress = self
                .changed
                .wait(progress)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn has_failed(&self) -> bool {
        self.lock().failure.is_some()
    }

    /// Runs a branch, up to the first failure of any.
    fn run(&self, shared: &Shared, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Record(record) => self.update(|progress| {
                    if let Some(recorded) = progress.recorded.get_mut(record) {
                        *recorded = true;
                    }
                }),
                Step::Wait(record) => {
                    let goes_on = self.wait(|progress| match &progress.failure {
                        Some(_) => Some(false),
                        None => progress.recorded.get(record).copied()?.then_some(true),
                    });
                    if !goes_on {
                        return;
                    }
                }
                Step::Node(node) => {
                    if self.has_failed() || !self.run_node(shared, node) {
                        return;
                    }
                }
            }
        }
    }

    fn run_node(&self, shared: &Shared, node: u32) -> bool {
        let Some(work) = self.graph.works.get(node as usize) else {
            return false;
        };
        let stamp = |index: usize| {
            let slot = self.times.and_then(|times| times.get(index));
            if let Some(slot) = slot {
                slot.store(shared.clock.now_ns(), Ordering::Relaxed);
            }
        };
        stamp(2 * node as usize);
        let outcome = shared.perform(self.stream, work);
        stamp(2 * node as usize + 1);
        match outcome {
            Ok(()) => true,
            Err(failure) => {
                self.update(|progress| {
                    progress.failure.get_or_insert(StreamFailure {
                        node: Some(node),
                        ..failure
                    });
                });
                false
            }
        }
    }
}

impl Shared {
    /// Runs the branches of a graph, each in a thread of its own; the first runs in this one.
    ///
    /// Start and end of each node go to `times`, where given. Returns false if there are not enough
    /// threads: then nothing ran.
    pub(super) fn perform_branches(
        &self,
        stream: StreamId,
        graph: &CpuGraph,
        times: Option<&[AtomicU64]>,
    ) -> Result<bool, StreamFailure> {
        let replay = Replay {
            graph,
            stream,
            progress: Mutex::new(Progress {
                recorded: vec![false; graph.records],
                ..Progress::default()
            }),
            changed: Condvar::new(),
            times,
        };
        let has_begun = thread::scope(|scope| {
            let replay = &replay;
            let complete = graph.branches.iter().skip(1).all(|steps| {
                let branch = move || {
                    if replay.wait(|progress| progress.begun) {
                        replay.run(self, steps);
                    }
                };
                thread::Builder::new()
                    .name("assay-branch".to_owned())
                    .spawn_scoped(scope, branch)
                    .is_ok()
            });
            replay.update(|progress| progress.begun = Some(complete));
            if complete && let Some(steps) = graph.branches.first() {
                replay.run(self, steps);
            }
            complete
        });
        let failure = replay.lock().failure.take();
        match failure {
            Some(failure) => Err(failure),
            None => Ok(has_begun),
        }
    }
}
