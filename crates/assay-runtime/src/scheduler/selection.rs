//! Selects which request of a lane is granted next.
//!
//! In this order: a request that the unreserved floor of the lane owes a grant; a request due under
//! a reservation, guaranteed before burstable, earliest deadline first; the request with the
//! smallest start tag, first among partitions and then within one. Limits throttle all three. A
//! selected request that does not fit the window blocks the lane until it fits: nothing overtakes
//! it, so small requests cannot starve large ones.
//!
//! Each backlogged task has one [`Candidate`] in a dense list, and selection is one pass over it.
//! Keeping the candidates sorted in every order above would cost more than the pass for as many
//! tasks as share a device.

use super::candidate::Candidate;
use super::class::Class;
use super::decision::{Action, Reason};
use super::fair_queue::Tag;
use super::ids::PartitionId;
use super::lane::Lane;
use super::state::{GrantState, SchedulerState};

/// A request that can be granted now.
struct Selection {
    task: u64,
    units: u64,
    reason: Reason,
}

impl SchedulerState {
    /// Grants every request of the lane that can be granted now.
    pub fn issue_grants(&mut self, lane: Lane) {
        self.lanes[lane].next_ns = None;
        while let Some(selection) = self.select(lane) {
            self.grant(lane, &selection);
        }
    }

    fn select(&mut self, lane: Lane) -> Option<Selection> {
        let lane_state = &self.lanes[lane];
        // A full window admits nothing except a request that may follow the only grant in flight.
        let full = lane_state.grants_in_flight >= lane_state.options.window_grants
            || lane_state.units_in_flight >= lane_state.options.window_units;
        if lane_state.backlog.is_empty() || (full && lane_state.grants_in_flight > 1) {
            return None;
        }
        let mut due: Option<((Class, u64, u64), Candidate)> = None;
        let mut share: Option<((Tag, PartitionId, Tag, u64), Candidate)> = None;
        for position in 0..self.lanes[lane].backlog.len() {
            let candidate = self.lanes[lane].backlog[position];
            let partition = self.partition(candidate.partition)?;
            if let Some(reason) = self.throttle(lane, &candidate) {
                self.record_hold(lane, position, reason);
                continue;
            }
            if candidate.due_ns <= self.now_ns {
                let order = (candidate.class, candidate.deadline_ns, candidate.task);
                if due.is_none_or(|(best, _)| order < best) {
                    due = Some((order, candidate));
                }
            }
            let order = (
                partition.lanes[lane].flow.start_tag(),
                candidate.partition,
                candidate.tag,
                candidate.task,
            );
            if share.is_none_or(|(best, _)| order < best) {
                share = Some((order, candidate));
            }
        }
        let lane_state = &self.lanes[lane];
        let (candidate, reason) = match (due, share) {
            (Some(_), Some((_, candidate))) if lane_state.unreserved_deficit > 0 => {
                (candidate, Reason::Floor)
            }
            (Some(((_, deadline_ns, _), candidate)), _) => {
                (candidate, Reason::Reserved { deadline_ns })
            }
            (None, Some((_, candidate))) => (candidate, Reason::Share),
            (None, None) => return None,
        };
        let units_in_flight = lane_state.units_in_flight.checked_add(candidate.units);
        let fits = units_in_flight.is_some_and(|sum| sum <= lane_state.options.window_units)
            && lane_state.grants_in_flight < lane_state.options.window_grants;
        let granted = lane_state.grants_in_flight == 0 || fits || self.may_follow(lane, &candidate);
        granted.then_some(Selection { task: candidate.task, units: candidate.units, reason })
    }

    /// Whether a guaranteed request that is due may queue behind its own task's only grant in flight.
    ///
    /// The device then runs both back to back, with no gap until a host thread observes that the
    /// first has ended. Another guaranteed task waits for one grant more than the window holds.
    fn may_follow(&self, lane: Lane, candidate: &Candidate) -> bool {
        let lane_state = &self.lanes[lane];
        let own =
            self.tasks.get(candidate.task).map_or(0, |entry| entry.lanes[lane].grants_in_flight);
        candidate.due_ns <= self.now_ns
            && candidate.class == Class::Guaranteed
            && lane_state.grants_in_flight == 1
            && own == 1
            && lane_state.options.window_grants > 1
    }

