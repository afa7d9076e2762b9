//! Solves an implicit block at many points, and differentiates the solution.

mod implicit_solver;
mod lu;
mod newton;

use lu::LuFactors;
use newton::{Iteration, Progress};

use super::input::Input;
use super::primal_values::{compute_values, value_rows};
use super::program::{Block, Method};
use super::rows::Rows;
use super::simd_level::SimdLevel;
use super::sweep::Sweep;

/// The blocks of an inner program: validation admits none.
fn no_blocks() -> &'static mut [BlockSolver<'static>] {
    &mut []
}

/// Solver of one block over a chunk of points, with its working memory.
#[derive(Debug)]
pub(super) struct BlockSolver<'a> {
    block: &'a Block,
    /// Values of the inner program.
    values: Rows,
    /// Tangents or adjoints of the inner program.
    seeds: Rows,
    /// Results, by member.
    members: Rows,
    /// Tangents or adjoints of the results, by member.
    member_seeds: Rows,
    /// Jacobian of the inner outputs by the unknowns, output by output.
    derivatives: Rows,
    /// LU factors of `I - G` at each lane, computed when first needed.
    factors: Vec<LuFactors>,
    unknown_forward: Vec<Sweep>,
    external_forward: Sweep,
    external_reverse: Sweep,
}

impl<'a> BlockSolver<'a> {
    pub(super) fn new(block: &'a Block, width: usize) -> BlockSolver<'a> {
        let inner = &block.inner;
        let unknowns = block.unknown_count() as u32;
        let members = block.member_count();
        let externals: Vec<u32> = (unknowns..inner.input_count as u32).collect();
        let external_forward = Sweep::forward(inner, &externals);
        let value_count = inner.first_instruction() + inner.code.len();
        BlockSolver {
            block,
            values: value_rows(inner, width),
            seeds: Rows::new(value_count, width),
            members: Rows::new(members, width),
            member_seeds: Rows::new(members, width),
            derivatives: Rows::new(members * unknowns as usize, width),
            factors: Vec::new(),
            unknown_forward: (0..unknowns)
                .map(|unknown| Sweep::forward(inner, &[unknown]))
                .collect(),
            external_reverse: external_forward.backward_from(inner, &inner.outputs),
            external_forward,
        }
    }

    fn load(&mut self, operands: &[Input<'_>], first_row: usize, lanes: usize) {
        for (index, operand) in operands.iter().enumerate() {
            let row = self.values.row_mut(first_row + index, lanes);
            match operand {
                Input::Uniform(value) => row.fill(*value),
                Input::Varying(values) => row.copy_from_slice(&values[..lanes]),
            }
        }
    }

    fn compute_inner(&mut self, level: SimdLevel, lanes: usize) {
        compute_values(&self.block.inner, level, &mut self.values, lanes, no_blocks(), &mut []);
    }

    /// Iterates to the solution and leaves the unknowns in `members`, NaN where it did not converge;
    /// returns those lanes.
    fn search(&mut self, level: SimdLevel, lanes: usize) -> Vec<usize> {
        let unknowns = self.block.unknown_count();
        let mut iterations = vec![Iteration::default(); lanes];
        // Unconverged lanes are compacted into the first columns of the rows; these are their lanes.
        let mut active_lanes: Vec<usize> = (0..lanes).collect();
        let mut failed = Vec::new();
        let mut position = vec![0.0; unknowns];
        let mut relations = vec![0.0; unknowns];
        let mut derivatives = vec![0.0; unknowns * unknowns];
        self.clip_start(lanes);
        // Terminates, because iterations and line-search halvings are both limited.
        while !active_lanes.is_empty() {
            let active = active_lanes.len();
            self.compute_inner(level, active);
            if self.block.method == Method::Newton {
                self.differentiate(level, unknowns, active);
            }
            let mut remaining = 0;
            for column in 0..active {
                self.read_column(column, active, &mut position, &mut relations, &mut derivatives);
                let lane = active_lanes[column];
                match iterations[lane].advance(self.block, &mut position, &relations, &derivatives)
                {
                    Progress::Continue => {
                        self.move_column(column, remaining, active, &position);
                        active_lanes[remaining] = lane;
                        remaining += 1;
                    }
                    Progress::Converged => self.finish(lane, lanes, &position),
                    Progress::Failed => {
                        failed.push(lane);
                        self.finish(lane, lanes, &vec![f64::NAN; unknowns]);
                    }
                }
            }
            active_lanes.truncate(remaining);
        }
        failed
    }

    fn clip_start(&mut self, lanes: usize) {
        for unknown in 0..self.block.unknown_count() {
            let (lower, upper) = (self.block.lower[unknown], self.block.upper[unknown]);
            for value in self.values.row_mut(unknown, lanes) {
                *value = value.clamp(lower, upper);
            }
        }
    }

    fn read_column(
        &self,
        column: usize,
        active: usize,
        position: &mut [f64],
        relations: &mut [f64],
        derivatives: &mut [f64],
    ) {
        for (unknown, value) in position.iter_mut().enumerate() {
            *value = self.values.row(unknown, active)[column];
        }
        for (unknown, value) in relations.iter_mut().enumerate() {
            let row = self.block.inner.outputs[unknown] as usize;
            *value = self.values.row(row, active)[column];
        }
        for (index, value) in derivatives.iter_mut().enumerate() {
            *value = self.derivatives.row(index, active)[column];
        }
    }

    /// Moves a lane's next position and its externals to an earlier column.
    fn move_column(&mut self, from: usize, to: usize, active: usize, position: &[f64]) {
        for (unknown, value) in position.iter().enumerate() {
            self.values.row_mut(unknown, active)[to] = *value;
        }
        for row in position.len()..self.block.inner.input_count {
            let columns = self.values.row_mut(row, active);
            columns[to] = columns[from];
        }
    }

    fn finish(&mut self, lane: usize, lanes: usize, position: &[f64]) {
        for (unknown, value) in position.iter().enumerate() {
            self.members.row_mut(unknown, lanes)[lane] = *value;
        }
    }

    /// Computes the Jacobian of the first `outputs` inner outputs by the unknowns.
    fn differentiate(&mut self, level: SimdLevel, outputs: usize, lanes: usize) {
        let inner = &self.block.inner;
        let unknowns = self.block.unknown_count();
        for (unknown, sweep) in self.unknown_forward.iter().enumerate() {
            self.seeds.row_mut(unknown, lanes).fill(1.0);
            sweep.run_forward(inner, level, &self.values, &mut self.seeds, lanes, no_blocks());
            for (output, &value) in inner.outputs[..outputs].iter().enumerate() {
                let into = self.derivatives.row_mut(output * unknowns + unknown, lanes);
                match sweep.influences(value) {
                    true => into.copy_from_slice(self.seeds.row(value as usize, lanes)),
                    false => into.fill(0.0),
                }
            }
        }
    }
}
