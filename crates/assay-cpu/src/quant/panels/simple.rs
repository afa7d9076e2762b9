//! Panels of formats whose blocks are one part: Q8_0, Q4_0 and Q4_1.

use super::super::tiles::Spread;
use super::super::{GROUP, Group, Q4_0, Q4_1, Q8_0};
use super::{
    CODES, NIBBLES, Panel, SCALES, add_least, add_scaled, dot_narrow, nibbles, pack_fours,
    pack_half, scales, spread_least, spread_nibbles, spread_scales, unpack_fours, unpack_half,
};
use crate::simd::Vector;

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
        _part: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let lines = panel[SCALES..].as_chunks::<64>().0;
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
        add_scaled(v, products, scales(v, panel), groups, sums);
    }

    #[inline(always)]
    fn spread<V: Vector>(v: V, panel: &[u8], _part: usize, out: &mut Spread) {
        out.codes.copy_from_slice(&panel[SCALES..][..CODES]);
        spread_scales(v, scales(v, panel), 128.0, out);
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
        _part: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let codes = nibbles(v, &panel[SCALES..]);
        let start = |group: &Group| -8 * (group.sums[0] + group.sums[1]);
        let products = dot_narrow(v, &codes, groups, 0, start);
        add_scaled(v, products, scales(v, panel), groups, sums);
    }

    #[inline(always)]
    fn spread<V: Vector>(v: V, panel: &[u8], _part: usize, out: &mut Spread) {
        spread_nibbles(&panel[SCALES..], &mut out.codes);
        spread_scales(v, scales(v, panel), 8.0, out);
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
        _part: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let codes = nibbles(v, &panel[2 * SCALES..]);
        let products = dot_narrow(v, &codes, groups, 0, |_| 0);
        add_scaled(v, products, scales(v, panel), groups, sums);
        add_least(v, scales(v, &panel[SCALES..]), groups, sums);
    }

    #[inline(always)]
    fn spread<V: Vector>(v: V, panel: &[u8], _part: usize, out: &mut Spread) {
        spread_nibbles(&panel[2 * SCALES..], &mut out.codes);
        spread_least(v, scales(v, panel), scales(v, &panel[SCALES..]), out);
    }
}
