//! Linear layers over bfloat16 weights on AMX tiles: weights are the A operand, read in place, and
//! activations are the B operand.
//!
//! An `f32` activation is exactly the sum of three bfloat16 terms, so only accumulation rounds.

use super::operands::{Bf16Rows, PanelSource, TileEpilogue};
use super::tile_gemm::tile_gemm;
use crate::context::Context;
use crate::ops::gemm::epilogue::Epilogue;
use crate::ops::gemm::matrix::LinearShape;
use crate::simd::{Amx, LANES, TILE_K, TileB, Vector};
use std::ops::Range;

/// Writes the layer's outputs: at least sixteen, with inputs a multiple of `TILE_K`.
pub(crate) fn amx_linear(
    context: Context,
    amx: Amx,
    x: &[f32],
    weights: &[u16],
    shape: LinearShape,
    epilogue: Epilogue,
    out: &mut [f32],
) {
    let rows =
        Bf16Rows { data: weights, rows: shape.outputs, depth: shape.inputs, stride: shape.inputs };
    let finish = TileEpilogue { transposed: true, scales: None, epilogue };
    tile_gemm(context, amx, rows, &SplitActivations { x, shape }, shape.rows, finish, out);
}

/// Whether [`amx_linear`] can do this.
pub(crate) fn amx_linear_applies(shape: LinearShape) -> bool {
    shape.rows >= LANES
        && shape.outputs >= LANES
        && shape.inputs >= TILE_K
        && shape.inputs.is_multiple_of(TILE_K)
}

/// Activations split into three bfloat16 terms.
struct SplitActivations<'a> {
    x: &'a [f32],
    shape: LinearShape,
}

impl PanelSource for SplitActivations<'_> {
    const TERMS: usize = 3;

    #[inline(always)]
    fn fill<V: Vector>(&self, _: V, _: Amx, panel: usize, steps: Range<usize>, out: &mut [TileB]) {
        let length = steps.len();
        for lane in 0..LANES {
            let row = panel * LANES + lane;
            if row >= self.shape.rows {
                break;
            }
            let x = &self.x[row * self.shape.inputs + steps.start * TILE_K..][..length * TILE_K];
            for (step, x) in x.as_chunks::<TILE_K>().0.iter().enumerate() {
                let mut parts = [[0; TILE_K]; 3];
                split(x, &mut parts);
                for (term, part) in parts.iter().enumerate() {
                    let columns = &mut out[term * length + step];
                    for (pair, columns) in part.as_chunks::<2>().0.iter().zip(&mut columns.0) {
                        columns.as_chunks_mut::<2>().0[lane] = *pair;
                    }
                }
            }
        }
    }
}

/// The bits of an `f32` that bfloat16 keeps.
const UPPER: u32 = 0xFFFF_0000;
/// The quiet bit, which keeps a truncated NaN from becoming infinity.
const QUIET: u32 = 0x0040_0000;

/// The terms of each value, smallest first; truncated instead of rounded, so that none overflows.
#[inline(always)]
fn split(x: &[f32; TILE_K], parts: &mut [[u16; TILE_K]; 3]) {
    for index in 0..TILE_K {
        let value = x[index];
        let bits = value.to_bits() | if value.is_nan() { QUIET } else { 0 };
        let large = bits & UPPER;
        // Infinity has no remainder: infinity minus infinity is NaN.
        let rest = value - f32::from_bits(large);
        let rest = if value.is_finite() { rest } else { 0.0 };
        let middle = rest.to_bits() & UPPER;
        let small = (rest - f32::from_bits(middle)).to_bits();
        parts[0][index] = (small >> 16) as u16;
        parts[1][index] = (middle >> 16) as u16;
        parts[2][index] = (large >> 16) as u16;
    }
}
