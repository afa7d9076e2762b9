//! The lifecycle of a grant: requested, granted or withdrawn, ended and settled.

use super::decision::{Action, Reason};
use super::error::SchedulerError;
use super::lane::Lane;
use super::state::{GrantEntry, GrantState, SchedulerState};
use super::task_state::TaskState;

impl SchedulerState {
    /// Queues a request of a running task.
    pub fn request(&mut self, task: u64, lane: Lane, units: u64) -> Result<u64, SchedulerError> {
        let limit = self.options.max_waiting_requests;
        let now_ns = self.now_ns;
        let entry = self.tasks.get_mut(task).ok_or_else(|| Self::unknown_task(task))?;
        if entry.state.is_final() {
            return Err(self.ended_error(task));
        }
        if entry.state != TaskState::Running {
            return Err(SchedulerError::NotRunning {
                task: entry.name.to_string(),
                state: entry.state,
            });
        }
        let waiting = &mut entry.lanes[lane].waiting;
        if waiting.len() >= limit {
            return Err(SchedulerError::TooManyWaiting {
                task: entry.name.to_string(),
                lane,
                limit,
            });
        }
        let key = self.grants.insert(GrantEntry {
            task,
            lane,
            units,
            requested_ns: now_ns,
            state: GrantState::Waiting,
        });
        waiting.push_back(key);
        entry.grant_handles += 1;
        if waiting.len() == 1 {
            self.join_backlog(lane, task);
        }
        self.issue_grants(lane);
        Ok(key)
    }

    pub fn is_granted(&self, key: u64) -> bool {
        let granted = |grant: &GrantEntry| matches!(grant.state, GrantState::Granted { .. });
        self.grants.get(key).is_some_and(granted)
    }

    /// Ends a grant in any state; charges its measured cost, if it was measured.
    pub fn end_grant(&mut self, key: u64, measured: Option<u64>) {
        let Some(grant) = self.grants.remove(key) else {
            return;
        };
        let (task, lane, units) = (grant.task, grant.lane, grant.units);
        match grant.state {
            GrantState::Refused => {}
            GrantState::Waiting => self.withdraw(key, &grant),
            GrantState::Granted { reserved } => self.settle(&grant, reserved, measured),
        }
        if let Some(entry) = self.tasks.get_mut(task) {
            entry.grant_handles -= 1;
        }
        if grant.state != GrantState::Refused {
            let (action, reason) = match (grant.state, measured) {
                (GrantState::Waiting, _) => (Action::Withdraw, Reason::Dropped),
                (_, Some(units)) => (Action::Return, Reason::Measured { units }),
                (_, None) => (Action::Return, Reason::Assumed),
            };
            self.record_grant(task, Some(lane), units, action, reason);
            self.release_if_idle(task, Reason::LastGrantEnded);
            self.issue_grants(lane);
        }
        self.remove_if_unreferenced(task);
    }

    fn withdraw(&mut self, key: u64, grant: &GrantEntry) {
        let Some(entry) = self.tasks.get_mut(grant.task) else {
            return;
        };
        let waiting = &mut entry.lanes[grant.lane].waiting;
        waiting.retain(|other| *other != key);
        self.refresh(grant.lane, grant.task);
    }

    /// Removes an ended grant from the window and replaces its assumed cost by the measured one.
    fn settle(&mut self, grant: &GrantEntry, reserved: bool, measured: Option<u64>) {
        let lane_state = &mut self.lanes[grant.lane];
        lane_state.grants_in_flight -= 1;
        lane_state.units_in_flight -= grant.units;
        let Some(entry) = self.tasks.get_mut(grant.task) else {
            return;
        };
        entry.grants_in_flight -= 1;
        let task_lane = &mut entry.lanes[grant.lane];
        task_lane.grants_in_flight -= 1;
        let partition = entry.options.partition;
        let Some(partition_entry) = self.partitions[partition.0 as usize].as_mut() else {
            return;
        };
        let partition_lane = &mut partition_entry.lanes[grant.lane];
        partition_lane.grants_in_flight -= 1;
        if let Some(measured) = measured {
            task_lane.measured_units += measured;
            for bucket in [&mut task_lane.limit, &mut partition_lane.limit].into_iter().flatten() {
                bucket.correct(grant.units, measured);
            }
            if reserved {
                if let Some(rate) = &mut task_lane.reserved {
                    rate.correct(grant.units, measured);
                }
            } else {
                lane_state.virtual_time.correct(&mut partition_lane.flow, grant.units, measured);
                partition_lane.virtual_time.correct(&mut task_lane.flow, grant.units, measured);
            }
        }
        self.refresh(grant.lane, grant.task);
        self.end_idle_busy_periods(grant.lane, partition);
    }
}
