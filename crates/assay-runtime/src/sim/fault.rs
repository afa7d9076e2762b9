//! Fault injection: the n-th call of a kind fails, at the call or later on the device.

use crate::backend::Operation;
use std::collections::HashMap;

/// When an injected fault takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultMoment {
    /// The call returns the error and queues nothing.
    AtCall,
    /// The call succeeds; the work fails when the device runs it, and stops its stream.
    ///
    /// Only copies, fills and launches can fail this way; others fail at the call.
    OnDevice,
}

/// One fault to inject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The call that fails.
    pub operation: Operation,
    /// Which of these calls, counted from one since the device was created.
    pub occurrence: u64,
    /// When it takes effect.
    pub moment: FaultMoment,
}

/// The faults to inject and the call counts.
#[derive(Default)]
pub(super) struct FaultPlan {
    faults: Vec<Fault>,
    calls: HashMap<Operation, u64>,
}

impl FaultPlan {
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Calls of this kind so far.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.calls.get(&operation).copied().unwrap_or(0)
    }

    /// Counts one call and returns the fault to inject into it, if any.
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
