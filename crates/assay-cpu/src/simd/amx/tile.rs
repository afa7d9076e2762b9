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
#[cfg_attr(not(level = "avx512+vnni"), allow(dead_code))]
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

/// How many bfloat16 terms a single-precision number is the sum of; the sum of two has 16 bits of its fraction.
pub(crate) const SPLIT_TERMS: usize = 3;

/// One step of K of 32 rows, or of 32 columns, of single-precision numbers: two tiles of their first terms,
/// two of the second, and so on. A tile of rows has a row of [`TILE_K`] elements in each line.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct SplitStep<const TERMS: usize = SPLIT_TERMS>(pub [[TileB; 2]; TERMS]);

/// Rows, or columns, of a [`SplitStep`].
pub(crate) const SPLIT_SIDE: usize = 2 * LANES;

impl<const TERMS: usize> SplitStep<TERMS> {
    /// The terms of a row.
    #[inline(always)]
    pub fn row(&mut self, row: usize) -> [&mut [u16; TILE_K]; TERMS] {
        self.0.each_mut().map(|tiles| &mut tiles[row / LANES].0[row % LANES])
    }
}

/// Where the columns of each step are: bytes from the first one's.
pub(crate) struct StepOffsets {
    #[cfg_attr(not(level = "avx512+vnni"), allow(dead_code))]
    pub(super) bytes: Vec<usize>,
    /// The largest of them.
    #[cfg_attr(not(level = "avx512+vnni"), allow(dead_code))]
    pub(super) most: usize,
}

impl StepOffsets {
    pub fn new(bytes: Vec<usize>) -> Self {
        let most = bytes.iter().copied().max().unwrap_or(0);
        StepOffsets { bytes, most }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bytes.len()
    }

    /// Those of adjacent [`SplitStep`]s.
    pub fn adjacent(steps: usize) -> Self {
        StepOffsets::new((0..steps).map(|step| step * size_of::<SplitStep>()).collect())
    }
}

/// The columns of a split product: tiles of first terms at each offset, those of the next terms behind.
#[derive(Clone, Copy)]
#[cfg_attr(not(level = "avx512+vnni"), allow(dead_code))]
pub(crate) struct SplitColumns<'a> {
    /// From the first column of the block on.
    pub halves: &'a [u16],
    pub offsets: &'a StepOffsets,
    /// Bytes from one line of a tile to the next.
    pub line_bytes: usize,
    /// Bytes from the first sixteen columns to the others.
    pub side_bytes: usize,
    /// Bytes from a term to the next.
    pub term_bytes: usize,
}

impl<'a> SplitColumns<'a> {
    /// Columns that are packed as rows are.
    pub fn packed(steps: &'a [SplitStep], offsets: &'a StepOffsets) -> Self {
        // SAFETY: a step is an array of 16-bit numbers.
        let halves = unsafe {
            std::slice::from_raw_parts(steps.as_ptr().cast(), size_of_val(steps) / size_of::<u16>())
        };
        let tile = size_of::<TileB>();
        SplitColumns { halves, offsets, line_bytes: 64, side_bytes: tile, term_bytes: 2 * tile }
    }
}
