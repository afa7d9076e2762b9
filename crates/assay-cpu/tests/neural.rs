//! Row operations of a transformer against plain loops in double precision, on every level.

mod common;

use assay_cpu::ops::*;
use common::{Numbers, assert_close, everywhere};
use proptest::prelude::*;

/// A gated activation of a gate and a value, as a reference computes it.
type Gate = fn(f64, f64) -> f64;

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

fn softmax_row(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

/// Phi by the Taylor series of the error function, which converges for all that is tested.
fn normal_distribution(x: f64) -> f64 {
    let z = x / std::f64::consts::SQRT_2;
    let (mut term, mut sum) = (z, z);
    for n in 1..200 {
        term *= -z * z / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    0.5 * (1.0 + sum * 2.0 / std::f64::consts::PI.sqrt())
}

type Function = fn(f64) -> f64;

#[test]
fn activations_match_reference() {
    let x: Vec<f32> = (-500..=500).map(|step| step as f32 / 100.0).collect();
    let functions: [(Activation, Function); 4] = [
        (Activation::None, |x| x),
        (Activation::Silu, |x| x / (1.0 + (-x).exp())),
        (Activation::Gelu, |x| x * normal_distribution(x)),
        (Activation::GeluTanh, |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }),
    ];
    for (activation, function) in functions {
        let expected: Vec<f64> = wide(&x).into_iter().map(function).collect();
        everywhere(|context| {
            let mut out = vec![0.0; x.len()];
            activate(context, activation, &x, &mut out).unwrap();
            let what = format!("{activation:?} {}", context.level);
            assert_close(&what, &out, &expected, 6e-7);
        });
    }
}

#[test]
fn activations_handle_infinities_and_nan() {
    let x = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -200.0, 200.0, 0.0];
    for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
        everywhere(|context| {
            let mut out = [1.0; 6];
            activate(context, activation, &x, &mut out).unwrap();
            let what = format!("{activation:?} {} {out:?}", context.level);
            assert_eq!(out[0], f32::INFINITY, "{what}");
            assert!(out[2].is_nan(), "{what}");
            assert!(out[3].abs() < 1e-30, "{what}");
            assert_eq!((out[4], out[5]), (200.0, 0.0), "{what}");
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rows(rows in 0_usize..6, columns in 1_usize..80, seed: u64) {
        let mut numbers = Numbers(seed);
        let x = numbers.vector(rows * columns);
        let (weight, bias) = (numbers.vector(columns), numbers.vector(columns));
        let other = numbers.vector(rows * columns);
        let sums: Vec<f32> = x.iter().zip(&other).map(|(a, b)| a + b).collect();
        let per_row = |x: &[f32], f: &dyn Fn(&[f64]) -> Vec<f64>| -> Vec<f64> {
            wide(x).chunks(columns).flat_map(f).collect()
        };
        let rms = |row: &[f64]| -> Vec<f64> {
            let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            let factor = 1.0 / (square + 1e-5).sqrt();
            row.iter().zip(&weight).map(|(x, w)| x * factor * f64::from(*w)).collect()
        };
        let layer = |row: &[f64]| -> Vec<f64> {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let centered: Vec<f64> = row.iter().map(|x| x - mean).collect();
            let scaled = rms(&centered);
            scaled.iter().zip(&bias).map(|(x, b)| x + f64::from(*b)).collect()
        };
        let gates: [(Activation, Gate); 4] = [
            (Activation::Swiglu, |gate, up| gate / (1.0 + (-gate).exp()) * up),
            (Activation::Geglu, |gate, up| gate * normal_distribution(gate) * up),
            (Activation::GegluTanh, |gate, up| {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044715 * gate.powi(3));
                0.5 * gate * (1.0 + inner.tanh()) * up
            }),
            (Activation::SwigluClamped, |gate, up| {
                let gate = gate.min(7.0);
                gate / (1.0 + (-1.702 * gate).exp()) * (up.clamp(-7.0, 7.0) + 1.0)
            }),
        ];
        let gated = gates.map(|(activation, function)| {
            let pairs = wide(&x).into_iter().zip(wide(&other));
            (activation, pairs.map(|(gate, up)| function(gate, up)).collect::<Vec<f64>>())
        });
        everywhere(|context| {
            let mut out = vec![f32::NAN; x.len()];
            softmax(context, &x, columns, &mut out).unwrap();
            assert_close("softmax", &out, &per_row(&x, &softmax_row), 1e-6);
            rms_norm(context, &x, &weight, 1e-5, &mut out).unwrap();
            assert_close("rms_norm", &out, &per_row(&x, &rms), 2e-6);
            layer_norm(context, &x, &weight, Some(&bias), 1e-5, &mut out).unwrap();
            // Near-equal columns leave little after the mean, and rounding of it is what remains.
            assert_close("layer_norm", &out, &per_row(&x, &layer), 2e-4);
            let mut gate_up = Vec::new();
            for (gate, up) in x.chunks(columns).zip(other.chunks(columns)) {
                gate_up.extend_from_slice(gate);
                gate_up.extend_from_slice(up);
            }
            for (activation, gated) in &gated {
                gate(context, *activation, &gate_up, columns, &mut out).unwrap();
                assert_close(activation.name(), &out, gated, 5e-6);
            }
            let mut residual = other.clone();
            add_rms_norm(context, &x, &mut residual, &weight, 1e-5, &mut out).unwrap();
            assert_eq!(residual, sums);
            assert_close("add_rms_norm", &out, &per_row(&sums, &rms), 2e-6);
        });
    }
}

#[test]
fn softmax_handles_masked_and_extreme_rows() {
    let inf = f32::INFINITY;
    let x = [-inf, 0.0, -inf, 1e30, -1e30, 1e30, -inf, -inf, -inf, f32::NAN, 0.0, 1.0];
    everywhere(|context| {
        let mut out = [0.0; 12];
        softmax(context, &x, 3, &mut out).unwrap();
        assert_eq!(out[..6], [0.0, 1.0, 0.0, 0.5, 0.0, 0.5]);
        assert!(out[6..].iter().all(|x| x.is_nan()), "{out:?}");
    });
}

#[test]
fn weights_below_the_normal_numbers_are_zero() {
    let offsets = [0.0, -80.0, -87.0, -88.5, -95.0, -104.0, -500.0];
    everywhere(|context| {
        let mut out = [0.0; 7];
        softmax(context, &offsets, 7, &mut out).unwrap();
        for (found, offset) in out[..3].iter().zip(offsets) {
            let expected = f64::from(offset).exp();
            assert!((f64::from(*found) / expected - 1.0).abs() < 1e-6, "{out:?}");
        }
        assert_eq!(out[3..], [0.0; 4]);
    });
}

#[test]
fn rope_rotates_by_the_angle_of_the_position() {
    let context = Context::best();
    let table = RopeTable::new(4, 16, 10_000.0, RopeScaling::None).unwrap();
    let x = [1.0, 0.0, 0.0, 2.0, 9.0];
    let (mut halves, mut interleaved) = ([0.0; 5], [0.0; 5]);
    let rotary = table.rotary(RopeLayout::Halves);
    rope(context, &x, &[3], rotary, 1, 5, &mut halves).unwrap();
    let rotary = table.rotary(RopeLayout::Interleaved);
    rope(context, &x, &[3], rotary, 1, 5, &mut interleaved).unwrap();
    let (fast, slow) = (3.0_f64, 3.0_f64 / 100.0);
    let expected = [fast.cos(), -2.0 * slow.sin(), fast.sin(), 2.0 * slow.cos(), 9.0];
    assert_close("halves", &halves, &expected, 1e-6);
    let expected = [fast.cos(), fast.sin(), -2.0 * slow.sin(), 2.0 * slow.cos(), 9.0];
    assert_close("interleaved", &interleaved, &expected, 1e-6);
}

/// The angle of each pair at position 1, read off by turning (1, 0), and the length it has then.
fn angles(rotary_dim: usize, base: f64, scaling: RopeScaling) -> Vec<(f64, f64)> {
    let table = RopeTable::new(rotary_dim, 2, base, scaling).expect("valid scaling");
    let ones: Vec<f32> = [1.0, 0.0].repeat(rotary_dim / 2);
    let (context, rotary) = (Context::best(), table.rotary(RopeLayout::Interleaved));
    let mut x = vec![0.0; rotary_dim];
    rope(context, &ones, &[1], rotary, 1, rotary_dim, &mut x).expect("shapes fit");
    let polar = |pair: &[f32]| {
        let (a, b) = (f64::from(pair[0]), f64::from(pair[1]));
        (b.atan2(a), a.hypot(b))
    };
    x.chunks(2).map(polar).collect()
}

#[test]
fn rope_scalings_match_the_papers() {
    let plain = angles(64, 10_000.0, RopeScaling::None);
    let near = |what: &str, got: f64, expected: f64| {
        assert!((got - expected).abs() < 2e-6 * expected.max(1e-3), "{what}: {got} {expected}");
    };
    for (pair, (angle, _)) in
        angles(64, 10_000.0, RopeScaling::Linear { factor: 4.0 }).iter().enumerate()
    {
        near("linear", *angle, plain[pair].0 / 4.0);
    }
    // The highest frequency is kept and the lowest divided by the factor.
    let ntk = angles(64, 10_000.0, RopeScaling::Ntk { factor: 4.0 });
    near("ntk, first", ntk[0].0, plain[0].0);
    near("ntk, last", ntk[31].0, plain[31].0 / 4.0);
    let yarn_with = |attention_factor, truncate| {
        angles(
            64,
            10_000.0,
            RopeScaling::Yarn {
                factor: 4.0,
                original_context: 2048,
                beta_fast: 32.0,
                beta_slow: 1.0,
                attention_factor,
                truncate,
            },
        )
    };
    let yarn = yarn_with(None, true);
    // Pairs 8 to 21: floor(64 ln(2048 / 64 pi) / 2 ln 10000) and ceil(64 ln(2048 / 2 pi) / ...).
    for (pair, (angle, length)) in yarn.iter().enumerate() {
        let stretched = ((pair as f64 - 8.0) / 13.0).clamp(0.0, 1.0);
        near("yarn", *angle, plain[pair].0 * (1.0 - 0.75 * stretched));
        near("yarn, length", *length, 0.1 * 4.0_f64.ln() + 1.0);
    }
    // Not truncated: the ramp runs from pair 8.06... to 20.10..., where the rotations are 32 and 1.
    let pair_of = |turns: f64| {
        32.0 * (2048.0 / (turns * 2.0 * std::f64::consts::PI)).ln() / 10_000.0_f64.ln()
    };
    let (first, last) = (pair_of(32.0), pair_of(1.0));
    for (pair, (angle, length)) in yarn_with(Some(0.75), false).iter().enumerate() {
        let stretched = ((pair as f64 - first) / (last - first)).clamp(0.0, 1.0);
        near("yarn, not truncated", *angle, plain[pair].0 * (1.0 - 0.75 * stretched));
        near("yarn, given length", *length, 0.75);
    }
}

#[test]
fn embedding_gathers_rows_and_checks_bounds() {
    let table: Vec<Bf16> = (0..12).map(|value| Bf16::from(value as f32)).collect();
    everywhere(|context| {
        let mut out = [0.0; 6];
        embedding(context, &table, 3, &[3, 0], &mut out).unwrap();
        assert_eq!(out, [9.0, 10.0, 11.0, 0.0, 1.0, 2.0]);
        embedding(context, &table, 3, &[-1, 1], &mut out).unwrap();
        assert_eq!(out, [0.0, 0.0, 0.0, 3.0, 4.0, 5.0]);
        for bad in [4, -2] {
            let outcome = embedding(context, &table, 3, &[0, bad], &mut out).unwrap_err();
            assert_eq!(
                outcome.to_string(),
                format!(
                    "index out of range in embedding: expected tokens from 0 to below 4, got {bad}"
                )
            );
        }
    });
}

#[test]
fn sampling_respects_its_limits() {
    let logits = [0.0, 3.0, 1.0, 2.0, f32::NEG_INFINITY];
    let context = Context::best();
    let seen = |temperature, top_k, top_p, min_p| {
        let sampling = Sampling { temperature, top_k, top_p, min_p };
        let mut counts = [0_i32; 5];
        for step in 0..20_000 {
            let token = sample(context, &logits, sampling, uniform(7, step)).unwrap();
            counts[token.expect("there are numbers")] += 1;
        }
        counts
    };
    assert_eq!(seen(0.0, 0, 1.0, 0.0), [0, 20_000, 0, 0, 0]);
    assert_eq!(seen(1.0, 1, 1.0, 0.0), [0, 20_000, 0, 0, 0]);
    // e^3 / (e^3 + e^2) = 0.731: two tokens, whichever way the others are left out.
    for counts in [seen(1.0, 2, 1.0, 0.0), seen(1.0, 0, 0.8, 0.0), seen(1.0, 0, 1.0, 0.2)] {
        assert_eq!(counts[0] + counts[2] + counts[4], 0, "{counts:?}");
        assert!((counts[1] - 14_621).abs() < 300, "{counts:?}");
    }
    let counts = seen(2.0, 0, 1.0, 0.0);
    let weights = [0.0_f64, 1.5, 0.5, 1.0].map(f64::exp);
    let sum: f64 = weights.iter().sum();
    for (count, weight) in counts.iter().zip(weights) {
        let expected = 20_000.0 * weight / sum;
        assert!((f64::from(*count) - expected).abs() < 350.0, "{counts:?}");
    }
    assert_eq!(counts[4], 0);
}

/// What sampling means, by sorting everything: the likeliest first, cut at top-k and then at top-p.
fn sampled_by_sorting(logits: &[f32], top_k: usize, top_p: f64, uniform: f64) -> usize {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| f64::from(logit - most).exp();
    let mut sorted: Vec<usize> = (0..logits.len()).collect();
    sorted.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    if top_k > 0 {
        sorted.truncate(top_k);
    }
    let among: f64 = sorted.iter().map(|token| weight(logits[*token])).sum();
    let mut sum = 0.0;
    let mut kept = 0;
    while sum < among * top_p && kept < sorted.len() {
        sum += weight(logits[sorted[kept]]);
        kept += 1;
    }
    let mut left = uniform * sum;
    for token in &sorted[..kept] {
        left -= weight(logits[*token]);
        if left < 0.0 {
            return *token;
        }
    }
    sorted[kept - 1]
}

#[test]
fn sampling_matches_the_sorted_reference() {
    let context = Context::best();
    let mut numbers = Numbers(11);
    for spread in [0.1, 1.0, 8.0] {
        let logits: Vec<f32> = numbers.vector(3_000).iter().map(|x| x * spread).collect();
        for (top_k, top_p) in [(0, 0.2), (0, 0.95), (1, 1.0), (40, 1.0), (40, 0.5), (2_500, 0.9)] {
            let sampling = Sampling { temperature: 1.0, top_k, top_p, min_p: 0.0 };
            let differ = (0..200).filter(|step| {
                let uniform = uniform(3, *step);
                let token = sample(context, &logits, sampling, uniform).unwrap();
                token != Some(sampled_by_sorting(&logits, top_k, f64::from(top_p), uniform))
            });
            // Single-precision exponentials move a limit by a millionth: rarely, the next token.
            assert!(differ.count() <= 1, "{spread} {top_k} {top_p}");
        }
    }
}

#[test]
fn sampling_refuses_invalid_parameters() {
    let context = Context::best();
    let plain = Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0 };
    for (logits, sampling, uniform, message) in [
        (vec![1.0], Sampling { temperature: -1.0, ..plain }, 0.5, "temperature"),
        (vec![1.0], Sampling { top_p: 0.0, ..plain }, 0.5, "top_p"),
        (vec![1.0], plain, 1.0, "uniform"),
    ] {
        let error = sample(context, &logits, sampling, uniform).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    let certain = [0.0, f32::INFINITY];
    assert_eq!(sample(context, &certain, plain, 0.1), Ok(Some(1)));
    // What is not a number is never chosen, and where nothing is one there is no token.
    for temperature in [0.0, 1.0] {
        let sampling = Sampling { temperature, ..plain };
        let some = [f32::NAN, -4.0, f32::NAN];
        assert_eq!(sample(context, &some, sampling, 0.9), Ok(Some(1)));
        assert_eq!(sample(context, &[f32::NAN; 40], sampling, 0.9), Ok(None));
        assert_eq!(sample(context, &[], sampling, 0.9), Ok(None));
    }
}
