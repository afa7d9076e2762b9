//! Notices: problems that are not errors, queued until the caller collects them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Pending notices.
#[derive(Default, Debug)]
pub(crate) struct Notices {
    waiting: Mutex<Vec<String>>,
    /// Whether any are pending: checked on every device call.
    any: AtomicBool,
}

impl Notices {
    pub fn add(&self, text: String) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(text);
        self.any.store(true, Ordering::Release);
    }

    /// The notices since the last call.
    pub fn take(&self) -> Vec<String> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *waiting)
    }
}
