//! Matrices with rows as columns.

use crate::simd::{LANES, Vector};

static ZEROS: [f32; LANES] = [0.0; LANES];

/// Writes `rows` rows of `columns` elements, `stride` apart, as columns: `to` is [columns, rows].
#[inline(always)]
pub(super) fn transpose<V: Vector>(
    v: V,
    from: &[f32],
    stride: usize,
    rows: usize,
    columns: usize,
    to: &mut [f32],
) {
    let mut square = [[0.0; LANES]; LANES];
    for row in (0..rows).step_by(LANES) {
        for column in (0..columns).step_by(LANES) {
            let line = |index: usize| &from[(row + index) * stride + column..];
            if row + LANES > rows || column + LANES > columns {
                for index in 0..LANES.min(rows - row) {
                    let line = &line(index)[..LANES.min(columns - column)];
                    for (place, value) in line.iter().enumerate() {
                        to[(column + place) * rows + row + index] = *value;
                    }
                }
                continue;
            }
            let lines = std::array::from_fn(|index| line(index).first_chunk().unwrap_or(&ZEROS));
            v.transpose(lines, &mut square);
            for (place, lanes) in square.iter().enumerate() {
                let to = &mut to[(column + place) * rows + row..];
                if let Some(to) = to.first_chunk_mut() {
                    v.store(v.load(lanes), to);
                }
            }
        }
    }
}
