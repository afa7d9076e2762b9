//! What evaluation and sweeps need of the solver of an implicit block.
//!
//! A trait, because the solver itself evaluates and sweeps over the block's inner program.

use super::input::Input;
use super::simd_level::SimdLevel;

/// Solves an implicit block over a chunk of points and differentiates its solution.
pub(super) trait ImplicitSolver {
    /// Solves at each lane; returns how many lanes did not converge.
    fn solve(
        &mut self,
        level: SimdLevel,
        start: &[Input<'_>],
        externals: &[Input<'_>],
        lanes: usize,
    ) -> usize;

    /// A member of the solution at each lane.
    fn member(&self, member: usize, lanes: usize) -> &[f64];

    /// Forward mode: tangents of the members from those of the externals, `None` for zero.
    fn push_forward<'s>(
        &mut self,
        level: SimdLevel,
        externals: impl Iterator<Item = Option<&'s [f64]>>,
        lanes: usize,
    );

    /// The tangent of a member after [`ImplicitSolver::push_forward`].
    fn member_seed(&self, member: usize, lanes: usize) -> &[f64];

    /// Zeroes the adjoints of the members.
    fn clear_member_seeds(&mut self, lanes: usize);

    /// Adds to the adjoint of a member.
    fn add_member_seed(&mut self, member: usize, seed: &[f64]);

    /// Reverse mode: adjoints of the externals from those of the members.
    fn pull_backward(&mut self, level: SimdLevel, lanes: usize);

    /// The adjoint of an external after [`ImplicitSolver::pull_backward`].
    fn external_seed(&self, external: usize, lanes: usize) -> &[f64];
}
