//! The kernels, compiled for several SIMD levels; the best is selected once at run time.
//!
//! Levels differ in vector width only: none contracts a product and a sum into an FMA, so all give
//! the same bits.

use std::sync::OnceLock;

use super::detection;
use super::fusion::fused_kernel;
use super::kernels::{self, Compile, Loop, Operands, Varying};
use super::op::Op;
use super::partials::{self, PrimalOperands};

/// A loop compiled for a SIMD level.
///
/// # Safety
///
/// The CPU supports the level, `out` points to `lanes` numbers that nothing else refers to,
/// and the operands are as in [`Loop::run`].
pub(super) type Kernel = unsafe fn(out: *mut f64, lanes: usize, operands: &Operands);

/// A SIMD instruction set that this CPU was found to support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SimdLevel(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    #[cfg(level = "baseline")]
    Baseline,
    #[cfg(level = "avx2")]
    Avx2,
    #[cfg(level = "avx512")]
    Avx512,
}

/// Whether kernels were compiled for this CPU; always, if they were for every level.
pub fn has_kernels() -> bool {
    !SimdLevel::available().is_empty()
}

impl SimdLevel {
    /// The best level of this CPU.
    ///
    /// # Panics
    ///
    /// If there are no kernels for it: see [`has_kernels`].
    pub(super) fn best() -> SimdLevel {
        static BEST: OnceLock<SimdLevel> = OnceLock::new();
        *BEST.get_or_init(|| match SimdLevel::available().last() {
            Some(level) => *level,
            None => panic!("the tape's kernels were compiled for another CPU"),
        })
    }

    /// All compiled levels that this CPU has, the best last.
    pub(super) fn available() -> Vec<SimdLevel> {
        let compiled = [
            #[cfg(level = "baseline")]
            ("baseline", Kind::Baseline),
            #[cfg(level = "avx2")]
            ("avx2", Kind::Avx2),
            #[cfg(level = "avx512")]
            ("avx512", Kind::Avx512),
        ];
        let has = |(name, kind)| detection::has(name).then_some(SimdLevel(kind));
        compiled.into_iter().filter_map(has).collect()
    }

    /// The kernel of an elementwise operation, at least one of whose operands varies.
    pub(super) fn kernel(self, op: Op, varying: Varying) -> Kernel {
        match self.0 {
            #[cfg(level = "baseline")]
            Kind::Baseline => kernels::kernel::<Baseline>(op, varying),
            #[cfg(level = "avx2")]
            Kind::Avx2 => kernels::kernel::<Avx2>(op, varying),
            #[cfg(level = "avx512")]
            Kind::Avx512 => kernels::kernel::<Avx512>(op, varying),
        }
    }

    /// The fused kernel of two operations, as in [`fused_kernel`].
    pub(super) fn fused_kernel(
        self,
        first: Op,
        second: Op,
        swapped: bool,
        varying: Varying,
    ) -> Kernel {
        match self.0 {
            #[cfg(level = "baseline")]
            Kind::Baseline => fused_kernel::<Baseline>(first, second, swapped, varying),
            #[cfg(level = "avx2")]
            Kind::Avx2 => fused_kernel::<Avx2>(first, second, swapped, varying),
            #[cfg(level = "avx512")]
            Kind::Avx512 => fused_kernel::<Avx512>(first, second, swapped, varying),
        }
    }

    /// Computes one elementwise operation for every lane of `out`.
    ///
    /// Operands that the operation does not use are arbitrary, but as long as `out`.
    pub(super) fn compute(self, op: Op, immediate: u32, operands: [&[f64]; 3], out: &mut [f64]) {
        let first = operands.map(|operand| operand[..out.len()].as_ptr());
        let kernel = self.kernel(op, 0b111);
        // SAFETY: this level was detected; every operand was just found long enough, and cannot
        // overlap `out`, which is borrowed mutably.
        unsafe { kernel(out.as_mut_ptr(), out.len(), &Operands { first, immediate }) }
    }

    /// Adds `seed` times the derivative by one operand to `into`.
    pub(super) fn accumulate(
        self,
        primal: &PrimalOperands<'_>,
        operand: usize,
        seed: &[f64],
        into: &mut [f64],
    ) {
        match self.0 {
            #[cfg(level = "baseline")]
            // SAFETY: every CPU supports the baseline.
            Kind::Baseline => unsafe { Baseline::accumulate(primal, operand, seed, into) },
            #[cfg(level = "avx2")]
            // SAFETY: this level was detected.
            Kind::Avx2 => unsafe { Avx2::accumulate(primal, operand, seed, into) },
            #[cfg(level = "avx512")]
            // SAFETY: this level was detected.
            Kind::Avx512 => unsafe { Avx512::accumulate(primal, operand, seed, into) },
        }
    }
}

macro_rules! level {
    ($(#[$doc:meta])* $name:ident $(, $features:literal)?) => {
        $(#[$doc])*
        struct $name;

        impl $name {
            $(#[target_feature(enable = $features)])?
            unsafe fn run<L: Loop>(out: *mut f64, lanes: usize, operands: &Operands) {
                // SAFETY: the contract of `Kernel`.
                let out = unsafe { std::slice::from_raw_parts_mut(out, lanes) };
                // SAFETY: the same.
                unsafe { L::run(out, operands) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn accumulate(
                primal: &PrimalOperands<'_>,
                operand: usize,
                seed: &[f64],
                into: &mut [f64],
            ) {
                partials::accumulate(primal, operand, seed, into);
            }
        }

        impl Compile for $name {
            type Kernel = Kernel;

            fn compile<L: Loop>() -> Kernel {
                $name::run::<L>
            }
        }
    };
}

#[cfg(level = "baseline")]
level! {
    /// What every CPU of the architecture supports: SSE2 on x86_64, NEON on aarch64.
    Baseline
}
#[cfg(level = "avx2")]
level! {
    /// Four lanes at a time.
    Avx2, "avx2"
}
#[cfg(level = "avx512")]
level! {
    /// Eight lanes at a time.
    Avx512, "avx512f,avx512dq,avx512vl"
}
