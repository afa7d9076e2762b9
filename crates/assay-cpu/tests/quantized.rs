//! Block formats and products with them against plain loops, on every level.

mod common;

use assay_cpu::ops::{Context, Epilogue};
use assay_cpu::quantization::{
    BlockFormat, PackedWeights, QuantizedActivations, dequantize, quantize,
};
use common::{Numbers, assert_close, everywhere, linear_reference};
use proptest::prelude::*;

fn round_trip(format: BlockFormat, values: &[f32]) -> Vec<f32> {
    let context = Context::best();
    let bytes = format.bytes("test", values.len()).expect("whole blocks");
    let mut blocks = vec![0; bytes];
    quantize(context, format, values, &mut blocks).expect("lengths fit");
    let mut out = vec![0.0; values.len()];
    dequantize(context, format, &blocks, &mut out).expect("lengths fit");
    out
}

/// Root mean square of the error over that of the values.
fn relative_error(values: &[f32], back: &[f32]) -> f32 {
    let squares = |x: &mut dyn Iterator<Item = f32>| x.map(|x| x * x).sum::<f32>();
    let off = squares(&mut values.iter().zip(back).map(|(a, b)| a - b));
    (off / squares(&mut values.iter().copied())).sqrt()
}

#[test]
fn quantization_error_matches_the_bit_width() {
    let values = Numbers(3).vector(256 * 64);
    for (format, bound) in [
        (BlockFormat::Q8_0, 0.0065),
        (BlockFormat::Q4_0, 0.095),
        (BlockFormat::Q4_1, 0.085),
        (BlockFormat::Q4K, 0.079),
        (BlockFormat::Q5K, 0.039),
        (BlockFormat::Q6K, 0.019),
        (BlockFormat::Mxfp4, 0.13),
    ] {
        let error = relative_error(&values, &round_trip(format, &values));
        assert!(error < bound, "{format}: {error}");
        assert!(error > bound / 2.0, "{format}: {error} is too good to be true");
    }
}

/// Expected values by the Python package gguf 0.19.0, `gguf.quants.dequantize`.
#[test]
fn dequantized_blocks_match_ggml() {
    // The exponent of MXFP4 is the first byte, 11.
    let tiny = 2.0_f32.powi(11 - 127);
    let cases: [(BlockFormat, &[usize], [f32; 5], f64); 7] = [
        (
            BlockFormat::Q8_0,
            &[0],
            [8.497_925, 12.197_021_5, -5.398_681_6, 1.999_511_7, -4.798_828],
            -807.802_734_375,
        ),
        (
            BlockFormat::Q4_0,
            &[0],
            [-0.299_926_76, 0.199_951_17, -0.099_975_586, 0.399_902_34, 0.0],
            -51.787_353_515_625,
        ),
        (
            BlockFormat::Q4_1,
            &[0, 2],
            [1.599_609_4, 0.499_877_93, 1.299_682_6, 0.099_975_586, 1.299_682_6],
            450.989_868_164_062_5,
        ),
        (
            BlockFormat::Q4K,
            &[0, 2],
            [28.992_92, -5.098_755, -5.098_755, 37.790_77, 3.099_243_2],
            709_539.530_273_437_5,
        ),
        (
            BlockFormat::Q5K,
            &[0, 2],
            [78.580_81, -5.098_755, -5.098_755, 37.790_77, 9.097_778],
            1_554_793.918_945_312_5,
        ),
        (
            BlockFormat::Q6K,
            &[208],
            [-143.065_06, 169.558_6, 51.187_5, -12.996_826, -5.998_535],
            78_422.849_121_093_75,
        ),
        (
            BlockFormat::Mxfp4,
            &[],
            [0.0, 3.0, 3.0, -0.5, 3.0].map(|value| value * tiny),
            319.0 * f64::from(tiny),
        ),
    ];
    for (format, halves, some, weighted) in cases {
        let mut block: Vec<u8> =
            (0..format.block_bytes()).map(|index| ((index * 37 + 11) % 256) as u8).collect();
        for at in halves {
            block[*at..at + 2].copy_from_slice(&[0x66, 0x2E]);
        }
        let count = format.block_values();
        let mut values = vec![0.0; count];
        dequantize(Context::best(), format, &block, &mut values).unwrap();
        let picked = [0, 1, 17, count / 2 + 3, count - 1].map(|index| values[index]);
        assert_eq!(picked, some, "{format}");
        let positions = values.iter().zip(1_u32..);
        let sum: f64 = positions.map(|(x, at)| f64::from(*x) * f64::from(at)).sum();
        assert_eq!(sum, weighted, "{format}");
    }
}

