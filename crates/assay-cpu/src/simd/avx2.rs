//! Sixteen lanes in two registers: AVX2 with fused multiply-add and half-precision conversion.

use super::vector::{Kernel, LANES, Vector};
use std::arch::x86_64::*;

/// AVX2, FMA and F16C; created by [`Level`](super::Level) after feature detection.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// # Safety
    ///
    /// The CPU has AVX2, FMA and F16C.
    #[inline(always)]
    pub(super) unsafe fn assume() -> Self {
        Avx2(())
    }
}

macro_rules! with_avx2 {
    ($call:expr) => {
        // SAFETY: a token exists only where the CPU has these instructions, and references to
        // arrays are valid for reads and writes of their length.
        unsafe { $call }
    };
}

/// One call for each of the two registers.
macro_rules! twice {
    ($function:ident, $a:expr) => {
        with_avx2!([$function($a[0]), $function($a[1])])
    };
    ($function:ident, $a:expr, $b:expr) => {
        with_avx2!([$function($a[0], $b[0]), $function($a[1], $b[1])])
    };
}

impl Avx2 {
    /// The two 128-bit halves, for horizontal reductions.
    #[inline(always)]
    fn halves(self, value: __m256) -> (__m128, __m128) {
        with_avx2!((_mm256_castps256_ps128(value), _mm256_extractf128_ps::<1>(value)))
    }

    #[inline(always)]
    fn broadcast_four(self, activations: [i8; 4]) -> __m256i {
        let [a, b, c, d] = activations;
        let four = i32::from_ne_bytes([a as u8, b as u8, c as u8, d as u8]);
        with_avx2!(_mm256_set1_epi32(four))
    }

    /// Accumulates 16-bit products pairwise in 32 bits.
    #[inline(always)]
    fn add_products(self, sum: __m256i, products: __m256i) -> __m256i {
        with_avx2!(_mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1))))
    }

    #[inline(always)]
    fn mask(self, value: [__m256i; 2], bits: i8) -> [__m256i; 2] {
        let mask = with_avx2!(_mm256_set1_epi8(bits));
        twice!(_mm256_and_si256, value, [mask, mask])
    }
}

impl Vector for Avx2 {
    type F = [__m256; 2];
    type I = [__m256i; 2];
    type B = [__m256i; 2];