    /// The limit that throttles a candidate, if one does.
    fn throttle(&self, lane: Lane, candidate: &Candidate) -> Option<Reason> {
        let partition_ready_ns = self
            .partition(candidate.partition)
            .and_then(|partition| partition.lanes[lane].limit.as_ref())
            .map_or(0, |limit| limit.ready_ns(candidate.units));
        let own = candidate.ready_ns;
        match own.max(partition_ready_ns) {
            until_ns if until_ns <= self.now_ns => None,
            until_ns if until_ns == own => Some(Reason::TaskLimit { until_ns }),
            until_ns => Some(Reason::PartitionLimit { until_ns }),
        }
    }

    /// Until when a limit throttles the task's next request, if one does.
    pub fn throttled_until_ns(&self, lane: Lane, task: u64) -> Option<u64> {
        let position = self.tasks.get(task)?.lanes[lane].backlog_position?;
        let candidate = self.lanes[lane].backlog.get(position)?;
        match self.throttle(lane, candidate)? {
            Reason::TaskLimit { until_ns } | Reason::PartitionLimit { until_ns } => Some(until_ns),
            _ => None,
        }
    }

    /// Schedules the throttled request's retry, and records the hold once.
    fn record_hold(&mut self, lane: Lane, position: usize, reason: Reason) {
        let lane_state = &mut self.lanes[lane];
        if let Reason::TaskLimit { until_ns } | Reason::PartitionLimit { until_ns } = reason {
            lane_state.next_ns =
                Some(lane_state.next_ns.map_or(until_ns, |next| next.min(until_ns)));
        }
        let candidate = &mut lane_state.backlog[position];
        if !std::mem::replace(&mut candidate.hold_recorded, true) {
            let (task, units) = (candidate.task, candidate.units);
            self.record_grant(task, Some(lane), units, Action::Hold, reason);
        }
    }

    fn grant(&mut self, lane: Lane, selection: &Selection) {
        let (now_ns, units) = (self.now_ns, selection.units);
        let reserved = matches!(selection.reason, Reason::Reserved { .. });
        let Some(entry) = self.tasks.get_mut(selection.task) else {
            return;
        };
        let Some(partition) = self.partitions[entry.options.partition.0 as usize].as_mut() else {
            return;
        };
        let task_lane = &mut entry.lanes[lane];
        let Some(key) = task_lane.waiting.pop_front() else {
            return;
        };
        let partition_lane = &mut partition.lanes[lane];
        let lane_state = &mut self.lanes[lane];
        if let Some(grant) = self.grants.get_mut(key) {
            grant.state = GrantState::Granted { reserved };
            if let Some(rate) = task_lane.reserved.as_mut().filter(|_| reserved) {
                rate.charge(grant.requested_ns, units);
            }
        }
        if reserved {
            task_lane.reserved_units += units;
            let permille = i128::from(lane_state.options.unreserved_permille);
            lane_state.unreserved_deficit +=
                i128::from(units) * 1_000 * permille / (1_000 - permille).max(1);
        } else {
            lane_state.virtual_time.charge(&mut partition_lane.flow, units);
            partition_lane.virtual_time.charge(&mut task_lane.flow, units);
            let paid = lane_state.unreserved_deficit - i128::from(units) * 1_000;
            // A grant on account of the floor may overshoot into credit. Grants by weight also earn
            // credit, bounded by the unreserved part of the burst window.
            lane_state.unreserved_deficit = match selection.reason {
                Reason::Floor => paid,
                _ => paid.max(
                    lane_state.unreserved_deficit.min(-lane_state.options.max_unreserved_credit()),
                ),
            };
        }
        for bucket in [&mut task_lane.limit, &mut partition_lane.limit].into_iter().flatten() {
            bucket.charge(now_ns, units);
        }
        task_lane.grants += 1;
        task_lane.granted_units += units;
        task_lane.grants_in_flight += 1;
        entry.grants_in_flight += 1;
        partition_lane.grants_in_flight += 1;
        lane_state.grants_in_flight += 1;
        lane_state.units_in_flight += units;
        self.changed = true;
        self.refresh(lane, selection.task);
        self.record_grant(selection.task, Some(lane), units, Action::Grant, selection.reason);
    }

