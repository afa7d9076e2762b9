//! Operands and results of one step on AMX tiles.

use crate::simd::vector::LANES;

/// The K extent of a tile: bfloat16 elements per row.
pub(crate) const TILE_K: usize = 32;
/// A B tile of sixteen columns in VNNI layout: pairs of elements of a column, column by column.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct TileB(pub [[u16; TILE_K]; LANES]);
/// An accumulator tile of sixteen rows by sixteen columns.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct TileC(pub [[f32; LANES]; LANES]);

/// Two A tiles in memory, and two B tiles for each step of K.
#[derive(Clone, Copy)]
// Unused on targets without AMX.
#[cfg_attr(not(level = "avx512"), allow(dead_code))]
pub(crate) struct TileOperands<'a> {
    /// The first row of each A tile.
    pub rows: [*const u16; 2],
    /// Bytes from one row to the next.
    pub row_bytes: usize,
    /// `steps` times `terms` B tiles each: A is read again for each term.
    pub columns: [&'a [TileB]; 2],
    pub steps: usize,
    pub terms: usize,
    /// Whether to zero the accumulators first.
    pub zero_accumulators: bool,
}
