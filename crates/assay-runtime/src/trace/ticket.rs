//! What a thread is queueing: the ticket of the work, and the engine's step it belongs to.

use std::cell::Cell;

thread_local! {
    static TICKET: Cell<u64> = const { Cell::new(0) };
    static STEP: Cell<Option<i64>> = const { Cell::new(None) };
}

/// The ticket of the work that this thread is queueing; 0 while no trace is captured.
pub fn current_ticket() -> u64 {
    TICKET.get()
}

/// Calls `queue` with a ticket as the current one.
pub fn with_ticket<T>(ticket: u64, queue: impl FnOnce() -> T) -> T {
    struct Reset(u64);
    impl Drop for Reset {
        fn drop(&mut self) {
            TICKET.set(self.0);
        }
    }
    let _reset = Reset(TICKET.replace(ticket));
    queue()
}

/// The step that this thread's work belongs to.
pub fn current_step() -> Option<i64> {
    STEP.get()
}

/// Says which step this thread's work belongs to from now on.
pub fn set_step(step: Option<i64>) {
    STEP.set(step);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_nest_and_end_with_their_call() {
        assert_eq!(current_ticket(), 0);
        with_ticket(3, || {
            with_ticket(4, || assert_eq!(current_ticket(), 4));
            assert_eq!(current_ticket(), 3);
        });
        assert_eq!(current_ticket(), 0);
        let panicked = std::panic::catch_unwind(|| with_ticket(5, || panic!("inside")));
        assert!(panicked.is_err());
        assert_eq!(current_ticket(), 0);
    }

    #[test]
    fn steps_belong_to_their_thread() {
        set_step(Some(7));
        let other = std::thread::spawn(current_step).join();
        assert_eq!(other.ok(), Some(None));
        assert_eq!(current_step(), Some(7));
        set_step(None);
    }
}
