//! Copies of matrix blocks in the order in which the innermost tile reads them.

use super::element::Element;
use super::matmul::Matrix;
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
                for (out, value) in out.iter_mut().zip(&matrix.data[start..start + count]) {
                    *out = (*value).into();
                }
            }
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
