//! Panels of the legacy quants, whose blocks are one sub-block: Q8_0, Q4_0 and Q4_1.

use super::panel::{
    CODE_BYTES, NIBBLE_BYTES, Panel, SCALE_BYTES, UnpackedGroup, add_minimums, add_scaled,
    dot_u7_i8, nibbles, pack_half, pack_quads, scales, unpack_half, unpack_minimums,
    unpack_nibbles, unpack_quads, unpack_scales,
};
use crate::quantization::legacy_quants::{Q4_0, Q4_1, Q8_0};
use crate::quantization::quantized_activations::{GROUP, Group};
use crate::simd::Vector;

pub(crate) struct Q8Panel;

impl Panel for Q8Panel {
    type Source = Q8_0;
    const BYTES: usize = SCALE_BYTES + CODE_BYTES;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        let mut codes = [0; GROUP];
        for (code, byte) in codes.iter_mut().zip(&source[2..]) {
            // With zero point 128: the dot products are of unsigned with signed bytes.
            *code = byte ^ 0x80;
        }
        pack_quads(&codes, lane, &mut panel[SCALE_BYTES..]);
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        unpack_half(panel, lane, source);
        unpack_quads(&panel[SCALE_BYTES..], lane, &mut source[2..]);
        source[2..].iter_mut().for_each(|byte| *byte ^= 0x80);
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        _part: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let lines = panel[SCALE_BYTES..].as_chunks::<64>().0;
        let mut products = [v.splat_i(0); ROWS];
        for row in 0..ROWS {
            let [low, high] = groups[row].sums;
            products[row] = v.splat_i(V::U8_BIAS * (low + high));
        }
        for (index, line) in lines[..GROUP / 4].iter().enumerate() {
            let codes = v.load_bytes(line);
            for row in 0..ROWS {
                products[row] = v.dot_u8_i8(products[row], codes, groups[row].values[index]);
            }
        }
        add_scaled(v, products, scales(v, panel), groups, sums);
    }

    #[inline(always)]
    fn unpack_group<V: Vector>(v: V, panel: &[u8], _part: usize, out: &mut UnpackedGroup) {
        out.codes.copy_from_slice(&panel[SCALE_BYTES..][..CODE_BYTES]);
        unpack_scales(v, scales(v, panel), 128.0, out);
    }
}

pub(crate) struct Q40Panel;

impl Panel for Q40Panel {
    type Source = Q4_0;
    const BYTES: usize = SCALE_BYTES + NIBBLE_BYTES;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        pack_quads(&source[2..], lane, &mut panel[SCALE_BYTES..]);
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        unpack_half(panel, lane, source);
        unpack_quads(&panel[SCALE_BYTES..], lane, &mut source[2..]);
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        _part: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let codes = nibbles(v, &panel[SCALE_BYTES..]);
        let start = |group: &Group| -8 * (group.sums[0] + group.sums[1]);
        let products = dot_u7_i8(v, &codes, groups, 0, start);
        add_scaled(v, products, scales(v, panel), groups, sums);
    }

    #[inline(always)]
    fn unpack_group<V: Vector>(v: V, panel: &[u8], _part: usize, out: &mut UnpackedGroup) {
        unpack_nibbles(&panel[SCALE_BYTES..], &mut out.codes);
        unpack_scales(v, scales(v, panel), 8.0, out);
    }
}

pub(crate) struct Q41Panel;

impl Panel for Q41Panel {
    type Source = Q4_1;
    const BYTES: usize = 2 * SCALE_BYTES + NIBBLE_BYTES;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        pack_half(source, lane, panel);
        pack_half(&source[2..], lane, &mut panel[SCALE_BYTES..]);
        pack_quads(&source[4..], lane, &mut panel[2 * SCALE_BYTES..]);
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        unpack_half(panel, lane, source);
        unpack_half(&panel[SCALE_BYTES..], lane, &mut source[2..]);
        unpack_quads(&panel[2 * SCALE_BYTES..], lane, &mut source[4..]);
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        _part: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let codes = nibbles(v, &panel[2 * SCALE_BYTES..]);
        let products = dot_u7_i8(v, &codes, groups, 0, |_| 0);
        add_scaled(v, products, scales(v, panel), groups, sums);
        add_minimums(v, scales(v, &panel[SCALE_BYTES..]), groups, sums);
    }

    #[inline(always)]
    fn unpack_group<V: Vector>(v: V, panel: &[u8], _part: usize, out: &mut UnpackedGroup) {
        unpack_nibbles(&panel[2 * SCALE_BYTES..], &mut out.codes);
        unpack_minimums(v, scales(v, panel), scales(v, &panel[SCALE_BYTES..]), out);
    }
}
