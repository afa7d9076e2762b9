//! Rows of pixels as columns of sixteen tiles, and back, by pairs: for those the compiler has shuffles, where it would
//! move every fourth element on its own.

use super::transforms::OUTPUTS;
use crate::simd::LANES;

/// Rows of sixteen tiles, as columns.
#[inline(always)]
pub(super) fn split_columns(row: &[f32; OUTPUTS * LANES]) -> [[f32; LANES]; OUTPUTS] {
    let mut halves = [[0.0; 2 * LANES]; 2];
    for (index, [even, odd]) in row.as_chunks::<2>().0.iter().enumerate() {
        halves[0][index] = *even;
        halves[1][index] = *odd;
    }
    let mut columns = [[0.0; LANES]; OUTPUTS];
    for half in 0..2 {
        for (tile, [low, high]) in halves[half].as_chunks::<2>().0.iter().enumerate() {
            columns[half][tile] = *low;
            columns[half + 2][tile] = *high;
        }
    }
    columns
}

/// The inverse of [`split_columns`].
#[inline(always)]
pub(super) fn join_columns(columns: [&[f32; LANES]; OUTPUTS]) -> [f32; OUTPUTS * LANES] {
    let mut halves = [[0.0; 2 * LANES]; 2];
    for half in 0..2 {
        for (tile, pair) in halves[half].as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *pair = [columns[half][tile], columns[half + 2][tile]];
        }
    }
    let mut row = [0.0; OUTPUTS * LANES];
    for (index, pair) in row.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *pair = [halves[0][index], halves[1][index]];
    }
    row
}
