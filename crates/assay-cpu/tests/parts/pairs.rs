//! Layers of protein trunks against plain loops in double precision, on every level: on tiles and in columns.

use crate::common::{Numbers, assert_close, everywhere};
use assay_cpu::ops::*;

const EPSILON: f32 = 1e-5;

fn norm<'a>(weight: &'a [f32], bias: &'a [f32]) -> LayerNorm<'a> {
    LayerNorm { weight, bias, epsilon: EPSILON }
}

fn normalized(row: &[f32], norm: LayerNorm) -> Vec<f64> {
    let wide: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
    let count = wide.len() as f64;
    let mean = wide.iter().sum::<f64>() / count;
    let variance = wide.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let factor = 1.0 / (variance + f64::from(EPSILON)).sqrt();
    let scales = norm.weight.iter().zip(norm.bias);
    let pairs = wide.iter().zip(scales);
    pairs.map(|(x, (w, b))| (x - mean) * factor * f64::from(*w) + f64::from(*b)).collect()
}

fn project(x: &[f64], weights: &[f32]) -> Vec<f64> {
    let rows = weights.chunks_exact(x.len());
    rows.map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn projections_are_channel_by_channel() {
    let mut numbers = Numbers(1);
    for (rows, columns, inputs, outputs) in [(3, 50, 40, 35), (2, 7, 5, 3), (5, 9, 150, 17)] {
        let (batch, places) = (2, rows * columns);
        let x = numbers.vector(batch * places * inputs);
        let (weight, bias) = (numbers.vector(inputs), numbers.vector(inputs));
        let (weights, gates) = (numbers.vector(outputs * inputs), numbers.vector(outputs * inputs));
        let mask = numbers.vector(batch * places);
        for transposed in [false, true] {
            let mut expected = vec![0.0; batch * outputs * places];
            let mut plain = expected.clone();
            for (index, row) in x.chunks_exact(inputs).enumerate() {
                let (sample, place) = (index / places, index % places);
                let normed = normalized(row, norm(&weight, &bias));
                let at = match transposed {
                    true => place % columns * rows + place / columns,
                    false => place,
                };
                let values = project(&normed, &weights).into_iter().zip(project(&normed, &gates));
                for (channel, (value, gate)) in values.enumerate() {
                    let at = (sample * outputs + channel) * places + at;
                    plain[at] = value;
                    expected[at] = value * sigmoid(gate) * f64::from(mask[index]);
                }
            }
            everywhere(|context| {
                let shape = PlaneShape { batch, rows, columns, inputs, outputs, transposed };
                let projection = ChannelProjection {
                    norm: norm(&weight, &bias),
                    weights: &weights,
                    gates: Some(&gates),
                    mask: Some(&mask),
                };
                let mut out = vec![f32::NAN; expected.len()];
                channel_projection(context, shape, projection, &x, &mut out).unwrap();
                assert_close(&format!("{shape:?} {}", context.level), &out, &expected, 1e-5);
                let projection = ChannelProjection { gates: None, mask: None, ..projection };
                channel_projection(context, shape, projection, &x, &mut out).unwrap();
                assert_close(&format!("{shape:?} {}", context.level), &out, &plain, 1e-5);
            });
        }
    }
}

#[test]
fn pairs_are_updated_by_their_sums() {
    let mut numbers = Numbers(2);
    for (places, hidden, channels) in [(150, 40, 33), (9, 3, 7), (37, 130, 145)] {
        let shape = TriangleShape { batch: 2, places, hidden, channels };
        let (sums, pairs) =
            (numbers.vector(2 * hidden * places), numbers.vector(2 * places * channels));
        let norms = [hidden, hidden, channels, channels].map(|width| numbers.vector(width));
        let (gates, weights) =
            (numbers.vector(hidden * channels), numbers.vector(channels * hidden));
        let (sum_norm, pair_norm) = (norm(&norms[0], &norms[1]), norm(&norms[2], &norms[3]));
        for residual in [false, true] {
            let mut expected = Vec::new();
            for (index, pair) in pairs.chunks_exact(channels).enumerate() {
                let (sample, place) = (index / places, index % places);
                let own = |channel: usize| sums[(sample * hidden + channel) * places + place];
                let row: Vec<f32> = (0..hidden).map(own).collect();
                let gate = project(&normalized(pair, pair_norm), &gates);
                let normed = normalized(&row, sum_norm).into_iter().zip(gate);
                let gated: Vec<f64> = normed.map(|(sum, gate)| sum * sigmoid(gate)).collect();
                let updates = project(&gated, &weights).into_iter().zip(pair);
                expected.extend(updates.map(|(update, pair)| match residual {
                    true => update + f64::from(*pair),
                    false => update,
                }));
            }
            everywhere(|context| {
                let (gates, weights) = (&gates[..], &weights[..]);
                let update = TriangleUpdate { sum_norm, pair_norm, gates, weights, residual };
                let mut out = vec![f32::NAN; expected.len()];
                triangle_update(context, shape, update, &sums, &pairs, &mut out).unwrap();
                assert_close(&format!("{shape:?} {}", context.level), &out, &expected, 1e-5);
            });
        }
    }
}

#[test]
fn transitions_add_two_layers() {
    let mut numbers = Numbers(3);
    for (rows, width, hidden) in [(140, 40, 70), (3, 5, 9), (33, 132, 260)] {
        let x = numbers.vector(rows * width);
        let (weight, bias) = (numbers.vector(width), numbers.vector(width));
        let (first, second) = (numbers.vector(hidden * width), numbers.vector(width * hidden));
        let mut expected = Vec::new();
        for row in x.chunks_exact(width) {
            let wide = project(&normalized(row, norm(&weight, &bias)), &first);
            let wide: Vec<f64> = wide.into_iter().map(|x| x.max(0.0)).collect();
            let updates = project(&wide, &second).into_iter().zip(row);
            expected.extend(updates.map(|(update, x)| update + f64::from(*x)));
        }
        everywhere(|context| {
            let norm = norm(&weight, &bias);
            let (first, second) = (&first[..], &second[..]);
            let weights = Transition { norm, first, second, activation: Activation::Relu };
            let mut out = vec![f32::NAN; expected.len()];
            transition(context, weights, &x, &mut out).unwrap();
            assert_close(&format!("{rows} x {width} {}", context.level), &out, &expected, 1e-5);
        });
    }
}

#[test]
fn attention_is_biased_and_gated() {
    let mut numbers = Numbers(4);
    let shapes = [(5, 37, 2, 12), (3, 70, 1, 20), (1, 150, 2, 16)];
    for ((rows, columns, heads, head_size), along_columns) in
        shapes.into_iter().flat_map(|shape| [(shape, false), (shape, true)])
    {
        let axis = AttentionAxis { rows, columns, along_columns, heads, head_size };
        let projected = numbers.vector(rows * columns * 4 * heads * head_size);
        let length = if along_columns { rows } else { columns };
        // Scores so far apart that some weights are zero, and rounded to a hundred-thousandth.
        let bias: Vec<f32> =
            numbers.vector(heads * length * length).into_iter().map(|x| 25.0 * x).collect();
        for (bias, relative) in [(None, 1e-5), (Some(&bias[..]), 4e-5)] {
            let expected = attended(axis, 0.25, &projected, bias);
            everywhere(|context| {
                let mut out = vec![f32::NAN; expected.len()];
                gated_attention(context, axis, 0.25, &projected, bias, &mut out).unwrap();
                assert_close(&format!("{axis:?} {}", context.level), &out, &expected, relative);
            });
        }
    }
}

fn attended(axis: AttentionAxis, scale: f64, projected: &[f32], bias: Option<&[f32]>) -> Vec<f64> {
    let AttentionAxis { rows, columns, along_columns, heads, head_size } = axis;
    let (sequences, length) = if along_columns { (columns, rows) } else { (rows, columns) };
    let width = heads * head_size;
    let place = |sequence: usize, row: usize| match along_columns {
        true => row * columns + sequence,
        false => sequence * columns + row,
    };
    let part = |place: usize, part: usize, head: usize| {
        let row = &projected[place * 4 * width + part * width + head * head_size..][..head_size];
        row.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()
    };
    let mut expected = vec![0.0; rows * columns * width];
    for (sequence, head) in (0..sequences).flat_map(|s| (0..heads).map(move |h| (s, h))) {
        for row in 0..length {
            let query = part(place(sequence, row), 0, head);
            let score = |other: usize| {
                let key = part(place(sequence, other), 1, head);
                let score: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
                let bias = bias.map_or(0.0, |bias| bias[(head * length + row) * length + other]);
                scale * score + f64::from(bias)
            };
            let scores: Vec<f64> = (0..length).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            let gates = part(place(sequence, row), 3, head);
            for (element, gate) in gates.iter().enumerate() {
                let values = weights
                    .iter()
                    .enumerate()
                    .map(|(other, weight)| weight * part(place(sequence, other), 2, head)[element]);
                let at = place(sequence, row) * width + head * head_size + element;
                expected[at] = values.sum::<f64>() / total * sigmoid(*gate);
            }
        }
    }
    expected
}

#[test]
fn outer_products_are_averaged() {
    let mut numbers = Numbers(5);
    for (sequences, residues, inner, channels) in [(5, 35, 16, 40), (3, 4, 3, 5), (140, 33, 18, 7)]
    {
        let shape = OuterShape { sequences, residues, inner, channels };
        let (left, right) = (
            numbers.vector(sequences * residues * inner),
            numbers.vector(sequences * residues * inner),
        );
        let (weights, pairs) = (
            numbers.vector(channels * inner * inner),
            numbers.vector(residues * residues * channels),
        );
        let mut expected = Vec::new();
        for (i, j) in (0..residues).flat_map(|i| (0..residues).map(move |j| (i, j))) {
            let mean = |c: usize, d: usize| {
                let of = |s: usize| {
                    let at = |residue: usize| (s * residues + residue) * inner;
                    f64::from(left[at(i) + c]) * f64::from(right[at(j) + d])
                };
                (0..sequences).map(of).sum::<f64>() / sequences as f64
            };
            let products: Vec<f64> = (0..inner)
                .flat_map(|c| (0..inner).map(move |d| (c, d)))
                .map(|(c, d)| mean(c, d))
                .collect();
            let pair = &pairs[(i * residues + j) * channels..][..channels];
            let updates = project(&products, &weights).into_iter().zip(pair);
            expected.extend(updates.map(|(update, pair)| update + f64::from(*pair)));
        }
        everywhere(|context| {
            let mut out = vec![f32::NAN; expected.len()];
            outer_product_mean(context, shape, &left, &right, &weights, &pairs, &mut out).unwrap();
            assert_close(&format!("{shape:?} {}", context.level), &out, &expected, 1e-5);
        });
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let context = Context::best();
    let shape =
        PlaneShape { batch: 1, rows: 2, columns: 2, inputs: 4, outputs: 3, transposed: false };
    let row = [1.0; 4];
    let projection = ChannelProjection {
        norm: norm(&row, &row),
        weights: &[0.0; 12],
        gates: Some(&[0.0; 8]),
        mask: None,
    };
    let error = channel_projection(context, shape, projection, &[0.0; 16], &mut [0.0; 12]);
    assert!(error.unwrap_err().to_string().contains("gates"), "of a wrong length");
}
