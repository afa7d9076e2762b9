//! Kernels instantiated for each element type.
//!
//! The instances are compiled here once, not again in every crate that calls a generic operation.

use super::attention::{LatentTile, PagedTile, PrefillTile};
use super::element::{Bf16, F16, Load};
use super::gemm::{Gemv, SmallMGemm};
use crate::simd::Level;

/// The kernels of one element type.
pub(crate) trait ElementKernels: Load {
    fn gemv(level: Level, kernel: Gemv<Self>);
    fn small_m_gemm(level: Level, kernel: SmallMGemm<Self>);
    fn prefill_attention(level: Level, kernel: PrefillTile<Self>);
    fn paged_attention(level: Level, kernel: PagedTile<Self>);
    fn latent_attention(level: Level, kernel: LatentTile<Self>);
}

/// An element type of dense operands: `f32`, [`F16`] or [`Bf16`].
#[allow(private_bounds)]
pub trait Element: ElementKernels {}

macro_rules! element {
    ($($type:ty),*) => {
        $(
            impl ElementKernels for $type {
                fn gemv(level: Level, kernel: Gemv<Self>) {
                    level.run(kernel);
                }
                fn small_m_gemm(level: Level, kernel: SmallMGemm<Self>) {
                    level.run(kernel);
                }
                fn prefill_attention(level: Level, kernel: PrefillTile<Self>) {
                    level.run(kernel);
                }
                fn paged_attention(level: Level, kernel: PagedTile<Self>) {
                    level.run(kernel);
                }
                fn latent_attention(level: Level, kernel: LatentTile<Self>) {
                    level.run(kernel);
                }
            }

            impl Element for $type {}
        )*
    };
}

element!(f32, Bf16, F16);
