//! Whether all numbers that threads have split are finite.

use std::sync::atomic::{AtomicBool, Ordering};

/// True until a thread notes otherwise.
#[derive(Default)]
pub(crate) struct AllFinite {
    some_is_not: AtomicBool,
}

impl AllFinite {
    pub fn note(&self, finite: bool) {
        if !finite {
            self.some_is_not.store(true, Ordering::Relaxed);
        }
    }

    pub fn get(&self) -> bool {
        !self.some_is_not.load(Ordering::Relaxed)
    }
}
