//! Weights of sixteen rows side by side, one row per lane, as the kernels read them.
//!
//! Each block of the inner dimension holds the scales of all sixteen rows and then their codes,
//! four of a row after four of the next. A vector of codes times four broadcast activations then
//! adds to sixteen rows at once, and nothing is summed across lanes.

use super::{Block, GROUP, Group, Q4_0, Q4_1, Q4K, Q6K, Q8_0, scale_and_min, store_scale_and_min};
use crate::simd::{LANES, Vector};

/// Bytes of one scale for each row.
const SCALES: usize = 2 * LANES;
/// Bytes of 32 codes of 4 bits for each row.
const NIBBLES: usize = GROUP / 2 * LANES;
/// Bytes of 32 codes of 8 bits for each row.
const CODES: usize = GROUP * LANES;
/// Bytes of 32 codes of 2 bits for each row.
const PAIRS: usize = GROUP / 4 * LANES;

/// A format in panels of sixteen rows.
pub(crate) trait Panel {
    /// The format of a single row.
    type Source: Block;
    /// Bytes of one block of sixteen rows.
    const BYTES: usize;

    /// Writes a row's block into its lane.
    fn pack(source: &[u8], lane: usize, panel: &mut [u8]);

    /// Writes the block in a lane as it was before it was packed.
    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]);

    /// Adds the block's product with each row of activations; `block` counts blocks of the source.
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        block: usize,
        rows: &[&[Group]; ROWS],
        sums: &mut [V::F; ROWS],
    );
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

/// The groups of all rows at this place of the inner dimension.
#[inline(always)]
fn at<'a, const ROWS: usize>(rows: &[&'a [Group]; ROWS], group: usize) -> [&'a Group; ROWS] {
    std::array::from_fn(|row| &rows[row][group])
}

pub(crate) struct Q8Panel;

impl Panel for Q8Panel {
    type Source = Q8_0;
    const BYTES: usize = SCALES + CODES;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        let mut codes = [0; GROUP];
        for (code, byte) in codes.iter_mut().zip(&source[2..]) {
            // Counted from 128, because the products are of unsigned with signed bytes.
            *code = byte ^ 0x80;
        }
        pack_fours(&codes, lane, &mut panel[SCALES..]);
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        unpack_half(panel, lane, source);
        unpack_fours(&panel[SCALES..], lane, &mut source[2..]);
        source[2..].iter_mut().for_each(|byte| *byte ^= 0x80);
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        block: usize,
        rows: &[&[Group]; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let scale = scales(v, panel);
        let lines = panel[SCALES..].as_chunks::<64>().0;
        let groups = at(rows, block);
        let mut products = [v.splat_i(0); ROWS];
        for row in 0..ROWS {
            let [low, high] = groups[row].sums;
            products[row] = v.splat_i(V::WIDE_BIAS * (low + high));
        }
        for (index, line) in lines[..GROUP / 4].iter().enumerate() {
            let codes = v.load_bytes(line);
            for row in 0..ROWS {
                products[row] = v.dot_wide(products[row], codes, groups[row].values[index]);
            }
        }
        for row in 0..ROWS {
            let scale = v.mul(scale, v.splat(groups[row].scale));
            sums[row] = v.mul_add(v.to_float(products[row]), scale, sums[row]);
        }
    }
}

pub(crate) struct Q40Panel;

impl Panel for Q40Panel {
    type Source = Q4_0;
    const BYTES: usize = SCALES + NIBBLES;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        pack_fours(&source[2..], lane, &mut panel[SCALES..]);
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        unpack_half(panel, lane, source);
        unpack_fours(&panel[SCALES..], lane, &mut source[2..]);
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        block: usize,
        rows: &[&[Group]; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let scale = scales(v, panel);
        let codes = nibbles(v, &panel[SCALES..]);
        let groups = at(rows, block);
        let start = |group: &Group| -8 * (group.sums[0] + group.sums[1]);
        let products = dot_narrow(v, &codes, &groups, 0, start);
        for row in 0..ROWS {
            let scale = v.mul(scale, v.splat(groups[row].scale));
            sums[row] = v.mul_add(v.to_float(products[row]), scale, sums[row]);
        }
    }
}

