//! The selective scan against its recurrence, in chunks.

use assay_cpu::ops::*;

/// Columns of x, B and C of four heads of three elements in two groups with states of 19 numbers.
const CONVOLVED: usize = 4 * 3 + 2 * 2 * 19;
/// The gate, those columns, and one step size a head.
const PROJECTED: usize = 4 * 3 + CONVOLVED + 4;

#[test]
fn rows_at_once_and_one_by_one_give_the_same_as_the_recurrence() {
    let context = Context::best();
    let shape = ScanShape { heads: 4, head_size: 3, groups: 2, state_size: 19 };
    let rows = 5;
    let number = |index: usize| ((index * 53 + 29) % 101) as f32 / 50.0 - 1.0;
    let projected: Vec<f32> = (0..rows * PROJECTED).map(number).collect();
    let convolved: Vec<f32> = (0..rows * CONVOLVED).map(|index| number(index + 7)).collect();
    let a_log: Vec<f32> = (0..4).map(|head| number(head + 3)).collect();
    let (d, bias) = ([1.0, -0.5, 0.25, 2.0], [0.1, -0.2, 0.3, 0.4]);
    let step = StepSize { a_log: &a_log, d: &d, bias: &bias, least: 0.0, most: 1.25 };
    let mut expected = Vec::new();
    let mut states = vec![0.0_f64; 4 * 3 * 19];
    for row in 0..rows {
        let convolved = &convolved[row * CONVOLVED..];
        let projected = &projected[row * PROJECTED..];
        for head in 0..4 {
            let group = head / 2;
            let raw = f64::from(projected[12 + CONVOLVED + head] + bias[head]);
            let dt = raw.exp().ln_1p().clamp(0.0, 1.25);
            let decay = (-dt * f64::from(a_log[head]).exp()).exp();
            for element in 0..3 {
                let at = head * 3 + element;
                let x = f64::from(convolved[at]);
                let mut y = f64::from(d[head]) * x;
                for number in 0..19 {
                    let b = f64::from(convolved[12 + group * 19 + number]);
                    let c = f64::from(convolved[12 + (2 + group) * 19 + number]);
                    let state = &mut states[at * 19 + number];
                    *state = *state * decay + dt * x * b;
                    y += *state * c;
                }
                let z = f64::from(projected[at]);
                expected.push(y * z / (1.0 + (-z).exp()));
            }
        }
    }
    for chunk in [1, rows] {
        let mut state = vec![f32::NAN; 3 * 4 * 3 * 19];
        let mut got = Vec::new();
        for start in (0..rows).step_by(chunk) {
            let mut out = vec![f32::NAN; chunk * 12];
            // A sequence without rows comes first.
            let batch = StateBatch {
                query_start_loc: &[0, 0, chunk as i32],
                seq_lens: &[0, (start + chunk) as i32],
                slots: &[0, 2],
            };
            selective_scan(
                context,
                shape,
                step,
                batch,
                &projected[start * PROJECTED..][..chunk * PROJECTED],
                &convolved[start * CONVOLVED..][..chunk * CONVOLVED],
                &mut state,
                &mut out,
            )
            .unwrap();
            got.extend(out);
        }
        for (got, expected) in got.iter().zip(&expected) {
            let error = (f64::from(*got) - expected).abs();
            assert!(error < 2e-5, "{chunk}: {got} {expected}");
        }
    }
}
