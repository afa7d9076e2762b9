//! Who goes next in a lane.
//!
//! In this order: a turn owed to the unreserved part of the lane; a turn due under a reservation,
//! guaranteed before burstable, earliest deadline first; the turn next by weight, first among
//! partitions and then within one. Limits stand above all three. A turn that has been chosen and
//! does not fit the window keeps its place: nothing overtakes it, so nothing is starved by small
//! turns.
//!
//! Each task with turns waiting has one [`Candidate`] in a dense list, and choosing is one pass
//! over it. Keeping the candidates sorted in all the orders above would cost more than the pass
//! for as many tasks as a device has.

use super::books::{Books, TurnState};
use super::bucket::TokenBucket;
use super::fair::Tag;
use super::lane::Lane;
use super::options::{Class, PartitionId};
use super::record::{Action, Reason};

/// The next turn of a task, with everything needed to compare it with others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    task: u64,
    turn: u64,
    units: u64,
    tag: Tag,
    partition: PartitionId,
    class: Class,
    /// When the task's own limits let it go.
    ready_ns: u64,
    /// From when on it belongs to the reservation; never, without one.
    due_ns: u64,
    /// By when it should be over, if it is due.
    deadline_ns: u64,
    hold_recorded: bool,
}

/// A turn that may go now.
struct Choice {
    task: u64,
    units: u64,
    reason: Reason,
}

impl Books {
    /// Gives out every turn that can go now.
    pub fn serve(&mut self, lane: Lane) {
        self.lanes[lane].next_ns = None;
        while let Some(choice) = self.choose(lane) {
            self.grant(lane, &choice);
        }
    }

    fn choose(&mut self, lane: Lane) -> Option<Choice> {
        let whole = &self.lanes[lane];
        // A window that is full lets nothing in, but for a turn that may follow the only one.
        let full = whole.turns_under_way >= whole.options.window_turns
            || whole.units_under_way >= whole.options.window_units;
        if whole.backlog.is_empty() || (full && whole.turns_under_way > 1) {
            return None;
        }
        let mut due: Option<((Class, u64, u64), Candidate)> = None;
        let mut share: Option<((Tag, PartitionId, Tag, u64), Candidate)> = None;
        for position in 0..self.lanes[lane].backlog.len() {
            let candidate = self.lanes[lane].backlog[position];
            let partition = self.partition(candidate.partition)?;
            if let Some(reason) = self.hold(lane, &candidate) {
                self.note_hold(lane, position, reason);
                continue;
            }
            if candidate.due_ns <= self.now_ns {
                let order = (candidate.class, candidate.deadline_ns, candidate.task);
                if due.is_none_or(|(best, _)| order < best) {
                    due = Some((order, candidate));
                }
            }
            let order = (
                partition.lanes[lane].flow.start(),
                candidate.partition,
                candidate.tag,
                candidate.task,
            );
            if share.is_none_or(|(best, _)| order < best) {
                share = Some((order, candidate));
            }
        }
        let whole = &self.lanes[lane];
        let (candidate, reason) = match (due, share) {
            (Some(_), Some((_, candidate))) if whole.owed > 0 => (candidate, Reason::Floor),
            (Some(((_, deadline_ns, _), candidate)), _) => {
                (candidate, Reason::Reserved { deadline_ns })
            }
            (None, Some((_, candidate))) => (candidate, Reason::Share),
            (None, None) => return None,
        };
        let units_under_way = whole.units_under_way.checked_add(candidate.units);
        let fits = units_under_way.is_some_and(|sum| sum <= whole.options.window_units)
            && whole.turns_under_way < whole.options.window_turns;
        let goes = whole.turns_under_way == 0 || fits || self.follows(lane, &candidate);
        goes.then_some(Choice {
            task: candidate.task,
            units: candidate.units,
            reason,
        })
    }

