//! Element types of the KV cache: dense ones, e4m3 floats, and int8 codes with a scale per token and
//! head.

use super::element::Load;
use crate::simd::{LANES, Vector};

/// An element of a KV cache. A head of a block is its elements, and then the scales of its tokens.
pub(crate) trait CacheLoad: Load {
    /// Elements that hold the scale of a token; 0 where elements need none.
    const SCALE_ELEMENTS: usize = 0;

    /// The scale that keys or values of one head are divided by.
    fn scale_for(_values: &[f32]) -> f32 {
        1.0
    }

    /// Stores a scale in `SCALE_ELEMENTS` elements.
    fn store_scale(_scale: f32, _out: &mut [Self]) {}

    /// The scale in `SCALE_ELEMENTS` elements.
    fn load_scale(_from: &[Self]) -> f32 {
        1.0
    }
}

impl CacheLoad for f32 {}
impl CacheLoad for super::element::F16 {}
impl CacheLoad for super::element::Bf16 {}

/// The bits of an e4m3 float: a sign, four exponent bits with bias 7 and three mantissa bits; no
/// infinities, and NaN where all of exponent and mantissa are ones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// The largest e4m3 float, to which larger numbers saturate.
const LARGEST_E4M3: f32 = 448.0;
const E4M3_NAN: u8 = 0x7f;

impl From<f32> for E4m3 {
    fn from(value: f32) -> Self {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let size = value.abs();
        if size.is_nan() {
            return E4m3(sign | E4M3_NAN);
        }
        // Below the smallest normal number, steps are of 2^-9.
        let exponent = ((size.to_bits() >> 23) as i32 - 127).clamp(-6, 8);
        let eighths = (size.min(LARGEST_E4M3) * power_of_two(3 - exponent)).round_ties_even();
        // Sixteen eighths carry into the exponent; below eight the number is subnormal.
        E4m3(sign | (((exponent + 6) << 3) as u8 + eighths as u8))
    }
}

fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

impl From<E4m3> for f32 {
    #[inline(always)]
    fn from(value: E4m3) -> Self {
        let magnitude = u32::from(value.0 & 0x7f) << 20;
        // A bias of 127 instead of 7; where the exponent is zero, the implicit one is taken back.
        let normal = f32::from_bits(magnitude + (120 << 23));
        let subnormal = f32::from_bits(magnitude + (121 << 23)) - power_of_two(-6);
        let size = if value.0 & 0x78 == 0 { subnormal } else { normal };
        let size = if value.0 & 0x7f == E4M3_NAN { f32::NAN } else { size };
        f32::from_bits(size.to_bits() | (u32::from(value.0 & 0x80) << 24))
    }
}

impl Load for E4m3 {
    #[inline(always)]
    fn load<V: Vector>(v: V, from: &[E4m3; LANES]) -> V::F {
        v.load(&from.map(f32::from))
    }
}

impl CacheLoad for E4m3 {}

/// An int8 code.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(transparent)]
pub struct Int8(pub i8);

impl From<f32> for Int8 {
    fn from(value: f32) -> Self {
        Int8(value.round_ties_even() as i8)
    }
}

impl From<Int8> for f32 {
    fn from(value: Int8) -> Self {
        f32::from(value.0)
    }
}

impl Load for Int8 {
    #[inline(always)]
    fn load<V: Vector>(v: V, from: &[Int8; LANES]) -> V::F {
        v.to_float(v.load_i8(&from.map(|code| code.0 as u8)))
    }
}

impl CacheLoad for Int8 {
    const SCALE_ELEMENTS: usize = 4;

    /// The largest magnitude becomes 127. A number that is not finite makes the head NaN.
    fn scale_for(values: &[f32]) -> f32 {
        let largest = values.iter().fold(0.0_f32, |most, one| most.max(one.abs()));
        let poison: f32 = values.iter().map(|one| one * 0.0).sum();
        largest / 127.0 + poison
    }

    fn store_scale(scale: f32, out: &mut [Self]) {
        for (out, byte) in out.iter_mut().zip(scale.to_le_bytes()) {
            *out = Int8(byte as i8);
        }
    }

    #[inline(always)]
    fn load_scale(from: &[Self]) -> f32 {
        let mut bytes = [0; 4];
        for (byte, from) in bytes.iter_mut().zip(from) {
            *byte = from.0 as u8;
        }
        f32::from_le_bytes(bytes)
    }
}
