//! A turn from being asked for to being over.

use super::books::{Books, TurnBooks, TurnState};
use super::error::SchedulerError;
use super::lane::Lane;
use super::life::TaskState;
use super::record::{Action, Reason};

impl Books {
    /// Queues a turn of a running task.
    pub fn ask(&mut self, task: u64, lane: Lane, units: u64) -> Result<u64, SchedulerError> {
        let limit = self.options.waiting_turns;
        let now_ns = self.now_ns;
        let books = self
            .tasks
            .get_mut(task)
            .ok_or_else(|| Self::unknown(task))?;
        if books.state.is_final() {
            return Err(self.ended(task));
        }
        if books.state != TaskState::Running {
            return Err(SchedulerError::NotRunning {
                task: books.name.to_string(),
                state: books.state,
            });
        }
        let waiting = &mut books.lanes[lane].waiting;
        if waiting.len() >= limit {
            return Err(SchedulerError::TooManyWaiting {
                task: books.name.to_string(),
                lane,
                limit,
            });
        }
        let turn = self.turns.insert(TurnBooks {
            task,
            lane,
            units,
            asked_ns: now_ns,
            state: TurnState::Waiting,
        });
        waiting.push_back(turn);
        books.turn_handles += 1;
        if waiting.len() == 1 {
            self.join_backlog(lane, task);
        }
        self.serve(lane);
        Ok(turn)
    }

    pub fn is_granted(&self, turn: u64) -> bool {
        let granted = |turn: &TurnBooks| matches!(turn.state, TurnState::Granted { .. });
        self.turns.get(turn).is_some_and(granted)
    }

    /// Ends a turn in whatever state it is, charging what it was measured to cost, if it was.
    pub fn give_back(&mut self, key: u64, measured: Option<u64>) {
        let Some(turn) = self.turns.remove(key) else {
            return;
        };
        let (task, lane, units) = (turn.task, turn.lane, turn.units);
        match turn.state {
            TurnState::Refused => {}
            TurnState::Waiting => self.withdraw(key, &turn),
            TurnState::Granted { reserved } => self.settle(&turn, reserved, measured),
        }
        if let Some(books) = self.tasks.get_mut(task) {
            books.turn_handles -= 1;
        }
        if turn.state != TurnState::Refused {
            let (action, reason) = match (turn.state, measured) {
                (TurnState::Waiting, _) => (Action::Withdraw, Reason::Dropped),
                (_, Some(units)) => (Action::Return, Reason::Measured { units }),
                (_, None) => (Action::Return, Reason::Assumed),
            };
            self.note_turn(task, Some(lane), units, action, reason);
            self.release_if_idle(task, Reason::LastTurnOver);
            self.serve(lane);
        }
        self.forget_if_unused(task);
    }

    fn withdraw(&mut self, key: u64, turn: &TurnBooks) {
        let Some(books) = self.tasks.get_mut(turn.task) else {
            return;
        };
        let waiting = &mut books.lanes[turn.lane].waiting;
        waiting.retain(|other| *other != key);
        self.refresh(turn.lane, turn.task);
    }

    /// Takes a given turn out of the window and corrects what was charged for it.
    fn settle(&mut self, turn: &TurnBooks, reserved: bool, measured: Option<u64>) {
        let whole = &mut self.lanes[turn.lane];
        whole.turns_under_way -= 1;
        whole.units_under_way -= turn.units;
        let Some(books) = self.tasks.get_mut(turn.task) else {
            return;
        };
        books.turns_under_way -= 1;
        let terms = &mut books.lanes[turn.lane];
        terms.turns_under_way -= 1;
        let partition = books.options.partition;
        let Some(partition_books) = self.partitions[partition.0 as usize].as_mut() else {
            return;
        };
        let share = &mut partition_books.lanes[turn.lane];
        share.turns_under_way -= 1;
        if let Some(measured) = measured {
            terms.measured_units += measured;
            for bucket in [&mut terms.limit, &mut share.limit].into_iter().flatten() {
                bucket.correct(turn.units, measured);
            }
            if reserved {
                if let Some(rate) = &mut terms.reserved {
                    rate.correct(turn.units, measured);
                }
            } else {
                whole.fair.correct(&mut share.flow, turn.units, measured);
                share.fair.correct(&mut terms.flow, turn.units, measured);
            }
        }
        self.refresh(turn.lane, turn.task);
        self.rest(turn.lane, partition);
    }
}
