//! Engines that hold grants while work runs on the device, and end them when it has completed.
//!
//! A grant ends when some thread observes that its work has completed. A thread that waits for a
//! grant therefore makes the engines progress; otherwise it could wait forever for work that
//! completed long ago.

use super::lane::Lane;

/// Something that queues work under grants, such as a dispatch controller or a transfer engine.
///
/// Waiting threads call it without the scheduler's lock.
pub trait ProgressEngine: Send + Sync {
    /// Collects completed work and queues what may run, without blocking.
    fn make_progress(&self);

    /// Blocks until the oldest in-flight work that holds a grant in this lane, or in any lane, has
    /// completed and is collected; returns false at once if there is none.
    fn wait_for_grant_end(&self, lane: Option<Lane>) -> bool;
}