/// The table of e2m1 values in OCP Microscaling 1.0 (5.3.3), and its e8m0 scales (5.4.1).
#[test]
fn mxfp4_has_the_values_of_its_specification() {
    let magnitudes = [0.0_f32, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    for exponent in 0..=u8::MAX {
        let mut block = [0; 17];
        block[0] = exponent;
        for (index, byte) in block[1..].iter_mut().enumerate() {
            *byte = index as u8 | (index as u8) << 4;
        }
        let mut values = [0.0; 32];
        dequantize(Context::best(), BlockFormat::Mxfp4, &block, &mut values).unwrap();
        for (index, value) in values.iter().enumerate() {
            let sign = if index % 16 < 8 { 1.0 } else { -1.0 };
            let exact =
                sign * f64::from(magnitudes[index % 8]) * 2.0_f64.powi(i32::from(exponent) - 127);
            match exponent {
                255 => assert!(value.is_nan(), "{value}"),
                _ => assert_eq!(*value, exact as f32, "{exponent} [{index}]"),
            }
        }
    }
    // Values of the table stay, others go to the nearest, ties to the even code.
    let mut given = [0.0; 32];
    given[..8].copy_from_slice(&magnitudes);
    given[8..16].copy_from_slice(&[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.9]);
    let mut expected = given;
    expected[8..16].copy_from_slice(&[0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0]);
    assert_eq!(round_trip(BlockFormat::Mxfp4, &given), expected);
    assert_eq!(round_trip(BlockFormat::Mxfp4, &given.map(|x| -x)), expected.map(|x| -x));
}

/// Scales at both ends of the range of e8m0, in every kernel.
#[test]
fn mxfp4_of_any_scale_multiplies() {
    for exponent in [0, 1, 2, 127, 230, 255] {
        let mut blocks = Vec::new();
        for row in 0..16 {
            blocks.push(exponent);
            blocks.extend([0x72 + row; 16]);
        }
        let mut weights = vec![0.0; 16 * 32];
        dequantize(Context::best(), BlockFormat::Mxfp4, &blocks, &mut weights).unwrap();
        let x: Vec<f32> = (0..32).map(|index| (index % 5 * 30 + 7) as f32).collect();
        let expected = linear_reference(&x, &weights, 32);
        everywhere(|context| {
            let packed = PackedWeights::new(context, BlockFormat::Mxfp4, &blocks, 16, 32).unwrap();
            let mut activations = QuantizedActivations::new();
            activations.quantize(context, &x, 1, 32).unwrap();
            let mut out = [0.0; 16];
            packed.linear(context, &activations, Epilogue::default(), &mut out).unwrap();
            for (out, expected) in out.iter().zip(&expected) {
                let near = (f64::from(*out) - expected).abs() <= 1e-5 * expected.abs();
                assert!(near || (exponent == 255 && out.is_nan()), "{exponent}: {out} {expected}");
            }
        });
    }
}

#[test]
fn representable_values_round_trip() {
    for format in BlockFormat::ALL {
        assert_eq!(round_trip(format, &[0.0; 256]), [0.0; 256], "{format}");
        let back = round_trip(format, &[1.5; 256]);
        assert!(back.iter().all(|x| (x - 1.5).abs() < 0.02), "{format}: {}", back[0]);
    }
    let steps: Vec<f32> = (0..32).map(|index| (index % 16) as f32).collect();
    assert_eq!(round_trip(BlockFormat::Q4_1, &steps), steps);
}

#[test]
fn non_finite_values_dequantize_to_nan() {
    for format in BlockFormat::ALL {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut values = [1.0; 256];
            values[5] = bad;
            let back = round_trip(format, &values);
            assert!(!back[5].is_finite(), "{format} {bad}: {}", back[5]);
        }
    }
}

