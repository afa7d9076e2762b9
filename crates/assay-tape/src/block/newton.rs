//! One point's search for the solution of a block: what to try next.

use super::linear::Factored;
use crate::program::{Block, Method};

/// Whether a point's search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Try the new position.
    Continue,
    /// The position is the solution.
    Converged,
    /// There is no use in going on.
    Failed,
}

/// Tolerances below this share of a value ask for more than floats hold.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// Smallest share of a step that is tried.
const SHORTEST_STEP: f64 = 1.0 / 1_073_741_824.0;
/// Share of the promised decrease that a step must deliver (Armijo's rule).
const SUFFICIENT: f64 = 1e-4;

/// The search of one point.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// The last position from which a step was taken.
    base: Vec<f64>,
    step: Vec<f64>,
    scale: Vec<f64>,
    base_norm: f64,
    /// Share of the step that led to the present position; 0 before the first step.
    share: f64,
    /// Steps taken; trying shares of one does not count.
    steps: u32,
}

impl Search {
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
                match substitute(block, damping, position, relations) {
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
        let residual: Vec<f64> = relations
            .iter()
            .zip(&*position)
            .map(|(g, x)| g - x)
            .collect();
        if self.share > 0.0 {
            let norm = scaled_norm(&residual, &self.scale);
            let enough = norm <= (1.0 - SUFFICIENT * self.share) * self.base_norm;
            if !enough {
                return self.shorten(block, position);
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
            .map(|index| {
                size(index)
                    .max(self.step[index].abs())
                    .max(f64::MIN_POSITIVE)
            })
            .collect();
        self.base_norm = scaled_norm(&residual, &self.scale);
        self.base = position.to_vec();
        self.share = 1.0;
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

    /// Goes back and tries half the step.
    fn shorten(&mut self, block: &Block, position: &mut [f64]) -> Progress {
        self.share *= 0.5;
        if self.share < SHORTEST_STEP {
            return Progress::Failed;
        }
        for (index, x) in position.iter_mut().enumerate() {
            let shorter = self.base[index] + self.share * self.step[index];
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
    let relative = residual
        .iter()
        .zip(scale)
        .map(|(value, scale)| value.abs() / scale);
    relative.fold(0.0, |largest, value| {
        if value > largest || value.is_nan() {
            value
        } else {
            largest
        }
    })
}

/// Solves `(I - G) step = residual`; substitutes plainly where that is singular.
fn newton_step(residual: &[f64], derivatives: &[f64]) -> Vec<f64> {
    let mut step = residual.to_vec();
    one_minus(residual.len(), derivatives).solve(&mut step);
    if step.iter().all(|value| value.is_finite()) {
        step
    } else {
        residual.to_vec()
    }
}

/// The factored matrix `I - G`.
pub(super) fn one_minus(size: usize, derivatives: &[f64]) -> Factored {
    let mut matrix: Vec<f64> = derivatives[..size * size]
        .iter()
        .map(|entry| -entry)
        .collect();
    for index in 0..size {
        matrix[index * size + index] += 1.0;
    }
    Factored::new(size, matrix)
}

fn substitute(block: &Block, damping: f64, position: &mut [f64], relations: &[f64]) -> Progress {
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
    if small {
        Progress::Converged
    } else {
        Progress::Continue
    }
}
