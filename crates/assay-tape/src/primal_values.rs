//! Computes and keeps every value of a program, one row per value.
//!
//! Derivatives and implicit blocks need the intermediate values; evaluation alone does not and
//! follows a plan instead.

use super::implicit::ImplicitSolver;
use super::input::Input;
use super::op::Op;
use super::program::{Instruction, Program};
use super::rows::Rows;
use super::simd_level::SimdLevel;

/// A table with a row for every value of `program`, constants filled in.
pub(super) fn value_rows(program: &Program, width: usize) -> Rows {
    let mut rows = Rows::new(program.first_instruction() + program.code.len(), width);
    for (index, &constant) in program.constants.iter().enumerate() {
        rows.row_mut(program.input_count + index, width).fill(constant);
    }
    rows
}

/// Fills the rows of all instructions from those of inputs and constants.
///
/// Adds to `failed`, by block, the lanes that did not converge.
pub(super) fn compute_values(
    program: &Program,
    level: SimdLevel,
    values: &mut Rows,
    lanes: usize,
    solvers: &mut [impl ImplicitSolver],
    failed: &mut [usize],
) {
    let first = program.first_instruction();
    for (index, instruction) in program.code.iter().enumerate() {
        let Instruction { op, a, b, c } = *instruction;
        match op {
            Op::Block => {
                let block = &program.blocks[a as usize];
                let operands = |numbers: &[u32]| -> Vec<Input<'_>> {
                    let lanes_of = |&value: &u32| Input::Varying(values.row(value as usize, lanes));
                    numbers.iter().map(lanes_of).collect()
                };
                let (start, externals) = (operands(&block.start), operands(&block.externals));
                failed[a as usize] += solvers[a as usize].solve(level, &start, &externals, lanes);
            }
            Op::Extract => {
                let executed = program.code[a as usize - first].a as usize;
                let member = solvers[executed].member(b as usize, lanes);
                values.row_mut(first + index, lanes).copy_from_slice(member);
            }
            _ => {
                let (out, others) = values.split(first + index, lanes);
                // Fields that the operation does not use are arbitrary; `a` is valid.
                let row = |used: usize, value: u32| {
                    let value = if op.arity() > used { value } else { a };
                    others.row(value as usize, lanes)
                };
                level.compute(op, b, [row(0, a), row(1, b), row(2, c)], out);
            }
        }
    }
}