    const HAS_32_REGISTERS: bool = false;
    const U8_BIAS: i32 = 0;

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        with_avx2!(run_avx2(kernel))
    }
    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        with_avx2!([_mm256_set1_ps(value); 2])
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        let first = from.as_ptr();
        with_avx2!([_mm256_loadu_ps(first), _mm256_loadu_ps(first.add(8))])
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        let first = to.as_mut_ptr();
        with_avx2!({
            _mm256_storeu_ps(first, value[0]);
            _mm256_storeu_ps(first.add(8), value[1]);
        })
    }
    #[inline(always)]
    fn load_bf16(self, from: &[u16; LANES]) -> Self::F {
        let first: *const __m128i = from.as_ptr().cast();
        with_avx2!({
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(first));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(first.add(1)));
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(low)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(high)),
            ]
        })
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> Self::F {
        let first: *const __m128i = from.as_ptr().cast();
        with_avx2!([
            _mm256_cvtph_ps(_mm_loadu_si128(first)),
            _mm256_cvtph_ps(_mm_loadu_si128(first.add(1))),
        ])
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        twice!(_mm256_add_ps, a, b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        twice!(_mm256_sub_ps, a, b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        twice!(_mm256_mul_ps, a, b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        twice!(_mm256_div_ps, a, b)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        twice!(_mm256_max_ps, a, b)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        twice!(_mm256_min_ps, a, b)
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        with_avx2!([_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1]),])
    }
    #[inline(always)]
    fn sum(self, value: Self::F) -> f32 {
        let (low, high) = self.halves(with_avx2!(_mm256_add_ps(value[0], value[1])));
        with_avx2!({
            let four = _mm_add_ps(low, high);
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        })
    }
    #[inline(always)]
    fn maximum(self, value: Self::F) -> f32 {
        let (low, high) = self.halves(with_avx2!(_mm256_max_ps(value[0], value[1])));
        with_avx2!({
            let four = _mm_max_ps(low, high);
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        })
    }
    #[inline(always)]
    fn splat_i(self, value: i32) -> Self::I {
        with_avx2!([_mm256_set1_epi32(value); 2])
    }
    #[inline(always)]
    fn store_i(self, value: Self::I, to: &mut [i32; LANES]) {
        let first: *mut __m256i = to.as_mut_ptr().cast();
        with_avx2!({
            _mm256_storeu_si256(first, value[0]);
            _mm256_storeu_si256(first.add(1), value[1]);
        })
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> Self::I {
        with_avx2!({
            let bytes = _mm_loadu_si128(from.as_ptr().cast());
            [_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes))]
        })
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8; LANES]) -> Self::I {
        with_avx2!({
            let bytes = _mm_loadu_si128(from.as_ptr().cast());
            [_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes))]
        })
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        twice!(_mm256_add_epi32, a, b)
    }
    #[inline(always)]
    fn mul_i(self, a: Self::I, b: Self::I) -> Self::I {
        twice!(_mm256_mullo_epi32, a, b)
    }
    #[inline(always)]
    fn to_float(self, value: Self::I) -> Self::F {
        twice!(_mm256_cvtepi32_ps, value)
    }
    #[inline(always)]
    fn round(self, value: Self::F) -> Self::I {
        twice!(_mm256_cvtps_epi32, value)
    }
    #[inline(always)]
    fn power_of_two(self, exponent: Self::I) -> Self::F {
        let biased = self.add_i(exponent, self.splat_i(127));
        with_avx2!([
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased[0])),
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased[1])),
        ])
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8; 64]) -> Self::B {
        let first: *const __m256i = from.as_ptr().cast();
        with_avx2!([_mm256_loadu_si256(first), _mm256_loadu_si256(first.add(1))])
    }
    #[inline(always)]
    fn low_nibbles(self, value: Self::B) -> Self::B {
        self.mask(value, 15)
    }
    #[inline(always)]
    fn high_nibbles(self, value: Self::B) -> Self::B {
        let moved =
            with_avx2!([_mm256_srli_epi16::<4>(value[0]), _mm256_srli_epi16::<4>(value[1]),]);
        self.mask(moved, 15)
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: Self::B) -> Self::B {
        let table = with_avx2!(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())));
        twice!(_mm256_shuffle_epi8, [table, table], indices)
    }
    #[inline(always)]
    fn with_two_bits<const N: u32>(self, low: Self::B, high: Self::B) -> Self::B {
        let [a, b] = high;
        let moved = with_avx2!(match N {
            0 => [_mm256_slli_epi16::<4>(a), _mm256_slli_epi16::<4>(b)],
            1 => [_mm256_slli_epi16::<2>(a), _mm256_slli_epi16::<2>(b)],
            2 => high,
            _ => [_mm256_srli_epi16::<2>(a), _mm256_srli_epi16::<2>(b)],
        });
        twice!(_mm256_or_si256, low, self.mask(moved, 0x30))
    }
    #[inline(always)]
    fn dot_u7_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I {
        let four = self.broadcast_four(activations);
        // 16-bit sums of two products cannot overflow with weights below 128.
        let products = twice!(_mm256_maddubs_epi16, weights, [four, four]);
        [self.add_products(sum[0], products[0]), self.add_products(sum[1], products[1])]
    }
    #[inline(always)]
    fn dot_u8_i8(self, sum: Self::I, weights: Self::B, activations: [i8; 4]) -> Self::I {
        let four = self.broadcast_four(activations);
        let flip = with_avx2!(_mm256_set1_epi8(-128));
        // The sign moves to the activation, so that the product of magnitudes is at most 2^14.
        let signed = twice!(_mm256_xor_si256, weights, [flip, flip]);
        let magnitude = twice!(_mm256_abs_epi8, signed);
        let signed_activations = twice!(_mm256_sign_epi8, [four, four], signed);
        let products = twice!(_mm256_maddubs_epi16, magnitude, signed_activations);
        [self.add_products(sum[0], products[0]), self.add_products(sum[1], products[1])]
    }
}

/// Runs a kernel compiled with these instructions.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
pub(super) fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Avx2::assume() })
}
