//! The solution of a block and its derivatives, by the implicit function theorem.
//!
//! The solution of `x = g(x, p)` moves with `p` so that `(I - dg/dx) dx = dg/dp dp`.

use super::newton::identity_minus;
use super::{BlockSolver, no_blocks};
use crate::implicit::ImplicitSolver;
use crate::input::Input;
use crate::simd_level::SimdLevel;
use crate::sweep::add;

impl BlockSolver<'_> {
    /// Computes the Jacobian at the solution and factors `I - G`, once per solution.
    fn linearize(&mut self, level: SimdLevel, lanes: usize) {
        if !self.factors.is_empty() {
            return;
        }
        let unknowns = self.block.unknown_count();
        self.differentiate(level, self.block.member_count(), lanes);
        for lane in 0..lanes {
            let entry = |index| self.derivatives.row(index, lanes)[lane];
            let matrix: Vec<f64> = (0..unknowns * unknowns).map(entry).collect();
            self.factors.push(identity_minus(unknowns, &matrix));
        }
    }

    fn derivative(&self, member: usize, unknown: usize, lane: usize, lanes: usize) -> f64 {
        let index = member * self.block.unknown_count() + unknown;
        self.derivatives.row(index, lanes)[lane]
    }
}

impl ImplicitSolver for BlockSolver<'_> {
    fn member(&self, member: usize, lanes: usize) -> &[f64] {
        self.members.row(member, lanes)
    }

    fn solve(
        &mut self,
        level: SimdLevel,
        start: &[Input<'_>],
        externals: &[Input<'_>],
        lanes: usize,
    ) -> usize {
        self.factors.clear();
        self.load(start, 0, lanes);
        self.load(externals, start.len(), lanes);
        let failed = self.search(level, lanes);
        // The search compacted its lanes, so the values are computed again at every lane.
        for unknown in 0..start.len() {
            let found = self.members.row(unknown, lanes);
            self.values.row_mut(unknown, lanes).copy_from_slice(found);
        }
        self.load(externals, start.len(), lanes);
        self.compute_inner(level, lanes);
        for member in start.len()..self.block.member_count() {
            let row = self.block.inner.outputs[member] as usize;
            let computed = self.values.row(row, lanes);
            self.members.row_mut(member, lanes).copy_from_slice(computed);
        }
        for &lane in &failed {
            for member in 0..self.block.member_count() {
                self.members.row_mut(member, lanes)[lane] = f64::NAN;
            }
        }
        failed.len()
    }

    fn member_seed(&self, member: usize, lanes: usize) -> &[f64] {
        self.member_seeds.row(member, lanes)
    }

    fn external_seed(&self, external: usize, lanes: usize) -> &[f64] {
        self.seeds.row(self.block.unknown_count() + external, lanes)
    }

    fn clear_member_seeds(&mut self, lanes: usize) {
        for member in 0..self.block.member_count() {
            self.member_seeds.row_mut(member, lanes).fill(0.0);
        }
    }

    fn add_member_seed(&mut self, member: usize, seed: &[f64]) {
        add(self.member_seeds.row_mut(member, seed.len()), seed);
    }

    fn push_forward<'s>(
        &mut self,
        level: SimdLevel,
        externals: impl Iterator<Item = Option<&'s [f64]>>,
        lanes: usize,
    ) {
        self.linearize(level, lanes);
        let inner = &self.block.inner;
        let unknowns = self.block.unknown_count();
        for (index, external) in externals.enumerate() {
            let row = self.seeds.row_mut(unknowns + index, lanes);
            match external {
                Some(seed) => row.copy_from_slice(seed),
                None => row.fill(0.0),
            }
        }
        let sweep = &self.external_forward;
        sweep.run_forward(inner, level, &self.values, &mut self.seeds, lanes, no_blocks());
        for (member, &value) in inner.outputs.iter().enumerate() {
            let into = self.member_seeds.row_mut(member, lanes);
            match sweep.influences(value) {
                true => into.copy_from_slice(self.seeds.row(value as usize, lanes)),
                false => into.fill(0.0),
            }
        }
        let mut tangent = vec![0.0; unknowns];
        for lane in 0..lanes {
            for (unknown, value) in tangent.iter_mut().enumerate() {
                *value = self.member_seeds.row(unknown, lanes)[lane];
            }
            self.factors[lane].solve(&mut tangent);
            for (unknown, value) in tangent.iter().enumerate() {
                self.member_seeds.row_mut(unknown, lanes)[lane] = *value;
            }
            for member in unknowns..self.block.member_count() {
                let through: f64 = (0..unknowns)
                    .map(|unknown| self.derivative(member, unknown, lane, lanes) * tangent[unknown])
                    .sum();
                self.member_seeds.row_mut(member, lanes)[lane] += through;
            }
        }
    }

    fn pull_backward(&mut self, level: SimdLevel, lanes: usize) {
        self.linearize(level, lanes);
        let inner = &self.block.inner;
        let unknowns = self.block.unknown_count();
        let mut adjoint = vec![0.0; unknowns];
        for lane in 0..lanes {
            for (unknown, value) in adjoint.iter_mut().enumerate() {
                let through: f64 = (unknowns..self.block.member_count())
                    .map(|member| {
                        let seed = self.member_seeds.row(member, lanes)[lane];
                        self.derivative(member, unknown, lane, lanes) * seed
                    })
                    .sum();
                *value = self.member_seeds.row(unknown, lanes)[lane] + through;
            }
            self.factors[lane].solve_transposed(&mut adjoint);
            for (unknown, value) in adjoint.iter().enumerate() {
                self.member_seeds.row_mut(unknown, lanes)[lane] = *value;
            }
        }
        let sweep = &self.external_reverse;
        // Externals that influence no output are outside the sweep; their adjoint is zero.
        for external in unknowns..inner.input_count {
            self.seeds.row_mut(external, lanes).fill(0.0);
        }
        sweep.clear(inner, &mut self.seeds, lanes, no_blocks());
        for (member, &value) in inner.outputs.iter().enumerate() {
            if sweep.influences(value) {
                let seed = self.member_seeds.row(member, lanes);
                add(self.seeds.row_mut(value as usize, lanes), seed);
            }
        }
        sweep.run_backward(inner, level, &self.values, &mut self.seeds, lanes, no_blocks());
    }
}
