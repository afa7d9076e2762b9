//! Evaluates a tape at many points.

use std::sync::{Arc, PoisonError};

use super::block::BlockSolver;
use super::error::TapeError;
use super::implicit::ImplicitSolver;
use super::input::Input;
use super::machine::Machine;
use super::op::Op;
use super::plan::Plan;
use super::program::Instruction;
use super::scalar_operations::apply;
use super::simd_level::SimdLevel;
use super::tape::Tape;

/// Points per chunk. Measured on 400 relations: twice as many cost a tenth more, because inputs and
/// registers no longer fit the L2 cache together; half as many gain nothing.
const CHUNK: usize = 256;

/// Result of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluationReport {
    /// Points evaluated.
    pub points: usize,
    /// For each block with points that did not converge: its number and how many.
    pub unconverged: Vec<(usize, usize)>,
}

impl EvaluationReport {
    pub(super) fn new(points: usize, failed: &[usize]) -> EvaluationReport {
        let failed = failed.iter().copied().enumerate();
        EvaluationReport { points, unconverged: failed.filter(|&(_, count)| count > 0).collect() }
    }
}

impl Tape {
    /// Computes every output at every point.
    ///
    /// Each varying input and each output holds one number per point. Values that depend on uniform
    /// inputs only are computed once.
    pub fn evaluate(
        &self,
        inputs: &[Input<'_>],
        points: usize,
        outputs: &mut [&mut [f64]],
    ) -> Result<EvaluationReport, TapeError> {
        self.evaluate_at(SimdLevel::best(), inputs, points, outputs)
    }

    /// Like [`Tape::evaluate`], with the kernels of one SIMD level.
    pub(super) fn evaluate_at(
        &self,
        level: SimdLevel,
        inputs: &[Input<'_>],
        points: usize,
        outputs: &mut [&mut [f64]],
    ) -> Result<EvaluationReport, TapeError> {
        self.check_inputs(inputs, points)?;
        check_rows("output", self.output_count(), points, outputs)?;
        if points == 0 {
            return Ok(EvaluationReport::default());
        }
        let varying = |input: &Input<'_>| points > 1 && matches!(input, Input::Varying(_));
        let plan = self.plan(level, inputs.iter().map(varying).collect());
        let mut failed = vec![0; self.program.blocks.len()];
        let uniform = self.uniform_values(level, &plan, inputs, points, &mut failed);
        let width = CHUNK.min(points);
        let mut machine = Machine::new(&self.program, &plan, inputs, &uniform, points, width);
        for start in (0..points).step_by(CHUNK) {
            let lanes = CHUNK.min(points - start);
            machine.run(start, lanes, outputs, &mut failed);
        }
        Ok(EvaluationReport::new(points, &failed))
    }

    pub(super) fn check_inputs(
        &self,
        inputs: &[Input<'_>],
        points: usize,
    ) -> Result<(), TapeError> {
        check_length(&|| "inputs".into(), self.input_count(), inputs.len())?;
        for (index, input) in inputs.iter().enumerate() {
            if let Input::Varying(column) = input {
                check_length(&|| format!("input {index}"), points, column.len())?;
            }
        }
        Ok(())
    }

    /// The plan for these varying inputs; the last one is cached.
    fn plan(&self, level: SimdLevel, varying: Vec<bool>) -> Arc<Plan> {
        let mut last = self.last_plan.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(plan) if plan.level == level && plan.varying_inputs == varying => Arc::clone(plan),
            _ => {
                let plan = Arc::new(Plan::new(&self.program, level, varying));
                *last = Some(Arc::clone(&plan));
                plan
            }
        }
    }

    /// Every value at one point, by value number.
    pub(super) fn values_at(
        &self,
        level: SimdLevel,
        point: &[Input<'_>],
        failed: &mut [usize],
    ) -> Vec<f64> {
        let plan = self.plan(level, vec![false; point.len()]);
        self.uniform_values(level, &plan, point, 1, failed)
    }

    /// The values that are the same at every point, by value number; zeros for the others.
    fn uniform_values(
        &self,
        level: SimdLevel,
        plan: &Plan,
        inputs: &[Input<'_>],
        points: usize,
        failed: &mut [usize],
    ) -> Vec<f64> {
        let program = &self.program;
        let first = program.first_instruction();
        let mut values = vec![0.0; first + program.code.len()];
        for (value, input) in values.iter_mut().zip(inputs) {
            *value = match input {
                Input::Uniform(number) => *number,
                Input::Varying(column) => column[0],
            };
        }
        values[program.input_count..first].copy_from_slice(&program.constants);
        let mut solved: Vec<Option<BlockSolver<'_>>> = Vec::new();
        solved.resize_with(program.blocks.len(), || None);
        for &index in &plan.uniform {
            let Instruction { op, a, b, c } = program.code[index as usize];
            let row = first + index as usize;
            match op {
                Op::Block => {
                    let block = &program.blocks[a as usize];
                    let operands = |numbers: &[u32]| -> Vec<Input<'_>> {
                        let operand = |&number: &u32| Input::Uniform(values[number as usize]);
                        numbers.iter().map(operand).collect()
                    };
                    let (start, externals) = (operands(&block.start), operands(&block.externals));
                    let mut solver = BlockSolver::new(block, 1);
                    if solver.solve(level, &start, &externals, 1) > 0 {
                        failed[a as usize] += points;
                    }
                    solved[a as usize] = Some(solver);
                }
                Op::Extract => {
                    let executed = program.code[a as usize - first].a as usize;
                    if let Some(solver) = &solved[executed] {
                        values[row] = solver.member(b as usize, 1)[0];
                    }
                }
                _ => {
                    let operand = |used: usize, number: u32| match op.arity() > used {
                        true => values[number as usize],
                        false => 0.0,
                    };
                    values[row] = apply(op, operand(0, a), operand(1, b), operand(2, c), b);
                }
            }
        }
        values
    }
}

pub(super) fn check_length(
    what: &dyn Fn() -> String,
    expected: usize,
    got: usize,
) -> Result<(), TapeError> {
    match expected == got {
        true => Ok(()),
        false => Err(TapeError::WrongLength { what: what(), expected, got }),
    }
}

/// Checks that there are `count` rows of `points` numbers each.
pub(super) fn check_rows(
    what: &str,
    count: usize,
    points: usize,
    rows: &[&mut [f64]],
) -> Result<(), TapeError> {
    check_length(&|| format!("{what}s"), count, rows.len())?;
    for (index, row) in rows.iter().enumerate() {
        check_length(&|| format!("{what} {index}"), points, row.len())?;
    }
    Ok(())
}
