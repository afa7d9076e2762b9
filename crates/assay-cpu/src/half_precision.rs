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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bf16_round_trips_through_f32() {
        for bits in 0..=u16::MAX {
            let value = bf16_to_f32(bits);
            let back = f32_to_bf16(value);
            if value.is_nan() {
                assert!(bf16_to_f32(back).is_nan(), "{bits:#06x}");
            } else {
                assert_eq!(back, bits, "{bits:#06x}");
            }
        }
    }

    #[test]
    fn every_f16_round_trips_through_f32() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits);
            let back = f32_to_f16(value);
            if value.is_nan() {
                assert!(f16_to_f32(back).is_nan(), "{bits:#06x}");
            } else {
                assert_eq!(back, bits, "{bits:#06x}");
            }
        }
    }

    #[test]
    fn f16_values_match_ieee_754() {
        for (bits, value) in [
            (0x3C00, 1.0),
            (0x3555, 0.333_251_95),
            (0x7BFF, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x0400, 6.103_515_6e-5),
            (0xC000, -2.0),
            (0x7C00, f32::INFINITY),
        ] {
            assert_eq!(f16_to_f32(bits), value, "{bits:#06x}");
        }
    }

    #[test]
    fn rounding_is_to_nearest_ties_to_even() {
        for (value, bits) in [
            (f32::from_bits(0x3F80_8000), 0x3F80), // halfway, even below
            (f32::from_bits(0x3F81_8000), 0x3F82), // halfway, even above
            (f32::from_bits(0x3F80_8001), 0x3F81),
            (f32::MAX, 0x7F80),
            (f32::from_bits(1), 0), // smallest subnormal
            (f32::from_bits(0x0000_8001), 1),
            (-0.0, 0x8000),
            (f32::NEG_INFINITY, 0xFF80),
        ] {
            assert_eq!(f32_to_bf16(value), bits, "{value:e}");
        }
        for (value, bits) in [
            (65519.0, 0x7BFF),
            (65520.0, 0x7C00),
            (2.980_232_2e-8, 0), // half the smallest subnormal, even below
            (2.980_232_6e-8, 1),
            (1.0 + 1.0 / 2048.0, 0x3C00),
            (1.0 + 3.0 / 2048.0, 0x3C02),
        ] {
            assert_eq!(f32_to_f16(value), bits, "{value:e}");
        }
    }

    #[test]
    fn nan_with_low_payload_stays_nan() {
        let value = f32::from_bits(0x7F80_0001);
        assert!(bf16_to_f32(f32_to_bf16(value)).is_nan());
        assert!(f16_to_f32(f32_to_f16(value)).is_nan());
    }
}
