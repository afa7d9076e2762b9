//! GEMV over dense weights: few rows of activations stream the weights once.

use super::epilogue::Epilogue;
use super::matrix::LinearShape;
use crate::ops::element::{self, Load};
use crate::simd::{self, Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// Outputs whose weights are read at once.
pub(super) const OUTPUTS_AT_ONCE: usize = 4;

/// A range of outputs of all rows.
pub(crate) struct Gemv<'a, T> {
    pub(super) x: &'a [f32],
    /// Elements from the start of a row of `x` to that of the next one.
    pub(super) step: usize,
    pub(super) weights: &'a [T],
    pub(super) shape: LinearShape,
    pub(super) columns: Range<usize>,
    pub(super) epilogue: Epilogue<'a>,
    pub(super) out: &'a DisjointSlice<'a, f32>,
}

impl<T: Load> Kernel for Gemv<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        for column in self.columns.clone().step_by(OUTPUTS_AT_ONCE) {
            if self.columns.end - column < OUTPUTS_AT_ONCE {
                self.single_columns(v, column);
                break;
            }
            let mut row = 0;
            while row < self.shape.rows {
                row += match self.shape.rows - row {
                    4.. => self.tile::<V, 4>(v, row, column),
                    _ => self.tile::<V, 1>(v, row, column),
                };
            }
        }
        for row in 0..self.shape.rows {
            let start = row * self.shape.outputs;
            // SAFETY: ranges of columns do not overlap.
            let out =
                unsafe { self.out.slice_mut(start + self.columns.start..start + self.columns.end) };
            self.epilogue.apply(v, start, self.columns.clone(), out);
        }
    }
}

impl<T: Load> Gemv<'_, T> {
    #[inline(always)]
    fn weight_row(&self, row: usize) -> &[T] {
        &self.weights[row * self.shape.inputs..(row + 1) * self.shape.inputs]
    }

    #[inline(always)]
    fn x_row(&self, row: usize) -> &[f32] {
        &self.x[row * self.step..row * self.step + self.shape.inputs]
    }

    #[inline(always)]
    fn single_columns<V: Vector>(&self, v: V, first: usize) {
        for column in first..self.columns.end {
            for row in 0..self.shape.rows {
                let product = element::dot(v, self.weight_row(column), self.x_row(row));
                let at = row * self.shape.outputs + column;
                // SAFETY: ranges of columns do not overlap.
                let out = unsafe { self.out.slice_mut(at..at + 1) };
                out[0] = product;
            }
        }
    }

    /// `OUTPUTS_AT_ONCE` outputs of `ROWS` rows; returns `ROWS`.
    #[inline(always)]
    fn tile<V: Vector, const ROWS: usize>(&self, v: V, first: usize, column: usize) -> usize {
        let inputs = self.shape.inputs;
        let whole = inputs / LANES;
        let weights: [&[T]; OUTPUTS_AT_ONCE] =
            std::array::from_fn(|output| self.weight_row(column + output));
        let x: [&[f32]; ROWS] = std::array::from_fn(|row| self.x_row(first + row));
        let weight_lanes = weights.map(|row| &row.as_chunks::<LANES>().0[..whole]);
        let x_lanes = x.map(|row| &row.as_chunks::<LANES>().0[..whole]);
        let mut sums = [[v.splat(0.0); OUTPUTS_AT_ONCE]; ROWS];
        for step in 0..whole {
            let mut across = [v.splat(0.0); OUTPUTS_AT_ONCE];
            for output in 0..OUTPUTS_AT_ONCE {
                across[output] = T::load(v, &weight_lanes[output][step]);
            }
            for row in 0..ROWS {
                let x = v.load(&x_lanes[row][step]);
                for output in 0..OUTPUTS_AT_ONCE {
                    sums[row][output] = v.mul_add(across[output], x, sums[row][output]);
                }
            }
        }
        if whole * LANES < inputs {
            let mut across = [v.splat(0.0); OUTPUTS_AT_ONCE];
            for output in 0..OUTPUTS_AT_ONCE {
                across[output] = element::load_partial(v, &weights[output][whole * LANES..]);
            }
            for row in 0..ROWS {
                let x = simd::load_partial(v, &x[row][whole * LANES..], 0.0);
                for output in 0..OUTPUTS_AT_ONCE {
                    sums[row][output] = v.mul_add(across[output], x, sums[row][output]);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let at = (first + row) * self.shape.outputs + column;
            // SAFETY: ranges of columns do not overlap.
            let out = unsafe { self.out.slice_mut(at..at + OUTPUTS_AT_ONCE) };
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = v.sum(*sum);
            }
        }
        ROWS
    }
}