    /// Whether a turn of a guaranteed reservation stands behind one of its own task and nothing else.
    ///
    /// The device goes from one to the other without a gap in which nobody has found the first one
    /// over; whoever is as urgent waits for one turn more than the window holds.
    fn follows(&self, lane: Lane, candidate: &Candidate) -> bool {
        let whole = &self.lanes[lane];
        let own = self
            .tasks
            .get(candidate.task)
            .map_or(0, |books| books.lanes[lane].turns_under_way);
        candidate.due_ns <= self.now_ns
            && candidate.class == Class::Guaranteed
            && whole.turns_under_way == 1
            && own == 1
            && whole.options.window_turns > 1
    }

    /// The limit that holds a candidate, if one does.
    fn hold(&self, lane: Lane, candidate: &Candidate) -> Option<Reason> {
        let shared = self
            .partition(candidate.partition)
            .and_then(|partition| partition.lanes[lane].limit.as_ref())
            .map_or(0, |limit| limit.ready_ns(candidate.units));
        let own = candidate.ready_ns;
        match own.max(shared) {
            until_ns if until_ns <= self.now_ns => None,
            until_ns if until_ns == own => Some(Reason::TaskLimit { until_ns }),
            until_ns => Some(Reason::PartitionLimit { until_ns }),
        }
    }

    /// The moment until which a limit holds the task's next turn, if one does.
    pub fn held_until_ns(&self, lane: Lane, task: u64) -> Option<u64> {
        let position = self.tasks.get(task)?.lanes[lane].backlog_position?;
        let candidate = self.lanes[lane].backlog.get(position)?;
        match self.hold(lane, candidate)? {
            Reason::TaskLimit { until_ns } | Reason::PartitionLimit { until_ns } => Some(until_ns),
            _ => None,
        }
    }

    /// Remembers when the held turn may go, and records the hold once.
    fn note_hold(&mut self, lane: Lane, position: usize, reason: Reason) {
        let whole = &mut self.lanes[lane];
        if let Reason::TaskLimit { until_ns } | Reason::PartitionLimit { until_ns } = reason {
            whole.next_ns = Some(whole.next_ns.map_or(until_ns, |next| next.min(until_ns)));
        }
        let candidate = &mut whole.backlog[position];
        if !std::mem::replace(&mut candidate.hold_recorded, true) {
            let (task, units) = (candidate.task, candidate.units);
            self.note_turn(task, Some(lane), units, Action::Hold, reason);
        }
    }

    fn grant(&mut self, lane: Lane, choice: &Choice) {
        let (now_ns, units) = (self.now_ns, choice.units);
        let reserved = matches!(choice.reason, Reason::Reserved { .. });
        let Some(books) = self.tasks.get_mut(choice.task) else {
            return;
        };
        let Some(partition) = self.partitions[books.options.partition.0 as usize].as_mut() else {
            return;
        };
        let terms = &mut books.lanes[lane];
        let Some(key) = terms.waiting.pop_front() else {
            return;
        };
        let share = &mut partition.lanes[lane];
        let whole = &mut self.lanes[lane];
        if let Some(turn) = self.turns.get_mut(key) {
            turn.state = TurnState::Granted { reserved };
            if let Some(rate) = terms.reserved.as_mut().filter(|_| reserved) {
                rate.charge(turn.asked_ns, units);
            }
        }
        if reserved {
            terms.reserved_units += units;
            let permille = i128::from(whole.options.unreserved_permille);
            whole.owed += i128::from(units) * 1_000 * permille / (1_000 - permille).max(1);
        } else {
            whole.fair.serve(&mut share.flow, units);
            share.fair.serve(&mut terms.flow, units);
            let paid = whole.owed - i128::from(units) * 1_000;
            // A turn given as owed may leave a debt the other way; others count in advance, but for
            // no more than was free of reservations in the time that bursts are counted over.
            whole.owed = match choice.reason {
                Reason::Floor => paid,
                _ => paid.max(whole.owed.min(-whole.options.advance())),
            };
        }
        for bucket in [&mut terms.limit, &mut share.limit].into_iter().flatten() {
            bucket.charge(now_ns, units);
        }
        if let Some(bucket) = &mut terms.turns {
            bucket.charge(now_ns, 1);
        }
        terms.granted_turns += 1;
        terms.granted_units += units;
        terms.turns_under_way += 1;
        books.turns_under_way += 1;
        share.turns_under_way += 1;
        whole.turns_under_way += 1;
        whole.units_under_way += units;
        self.changed = true;
        self.refresh(lane, choice.task);
        self.note_turn(choice.task, Some(lane), units, Action::Grant, choice.reason);
    }

