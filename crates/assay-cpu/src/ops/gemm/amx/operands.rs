//! Operands and epilogue of a product on AMX tiles.

use crate::ops::gemm::epilogue::Epilogue;
use crate::simd::{Amx, LANES, TileB, Vector};
use std::ops::Range;

/// Rows and columns of an output block: 2 x 2 tiles.
pub(super) const BLOCK_SIDE: usize = 2 * LANES;

/// The B operand, in panels of sixteen columns.
pub(crate) trait PanelSource: Sync {
    /// How many bfloat16 terms an element is the sum of.
    const TERMS: usize = 1;
    /// `fill` is called with multiples of this many steps.
    const GRAIN: usize = 1;

    /// Writes B tiles of some steps of panel `panel`, for each term. Missing columns may hold any
    /// value.
    fn fill<V: Vector>(&self, v: V, amx: Amx, panel: usize, steps: Range<usize>, out: &mut [TileB]);
}

/// The A operand: at least sixteen rows of bfloat16, each a multiple of [`TILE_K`](crate::simd::TILE_K)
/// elements.
#[derive(Clone, Copy)]
pub(crate) struct Bf16Rows<'a> {
    pub data: &'a [u16],
    pub rows: usize,
    pub depth: usize,
    /// Elements from one row to the next.
    pub stride: usize,
}

/// What is applied to the accumulators: a scale per output, then the epilogue of a linear layer.
#[derive(Clone, Copy, Default)]
pub(crate) struct TileEpilogue<'a> {
    /// Whether the product is stored transposed.
    pub transposed: bool,
    pub scales: Option<&'a [f32]>,
    pub epilogue: Epilogue<'a>,
}

impl TileEpilogue<'_> {
    pub(super) fn is_identity(&self) -> bool {
        self.scales.is_none() && self.epilogue.is_empty()
    }
}
