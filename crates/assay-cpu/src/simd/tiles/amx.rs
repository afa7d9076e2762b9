//! The instructions of AMX, and the vectors beside them.

use super::super::avx512::Avx512;
use super::super::level::Kernel;
use super::{Columns, Factors, LANES, STEP, Sums};
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
pub fn granted() -> bool {
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

/// Tiles of this processor, beside AVX-512; made by [`Level`](super::super::Level) after asking.
#[derive(Clone, Copy)]
pub(crate) struct Tiles(());

/// Registers with shapes, on this thread, until dropped.
pub(crate) struct TileSession {
    /// The shapes that this thread had before: other libraries set theirs once and rely on them.
    before: Shapes,
    /// Shapes belong to a thread.
    stays: PhantomData<*const ()>,
}

/// Shapes as `ldtilecfg` reads them: bytes of a row and rows of each register.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight registers as large as they can be.
const SHAPES: Shapes = Shapes {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
fn run_beside_tiles<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller vouched for these instructions.
    kernel.run(unsafe { Avx512::assume() })
}

impl Tiles {
    /// # Safety
    ///
    /// [`granted`] has said yes, and the processor has the instructions of [`Avx512`].
    #[inline(always)]
    pub unsafe fn assume() -> Self {
        Tiles(())
    }

    /// Runs a kernel with the vectors that are beside tiles.
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: a token exists only where the processor has them.
        unsafe { run_beside_tiles(kernel) }
    }

    /// Makes the registers ready.
    #[inline(always)]
    pub fn session(self) -> TileSession {
        let mut before = SHAPES;
        // SAFETY: tiles were granted, 64 bytes are written to as many, and the shapes are within those
        // of palette 1.
        unsafe {
            asm!("sttilecfg [{before}]", "ldtilecfg [{shapes}]",
                 before = in(reg) &mut before, shapes = in(reg) &SHAPES,
                 options(nostack, preserves_flags));
        }
        TileSession {
            before,
            stays: PhantomData,
        }
    }

    /// The nearest bfloat16 of 32 numbers, ties to even.
    #[inline(always)]
    pub fn narrow(self, values: &[f32; STEP], out: &mut [u16; STEP]) {
        // SAFETY: a token exists only where the processor has these instructions; the arrays
        // are as long as what is read and written.
        unsafe {
            let low = _mm512_loadu_ps(values.as_ptr());
            let high = _mm512_loadu_ps(values.as_ptr().add(LANES));
            let both = _mm512_cvtne2ps_pbh(high, low);
            out.as_mut_ptr().cast::<__m512bh>().write_unaligned(both);
        }
    }

    /// Four codes of each of sixteen columns, times the column's scale and counted from its least,
    /// as columns of bfloat16.
    #[inline(always)]
    pub fn widen(
        self,
        codes: &[u8; 4 * LANES],
        scale: &[f32; LANES],
        least: &[f32; LANES],
        out: &mut [[u16; STEP]; 2],
    ) {
        // SAFETY: as above.
        unsafe {
            let (scale, least) = (
                _mm512_loadu_ps(scale.as_ptr()),
                _mm512_loadu_ps(least.as_ptr()),
            );
            let fours = _mm512_loadu_si512(codes.as_ptr().cast());
            let byte = _mm512_set1_epi32(255);
            let number = |code| _mm512_fmadd_ps(_mm512_cvtepi32_ps(code), scale, least);
            let first = number(_mm512_and_si512(fours, byte));
            let second = number(_mm512_and_si512(_mm512_srli_epi32::<8>(fours), byte));
            let third = number(_mm512_and_si512(_mm512_srli_epi32::<16>(fours), byte));
            let fourth = number(_mm512_srli_epi32::<24>(fours));
            self.pair(first, second, &mut out[0]);
            self.pair(third, fourth, &mut out[1]);
        }
    }

    /// # Safety
    ///
    /// None beyond the token: unsafe only because vectors are passed.
    #[inline(always)]
    unsafe fn pair(self, even: __m512, odd: __m512, out: &mut [u16; STEP]) {
        // SAFETY: as above.
        unsafe {
            // Sixteen numbers and then sixteen become pairs of one each.
            let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(odd, even));
            let order = _mm512_loadu_si512(PAIRS.as_ptr().cast());
            let pairs = _mm512_permutexvar_epi16(order, both);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), pairs);
        }
    }
}

const PAIRS: [u16; STEP] = {
    let mut order = [0; STEP];
    let mut at = 0;
    while at < STEP {
        order[at] = (at / 2 + at % 2 * LANES) as u16;
        at += 1;
    }
    order
};

impl Drop for TileSession {
    #[inline(always)]
    fn drop(&mut self) {
        if self.before.palette == 0 {
            // Given back, so that the system does not keep 8 KiB of state for this thread.
            // SAFETY: tiles were granted.
            unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
        } else {
            // SAFETY: these shapes were the thread's before.
            unsafe {
                asm!("ldtilecfg [{before}]", before = in(reg) &self.before,
                     options(nostack, preserves_flags, readonly));
            }
        }
    }
}

impl TileSession {
    /// Adds up the products of both rows with both columns: the first rows' with either, then the
    /// second rows'.
    ///
    /// # Safety
    ///
    /// From each of the sixteen rows on, `steps` times 64 bytes can be read.
    #[inline(always)]
    pub unsafe fn multiply(&self, factors: Factors, sums: &mut [Sums; 4]) {
        let Factors {
            rows,
            row_bytes,
            columns,
            steps,
            terms,
            fresh,
        } = factors;
        assert!(steps > 0 && terms > 0);
        let columns: [*const Columns; 2] = columns.map(|columns| columns[..steps * terms].as_ptr());
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

    fn shapes() -> Shapes {
        let mut now = SHAPES;
        // SAFETY: tiles were granted, and 64 bytes are written to as many.
        unsafe { asm!("sttilecfg [{now}]", now = in(reg) &mut now) };
        now
    }

    #[test]
    fn a_session_leaves_the_shapes_it_found() {
        if !granted() {
            return;
        }
        // SAFETY: just asked; the vector instructions are not used here.
        let tiles = unsafe { Tiles::assume() };
        drop(tiles.session());
        assert_eq!(shapes().palette, 0, "nobody's");
        let mut others = SHAPES;
        (others.rows[3], others.row_bytes[3]) = (5, 12);
        // SAFETY: tiles were granted, and the shapes are within those of palette 1.
        unsafe { asm!("ldtilecfg [{others}]", others = in(reg) &others) };
        let session = tiles.session();
        assert_eq!(shapes().rows, SHAPES.rows);
        drop(session);
        let found = shapes();
        assert_eq!(
            (found.rows, found.row_bytes),
            (others.rows, others.row_bytes)
        );
        // SAFETY: tiles were granted.
        unsafe { asm!("tilerelease") };
    }
}