    /// Brings the task's candidate up to date with its queue, tags and limits.
    pub fn refresh(&mut self, lane: Lane, task: u64) {
        let Some(books) = self.tasks.get(task) else {
            return;
        };
        let terms = &books.lanes[lane];
        let Some(position) = terms.backlog_position else {
            return;
        };
        let head = terms.waiting.front().copied();
        let Some((key, turn)) = head.and_then(|key| Some((key, self.turns.get(key)?))) else {
            self.leave_backlog(lane, task);
            return;
        };
        let ready = |bucket: &Option<TokenBucket>, units| {
            bucket.as_ref().map_or(0, |bucket| bucket.ready_ns(units))
        };
        let (mut due_ns, mut deadline_ns) = (u64::MAX, u64::MAX);
        if let Some(reserved) = &terms.reserved {
            due_ns = reserved.due_ns(turn.asked_ns);
            deadline_ns = reserved.deadline_ns(turn.asked_ns, turn.units);
        }
        if let Some(deadline) = books.options.deadline {
            deadline_ns = deadline_ns.min(deadline.instant_ns);
        }
        let candidate = Candidate {
            task,
            turn: key,
            units: turn.units,
            tag: terms.flow.start(),
            partition: books.options.partition,
            class: books.options.class,
            ready_ns: ready(&terms.limit, turn.units).max(ready(&terms.turns, 1)),
            due_ns,
            deadline_ns,
            hold_recorded: false,
        };
        let backlog = &mut self.lanes[lane].backlog;
        match backlog.get_mut(position) {
            Some(old) => {
                let hold_recorded = old.turn == key && old.hold_recorded;
                *old = Candidate {
                    hold_recorded,
                    ..candidate
                };
            }
            None => backlog.push(candidate),
        }
    }

    /// The task has turns waiting and may get them.
    pub fn join_backlog(&mut self, lane: Lane, task: u64) {
        let Some(books) = self.tasks.get_mut(task) else {
            return;
        };
        let Some(partition) = self.partitions[books.options.partition.0 as usize].as_mut() else {
            return;
        };
        let whole = &mut self.lanes[lane];
        let share = &mut partition.lanes[lane];
        let terms = &mut books.lanes[lane];
        if terms.backlog_position.is_some() {
            return;
        }
        if share.waiting_tasks == 0 {
            whole.fair.join(&mut share.flow);
        }
        share.fair.join(&mut terms.flow);
        share.waiting_tasks += 1;
        terms.backlog_position = Some(whole.backlog.len());
        self.refresh(lane, task);
    }

    /// The task has no turns waiting, or may not get them.
    pub fn leave_backlog(&mut self, lane: Lane, task: u64) {
        let Some(books) = self.tasks.get_mut(task) else {
            return;
        };
        let partition = books.options.partition;
        let Some(position) = books.lanes[lane].backlog_position.take() else {
            return;
        };
        let backlog = &mut self.lanes[lane].backlog;
        if position < backlog.len() {
            backlog.swap_remove(position);
        }
        if let Some(moved) = backlog.get(position).map(|candidate| candidate.task)
            && let Some(moved) = self.tasks.get_mut(moved)
        {
            moved.lanes[lane].backlog_position = Some(position);
        }
        if let Some(books) = self.partition_mut(partition) {
            books.lanes[lane].waiting_tasks -= 1;
        }
        self.rest(lane, partition);
    }

    /// Ends the busy time of a lane, or of a partition in it, once nothing waits or is under way.
    pub fn rest(&mut self, lane: Lane, partition: PartitionId) {
        let whole = &mut self.lanes[lane];
        if whole.backlog.is_empty() && whole.turns_under_way == 0 {
            whole.fair.rest();
            whole.owed = 0;
        }
        if let Some(books) = self.partition_mut(partition) {
            let share = &mut books.lanes[lane];
            if share.waiting_tasks == 0 && share.turns_under_way == 0 {
                share.fair.rest();
            }
        }
    }
}
