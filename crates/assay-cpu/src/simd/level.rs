//! SIMD levels: feature detection, and kernels compiled for each level.

use super::amx::Amx;
#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
use super::kernel::Kernel;
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::portable::Portable;
use std::fmt;
use std::sync::OnceLock;

/// A set of vector instructions of this CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with AMX tiles.
    #[cfg(target_arch = "x86_64")]
    Amx,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "aarch64")]
    NeonDot,
}

impl Level {
    /// Portable Rust, on every CPU.
    pub const PORTABLE: Level = Level(Kind::Portable);

    /// The best level of this CPU, detected once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| *Level::available().last().unwrap_or(&Level::PORTABLE))
    }

    /// The levels of this CPU, the best one last.
    pub fn available() -> Vec<Level> {
        let mut found = vec![Level::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            found.extend(avx2.then_some(Level(Kind::Avx2)));
            found.extend(avx512.then_some(Level(Kind::Avx512)));
            found.extend((avx512 && super::amx::is_permitted()).then_some(Level(Kind::Amx)));
        }
        #[cfg(target_arch = "aarch64")]
        {
            use std::arch::is_aarch64_feature_detected;
            let neon = is_aarch64_feature_detected!("neon");
            let dot = neon && is_aarch64_feature_detected!("dotprod");
            found.extend(neon.then_some(Level(Kind::Neon)));
            found.extend(dot.then_some(Level(Kind::NeonDot)));
        }
        found
    }

    /// The level's name.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Amx => "avx512+amx",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot => "neon+dotprod",
        }
    }

    /// The AMX token of this level, if it has AMX.
    pub(crate) fn amx(self) -> Option<Amx> {
        match self.0 {
            // SAFETY: the level exists only where AMX is permitted.
            #[cfg(target_arch = "x86_64")]
            Kind::Amx => Some(unsafe { Amx::assume() }),
            _ => None,
        }
    }

    /// Runs the kernel compiled for this level.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Kind::Portable => kernel.run(Portable),
            // SAFETY: a level exists only where the CPU has its instructions.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: the same.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Amx => unsafe { run_avx512(kernel) },
            // SAFETY: the same.
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => unsafe { run_neon(kernel) },
            // SAFETY: the same.
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot => unsafe { run_neon_dot(kernel) },
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Avx2::assume() })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Avx512::assume() })
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn run_neon<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Neon::<false>::assume() })
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon,dotprod")]
fn run_neon_dot<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees these instructions.
    kernel.run(unsafe { Neon::<true>::assume() })
}
