//! Conversions between `f32` and the bits of bfloat16 and IEEE half precision.

/// The value of these bfloat16 bits; every one is exact in `f32`.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bfloat16, ties to even; NaN stays NaN.
///
/// ```
/// use assay_cpu::half_precision::{bf16_to_f32, f32_to_bf16};
/// let product = bf16_to_f32(f32_to_bf16(1.0)) * bf16_to_f32(f32_to_bf16(2.0));
/// assert_eq!(bf16_to_f32(f32_to_bf16(product)), 2.0);
/// ```
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        // The payload may be in the lower half only; the quiet bit keeps it from becoming infinity.
        return (bits >> 16) as u16 | 0x40;
    }
    let tie_to_even = (bits >> 16) & 1;
    (bits.wrapping_add(0x7FFF + tie_to_even) >> 16) as u16
}

/// The value of these half-precision bits; every one is exact in `f32`.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7FFF);
    if magnitude >= 0x7C00 {
        // Infinity and NaN keep their fraction.
        return f32::from_bits(sign | 0x7F80_0000 | ((magnitude & 0x3FF) << 13));
    }
    // As bits of an `f32` the exponent is 112 too small; the multiplication also normalizes
    // subnormals.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(scaled.to_bits() | sign)
}

/// The nearest half-precision number, ties to even; beyond 65519 infinity.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return sign | 0x7E00;
    }
    if magnitude >= 0x477F_F000 {
        return sign | 0x7C00;
    }
    if magnitude < 0x3880_0000 {
        // Adding 0.5 shifts the fraction to the position of a half-precision subnormal, rounded.
        let shifted = f32::from_bits(magnitude) + 0.5;
        return sign | (shifted.to_bits() - 0.5_f32.to_bits()) as u16;
    }
    let tie_to_even = (magnitude >> 13) & 1;
    let rounded = magnitude + 0xFFF + tie_to_even;
    sign | ((rounded - (112 << 23)) >> 13) as u16
}
