//! Dense products against plain loops: every level, odd sizes, strides, refusals.

mod common;

use assay_cpu::ops::{Bf16, Context, Epilogue, F16, LinearShape, Matrix, linear, matmul};
use common::{Numbers, assert_close, everywhere, linear_reference};
use proptest::prelude::*;

fn reference(a: Matrix, b: Matrix) -> Vec<f64> {
    let at = |m: &Matrix, row: usize, column: usize| {
        f64::from(m.data[row * m.row_stride + column * m.column_stride])
    };
    let mut out = Vec::new();
    for row in 0..a.rows {
        for column in 0..b.columns {
            let products = (0..a.columns).map(|k| at(&a, row, k) * at(&b, k, column));
            out.push(products.sum());
        }
    }
    out
}

#[test]
fn matmul_handles_sizes_at_tile_and_block_edges() {
    let mut numbers = Numbers(1);
    for (m, k, n) in
        [(1, 1, 1), (12, 256, 32), (13, 257, 33), (5, 3, 100), (200, 520, 513), (40, 1, 7)]
    {
        let (a, b) = (numbers.vector(m * k), numbers.vector(k * n));
        let (a, b) = (Matrix::new(&a, m, k), Matrix::new(&b, k, n));
        let expected = reference(a, b);
        everywhere(|context| {
            let mut out = vec![f32::NAN; m * n];
            matmul(context, a, b, &mut out).unwrap();
            let what = format!("{m}x{k}x{n} {}", context.level);
            assert_close(&what, &out, &expected, 2e-6);
        });
    }
}

#[test]
fn matmul_handles_transposed_and_strided_operands() {
    let mut numbers = Numbers(2);
    let (a, b) = (numbers.vector(40 * 60), numbers.vector(30 * 40));
    let a = Matrix { data: &a, rows: 20, columns: 40, row_stride: 2, column_stride: 60 };
    let b = Matrix::new(&b, 30, 40).transposed();
    let expected = reference(a, b);
    everywhere(|context| {
        let mut out = vec![0.0; 20 * 30];
        matmul(context, a, b, &mut out).unwrap();
        assert_close(context.level.name(), &out, &expected, 2e-6);
    });
}

#[test]
fn bf16_matmul_handles_either_contiguous_operand() {
    let mut numbers = Numbers(3);
    for (m, k, n) in
        [(16, 32, 16), (33, 96, 40), (64, 1056, 70), (17, 64, 5), (300, 64, 20), (40, 50, 40)]
    {
        let mut halves = |count| -> Vec<Bf16> {
            let values = numbers.vector(count);
            values.iter().map(|value| Bf16::from(*value)).collect()
        };
        let (a, b) = (halves(m * k), halves(k * n));
        let widen = |halves: &[Bf16]| halves.iter().map(|x| f32::from(*x)).collect::<Vec<_>>();
        let (wide_a, wide_b) = (widen(&a), widen(&b));
        let straight = reference(Matrix::new(&wide_a, m, k), Matrix::new(&wide_b, k, n));
        let transposed = Matrix::new(&wide_b, n, k).transposed();
        let transposed = reference(Matrix::new(&wide_a, m, k), transposed);
        everywhere(|context| {
            let what = format!("{m}x{k}x{n} {}", context.level);
            let left = Matrix::new(&a, m, k);
            let mut out = vec![f32::NAN; m * n];
            matmul(context, left, Matrix::new(&b, k, n), &mut out).unwrap();
            assert_close(&what, &out, &straight, 3e-6);
            out.fill(f32::NAN);
            matmul(context, left, Matrix::new(&b, n, k).transposed(), &mut out).unwrap();
            assert_close(&what, &out, &transposed, 3e-6);
        });
    }
}

#[test]
fn matmul_with_empty_inner_dimension_gives_zeros() {
    let mut out = [1.0; 6];
    let (a, b) = (Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 3));
    matmul::<f32, f32>(Context::best(), a, b, &mut out).unwrap();
    assert_eq!(out, [0.0; 6]);
}

