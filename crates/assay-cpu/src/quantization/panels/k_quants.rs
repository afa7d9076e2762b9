//! Panels of the k-quants: superblocks of eight sub-blocks with quantized scales (Q4_K, Q5_K and Q6_K).

use super::panel::{
    CODE_BYTES, HIGH_BIT_BYTES, NIBBLE_BYTES, Panel, SCALE_BYTES, UnpackedGroup, add_minimums,
    add_scaled, dot_u7_i8, nibbles, pack_half, pack_quads, scales, unpack_half, unpack_minimums,
    unpack_nibbles, unpack_quads,
};
use crate::quantization::q4_k::{Q4K, Q5K, scale_and_minimum, store_scale_and_minimum};
use crate::quantization::q6_k::Q6K;
use crate::quantization::quantized_activations::{GROUP, Group};
use crate::simd::{LANES, Vector};

pub(crate) struct Q4KPanel;

/// Bytes of a sub-block: scale and minimum codes of 32 values, and their nibbles.
const Q4K_SUB_BLOCK: usize = 2 * LANES + NIBBLE_BYTES;

/// The sign bit in the second byte of a half-precision number.
const SIGN: u8 = 0x80;

impl Q4KPanel {
    /// The sub-block's scales, its negated minimums, and its codes.
    #[inline(always)]
    fn sub_block<V: Vector>(v: V, panel: &[u8], sub_block: usize) -> (V::F, V::F, &[u8]) {
        let (scale, minimum) = (scales(v, panel), scales(v, &panel[SCALE_BYTES..]));
        let panel = &panel[2 * SCALE_BYTES..].as_chunks::<Q4K_SUB_BLOCK>().0[sub_block];
        let bytes = panel.as_chunks::<LANES>().0;
        let scale = v.mul(scale, v.to_float(v.load_u8(&bytes[0])));
        let minimum = v.mul(minimum, v.to_float(v.load_u8(&bytes[1])));
        (scale, minimum, &panel[2 * LANES..])
    }
}

impl Panel for Q4KPanel {
    type Source = Q4K;
    const BYTES: usize = 2 * SCALE_BYTES + 8 * Q4K_SUB_BLOCK;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        // Minimums are subtracted: stored negated, so that the kernel only adds.
        pack_half(&[source[2], source[3] ^ SIGN], lane, &mut panel[SCALE_BYTES..]);
        let (packed, bytes) = source[4..].split_at(12);
        let sub_blocks = panel[2 * SCALE_BYTES..].chunks_exact_mut(Q4K_SUB_BLOCK);
        for (sub_block, panel) in sub_blocks.enumerate() {
            (panel[lane], panel[LANES + lane]) = scale_and_minimum(packed, sub_block);
            let code =
                |index: usize| (bytes[sub_block / 2 * GROUP + index] >> (sub_block % 2 * 4)) & 15;
            let nibbles: [u8; GROUP / 2] =
                std::array::from_fn(|index| code(index) | (code(index + GROUP / 2) << 4));
            pack_quads(&nibbles, lane, &mut panel[2 * LANES..]);
        }
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        source.fill(0);
        unpack_half(panel, lane, source);
        unpack_half(&panel[SCALE_BYTES..], lane, &mut source[2..]);
        source[3] ^= SIGN;
        let (packed, bytes) = source[4..].split_at_mut(12);
        let sub_blocks = panel[2 * SCALE_BYTES..].chunks_exact(Q4K_SUB_BLOCK);
        for (sub_block, panel) in sub_blocks.enumerate() {
            store_scale_and_minimum(packed, sub_block, panel[lane], panel[LANES + lane]);
            let mut nibbles = [0; GROUP / 2];
            unpack_quads(&panel[2 * LANES..], lane, &mut nibbles);
            for (index, pair) in nibbles.iter().enumerate() {
                let at = sub_block / 2 * GROUP + index;
                bytes[at] |= (pair & 15) << (sub_block % 2 * 4);
                bytes[at + GROUP / 2] |= (pair >> 4) << (sub_block % 2 * 4);
            }
        }
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        sub_block: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let (scale, minimum, codes) = Self::sub_block(v, panel, sub_block);
        let products = dot_u7_i8(v, &nibbles(v, codes), groups, 0, |_| 0);
        add_scaled(v, products, scale, groups, sums);
        add_minimums(v, minimum, groups, sums);
    }

    #[inline(always)]
    fn unpack_group<V: Vector>(v: V, panel: &[u8], sub_block: usize, out: &mut UnpackedGroup) {
        let (scale, minimum, codes) = Self::sub_block(v, panel, sub_block);
        unpack_nibbles(codes, &mut out.codes);
        unpack_minimums(v, scale, minimum, out);
    }
}

/// Bytes of 32 codes of 6 bits per row: low four bits, then high two.
const SIX_BIT_BYTES: usize = NIBBLE_BYTES + HIGH_BIT_BYTES;

