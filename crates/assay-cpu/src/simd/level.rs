//! SIMD levels: feature detection, and kernels compiled for each level.

use super::amx::Amx;
#[cfg(level = "avx2")]
use super::avx2::run_avx2;
#[cfg(level = "avx512")]
use super::avx512::run_avx512;
#[cfg(level = "avx512+vnni")]
use super::avx512::run_avx512_vnni;
use super::detection;
#[cfg(level = "neon")]
use super::neon::run_neon;
#[cfg(level = "neon+dotprod")]
use super::neon::run_neon_dot;
#[cfg(level = "portable")]
use super::portable::Portable;
use super::vector::Kernel;
use std::fmt;
use std::sync::OnceLock;

/// A set of vector instructions of this CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    #[cfg(level = "portable")]
    Portable,
    #[cfg(level = "avx2")]
    Avx2,
    #[cfg(level = "avx512")]
    Avx512,
    /// AVX-512 with the dot product of bytes.
    #[cfg(level = "avx512+vnni")]
    Vnni,
    /// That with AMX tiles.
    #[cfg(level = "avx512+vnni")]
    Amx,
    #[cfg(level = "neon")]
    Neon,
    #[cfg(level = "neon+dotprod")]
    NeonDot,
}

impl Level {
    /// What kernels were compiled for. Private: a level in use has been detected.
    const COMPILED: &[Level] = &[
        #[cfg(level = "portable")]
        Level(Kind::Portable),
        #[cfg(level = "avx2")]
        Level(Kind::Avx2),
        #[cfg(level = "avx512")]
        Level(Kind::Avx512),
        #[cfg(level = "avx512+vnni")]
        Level(Kind::Vnni),
        #[cfg(level = "avx512+vnni")]
        Level(Kind::Amx),
        #[cfg(level = "neon")]
        Level(Kind::Neon),
        #[cfg(level = "neon+dotprod")]
        Level(Kind::NeonDot),
    ];

    /// The best level of this CPU, detected once.
    ///
    /// # Panics
    ///
    /// If [`Level::available`] is empty.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| match Level::available().last() {
            Some(level) => *level,
            None => panic!("kernels for {:?} alone, not for this CPU", Level::COMPILED),
        })
    }

    /// The compiled levels that this CPU has, the best one last; none where another CPU compiled
    /// only its own.
    pub fn available() -> Vec<Level> {
        let compiled = Level::COMPILED.iter().copied();
        compiled.filter(|level| level.is_detected()).collect()
    }

    /// Whether this CPU has the level, and the OS permits it.
    fn is_detected(self) -> bool {
        match self.0 {
            #[cfg(level = "avx512+vnni")]
            Kind::Amx => detection::has("avx512+vnni") && super::amx::is_permitted(),
            _ => detection::has(self.name()),
        }
    }

    /// The level's name.
    pub const fn name(self) -> &'static str {
        match self.0 {
            #[cfg(level = "portable")]
            Kind::Portable => "portable",
            #[cfg(level = "avx2")]
            Kind::Avx2 => "avx2",
            #[cfg(level = "avx512")]
            Kind::Avx512 => "avx512",
            #[cfg(level = "avx512+vnni")]
            Kind::Vnni => "avx512+vnni",
            #[cfg(level = "avx512+vnni")]
            Kind::Amx => "avx512+amx",
            #[cfg(level = "neon")]
            Kind::Neon => "neon",
            #[cfg(level = "neon+dotprod")]
            Kind::NeonDot => "neon+dotprod",
        }
    }

    /// The AMX token of this level, if it has AMX.
    pub(crate) fn amx(self) -> Option<Amx> {
        match self.0 {
            // SAFETY: the level exists only where AMX is permitted.
            #[cfg(level = "avx512+vnni")]
            Kind::Amx => Some(unsafe { Amx::assume() }),
            _ => None,
        }
    }

    /// Whether a level has 32 registers of sixteen lanes, for large register tiles.
    pub(crate) fn is_avx512(self) -> bool {
        self.name().starts_with("avx512")
    }

    /// Runs the kernel compiled for this level.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(level = "portable")]
            Kind::Portable => kernel.run(Portable),
            // SAFETY: a level exists only where the CPU has its instructions.
            #[cfg(level = "avx2")]
            Kind::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: the same.
            #[cfg(level = "avx512")]
            Kind::Avx512 => unsafe { run_avx512(kernel) },
            // SAFETY: the same.
            #[cfg(level = "avx512+vnni")]
            Kind::Vnni | Kind::Amx => unsafe { run_avx512_vnni(kernel) },
            // SAFETY: the same.
            #[cfg(level = "neon")]
            Kind::Neon => unsafe { run_neon(kernel) },
            // SAFETY: the same.
            #[cfg(level = "neon+dotprod")]
            Kind::NeonDot => unsafe { run_neon_dot(kernel) },
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
