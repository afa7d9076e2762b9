//! The locks and counters of this module, swapped for loom's when its models run.

#[cfg(loom)]
pub(super) use loom::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(super) use std::sync::{Mutex, MutexGuard, atomic};
