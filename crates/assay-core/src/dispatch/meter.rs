//! How much device time each turn took, when several streams share the device.
//!
//! Between the events around a piece of work lies also the time it waited for work of other
//! streams. Taken in the order of their ends, each piece is charged only for the time after the
//! end of the one before. The charges then add up to the time the device was busy, and none of it
//! is charged twice.

use super::record::Span;
use crate::scheduler::Turn;
use crate::scheduler::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

#[derive(Default)]
struct Open {
    /// Turns of work that is over, to be charged once all that ended before is known.
    turns: Vec<(Span, Turn)>,
    /// Time up to here is charged.
    charged_up_to_ns: u64,
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

    pub fn add(&self, span: Span, turn: Turn) {
        self.lock().turns.push((span, turn));
    }

    pub fn is_empty(&self) -> bool {
        self.lock().turns.is_empty()
    }

    /// Charges all turns added so far.
    pub fn settle(&self) {
        let mut open = self.lock();
        let mut turns = std::mem::take(&mut open.turns);
        turns.sort_by_key(|(span, _)| (span.end_ns, span.start_ns));
        let charge = |(span, turn): (Span, Turn)| {
            let from = span.start_ns.max(open.charged_up_to_ns);
            open.charged_up_to_ns = open.charged_up_to_ns.max(span.end_ns);
            (span.end_ns.saturating_sub(from), turn)
        };
        let charged: Vec<(u64, Turn)> = turns.into_iter().map(charge).collect();
        drop(open);
        for (nanoseconds, turn) in charged {
            turn.end_measured(nanoseconds);
        }
    }
}
