//! The kernels, compiled for several SIMD levels; the best is selected once at run time.
//!
//! Levels differ in vector width only: none contracts a product and a sum into an FMA, so all give
//! the same bits.

use std::sync::OnceLock;

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
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl SimdLevel {
    /// The best level of this CPU.
    pub(super) fn best() -> SimdLevel {
        static BEST: OnceLock<SimdLevel> = OnceLock::new();
        *BEST.get_or_init(|| {
            let available = SimdLevel::available();
            available[available.len() - 1]
        })
    }

    /// All levels of this CPU, the best last.
    pub(super) fn available() -> Vec<SimdLevel> {
        #[allow(unused_mut)]
        let mut levels = vec![SimdLevel(Kind::Baseline)];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            levels.push(SimdLevel(Kind::Avx2));
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                levels.push(SimdLevel(Kind::Avx512));
            }
        }
        levels
    }

    /// The kernel of an elementwise operation, at least one of whose operands varies.
    pub(super) fn kernel(self, op: Op, varying: Varying) -> Kernel {
        match self.0 {
            Kind::Baseline => kernels::kernel::<Baseline>(op, varying),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => kernels::kernel::<Avx2>(op, varying),
            #[cfg(target_arch = "x86_64")]
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
            Kind::Baseline => fused_kernel::<Baseline>(first, second, swapped, varying),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => fused_kernel::<Avx2>(first, second, swapped, varying),
            #[cfg(target_arch = "x86_64")]
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
            // SAFETY: every CPU supports the baseline.
            Kind::Baseline => unsafe { Baseline::accumulate(primal, operand, seed, into) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level was detected.
            Kind::Avx2 => unsafe { Avx2::accumulate(primal, operand, seed, into) },
            #[cfg(target_arch = "x86_64")]
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

level! {
    /// What every CPU of the architecture supports: SSE2 on x86_64, NEON on aarch64.
    Baseline
}
#[cfg(target_arch = "x86_64")]
level! {
    /// Four lanes at a time.
    Avx2, "avx2"
}
#[cfg(target_arch = "x86_64")]
level! {
    /// Eight lanes at a time.
    Avx512, "avx512f,avx512dq,avx512vl"
}