#[test]
fn matmul_errors_name_the_argument() {
    let data = [0.0; 6];
    let mut out = [0.0; 4];
    let a = Matrix::new(&data, 2, 3);
    let context = Context::best();
    let cases = [
        (
            matmul(context, a, Matrix::new(&data, 2, 3), &mut out),
            "invalid b in matmul: expected 3 rows, as a has columns, got 2 rows",
        ),
        (
            matmul(context, a, Matrix::new(&data, 3, 2), &mut out[..3]),
            "shape mismatch in matmul: expected out of [2, 2] elements, got 3 elements",
        ),
        (
            matmul(context, Matrix::new(&data, 3, 3), a.transposed(), &mut out),
            "invalid a in matmul: expected strides within 6 elements, got 3 x 3 at strides 3 and 1",
        ),
    ];
    for (outcome, message) in cases {
        assert_eq!(outcome.unwrap_err().to_string(), message);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn linear_matches_reference(
        rows in 0_usize..40, inputs in 0_usize..70, outputs in 0_usize..40, seed: u64,
    ) {
        let mut numbers = Numbers(seed);
        let x = numbers.vector(rows * inputs);
        let weights = numbers.vector(outputs * inputs);
        let bias = numbers.vector(outputs);
        let shape = LinearShape { rows, inputs, outputs };
        let halves: Vec<Bf16> = weights.iter().map(|value| Bf16::from(*value)).collect();
        let widened: Vec<f32> = halves.iter().map(|value| f32::from(*value)).collect();
        let epilogue = Epilogue { bias: Some(&bias), ..Epilogue::default() };
        let expect = |weights: &[f32]| {
            let mut out = match inputs {
                0 => vec![0.0; rows * outputs],
                _ => linear_reference(&x, weights, inputs),
            };
            for (index, out) in out.iter_mut().enumerate() {
                *out += f64::from(bias[index % outputs]);
            }
            out
        };
        let (expected, expected_halves) = (expect(&weights), expect(&widened));
        everywhere(|context| {
            let mut out = vec![f32::NAN; rows * outputs];
            linear(context, &x, &weights, shape, epilogue, false, &mut out).unwrap();
            assert_close("f32", &out, &expected, 3e-6);
            linear(context, &x, &halves, shape, epilogue, false, &mut out).unwrap();
            assert_close("bf16", &out, &expected_halves, 3e-6);
        });
    }
}

#[test]
fn bf16_conversion_preserves_special_values() {
    let shape = LinearShape { rows: 1, inputs: 1, outputs: 4 };
    let weights: Vec<Bf16> = [2.0, f32::INFINITY, f32::NAN, 1e-40].map(Bf16::from).to_vec();
    everywhere(|context| {
        let mut out = [0.0; 4];
        linear(context, &[1.0], &weights, shape, Epilogue::default(), false, &mut out).unwrap();
        assert_eq!(out[0], 2.0, "1 * 2");
        assert_eq!(out[1], f32::INFINITY);
        assert!(out[2].is_nan());
        assert!(out[3] > 0.0 && out[3] < 1.1e-40, "subnormal {}", out[3]);
    });
}

#[test]
fn amx_linear_loses_no_activation_bits() {
    let mut numbers = Numbers(4);
    for (rows, inputs, outputs) in [(16, 32, 16), (40, 64, 33), (33, 1344, 48), (70, 96, 600)] {
        let shape = LinearShape { rows, inputs, outputs };
        let x = numbers.vector(rows * inputs);
        let (bias, residual) = (numbers.vector(outputs), numbers.vector(rows * outputs));
        let weights: Vec<Bf16> =
            numbers.vector(outputs * inputs).iter().map(|value| Bf16::from(*value)).collect();
        let widened: Vec<f32> = weights.iter().map(|value| f32::from(*value)).collect();
        let mut expected = linear_reference(&x, &widened, inputs);
        for (index, expected) in expected.iter_mut().enumerate() {
            *expected += f64::from(bias[index % outputs]) + f64::from(residual[index]);
        }
        let epilogue =
            Epilogue { bias: Some(&bias), residual: Some(&residual), ..Epilogue::default() };
        everywhere(|context| {
            let mut out = vec![f32::NAN; rows * outputs];
            linear(context, &x, &weights, shape, epilogue, false, &mut out).unwrap();
            let what = format!("{rows}x{inputs}x{outputs} {}", context.level);
            assert_close(&what, &out, &expected, 3e-6);
        });
    }
}

#[test]
fn linear_of_many_rows_matches_reference() {
    let mut numbers = Numbers(5);
    for (rows, inputs, outputs) in [(32, 32, 16), (70, 100, 33), (300, 1_500, 40)] {
        let shape = LinearShape { rows, inputs, outputs };
        let x = numbers.vector(rows * inputs);
        let (bias, residual) = (numbers.vector(outputs), numbers.vector(rows * outputs));
        let weights = numbers.vector(outputs * inputs);
        let halves: Vec<F16> = weights.iter().map(|value| F16::from(*value)).collect();
        let widened: Vec<f32> = halves.iter().map(|value| f32::from(*value)).collect();
        let expect = |weights: &[f32]| {
            let mut expected = linear_reference(&x, weights, inputs);
            for (index, expected) in expected.iter_mut().enumerate() {
                *expected += f64::from(bias[index % outputs]) + f64::from(residual[index]);
            }
            expected
        };
        let (expected, expected_halves) = (expect(&weights), expect(&widened));
        let epilogue =
            Epilogue { bias: Some(&bias), residual: Some(&residual), ..Epilogue::default() };
        everywhere(|context| {
            let mut out = vec![f32::NAN; rows * outputs];
            let what = format!("{rows}x{inputs}x{outputs} {}", context.level);
            linear(context, &x, &weights, shape, epilogue, false, &mut out).unwrap();
            assert_close(&what, &out, &expected, 3e-6);
            linear(context, &x, &halves, shape, epilogue, false, &mut out).unwrap();
            assert_close(&what, &out, &expected_halves, 3e-6);
        });
    }
}

#[test]
fn linear_of_many_rows_propagates_special_values() {
    let (rows, inputs, outputs) = (40, 32, 16);
    let shape = LinearShape { rows, inputs, outputs };
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1.0 + f32::EPSILON];
    let mut x = vec![0.0; rows * inputs];
    for row in 0..rows {
        x[row * inputs + row % inputs] = special[row % special.len()];
    }
    let weights = vec![1.0_f32; outputs * inputs];
    everywhere(|context| {
        let mut out = vec![0.0; rows * outputs];
        linear(context, &x, &weights, shape, Epilogue::default(), false, &mut out).unwrap();
        for (row, out) in out.chunks(outputs).enumerate() {
            let expected = special[row % special.len()];
            for got in out {
                let same = *got == expected || (got.is_nan() && expected.is_nan());
                assert!(same, "{}: expected {expected}, got {got}", context.level);
            }
        }
    });
}

#[test]
fn amx_linear_propagates_special_values() {
    let (rows, inputs, outputs) = (16, 32, 16);
    let shape = LinearShape { rows, inputs, outputs };
    // One number in each row, and weights of one.
    let special = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::from_bits(0x7F80_0001),
        f32::MAX,
        -f32::MAX,
        1.0 + f32::EPSILON,
        f32::MIN_POSITIVE * 65536.0,
    ];
    let mut x = vec![0.0; rows * inputs];
    for row in 0..rows {
        x[row * inputs + row] = special[row % special.len()];
    }
    let weights = vec![Bf16::from(1.0); outputs * inputs];
    everywhere(|context| {
        let mut out = vec![0.0; rows * outputs];
        let epilogue = Epilogue::default();
        linear(context, &x, &weights, shape, epilogue, false, &mut out).unwrap();
        for (row, out) in out.chunks(outputs).enumerate() {
            let expected = special[row % special.len()];
            for got in out {
                assert!(
                    *got == expected || (got.is_nan() && expected.is_nan()),
                    "{}: expected {expected}, got {got}",
                    context.level
                );
            }
        }
    });
}
