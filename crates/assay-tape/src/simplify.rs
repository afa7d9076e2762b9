//! Dead-code elimination and common-subexpression elimination.
//!
//! Only rewrites that leave every bit of every output unchanged are made.

use std::collections::HashMap;

use super::op::Op;
use super::program::{Block, Instruction, Program};

/// An equivalent program of a validated one. Blocks keep their numbers.
pub(super) fn simplify(program: &Program) -> Program {
    let live = live_values(program);
    let mut builder = Builder::new(program);
    builder.add_constants(&live);
    for (index, instruction) in program.code.iter().enumerate() {
        if live[program.constants.len() + index] {
            builder.add_instruction(index, instruction);
        }
    }
    builder.finish()
}

/// For each constant and instruction, whether an output depends on it.
fn live_values(program: &Program) -> Vec<bool> {
    let mut live = vec![false; program.constants.len() + program.code.len()];
    let mark = |live: &mut Vec<bool>, value: u32| {
        if let Some(index) = (value as usize).checked_sub(program.input_count) {
            live[index] = true;
        }
    };
    for &output in &program.outputs {
        mark(&mut live, output);
    }
    for (index, instruction) in program.code.iter().enumerate().rev() {
        if live[program.constants.len() + index] {
            for_each_operand(program, instruction, |value| mark(&mut live, value));
        }
    }
    live
}

/// Calls `visit` with every value that an instruction reads, a block's start included.
pub(super) fn for_each_operand(
    program: &Program,
    instruction: &Instruction,
    mut visit: impl FnMut(u32),
) {
    for &value in &[instruction.a, instruction.b, instruction.c][..instruction.op.arity()] {
        visit(value);
    }
    if instruction.op == Op::Block {
        let block = &program.blocks[instruction.a as usize];
        block.start.iter().chain(&block.externals).for_each(|&value| visit(value));
    }
}

struct Builder<'a> {
    program: &'a Program,
    constants: Vec<f64>,
    code: Vec<Instruction>,
    blocks: Vec<Block>,
    /// New value number of each live constant and instruction.
    renumbered: Vec<u32>,
    known: HashMap<Instruction, u32>,
}

impl<'a> Builder<'a> {
    fn new(program: &'a Program) -> Self {
        // A dead block keeps its number; its operands are placeholders.
        let dead = |block: &Block| Block {
            inner: simplify(&block.inner),
            start: vec![0; block.start.len()],
            externals: vec![0; block.externals.len()],
            ..block.clone()
        };
        Builder {
            program,
            constants: Vec::new(),
            code: Vec::new(),
            blocks: program.blocks.iter().map(dead).collect(),
            renumbered: vec![0; program.constants.len() + program.code.len()],
            known: HashMap::new(),
        }
    }

    fn add_constants(&mut self, live: &[bool]) {
        let mut known: HashMap<u64, u32> = HashMap::new();
        for (index, constant) in self.program.constants.iter().enumerate() {
            if !live[index] {
                continue;
            }
            let next = self.program.input_count + self.constants.len();
            let number = *known.entry(constant.to_bits()).or_insert(next as u32);
            if number as usize == next {
                self.constants.push(*constant);
            }
            self.renumbered[index] = number;
        }
    }

    fn add_instruction(&mut self, index: usize, instruction: &Instruction) {
        let renamed = self.rename(instruction);
        let next = self.program.input_count + self.constants.len() + self.code.len();
        let number = *self.known.entry(renamed).or_insert(next as u32);
        if number as usize == next {
            self.code.push(renamed);
        }
        self.renumbered[self.program.constants.len() + index] = number;
    }

    /// The instruction with new value numbers, in canonical form.
    fn rename(&mut self, instruction: &Instruction) -> Instruction {
        let Instruction { op, a, b, c } = *instruction;
        match op {
            Op::Block => {
                let program = self.program;
                let block = &program.blocks[a as usize];
                let numbers =
                    |values: &[u32]| values.iter().map(|&value| self.number(value)).collect();
                let (start, externals) = (numbers(&block.start), numbers(&block.externals));
                self.blocks[a as usize].start = start;
                self.blocks[a as usize].externals = externals;
                Instruction { op, a, b: 0, c: 0 }
            }
            Op::Powi | Op::Extract => Instruction { op, a: self.number(a), b, c: 0 },
            _ => {
                let operand = |used: usize, value| {
                    if op.arity() > used { self.number(value) } else { 0 }
                };
                let (mut a, mut b, c) = (operand(0, a), operand(1, b), operand(2, c));
                // Not minimum and maximum: at a tie they return, and differentiate, the first operand.
                let commutes = matches!(op, Op::Add | Op::Mul | Op::Eq | Op::Ne | Op::And | Op::Or);
                if commutes && a > b {
                    (a, b) = (b, a);
                }
                Instruction { op, a, b, c }
            }
        }
    }

    fn number(&self, value: u32) -> u32 {
        match (value as usize).checked_sub(self.program.input_count) {
            Some(index) => self.renumbered[index],
            None => value,
        }
    }

    fn finish(self) -> Program {
        let outputs = self.program.outputs.iter().map(|&value| self.number(value)).collect();
        Program {
            input_count: self.program.input_count,
            outputs,
            constants: self.constants,
            code: self.code,
            blocks: self.blocks,
        }
    }
}
