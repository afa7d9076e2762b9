//! Runs a tape over points.

use super::Tape;
use super::error::TapeError;
use super::scalar::apply;

/// One input of an evaluation.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The same number at every point.
    Uniform(f64),
    /// One number per point.
    Varying(&'a [f64]),
}

/// What happened during an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluationReport {
    /// Points evaluated.
    pub points: usize,
    /// For each block with points that did not converge: its number and how many.
    pub unconverged: Vec<(usize, usize)>,
}

impl Tape {
    /// Computes every output at every point.
    pub fn evaluate(
        &self,
        inputs: &[Input<'_>],
        points: usize,
        outputs: &mut [&mut [f64]],
    ) -> Result<EvaluationReport, TapeError> {
        self.check_lengths(inputs, points, outputs)?;
        let mut values =
            Vec::with_capacity(self.program.first_instruction() + self.program.code.len());
        for point in 0..points {
            values.clear();
            values.extend(inputs.iter().map(|input| match input {
                Input::Uniform(value) => *value,
                Input::Varying(column) => column[point],
            }));
            values.extend_from_slice(&self.program.constants);
            for step in &self.program.code {
                let operand = |index: usize, number: u32| {
                    if step.op.arity() > index {
                        values[number as usize]
                    } else {
                        0.0
                    }
                };
                let (a, b, c) = (operand(0, step.a), operand(1, step.b), operand(2, step.c));
                values.push(apply(step.op, a, b, c, step.b));
            }
            for (output, &number) in outputs.iter_mut().zip(&self.program.outputs) {
                output[point] = values[number as usize];
            }
        }
        Ok(EvaluationReport {
            points,
            unconverged: Vec::new(),
        })
    }

    fn check_lengths(
        &self,
        inputs: &[Input<'_>],
        points: usize,
        outputs: &[&mut [f64]],
    ) -> Result<(), TapeError> {
        let check = |what: &dyn Fn() -> String, expected: usize, got: usize| {
            if expected == got {
                Ok(())
            } else {
                Err(TapeError::WrongLength {
                    what: what(),
                    expected,
                    got,
                })
            }
        };
        check(&|| "inputs".into(), self.input_count(), inputs.len())?;
        check(&|| "outputs".into(), self.output_count(), outputs.len())?;
        for (index, input) in inputs.iter().enumerate() {
            if let Input::Varying(column) = input {
                check(&|| format!("input {index}"), points, column.len())?;
            }
        }
        for (index, output) in outputs.iter().enumerate() {
            check(&|| format!("output {index}"), points, output.len())?;
        }
        Ok(())
    }
}