pub(crate) struct Q41Panel;

impl Panel for Q41Panel {
    type Source = Q4_1;
    const BYTES: usize = 2 * SCALES + NIBBLES;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        pack_half(&source[2..], lane, &mut panel[SCALES..]);
        pack_fours(&source[4..], lane, &mut panel[2 * SCALES..]);
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        unpack_half(panel, lane, source);
        unpack_half(&panel[SCALES..], lane, &mut source[2..]);
        unpack_fours(&panel[2 * SCALES..], lane, &mut source[4..]);
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        block: usize,
        rows: &[&[Group]; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let (scale, least) = (scales(v, panel), scales(v, &panel[SCALES..]));
        let codes = nibbles(v, &panel[2 * SCALES..]);
        let groups = at(rows, block);
        let products = dot_narrow(v, &codes, &groups, 0, |_| 0);
        for row in 0..ROWS {
            let scale = v.mul(scale, v.splat(groups[row].scale));
            let sum = v.mul_add(v.to_float(products[row]), scale, sums[row]);
            sums[row] = v.mul_add(least, v.splat(groups[row].total), sum);
        }
    }
}

pub(crate) struct Q4KPanel;

/// Scales and minimums of 32 values as bytes, and their codes.
const Q4K_PART: usize = 2 * LANES + NIBBLES;

impl Panel for Q4KPanel {
    type Source = Q4K;
    const BYTES: usize = 2 * SCALES + 8 * Q4K_PART;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        pack_half(&source[2..], lane, &mut panel[SCALES..]);
        let (packed, bytes) = source[4..].split_at(12);
        let parts = panel[2 * SCALES..].chunks_exact_mut(Q4K_PART);
        for (part, panel) in parts.enumerate() {
            (panel[lane], panel[LANES + lane]) = scale_and_min(packed, part);
            let code = |index: usize| (bytes[part / 2 * GROUP + index] >> (part % 2 * 4)) & 15;
            let nibbles: [u8; GROUP / 2] =
                std::array::from_fn(|index| code(index) | (code(index + GROUP / 2) << 4));
            pack_fours(&nibbles, lane, &mut panel[2 * LANES..]);
        }
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        source.fill(0);
        unpack_half(panel, lane, source);
        unpack_half(&panel[SCALES..], lane, &mut source[2..]);
        let (packed, bytes) = source[4..].split_at_mut(12);
        let parts = panel[2 * SCALES..].chunks_exact(Q4K_PART);
        for (part, panel) in parts.enumerate() {
            store_scale_and_min(packed, part, panel[lane], panel[LANES + lane]);
            let mut nibbles = [0; GROUP / 2];
            unpack_fours(&panel[2 * LANES..], lane, &mut nibbles);
            for (index, pair) in nibbles.iter().enumerate() {
                let at = part / 2 * GROUP + index;
                bytes[at] |= (pair & 15) << (part % 2 * 4);
                bytes[at + GROUP / 2] |= (pair >> 4) << (part % 2 * 4);
            }
        }
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        block: usize,
        rows: &[&[Group]; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let (scale, least) = (scales(v, panel), scales(v, &panel[SCALES..]));
        let parts = panel[2 * SCALES..].as_chunks::<Q4K_PART>().0;
        for (part, panel) in parts.iter().enumerate() {
            let bytes = panel.as_chunks::<LANES>().0;
            let scale = v.mul(scale, v.to_float(v.load_u8(&bytes[0])));
            let least = v.mul(least, v.to_float(v.load_u8(&bytes[1])));
            let codes = nibbles(v, &panel[2 * LANES..]);
            let groups = at(rows, block * 8 + part);
            let products = dot_narrow(v, &codes, &groups, 0, |_| 0);
            for row in 0..ROWS {
                let scale = v.mul(scale, v.splat(groups[row].scale));
                let sum = v.mul_add(v.to_float(products[row]), scale, sums[row]);
                sums[row] = v.mul_add(least, v.splat(-groups[row].total), sum);
            }
        }
    }
}

pub(crate) struct Q6KPanel;

