//! The kernels, compiled for several processor levels; the best is chosen once at run time.
//!
//! Levels differ in vector width only: none contracts a product and a sum into one operation,
//! so all give the same bits.

use std::sync::OnceLock;

use super::derivative::{self, Link};
use super::fusion::fused_kernel;
use super::kernels::{self, Compile, Loop, Operands, Varying};
use super::op::Op;

/// A loop compiled for a processor level.
///
/// # Safety
///
/// The processor has the level, `out` points to `lanes` numbers that nothing else refers to,
/// and the operands are as in [`Loop::run`].
pub(super) type Kernel = unsafe fn(out: *mut f64, lanes: usize, operands: &Operands);

/// A set of instructions that this processor is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best level of this processor.
    pub(super) fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            let available = Level::available();
            available[available.len() - 1]
        })
    }

    /// All levels of this processor, the best last.
    pub(super) fn available() -> Vec<Level> {
        #[allow(unused_mut)]
        let mut levels = vec![Level(Kind::Baseline)];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            levels.push(Level(Kind::Avx2));
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                levels.push(Level(Kind::Avx512));
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

    /// The kernel of two operations in a row, as in [`fused_kernel`].
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
        link: &Link<'_>,
        operand: usize,
        seed: &[f64],
        into: &mut [f64],
    ) {
        match self.0 {
            // SAFETY: every processor has the baseline.
            Kind::Baseline => unsafe { Baseline::accumulate(link, operand, seed, into) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level was detected.
            Kind::Avx2 => unsafe { Avx2::accumulate(link, operand, seed, into) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level was detected.
            Kind::Avx512 => unsafe { Avx512::accumulate(link, operand, seed, into) },
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
                link: &Link<'_>,
                operand: usize,
                seed: &[f64],
                into: &mut [f64],
            ) {
                derivative::accumulate(link, operand, seed, into);
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
    /// What every processor of the architecture has: SSE2 on x86_64, NEON on aarch64.
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
