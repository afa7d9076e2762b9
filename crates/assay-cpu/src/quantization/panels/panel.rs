//! The panel trait and what its implementations share.

use crate::quantization::block::Block;
use crate::quantization::quantized_activations::{GROUP, Group};
use crate::simd::{LANES, Vector};

/// Bytes of one half-precision scale per row.
pub(super) const SCALE_BYTES: usize = 2 * LANES;
/// Bytes of 32 4-bit codes per row.
pub(super) const NIBBLE_BYTES: usize = GROUP / 2 * LANES;
/// Bytes of 32 8-bit codes per row.
pub(crate) const CODE_BYTES: usize = GROUP * LANES;
/// Bytes of the high 2 bits of 32 codes per row.
pub(super) const HIGH_BIT_BYTES: usize = GROUP / 4 * LANES;

/// A sub-block of 32 inputs, unpacked to a byte per code.
pub(crate) struct UnpackedGroup {
    /// Codes, four of a row after four of the next.
    pub codes: [u8; CODE_BYTES],
    /// Scales of either half.
    pub scale: [[f32; LANES]; 2],
    /// Minimums of either half.
    pub minimum: [[f32; LANES]; 2],
}

/// A block format in panels of sixteen rows.
pub(crate) trait Panel {
    /// The block layout of a single row.
    type Source: Block;
    /// Bytes of one block of sixteen rows.
    const BYTES: usize;
    /// Sub-blocks of 32 inputs in a block.
    const SUB_BLOCKS: usize = Self::Source::VALUES / GROUP;

    /// Packs a row's block into its lane.
    fn pack(source: &[u8], lane: usize, panel: &mut [u8]);

    /// Unpacks the block of a lane.
    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]);

    /// Accumulates the dot products of one sub-block with a group of each row of activations.
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        sub_block: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    );

    /// Unpacks one sub-block, for AMX.
    fn unpack_group<V: Vector>(v: V, panel: &[u8], sub_block: usize, out: &mut UnpackedGroup);
}

/// The scales at the start of a panel's block.
#[inline(always)]
pub(super) fn scales<V: Vector>(v: V, panel: &[u8]) -> V::F {
    let mut bits = [0; LANES];
    for (bits, bytes) in bits.iter_mut().zip(panel.as_chunks::<2>().0) {
        *bits = u16::from_le_bytes(*bytes);
    }
    v.load_f16(&bits)
}

pub(super) fn pack_half(source: &[u8], lane: usize, panel: &mut [u8]) {
    panel[2 * lane..2 * lane + 2].copy_from_slice(&source[..2]);
}

/// Packs bytes of a row, four at a time, into its lane.
pub(super) fn pack_quads(source: &[u8], lane: usize, panel: &mut [u8]) {
    let lines = panel.as_chunks_mut::<64>().0;
    for (line, four) in lines.iter_mut().zip(source.as_chunks::<4>().0) {
        line[4 * lane..4 * lane + 4].copy_from_slice(four);
    }
}

pub(super) fn unpack_half(panel: &[u8], lane: usize, source: &mut [u8]) {
    source[..2].copy_from_slice(&panel[2 * lane..2 * lane + 2]);
}

/// Unpacks the bytes of a lane, four at a time.
pub(super) fn unpack_quads(panel: &[u8], lane: usize, source: &mut [u8]) {
    let lines = panel.as_chunks::<64>().0;
    for (line, four) in lines.iter().zip(source.as_chunks_mut::<4>().0) {
        four.copy_from_slice(&line[4 * lane..4 * lane + 4]);
    }
}

/// Eight vectors of nibbles: the low nibbles are the first sixteen inputs.
#[inline(always)]
pub(super) fn nibbles<V: Vector>(v: V, panel: &[u8]) -> [V::B; 8] {
    let lines = panel[..NIBBLE_BYTES].as_chunks::<64>().0;
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

/// The same, to bytes in memory.
#[inline(always)]
pub(super) fn unpack_nibbles(panel: &[u8], codes: &mut [u8; CODE_BYTES]) {
    let (low, high) = codes.split_at_mut(NIBBLE_BYTES);
    for ((byte, low), high) in panel[..NIBBLE_BYTES].iter().zip(low).zip(high) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

/// Scales of codes with zero point `offset`, for both halves.
#[inline(always)]
pub(super) fn unpack_scales<V: Vector>(v: V, scale: V::F, offset: f32, out: &mut UnpackedGroup) {
    let minimum = v.mul(scale, v.splat(-offset));
    for half in 0..2 {
        v.store(scale, &mut out.scale[half]);
        v.store(minimum, &mut out.minimum[half]);
    }
}

/// Scales and minimums of both halves.
#[inline(always)]
pub(super) fn unpack_minimums<V: Vector>(
    v: V,
    scale: V::F,
    minimum: V::F,
    out: &mut UnpackedGroup,
) {
    for half in 0..2 {
        v.store(scale, &mut out.scale[half]);
        v.store(minimum, &mut out.minimum[half]);
    }
}

/// Integer dot products of codes below 128 with the activations of each row; `start` gives the
/// initial values.
///
/// Rows are innermost, so that the accumulators are independent.
#[inline(always)]
pub(super) fn dot_u7_i8<V: Vector, const ROWS: usize>(
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
            sums[row] = v.dot_u7_i8(sums[row], *codes, groups[row].values[first + index]);
        }
    }
    sums
}

/// Accumulates integer dot products times the scales of weights and activations.
#[inline(always)]
pub(super) fn add_scaled<V: Vector, const ROWS: usize>(
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

/// Accumulates the minimums of weights times the sum of activations.
#[inline(always)]
pub(super) fn add_minimums<V: Vector, const ROWS: usize>(
    v: V,
    minimum: V::F,
    groups: &[&Group; ROWS],
    sums: &mut [V::F; ROWS],
) {
    for row in 0..ROWS {
        sums[row] = v.mul_add(minimum, v.splat(groups[row].total), sums[row]);
    }
}
