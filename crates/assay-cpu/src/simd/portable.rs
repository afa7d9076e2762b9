//! Sixteen lanes in portable Rust, auto-vectorized by the compiler.
//!
//! Long functions are not inlined: inlining them into every kernel would dominate the crate's compile
//! time, for CPUs that are rare.

use super::vector::{Kernel, LANES, Vector};
use crate::half_precision;

/// Needs no CPU features.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn each<T: Copy, R: Copy + Default>(a: [T; LANES], f: impl Fn(T) -> R) -> [R; LANES] {
    let mut out = [R::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(a[lane]);
    }
    out
}

#[inline(always)]
fn both<T: Copy + Default>(a: [T; LANES], b: [T; LANES], f: impl Fn(T, T) -> T) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(a[lane], b[lane]);
    }
    out
}

#[inline(always)]
fn bytes(a: [u8; 64], f: impl Fn(u8) -> u8) -> [u8; 64] {
    let mut out = [0; 64];
    for index in 0..64 {
        out[index] = f(a[index]);
    }
    out
}

/// Reduces pairs of lanes until one is left, in the order of the SIMD reductions.
#[inline(always)]
fn fold(mut lanes: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = f(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

impl Vector for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    type B = [u8; 64];

    const HAS_32_REGISTERS: bool = false;
    const U8_BIAS: i32 = 0;

    #[inline(never)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        [value; LANES]
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        *from
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        *to = value;
    }
    #[inline(never)]
    fn load_bf16(self, from: &[u16; LANES]) -> Self::F {
        each(*from, |bits| f32::from_bits(u32::from(bits) << 16))
    }
    #[inline(never)]
    fn load_f16(self, from: &[u16; LANES]) -> Self::F {
        each(*from, half_precision::f16_to_f32)
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a * b)
    }
    #[inline(never)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a / b)
    }
    #[inline(never)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(never)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(never)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // Two roundings: a fused multiply-add would be a library call per lane.
        self.add(self.mul(a, b), c)
    }
    #[inline(never)]
    fn sum(self, value: Self::F) -> f32 {
        fold(value, |a, b| a + b)
    }
    #[inline(never)]
    fn maximum(self, value: Self::F) -> f32 {
        fold(value, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn splat_i(self, value: i32) -> Self::I {
        [value; LANES]
    }
    #[inline(always)]
    fn store_i(self, value: Self::I, to: &mut [i32; LANES]) {
        *to = value;
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> Self::I {
        each(*from, i32::from)
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8; LANES]) -> Self::I {
        each(*from, |byte| i32::from(byte as i8))
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn mul_i(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, i32::wrapping_mul)
    }
    #[inline(never)]
    fn to_float(self, value: Self::I) -> Self::F {
        each(value, |value| value as f32)
    }
    #[inline(never)]
    fn round(self, value: Self::F) -> Self::I {
        each(value, |value| value.round_ties_even() as i32)
    }
    #[inline(never)]
    fn power_of_two(self, exponent: Self::I) -> Self::F {
        each(exponent, |exponent| f32::from_bits((exponent.wrapping_add(127) as u32) << 23))
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8; 64]) -> Self::B {
        *from
    }
    #[inline(never)]
    fn low_nibbles(self, value: Self::B) -> Self::B {
        bytes(value, |byte| byte & 15)
    }
    #[inline(never)]
    fn high_nibbles(self, value: Self::B) -> Self::B {
        bytes(value, |byte| byte >> 4)
    }
    #[inline(never)]
    fn look_up(self, table: &[u8; 16], indices: Self::B) -> Self::B {
        bytes(indices, |index| table[usize::from(index & 15)])
    }
    #[inline(never)]
    fn with_two_bits<const N: u32>(self, low: Self::B, high: Self::B) -> Self::B {
        let mut out = low;
        for index in 0..64 {
            out[index] |= ((high[index] >> (2 * N)) & 3) << 4;
        }
        out
    }
    #[inline(never)]
    fn dot_u7_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I {
        let mut out = sum;
        for lane in 0..LANES {
            for part in 0..4 {
                out[lane] += i32::from(weights[4 * lane + part]) * i32::from(activations[part]);
            }
        }
        out
    }
    #[inline(never)]
    fn dot_u8_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I {
        let mut out = sum;
        for lane in 0..LANES {
            for part in 0..4 {
                let weight = i32::from(weights[4 * lane + part]) - 128;
                out[lane] += weight * i32::from(activations[part]);
            }
        }
        out
    }
}