/// Two scales of 16 values each as bytes, low and high bits of their codes.
const Q6K_PART: usize = 2 * LANES + NIBBLES + PAIRS;

impl Panel for Q6KPanel {
    type Source = Q6K;
    const BYTES: usize = SCALES + 8 * Q6K_PART;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(&source[Q6K::SCALE..], lane, panel);
        let parts = panel[SCALES..].chunks_exact_mut(Q6K_PART);
        for (part, panel) in parts.enumerate() {
            panel[lane] = Q6K::scale_code(source, 2 * part);
            panel[LANES + lane] = Q6K::scale_code(source, 2 * part + 1);
            let code = |index: usize| Q6K::code(source, part * GROUP + index);
            let low: [u8; GROUP / 2] = std::array::from_fn(|index| {
                (code(index) & 15) | ((code(index + GROUP / 2) & 15) << 4)
            });
            pack_fours(&low, lane, &mut panel[2 * LANES..]);
            // Byte 4 p + i holds the high bits of values i, 4 + i, 8 + i and 12 + i of half p.
            let high: [u8; GROUP / 4] = std::array::from_fn(|index| {
                let first = index / 4 * 16 + index % 4;
                (0..4).fold(0, |bits, step| {
                    bits | ((code(first + 4 * step) >> 4) << (2 * step))
                })
            });
            pack_fours(&high, lane, &mut panel[2 * LANES + NIBBLES..]);
        }
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        source.fill(0);
        unpack_half(panel, lane, &mut source[Q6K::SCALE..]);
        let parts = panel[SCALES..].chunks_exact(Q6K_PART);
        for (part, panel) in parts.enumerate() {
            Q6K::store_scale_code(source, 2 * part, panel[lane]);
            Q6K::store_scale_code(source, 2 * part + 1, panel[LANES + lane]);
            let (mut low, mut high) = ([0; GROUP / 2], [0; GROUP / 4]);
            unpack_fours(&panel[2 * LANES..], lane, &mut low);
            unpack_fours(&panel[2 * LANES + NIBBLES..], lane, &mut high);
            for index in 0..GROUP {
                let below = (low[index % 16] >> (index / 16 * 4)) & 15;
                let above = (high[index / 16 * 4 + index % 4] >> (index % 16 / 4 * 2)) & 3;
                Q6K::store_code(source, part * GROUP + index, below | (above << 4));
            }
        }
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        block: usize,
        rows: &[&[Group]; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let scale = scales(v, panel);
        let parts = panel[SCALES..].as_chunks::<Q6K_PART>().0;
        for (part, panel) in parts.iter().enumerate() {
            let bytes = panel.as_chunks::<LANES>().0;
            let (first, second) = (v.load_i8(&bytes[0]), v.load_i8(&bytes[1]));
            let low = nibbles(v, &panel[2 * LANES..]);
            let lines = panel[2 * LANES + NIBBLES..].as_chunks::<64>().0;
            let high = [v.load_bytes(&lines[0]), v.load_bytes(&lines[1])];
            let codes = [
                v.with_two_bits::<0>(low[0], high[0]),
                v.with_two_bits::<1>(low[1], high[0]),
                v.with_two_bits::<2>(low[2], high[0]),
                v.with_two_bits::<3>(low[3], high[0]),
                v.with_two_bits::<0>(low[4], high[1]),
                v.with_two_bits::<1>(low[5], high[1]),
                v.with_two_bits::<2>(low[6], high[1]),
                v.with_two_bits::<3>(low[7], high[1]),
            ];
            let groups = at(rows, block * 8 + part);
            let low = dot_narrow(v, &codes[..4], &groups, 0, |group| -32 * group.sums[0]);
            let high = dot_narrow(v, &codes[4..], &groups, 4, |group| -32 * group.sums[1]);
            for row in 0..ROWS {
                let product = v.add_i(v.mul_i(low[row], first), v.mul_i(high[row], second));
                let scale = v.mul(scale, v.splat(groups[row].scale));
                sums[row] = v.mul_add(v.to_float(product), scale, sums[row]);
            }
        }
    }
}