/// What the kernels compute, from the same blocks and bytes: only rounding of sums differs.
fn reference(format: BlockFormat, blocks: &[u8], x: &[f32], inputs: usize) -> Vec<f64> {
    let count = blocks.len() / format.block_bytes() * format.block_values();
    let mut weights = vec![0.0; count];
    dequantize(Context::best(), format, blocks, &mut weights).expect("lengths fit");
    let mut coarse = x.to_vec();
    for group in coarse.chunks_mut(32) {
        let largest = group.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        for x in group {
            *x = (*x * factor).round_ties_even() * (largest / 127.0);
        }
    }
    linear_reference(&coarse, &weights, inputs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn packed_gemm_matches_reference(
        rows in 0_usize..12, blocks in 1_usize..4, outputs in 0_usize..140, seed: u64,
    ) {
        let mut numbers = Numbers(seed);
        for format in BlockFormat::ALL {
            let inputs = blocks * format.block_values();
            let values = numbers.vector(outputs * inputs);
            let x = numbers.vector(rows * inputs);
            let mut bytes = vec![0; format.bytes("test", values.len()).unwrap()];
            quantize(Context::best(), format, &values, &mut bytes).unwrap();
            let expected = reference(format, &bytes, &x, inputs);
            everywhere(|context| {
                let weights = PackedWeights::new(context, format, &bytes, outputs, inputs).unwrap();
                let mut activations = QuantizedActivations::new();
                activations.quantize(context, &x, rows, inputs).unwrap();
                let mut out = vec![f32::NAN; rows * outputs];
                weights.linear(context, &activations, Epilogue::default(), &mut out).unwrap();
                assert_close(&format!("{format} {}", context.level), &out, &expected, 1e-5);
            });
        }
    }
}

/// The products, and the sums of the magnitudes they are made of.
fn exact(x: &[f32], weights: &[f32], inputs: usize) -> (Vec<f64>, Vec<f64>) {
    let absolute = |values: &[f32]| values.iter().map(|x| x.abs()).collect::<Vec<_>>();
    let sizes = linear_reference(&absolute(x), &absolute(weights), inputs);
    (linear_reference(x, weights, inputs), sizes)
}

#[test]
fn amx_bf16_is_more_accurate_than_int8_activations() {
    let mut numbers = Numbers(77);
    for (format, rows, blocks, outputs) in [
        (BlockFormat::Q8_0, 48, 3, 33),
        (BlockFormat::Q4_0, 50, 21, 16),
        (BlockFormat::Q4_1, 80, 45, 70),
        (BlockFormat::Q4K, 49, 1, 32),
        (BlockFormat::Q4K, 64, 3, 47),
        (BlockFormat::Q5K, 50, 2, 33),
        (BlockFormat::Q6K, 63, 3, 40),
        (BlockFormat::Mxfp4, 57, 7, 45),
    ] {
        let inputs = blocks * format.block_values();
        let x = numbers.vector(rows * inputs);
        let bias = numbers.vector(outputs);
        let mut bytes = vec![0; format.bytes("test", outputs * inputs).unwrap()];
        let values = numbers.vector(outputs * inputs);
        quantize(Context::best(), format, &values, &mut bytes).unwrap();
        let mut weights = vec![0.0; outputs * inputs];
        dequantize(Context::best(), format, &bytes, &mut weights).unwrap();
        let (expected, sizes) = exact(&x, &weights, inputs);
        let epilogue = Epilogue { bias: Some(&bias), ..Epilogue::default() };
        everywhere(|context| {
            let packed = PackedWeights::new(context, format, &bytes, outputs, inputs).unwrap();
            let mut out = vec![f32::NAN; rows * outputs];
            let done = packed.view().linear_amx(context, &x, rows, epilogue, &mut out);
            assert_eq!(done.unwrap(), context.level.name().ends_with("amx"));
            if !context.level.name().ends_with("amx") {
                return;
            }
            let mut activations = QuantizedActivations::new();
            activations.quantize(context, &x, rows, inputs).unwrap();
            let mut coarse = vec![f32::NAN; rows * outputs];
            packed.linear(context, &activations, epilogue, &mut coarse).unwrap();
            let (mut error, mut coarse_error) = (0.0, 0.0);
            for (index, expected) in expected.iter().enumerate() {
                let expected = expected + f64::from(bias[index % outputs]);
                let off = (f64::from(out[index]) - expected).abs();
                // Half a unit of the eighth bit of either factor.
                let most = sizes[index] * 2.0_f64.powi(-8) * 1.01;
                assert!(off <= most, "{format} [{index}]: {off} off, {most} allowed");
                error += off * off;
                coarse_error += (f64::from(coarse[index]) - expected).powi(2);
            }
            assert!(error < coarse_error, "{format}: {error} and {coarse_error}");
        });
    }
}

#[test]
fn amx_int8_weights_are_exact_for_exact_inputs() {
    let (rows, inputs, outputs) = (48, 64, 35);
    let values: Vec<i8> =
        (0..outputs * inputs).map(|index| (index * 37 % 255) as u8 as i8).collect();
    let scales: Vec<f32> = (0..outputs).map(|index| 0.5_f32.powi(index as i32 % 5)).collect();
    let x: Vec<f32> = (0..rows * inputs).map(|index| (index % 31) as f32 - 15.0).collect();
    let weights: Vec<f32> = (0..outputs * inputs)
        .map(|index| f32::from(values[index]) * scales[index / inputs])
        .collect();
    let expected: Vec<f32> =
        linear_reference(&x, &weights, inputs).iter().map(|x| *x as f32).collect();
    everywhere(|context| {
        let packed = PackedWeights::from_int8(context, &values, &scales, outputs, inputs).unwrap();
        let mut out = vec![f32::NAN; rows * outputs];
        let done = packed.view().linear_amx(context, &x, rows, Epilogue::default(), &mut out);
        if done.unwrap() {
            assert_eq!(out, expected);
        }
    });
}

#[test]
fn extreme_codes_do_not_overflow() {
    // Bytes of -128 and activations at both ends of their range.
    let inputs = 4096;
    let mut blocks = Vec::new();
    for _ in 0..inputs / 32 {
        blocks.extend([0x00, 0x3C]);
        blocks.extend([0x80; 32]);
    }
    let x: Vec<f32> = (0..inputs).map(|index| if index % 2 == 0 { 1.0 } else { -1.0 }).collect();
    everywhere(|context| {
        let weights = PackedWeights::new(context, BlockFormat::Q8_0, &blocks, 1, inputs).unwrap();
        for (x, expected) in [(vec![1.0; inputs], -128.0 * 4096.0), (x.clone(), 0.0)] {
            let mut activations = QuantizedActivations::new();
            activations.quantize(context, &x, 1, inputs).unwrap();
            let mut out = [0.0];
            weights.linear(context, &activations, Epilogue::default(), &mut out).unwrap();
            assert!((out[0] - expected).abs() < 0.1, "{}: {}", context.level, out[0]);
        }
    });
}

#[test]
fn int8_weights_have_a_scale_per_row() {
    let values: Vec<i8> = (0..2 * 64).map(|index| (index * 37 % 255) as u8 as i8).collect();
    let scales = [0.5, 0.25];
    // Exact as bytes: whole numbers of which one is 127 in each group of 32.
    let x: Vec<f32> = (0..64).map(|index| (index % 32 * 8 - 121) as f32).collect();
    let weights: Vec<f32> = values
        .iter()
        .enumerate()
        .map(|(index, value)| f32::from(*value) * scales[index / 64])
        .collect();
    let expected = linear_reference(&x, &weights, 64);
    everywhere(|context| {
        let packed = PackedWeights::from_int8(context, &values, &scales, 2, 64).unwrap();
        let mut activations = QuantizedActivations::new();
        activations.quantize(context, &x, 1, 64).unwrap();
        let mut out = [0.0; 2];
        let epilogue = Epilogue { bias: Some(&[1.0, 2.0]), ..Epilogue::default() };
        packed.linear(context, &activations, epilogue, &mut out).unwrap();
        let plain = [out[0] - 1.0, out[1] - 2.0];
        assert_close(context.level.name(), &plain, &expected, 1e-6);
    });
}

#[test]
fn non_finite_activation_propagates_to_every_output() {
    let mut blocks = vec![0; 34 * 3];
    quantize(Context::best(), BlockFormat::Q8_0, &[1.0; 96], &mut blocks).unwrap();
    for bad in [f32::NAN, f32::INFINITY] {
        let mut x = [1.0; 32];
        x[7] = bad;
        everywhere(|context| {
            let weights = PackedWeights::new(context, BlockFormat::Q8_0, &blocks, 3, 32).unwrap();
            let mut activations = QuantizedActivations::new();
            activations.quantize(context, &x, 1, 32).unwrap();
            let mut out = [0.0; 3];
            weights.linear(context, &activations, Epilogue::default(), &mut out).unwrap();
            assert!(out.iter().all(|x| x.is_nan()), "{}: {out:?}", context.level);
        });
    }
}

#[test]
fn quantization_errors_name_the_argument() {
    let context = Context::best();
    let mut out = [0; 34];
    let short = quantize(context, BlockFormat::Q8_0, &[0.0; 33], &mut out).unwrap_err();
    assert_eq!(
        short.to_string(),
        "invalid values in quantize: expected a multiple of 32 for q8_0, got 33"
    );
    let few = PackedWeights::new(context, BlockFormat::Q4K, &[0; 100], 1, 256).unwrap_err();
    assert_eq!(
        few.to_string(),
        "shape mismatch in pack weights: expected blocks of [1, 144] elements, got 100 elements"
    );
    let weights = PackedWeights::new(context, BlockFormat::Q8_0, &out, 1, 32).unwrap();
    let mut activations = QuantizedActivations::new();
    activations.quantize(context, &[0.0; 64], 1, 64).unwrap();
    let wide = weights.linear(context, &activations, Epilogue::default(), &mut [0.0]);
    assert_eq!(
        wide.unwrap_err().to_string(),
        "invalid activations in linear: expected 32 inputs, got 64"
    );
}
