//! A turn asked for, and a turn given; both give back what they hold when dropped.

use super::books::{Books, TurnState};
use super::error::SchedulerError;
use super::shared::{Outlook, Shared};
use std::fmt;
use std::sync::Arc;

/// A turn in someone's hands, in whatever state, returned to the books exactly once.
struct Held {
    shared: Arc<Shared>,
    key: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared
            .with_always(|books| books.give_back(self.key, None));
    }
}

/// A turn that was asked for. Dropping it withdraws the request.
pub struct Ticket {
    held: Held,
    /// Whether it was already given when asked for, which needs no second look.
    granted: bool,
}

/// Whether a turn has come.
#[derive(Debug)]
pub enum Poll {
    /// It has.
    Ready(Turn),
    /// It has not; the ticket comes back.
    Waiting(Ticket),
}

impl Ticket {
    pub(super) fn new(shared: Arc<Shared>, key: u64, granted: bool) -> Self {
        Ticket {
            held: Held { shared, key },
            granted,
        }
    }

    fn look(books: &mut Books, key: u64) -> Outlook<Result<(), SchedulerError>> {
        let Some(turn) = books.turns.get(key) else {
            // The books keep a turn as long as its ticket lives.
            return Outlook::Ready(Err(SchedulerError::Poisoned));
        };
        let ended = books
            .tasks
            .get(turn.task)
            .is_none_or(|task| task.state.is_final());
        if ended {
            return Outlook::Ready(Err(books.ended(turn.task)));
        }
        match turn.state {
            TurnState::Granted { .. } => Outlook::Ready(Ok(())),
            // Only a limit on its own task lets time alone bring a turn.
            TurnState::Waiting | TurnState::Refused => books
                .held_until_ns(turn.lane, turn.task)
                .map_or(Outlook::OnChange(Some(turn.lane)), Outlook::At),
        }
    }

    /// The turn, if it has come by now.
    pub fn poll(self) -> Result<Poll, SchedulerError> {
        if self.granted {
            return Ok(Poll::Ready(Turn { held: self.held }));
        }
        let outlook = self
            .held
            .shared
            .with(|books| Self::look(books, self.held.key))?;
        match outlook {
            Outlook::Ready(Ok(())) => Ok(Poll::Ready(Turn { held: self.held })),
            Outlook::Ready(Err(error)) => Err(error),
            Outlook::At(_) | Outlook::OnChange(_) => Ok(Poll::Waiting(self)),
        }
    }

    /// Blocks until the turn comes.
    pub fn wait(self) -> Result<Turn, SchedulerError> {
        let key = self.held.key;
        if !self.granted {
            self.held.shared.wait(|books| Self::look(books, key))??;
        }
        Ok(Turn { held: self.held })
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.held.key)
    }
}

/// A turn that was given: the work may be queued on the device now.
///
/// Keep it until the work is over; dropping it ends the turn at its assumed cost.
pub struct Turn {
    held: Held,
}

impl Turn {
    /// Ends the turn with the cost that was measured, which is what the task is charged.
    pub fn end_measured(self, units: u64) {
        let key = self.held.key;
        self.held
            .shared
            .with_always(|books| books.give_back(key, Some(units)));
        // Dropping the rest finds the turn already given back.
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({})", self.held.key)
    }
}
