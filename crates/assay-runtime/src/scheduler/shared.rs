//! The lock around the scheduler's state, and blocking until it changes.

use super::error::SchedulerError;
use super::lane::Lane;
use super::progress::ProgressEngine;
use super::state::SchedulerState;
use crate::clock::Clock;
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// The longest sleep before a blocked thread checks again.
const SLICE_NS: u64 = 1_000_000;

/// What a blocked thread waits for.
pub(super) enum WaitStatus<T> {
    /// The condition holds.
    Ready(T),
    /// It holds at this time, if nothing else happens.
    At(u64),
    /// It may hold when a grant ends, in this lane if one is named, or another call changes the state.
    OnChange(Option<Lane>),
}

/// How far a thread that waits for a change has escalated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitStage {
    Initial,
    Polled,
    Blocked,
}

/// The state with its lock and clock, shared by every handle.
///
/// One lock guards everything. It is held for one decision, a fraction of a microsecond, and no
/// foreign code but [`MemorySource`](super::MemorySource) runs under it.
pub(super) struct Shared {
    state: Mutex<SchedulerState>,
    changed: Condvar,
    clock: Arc<dyn Clock>,
    engines: Mutex<Vec<Weak<dyn ProgressEngine>>>,
}

impl Shared {
    pub fn new(state: SchedulerState, clock: Arc<dyn Clock>) -> Self {
        Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            clock,
            engines: Mutex::new(Vec::new()),
        }
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Runs `work` on the state, advanced to now.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut SchedulerState) -> T,
    ) -> Result<T, SchedulerError> {
        let now_ns = self.clock.now_ns();
        let mut state = self.state.lock().map_err(|_| SchedulerError::Poisoned)?;
        state.advance(now_ns);
        let result = work(&mut state);
        self.unlock(state);
        Ok(result)
    }

    /// Runs `work` even if a thread panicked under the lock, so that resources are released.
    pub fn with_always(&self, work: impl FnOnce(&mut SchedulerState)) {
        let now_ns = self.clock.now_ns();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(now_ns);
        work(&mut state);
        self.unlock(state);
    }

    fn unlock(&self, mut state: MutexGuard<'_, SchedulerState>) {
        let wake = std::mem::take(&mut state.changed) && state.waiters > 0;
        drop(state);
        if wake {
            self.changed.notify_all();
        }
    }

    /// Registers an engine that holds grants while work runs.
    pub fn add_progress_engine(&self, engine: &Arc<dyn ProgressEngine>) {
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |other: &Weak<dyn ProgressEngine>| {
            std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(engine))
        };
        if !engines.iter().any(known) {
            engines.retain(|other| other.strong_count() > 0);
            engines.push(Arc::downgrade(engine));
        }
    }

    fn live_engines(&self) -> Vec<Arc<dyn ProgressEngine>> {
        let engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        engines.iter().filter_map(Weak::upgrade).collect()
    }

    /// Blocks until `check` returns [`WaitStatus::Ready`].
    ///
    /// Waiting for time sleeps on the clock, so that it also ends on a virtual clock, which advances
    /// only when a thread sleeps on it. Waiting for a grant to end makes the engines progress.
    pub fn wait<T>(
        &self,
        mut check: impl FnMut(&mut SchedulerState) -> WaitStatus<T>,
    ) -> Result<T, SchedulerError> {
        let mut stage = WaitStage::Initial;
        let mut state = self.state.lock().map_err(|_| SchedulerError::Poisoned)?;
        loop {
            let now_ns = self.clock.now_ns();
            state.advance(now_ns);
            match check(&mut state) {
                WaitStatus::Ready(value) => {
                    self.unlock(state);
                    return Ok(value);
                }
                WaitStatus::At(instant_ns) => {
                    self.unlock(state);
                    let slice = now_ns.saturating_add(SLICE_NS);
                    self.clock.sleep_until_ns(instant_ns.min(slice));
                    state = self.state.lock().map_err(|_| SchedulerError::Poisoned)?;
                }
                WaitStatus::OnChange(_) if stage == WaitStage::Blocked => {
                    state = self.sleep(state)?;
                    stage = WaitStage::Initial;
                }
                WaitStatus::OnChange(lane) => {
                    self.unlock(state);
                    stage = self.make_progress(stage, lane);
                    state = self.state.lock().map_err(|_| SchedulerError::Poisoned)?;
                }
            }
        }
    }

    /// Makes the engines progress: first by polling them, then by blocking on one of them.
    fn make_progress(&self, stage: WaitStage, lane: Option<Lane>) -> WaitStage {
        let engines = self.live_engines();
        if stage == WaitStage::Initial {
            engines.iter().for_each(|engine| engine.make_progress());
            return WaitStage::Polled;
        }
        match engines.iter().any(|engine| engine.wait_for_grant_end(lane)) {
            true => WaitStage::Initial,
            false => WaitStage::Blocked,
        }
    }

    /// Sleeps until the state changes, or for a slice: another thread may queue work under a grant
    /// and never poll it again.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, SchedulerState>,
    ) -> Result<MutexGuard<'a, SchedulerState>, SchedulerError> {
        // Other threads must be woken for what this thread changed before it sleeps.
        if std::mem::take(&mut state.changed) && state.waiters > 0 {
            self.changed.notify_all();
        }
        state.waiters += 1;
        let slice = Duration::from_nanos(SLICE_NS);
        let woken = self.changed.wait_timeout(state, slice);
        let (mut state, _) = woken.map_err(|_| SchedulerError::Poisoned)?;
        state.waiters -= 1;
        Ok(state)
    }
}
