//! Exact derivatives of a tape's outputs by its inputs.

use super::error::TapeError;
use super::evaluate::{EvaluationReport, check_length, check_rows};
use super::input::Input;
use super::simd_level::SimdLevel;
use super::sweep::{Sweep, add};
use super::tape::Tape;
use super::tracer::{Tracer, fill};

impl Tape {
    /// The derivatives of every output by each of the inputs `wrt` at one point, output by
    /// output.
    pub fn jacobian(&self, inputs: &[f64], wrt: &[u32]) -> Result<Vec<f64>, TapeError> {
        let inputs: Vec<Input<'_>> = inputs.iter().copied().map(Input::Uniform).collect();
        let mut derivatives = vec![0.0; self.output_count() * wrt.len()];
        self.jacobian_batch(&inputs, 1, wrt, None, &mut derivatives)?;
        Ok(derivatives)
    }

    /// The derivatives of every output by each of the inputs `wrt` at every point, in the order
    /// outputs, inputs, points; and the outputs themselves, where `values` is given.
    pub fn jacobian_batch(
        &self,
        inputs: &[Input<'_>],
        points: usize,
        wrt: &[u32],
        mut values: Option<&mut [&mut [f64]]>,
        derivatives: &mut [f64],
    ) -> Result<EvaluationReport, TapeError> {
        self.check_inputs(inputs, points)?;
        self.check_wrt(wrt)?;
        if let Some(values) = &values {
            check_rows("output", self.output_count(), points, values)?;
        }
        let count = self.output_count() * wrt.len();
        check_length(&|| "derivatives".into(), count.saturating_mul(points), derivatives.len())?;
        let sweeps = Sweeps::choose(self, wrt);
        let mut tracer = Tracer::new(self, SimdLevel::best(), points);
        tracer.for_each_chunk(inputs, points, |tracer, start, lanes| {
            if let Some(values) = &mut values {
                tracer.copy_outputs(values, start, lanes);
            }
            let mut write = |output: usize, column: usize, seed: Option<&[f64]>| {
                let row = (output * wrt.len() + column) * points + start;
                let into = &mut derivatives[row..row + lanes];
                match seed {
                    Some(seed) => into.copy_from_slice(seed),
                    None => into.fill(0.0),
                }
            };
            match &sweeps {
                Sweeps::Forward(sweeps) => {
                    for (column, (sweep, &input)) in sweeps.iter().zip(wrt).enumerate() {
                        tracer.seeds.row_mut(input as usize, lanes).fill(1.0);
                        tracer.forward(sweep, lanes);
                        for (output, &value) in self.program.outputs.iter().enumerate() {
                            write(output, column, tracer.seed(sweep, value, lanes));
                        }
                    }
                }
                Sweeps::Backward(sweeps) => {
                    for (output, sweep) in sweeps.iter().enumerate() {
                        let value = self.program.outputs[output];
                        tracer.clear(sweep, lanes);
                        if sweep.influences(value) {
                            tracer.seeds.row_mut(value as usize, lanes).fill(1.0);
                        }
                        tracer.backward(sweep, lanes);
                        for (column, &input) in wrt.iter().enumerate() {
                            write(output, column, tracer.seed(sweep, input, lanes));
                        }
                    }
                }
            }
        })
    }

    /// Jacobian-vector product (forward mode): the change of every output along `tangents`, one per
    /// input, at every point.
    pub fn jvp(
        &self,
        inputs: &[Input<'_>],
        points: usize,
        tangents: &[Input<'_>],
        outputs: &mut [&mut [f64]],
    ) -> Result<EvaluationReport, TapeError> {
        self.check_inputs(inputs, points)?;
        check_columns("tangent", self.input_count(), points, tangents)?;
        check_rows("output", self.output_count(), points, outputs)?;
        let moving: Vec<u32> = (0..self.input_count() as u32)
            .filter(|&input| !matches!(tangents[input as usize], Input::Uniform(0.0)))
            .collect();
        let sweep = Sweep::forward(&self.program, &moving);
        let mut tracer = Tracer::new(self, SimdLevel::best(), points);
        tracer.for_each_chunk(inputs, points, |tracer, start, lanes| {
            for &input in &moving {
                let row = tracer.seeds.row_mut(input as usize, lanes);
                fill(row, &tangents[input as usize], start);
            }
            tracer.forward(&sweep, lanes);
            for (&value, output) in self.program.outputs.iter().zip(&mut *outputs) {
                let into = &mut output[start..start + lanes];
                match tracer.seed(&sweep, value, lanes) {
                    Some(seed) => into.copy_from_slice(seed),
                    None => into.fill(0.0),
                }
            }
        })
    }

    /// Vector-Jacobian product (reverse mode): the gradient by every input of the outputs weighted by
    /// `cotangents`, at every point.
    pub fn vjp(
        &self,
        inputs: &[Input<'_>],
        points: usize,
        cotangents: &[Input<'_>],
        gradients: &mut [&mut [f64]],
    ) -> Result<EvaluationReport, TapeError> {
        self.check_inputs(inputs, points)?;
        check_columns("cotangent", self.output_count(), points, cotangents)?;
        check_rows("gradient", self.input_count(), points, gradients)?;
        let all: Vec<u32> = (0..self.input_count() as u32).collect();
        let forward = Sweep::forward(&self.program, &all);
        let sweep = forward.backward_from(&self.program, &self.program.outputs);
        let mut tracer = Tracer::new(self, SimdLevel::best(), points);
        let mut weight = vec![0.0; tracer.width];
        tracer.for_each_chunk(inputs, points, |tracer, start, lanes| {
            tracer.clear(&sweep, lanes);
            for (&value, cotangent) in self.program.outputs.iter().zip(cotangents) {
                if sweep.influences(value) {
                    fill(&mut weight[..lanes], cotangent, start);
                    add(tracer.seeds.row_mut(value as usize, lanes), &weight[..lanes]);
                }
            }
            tracer.backward(&sweep, lanes);
            for (input, gradient) in gradients.iter_mut().enumerate() {
                let into = &mut gradient[start..start + lanes];
                match tracer.seed(&sweep, input as u32, lanes) {
                    Some(seed) => into.copy_from_slice(seed),
                    None => into.fill(0.0),
                }
            }
        })
    }

    fn check_wrt(&self, wrt: &[u32]) -> Result<(), TapeError> {
        match wrt.iter().find(|&&input| input as usize >= self.input_count()) {
            Some(&got) => Err(TapeError::UnknownInput { got, count: self.input_count() }),
            None => Ok(()),
        }
    }
}

fn check_columns(
    what: &str,
    count: usize,
    points: usize,
    columns: &[Input<'_>],
) -> Result<(), TapeError> {
    check_length(&|| format!("{what}s"), count, columns.len())?;
    for (index, column) in columns.iter().enumerate() {
        if let Input::Varying(column) = column {
            check_length(&|| format!("{what} {index}"), points, column.len())?;
        }
    }
    Ok(())
}

/// Forward mode with one sweep per input, or reverse mode with one per output, whichever are fewer.
enum Sweeps {
    Forward(Vec<Sweep>),
    Backward(Vec<Sweep>),
}

impl Sweeps {
    fn choose(tape: &Tape, wrt: &[u32]) -> Sweeps {
        let program = &tape.program;
        if wrt.len() <= program.outputs.len() {
            let sweep = |&input: &u32| Sweep::forward(program, &[input]);
            return Sweeps::Forward(wrt.iter().map(sweep).collect());
        }
        let forward = Sweep::forward(program, wrt);
        let sweep = |&output: &u32| forward.backward_from(program, &[output]);
        Sweeps::Backward(program.outputs.iter().map(sweep).collect())
    }
}
