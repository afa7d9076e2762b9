//! The evaluation plan: which instructions run once per call and which once per point, and register
//! allocation.

use super::fusion::Fusion;
use super::kernels::Varying;
use super::op::Op;
use super::program::{Instruction, Program};
use super::simd_level::{Kernel, SimdLevel};
use super::simplify::for_each_operand;

/// Where an operand comes from while a chunk of points is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A value that is the same at every point, by value number.
    Uniform(u32),
    /// An input that varies, by its number.
    Input(u32),
    /// A register.
    Register(u32),
}

/// One step per chunk of points.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Compute an operation into a register; sources of operands it does not use are arbitrary.
    Compute { kernel: Kernel, immediate: u32, operands: [Source; 3], register: u32 },
    /// Solve a block.
    Solve { block: u32 },
    /// Copy a member of a solved block into a register.
    Extract { block: u32, member: u32, register: u32 },
    /// Copy a register to an output.
    Store { register: u32, output: u32 },
}

/// A plan for one choice of varying inputs.
#[derive(Debug)]
pub(super) struct Plan {
    /// For each input, whether it varies.
    pub(super) varying_inputs: Vec<bool>,
    /// The SIMD level of the kernels.
    pub(super) level: SimdLevel,
    /// Indices of the instructions that are the same at every point, in order.
    pub(super) uniform: Vec<u32>,
    /// The steps of each chunk of points.
    pub(super) steps: Vec<Step>,
    /// Outputs that no step stores: their number and source, which is not a register.
    pub(super) direct_outputs: Vec<(u32, Source)>,
    /// For each block that varies, the sources of its start and externals.
    pub(super) block_sources: Vec<Option<(Vec<Source>, Vec<Source>)>>,
    pub(super) register_count: usize,
}

impl Plan {
    /// Plans a simplified program.
    pub(super) fn new(program: &Program, level: SimdLevel, varying_inputs: Vec<bool>) -> Plan {
        let mut planner = Planner::new(program, level, varying_inputs);
        planner.allocate();
        planner.plan
    }
}

