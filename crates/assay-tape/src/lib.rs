//! Expression tapes: flat programs over 64-bit floats, run over many points at once.
//!
//! A [`Program`] is checked and simplified into a [`Tape`], which evaluates its outputs and
//! their exact derivatives. Evaluation follows a plan: what is the same at every point is
//! computed once, the rest in chunks of points over registers that stay in the cache.
//! Derivatives keep all values of a chunk and sweep over them, forward or backward.

mod block;
mod bytes;
mod derivative;
mod error;
mod evaluate;
mod functions;
mod fusion;
mod jacobian;
mod kernels;
mod level;
mod machine;
mod op;
mod operations;
mod plan;
mod prefetch;
mod program;
mod rows;
mod simplify;
mod sweep;
mod trace;
mod tracer;
mod validate;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

pub use bytes::decode_instructions;
pub use error::{Place, TapeError};
pub use evaluate::{EvaluationReport, Input};
pub use op::Op;
pub use program::{Block, Instruction, MAX_INTEGER_POWER, Method, Program};

/// A checked program, ready to run from any number of threads.
#[derive(Debug)]
pub struct Tape {
    program: Program,
    last_plan: Mutex<Option<Arc<plan::Plan>>>,
}

impl Tape {
    /// Checks a program, and leaves out what is not needed or computed twice.
    pub fn new(program: &Program) -> Result<Tape, TapeError> {
        validate::validate(program)?;
        Ok(Tape {
            program: simplify::simplify(program),
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
