//! Panels of MXFP4: an exponent per row, and nibbles, which a table maps to integers.

use super::panel::{
    NIBBLE_BYTES, Panel, UnpackedGroup, add_scaled, dot_u7_i8, nibbles, pack_quads, unpack_nibbles,
    unpack_quads, unpack_scales,
};
use crate::quantization::mxfp4::{Mxfp4, UNSIGNED, ZERO_POINT, half_scale, unsigned};
use crate::quantization::quantized_activations::Group;
use crate::simd::{LANES, Vector};

/// Bytes of one exponent per row.
const EXPONENT_BYTES: usize = LANES;

pub(crate) struct Mxfp4Panel;

impl Panel for Mxfp4Panel {
    type Source = Mxfp4;
    const BYTES: usize = EXPONENT_BYTES + NIBBLE_BYTES;

    fn pack(source: &[u8], lane: usize, panel: &mut [u8]) {
        panel[lane] = source[0];
        pack_quads(&source[1..], lane, &mut panel[EXPONENT_BYTES..]);
    }

    fn unpack(panel: &[u8], lane: usize, source: &mut [u8]) {
        source[0] = panel[lane];
        unpack_quads(&panel[EXPONENT_BYTES..], lane, &mut source[1..]);
    }

    #[inline(always)]
    fn multiply<V: Vector, const ROWS: usize>(
        v: V,
        panel: &[u8],
        _part: usize,
        groups: &[&Group; ROWS],
        sums: &mut [V::F; ROWS],
    ) {
        let mut codes = nibbles(v, &panel[EXPONENT_BYTES..]);
        // A loop: closures of the standard library's functions are not compiled for the level.
        for code in &mut codes {
            *code = v.look_up(&UNSIGNED, *code);
        }
        let start = |group: &Group| -i32::from(ZERO_POINT) * (group.sums[0] + group.sums[1]);
        let products = dot_u7_i8(v, &codes, groups, 0, start);
        add_scaled(v, products, scales(v, panel), groups, sums);
    }

    #[inline(always)]
    fn unpack_group<V: Vector>(v: V, panel: &[u8], _part: usize, out: &mut UnpackedGroup) {
        unpack_nibbles(&panel[EXPONENT_BYTES..], &mut out.codes);
        for code in &mut out.codes {
            *code = unsigned(*code);
        }
        unpack_scales(v, scales(v, panel), f32::from(ZERO_POINT), out);
    }
}

/// The scales of twice the values of sixteen rows.
#[inline(always)]
fn scales<V: Vector>(v: V, panel: &[u8]) -> V::F {
    let mut scales = [0.0; LANES];
    for (scale, exponent) in scales.iter_mut().zip(panel) {
        *scale = half_scale(*exponent);
    }
    v.load(&scales)
}
