//! The block layout trait and what its implementations share.

use crate::half_precision::{f16_to_f32, f32_to_f16};
use assay_operations::ElementFormat;

/// One block layout: quantizes values to a block and dequantizes it.
pub(crate) trait Block {
    const FORMAT: ElementFormat;
    const VALUES: usize = Self::FORMAT.block_values() as usize;
    const BYTES: usize = Self::FORMAT.block_bytes() as usize;
    /// `values` has `VALUES` elements and `block` has `BYTES`.
    fn quantize(values: &[f32], block: &mut [u8]);
    fn dequantize(block: &[u8], values: &mut [f32]);
}

/// The half-precision number at byte `at` of a block.
pub(super) fn half(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Stores a number in half precision and returns the rounded value.
pub(super) fn store_half(block: &mut [u8], at: usize, value: f32) -> f32 {
    let bits = f32_to_f16(value);
    block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    f16_to_f32(bits)
}

/// The reciprocal; 0 for 0, the scale of a block of zeros.
pub(super) fn inverse(value: f32) -> f32 {
    if value == 0.0 { 0.0 } else { 1.0 / value }
}

/// NaN if one of the values is not finite, else zero.
pub(super) fn poison(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * 0.0)
}