struct Planner<'a> {
    program: &'a Program,
    first: usize,
    /// For each value, whether it varies.
    varying: Vec<bool>,
    /// The source of each varying value; those of instructions are set as registers are allocated.
    sources: Vec<Source>,
    fusion: Fusion,
    /// For each instruction, the index of the last one whose loop reads it (its live range).
    last_use: Vec<usize>,
    /// Outputs by instruction.
    outputs_of: Vec<Vec<u32>>,
    free: Vec<u32>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    fn new(program: &'a Program, level: SimdLevel, varying_inputs: Vec<bool>) -> Self {
        let first = program.first_instruction();
        let total = first + program.code.len();
        let mut varying = varying_inputs.clone();
        varying.resize(total, false);
        for (index, instruction) in program.code.iter().enumerate() {
            let mut depends = false;
            for_each_operand(program, instruction, |value| {
                depends |= varying[value as usize];
            });
            varying[first + index] = depends;
        }
        let mut plan = Plan {
            varying_inputs,
            level,
            uniform: Vec::new(),
            steps: Vec::new(),
            direct_outputs: Vec::new(),
            block_sources: vec![None; program.blocks.len()],
            register_count: 0,
        };
        let mut outputs_of = vec![Vec::new(); program.code.len()];
        let source = |value: u32| match varying[value as usize] {
            true => Source::Input(value),
            false => Source::Uniform(value),
        };
        for (output, &value) in program.outputs.iter().enumerate() {
            match (value as usize).checked_sub(first) {
                Some(index) if varying[value as usize] => outputs_of[index].push(output as u32),
                _ => plan.direct_outputs.push((output as u32, source(value))),
            }
        }
        let sources = (0..total as u32).map(source).collect();
        let mut planner = Planner {
            program,
            first,
            fusion: Fusion::new(program, &varying),
            varying,
            sources,
            last_use: (0..program.code.len()).collect(),
            outputs_of,
            free: Vec::new(),
            plan,
        };
        for index in 0..program.code.len() {
            for operand in planner.reads(index) {
                planner.last_use[operand] = index;
            }
        }
        planner
    }

    /// The instructions whose results the loop of this one reads, each once.
    fn reads(&self, index: usize) -> Vec<usize> {
        let mut operands = Vec::new();
        if self.fusion.is_absorbed(index) {
            return operands;
        }
        let earlier = self.fusion.absorbs(index);
        for instruction in [Some(index), earlier].into_iter().flatten() {
            for_each_operand(self.program, &self.program.code[instruction], |value| {
                operands.extend((value as usize).checked_sub(self.first));
            });
        }
        operands.retain(|&operand| Some(operand) != earlier);
        operands.sort_unstable();
        operands.dedup();
        operands
    }

    fn allocate(&mut self) {
        for (index, instruction) in self.program.code.iter().enumerate() {
            if !self.varying[self.first + index] {
                self.plan.uniform.push(index as u32);
                continue;
            }
            if self.fusion.is_absorbed(index) {
                continue;
            }
            match instruction.op {
                Op::Block => {
                    let block = &self.program.blocks[instruction.a as usize];
                    let sources = (self.sources(&block.start), self.sources(&block.externals));
                    self.plan.block_sources[instruction.a as usize] = Some(sources);
                    self.plan.steps.push(Step::Solve { block: instruction.a });
                }
                Op::Extract => {
                    let executed = self.program.code[instruction.a as usize - self.first];
                    let (block, member) = (executed.a, instruction.b);
                    let register = self.allocate_register(index);
                    self.plan.steps.push(Step::Extract { block, member, register });
                }
                _ => self.compute(index, instruction),
            }
            self.release(index);
        }
    }

    fn compute(&mut self, index: usize, instruction: &Instruction) {
        let Instruction { op, a, b, c } = *instruction;
        let level = self.plan.level;
        let (kernel, operands) = match self.fusion.absorbs(index) {
            None => {
                let (operands, varying) = self.operands(&[a, b, c][..op.arity()]);
                (level.kernel(op, varying), operands)
            }
            Some(earlier) => {
                let first = self.program.code[earlier];
                let swapped = b as usize == self.first + earlier;
                let other = if swapped { a } else { b };
                let (operands, varying) = self.operands(&[first.a, first.b, other]);
                (level.fused_kernel(first.op, op, swapped, varying), operands)
            }
        };
        let register = self.allocate_register(index);
        self.plan.steps.push(Step::Compute { kernel, immediate: b, operands, register });
    }

    /// The sources of these values, and which of them vary.
    fn operands(&self, values: &[u32]) -> ([Source; 3], Varying) {
        let mut sources = [Source::Uniform(0); 3];
        let mut varying = 0;
        for (bit, &value) in values.iter().enumerate() {
            sources[bit] = self.sources[value as usize];
            varying |= u8::from(self.varying[value as usize]) << bit;
        }
        (sources, varying)
    }

    fn sources(&self, values: &[u32]) -> Vec<Source> {
        values.iter().map(|&value| self.sources[value as usize]).collect()
    }

    /// Allocates a register for an instruction; never one of its operands', which are still live.
    fn allocate_register(&mut self, index: usize) -> u32 {
        let register = self.free.pop().unwrap_or_else(|| {
            self.plan.register_count += 1;
            self.plan.register_count as u32 - 1
        });
        self.sources[self.first + index] = Source::Register(register);
        register
    }

    /// Stores outputs and frees registers after their last use.
    fn release(&mut self, index: usize) {
        if let Source::Register(register) = self.sources[self.first + index] {
            for &output in &self.outputs_of[index] {
                self.plan.steps.push(Step::Store { register, output });
            }
            if self.last_use[index] == index {
                self.free.push(register);
            }
        }
        for operand in self.reads(index) {
            if self.last_use[operand] == index
                && let Source::Register(register) = self.sources[self.first + operand]
            {
                self.free.push(register);
            }
        }
    }
}