/// Packs 32 codes of a row into its lane.
fn pack_six_bits(code: impl Fn(usize) -> u8, lane: usize, panel: &mut [u8]) {
    let low: [u8; GROUP / 2] =
        std::array::from_fn(|index| (code(index) & 15) | ((code(index + GROUP / 2) & 15) << 4));
    pack_quads(&low, lane, panel);
    // Byte 4 p + i holds the high bits of values i, 4 + i, 8 + i and 12 + i of half p.
    let high: [u8; GROUP / 4] = std::array::from_fn(|index| {
        let first = index / 4 * 16 + index % 4;
        (0..4).fold(0, |bits, step| bits | ((code(first + 4 * step) >> 4) << (2 * step)))
    });
    pack_quads(&high, lane, &mut panel[NIBBLE_BYTES..]);
}

/// The codes of one lane.
fn lane_of_six_bits(panel: &[u8], lane: usize) -> [u8; GROUP] {
    let (mut low, mut high) = ([0; GROUP / 2], [0; GROUP / 4]);
    unpack_quads(panel, lane, &mut low);
    unpack_quads(&panel[NIBBLE_BYTES..], lane, &mut high);
    std::array::from_fn(|index| {
        let below = (low[index % 16] >> (index / 16 * 4)) & 15;
        let above = (high[index / 16 * 4 + index % 4] >> (index % 16 / 4 * 2)) & 3;
        below | (above << 4)
    })
}

/// Eight vectors of codes, four of a row after four of the next.
#[inline(always)]
fn six_bits<V: Vector>(v: V, panel: &[u8]) -> [V::B; 8] {
    let low = nibbles(v, panel);
    let lines = panel[NIBBLE_BYTES..].as_chunks::<64>().0;
    let high = [v.load_bytes(&lines[0]), v.load_bytes(&lines[1])];
    [
        v.with_two_bits::<0>(low[0], high[0]),
        v.with_two_bits::<1>(low[1], high[0]),
        v.with_two_bits::<2>(low[2], high[0]),
        v.with_two_bits::<3>(low[3], high[0]),
        v.with_two_bits::<0>(low[4], high[1]),
        v.with_two_bits::<1>(low[5], high[1]),
        v.with_two_bits::<2>(low[6], high[1]),
        v.with_two_bits::<3>(low[7], high[1]),
    ]
}

/// The same, to bytes in memory.
#[inline(always)]
fn unpack_six_bits(panel: &[u8], out: &mut [u8; CODE_BYTES]) {
    let (low, high) = panel.split_at(NIBBLE_BYTES);
    let high = high.as_chunks::<64>().0;
    let halves = out.as_chunks_mut::<NIBBLE_BYTES>().0;
    for (half, codes) in halves.iter_mut().enumerate() {
        for (line, codes) in codes.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            let low = &low[64 * line..][..64];
            for ((code, low), high) in codes.iter_mut().zip(low).zip(&high[half]) {
                *code = ((low >> (4 * half)) & 15) | (((high >> (2 * line)) & 3) << 4);
            }
        }
    }
}

/// Scales and minimums as Q4_K, and the five bits of codes as the six of Q6_K.
pub(crate) struct Q5KPanel;

/// Bytes of a sub-block: scale and minimum codes of 32 values, and their codes.
const Q5K_SUB_BLOCK: usize = 2 * LANES + SIX_BIT_BYTES;

impl Q5KPanel {
    /// The sub-block's scales, its negated minimums, and its codes.
    #[inline(always)]
    fn sub_block<V: Vector>(v: V, panel: &[u8], sub_block: usize) -> (V::F, V::F, &[u8]) {
        let (scale, minimum) = (scales(v, panel), scales(v, &panel[SCALE_BYTES..]));
        let panel = &panel[2 * SCALE_BYTES..].as_chunks::<Q5K_SUB_BLOCK>().0[sub_block];
        let bytes = panel.as_chunks::<LANES>().0;
        let scale = v.mul(scale, v.to_float(v.load_u8(&bytes[0])));
        let minimum = v.mul(minimum, v.to_float(v.load_u8(&bytes[1])));
        (scale, minimum, &panel[2 * LANES..])
    }
}

