//! Which algorithm transforms rows of complex numbers.

use super::chirp::transform_by_chirp;
use super::long::Matrix;
use super::plan::Plan;
use super::rows::{Direction, transform_rows};
use crate::context::Context;

/// Rows below which a long one is transformed as a matrix, and its least length.
const FEW_ROWS: usize = 8;
const MIN_MATRIX: usize = 1_024;
/// The length from which sixteen rows are too many for a core's cache.
const MOST_LANES_LENGTH: usize = 1 << 15;

/// Transforms rows of `length` interleaved complex numbers.
pub(super) fn transform(
    context: Context,
    length: usize,
    direction: Direction,
    x: &[f32],
    out: &mut [f32],
) {
    let rows = x.len() / (2 * length);
    let as_matrix = length > MOST_LANES_LENGTH || (rows < FEW_ROWS && length >= MIN_MATRIX);
    if as_matrix && let Some(matrix) = Matrix::of(length) {
        let mut middle = vec![0.0; 2 * length];
        for (x, out) in x.chunks_exact(2 * length).zip(out.chunks_exact_mut(2 * length)) {
            matrix.transform(context, direction, x, &mut middle, out);
        }
        return;
    }
    match Plan::of(length) {
        Some(plan) => transform_rows(context, &plan, direction, x, out),
        None => transform_by_chirp(context, length, direction, x, out, transform),
    }
}
