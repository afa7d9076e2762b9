//! E4M3 floats: all of them, and rounding between any two.

use assay_cpu::ops::E4m3;

#[test]
fn every_e4m3_float_round_trips() {
    for bits in 0..=u8::MAX {
        let value = f32::from(E4m3(bits));
        assert_eq!(E4m3::from(value), E4m3(bits), "{value}");
        let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
        let size = match exponent {
            0 => mantissa * 2f32.powi(-9),
            _ => (8.0 + mantissa) * 2f32.powi(exponent - 10),
        };
        let size = if bits & 0x7f == 0x7f { f32::NAN } else { size };
        assert!(value.abs() == size || value.is_nan() && size.is_nan());
    }
}

#[test]
fn numbers_round_to_the_nearest_e4m3_float() {
    let all: Vec<f32> = (0..0x7f).map(|bits| f32::from(E4m3(bits))).collect();
    for pair in all.windows(2) {
        let middle = (pair[0] + pair[1]) / 2.0;
        for (value, expected) in
            [(middle - middle * 1e-6, pair[0]), (middle + middle * 1e-6, pair[1])]
        {
            assert_eq!(f32::from(E4m3::from(value)), expected);
            assert_eq!(f32::from(E4m3::from(-value)), -expected);
        }
        // Ties go to the even mantissa.
        assert_eq!(E4m3::from(middle).0 % 2, 0);
    }
    for (value, expected) in [(1e9, 448.0), (f32::INFINITY, 448.0), (1e-9, 0.0)] {
        assert_eq!(f32::from(E4m3::from(value)), expected);
    }
}
