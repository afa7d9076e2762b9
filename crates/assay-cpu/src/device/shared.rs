//! The state that workers, waiting threads and callers share.

use super::kernel::CpuKernel;
use super::memory::CpuMemory;
use super::state::State;
use assay_runtime::backend::KernelId;
use assay_runtime::clock::MonotonicClock;
use assay_runtime::trace::SpanLog;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// Streams, memory and kernels of a device.
pub(super) struct Shared {
    pub state: Mutex<State>,
    /// Notified when work finishes or is queued, for threads in `run_until`.
    pub changed: Condvar,
    /// Notified when there may be work for a worker, or on shutdown.
    pub work: Condvar,
    pub memory: CpuMemory,
    pub kernels: RwLock<HashMap<KernelId, Arc<CpuKernel>>>,
    pub clock: MonotonicClock,
    pub trace: SpanLog,
}

impl Shared {
    /// Locks the state. No code that can panic runs under the lock, so a poisoned one is consistent.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        state
    }

    pub fn wait_for_work<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.work.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes waiting threads and workers, if any can make progress: waking a thread is expensive.
    pub fn wake(&self, state: &State) {
        if state.waiters > 0 {
            self.changed.notify_all();
        }
        if !state.streams.is_drained() {
            self.work.notify_all();
        }
    }
}
