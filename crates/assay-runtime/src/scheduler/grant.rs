//! A requested grant and an issued grant; both release what they hold when dropped.

use super::error::SchedulerError;
use super::shared::{Shared, WaitStatus};
use super::state::{GrantState, SchedulerState};
use std::fmt;
use std::sync::Arc;

/// Owns a grant in any state and ends it exactly once.
struct GrantHandle {
    shared: Arc<Shared>,
    key: u64,
}

impl Drop for GrantHandle {
    fn drop(&mut self) {
        self.shared.with_always(|state| state.end_grant(self.key, None));
    }
}

/// A requested grant. Dropping it withdraws the request.
pub struct PendingGrant {
    handle: GrantHandle,
    /// Whether it was granted when requested, which needs no second lookup.
    granted: bool,
}

/// Whether a request was granted.
#[derive(Debug)]
pub enum Poll {
    /// It was.
    Ready(Grant),
    /// It still waits.
    Pending(PendingGrant),
}

impl PendingGrant {
    pub(super) fn new(shared: Arc<Shared>, key: u64, granted: bool) -> Self {
        PendingGrant { handle: GrantHandle { shared, key }, granted }
    }

    fn status(state: &mut SchedulerState, key: u64) -> WaitStatus<Result<(), SchedulerError>> {
        let Some(grant) = state.grants.get(key) else {
            // The state keeps a grant's entry as long as its handle lives.
            return WaitStatus::Ready(Err(SchedulerError::Poisoned));
        };
        let ended = state.tasks.get(grant.task).is_none_or(|task| task.state.is_final());
        if ended {
            return WaitStatus::Ready(Err(state.ended_error(grant.task)));
        }
        match grant.state {
            GrantState::Granted { .. } => WaitStatus::Ready(Ok(())),
            // Time alone brings a grant only when a limit throttles its own task.
            GrantState::Waiting | GrantState::Refused => state
                .throttled_until_ns(grant.lane, grant.task)
                .map_or(WaitStatus::OnChange(Some(grant.lane)), WaitStatus::At),
        }
    }

    /// The grant, if it was issued by now.
    pub fn poll(self) -> Result<Poll, SchedulerError> {
        if self.granted {
            return Ok(Poll::Ready(Grant { handle: self.handle }));
        }
        let status = self.handle.shared.with(|state| Self::status(state, self.handle.key))?;
        match status {
            WaitStatus::Ready(Ok(())) => Ok(Poll::Ready(Grant { handle: self.handle })),
            WaitStatus::Ready(Err(error)) => Err(error),
            WaitStatus::At(_) | WaitStatus::OnChange(_) => Ok(Poll::Pending(self)),
        }
    }

    /// Blocks until the grant is issued.
    pub fn wait(self) -> Result<Grant, SchedulerError> {
        let key = self.handle.key;
        if !self.granted {
            self.handle.shared.wait(|state| Self::status(state, key))??;
        }
        Ok(Grant { handle: self.handle })
    }
}

impl fmt::Debug for PendingGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingGrant({})", self.handle.key)
    }
}

/// The right to queue one piece of work on the device.
///
/// Keep it until the work has ended; dropping it ends the grant at its assumed cost.
pub struct Grant {
    handle: GrantHandle,
}

impl Grant {
    /// Ends the grant at its measured cost, which replaces the assumed one.
    pub fn end_measured(self, units: u64) {
        let key = self.handle.key;
        self.handle.shared.with_always(|state| state.end_grant(key, Some(units)));
        // Dropping the handle finds the grant already ended.
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grant({})", self.handle.key)
    }
}
