//! Programs in static single-assignment (SSA) form, from which tapes are built.

use super::op::Op;

/// The largest exponent magnitude of [`Op::Powi`].
pub const MAX_INTEGER_POWER: i32 = 64;

/// One step of a program; its result is the next value number.
///
/// Fields that an operation does not use are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// The operation.
    pub op: Op,
    /// First operand.
    pub a: u32,
    /// Second operand, or the immediate of `powi` and `extract`.
    pub b: u32,
    /// Third operand: the condition of `select`.
    pub c: u32,
}

/// A flat program over 64-bit floats.
///
/// Values are numbered: first the inputs, then the constants, then one value per
/// instruction. Operands are numbers of earlier values.
///
/// ```
/// use assay_tape::{Input, Instruction, Op, Program, Tape};
///
/// // x * x + 3
/// let tape = Tape::new(&Program {
///     input_count: 1,
///     constants: vec![3.0],
///     code: vec![
///         Instruction { op: Op::Mul, a: 0, b: 0, c: 0 },
///         Instruction { op: Op::Add, a: 2, b: 1, c: 0 },
///     ],
///     outputs: vec![3],
///     blocks: vec![],
/// })?;
/// let mut y = [0.0; 2];
/// tape.evaluate(&[Input::Varying(&[2.0, 4.0])], 2, &mut [&mut y])?;
/// assert_eq!(y, [7.0, 19.0]);
/// # Ok::<(), assay_tape::TapeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Number of inputs.
    pub input_count: usize,
    /// Constants, numbered after the inputs.
    pub constants: Vec<f64>,
    /// Instructions, numbered after the constants.
    pub code: Vec<Instruction>,
    /// Value numbers of the results.
    pub outputs: Vec<u32>,
    /// Simultaneous relations, executed by [`Op::Block`].
    pub blocks: Vec<Block>,
}

impl Program {
    /// Value number of the first instruction, if it fits the numbering.
    pub(crate) fn first_instruction(&self) -> usize {
        self.input_count.saturating_add(self.constants.len())
    }
}

/// How a block is solved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Newton's method on `g(x) - x` with exact derivatives and backtracking line search.
    Newton,
    /// Damped fixed-point iteration `x <- x + damping * (g(x) - x)`.
    FixedPoint {
        /// Fraction of the full step, in (0, 1].
        damping: f64,
    },
}

/// An implicit block: simultaneous relations `x = g(x, p)`, solved at each point.
///
/// The inner program's inputs are the `m` unknowns, then the externals; its outputs are the
/// `m` updated unknowns, then any further members computed from the solution. A solution
/// satisfies the relations: a point that rests on a bound without doing so has not converged,
/// and all its members are NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The relations, without blocks of their own.
    pub inner: Program,
    /// Values of the outer program that the iteration starts from, one per unknown.
    pub start: Vec<u32>,
    /// Values of the outer program that the relations refer to.
    pub externals: Vec<u32>,
    /// How to solve.
    pub method: Method,
    /// Tolerance relative to each unknown.
    pub relative_tolerance: f64,
    /// Tolerance added to the relative one.
    pub absolute_tolerance: f64,
    /// Steps after which a point has failed to converge, line-search halvings excluded.
    pub max_iterations: u32,
    /// Lower bound of each unknown; the iteration is clipped to it.
    pub lower: Vec<f64>,
    /// Upper bound of each unknown; the iteration is clipped to it.
    pub upper: Vec<f64>,
}

impl Block {
    /// Number of unknowns.
    pub fn unknown_count(&self) -> usize {
        self.start.len()
    }

    /// Number of members that `extract` can read: the unknowns, then the rest.
    pub fn member_count(&self) -> usize {
        self.inner.outputs.len()
    }
}
