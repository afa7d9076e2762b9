//! How the dispatch controller is set up.

use super::error::DispatchError;

/// Whether events are recorded around work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// Around every piece: records tell when each ran, at the cost of two driver calls apiece.
    Full,
    /// Only around work that a task is charged for, and where something depends on knowing the
    /// end: other records tell what ran but not when.
    Off,
}

/// How to make a [`DispatchController`](super::DispatchController).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DispatchOptions {
    /// Pieces of work that may be queued on one stream of the device at once.
    pub in_flight: usize,
    /// Pieces that may wait here for a stream; more are refused.
    pub waiting: usize,
    /// Whether records tell when work ran.
    pub timing: Timing,
}

/// Without timing, the end of every so many pieces is marked.
pub(super) const MARK_EVERY: u32 = 64;

impl Default for DispatchOptions {
    fn default() -> Self {
        DispatchOptions {
            in_flight: 256,
            waiting: 4_096,
            timing: Timing::Full,
        }
    }
}

impl DispatchOptions {
    pub(super) fn validate(&self) -> Result<(), DispatchError> {
        for (name, got) in [("in_flight", self.in_flight), ("waiting", self.waiting)] {
            if got == 0 {
                return Err(DispatchError::InvalidOption {
                    name,
                    expected: "at least 1",
                    got: 0,
                });
            }
        }
        Ok(())
    }
}
