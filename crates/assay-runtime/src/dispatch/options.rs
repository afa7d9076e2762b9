//! Options of the dispatch controller.

use super::error::DispatchError;

/// Whether events are recorded around work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// Around every operation: records have spans, at the cost of two driver calls each.
    Full,
    /// Only around work that a task is charged for, and where the end must be known: other records
    /// have no span.
    Off,
}

/// Options of a [`DispatchController`](super::DispatchController).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DispatchOptions {
    /// Operations that may be in flight on one stream: two steps of a model that are not captured fit,
    /// so that the host is done with one while the device computes the other.
    pub in_flight: usize,
    /// Operations that may wait for one stream; more are refused.
    pub waiting: usize,
    /// Whether records have spans.
    pub timing: Timing,
}

/// Without timing, an event is recorded after each graph, and after so many other operations.
pub(super) const EVENT_INTERVAL: u32 = 64;

impl Default for DispatchOptions {
    fn default() -> Self {
        DispatchOptions { in_flight: 512, waiting: 4_096, timing: Timing::Full }
    }
}

impl DispatchOptions {
    pub(super) fn validate(&self) -> Result<(), DispatchError> {
        for (name, got) in [("in_flight", self.in_flight), ("waiting", self.waiting)] {
            if got == 0 {
                return Err(DispatchError::InvalidOption { name, expected: "at least 1", got: 0 });
            }
        }
        Ok(())
    }
}
