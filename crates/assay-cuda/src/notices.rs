//! What went less well than it could and is no error, until somebody asks for it to pass it on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Sentences that are still to be told.
#[derive(Default, Debug)]
pub(crate) struct Notices {
    waiting: Mutex<Vec<String>>,
    /// Whether there are any: asked before every call of a device.
    any: AtomicBool,
}

impl Notices {
    pub fn add(&self, text: String) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(text);
        self.any.store(true, Ordering::Release);
    }

    /// What was added since the last call.
    pub fn take(&self) -> Vec<String> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *waiting)
    }
}
