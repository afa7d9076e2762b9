//! How much device time each turn took, when several streams share the device.
//!
//! Between the events around a piece of work lies also the time it waited for work of other
//! streams. Taken in the order of their ends, each piece is charged only for the time after the
//! end of the one before. The charges then add up to the time the device was busy, and none of it
//! is charged twice.
//!
//! What work of a name cost a task is also what its next piece of that name is assumed to cost, so
//! that the window holds as much time as it says, whatever kernels a task brings.

use super::record::Span;
use crate::scheduler::{Grant, TaskId};
use crate::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

/// Names whose cost is remembered; when there are more, all are learned again.
const REMEMBERED: usize = 4_096;

/// Work by the task it was charged to and its name.
type Kind = (TaskId, Arc<str>);

#[derive(Default)]
struct Open {
    /// Turns of work that is over, to be charged once all that ended before is known.
    turns: Vec<(Span, Grant, Kind)>,
    /// Time up to here is charged.
    charged_up_to_ns: u64,
    /// What work of each kind cost, newer pieces counting more.
    costs: HashMap<Kind, u64>,
}

impl Open {
    fn learn(&mut self, kind: Kind, charged_ns: u64) {
        if self.costs.len() >= REMEMBERED && !self.costs.contains_key(&kind) {
            self.costs.clear();
        }
        let cost = self.costs.entry(kind).or_insert(charged_ns);
        *cost = (*cost / 4).saturating_mul(3).saturating_add(charged_ns / 4);
    }
}

/// The turns of one device whose cost is being measured.
#[derive(Default)]
pub(super) struct Meter {
    open: Mutex<Open>,
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, span: Span, turn: Grant, kind: Kind) {
        self.lock().turns.push((span, turn, kind));
    }

    /// What work of this name last cost the task, if it was measured.
    pub fn cost_ns(&self, task: TaskId, name: &Arc<str>) -> Option<u64> {
        self.lock().costs.get(&(task, Arc::clone(name))).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().turns.is_empty()
    }

    /// Charges all turns added so far.
    pub fn settle(&self) {
        let mut open = self.lock();
        let mut turns = std::mem::take(&mut open.turns);
        turns.sort_by_key(|(span, ..)| (span.end_ns, span.start_ns));
        let charge = |(span, turn, kind): (Span, Grant, Kind)| {
            let from = span.start_ns.max(open.charged_up_to_ns);
            open.charged_up_to_ns = open.charged_up_to_ns.max(span.end_ns);
            let charged_ns = span.end_ns.saturating_sub(from);
            open.learn(kind, charged_ns);
            (charged_ns, turn)
        };
        let charged: Vec<(u64, Grant)> = turns.into_iter().map(charge).collect();
        drop(open);
        for (nanoseconds, turn) in charged {
            turn.end_measured(nanoseconds);
        }
    }
}
