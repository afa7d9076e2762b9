//! Errors of a program, its bytes or its arguments.

use std::fmt;

/// Which program of a tape, and which instruction of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block whose inner program is meant; `None` for the outer program.
    pub block: Option<usize>,
    /// Index of the instruction in that program's code.
    pub instruction: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "instruction {}", self.instruction)?;
        match self.block {
            Some(block) => write!(formatter, " of block {block}"),
            None => Ok(()),
        }
    }
}

/// Why a tape could not be built, read or run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TapeError {
    /// More values than a 32-bit number can name.
    TooManyValues {
        /// Inputs, constants and instructions together.
        count: usize,
    },
    /// An operation code that is not in the table.
    UnknownOperation {
        /// Where.
        place: Place,
        /// The code found.
        code: u32,
    },
    /// An operand that is not an earlier value.
    OperandOutOfRange {
        /// Where.
        place: Place,
        /// Name of the operation.
        op: &'static str,
        /// Name of the operand field.
        operand: &'static str,
        /// The value number found.
        got: u32,
        /// Value numbers must be below this.
        limit: usize,
    },
    /// The result of a block used as if it were a number.
    BlockUsedAsValue {
        /// What refers to it, for example `operand a of add at instruction 3`.
        user: String,
        /// Value number of the block instruction.
        value: u32,
    },
    /// An integer power outside the range done by multiplication.
    PowerOutOfRange {
        /// Where.
        place: Place,
        /// The exponent found.
        got: i32,
    },
    /// A block number without a block.
    UnknownBlock {
        /// Where.
        place: Place,
        /// The block number found.
        got: u32,
        /// Number of blocks of the tape.
        count: usize,
    },
    /// An `extract` whose operand is not a block instruction.
    ExtractFromNonBlock {
        /// Where.
        place: Place,
        /// The value number found.
        got: u32,
    },
    /// An `extract` of a member that the block does not have.
    MemberOutOfRange {
        /// Where.
        place: Place,
        /// The member found.
        got: u32,
        /// Number of members of the block.
        count: usize,
    },
    /// An output, start or external that names no value.
    ReferenceOutOfRange {
        /// What refers, for example `output 3`.
        user: String,
        /// The value number found.
        got: u32,
        /// Value numbers must be below this.
        limit: usize,
    },
    /// A block inside a block.
    NestedBlock {
        /// The outer block's number.
        block: usize,
    },
    /// An invalid field of a block.
    BadBlock {
        /// The block's number.
        block: usize,
        /// The field.
        field: &'static str,
        /// What was expected.
        expected: String,
        /// What was found.
        got: String,
    },
    /// An argument of an evaluation with the wrong size.
    WrongLength {
        /// What was measured, for example `inputs` or `input 3`.
        what: String,
        /// Its expected length.
        expected: usize,
        /// Its length.
        got: usize,
    },
    /// A derivative with respect to an input that does not exist.
    UnknownInput {
        /// The input number found.
        got: u32,
        /// Number of inputs of the tape.
        count: usize,
    },
    /// Stored bytes that are not a tape.
    Corrupt {
        /// Offset of the first byte that does not fit.
        offset: usize,
        /// What was expected there.
        expected: String,
        /// What was found.
        got: String,
    },
}

impl fmt::Display for TapeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TapeError::*;
        match self {
            TooManyValues { count } => write!(
                formatter,
                "tape too large: expected at most {} values, got {count}\nhint: split the cone",
                u32::MAX
            ),
            UnknownOperation { place, code } => write!(
                formatter,
                "unknown operation at {place}: expected a code of the operation table, got {code}"
            ),
            OperandOutOfRange { place, op, operand, got, limit } => write!(
                formatter,
                "operand {operand} of {op} at {place}: expected an earlier value, below {limit}, got {got}"
            ),
            BlockUsedAsValue { user, value } => write!(
                formatter,
                "{user}: expected a number, got value {value}, which is a whole block\n\
                 hint: read one of its members with extract"
            ),
            PowerOutOfRange { place, got } => write!(
                formatter,
                "exponent of powi at {place}: expected -64 to 64, got {got}\nhint: use pow"
            ),
            UnknownBlock { place, got, count } => write!(
                formatter,
                "block at {place}: expected a block number below {count}, got {got}"
            ),
            ExtractFromNonBlock { place, got } => write!(
                formatter,
                "extract at {place}: expected the value number of a block instruction, got {got}"
            ),
            MemberOutOfRange { place, got, count } => {
                write!(formatter, "extract at {place}: expected a member below {count}, got {got}")
            }
            ReferenceOutOfRange { user, got, limit } => {
                write!(formatter, "{user}: expected a value number below {limit}, got {got}")
            }
            NestedBlock { block } => write!(
                formatter,
                "block {block}: expected an inner program without blocks, got a nested block\n\
                 hint: merge the inner unknowns into one block"
            ),
            BadBlock { block, field, expected, got } => {
                write!(formatter, "{field} of block {block}: expected {expected}, got {got}")
            }
            WrongLength { what, expected, got } => {
                write!(formatter, "length of {what}: expected {expected}, got {got}")
            }
            UnknownInput { got, count } => write!(
                formatter,
                "derivative with respect to input {got}: expected an input below {count}"
            ),
            Corrupt { offset, expected, got } => write!(
                formatter,
                "stored tape, byte {offset}: expected {expected}, got {got}\nhint: delete it and compile again"
            ),
        }
    }
}

impl std::error::Error for TapeError {}
