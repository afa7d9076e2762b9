//! Operands and results of one step on AMX tiles.

use crate::simd::vector::LANES;

/// Numbers of the inner dimension that one step multiplies.
pub(crate) const TILE_K: usize = 32;
/// Sixteen columns of a step: two numbers of a column beside two of the next, then the next two.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct TileB(pub [[u16; TILE_K]; LANES]);
/// TileC of sixteen rows by sixteen columns.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct TileC(pub [[f32; LANES]; LANES]);

/// Two times sixteen rows in memory, and two times sixteen columns for each step.
#[derive(Clone, Copy)]
// Nobody reads them where there are no tiles.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) struct TileOperands<'a> {
    /// The first of sixteen rows of bfloat16, twice.
    pub rows: [*const u16; 2],
    /// Bytes from one row to the next.
    pub row_bytes: usize,
    /// As many as `steps` times `terms`: rows begin again with each term.
    pub columns: [&'a [TileB]; 2],
    pub steps: usize,
    pub terms: usize,
    /// Whether to begin at zero instead of adding.
    pub fresh: bool,
}
