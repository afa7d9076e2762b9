//! The device time to charge for each grant when several streams share the device.
//!
//! The time between the events around an operation includes waiting for other streams' work.
//! Operations are charged in the order of their ends, each only for the time after the previous
//! end. The charges add up to the busy time of the device, without double counting.
//!
//! The measured cost of an operation is also the estimate for the next one of the same task and
//! name, so that the scheduler's window holds the intended time, whatever kernels a task runs.

use super::record::Span;
use crate::scheduler::{Grant, TaskId};
use crate::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

/// Cost estimates to keep; when there are more, all are dropped and measured again.
const MAX_ESTIMATES: usize = 4_096;

/// Operations of one task and name.
type OperationKey = (TaskId, Arc<str>);

#[derive(Default)]
struct MeterState {
    /// Grants of completed work, to be charged once all earlier ends are known.
    completed: Vec<(Span, Grant, OperationKey)>,
    /// All time up to here is charged.
    charged_up_to_ns: u64,
    /// Exponential moving average of the measured costs.
    estimates: HashMap<OperationKey, u64>,
}

impl MeterState {
    fn update_estimate(&mut self, key: OperationKey, charged_ns: u64) {
        if self.estimates.len() >= MAX_ESTIMATES && !self.estimates.contains_key(&key) {
            self.estimates.clear();
        }
        let estimate = self.estimates.entry(key).or_insert(charged_ns);
        *estimate = (*estimate / 4).saturating_mul(3).saturating_add(charged_ns / 4);
    }
}

/// Measures the device time of grants.
#[derive(Default)]
pub(super) struct Meter {
    state: Mutex<MeterState>,
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, MeterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, span: Span, grant: Grant, key: OperationKey) {
        self.lock().completed.push((span, grant, key));
    }

    /// The estimated cost of the task's operation of this name, if it was measured.
    pub fn cost_ns(&self, task: TaskId, name: &Arc<str>) -> Option<u64> {
        let key = (task, Arc::clone(name));
        self.lock().estimates.get(&key).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().completed.is_empty()
    }

    /// Charges all grants added so far.
    pub fn charge(&self) {
        let mut state = self.lock();
        let mut completed = std::mem::take(&mut state.completed);
        completed.sort_by_key(|(span, ..)| (span.end_ns, span.start_ns));
        let charge = |(span, grant, key): (Span, Grant, OperationKey)| {
            let from = span.start_ns.max(state.charged_up_to_ns);
            state.charged_up_to_ns = state.charged_up_to_ns.max(span.end_ns);
            let charged_ns = span.end_ns.saturating_sub(from);
            state.update_estimate(key, charged_ns);
            (charged_ns, grant)
        };
        let charged: Vec<(u64, Grant)> = completed.into_iter().map(charge).collect();
        drop(state);
        for (nanoseconds, grant) in charged {
            grant.end_measured(nanoseconds);
        }
    }
}
