//! The causal convolution against its formula, in chunks.

use assay_cpu::ops::*;

#[test]
fn rows_at_once_and_one_by_one_give_the_same_as_the_formula() {
    let context = Context::best();
    let (columns, first, channels, rows) = (7, 2, 3, 6);
    let number = |index: usize| ((index * 37 + 11) % 17) as f32 / 8.0 - 1.0;
    let x: Vec<f32> = (0..rows * columns).map(number).collect();
    let weight: Vec<f32> = (0..4 * channels).map(|index| number(index + 5)).collect();
    let bias = [0.5, -0.25, 0.125];
    let convolution = Convolution { columns, first, channels, weight: &weight, bias: Some(&bias) };
    let mut expected = vec![0.0_f32; rows * channels];
    for row in 0..rows {
        for channel in 0..channels {
            let mut sum = f64::from(bias[channel]);
            for tap in 0..4 {
                if row + tap >= 3 {
                    let at = (row + tap - 3) * columns + first + channel;
                    sum += f64::from(x[at]) * f64::from(weight[tap * channels + channel]);
                }
            }
            expected[row * channels + channel] = (sum / (1.0 + (-sum).exp())) as f32;
        }
    }
    // Chunks of one, of two and of all rows, in slot 1 of two.
    for chunk in [1, 2, rows] {
        let mut state = vec![f32::NAN; 2 * 3 * channels];
        let mut got = Vec::new();
        for start in (0..rows).step_by(chunk) {
            let mut out = vec![f32::NAN; chunk * channels];
            let batch = StateBatch {
                query_start_loc: &[0, chunk as i32],
                seq_lens: &[(start + chunk) as i32],
                slots: &[1],
            };
            let part = &x[start * columns..(start + chunk) * columns];
            causal_convolution(context, convolution, batch, part, &mut state, &mut out).unwrap();
            got.extend(out);
        }
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() < 1e-6, "{chunk}: {got} {expected}");
        }
        assert!(state[..3 * channels].iter().all(|value| value.is_nan()));
    }
}
