//! GEMM of two bfloat16 matrices on AMX tiles.

use super::operands::{Bf16Rows, PanelSource, TileEpilogue};
use super::tile_gemm::tile_gemm;
use crate::context::Context;
use crate::ops::element::Load;
use crate::ops::gemm::epilogue::Epilogue;
use crate::ops::gemm::matrix::Matrix;
use crate::simd::{Amx, LANES, TILE_K, TileB, Vector};
use std::ops::Range;

/// The A and B operands of a product.
struct AmxOperands<'a> {
    rows: Bf16Rows<'a>,
    columns: Bf16Columns<'a>,
    /// Whether A is the transposed right matrix.
    transposed: bool,
}

/// Whether [`amx_matmul`] supports this product.
pub(crate) fn amx_matmul_applies<A: Load, B: Load>(
    context: Context,
    a: &Matrix<A>,
    b: &Matrix<B>,
) -> bool {
    context.level.amx().is_some() && operands(a, b).is_some()
}

/// Writes the product if the CPU, element types, sizes and strides allow AMX; returns whether it did.
pub(crate) fn amx_matmul<A: Load, B: Load>(
    context: Context,
    a: &Matrix<A>,
    b: &Matrix<B>,
    out: &mut [f32],
) -> bool {
    let (Some(amx), Some(operands)) = (context.level.amx(), operands(a, b)) else {
        return false;
    };
    let finish = TileEpilogue {
        transposed: operands.transposed,
        scales: None,
        epilogue: Epilogue::default(),
    };
    let count = operands.columns.count;
    tile_gemm(context, amx, operands.rows, &operands.columns, count, finish, out);
    true
}

fn operands<'a, A: Load, B: Load>(a: &Matrix<'a, A>, b: &Matrix<'a, B>) -> Option<AmxOperands<'a>> {
    let (left, right) = (A::as_bf16_bits(a.data)?, B::as_bf16_bits(b.data)?);
    let depth = a.columns;
    if depth < TILE_K || !depth.is_multiple_of(TILE_K) || a.column_stride != 1 {
        return None;
    }
    if b.column_stride == 1 && a.rows >= LANES {
        let columns =
            Bf16Columns { data: right, count: b.columns, stride: b.row_stride, contiguous: false };
        let rows = Bf16Rows { data: left, rows: a.rows, depth, stride: a.row_stride };
        return Some(AmxOperands { rows, columns, transposed: false });
    }
    if b.row_stride == 1 && b.columns >= LANES && a.rows >= LANES {
        // Columns of the right matrix are contiguous, as the weights of a linear layer are.
        let columns =
            Bf16Columns { data: left, count: a.rows, stride: a.row_stride, contiguous: true };
        let rows = Bf16Rows { data: right, rows: b.columns, depth, stride: b.column_stride };
        return Some(AmxOperands { rows, columns, transposed: true });
    }
    None
}

/// The B operand: columns of bfloat16.
struct Bf16Columns<'a> {
    data: &'a [u16],
    count: usize,
    /// From one column to the next where columns are contiguous, else from one element of a column to
    /// the next.
    stride: usize,
    contiguous: bool,
}

impl PanelSource for Bf16Columns<'_> {
    #[inline(always)]
    fn fill<V: Vector>(&self, _: V, _: Amx, panel: usize, steps: Range<usize>, out: &mut [TileB]) {
        let columns = panel * LANES..self.count.min((panel + 1) * LANES);
        if columns.is_empty() {
            // The second panel of an odd last pair does not exist.
            return;
        }
        for (step, out) in steps.zip(out) {
            if self.contiguous {
                for (lane, column) in columns.clone().enumerate() {
                    let numbers = &self.data[column * self.stride + step * TILE_K..][..TILE_K];
                    for (pair, out) in numbers.as_chunks::<2>().0.iter().zip(&mut out.0) {
                        out.as_chunks_mut::<2>().0[lane] = *pair;
                    }
                }
                continue;
            }
            for (pair, out) in out.0.iter_mut().enumerate() {
                let at = (step * TILE_K + 2 * pair) * self.stride + columns.start;
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
