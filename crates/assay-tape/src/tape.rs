//! The tape: a validated and simplified program.

use super::error::TapeError;
use super::plan::Plan;
use super::program::Program;
use super::simplify::simplify;
use super::validate::validate;
use std::sync::{Arc, Mutex};

/// A validated program, ready to run from any number of threads.
#[derive(Debug)]
pub struct Tape {
    pub(super) program: Program,
    pub(super) last_plan: Mutex<Option<Arc<Plan>>>,
}

impl Tape {
    /// Validates a program and simplifies it: dead-code and common-subexpression elimination.
    pub fn new(program: &Program) -> Result<Tape, TapeError> {
        validate(program)?;
        Ok(Tape {
            program: simplify(program),
            last_plan: Mutex::new(None),
        })
    }

    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        self.program.input_count
    }

    /// Number of outputs.
    pub fn output_count(&self) -> usize {
        self.program.outputs.len()
    }

    /// Number of instructions left after simplification.
    pub fn instruction_count(&self) -> usize {
        self.program.code.len()
    }
}
