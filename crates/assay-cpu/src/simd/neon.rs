//! Sixteen lanes in four registers: NEON, with the dot product of bytes where there is one.

use super::vector::{Kernel, LANES, Vector};
use std::arch::aarch64::*;
use std::arch::asm;

/// NEON; `DOT` is whether the CPU has the dot product of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Neon<const DOT: bool>(());

impl<const DOT: bool> Neon<DOT> {
    /// # Safety
    ///
    /// The CPU has NEON, and the dot product if `DOT`.
    #[inline(always)]
    pub(super) unsafe fn assume() -> Self {
        Neon(())
    }
}

macro_rules! with_neon {
    ($call:expr) => {
        // SAFETY: a token exists only where the CPU has these instructions, and references to
        // arrays are valid for reads and writes of their length.
        unsafe { $call }
    };
}

/// One call for each of the four registers.
macro_rules! each {
    ($function:ident, $a:expr) => {{
        let a = $a;
        with_neon!([$function(a[0]), $function(a[1]), $function(a[2]), $function(a[3])])
    }};
    ($function:ident, $a:expr, $b:expr) => {{
        let (a, b) = ($a, $b);
        with_neon!([
            $function(a[0], b[0]),
            $function(a[1], b[1]),
            $function(a[2], b[2]),
            $function(a[3], b[3])
        ])
    }};
    ($function:ident, $a:expr, $b:expr, $c:expr) => {{
        let (a, b, c) = ($a, $b, $c);
        with_neon!([
            $function(a[0], b[0], c[0]),
            $function(a[1], b[1], c[1]),
            $function(a[2], b[2], c[2]),
            $function(a[3], b[3], c[3])
        ])
    }};
}

/// Four signed products of bytes added to each of four lanes.
#[inline(always)]
unsafe fn add_products<const DOT: bool>(
    sum: int32x4_t,
    weights: int8x16_t,
    activations: int8x16_t,
) -> int32x4_t {
    if DOT {
        let mut out = sum;
        // SAFETY: the token's `DOT` vouches for the instruction, which touches registers only. The
        // intrinsic for it is not stable.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {out:v}.4s, {weights:v}.16b, {activations:v}.16b",
                out = inout(vreg) out,
                weights = in(vreg) weights,
                activations = in(vreg) activations,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        return out;
    }
    with_neon!({
        let low = vmull_s8(vget_low_s8(weights), vget_low_s8(activations));
        let high = vmull_s8(vget_high_s8(weights), vget_high_s8(activations));
        // Widened to 32 bits before two products of up to 2^14 are added.
        let pairs = vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
        vaddq_s32(sum, pairs)
    })
}