    /// Updates the task's candidate from its queue, tag and limits.
    pub fn refresh(&mut self, lane: Lane, task: u64) {
        let Some(entry) = self.tasks.get(task) else {
            return;
        };
        let task_lane = &entry.lanes[lane];
        let Some(position) = task_lane.backlog_position else {
            return;
        };
        let head = task_lane.waiting.front().copied();
        let Some((key, grant)) = head.and_then(|key| Some((key, self.grants.get(key)?))) else {
            self.leave_backlog(lane, task);
            return;
        };
        let limit = task_lane.limit.as_ref();
        let (mut due_ns, mut deadline_ns) = (u64::MAX, u64::MAX);
        if let Some(reserved) = &task_lane.reserved {
            due_ns = reserved.due_ns(grant.requested_ns);
            deadline_ns = reserved.deadline_ns(grant.requested_ns, grant.units);
        }
        let candidate = Candidate {
            task,
            grant: key,
            units: grant.units,
            tag: task_lane.flow.start_tag(),
            partition: entry.options.partition,
            class: entry.options.class,
            ready_ns: limit.map_or(0, |bucket| bucket.ready_ns(grant.units)),
            due_ns,
            deadline_ns,
            hold_recorded: false,
        };
        let backlog = &mut self.lanes[lane].backlog;
        match backlog.get_mut(position) {
            Some(old) => {
                let hold_recorded = old.grant == key && old.hold_recorded;
                *old = Candidate { hold_recorded, ..candidate };
            }
            None => backlog.push(candidate),
        }
    }

    /// The task became backlogged: it has requests waiting and may be granted them.
    pub fn join_backlog(&mut self, lane: Lane, task: u64) {
        let Some(entry) = self.tasks.get_mut(task) else {
            return;
        };
        let Some(partition) = self.partitions[entry.options.partition.0 as usize].as_mut() else {
            return;
        };
        let lane_state = &mut self.lanes[lane];
        let partition_lane = &mut partition.lanes[lane];
        let task_lane = &mut entry.lanes[lane];
        if task_lane.backlog_position.is_some() {
            return;
        }
        if partition_lane.waiting_tasks == 0 {
            lane_state.virtual_time.activate(&mut partition_lane.flow);
        }
        partition_lane.virtual_time.activate(&mut task_lane.flow);
        partition_lane.waiting_tasks += 1;
        task_lane.backlog_position = Some(lane_state.backlog.len());
        self.refresh(lane, task);
    }

    /// The task has no requests waiting, or may not be granted them.
    pub fn leave_backlog(&mut self, lane: Lane, task: u64) {
        let Some(entry) = self.tasks.get_mut(task) else {
            return;
        };
        let partition = entry.options.partition;
        let Some(position) = entry.lanes[lane].backlog_position.take() else {
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
        if let Some(entry) = self.partition_mut(partition) {
            entry.lanes[lane].waiting_tasks -= 1;
        }
        self.end_idle_busy_periods(lane, partition);
    }

    /// Ends the busy period of a lane, or of a partition in it, once nothing waits or is in flight.
    pub fn end_idle_busy_periods(&mut self, lane: Lane, partition: PartitionId) {
        let lane_state = &mut self.lanes[lane];
        if lane_state.backlog.is_empty() && lane_state.grants_in_flight == 0 {
            lane_state.virtual_time.end_busy_period();
            lane_state.unreserved_deficit = 0;
        }
        if let Some(entry) = self.partition_mut(partition) {
            let partition_lane = &mut entry.lanes[lane];
            if partition_lane.waiting_tasks == 0 && partition_lane.grants_in_flight == 0 {
                partition_lane.virtual_time.end_busy_period();
            }
        }
    }
}
