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
        Ok(Tape { program: simplify(program), last_plan: Mutex::new(None) })
    }

    /// A tape of some of the outputs, by number, without what only the others need.
    pub fn with_outputs(&self, outputs: &[u32]) -> Result<Tape, TapeError> {
        let count = self.output_count();
        let number = |(place, &output): (usize, &u32)| {
            let value = self.program.outputs.get(output as usize).copied();
            value.ok_or_else(|| TapeError::ReferenceOutOfRange {
                user: format!("output {place}"),
                got: output,
                limit: count,
            })
        };
        let outputs = outputs.iter().enumerate().map(number).collect::<Result<_, _>>()?;
        let program = Program { outputs, ..self.program.clone() };
        Tape::new(&program)
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
