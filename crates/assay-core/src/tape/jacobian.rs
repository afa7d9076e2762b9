//! Exact derivatives of a tape's outputs by its inputs.

use super::Tape;
use super::block::BlockSolver;
use super::error::TapeError;
use super::evaluate::{EvaluationReport, Input, check_length, check_rows};
use super::level::Level;
use super::rows::Rows;
use super::sweep::{Sweep, add};
use super::trace::{compute_values, value_rows};

/// Floats that values and seeds of a chunk may take together: half a mebibyte of them, to stay
/// in the second-level cache.
const WORKING_SET: usize = 1 << 16;

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
        check_length(
            &|| "derivatives".into(),
            count.saturating_mul(points),
            derivatives.len(),
        )?;
        let sweeps = Sweeps::choose(self, wrt);
        let mut tracer = Tracer::new(self, Level::best(), points);
        tracer.for_each_chunk(inputs, points, |tracer, start, lanes| {
            if let Some(values) = &mut values {
                tracer.copy_outputs(values, start, lanes);
            }
            let mut put = |output: usize, column: usize, seed: Option<&[f64]>| {
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
                            put(output, column, tracer.seed(sweep, value, lanes));
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
                            put(output, column, tracer.seed(sweep, input, lanes));
                        }
                    }
                }
            }
        })
    }

    /// The change of every output along `tangents`, one per input, at every point.
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
        let mut tracer = Tracer::new(self, Level::best(), points);
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

    /// The derivative by every input of the outputs weighted by `cotangents`, at every point.
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
        let mut tracer = Tracer::new(self, Level::best(), points);
        let mut weight = vec![0.0; tracer.width];
        tracer.for_each_chunk(inputs, points, |tracer, start, lanes| {
            tracer.clear(&sweep, lanes);
            for (&value, cotangent) in self.program.outputs.iter().zip(cotangents) {
                if sweep.influences(value) {
                    fill(&mut weight[..lanes], cotangent, start);
                    add(
                        tracer.seeds.row_mut(value as usize, lanes),
                        &weight[..lanes],
                    );
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
        match wrt
            .iter()
            .find(|&&input| input as usize >= self.input_count())
        {
            Some(&got) => Err(TapeError::UnknownInput {
                got,
                count: self.input_count(),
            }),
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

fn fill(row: &mut [f64], input: &Input<'_>, start: usize) {
    match input {
        Input::Uniform(value) => row.fill(*value),
        Input::Varying(column) => row.copy_from_slice(&column[start..start + row.len()]),
    }
}

/// One sweep per input or one per output, whichever are fewer.
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

/// Values and seeds of a chunk of points.
struct Tracer<'a> {
    tape: &'a Tape,
    level: Level,
    width: usize,
    values: Rows,
    seeds: Rows,
    solvers: Vec<BlockSolver<'a>>,
}

impl<'a> Tracer<'a> {
    fn new(tape: &'a Tape, level: Level, points: usize) -> Tracer<'a> {
        let program = &tape.program;
        let value_count = program.first_instruction() + program.code.len();
        let width = (WORKING_SET / value_count.max(1))
            .clamp(16, 512)
            .min(points.max(1));
        let solver = |block| BlockSolver::new(block, width);
        Tracer {
            tape,
            level,
            width,
            values: value_rows(program, width),
            seeds: Rows::new(value_count, width),
            solvers: program.blocks.iter().map(solver).collect(),
        }
    }

    /// Computes all values of each chunk and hands it to `visit` with its start and length.
    fn for_each_chunk(
        &mut self,
        inputs: &[Input<'_>],
        points: usize,
        mut visit: impl FnMut(&mut Self, usize, usize),
    ) -> Result<EvaluationReport, TapeError> {
        let mut failed = vec![0; self.solvers.len()];
        for start in (0..points).step_by(self.width) {
            let lanes = self.width.min(points - start);
            for (index, input) in inputs.iter().enumerate() {
                fill(self.values.row_mut(index, lanes), input, start);
            }
            let program = &self.tape.program;
            let (values, solvers) = (&mut self.values, &mut self.solvers);
            compute_values(program, self.level, values, lanes, solvers, &mut failed);
            visit(self, start, lanes);
        }
        Ok(EvaluationReport::new(points, &failed))
    }

    fn copy_outputs(&self, outputs: &mut [&mut [f64]], start: usize, lanes: usize) {
        for (output, &value) in outputs.iter_mut().zip(&self.tape.program.outputs) {
            output[start..start + lanes].copy_from_slice(self.values.row(value as usize, lanes));
        }
    }

    fn forward(&mut self, sweep: &Sweep, lanes: usize) {
        let (program, seeds) = (&self.tape.program, &mut self.seeds);
        sweep.run_forward(
            program,
            self.level,
            &self.values,
            seeds,
            lanes,
            &mut self.solvers,
        );
    }

    fn clear(&mut self, sweep: &Sweep, lanes: usize) {
        sweep.clear(
            &self.tape.program,
            &mut self.seeds,
            lanes,
            &mut self.solvers,
        );
    }

    fn backward(&mut self, sweep: &Sweep, lanes: usize) {
        let (program, seeds) = (&self.tape.program, &mut self.seeds);
        sweep.run_backward(
            program,
            self.level,
            &self.values,
            seeds,
            lanes,
            &mut self.solvers,
        );
    }

    /// The tangent or adjoint of a value, if the sweep reached it.
    fn seed(&self, sweep: &Sweep, value: u32, lanes: usize) -> Option<&[f64]> {
        sweep
            .influences(value)
            .then(|| self.seeds.row(value as usize, lanes))
    }
}
