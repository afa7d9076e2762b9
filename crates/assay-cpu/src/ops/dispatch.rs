//! Kernels instantiated for each element type.
//!
//! The instances are compiled here once, not again in every crate that calls a generic operation.

use super::attention::{LatentTile, PagedTile, PrefillTile};
use super::cache_element::{CacheLoad, E4m3, Int8};
use super::element::{Bf16, F16, Load};
use super::gemm::{Gemv, SmallMGemm};
use super::split::PackColumns;
use crate::simd::{Amx, Level};

/// The kernels of one element type.
pub(crate) trait ElementKernels: Load {
    fn gemv(level: Level, kernel: Gemv<Self>);
    fn small_m_gemm(level: Level, kernel: SmallMGemm<Self>);
    fn pack_columns(amx: Amx, kernel: PackColumns<Self>) -> bool;
    fn prefill_attention(level: Level, kernel: PrefillTile<Self>);
    fn latent_attention(level: Level, kernel: LatentTile<Self>);
}

/// The kernels of one element type of the KV cache.
pub(crate) trait CacheKernels: CacheLoad {
    fn paged_attention(level: Level, kernel: PagedTile<Self>);
}

/// An element type of the KV cache: those of dense operands, [`E4m3`] or [`Int8`].
#[allow(private_bounds)]
pub trait CacheElement: CacheKernels {
    /// Elements of a cache for one token of a head: its own, and those of its scale.
    fn token_elements(head_size: usize) -> usize {
        head_size.saturating_add(Self::SCALE_ELEMENTS)
    }
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
                fn pack_columns(amx: Amx, kernel: PackColumns<Self>) -> bool {
                    amx.run(kernel)
                }
                fn prefill_attention(level: Level, kernel: PrefillTile<Self>) {
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

macro_rules! cache_element {
    ($($type:ty),*) => {
        $(
            impl CacheKernels for $type {
                fn paged_attention(level: Level, kernel: PagedTile<Self>) {
                    level.run(kernel);
                }
            }

            impl CacheElement for $type {}
        )*
    };
}

cache_element!(f32, Bf16, F16, E4m3, Int8);
