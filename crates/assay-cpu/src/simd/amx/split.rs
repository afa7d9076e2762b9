//! Products of single-precision numbers on bfloat16 tiles.
//!
//! A number is rounded to bfloat16, what is left is rounded again, and once more: three terms have all bits
//! of its fraction. Of the nine products of terms, the six that count are summed. Two terms have 16 bits of it,
//! and all four products are summed; one has 8. Numbers that are not finite, or round to infinity, have no such terms: who splits is told.

use super::instructions::{Amx, AmxSession, PAIR_ORDER};
use super::tile::{SPLIT_TERMS, SplitColumns, SplitStep, StepOffsets, TILE_K, TileC};
use crate::simd::vector::LANES;
use std::arch::asm;
use std::arch::x86_64::*;

/// Terms of sixteen even and sixteen odd numbers, as pairs; returns whether all numbers are finite.
///
/// # Safety
///
/// The CPU has AVX512-BF16.
#[inline(always)]
unsafe fn split_pairs<const TERMS: usize>(
    mut even: __m512,
    mut odd: __m512,
    out: [&mut [u16; TILE_K]; TERMS],
) -> bool {
    // SAFETY: the caller guarantees the instructions; the arrays are as long as what is written.
    unsafe {
        let order = _mm512_loadu_si512(PAIR_ORDER.as_ptr().cast());
        let upper = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
        let infinity = _mm512_set1_ps(f32::INFINITY);
        let mut finite = true;
        for (term, out) in out.into_iter().enumerate() {
            let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(odd, even));
            let pairs = _mm512_permutexvar_epi16(order, both);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), pairs);
            let even_term = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs));
            let odd_term = _mm512_castsi512_ps(_mm512_and_si512(pairs, upper));
            if term == 0 {
                let below = |x| _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(x), infinity);
                finite = below(even_term) & below(odd_term) == u16::MAX;
            }
            even = _mm512_sub_ps(even, even_term);
            odd = _mm512_sub_ps(odd, odd_term);
        }
        finite
    }
}

impl Amx {
    /// Terms of 32 numbers, in order; returns whether all numbers are finite.
    #[inline(always)]
    pub fn split<const TERMS: usize>(
        self,
        values: &[f32; TILE_K],
        out: [&mut [u16; TILE_K]; TERMS],
    ) -> bool {
        // SAFETY: a token exists only where the CPU has these instructions; the array is as long as
        // what is read.
        unsafe {
            let first = _mm512_loadu_ps(values.as_ptr());
            let second = _mm512_loadu_ps(values.as_ptr().add(LANES));
            let select = |places: &[u32; LANES]| {
                let places = _mm512_loadu_si512(places.as_ptr().cast());
                _mm512_permutex2var_ps(first, places, second)
            };
            split_pairs(select(&EVEN_LANES), select(&ODD_LANES), out)
        }
    }

    /// The first of 32 numbers that are `stride` apart, and the others.
    #[inline(always)]
    pub fn gather(self, from: &[f32], stride: usize) -> [f32; TILE_K] {
        let reach = (TILE_K - 1) * stride;
        assert!(reach < from.len() && reach <= i32::MAX as usize);
        let mut values = [0.0; TILE_K];
        // SAFETY: a token exists only where the CPU has these instructions; the reach is inside.
        unsafe {
            let count = _mm512_loadu_si512(COUNT.as_ptr().cast());
            let places = _mm512_mullo_epi32(count, _mm512_set1_epi32(stride as i32));
            for (half, values) in values.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let from = from.as_ptr().add(half * LANES * stride);
                let numbers = _mm512_i32gather_ps::<4>(places, from.cast());
                _mm512_storeu_ps(values.as_mut_ptr(), numbers);
            }
        }
        values
    }

    /// Terms of sixteen pairs of numbers; returns whether all numbers are finite.
    #[inline(always)]
    pub fn split_pairs<const TERMS: usize>(
        self,
        even: &[f32; LANES],
        odd: &[f32; LANES],
        out: [&mut [u16; TILE_K]; TERMS],
    ) -> bool {
        // SAFETY: as above.
        unsafe { split_pairs(_mm512_loadu_ps(even.as_ptr()), _mm512_loadu_ps(odd.as_ptr()), out) }
    }
}

const COUNT: [u32; LANES] = places(0, 1);
const EVEN_LANES: [u32; LANES] = places(0, 2);
const ODD_LANES: [u32; LANES] = places(1, 2);

const fn places(first: u32, step: u32) -> [u32; LANES] {
    let mut places = [0; LANES];
    let mut at = 0;
    while at < LANES {
        places[at] = step * at as u32 + first;
        at += 1;
    }
    places
}

