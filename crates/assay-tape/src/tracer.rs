//! Primal values of a chunk of points, and derivatives propagated through them.

use super::block::BlockSolver;
use super::error::TapeError;
use super::evaluate::EvaluationReport;
use super::input::Input;
use super::primal_values::{compute_values, value_rows};
use super::rows::Rows;
use super::simd_level::SimdLevel;
use super::sweep::Sweep;
use super::tape::Tape;

/// Values per chunk: 1 MiB of them, and as much of seeds, measured to be best with 2 MiB of L2
/// cache.
const WORKING_SET: usize = 1 << 17;

/// Lanes that the compiler's unrolled loops process at a time; the remainder is scalar.
const UNROLLED: usize = 32;

/// Copies the part of an input that a row covers, from point `start` on.
pub(super) fn fill(row: &mut [f64], input: &Input<'_>, start: usize) {
    match input {
        Input::Uniform(value) => row.fill(*value),
        Input::Varying(column) => row.copy_from_slice(&column[start..start + row.len()]),
    }
}

/// Values and seeds of a chunk of points.
pub(super) struct Tracer<'a> {
    tape: &'a Tape,
    level: SimdLevel,
    pub(super) width: usize,
    values: Rows,
    pub(super) seeds: Rows,
    solvers: Vec<BlockSolver<'a>>,
}

impl<'a> Tracer<'a> {
    pub(super) fn new(tape: &'a Tape, level: SimdLevel, points: usize) -> Tracer<'a> {
        let program = &tape.program;
        let value_count = program.first_instruction() + program.code.len();
        let fitting = (WORKING_SET / value_count.max(1)).next_multiple_of(UNROLLED);
        let width = fitting.clamp(UNROLLED, 512).min(points.max(1));
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

    /// Computes all values of each chunk and calls `visit` with its start and length.
    pub(super) fn for_each_chunk(
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

    pub(super) fn copy_outputs(&self, outputs: &mut [&mut [f64]], start: usize, lanes: usize) {
        for (output, &value) in outputs.iter_mut().zip(&self.tape.program.outputs) {
            output[start..start + lanes].copy_from_slice(self.values.row(value as usize, lanes));
        }
    }

    pub(super) fn forward(&mut self, sweep: &Sweep, lanes: usize) {
        let (program, seeds) = (&self.tape.program, &mut self.seeds);
        sweep.run_forward(program, self.level, &self.values, seeds, lanes, &mut self.solvers);
    }

    pub(super) fn clear(&mut self, sweep: &Sweep, lanes: usize) {
        sweep.clear(&self.tape.program, &mut self.seeds, lanes, &mut self.solvers);
    }

    pub(super) fn backward(&mut self, sweep: &Sweep, lanes: usize) {
        let (program, seeds) = (&self.tape.program, &mut self.seeds);
        sweep.run_backward(program, self.level, &self.values, seeds, lanes, &mut self.solvers);
    }

    /// The tangent or adjoint of a value, if the sweep reached it.
    pub(super) fn seed(&self, sweep: &Sweep, value: u32, lanes: usize) -> Option<&[f64]> {
        sweep.influences(value).then(|| self.seeds.row(value as usize, lanes))
    }
}