/// Converts four half-precision numbers; the intrinsic is not stable on all compilers.
#[inline(always)]
unsafe fn widen(halves: uint16x4_t) -> float32x4_t {
    let out: float32x4_t;
    // SAFETY: part of every CPU with NEON; touches registers only.
    unsafe {
        asm!(
            "fcvtl {out:v}.4s, {halves:v}.4h",
            out = out(vreg) out,
            halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    out
}

impl<const DOT: bool> Vector for Neon<DOT> {
    type F = [float32x4_t; 4];
    type I = [int32x4_t; 4];
    type B = [uint8x16_t; 4];

    const HAS_32_REGISTERS: bool = false;
    const U8_BIAS: i32 = 0;

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        if DOT { with_neon!(run_neon_dot(kernel)) } else { with_neon!(run_neon(kernel)) }
    }
    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        with_neon!([vdupq_n_f32(value); 4])
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        let first = from.as_ptr();
        with_neon!([
            vld1q_f32(first),
            vld1q_f32(first.add(4)),
            vld1q_f32(first.add(8)),
            vld1q_f32(first.add(12)),
        ])
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        let first = to.as_mut_ptr();
        with_neon!({
            vst1q_f32(first, value[0]);
            vst1q_f32(first.add(4), value[1]);
            vst1q_f32(first.add(8), value[2]);
            vst1q_f32(first.add(12), value[3]);
        })
    }
    #[inline(always)]
    fn load_bf16(self, from: &[u16; LANES]) -> Self::F {
        with_neon!({
            let (low, high) = (vld1q_u16(from.as_ptr()), vld1q_u16(from.as_ptr().add(8)));
            [
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(low))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_high_u16(low))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(high))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_high_u16(high))),
            ]
        })
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> Self::F {
        with_neon!({
            let (low, high) = (vld1q_u16(from.as_ptr()), vld1q_u16(from.as_ptr().add(8)));
            [
                widen(vget_low_u16(low)),
                widen(vget_high_u16(low)),
                widen(vget_low_u16(high)),
                widen(vget_high_u16(high)),
            ]
        })
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vaddq_f32, a, b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vsubq_f32, a, b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vmulq_f32, a, b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vdivq_f32, a, b)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vbslq_f32, each!(vcgtq_f32, a, b), a, b)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vbslq_f32, each!(vcltq_f32, a, b), a, b)
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        each!(vfmaq_f32, c, a, b)
    }
    #[inline(always)]
    fn sum(self, value: Self::F) -> f32 {
        with_neon!({
            let (low, high) = (vaddq_f32(value[0], value[2]), vaddq_f32(value[1], value[3]));
            vaddvq_f32(vaddq_f32(low, high))
        })
    }
    #[inline(always)]
    fn maximum(self, value: Self::F) -> f32 {
        let [a, b, c, d] = value;
        let two = self.max([a, b, a, b], [c, d, c, d]);
        with_neon!(vmaxvq_f32(vmaxq_f32(two[0], two[1])))
    }
    #[inline(always)]
    fn splat_i(self, value: i32) -> Self::I {
        with_neon!([vdupq_n_s32(value); 4])
    }
    #[inline(always)]
    fn store_i(self, value: Self::I, to: &mut [i32; LANES]) {
        let first = to.as_mut_ptr();
        with_neon!({
            vst1q_s32(first, value[0]);
            vst1q_s32(first.add(4), value[1]);
            vst1q_s32(first.add(8), value[2]);
            vst1q_s32(first.add(12), value[3]);
        })
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> Self::I {
        with_neon!({
            let bytes = vld1q_u8(from.as_ptr());
            let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_u8(vget_high_u8(bytes)));
            [
                vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))),
                vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high))),
            ]
        })
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8; LANES]) -> Self::I {
        with_neon!({
            let bytes = vreinterpretq_s8_u8(vld1q_u8(from.as_ptr()));
            let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes)));
            [
                vmovl_s16(vget_low_s16(low)),
                vmovl_s16(vget_high_s16(low)),
                vmovl_s16(vget_low_s16(high)),
                vmovl_s16(vget_high_s16(high)),
            ]
        })
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        each!(vaddq_s32, a, b)
    }
    #[inline(always)]
    fn mul_i(self, a: Self::I, b: Self::I) -> Self::I {
        each!(vmulq_s32, a, b)
    }
    #[inline(always)]
    fn to_float(self, value: Self::I) -> Self::F {
        each!(vcvtq_f32_s32, value)
    }
    #[inline(always)]
    fn round(self, value: Self::F) -> Self::I {
        each!(vcvtnq_s32_f32, value)
    }
    #[inline(always)]
    fn power_of_two(self, exponent: Self::I) -> Self::F {
        let biased = self.add_i(exponent, self.splat_i(127));
        with_neon!([
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased[0])),
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased[1])),
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased[2])),
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased[3])),
        ])
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8; 64]) -> Self::B {
        let first = from.as_ptr();
        with_neon!([
            vld1q_u8(first),
            vld1q_u8(first.add(16)),
            vld1q_u8(first.add(32)),
            vld1q_u8(first.add(48)),
        ])
    }
    #[inline(always)]
    fn low_nibbles(self, value: Self::B) -> Self::B {
        let mask = with_neon!(vdupq_n_u8(15));
        each!(vandq_u8, value, [mask; 4])
    }
    #[inline(always)]
    fn high_nibbles(self, value: Self::B) -> Self::B {
        with_neon!([
            vshrq_n_u8::<4>(value[0]),
            vshrq_n_u8::<4>(value[1]),
            vshrq_n_u8::<4>(value[2]),
            vshrq_n_u8::<4>(value[3]),
        ])
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: Self::B) -> Self::B {
        let table = with_neon!(vld1q_u8(table.as_ptr()));
        each!(vqtbl1q_u8, [table; 4], indices)
    }
    #[inline(always)]
    fn with_two_bits<const N: u32>(self, low: Self::B, high: Self::B) -> Self::B {
        let moved = with_neon!({
            let shift = vdupq_n_s8(4 - 2 * N as i8);
            [
                vshlq_u8(high[0], shift),
                vshlq_u8(high[1], shift),
                vshlq_u8(high[2], shift),
                vshlq_u8(high[3], shift),
            ]
        });
        let mask = with_neon!(vdupq_n_u8(0x30));
        each!(vorrq_u8, low, each!(vandq_u8, moved, [mask; 4]))
    }
    #[inline(always)]
    fn dot_u7_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I {
        let [a, b, c, d] = activations;
        let four = i32::from_ne_bytes([a as u8, b as u8, c as u8, d as u8]);
        let weights = each!(vreinterpretq_s8_u8, weights);
        with_neon!({
            let four = vreinterpretq_s8_s32(vdupq_n_s32(four));
            [
                add_products::<DOT>(sum[0], weights[0], four),
                add_products::<DOT>(sum[1], weights[1], four),
                add_products::<DOT>(sum[2], weights[2], four),
                add_products::<DOT>(sum[3], weights[3], four),
            ]
        })
    }
    #[inline(always)]
    fn dot_u8_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I {
        let flip = with_neon!(vdupq_n_u8(0x80));
        let signed = each!(veorq_u8, weights, [flip; 4]);
        self.dot_u7_i8(sum, signed, activations)
    }
}

/// Runs a kernel compiled with these instructions.
#[target_feature(enable = "neon")]
#[inline(never)]
pub(super) fn run_neon<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Neon::<false>::assume() })
}

/// Runs a kernel compiled with these instructions.
#[target_feature(enable = "neon,dotprod")]
#[inline(never)]
pub(super) fn run_neon_dot<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Neon::<true>::assume() })
}
