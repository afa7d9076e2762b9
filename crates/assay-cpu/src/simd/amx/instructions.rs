//! AMX instructions, and the AVX-512 conversions that feed them.

use super::tile::{TILE_K, TileB, TileC, TileOperands};
use crate::simd::avx512::Avx512;
use crate::simd::vector::Kernel;
use crate::simd::vector::LANES;
use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// AMX-BF16 and AMX-TILE in `edx` of CPUID leaf 7.
const FEATURES: u32 = 1 << 22 | 1 << 24;
/// `ARCH_REQ_XCOMP_PERM` of Linux, and the XSAVE component of tile data.
#[cfg(target_os = "linux")]
const REQUEST: libc::c_long = 0x1023;
#[cfg(target_os = "linux")]
const TILE_DATA: libc::c_long = 18;

/// Whether the CPU has AMX and the OS permits this process to use it.
///
/// The permission holds for all threads of the process; requesting it again is harmless.
pub fn is_permitted() -> bool {
    is_x86_feature_detected!("avx512bf16") && features() & FEATURES == FEATURES && os_permits()
}

// The intrinsic is unsafe in compilers before 1.94.
#[allow(unused_unsafe)]
fn features() -> u32 {
    // SAFETY: every CPU with AVX-512 has the instruction and the leaf.
    unsafe { __cpuid_count(7, 0) }.edx
}

#[cfg(target_os = "linux")]
fn os_permits() -> bool {
    // SAFETY: takes two numbers and accesses no memory.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
}

/// Not supported on other systems.
#[cfg(not(target_os = "linux"))]
fn os_permits() -> bool {
    false
}

/// A token for AMX with AVX-512; created by [`Level`](crate::simd::Level) after detection.
#[derive(Clone, Copy)]
pub(crate) struct Amx(());

/// Configured tile registers of this thread, until dropped.
pub(crate) struct AmxSession {
    /// The previous configuration: other libraries set theirs once and rely on it.
    before: TileConfig,
    /// Tile configuration is per thread.
    not_send: PhantomData<*const ()>,
}

/// The operand of `ldtilecfg`: bytes per row and rows of each tile register.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight tiles at full size.
const FULL_TILES: TileConfig = TileConfig {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
fn run_with_amx<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Avx512::<true>::assume() })
}

impl Amx {
    /// # Safety
    ///
    /// [`is_permitted`] returned true, and the CPU has the instructions of [`Avx512`].
    #[inline(always)]
    pub unsafe fn assume() -> Self {
        Amx(())
    }

    /// Runs a kernel with AVX-512 and AVX512-BF16.
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: a token exists only where the CPU has them.
        unsafe { run_with_amx(kernel) }
    }

    /// Configures the tile registers.
    #[inline(always)]
    pub fn session(self) -> AmxSession {
        let mut before = FULL_TILES;
        // SAFETY: AMX is permitted, `before` holds the 64 bytes that are written, and the configuration
        // is valid for palette 1.
        unsafe {
            asm!("sttilecfg [{before}]", "ldtilecfg [{config}]",
                 before = in(reg) &mut before, config = in(reg) &FULL_TILES,
                 options(nostack, preserves_flags));
        }
        AmxSession { before, not_send: PhantomData }
    }

    /// Rounds 32 values to bfloat16, ties to even.
    #[inline(always)]
    pub fn to_bf16(self, values: &[f32; TILE_K], out: &mut [u16; TILE_K]) {
        // SAFETY: a token exists only where the CPU has these instructions; the arrays are as long as
        // what is read and written.
        unsafe {
            let low = _mm512_loadu_ps(values.as_ptr());
            let high = _mm512_loadu_ps(values.as_ptr().add(LANES));
            let both = _mm512_cvtne2ps_pbh(high, low);
            out.as_mut_ptr().cast::<__m512bh>().write_unaligned(both);
        }
    }

    /// Dequantizes four codes of each of sixteen columns to bfloat16: code x scale + minimum.
    #[inline(always)]
    pub fn dequantize_to_bf16(
        self,
        codes: &[u8; 4 * LANES],
        scale: &[f32; LANES],
        minimum: &[f32; LANES],
        out: &mut [[u16; TILE_K]; 2],
    ) {
        // SAFETY: as above.
        unsafe {
            let (scale, minimum) =
                (_mm512_loadu_ps(scale.as_ptr()), _mm512_loadu_ps(minimum.as_ptr()));
            let fours = _mm512_loadu_si512(codes.as_ptr().cast());
            let byte = _mm512_set1_epi32(255);
            let number = |code| _mm512_fmadd_ps(_mm512_cvtepi32_ps(code), scale, minimum);
            let first = number(_mm512_and_si512(fours, byte));
            let second = number(_mm512_and_si512(_mm512_srli_epi32::<8>(fours), byte));
            let third = number(_mm512_and_si512(_mm512_srli_epi32::<16>(fours), byte));
            let fourth = number(_mm512_srli_epi32::<24>(fours));
            self.interleave_pairs(first, second, &mut out[0]);
            self.interleave_pairs(third, fourth, &mut out[1]);
        }
    }

    /// # Safety
    ///
    /// None beyond the token: unsafe only because it takes vectors.
    #[inline(always)]
    unsafe fn interleave_pairs(self, even: __m512, odd: __m512, out: &mut [u16; TILE_K]) {
        // SAFETY: as above.
        unsafe {
            // Interleaves the sixteen even and the sixteen odd values.
            let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(odd, even));
            let order = _mm512_loadu_si512(PAIR_ORDER.as_ptr().cast());
            let pairs = _mm512_permutexvar_epi16(order, both);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), pairs);
        }
    }
}

