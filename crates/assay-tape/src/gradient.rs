//! The gradient at one point, in the time of what it passes through.

use super::error::TapeError;
use super::evaluate::{EvaluationReport, check_length};
use super::input::Input;
use super::op::Op;
use super::partials::PrimalOperands;
use super::program::Instruction;
use super::simd_level::SimdLevel;
use super::tape::Tape;

impl Tape {
    /// The derivative by every input of the outputs, weighted, at one point.
    ///
    /// Equal to [`Tape::vjp`] at that point. Only instructions that a derivative reaches are visited,
    /// so that the dependence of one output of a large tape costs little more than its evaluation.
    pub fn gradient(
        &self,
        inputs: &[f64],
        weights: &[f64],
        gradient: &mut [f64],
    ) -> Result<EvaluationReport, TapeError> {
        let uniform = |numbers: &[f64]| -> Vec<Input<'static>> {
            numbers.iter().copied().map(Input::Uniform).collect()
        };
        let point = uniform(inputs);
        self.check_inputs(&point, 1)?;
        check_length(&|| "weights".into(), self.output_count(), weights.len())?;
        check_length(&|| "gradient".into(), self.input_count(), gradient.len())?;
        let (program, level) = (&self.program, SimdLevel::best());
        let mut failed = vec![0; program.blocks.len()];
        let values = self.values_at(level, &point, &mut failed);
        let first = program.first_instruction();
        let mut seeds = vec![0.0; values.len()];
        for (&value, weight) in program.outputs.iter().zip(weights) {
            seeds[value as usize] += weight;
        }
        for (index, instruction) in program.code.iter().enumerate().rev() {
            let row = first + index;
            if seeds[row] == 0.0 {
                continue;
            }
            let Instruction { op, a, b, c } = *instruction;
            if op == Op::Extract {
                // Through a block, whose solution has derivatives of its own.
                let mut rows: Vec<&mut [f64]> = gradient.chunks_exact_mut(1).collect();
                return self.vjp(&point, 1, &uniform(weights), &mut rows);
            }
            let operand = |used: usize, number: u32| match op.arity() > used {
                true => &values[number as usize..=number as usize],
                false => &values[row..=row],
            };
            let primal = PrimalOperands {
                op,
                immediate: b,
                a: operand(0, a),
                b: operand(1, b),
                c: operand(2, c),
                result: &values[row..=row],
            };
            let seed = [seeds[row]];
            for (place, &number) in [a, b, c][..op.arity()].iter().enumerate() {
                let number = number as usize;
                level.accumulate(&primal, place, &seed, &mut seeds[number..=number]);
            }
        }
        gradient.copy_from_slice(&seeds[..self.input_count()]);
        Ok(EvaluationReport::new(1, &failed))
    }
}
