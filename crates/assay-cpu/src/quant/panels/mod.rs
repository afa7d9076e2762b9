//! Weights of sixteen rows side by side, one row per lane, as the kernels read them.
//!
//! A block of the inner dimension holds the scales of all sixteen rows and then their codes, part by
//! part of 32, four of a row after four of the next. A vector of codes times four broadcast
//! activations then adds to sixteen rows at once, and nothing is summed across lanes.

mod k_quants;
mod simple;

pub(super) use k_quants::{Q4KPanel, Q6KPanel};
pub(super) use simple::{Q8Panel, Q40Panel, Q41Panel};

use super::tiles::Spread;
use super::{Block, GROUP, Group};
use crate::simd::{LANES, Vector};

/// Bytes of one scale for each row.
const SCALES: usize = 2 * LANES;
/// Bytes of 32 codes of 4 bits for each row.
const NIBBLES: usize = GROUP / 2 * LANES;
/// Bytes of 32 codes of 8 bits for each row.
pub(super) const CODES: usize = GROUP * LANES;
/// Bytes of 32 codes of 2 bits for each row.
const PAIRS: usize = GROUP / 4 * LANES;

/// A format in panels of sixteen rows.
pub(crate) trait Panel {
    /// The format of a single row.
    type Source: Block;
    /// Bytes of one block of sixteen rows.
    const BYTES: usize;
    /// Groups of 32 inputs in a block.
    const PARTS: usize = Self::Source::VALUES / GROUP;

    /// Writes a row's block into its lane.
    fn pack(source: &[u8], lane: usize, panel: &mut [u8]);

    /// Writes the block in a lane as it was before it was packed.
    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]);

    /// Adds the product of one part of the block with a group of each row of activations.
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        part: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    );

    /// Takes one part of the block apart, for tiles.
    fn spread<V: Vector>(v: V, panel: &[u8], part: usize, out: &mut Spread);
}

/// The scales at the beginning of a panel's block.
#[inline(always)]
fn scales<V: Vector>(v: V, panel: &[u8]) -> V::F {
    let mut bits = [0; LANES];
    for (bits, bytes) in bits.iter_mut().zip(panel.as_chunks::<2>().0) {
        *bits = u16::from_le_bytes(*bytes);
    }
    v.load_f16(&bits)
}

fn pack_half(source: &[u8], lane: usize, panel: &mut [u8]) {
    panel[2 * lane..2 * lane + 2].copy_from_slice(&source[..2]);
}

/// Sixteen bytes of a row, four by four, into its lane.
fn pack_fours(source: &[u8], lane: usize, panel: &mut [u8]) {
    let lines = panel.as_chunks_mut::<64>().0;
    for (line, four) in lines.iter_mut().zip(source.as_chunks::<4>().0) {
        line[4 * lane..4 * lane + 4].copy_from_slice(four);
    }
}

fn unpack_half(panel: &[u8], lane: usize, source: &mut [u8]) {
    source[..2].copy_from_slice(&panel[2 * lane..2 * lane + 2]);
}

/// The bytes of a lane, four by four.
fn unpack_fours(panel: &[u8], lane: usize, source: &mut [u8]) {
    let lines = panel.as_chunks::<64>().0;
    for (line, four) in lines.iter().zip(source.as_chunks_mut::<4>().0) {
        four.copy_from_slice(&line[4 * lane..4 * lane + 4]);
    }
}

/// Codes of 4 bits as eight vectors, the first sixteen of the inner dimension in the low halves.
#[inline(always)]
fn nibbles<V: Vector>(v: V, panel: &[u8]) -> [V::B; 8] {
    let lines = panel[..NIBBLES].as_chunks::<64>().0;
    let packed = [
        v.load_bytes(&lines[0]),
        v.load_bytes(&lines[1]),
        v.load_bytes(&lines[2]),
        v.load_bytes(&lines[3]),
    ];
    [
        v.low_nibbles(packed[0]),
        v.low_nibbles(packed[1]),
        v.low_nibbles(packed[2]),
        v.low_nibbles(packed[3]),
        v.high_nibbles(packed[0]),
        v.high_nibbles(packed[1]),
        v.high_nibbles(packed[2]),
        v.high_nibbles(packed[3]),
    ]
}

/// The same as bytes in memory.
#[inline(always)]
fn spread_nibbles(panel: &[u8], codes: &mut [u8; CODES]) {
    let (low, high) = codes.split_at_mut(NIBBLES);
    for ((byte, low), high) in panel[..NIBBLES].iter().zip(low).zip(high) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

/// Scales of codes that are counted from `offset`, for both halves.
#[inline(always)]
fn spread_scales<V: Vector>(v: V, scale: V::F, offset: f32, out: &mut Spread) {
    let least = v.mul(scale, v.splat(-offset));
    for half in 0..2 {
        v.store(scale, &mut out.scale[half]);
        v.store(least, &mut out.least[half]);
    }
}

/// Scales and minimums of both halves.
#[inline(always)]
fn spread_least<V: Vector>(v: V, scale: V::F, least: V::F, out: &mut Spread) {
    for half in 0..2 {
        v.store(scale, &mut out.scale[half]);
        v.store(least, &mut out.least[half]);
    }
}

/// The products of vectors of codes below 128 with activations of each row, from `start` on.
///
/// Rows are innermost, so that no sum waits for itself.
#[inline(always)]
fn dot_narrow<V: Vector, const ROWS: usize>(
    v: V,
    codes: &[V::B],
    groups: &[&Group; ROWS],
    first: usize,
    start: impl Fn(&Group) -> i32,
) -> [V::I; ROWS] {
    let mut sums = [v.splat_i(0); ROWS];
    for row in 0..ROWS {
        sums[row] = v.splat_i(start(groups[row]));
    }
    for (index, codes) in codes.iter().enumerate() {
        for row in 0..ROWS {
            sums[row] = v.dot_narrow(sums[row], *codes, groups[row].values[first + index]);
        }
    }
    sums
}

/// Adds whole products, times the scales of weights and activations.
#[inline(always)]
fn add_scaled<V: Vector, const ROWS: usize>(
    v: V,
    products: [V::I; ROWS],
    scale: V::F,
    groups: &[&Group; ROWS],
    sums: &mut [V::F; ROWS],
) {
    for row in 0..ROWS {
        let scale = v.mul(scale, v.splat(groups[row].scale));
        sums[row] = v.mul_add(v.to_float(products[row]), scale, sums[row]);
    }
}

/// Adds the minimum of weights times the sum of activations.
#[inline(always)]
fn add_least<V: Vector, const ROWS: usize>(
    v: V,
    least: V::F,
    groups: &[&Group; ROWS],
    sums: &mut [V::F; ROWS],
) {
    for row in 0..ROWS {
        sums[row] = v.mul_add(least, v.splat(groups[row].total), sums[row]);
    }
}
