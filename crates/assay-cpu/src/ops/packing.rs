//! Copies of matrix blocks in the order in which the innermost tile reads them.

use super::element::Element;
use super::matmul::Matrix;
use crate::simd::{LANES, prefetch};
use std::ops::Range;

/// Rows `rows` and columns `columns`, as panels of `PANEL` rows that go column by column.
///
/// The last panel is filled up with zeros. `out` holds whole panels.
pub(super) fn pack_rows<T: Element, const PANEL: usize>(
    matrix: &Matrix<T>,
    rows: Range<usize>,
    columns: Range<usize>,
    out: &mut [f32],
) {
    let depth = columns.len();
    for (panel, out) in out.chunks_exact_mut(PANEL * depth).enumerate() {
        let first = rows.start + panel * PANEL;
        let count = PANEL.min(rows.end - first);
        let steps = out.as_chunks_mut::<PANEL>().0;
        if count < PANEL {
            steps.fill([0.0; PANEL]);
        }
        if matrix.row_stride == 1 {
            for (out, column) in steps.iter_mut().zip(columns.clone()) {
                let start = matrix.offset(first, column);
                let line = &matrix.data[start..start + count];
                // The panel beside this one is next, in lines far apart.
                prefetch(line.as_ptr().wrapping_add(PANEL));
                prefetch(line.as_ptr().wrapping_add(PANEL + PANEL / 2));
                match line.first_chunk::<PANEL>() {
                    Some(line) => *out = line.map(Into::into),
                    None => {
                        for (out, value) in out.iter_mut().zip(line) {
                            *out = (*value).into();
                        }
                    }
                }
            }
        } else if matrix.column_stride == 1 {
            pack_lines(matrix, first, count, columns.start, steps);
        } else {
            for row in 0..count {
                let start = matrix.offset(first + row, columns.start);
                let line = matrix.data[start..].iter().step_by(matrix.column_stride);
                for (out, value) in steps.iter_mut().zip(line) {
                    out[row] = (*value).into();
                }
            }
        }
    }
}

/// Rows whose numbers lie side by side, sixteen columns at a time: what is written stays close.
fn pack_lines<T: Element, const PANEL: usize>(
    matrix: &Matrix<T>,
    first: usize,
    count: usize,
    column: usize,
    steps: &mut [[f32; PANEL]],
) {
    for (block, steps) in steps.chunks_mut(LANES).enumerate() {
        for row in 0..count {
            let start = matrix.offset(first + row, column + block * LANES);
            let line = &matrix.data[start..start + steps.len()];
            prefetch(line.as_ptr().wrapping_add(4 * LANES));
            match (
                line.first_chunk::<LANES>(),
                steps.first_chunk_mut::<LANES>(),
            ) {
                (Some(line), Some(steps)) => {
                    for index in 0..LANES {
                        steps[index][row] = line[index].into();
                    }
                }
                _ => {
                    for (out, value) in steps.iter_mut().zip(line) {
                        out[row] = (*value).into();
                    }
                }
            }
        }
    }
}
