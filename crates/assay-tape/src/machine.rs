//! Executes a plan over chunks of points.
//!
//! A plan is first resolved: every step becomes a kernel with the addresses it reads and writes, so
//! that a chunk costs the kernel calls only.

use super::block::BlockSolver;
use super::implicit::ImplicitSolver;
use super::input::Input;
use super::kernels::{Operands, Varying};
use super::plan::{Plan, Source, Step};
use super::prefetch::Prefetch;
use super::program::Program;
use super::rows::Rows;
use super::simd_level::Kernel;

/// A step with its addresses.
#[derive(Clone, Copy)]
enum Action {
    Compute {
        kernel: Kernel,
        out: *mut f64,
        operands: Operands,
        /// Operands that are inputs, one bit each: their addresses advance with the points.
        inputs: Varying,
    },
    Solve {
        block: usize,
    },
    Extract {
        block: usize,
        member: usize,
        register: u32,
    },
    Store {
        register: u32,
        output: usize,
    },
}

/// A resolved plan with its registers.
pub(super) struct Machine<'a> {
    plan: &'a Plan,
    inputs: &'a [Input<'a>],
    uniform: &'a [f64],
    points: usize,
    prefetch: Prefetch,
    actions: Vec<Action>,
    /// By block number; blocks that do not vary have none.
    solvers: Vec<Option<BlockSolver<'a>>>,
    registers: Registers,
}