impl Panel for Q5KPanel {
    type Source = Q5K;
    const BYTES: usize = 2 * SCALE_BYTES + 8 * Q5K_SUB_BLOCK;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        // Minimums are subtracted: stored negated, so that the kernel only adds.
        pack_half(&[source[2], source[3] ^ SIGN], lane, &mut panel[SCALE_BYTES..]);
        let sub_blocks = panel[2 * SCALE_BYTES..].chunks_exact_mut(Q5K_SUB_BLOCK);
        for (sub_block, panel) in sub_blocks.enumerate() {
            (panel[lane], panel[LANES + lane]) = scale_and_minimum(&source[4..16], sub_block);
            let code = |index: usize| Q5K::code(source, sub_block * GROUP + index);
            pack_six_bits(code, lane, &mut panel[2 * LANES..]);
        }
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        source.fill(0);
        unpack_half(panel, lane, source);
        unpack_half(&panel[SCALE_BYTES..], lane, &mut source[2..]);
        source[3] ^= SIGN;
        let sub_blocks = panel[2 * SCALE_BYTES..].chunks_exact(Q5K_SUB_BLOCK);
        for (sub_block, panel) in sub_blocks.enumerate() {
            let (scale, minimum) = (panel[lane], panel[LANES + lane]);
            store_scale_and_minimum(&mut source[4..16], sub_block, scale, minimum);
            let codes = lane_of_six_bits(&panel[2 * LANES..], lane);
            for (index, code) in codes.into_iter().enumerate() {
                Q5K::store_code(source, sub_block * GROUP + index, code);
            }
        }
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        sub_block: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let (scale, minimum, codes) = Self::sub_block(v, panel, sub_block);
        let products = dot_u7_i8(v, &six_bits(v, codes), groups, 0, |_| 0);
        add_scaled(v, products, scale, groups, sums);
        add_minimums(v, minimum, groups, sums);
    }

    #[inline(always)]
    fn unpack_group<V: Vector>(v: V, panel: &[u8], sub_block: usize, out: &mut UnpackedGroup) {
        let (scale, minimum, codes) = Self::sub_block(v, panel, sub_block);
        unpack_six_bits(codes, &mut out.codes);
        unpack_minimums(v, scale, minimum, out);
    }
}

pub(crate) struct Q6KPanel;

/// Bytes of a sub-block: two scale codes of 16 values each, low and high bits of their codes.
const Q6K_SUB_BLOCK: usize = 2 * LANES + SIX_BIT_BYTES;

impl Panel for Q6KPanel {
    type Source = Q6K;
    const BYTES: usize = SCALE_BYTES + 8 * Q6K_SUB_BLOCK;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(&source[Q6K::SCALE..], lane, panel);
        let sub_blocks = panel[SCALE_BYTES..].chunks_exact_mut(Q6K_SUB_BLOCK);
        for (sub_block, panel) in sub_blocks.enumerate() {
            panel[lane] = Q6K::scale_code(source, 2 * sub_block);
            panel[LANES + lane] = Q6K::scale_code(source, 2 * sub_block + 1);
            let code = |index: usize| Q6K::code(source, sub_block * GROUP + index);
            pack_six_bits(code, lane, &mut panel[2 * LANES..]);
        }
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        source.fill(0);
        unpack_half(panel, lane, &mut source[Q6K::SCALE..]);
        let sub_blocks = panel[SCALE_BYTES..].chunks_exact(Q6K_SUB_BLOCK);
        for (sub_block, panel) in sub_blocks.enumerate() {
            Q6K::store_scale_code(source, 2 * sub_block, panel[lane]);
            Q6K::store_scale_code(source, 2 * sub_block + 1, panel[LANES + lane]);
            let codes = lane_of_six_bits(&panel[2 * LANES..], lane);
            for (index, code) in codes.into_iter().enumerate() {
                Q6K::store_code(source, sub_block * GROUP + index, code);
            }
        }
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        sub_block: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let scale = scales(v, panel);
        let panel = &panel[SCALE_BYTES..].as_chunks::<Q6K_SUB_BLOCK>().0[sub_block];
        let bytes = panel.as_chunks::<LANES>().0;
        let (first, second) = (v.load_i8(&bytes[0]), v.load_i8(&bytes[1]));
        let codes = six_bits(v, &panel[2 * LANES..]);
        let low = dot_u7_i8(v, &codes[..4], groups, 0, |group| -32 * group.sums[0]);
        let high = dot_u7_i8(v, &codes[4..], groups, 4, |group| -32 * group.sums[1]);
        let mut products = low;
        for row in 0..ROWS {
            products[row] = v.add_i(v.mul_i(low[row], first), v.mul_i(high[row], second));
        }
        add_scaled(v, products, scale, groups, sums);
    }

    #[inline(always)]
    fn unpack_group<V: Vector>(v: V, panel: &[u8], sub_block: usize, out: &mut UnpackedGroup) {
        let scale = scales(v, panel);
        let panel = &panel[SCALE_BYTES..].as_chunks::<Q6K_SUB_BLOCK>().0[sub_block];
        let bytes = panel.as_chunks::<LANES>().0;
        for (half, codes) in bytes[..2].iter().enumerate() {
            let scale = v.mul(scale, v.to_float(v.load_i8(codes)));
            v.store(scale, &mut out.scale[half]);
            v.store(v.mul(scale, v.splat(-32.0)), &mut out.minimum[half]);
        }
        unpack_six_bits(&panel[2 * LANES..], &mut out.codes);
    }
}