/// The loop over steps of 2 x 2 tiles: what a step loads and multiplies, between its addresses and the next ones.
macro_rules! split_product {
    ($rows:ident, $columns:ident, $sums:ident, $step_bytes:literal, $($line:literal),+ $(,)?) => {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "mov {at}, [{offsets}]",
            "add {at}, {columns}",
            "lea {other}, [{at} + {side}]",
            $($line,)+
            concat!("add {rows}, ", $step_bytes),
            "add {offsets}, 8",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{sums} + {line}*1], tmm0",
            "tilestored [{sums} + {line}*1 + 1024], tmm1",
            "tilestored [{sums} + {line}*1 + 2048], tmm2",
            "tilestored [{sums} + {line}*1 + 3072], tmm3",
            rows = inout(reg) $rows.as_ptr() => _,
            columns = in(reg) $columns.halves.as_ptr(),
            offsets = inout(reg) $columns.offsets.bytes.as_ptr() => _,
            steps = inout(reg) $rows.len() => _,
            line_bytes = in(reg) $columns.line_bytes,
            side = in(reg) $columns.side_bytes,
            term = in(reg) $columns.term_bytes,
            at = out(reg) _,
            other = out(reg) _,
            line = in(reg) 64_usize,
            sums = in(reg) $sums,
            options(nostack)
        );
    };
}

impl AmxSession {
    /// The products of 32 rows with 32 columns, as 2 x 2 tiles.
    #[inline(always)]
    pub fn multiply_split<const TERMS: usize>(
        &self,
        rows: &[SplitStep<TERMS>],
        columns: SplitColumns,
        sums: &mut [TileC; 4],
    ) {
        const { assert!(TERMS >= 1 && TERMS <= SPLIT_TERMS) };
        let StepOffsets { bytes, most } = columns.offsets;
        assert!(!rows.is_empty() && rows.len() == bytes.len());
        let last_term = (TERMS - 1) * columns.term_bytes;
        let last_line = (LANES - 1) * columns.line_bytes;
        let reach = most + last_term + columns.side_bytes + last_line + 64;
        assert!(reach <= size_of_val(columns.halves));
        // SAFETY: all tiles of the rows' steps are read, and those of the columns within the reach.
        unsafe {
            match TERMS {
                1 => one_term(rows, columns, sums),
                2 => two_terms(rows, columns, sums),
                _ => three_terms(rows, columns, sums),
            }
        }
    }
}

/// The product of first terms.
///
/// # Safety
///
/// Tiles are configured, steps have one term, and there are as many offsets, with all their tiles.
#[inline(always)]
unsafe fn one_term<const TERMS: usize>(
    rows: &[SplitStep<TERMS>],
    columns: SplitColumns,
    sums: &mut [TileC; 4],
) {
    // SAFETY: the caller's.
    unsafe {
        split_product!(
            rows,
            columns,
            sums,
            2048,
            "tileloadd tmm4, [{rows} + {line}*1]",
            "tileloadd tmm6, [{at} + {line_bytes}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{other} + {line_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{rows} + {line}*1 + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // Not used: every operand of the loop is.
            "add {at}, {term}",
        );
    }
}

/// All four products of terms.
///
/// # Safety
///
/// As above, with two terms.
#[inline(always)]
unsafe fn two_terms<const TERMS: usize>(
    rows: &[SplitStep<TERMS>],
    columns: SplitColumns,
    sums: &mut [TileC; 4],
) {
    // SAFETY: the caller's.
    unsafe {
        split_product!(
            rows,
            columns,
            sums,
            4096,
            // Second terms of both.
            "tileloadd tmm4, [{rows} + {line}*1 + 2048]",
            "add {at}, {term}",
            "add {other}, {term}",
            "tileloadd tmm6, [{at} + {line_bytes}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{other} + {line_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{rows} + {line}*1 + 3072]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // Second with first.
            "sub {at}, {term}",
            "sub {other}, {term}",
            "tileloadd tmm6, [{at} + {line_bytes}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{other} + {line_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // First with first.
            "tileloadd tmm4, [{rows} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{rows} + {line}*1 + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // First with second.
            "add {at}, {term}",
            "add {other}, {term}",
            "tileloadd tmm6, [{at} + {line_bytes}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{other} + {line_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
        );
    }
}

/// Six products of terms.
///
/// # Safety
///
/// As above, with three terms.
#[inline(always)]
unsafe fn three_terms<const TERMS: usize>(
    rows: &[SplitStep<TERMS>],
    columns: SplitColumns,
    sums: &mut [TileC; 4],
) {
    // SAFETY: the caller's.
    unsafe {
        split_product!(
            rows,
            columns,
            sums,
            6144,
            // The rows' third terms with the columns' first.
            "tileloadd tmm4, [{rows} + {line}*1 + 4096]",
            "tileloadd tmm6, [{at} + {line_bytes}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{other} + {line_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{rows} + {line}*1 + 5120]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // Second with first.
            "tileloadd tmm4, [{rows} + {line}*1 + 2048]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{rows} + {line}*1 + 3072]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // Second with second.
            "add {at}, {term}",
            "add {other}, {term}",
            "tileloadd tmm6, [{at} + {line_bytes}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{other} + {line_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // First with second.
            "tileloadd tmm4, [{rows} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{rows} + {line}*1 + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // First with third.
            "add {at}, {term}",
            "add {other}, {term}",
            "tileloadd tmm6, [{at} + {line_bytes}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{other} + {line_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // First with first.
            "sub {at}, {term}",
            "sub {other}, {term}",
            "sub {at}, {term}",
            "sub {other}, {term}",
            "tileloadd tmm6, [{at} + {line_bytes}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{other} + {line_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
        );
    }
}