/// Interleaves the sixteen even and the sixteen odd of 32 values.
pub(super) const PAIR_ORDER: [u16; TILE_K] = {
    let mut order = [0; TILE_K];
    let mut at = 0;
    while at < TILE_K {
        order[at] = (at / 2 + at % 2 * LANES) as u16;
        at += 1;
    }
    order
};

impl Drop for AmxSession {
    #[inline(always)]
    fn drop(&mut self) {
        if self.before.palette == 0 {
            // Released, so that the OS does not save 8 KiB of state for this thread.
            // SAFETY: AMX is permitted.
            unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
        } else {
            // SAFETY: this was the thread's configuration before.
            unsafe {
                asm!("ldtilecfg [{before}]", before = in(reg) &self.before,
                     options(nostack, preserves_flags, readonly));
            }
        }
    }
}

impl AmxSession {
    /// Accumulates the 2 x 2 products of two A tiles with two B tiles.
    ///
    /// # Safety
    ///
    /// Each of the sixteen rows has `steps` times 64 readable bytes.
    #[inline(always)]
    pub unsafe fn multiply(&self, factors: TileOperands, sums: &mut [TileC; 4]) {
        let TileOperands { rows, row_bytes, columns, steps, terms, zero_accumulators } = factors;
        assert!(steps > 0 && terms > 0);
        let columns: [*const TileB; 2] = columns.map(|columns| columns[..steps * terms].as_ptr());
        // SAFETY: the caller guarantees the rows; slices and arrays bound the rest.
        unsafe {
            asm!(
                "test {zero_accumulators:e}, {zero_accumulators:e}",
                "jnz 4f",
                "tileloadd tmm0, [{sums} + {line}*1]",
                "tileloadd tmm1, [{sums} + {line}*1 + 1024]",
                "tileloadd tmm2, [{sums} + {line}*1 + 2048]",
                "tileloadd tmm3, [{sums} + {line}*1 + 3072]",
                "jmp 3f",
                "4:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "3:",
                "mov {row0}, {rows0}",
                "mov {row1}, {rows1}",
                "mov {left}, {steps}",
                "2:",
                "tileloadd tmm4, [{row0} + {row_bytes}*1]",
                "tileloadd tmm6, [{columns0} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{columns1} + {line}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{row1} + {row_bytes}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {row0}, 64",
                "add {row1}, 64",
                "add {columns0}, 1024",
                "add {columns1}, 1024",
                "dec {left}",
                "jnz 2b",
                "dec {terms}",
                "jnz 3b",
                "tilestored [{sums} + {line}*1], tmm0",
                "tilestored [{sums} + {line}*1 + 1024], tmm1",
                "tilestored [{sums} + {line}*1 + 2048], tmm2",
                "tilestored [{sums} + {line}*1 + 3072], tmm3",
                rows0 = in(reg) rows[0],
                rows1 = in(reg) rows[1],
                row0 = out(reg) _,
                row1 = out(reg) _,
                row_bytes = in(reg) row_bytes,
                columns0 = inout(reg) columns[0] => _,
                columns1 = inout(reg) columns[1] => _,
                steps = in(reg) steps,
                left = out(reg) _,
                terms = inout(reg) terms => _,
                line = in(reg) 64_usize,
                zero_accumulators = in(reg) u32::from(zero_accumulators),
                sums = in(reg) sums,
                options(nostack)
            );
        }
    }
}
