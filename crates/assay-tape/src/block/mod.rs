//! Solves a block at many points, and differentiates the solution.

mod derivative;
mod linear;
mod newton;

use linear::Factored;
use newton::{Progress, Search};

use super::evaluate::Input;
use super::level::Level;
use super::program::{Block, Method};
use super::rows::Rows;
use super::sweep::Sweep;
use super::trace::{compute_values, value_rows};

/// Working memory for one block over a chunk of points.
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
    /// Derivatives of every inner output by every unknown, output by output.
    derivatives: Rows,
    /// `I - G` at each lane, once it is needed.
    factored: Vec<Factored>,
    by_unknown: Vec<Sweep>,
    by_externals: Sweep,
    back_to_externals: Sweep,
}

impl<'a> BlockSolver<'a> {
    pub(super) fn new(block: &'a Block, width: usize) -> BlockSolver<'a> {
        let inner = &block.inner;
        let unknowns = block.unknown_count() as u32;
        let members = block.member_count();
        let externals: Vec<u32> = (unknowns..inner.input_count as u32).collect();
        let by_externals = Sweep::forward(inner, &externals);
        let value_count = inner.first_instruction() + inner.code.len();
        BlockSolver {
            block,
            values: value_rows(inner, width),
            seeds: Rows::new(value_count, width),
            members: Rows::new(members, width),
            member_seeds: Rows::new(members, width),
            derivatives: Rows::new(members * unknowns as usize, width),
            factored: Vec::new(),
            by_unknown: (0..unknowns)
                .map(|unknown| Sweep::forward(inner, &[unknown]))
                .collect(),
            back_to_externals: by_externals.backward_from(inner, &inner.outputs),
            by_externals,
        }
    }

    /// A result at each lane.
    pub(super) fn member(&self, member: usize, lanes: usize) -> &[f64] {
        self.members.row(member, lanes)
    }

    /// Solves at each lane; returns how many lanes did not converge.
    pub(super) fn solve(
        &mut self,
        level: Level,
        start: &[Input<'_>],
        externals: &[Input<'_>],
        lanes: usize,
    ) -> usize {
        self.factored.clear();
        self.load(start, 0, lanes);
        self.load(externals, start.len(), lanes);
        let failed = self.search(level, lanes);
        // What the members and their derivatives are computed from, at every lane again.
        for unknown in 0..start.len() {
            let found = self.members.row(unknown, lanes);
            self.values.row_mut(unknown, lanes).copy_from_slice(found);
        }
        self.load(externals, start.len(), lanes);
        self.compute_inner(level, lanes);
        for member in start.len()..self.block.member_count() {
            let row = self.block.inner.outputs[member] as usize;
            let computed = self.values.row(row, lanes);
            self.members
                .row_mut(member, lanes)
                .copy_from_slice(computed);
        }
        for &lane in &failed {
            for member in 0..self.block.member_count() {
                self.members.row_mut(member, lanes)[lane] = f64::NAN;
            }
        }
        failed.len()
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

    fn compute_inner(&mut self, level: Level, lanes: usize) {
        compute_values(
            &self.block.inner,
            level,
            &mut self.values,
            lanes,
            &mut [],
            &mut [],
        );
    }

    /// Leaves the unknowns in `members`, NaN where the search failed; returns those lanes.
    fn search(&mut self, level: Level, lanes: usize) -> Vec<usize> {
        let unknowns = self.block.unknown_count();
        let mut searches = vec![Search::default(); lanes];
        // Lanes still searching fill the first columns of the rows; this is where they belong.
        let mut places: Vec<usize> = (0..lanes).collect();
        let mut failed = Vec::new();
        let mut position = vec![0.0; unknowns];
        let mut relations = vec![0.0; unknowns];
        let mut derivatives = vec![0.0; unknowns * unknowns];
        self.clip_start(lanes);
        // Ends, because every search does: steps and their shares are both limited.
        while !places.is_empty() {
            let active = places.len();
            self.compute_inner(level, active);
            if self.block.method == Method::Newton {
                self.differentiate(level, unknowns, active);
            }
            let mut kept = 0;
            for lane in 0..active {
                self.read_lane(
                    lane,
                    active,
                    &mut position,
                    &mut relations,
                    &mut derivatives,
                );
                let place = places[lane];
                let search = &mut searches[place];
                match search.advance(self.block, &mut position, &relations, &derivatives) {
                    Progress::Continue => {
                        self.move_lane(lane, kept, active, &position);
                        places[kept] = place;
                        kept += 1;
                    }
                    Progress::Converged => self.finish(place, lanes, &position),
                    Progress::Failed => {
                        failed.push(place);
                        self.finish(place, lanes, &vec![f64::NAN; unknowns]);
                    }
                }
            }
            places.truncate(kept);
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

    fn read_lane(
        &self,
        lane: usize,
        active: usize,
        position: &mut [f64],
        relations: &mut [f64],
        derivatives: &mut [f64],
    ) {
        for (unknown, value) in position.iter_mut().enumerate() {
            *value = self.values.row(unknown, active)[lane];
        }
        for (unknown, value) in relations.iter_mut().enumerate() {
            let row = self.block.inner.outputs[unknown] as usize;
            *value = self.values.row(row, active)[lane];
        }
        for (index, value) in derivatives.iter_mut().enumerate() {
            *value = self.derivatives.row(index, active)[lane];
        }
    }

    /// Puts a lane's next position and its externals into an earlier column.
    fn move_lane(&mut self, from: usize, to: usize, active: usize, position: &[f64]) {
        for (unknown, value) in position.iter().enumerate() {
            self.values.row_mut(unknown, active)[to] = *value;
        }
        for row in position.len()..self.block.inner.input_count {
            let columns = self.values.row_mut(row, active);
            columns[to] = columns[from];
        }
    }

    fn finish(&mut self, place: usize, lanes: usize, position: &[f64]) {
        for (unknown, value) in position.iter().enumerate() {
            self.members.row_mut(unknown, lanes)[place] = *value;
        }
    }

    /// Fills the derivatives of the first `outputs` inner outputs by every unknown.
    fn differentiate(&mut self, level: Level, outputs: usize, lanes: usize) {
        let inner = &self.block.inner;
        let unknowns = self.block.unknown_count();
        for (unknown, sweep) in self.by_unknown.iter().enumerate() {
            self.seeds.row_mut(unknown, lanes).fill(1.0);
            sweep.run_forward(inner, level, &self.values, &mut self.seeds, lanes, &mut []);
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
