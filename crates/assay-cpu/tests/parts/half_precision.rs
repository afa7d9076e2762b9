//! Conversions of 16-bit floats: all of them, and rounding at ties.

use assay_cpu::half_precision::*;

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
