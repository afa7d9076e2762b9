//! Forward- and reverse-mode sweeps over a program.

use super::implicit::ImplicitSolver;
use super::op::Op;
use super::partials::PrimalOperands;
use super::program::{Instruction, Program};
use super::rows::Rows;
use super::simd_level::SimdLevel;
use super::simplify::for_each_operand;

/// An instruction to visit, and which of its operands matter (bit 0 for `a`).
#[derive(Clone, Copy, Debug)]
struct Visit {
    instruction: u32,
    operands: u8,
}

/// The instructions that derivatives with respect to some inputs pass through.
///
/// Seeds are kept in rows by value number; rows of values that no chosen input influences are
/// neither read nor written.
#[derive(Debug)]
pub(super) struct Sweep {
    influenced: Vec<bool>,
    visits: Vec<Visit>,
}

impl Sweep {
    /// Forward mode: all instructions that the given inputs influence, in order.
    pub(super) fn forward(program: &Program, inputs: &[u32]) -> Sweep {
        let first = program.first_instruction();
        let mut influenced = vec![false; first + program.code.len()];
        for &input in inputs {
            influenced[input as usize] = true;
        }
        let mut visits = Vec::new();
        for (index, instruction) in program.code.iter().enumerate() {
            let Instruction { op, a, b, c } = *instruction;
            let mut operands = 0;
            for (bit, &value) in [a, b, c][..op.arity()].iter().enumerate() {
                operands |= u8::from(influenced[value as usize]) << bit;
            }
            // A solution does not depend on where the search for it began.
            let through_block = op == Op::Block && {
                let externals = &program.blocks[a as usize].externals;
                externals.iter().any(|&value| influenced[value as usize])
            };
            if operands != 0 || through_block {
                influenced[first + index] = true;
                visits.push(Visit { instruction: index as u32, operands });
            }
        }
        Sweep { influenced, visits }
    }

    /// Reverse mode: the part of a forward sweep that reaches the given values, in reverse order.
    pub(super) fn backward_from(&self, program: &Program, values: &[u32]) -> Sweep {
        let first = program.first_instruction();
        let mut needed = vec![false; self.influenced.len()];
        for &value in values {
            needed[value as usize] = true;
        }
        let mut visits = Vec::new();
        for visit in self.visits.iter().rev() {
            if !needed[first + visit.instruction as usize] {
                continue;
            }
            visits.push(*visit);
            let instruction = &program.code[visit.instruction as usize];
            for_each_operand(program, instruction, |value| {
                needed[value as usize] = true;
            });
        }
        let both =
            needed.iter().zip(&self.influenced).map(|(needed, influenced)| needed & influenced);
        Sweep { influenced: both.collect(), visits }
    }

    /// Whether any chosen input influences this value.
    pub(super) fn influences(&self, value: u32) -> bool {
        self.influenced[value as usize]
    }

    /// Propagates tangents from the rows of the chosen inputs, which are set, to all others.
    pub(super) fn run_forward(
        &self,
        program: &Program,
        level: SimdLevel,
        values: &Rows,
        seeds: &mut Rows,
        lanes: usize,
        solvers: &mut [impl ImplicitSolver],
    ) {
        let first = program.first_instruction();
        for visit in &self.visits {
            let row = first + visit.instruction as usize;
            let instruction = &program.code[visit.instruction as usize];
            match instruction.op {
                Op::Block => {
                    let number = instruction.a as usize;
                    let externals = program.blocks[number].externals.iter().map(|&value| {
                        self.influences(value).then(|| seeds.row(value as usize, lanes))
                    });
                    solvers[number].push_forward(level, externals, lanes);
                }
                Op::Extract => {
                    let number = program.code[instruction.a as usize - first].a as usize;
                    let seed = solvers[number].member_seed(instruction.b as usize, lanes);
                    seeds.row_mut(row, lanes).copy_from_slice(seed);
                }
                _ => {
                    let primal = primal(instruction, values, row, lanes);
                    let (into, others) = seeds.split(row, lanes);
                    into.fill(0.0);
                    for (operand, value) in visited_operands(visit, instruction) {
                        level.accumulate(&primal, operand, others.row(value as usize, lanes), into);
                    }
                }
            }
        }
    }

    /// Zeroes what [`Sweep::run_backward`] adds to.
    pub(super) fn clear(
        &self,
        program: &Program,
        seeds: &mut Rows,
        lanes: usize,
        solvers: &mut [impl ImplicitSolver],
    ) {
        let first = program.first_instruction();
        for input in 0..program.input_count {
            if self.influenced[input] {
                seeds.row_mut(input, lanes).fill(0.0);
            }
        }
        for visit in &self.visits {
            let instruction = &program.code[visit.instruction as usize];
            seeds.row_mut(first + visit.instruction as usize, lanes).fill(0.0);
            if instruction.op == Op::Block {
                solvers[instruction.a as usize].clear_member_seeds(lanes);
            }
        }
    }

    /// Propagates adjoints back to the rows of the chosen inputs.
    ///
    /// The caller clears the rows, then seeds those the sweep begins at.
    pub(super) fn run_backward(
        &self,
        program: &Program,
        level: SimdLevel,
        values: &Rows,
        seeds: &mut Rows,
        lanes: usize,
        solvers: &mut [impl ImplicitSolver],
    ) {
        let first = program.first_instruction();
        for visit in &self.visits {
            let row = first + visit.instruction as usize;
            let instruction = &program.code[visit.instruction as usize];
            match instruction.op {
                Op::Block => {
                    let number = instruction.a as usize;
                    solvers[number].pull_backward(level, lanes);
                    for (index, &value) in program.blocks[number].externals.iter().enumerate() {
                        if self.influences(value) {
                            let seed = solvers[number].external_seed(index, lanes);
                            add(seeds.row_mut(value as usize, lanes), seed);
                        }
                    }
                }
                Op::Extract => {
                    let number = program.code[instruction.a as usize - first].a as usize;
                    let member = instruction.b as usize;
                    solvers[number].add_member_seed(member, seeds.row(row, lanes));
                }
                _ => {
                    let primal = primal(instruction, values, row, lanes);
                    for (operand, value) in visited_operands(visit, instruction) {
                        let (into, others) = seeds.split(value as usize, lanes);
                        level.accumulate(&primal, operand, others.row(row, lanes), into);
                    }
                }
            }
        }
    }
}

/// Adds one row to another.
pub(super) fn add(into: &mut [f64], from: &[f64]) {
    for (sum, &term) in into.iter_mut().zip(from) {
        *sum += term;
    }
}

fn visited_operands(
    visit: &Visit,
    instruction: &Instruction,
) -> impl Iterator<Item = (usize, u32)> {
    let mask = visit.operands;
    let values = [instruction.a, instruction.b, instruction.c];
    values.into_iter().enumerate().filter(move |(operand, _)| mask >> operand & 1 == 1)
}

fn primal<'a>(
    instruction: &Instruction,
    values: &'a Rows,
    row: usize,
    lanes: usize,
) -> PrimalOperands<'a> {
    let operand = |used: usize, value: u32| match instruction.op.arity() > used {
        true => values.row(value as usize, lanes),
        false => values.row(row, lanes),
    };
    PrimalOperands {
        op: instruction.op,
        immediate: instruction.b,
        a: operand(0, instruction.a),
        b: operand(1, instruction.b),
        c: operand(2, instruction.c),
        result: values.row(row, lanes),
    }
}
