//! Failures on order: the n-th call of a kind fails, at the call or later on the device.

use crate::backend::Operation;
use std::collections::HashMap;

/// When a planned failure shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultMoment {
    /// The call itself returns the error and queues nothing.
    AtCall,
    /// The call succeeds; the work fails when the device comes to it, and its stream with it.
    ///
    /// Only copies, fills and launches can fail this way; others fail at the call.
    OnDevice,
}

/// One planned failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The call that fails.
    pub operation: Operation,
    /// Which of them, counted from one over the life of the device.
    pub occurrence: u64,
    /// When it shows.
    pub moment: FaultMoment,
}

/// The planned failures and the calls counted so far.
#[derive(Default)]
pub(super) struct FaultPlan {
    faults: Vec<Fault>,
    calls: HashMap<Operation, u64>,
}

impl FaultPlan {
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// How often this call was made so far.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.calls.get(&operation).copied().unwrap_or(0)
    }

    /// Counts one call and returns the failure planned for it, if any.
    pub fn count(&mut self, operation: Operation) -> Option<Fault> {
        let calls = self.calls.entry(operation).or_insert(0);
        *calls += 1;
        let occurrence = *calls;
        self.faults
            .iter()
            .find(|fault| fault.operation == operation && fault.occurrence == occurrence)
            .copied()
    }
}
