//! The instructions of AMX, and the vectors beside them.

use super::tile::{TILE_K, TileB, TileC, TileOperands};
use crate::simd::avx512::Avx512;
use crate::simd::kernel::Kernel;
use crate::simd::vector::LANES;
use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Bits of `edx` of leaf 7: products of bfloat16, and the registers.
const FEATURES: u32 = 1 << 22 | 1 << 24;
/// `ARCH_REQ_XCOMP_PERM` of Linux, and the number of the registers' state.
#[cfg(target_os = "linux")]
const REQUEST: libc::c_long = 0x1023;
#[cfg(target_os = "linux")]
const TILE_DATA: libc::c_long = 18;

/// Whether the processor has tiles and the system lets this process use them.
///
/// Every thread of a process may use them once it has asked; asking again does no harm.
pub fn is_permitted() -> bool {
    is_x86_feature_detected!("avx512bf16") && features() & FEATURES == FEATURES && system_grants()
}

// Compilers before 1.94 call it unsafe.
#[allow(unused_unsafe)]
fn features() -> u32 {
    // SAFETY: every processor with AVX-512 has the instruction and the leaf.
    unsafe { __cpuid_count(7, 0) }.edx
}

#[cfg(target_os = "linux")]
fn system_grants() -> bool {
    // SAFETY: takes two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
fn system_grants() -> bool {
    false
}

/// Amx of this processor, beside AVX-512; made by [`Level`](crate::simd::Level) after asking.
#[derive(Clone, Copy)]
pub(crate) struct Amx(());

/// Registers with config, on this thread, until dropped.
pub(crate) struct AmxSession {
    /// The config that this thread had before: other libraries set theirs once and rely on them.
    before: TileConfig,
    /// TileConfig belong to a thread.
    stays: PhantomData<*const ()>,
}

/// TileConfig as `ldtilecfg` reads them: bytes of a row and rows of each register.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight registers as large as they can be.
const FULL_TILES: TileConfig = TileConfig {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
fn run_with_amx<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller vouched for these instructions.
    kernel.run(unsafe { Avx512::assume() })
}

impl Amx {
    /// # Safety
    ///
    /// [`is_permitted`] has said yes, and the processor has the instructions of [`Avx512`].
    #[inline(always)]
    pub unsafe fn assume() -> Self {
        Amx(())
    }

    /// Runs a kernel with the vectors that are beside tiles.
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: a token exists only where the processor has them.
        unsafe { run_with_amx(kernel) }
    }

    /// Makes the registers ready.
    #[inline(always)]
    pub fn session(self) -> AmxSession {
        let mut before = FULL_TILES;
        // SAFETY: tiles were is_permitted, 64 bytes are written to as many, and the config are within those
        // of palette 1.
        unsafe {
            asm!("sttilecfg [{before}]", "ldtilecfg [{config}]",
                 before = in(reg) &mut before, config = in(reg) &FULL_TILES,
                 options(nostack, preserves_flags));
        }
        AmxSession {
            before,
            stays: PhantomData,
        }
    }

    /// The nearest bfloat16 of 32 numbers, ties to even.
    #[inline(always)]
    pub fn to_bf16(self, values: &[f32; TILE_K], out: &mut [u16; TILE_K]) {
        // SAFETY: a token exists only where the processor has these instructions; the arrays
        // are as long as what is read and written.
        unsafe {
            let low = _mm512_loadu_ps(values.as_ptr());
            let high = _mm512_loadu_ps(values.as_ptr().add(LANES));
            let both = _mm512_cvtne2ps_pbh(high, low);
            out.as_mut_ptr().cast::<__m512bh>().write_unaligned(both);
        }
    }

    /// Four codes of each of sixteen columns, times the column's scale and counted from its minimum,
    /// as columns of bfloat16.
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
            let (scale, minimum) = (
                _mm512_loadu_ps(scale.as_ptr()),
                _mm512_loadu_ps(minimum.as_ptr()),
            );
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
    /// None beyond the token: unsafe only because vectors are passed.
    #[inline(always)]
    unsafe fn interleave_pairs(self, even: __m512, odd: __m512, out: &mut [u16; TILE_K]) {
        // SAFETY: as above.
        unsafe {
            // Sixteen numbers and then sixteen become pairs of one each.
            let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(odd, even));
            let order = _mm512_loadu_si512(PAIR_ORDER.as_ptr().cast());
            let pairs = _mm512_permutexvar_epi16(order, both);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), pairs);
        }
    }
}

const PAIR_ORDER: [u16; TILE_K] = {
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
            // Given back, so that the system does not keep 8 KiB of state for this thread.
            // SAFETY: tiles were is_permitted.
            unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
        } else {
            // SAFETY: these config were the thread's before.
            unsafe {
                asm!("ldtilecfg [{before}]", before = in(reg) &self.before,
                     options(nostack, preserves_flags, readonly));
            }
        }
    }
}

impl AmxSession {
    /// Adds up the products of both rows with both columns: the first rows' with either, then the
    /// second rows'.
    ///
    /// # Safety
    ///
    /// From each of the sixteen rows on, `steps` times 64 bytes can be read.
    #[inline(always)]
    pub unsafe fn multiply(&self, factors: TileOperands, sums: &mut [TileC; 4]) {
        let TileOperands {
            rows,
            row_bytes,
            columns,
            steps,
            terms,
            fresh,
        } = factors;
        assert!(steps > 0 && terms > 0);
        let columns: [*const TileB; 2] = columns.map(|columns| columns[..steps * terms].as_ptr());
        // SAFETY: the caller vouches for the rows, slices and arrays for the rest.
        unsafe {
            asm!(
                "test {fresh:e}, {fresh:e}",
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
                fresh = in(reg) u32::from(fresh),
                sums = in(reg) sums,
                options(nostack)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TileConfig {
        let mut now = FULL_TILES;
        // SAFETY: tiles were is_permitted, and 64 bytes are written to as many.
        unsafe { asm!("sttilecfg [{now}]", now = in(reg) &mut now) };
        now
    }

    #[test]
    fn a_session_leaves_the_shapes_it_found() {
        if !is_permitted() {
            return;
        }
        // SAFETY: just asked; the vector instructions are not used here.
        let tiles = unsafe { Amx::assume() };
        drop(tiles.session());
        assert_eq!(config().palette, 0, "nobody's");
        let mut others = FULL_TILES;
        (others.rows[3], others.row_bytes[3]) = (5, 12);
        // SAFETY: tiles were is_permitted, and the config are within those of palette 1.
        unsafe { asm!("ldtilecfg [{others}]", others = in(reg) &others) };
        let session = tiles.session();
        assert_eq!(config().rows, FULL_TILES.rows);
        drop(session);
        let found = config();
        assert_eq!(
            (found.rows, found.row_bytes),
            (others.rows, others.row_bytes)
        );
        // SAFETY: tiles were is_permitted.
        unsafe { asm!("tilerelease") };
    }
}
