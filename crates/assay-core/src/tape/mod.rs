//! Expression tapes: flat programs over 64-bit floats, run over many points at once.
//!
//! A [`Program`] is checked and simplified into a [`Tape`].

mod bytes;
mod error;
mod evaluate;
mod functions;
mod op;
mod program;
mod scalar;
mod validate;

pub use bytes::decode_instructions;
pub use error::{Place, TapeError};
pub use evaluate::{EvaluationReport, Input};
pub use op::Op;
pub use program::{Block, Instruction, MAX_INTEGER_POWER, Method, Program};

/// A checked program, ready to run.
#[derive(Clone, Debug)]
pub struct Tape {
    program: Program,
}

impl Tape {
    /// Checks a program.
    pub fn new(program: &Program) -> Result<Tape, TapeError> {
        validate::validate(program)?;
        if !program.blocks.is_empty() {
            return Err(TapeError::BadBlock {
                block: 0,
                field: "code",
                expected: "a tape without blocks".into(),
                got: "a block".into(),
            });
        }
        Ok(Tape {
            program: program.clone(),
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

    /// Number of instructions.
    pub fn instruction_count(&self) -> usize {
        self.program.code.len()
    }
}
