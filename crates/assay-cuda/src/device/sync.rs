//! Locking.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic: nothing under these locks panics with the state half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
