//! Dense products against plain loops: every level, odd sizes, strides, refusals.

mod common;

use assay_cpu::ops::{Bf16, Context, Epilogue, LinearShape, Matrix, linear, matmul};
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
fn sizes_around_the_edges_of_tiles_and_blocks() {
    let mut numbers = Numbers(1);
    for (m, k, n) in [
        (1, 1, 1),
        (12, 256, 32),
        (13, 257, 33),
        (5, 3, 100),
        (200, 520, 513),
        (40, 1, 7),
    ] {
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
fn transposed_and_strided_operands() {
    let mut numbers = Numbers(2);
    let (a, b) = (numbers.vector(40 * 60), numbers.vector(30 * 40));
    let a = Matrix {
        data: &a,
        rows: 20,
        columns: 40,
        row_stride: 2,
        column_stride: 60,
    };
    let b = Matrix::new(&b, 30, 40).transposed();
    let expected = reference(a, b);
    everywhere(|context| {
        let mut out = vec![0.0; 20 * 30];
        matmul(context, a, b, &mut out).unwrap();
        assert_close(context.level.name(), &out, &expected, 2e-6);
    });
}

#[test]
fn an_empty_inner_dimension_gives_zeros() {
    let mut out = [1.0; 6];
    let (a, b) = (Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 3));
    matmul::<f32, f32>(Context::best(), a, b, &mut out).unwrap();
    assert_eq!(out, [0.0; 6]);
}

#[test]
fn what_does_not_fit_is_named() {
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
    fn linear_agrees_with_plain_loops(
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
fn bf16_keeps_special_values() {
    let shape = LinearShape {
        rows: 1,
        inputs: 1,
        outputs: 4,
    };
    let weights: Vec<Bf16> = [2.0, f32::INFINITY, f32::NAN, 1e-40]
        .map(Bf16::from)
        .to_vec();
    everywhere(|context| {
        let mut out = [0.0; 4];
        linear(
            context,
            &[1.0],
            &weights,
            shape,
            Epilogue::default(),
            false,
            &mut out,
        )
        .unwrap();
        assert_eq!(out[0], 2.0, "1 * 2");
        assert_eq!(out[1], f32::INFINITY);
        assert!(out[2].is_nan());
        assert!(out[3] > 0.0 && out[3] < 1.1e-40, "subnormal {}", out[3]);
    });
}
