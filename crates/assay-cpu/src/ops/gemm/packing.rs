//! Packing of matrix blocks into panels, in the order in which the micro-kernel reads them.

use super::matrix::Matrix;
use crate::context::Context;
use crate::ops::element::Load;
use crate::simd::{LANES, prefetch};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// Packs rows `rows` and columns `columns` into panels of `PANEL` rows, column by column.
///
/// The last panel is padded with zeros. `out` holds whole panels.
pub(super) fn pack_panels<T: Load, const PANEL: usize>(
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
                // The next panel reads the cache lines beside these, far apart from each other.
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
            pack_contiguous_rows(matrix, first, count, columns.start, steps);
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

/// Packs rows that are contiguous in memory, sixteen columns at a time so that writes stay in L1.
fn pack_contiguous_rows<T: Load, const PANEL: usize>(
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
            match (line.first_chunk::<LANES>(), steps.first_chunk_mut::<LANES>()) {
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

/// Packs on all threads, a range of panels each.
pub(super) fn pack<T: Load>(
    context: Context,
    matrix: &Matrix<T>,
    panel: usize,
    rows: &Range<usize>,
    columns: &Range<usize>,
    out: &mut [f32],
) {
    let size = panel * columns.len();
    let out = DisjointSlice::new(out);
    // Tens of thousands of elements amortize waking a thread.
    let grain = (1_usize << 15).div_ceil(size);
    context.threads.parallel_for(rows.len().div_ceil(panel), grain, &|panels| {
        // SAFETY: ranges of panels do not overlap.
        let out = unsafe { out.slice_mut(panels.start * size..panels.end * size) };
        let end = (rows.start + panels.end * panel).min(rows.end);
        let rows = rows.start + panels.start * panel..end;
        match panel {
            2 => pack_panels::<T, 2>(matrix, rows, columns.clone(), out),
            6 => pack_panels::<T, 6>(matrix, rows, columns.clone(), out),
            12 => pack_panels::<T, 12>(matrix, rows, columns.clone(), out),
            16 => pack_panels::<T, 16>(matrix, rows, columns.clone(), out),
            _ => pack_panels::<T, 32>(matrix, rows, columns.clone(), out),
        }
    });
}

/// Consecutive ranges of `length` that cover `range`; the last may be shorter.
pub(super) fn chunks(range: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(length).map(move |start| start..(start + length).min(end))
}
