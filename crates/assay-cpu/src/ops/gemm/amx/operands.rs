//! Operands and epilogue of a product on AMX tiles.

use crate::ops::gemm::epilogue::Epilogue;
use crate::simd::{Amx, LANES, TileB, Vector};
use std::ops::Range;

/// Rows and columns that are multiplied at a time: two amx by two.
pub(super) const BLOCK_SIDE: usize = 2 * LANES;

/// The right side of a product: numbers of sixteen columns at a time.
pub(crate) trait PanelSource: Sync {
    /// Bfloat16 numbers that a number is the sum of.
    const TERMS: usize = 1;
    /// Steps are filled in multiples of this.
    const GRAIN: usize = 1;

    /// Writes some steps of the columns from `16 panel` on, for each term; whatever there is in place of
    /// columns that are not there.
    fn fill<V: Vector>(&self, v: V, amx: Amx, panel: usize, steps: Range<usize>, out: &mut [TileB]);
}

/// Rows of bfloat16 in memory, a multiple of [`TILE_K`] numbers and at least sixteen of them.
#[derive(Clone, Copy)]
pub(crate) struct Bf16Rows<'a> {
    pub data: &'a [u16],
    pub rows: usize,
    pub depth: usize,
    /// Numbers from one row to the next.
    pub stride: usize,
}

/// What becomes of sums: times a number for each output, then the rest of a linear layer.
#[derive(Clone, Copy, Default)]
pub(crate) struct TileEpilogue<'a> {
    /// Whether rows of the product are columns of the output.
    pub transposed: bool,
    pub scales: Option<&'a [f32]>,
    pub epilogue: Epilogue<'a>,
}

impl TileEpilogue<'_> {
    pub(super) fn is_identity(&self) -> bool {
        self.scales.is_none() && self.epilogue.is_empty()
    }
}
