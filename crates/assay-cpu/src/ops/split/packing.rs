//! Rows and columns of single-precision numbers as steps of split operands.

use crate::ops::element::{Load, load_partial};
use crate::simd::{Amx, Kernel, LANES, SPLIT_SIDE, SPLIT_TERMS, SplitStep, TILE_K, TileB, Vector};

/// Packs at most 32 rows, each of as many numbers, as the left operand; rows that are missing are zero.
/// Returns whether all numbers are finite.
///
/// `row(i)` is the i-th row; every number is multiplied by `factor`.
#[inline(always)]
pub(crate) fn pack_rows<'a, V: Vector>(
    v: V,
    amx: Amx,
    rows: usize,
    factor: f32,
    row: impl Fn(usize) -> &'a [f32],
    out: &mut [SplitStep],
) -> bool {
    let mut finite = true;
    for index in 0..SPLIT_SIDE {
        let values = if index < rows { row(index) } else { &[] };
        let (whole, rest) = values.as_chunks::<TILE_K>();
        for (step, out) in out.iter_mut().enumerate() {
            let mut values = [0.0; TILE_K];
            match whole.get(step) {
                Some(whole) => {
                    let lanes = values.as_chunks_mut::<LANES>().0;
                    for (whole, values) in whole.as_chunks::<LANES>().0.iter().zip(lanes) {
                        v.store(v.mul(v.load(whole), v.splat(factor)), values);
                    }
                }
                None if step == whole.len() => {
                    for (value, rest) in values.iter_mut().zip(rest) {
                        *value = rest * factor;
                    }
                }
                None => {}
            }
            finite &= amx.split(&values, out.row(index));
        }
    }
    finite
}

/// Packs at most 32 columns, each of as many adjacent numbers, as the right operand; columns that are
/// missing are zero. Returns whether all numbers are finite.
#[inline(always)]
pub(crate) fn pack_columns<'a, V: Vector, T: Load>(
    v: V,
    amx: Amx,
    columns: usize,
    column: impl Fn(usize) -> &'a [T],
    out: &mut [SplitStep],
) -> bool {
    let mut finite = true;
    let mut squares = [const { TileB([[0; TILE_K]; LANES]) }; SPLIT_TERMS];
    for (step, out) in out.iter_mut().enumerate() {
        for side in 0..2 {
            for lane in 0..LANES {
                let index = side * LANES + lane;
                let mut values = [0.0; TILE_K];
                if index < columns {
                    let column = column(index);
                    let part = &column[step * TILE_K..column.len().min((step + 1) * TILE_K)];
                    let (whole, rest) = part.as_chunks::<LANES>();
                    let parts = values.as_chunks_mut::<LANES>().0;
                    for (part, values) in whole.iter().zip(parts.iter_mut()) {
                        v.store(T::load(v, part), values);
                    }
                    if !rest.is_empty() {
                        v.store(load_partial(v, rest), &mut parts[whole.len()]);
                    }
                }
                let terms = squares.each_mut().map(|square| &mut square.0[lane]);
                finite &= amx.split(&values, terms);
            }
            for (square, tiles) in squares.iter().zip(&mut out.0) {
                transpose(v, square, &mut tiles[side]);
            }
        }
    }
    finite
}

/// A panel of 32 rows of a matrix, as the left operand.
pub(crate) struct PackRows<'a> {
    amx: Amx,
    rows: &'a [f32],
    /// Of each row.
    width: usize,
    out: &'a mut [SplitStep],
}

impl<'a> PackRows<'a> {
    pub fn new(
        amx: Amx,
        rows: &'a [f32],
        width: usize,
        panel: usize,
        out: &'a mut [SplitStep],
    ) -> Self {
        PackRows { amx, rows: &rows[panel * SPLIT_SIDE * width..], width, out }
    }
}

impl Kernel for PackRows<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let PackRows { amx, rows, width, out } = self;
        let row = |row: usize| &rows[row * width..(row + 1) * width];
        pack_rows(v, amx, rows.len() / width, 1.0, row, out)
    }
}

/// The weights of a panel of 32 outputs of a linear layer.
pub(crate) struct PackColumns<'a, T> {
    amx: Amx,
    weights: &'a [T],
    /// Of each output.
    inputs: usize,
    out: &'a mut [SplitStep],
}

impl<'a, T> PackColumns<'a, T> {
    pub fn new(
        amx: Amx,
        weights: &'a [T],
        inputs: usize,
        panel: usize,
        out: &'a mut [SplitStep],
    ) -> Self {
        PackColumns { amx, weights: &weights[panel * SPLIT_SIDE * inputs..], inputs, out }
    }
}

impl<T: Load> Kernel for PackColumns<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let PackColumns { amx, weights, inputs, out } = self;
        let column = |lane: usize| &weights[lane * inputs..(lane + 1) * inputs];
        pack_columns(v, amx, weights.len() / inputs, column, out)
    }
}

/// Pairs of a row as pairs of a column.
#[inline(always)]
fn transpose<V: Vector>(v: V, from: &TileB, to: &mut TileB) {
    // SAFETY: a pair has the size of a float, any bits of which are valid, and tiles are aligned.
    let (from, to) = unsafe {
        (
            &*std::ptr::from_ref(from).cast::<[[f32; LANES]; LANES]>(),
            &mut *std::ptr::from_mut(to).cast::<[[f32; LANES]; LANES]>(),
        )
    };
    let mut lines = [&from[0]; LANES];
    for (line, from) in lines.iter_mut().zip(from) {
        *line = from;
    }
    v.transpose(lines, to);
}