impl<'a> Machine<'a> {
    /// Resolves `plan` for chunks of at most `width` of all `points`.
    ///
    /// `uniform` holds a number for every value that does not vary.
    pub(super) fn new(
        program: &'a Program,
        plan: &'a Plan,
        inputs: &'a [Input<'a>],
        uniform: &'a [f64],
        points: usize,
        width: usize,
    ) -> Machine<'a> {
        for (index, varies) in plan.varying_inputs.iter().enumerate() {
            let lengths_agree = match inputs[index] {
                Input::Varying(column) => column.len() == points,
                Input::Uniform(_) => !varies,
            };
            assert!(lengths_agree, "input {index} does not fit the plan");
        }
        let solvers = program.blocks.iter().zip(&plan.block_sources);
        let solver = |(block, sources): (_, &Option<_>)| {
            sources.as_ref().map(|_| BlockSolver::new(block, width))
        };
        let columns =
            inputs.iter().zip(&plan.varying_inputs).filter_map(|(input, varies)| match input {
                Input::Varying(column) if *varies => Some(column),
                _ => None,
            });
        let mut machine = Machine {
            plan,
            inputs,
            uniform,
            points,
            prefetch: Prefetch::new(columns.map(|column| column.as_ptr()).collect()),
            actions: Vec::with_capacity(plan.steps.len()),
            solvers: solvers.map(solver).collect(),
            registers: Registers::new(plan.register_count, width),
        };
        for step in &plan.steps {
            let action = machine.resolve(step);
            machine.actions.push(action);
        }
        machine
    }

    fn resolve(&self, step: &Step) -> Action {
        match *step {
            Step::Compute { kernel, immediate, operands, register } => {
                let mut inputs = 0;
                let mut first = [std::ptr::null(); 3];
                for (bit, &source) in operands.iter().enumerate() {
                    assert_ne!(source, Source::Register(register), "a result is not an operand");
                    first[bit] = match source {
                        Source::Uniform(value) => &raw const self.uniform[value as usize],
                        Source::Register(register) => self.registers.address(register),
                        Source::Input(input) => {
                            inputs |= 1 << bit;
                            self.column(input).as_ptr()
                        }
                    };
                }
                Action::Compute {
                    kernel,
                    out: self.registers.address(register),
                    operands: Operands { first, immediate },
                    inputs,
                }
            }
            Step::Solve { block } => Action::Solve { block: block as usize },
            Step::Extract { block, member, register } => {
                Action::Extract { block: block as usize, member: member as usize, register }
            }
            Step::Store { register, output } => Action::Store { register, output: output as usize },
        }
    }

    fn column(&self, input: u32) -> &'a [f64] {
        match self.inputs[input as usize] {
            Input::Varying(column) => column,
            Input::Uniform(_) => unreachable!("only varying inputs are read per point"),
        }
    }

    /// Computes the outputs of `lanes` points from `start` on; adds to `failed`, by block, those
    /// that did not converge.
    pub(super) fn run(
        &mut self,
        start: usize,
        lanes: usize,
        outputs: &mut [&mut [f64]],
        failed: &mut [usize],
    ) {
        let span = start..start + lanes;
        assert!(lanes <= self.registers.width && span.end <= self.points);
        let next_lanes = (self.points - span.end).min(self.registers.width);
        self.prefetch.begin(span.end, next_lanes, self.actions.len());
        for index in 0..self.actions.len() {
            match self.actions[index] {
                Action::Compute { kernel, out, mut operands, inputs } => {
                    self.prefetch.advance();
                    for (bit, first) in operands.first.iter_mut().enumerate() {
                        *first = first.wrapping_add(usize::from(inputs >> bit & 1) * start);
                    }
                    // SAFETY: the level was detected. `out` is a register of at least `lanes`
                    // numbers and not an operand. Operands are registers, which hold zeros at
                    // first, or uniform values, or inputs with `lanes` numbers from `start` on;
                    // the span was checked above, and all of them outlive `self`.
                    unsafe { kernel(out, lanes, &operands) };
                }
                Action::Solve { block } => failed[block] += self.solve(block, start, lanes),
                Action::Extract { block, member, register } => {
                    if let Some(solver) = &self.solvers[block] {
                        let values = solver.member(member, lanes);
                        self.registers.row_mut(register, lanes).copy_from_slice(values);
                    }
                }
                Action::Store { register, output } => {
                    let values = self.registers.row(register, lanes);
                    outputs[output][span.clone()].copy_from_slice(values);
                }
            }
        }
        for &(output, source) in &self.plan.direct_outputs {
            let out = &mut outputs[output as usize][span.clone()];
            match source {
                Source::Uniform(value) => out.fill(self.uniform[value as usize]),
                Source::Input(input) => out.copy_from_slice(&self.column(input)[span.clone()]),
                Source::Register(register) => {
                    out.copy_from_slice(self.registers.row(register, lanes));
                }
            }
        }
    }

    fn solve(&mut self, block: usize, start: usize, lanes: usize) -> usize {
        let (Some(sources), Some(mut solver)) =
            (&self.plan.block_sources[block], self.solvers[block].take())
        else {
            return 0;
        };
        let operand = |&source: &Source| match source {
            Source::Uniform(value) => Input::Uniform(self.uniform[value as usize]),
            Source::Input(input) => Input::Varying(&self.column(input)[start..start + lanes]),
            Source::Register(register) => Input::Varying(self.registers.row(register, lanes)),
        };
        let starts: Vec<Input<'_>> = sources.0.iter().map(operand).collect();
        let externals: Vec<Input<'_>> = sources.1.iter().map(operand).collect();
        let failed = solver.solve(self.plan.level, &starts, &externals, lanes);
        self.solvers[block] = Some(solver);
        failed
    }
}

/// Registers, accessed by address from kernels and by number from elsewhere.
struct Registers {
    /// Owns the memory; used through `base` only, so that addresses stay valid.
    _memory: Rows,
    base: *mut f64,
    stride: usize,
    count: usize,
    width: usize,
}

impl Registers {
    fn new(count: usize, width: usize) -> Registers {
        let mut memory = Rows::new(count, width);
        Registers {
            base: memory.as_mut_ptr(),
            stride: memory.stride(),
            _memory: memory,
            count,
            width,
        }
    }

    fn address(&self, register: u32) -> *mut f64 {
        assert!((register as usize) < self.count);
        self.base.wrapping_add(register as usize * self.stride)
    }

    fn row(&self, register: u32, lanes: usize) -> &[f64] {
        assert!(lanes <= self.width);
        // SAFETY: `address` is inside the memory, with `width` initialized numbers from there
        // on; kernels, which write, do not run while `self` is borrowed by the result.
        unsafe { std::slice::from_raw_parts(self.address(register), lanes) }
    }

    fn row_mut(&mut self, register: u32, lanes: usize) -> &mut [f64] {
        assert!(lanes <= self.width);
        // SAFETY: as in `row`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address(register), lanes) }
    }
}
