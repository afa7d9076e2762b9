//! What to do when memory is short: evict what is not in use, wait for what is, ask the program.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use assay_runtime::dispatch::DispatchController;
use assay_runtime::memory::adaptors::{Decision, Failure};
use assay_runtime::memory::{MemoryError, Residency};
use pyo3::prelude::*;

use super::block::Block;

/// Who can be asked to give memory up.
pub(super) struct Relief {
    dispatch: DispatchController,
    residency: OnceLock<Arc<Residency>>,
    /// Evictable blocks; those that are gone are forgotten on the way.
    blocks: Mutex<Vec<Weak<Block>>>,
    /// Called with bytes, tenant, attempt and message; true means that something was freed.
    callback: Mutex<Option<Py<PyAny>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relief {
    pub fn new(dispatch: DispatchController) -> Self {
        Relief {
            dispatch,
            residency: OnceLock::new(),
            blocks: Mutex::new(Vec::new()),
            callback: Mutex::new(None),
        }
    }

    pub fn set_residency(&self, residency: &Arc<Residency>) {
        // Set once by whoever made it; a second time it is the same.
        let _ = self.residency.set(Arc::clone(residency));
    }

    pub fn set_callback(&self, callback: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        std::mem::replace(&mut *lock(&self.callback), callback)
    }

    /// Counts a block among those that can be evicted.
    pub fn add(&self, block: &Arc<Block>) {
        lock(&self.blocks).push(Arc::downgrade(block));
    }

    fn blocks(&self) -> Vec<Arc<Block>> {
        let mut blocks = lock(&self.blocks);
        blocks.retain(|block| block.strong_count() > 0);
        blocks.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets memory go that is on the device only because it was used; true if there was any.
    ///
    /// Where all of it is in use, waits for the work of one.
    pub fn let_go(&self) -> bool {
        let blocks = self.blocks();
        let idle = blocks.iter().filter(|block| block.let_go()).count();
        idle > 0 || blocks.iter().any(|block| block.wait_and_let_go())
    }

    /// One step against a shortage.
    pub fn relieve(&self, failure: &Failure<'_>) -> Decision {
        if self.evict(failure) || self.let_go() {
            return Decision::Retry;
        }
        match self.ask(failure) {
            true => Decision::Retry,
            false => Decision::GiveUp,
        }
    }

    fn evict(&self, failure: &Failure<'_>) -> bool {
        let Some(residency) = self.residency.get() else {
            return false;
        };
        let request = failure.request;
        // An eviction that fails leaves the request's own error to be told.
        let relieved = residency.evict_for(failure.error, request.stream, request.tenant);
        let _ = self.dispatch.record_movements(residency);
        relieved.unwrap_or(false)
    }

    /// Asks the program's own callback.
    fn ask(&self, failure: &Failure<'_>) -> bool {
        let (bytes, tenant) = (failure.request.bytes, failure.request.tenant.0);
        let message = failure.error.to_string();
        Python::attach(|py| {
            let Some(callback) = lock(&self.callback).as_ref().map(|one| one.clone_ref(py)) else {
                return false;
            };
            let answer = callback
                .call1(py, (bytes, tenant, failure.attempt, message))
                .and_then(|answer| answer.is_truthy(py));
            match answer {
                Ok(answer) => answer,
                Err(error) => {
                    // The request's error is raised; this one is shown as unraisable.
                    error.write_unraisable(py, Some(callback.bind(py)));
                    false
                }
            }
        })
    }

    /// Whether trying again after [`let_go`](Relief::let_go) could help.
    pub fn helps(&self, error: &MemoryError) -> bool {
        error.is_pressure() && self.let_go()
    }
}
