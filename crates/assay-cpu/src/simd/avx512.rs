//! Sixteen lanes in one register: AVX-512, with or without the dot product of bytes (VNNI).

use super::vector::{Kernel, LANES, Vector};
use std::arch::x86_64::*;

/// AVX-512 F, BW, DQ, VL and, where `VNNI`, VNNI; created by [`Level`](super::Level) after feature detection.
#[derive(Clone, Copy)]
pub(crate) struct Avx512<const VNNI: bool>(());

impl<const VNNI: bool> Avx512<VNNI> {
    /// # Safety
    ///
    /// The CPU has AVX-512 F, BW, DQ, VL and, where `VNNI`, VNNI.
    #[inline(always)]
    pub(super) unsafe fn assume() -> Self {
        Avx512(())
    }
}

macro_rules! with_avx512 {
    ($call:expr) => {
        // SAFETY: a token exists only where the CPU has these instructions, and references to
        // arrays are valid for reads and writes of their length.
        unsafe { $call }
    };
}

impl<const VNNI: bool> Vector for Avx512<VNNI> {
    type F = __m512;
    type I = __m512i;
    type B = __m512i;

    const HAS_32_REGISTERS: bool = true;
    const U8_BIAS: i32 = -128;

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        with_avx512!(run::<K, VNNI>(kernel))
    }
    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        with_avx512!(_mm512_set1_ps(value))
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        with_avx512!(_mm512_loadu_ps(from.as_ptr()))
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        with_avx512!(_mm512_storeu_ps(to.as_mut_ptr(), value))
    }
    #[inline(always)]
    fn load_bf16(self, from: &[u16; LANES]) -> Self::F {
        with_avx512!({
            let halves = _mm256_loadu_si256(from.as_ptr().cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
        })
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> Self::F {
        with_avx512!(_mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())))
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        with_avx512!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        with_avx512!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        with_avx512!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        with_avx512!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        with_avx512!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        with_avx512!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        with_avx512!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn sum(self, value: Self::F) -> f32 {
        with_avx512!(_mm512_reduce_add_ps(value))
    }
    #[inline(always)]
    fn transpose(self, from: [&[f32; LANES]; LANES], to: &mut [[f32; LANES]; LANES]) {
        with_avx512!({
            let mut fours = [_mm512_setzero_ps(); LANES];
            for group in 0..4 {
                // Columns 4 n + 0, 1, 2 and 3 of four rows, n by 128-bit lane.
                let a = _mm512_loadu_ps(from[4 * group].as_ptr());
                let b = _mm512_loadu_ps(from[4 * group + 1].as_ptr());
                let c = _mm512_loadu_ps(from[4 * group + 2].as_ptr());
                let d = _mm512_loadu_ps(from[4 * group + 3].as_ptr());
                let low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
                let high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
                let other_low = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
                let other_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
                fours[4 * group] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, other_low));
                fours[4 * group + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, other_low));
                fours[4 * group + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high, other_high));
                fours[4 * group + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high, other_high));
            }
            for column in 0..4 {
                let (a, b) = (fours[column], fours[column + 4]);
                let (c, d) = (fours[column + 8], fours[column + 12]);
                let even = _mm512_shuffle_f32x4::<0x88>(a, b);
                let other_even = _mm512_shuffle_f32x4::<0x88>(c, d);
                let odd = _mm512_shuffle_f32x4::<0xdd>(a, b);
                let other_odd = _mm512_shuffle_f32x4::<0xdd>(c, d);
                let first = _mm512_shuffle_f32x4::<0x88>(even, other_even);
                _mm512_storeu_ps(to[column].as_mut_ptr(), first);
                let second = _mm512_shuffle_f32x4::<0x88>(odd, other_odd);
                _mm512_storeu_ps(to[column + 4].as_mut_ptr(), second);
                let third = _mm512_shuffle_f32x4::<0xdd>(even, other_even);
                _mm512_storeu_ps(to[column + 8].as_mut_ptr(), third);
                let fourth = _mm512_shuffle_f32x4::<0xdd>(odd, other_odd);
                _mm512_storeu_ps(to[column + 12].as_mut_ptr(), fourth);
            }
        })
    }
    #[inline(always)]
    fn maximum(self, value: Self::F) -> f32 {
        with_avx512!(_mm512_reduce_max_ps(value))
    }
    #[inline(always)]
    fn splat_i(self, value: i32) -> Self::I {
        with_avx512!(_mm512_set1_epi32(value))
    }
    #[inline(always)]
    fn store_i(self, value: Self::I, to: &mut [i32; LANES]) {
        with_avx512!(_mm512_storeu_si512(to.as_mut_ptr().cast(), value))
    }
    #[inline(always)]
    fn store_i8(self, value: Self::I, to: &mut [i8; LANES]) {
        with_avx512!(_mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(value)))
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> Self::I {
        with_avx512!(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast())))
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8; LANES]) -> Self::I {
        with_avx512!(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast())))
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        with_avx512!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn mul_i(self, a: Self::I, b: Self::I) -> Self::I {
        with_avx512!(_mm512_mullo_epi32(a, b))
    }
    #[inline(always)]
    fn to_float(self, value: Self::I) -> Self::F {
        with_avx512!(_mm512_cvtepi32_ps(value))
    }
    #[inline(always)]
    fn round(self, value: Self::F) -> Self::I {
        with_avx512!(_mm512_cvtps_epi32(value))
    }
    #[inline(always)]
    fn power_of_two(self, exponent: Self::I) -> Self::F {
        with_avx512!({
            let biased = _mm512_add_epi32(exponent, _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        })
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8; 64]) -> Self::B {
        with_avx512!(_mm512_loadu_si512(from.as_ptr().cast()))
    }
    #[inline(always)]
    fn low_nibbles(self, value: Self::B) -> Self::B {
        with_avx512!(_mm512_and_si512(value, _mm512_set1_epi8(15)))
    }
    #[inline(always)]
    fn high_nibbles(self, value: Self::B) -> Self::B {
        with_avx512!(_mm512_and_si512(_mm512_srli_epi16::<4>(value), _mm512_set1_epi8(15)))
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: Self::B) -> Self::B {
        with_avx512!({
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, indices)
        })
    }
    #[inline(always)]
    fn with_two_bits<const N: u32>(self, low: Self::B, high: Self::B) -> Self::B {
        with_avx512!({
            let moved = match N {
                0 => _mm512_slli_epi16::<4>(high),
                1 => _mm512_slli_epi16::<2>(high),
                2 => high,
                _ => _mm512_srli_epi16::<2>(high),
            };
            _mm512_or_si512(low, _mm512_and_si512(moved, _mm512_set1_epi8(0x30)))
        })
    }
    #[inline(always)]
    fn dot_u7_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I {
        if VNNI {
            return self.dot_u8_i8(sum, weights, activations);
        }
        self.add_products(sum, weights, broadcast_four(activations))
    }
    #[inline(always)]
    fn dot_u8_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I {
        let four = broadcast_four(activations);
        if VNNI {
            return with_avx512!(_mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(four)));
        }
        // 16-bit sums of two products overflow neither with the lower seven bits nor with the highest.
        let highest = with_avx512!(_mm512_set1_epi8(-128));
        let (low, high) = with_avx512!((
            _mm512_andnot_si512(highest, weights),
            _mm512_and_si512(highest, weights)
        ));
        self.add_products(self.add_products(sum, low, four), high, four)
    }
}

