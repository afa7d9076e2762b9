//! Products of two bfloat16 matrices on matrix tiles.

use super::element::Element;
use super::matmul::Matrix;
use super::tiles::{Finish, Panels, TileRows, multiply};
use super::{Context, Epilogue};
use crate::simd::{LANES, STEP, TileColumns, Tiles, Vector};
use std::ops::Range;

/// Rows in order, and what they are multiplied with.
struct Sides<'a> {
    rows: TileRows<'a>,
    columns: Pairs<'a>,
    /// Whether the rows are those of the transposed right matrix.
    turned: bool,
}

/// Whether [`multiply_on_tiles`] would do this product.
pub(crate) fn fits_tiles<A: Element, B: Element>(
    context: Context,
    a: &Matrix<A>,
    b: &Matrix<B>,
) -> bool {
    context.level.tiles().is_some() && sides(a, b).is_some()
}

/// Writes the product, if processor, formats, sizes and strides let tiles do it.
pub(super) fn multiply_on_tiles<A: Element, B: Element>(
    context: Context,
    a: &Matrix<A>,
    b: &Matrix<B>,
    out: &mut [f32],
) -> bool {
    let (Some(tiles), Some(sides)) = (context.level.tiles(), sides(a, b)) else {
        return false;
    };
    let finish = Finish {
        turned: sides.turned,
        scales: None,
        epilogue: Epilogue::default(),
    };
    let count = sides.columns.count;
    multiply(
        context,
        tiles,
        sides.rows,
        &sides.columns,
        count,
        finish,
        out,
    );
    true
}

fn sides<'a, A: Element, B: Element>(a: &Matrix<'a, A>, b: &Matrix<'a, B>) -> Option<Sides<'a>> {
    let (left, right) = (A::bfloats(a.data)?, B::bfloats(b.data)?);
    let depth = a.columns;
    if depth < STEP || !depth.is_multiple_of(STEP) || a.column_stride != 1 {
        return None;
    }
    if b.column_stride == 1 && a.rows >= LANES {
        let columns = Pairs {
            data: right,
            count: b.columns,
            stride: b.row_stride,
            along: false,
        };
        let rows = TileRows {
            data: left,
            rows: a.rows,
            depth,
            stride: a.row_stride,
        };
        return Some(Sides {
            rows,
            columns,
            turned: false,
        });
    }
    if b.row_stride == 1 && b.columns >= LANES && a.rows >= LANES {
        // Columns of the right matrix lie in order, as the weights of a linear layer do.
        let columns = Pairs {
            data: left,
            count: a.rows,
            stride: a.row_stride,
            along: true,
        };
        let rows = TileRows {
            data: right,
            rows: b.columns,
            depth,
            stride: b.column_stride,
        };
        return Some(Sides {
            rows,
            columns,
            turned: true,
        });
    }
    None
}

/// Columns of bfloat16.
struct Pairs<'a> {
    data: &'a [u16],
    count: usize,
    /// From one column to the next where a column's numbers lie side by side, else from one number of
    /// a column to the next.
    stride: usize,
    along: bool,
}

impl Panels for Pairs<'_> {
    #[inline(always)]
    fn fill<V: Vector>(
        &self,
        _: V,
        _: Tiles,
        panel: usize,
        steps: Range<usize>,
        out: &mut [TileColumns],
    ) {
        let columns = panel * LANES..self.count.min((panel + 1) * LANES);
        if columns.is_empty() {
            // An odd last panel is the second half of nothing.
            return;
        }
        for (step, out) in steps.zip(out) {
            if self.along {
                for (lane, column) in columns.clone().enumerate() {
                    let numbers = &self.data[column * self.stride + step * STEP..][..STEP];
                    for (pair, out) in numbers.as_chunks::<2>().0.iter().zip(&mut out.0) {
                        out.as_chunks_mut::<2>().0[lane] = *pair;
                    }
                }
                continue;
            }
            for (pair, out) in out.0.iter_mut().enumerate() {
                let at = (step * STEP + 2 * pair) * self.stride + columns.start;
                let length = columns.len();
                let even = &self.data[at..at + length];
                let odd = &self.data[at + self.stride..][..length];
                let out = out.as_chunks_mut::<2>().0;
                match (even.first_chunk::<LANES>(), odd.first_chunk::<LANES>()) {
                    (Some(even), Some(odd)) => {
                        for lane in 0..LANES {
                            out[lane] = [even[lane], odd[lane]];
                        }
                    }
                    _ => {
                        for (out, (even, odd)) in out.iter_mut().zip(even.iter().zip(odd)) {
                            *out = [*even, *odd];
                        }
                    }
                }
            }
        }
    }
}
