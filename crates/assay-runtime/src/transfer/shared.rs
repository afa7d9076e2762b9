//! The engine's state with its lock, shared by every handle.

use super::error::{Result, TransferError};
use super::state::TransferState;
use crate::backend::{Backend, HostPointer};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};

/// The state with its lock; `changed` wakes threads that wait for one another.
pub(super) struct Shared {
    pub backend: Arc<dyn Backend>,
    pub state: Mutex<TransferState>,
    pub changed: Condvar,
    /// Pinned memory of both staging rings.
    pub ring: HostPointer,
}

impl Shared {
    /// Locks the state; fails if a thread panicked under the lock.
    pub fn lock(&self) -> Result<MutexGuard<'_, TransferState>> {
        self.state.lock().map_err(|_| TransferError::Poisoned)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for channel in &mut state.channels {
            if let Some(stream) = channel.stream.take() {
                // Copies in flight use the rings, so they end first. The device may be gone, and
                // then there is nothing left to report to.
                let _ = self.backend.synchronize_stream(stream);
                let _ = self.backend.destroy_stream(stream);
            }
            channel.in_flight.clear();
        }
        state.to_drain.clear();
        state.abandon();
        let _ = self.backend.free_host(self.ring);
    }
}