impl<const VNNI: bool> Avx512<VNNI> {
    /// Adds products of weights and activations, four to a lane, whose pairs fit into 16 bits.
    #[inline(always)]
    fn add_products(self, sum: __m512i, weights: __m512i, four: i32) -> __m512i {
        with_avx512!({
            let pairs = _mm512_maddubs_epi16(weights, _mm512_set1_epi32(four));
            _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
        })
    }
}

#[inline(always)]
fn broadcast_four([a, b, c, d]: [i8; 4]) -> i32 {
    i32::from_ne_bytes([a as u8, b as u8, c as u8, d as u8])
}

/// Runs a kernel compiled for the level of a token.
///
/// # Safety
///
/// The CPU has the instructions of the token.
#[inline(always)]
unsafe fn run<K: Kernel, const VNNI: bool>(kernel: K) -> K::Output {
    match VNNI {
        // SAFETY: the caller guarantees these instructions.
        true => unsafe { run_avx512_vnni(kernel) },
        // SAFETY: the same.
        false => unsafe { run_avx512(kernel) },
    }
}

/// Runs a kernel compiled with these instructions.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
pub(super) fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Avx512::<false>::assume() })
}

/// Runs a kernel compiled with these instructions.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline(never)]
pub(super) fn run_avx512_vnni<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Avx512::<true>::assume() })
}
