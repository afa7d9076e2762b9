//! What was queued while a trace is captured.

use super::record::WorkKind;
use super::work::GraphNode;
use crate::backend::{GraphId, KernelId, StreamId};
use crate::trace::{DeviceSpans, current_step};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A piece of work that was queued.
#[derive(Clone, Debug)]
pub struct TracedWork {
    /// Joins it with the times of the device.
    pub ticket: u64,
    /// The engine's step that queued it.
    pub step: Option<i64>,
    /// What it is.
    pub kind: WorkKind,
    /// The operation it belongs to.
    pub name: Arc<str>,
    /// The kernel it launches, where it is a launch.
    pub kernel: Option<KernelId>,
    /// The stream.
    pub stream: StreamId,
    /// Bytes it moves.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: f64,
    /// The graph it replays, with its nodes.
    pub graph: Option<(GraphId, Arc<[GraphNode]>)>,
    /// When the call that queued it began, on the backend's clock.
    pub queued_ns: u64,
    /// When that call returned.
    pub returned_ns: u64,
}

/// The work of a trace, and the times of the device.
#[derive(Debug, Default)]
pub struct WorkTrace {
    /// The work, in the order in which it was queued.
    pub works: Vec<TracedWork>,
    /// When it ran.
    pub device: DeviceSpans,
}

/// The work that dispatch queued since the trace began.
#[derive(Default)]
pub struct WorkLog {
    is_on: AtomicBool,
    next: AtomicU64,
    works: Mutex<Works>,
}

#[derive(Default)]
struct Works {
    works: Vec<TracedWork>,
    capacity: usize,
    dropped: u64,
}

impl WorkLog {
    /// The ticket of the work that is queued next; 0 while no trace is captured.
    pub fn ticket(&self) -> u64 {
        match self.is_on.load(Ordering::Relaxed) {
            // Never 0.
            true => self.next.fetch_add(1, Ordering::Relaxed) + 1,
            false => 0,
        }
    }

    /// Whether a trace is captured.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Begins a trace of so many pieces of work; false if there is one already.
    pub fn start(&self, capacity: usize) -> bool {
        let mut state = self.lock();
        if self.is_on.swap(true, Ordering::AcqRel) {
            return false;
        }
        *state = Works { works: Vec::new(), capacity, dropped: 0 };
        true
    }

    /// Adds a piece of work; the calling thread says the step.
    pub fn push(&self, mut work: TracedWork) {
        work.step = current_step();
        let mut state = self.lock();
        match state.works.len() < state.capacity {
            true => state.works.push(work),
            false => state.dropped += 1,
        }
    }

    /// Ends the trace; returns its work, and how many pieces of it were not kept.
    pub fn stop(&self) -> (Vec<TracedWork>, u64) {
        self.is_on.store(false, Ordering::Release);
        let state = std::mem::take(&mut *self.lock());
        (state.works, state.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, Works> {
        // Nothing can panic midway under it.
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
