//! Damped Newton and fixed-point iteration of one point of a block.

use super::lu::LuFactors;
use crate::program::{Block, Method};

/// State of a point's iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Evaluate at the new position.
    Continue,
    /// The position is the solution.
    Converged,
    /// The iteration cannot continue.
    Failed,
}

/// The smallest relative tolerance that 64-bit floats can satisfy.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// The smallest step length of the line search.
const MIN_STEP_LENGTH: f64 = 1.0 / 1_073_741_824.0;
/// Fraction of the predicted decrease that a step must reach (Armijo's rule).
const ARMIJO: f64 = 1e-4;

/// The iteration of one point, with backtracking line search for Newton's method.
#[derive(Clone, Debug, Default)]
pub(super) struct Iteration {
    /// The last position from which a step was taken.
    base: Vec<f64>,
    step: Vec<f64>,
    scale: Vec<f64>,
    base_norm: f64,
    /// Length of the step to the current position; 0 before the first step.
    step_length: f64,
    /// Steps taken, line-search halvings excluded.
    steps: u32,
}

impl Iteration {
    /// Moves `position`, given the relations' values there and their derivatives row by row.
    pub(super) fn advance(
        &mut self,
        block: &Block,
        position: &mut [f64],
        relations: &[f64],
        derivatives: &[f64],
    ) -> Progress {
        match block.method {
            Method::FixedPoint { damping } => {
                self.steps += 1;
                match fixed_point_step(block, damping, position, relations) {
                    Progress::Continue if self.steps >= block.max_iterations => Progress::Failed,
                    progress => progress,
                }
            }
            Method::Newton => self.newton(block, position, relations, derivatives),
        }
    }

    fn newton(
        &mut self,
        block: &Block,
        position: &mut [f64],
        relations: &[f64],
        derivatives: &[f64],
    ) -> Progress {
        let residual: Vec<f64> = relations.iter().zip(&*position).map(|(g, x)| g - x).collect();
        if self.step_length > 0.0 {
            let norm = scaled_norm(&residual, &self.scale);
            let sufficient = norm <= (1.0 - ARMIJO * self.step_length) * self.base_norm;
            if !sufficient {
                return self.backtrack(block, position);
            }
        }
        if residual.iter().any(|value| !value.is_finite()) {
            return Progress::Failed;
        }
        let size = |index: usize| position[index].abs().max(relations[index].abs());
        if (0..residual.len()).all(|index| residual[index].abs() <= ROUNDING / 2.0 * size(index)) {
            return Progress::Converged;
        }
        if self.steps == block.max_iterations {
            return Progress::Failed;
        }
        self.steps += 1;
        self.step = newton_step(&residual, derivatives);
        self.scale = (0..residual.len())
            .map(|index| size(index).max(self.step[index].abs()).max(f64::MIN_POSITIVE))
            .collect();
        self.base_norm = scaled_norm(&residual, &self.scale);
        self.base = position.to_vec();
        self.step_length = 1.0;
        let mut small = true;
        for (index, x) in position.iter_mut().enumerate() {
            let full = *x + self.step[index];
            small &= self.step[index].abs() <= tolerance(block, x.abs().max(full.abs()));
            *x = full.clamp(block.lower[index], block.upper[index]);
        }
        match small {
            true => Progress::Converged,
            false => Progress::Continue,
        }
    }

    /// Backtracks: halves the step length.
    fn backtrack(&mut self, block: &Block, position: &mut [f64]) -> Progress {
        self.step_length *= 0.5;
        if self.step_length < MIN_STEP_LENGTH {
            return Progress::Failed;
        }
        for (index, x) in position.iter_mut().enumerate() {
            let shorter = self.base[index] + self.step_length * self.step[index];
            *x = shorter.clamp(block.lower[index], block.upper[index]);
        }
        Progress::Continue
    }
}

fn tolerance(block: &Block, size: f64) -> f64 {
    block.absolute_tolerance + block.relative_tolerance.max(ROUNDING) * size
}

/// The largest entry relative to its scale; NaN if any entry is.
fn scaled_norm(residual: &[f64], scale: &[f64]) -> f64 {
    let relative = residual.iter().zip(scale).map(|(value, scale)| value.abs() / scale);
    relative.fold(
        0.0,
        |largest, value| {
            if value > largest || value.is_nan() { value } else { largest }
        },
    )
}

/// Solves `(I - G) step = residual`; falls back to a fixed-point step where that is singular.
fn newton_step(residual: &[f64], derivatives: &[f64]) -> Vec<f64> {
    let mut step = residual.to_vec();
    identity_minus(residual.len(), derivatives).solve(&mut step);
    if step.iter().all(|value| value.is_finite()) { step } else { residual.to_vec() }
}

/// LU factors of `I - G`.
pub(super) fn identity_minus(size: usize, derivatives: &[f64]) -> LuFactors {
    let mut matrix: Vec<f64> = derivatives[..size * size].iter().map(|entry| -entry).collect();
    for index in 0..size {
        matrix[index * size + index] += 1.0;
    }
    LuFactors::new(size, matrix)
}

/// One damped fixed-point step.
fn fixed_point_step(
    block: &Block,
    damping: f64,
    position: &mut [f64],
    relations: &[f64],
) -> Progress {
    let mut small = true;
    for (index, x) in position.iter_mut().enumerate() {
        let relation = relations[index];
        if !relation.is_finite() {
            return Progress::Failed;
        }
        small &= (relation - *x).abs() <= tolerance(block, x.abs().max(relation.abs()));
        let moved = *x + damping * (relation - *x);
        *x = moved.clamp(block.lower[index], block.upper[index]);
    }
    if small { Progress::Converged } else { Progress::Continue }
}
