//! Those who hold turns while work runs on the device, and who must be asked to let go of them.
//!
//! A turn ends when its work is found to be over, and someone has to look. A thread that waits
//! for a turn therefore moves on whoever may be holding one; otherwise it could wait forever for
//! work that has long been done.

use super::lane::Lane;

/// Something that queues work under turns, such as a dispatch controller or a transfer engine.
///
/// It is called without the scheduler's lock, from threads that wait.
pub trait Driver: Send + Sync {
    /// Takes in what is over and queues what may go, without waiting.
    fn drive(&self);

    /// Blocks until the oldest work under way that holds a turn in this lane, or in any, is over
    /// and taken in; gives false at once if there is none.
    fn wait_for_turn_end(&self, lane: Option<Lane>) -> bool;
}
