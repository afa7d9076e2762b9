//! MXFP4 of the OCP Microscaling formats: blocks of 32 e2m1 floats and an e8m0 scale, as ggml
//! stores them.
//!
//! Twice an e2m1 value is an integer from -12 to 12; kernels multiply integers, and halve the scale.

use super::block::{Block, poison};
use super::legacy_quants::each_nibble;
use assay_operations::ElementFormat;

/// What unsigned codes have added: they are from 0 to 24.
pub(super) const ZERO_POINT: u8 = 12;

/// The exponent that stands for no number.
const NOT_A_NUMBER: u8 = 255;

/// The exponent of the largest e2m1 value, 6.
const LARGEST_EXPONENT: i32 = 2;

/// The midpoints of e2m1 magnitudes and their neighbors above.
const MIDPOINTS: [f32; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];

/// Unsigned codes of all nibbles.
pub(super) const UNSIGNED: [u8; 16] = {
    let mut codes = [0; 16];
    let mut nibble = 0;
    while nibble < 16 {
        codes[nibble as usize] = unsigned(nibble);
        nibble += 1;
    }
    codes
};

/// Twice the e2m1 value of a nibble, above the zero point, without a table: loops become vectors.
#[inline(always)]
pub(super) const fn unsigned(nibble: u8) -> u8 {
    let code = nibble & 7;
    // 0, 1, 2, 3, 4, 6, 8, 12.
    let magnitude = code + code.saturating_sub(4) + 2 * code.saturating_sub(6);
    if nibble < 8 { ZERO_POINT + magnitude } else { ZERO_POINT - magnitude }
}

/// Half the scale that a biased exponent stands for: the scale of twice the values.
#[inline(always)]
pub(super) fn half_scale(exponent: u8) -> f32 {
    let exponent = u32::from(exponent);
    // The two smallest are subnormal.
    let bits = if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 };
    let number = f32::from_bits(bits);
    if exponent == u32::from(NOT_A_NUMBER) { f32::NAN } else { number }
}

pub(crate) struct Mxfp4;

impl Block for Mxfp4 {
    const FORMAT: ElementFormat = ElementFormat::Mxfp4;

    /// The largest value keeps its exponent, and what is beyond 6 after scaling becomes 6, as in
    /// OCP Microscaling 1.0, 6.3; rounds to nearest, ties to even.
    fn quantize(values: &[f32], block: &mut [u8]) {
        let largest = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let exponent = (largest.to_bits() >> 23) as i32 - LARGEST_EXPONENT;
        block[0] = match poison(values).is_nan() {
            true => NOT_A_NUMBER,
            false => exponent.max(0) as u8,
        };
        let scale = 2.0 * half_scale(block[0]);
        let code = |value: f32| {
            let magnitude = value.abs() / scale;
            let passed = MIDPOINTS.iter().enumerate().filter(|(code, midpoint)| {
                magnitude > **midpoint || (magnitude == **midpoint && code % 2 == 1)
            });
            passed.count() as u8 | (u8::from(value < 0.0) << 3)
        };
        for (index, byte) in block[1..].iter_mut().enumerate() {
            *byte = code(values[index]) | (code(values[index + 16]) << 4);
        }
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let scale = half_scale(block[0]);
        each_nibble(&block[1..], |index, nibble| {
            values[index] = (f32::from(unsigned(nibble)) - f32::from(ZERO_POINT)) * scale;
        });
    }
}
