//! Convolutions, LSTM, channel norms, Fourier transforms and filters against plain loops in double precision, on every
//! level.

mod common;

use assay_cpu::ops::*;
use assay_cpu::simd::Level;
use assay_cpu::threads::ThreadPool;
use common::{Numbers, assert_close, everywhere};

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// The sums over windows by the definition.
fn convolution_reference(shape: ConvolutionShape, x: &[f32], weight: &[f32]) -> Vec<f64> {
    let (channels, filters) = (shape.channels / shape.groups, shape.filters / shape.groups);
    let mut out = Vec::new();
    for sample in 0..shape.batch {
        for filter in 0..shape.filters {
            for row in 0..shape.out[0] {
                for column in 0..shape.out[1] {
                    let mut sum = 0.0;
                    for channel in 0..channels {
                        for i in 0..shape.kernel[0] {
                            for j in 0..shape.kernel[1] {
                                let y = (row * shape.stride[0] + i * shape.dilation[0])
                                    .checked_sub(shape.padding[0]);
                                let z = (column * shape.stride[1] + j * shape.dilation[1])
                                    .checked_sub(shape.padding[1]);
                                let (Some(y), Some(z)) = (y, z) else { continue };
                                if y < shape.height && z < shape.width {
                                    let from = filter / filters * channels + channel;
                                    let plane = sample * shape.channels + from;
                                    let at = (plane * shape.height + y) * shape.width + z;
                                    let tap = (filter * channels + channel) * shape.kernel[0] + i;
                                    let tap = tap * shape.kernel[1] + j;
                                    sum += f64::from(x[at]) * f64::from(weight[tap]);
                                }
                            }
                        }
                    }
                    out.push(sum);
                }
            }
        }
    }
    out
}

/// Precisions and their errors, of the largest magnitude.
const PRECISIONS: [(Precision, f64); 3] =
    [(Precision::Highest, 3e-6), (Precision::High, 1e-5), (Precision::Medium, 1e-2)];

#[test]
fn convolutions_match_reference() {
    let base = ConvolutionShape {
        batch: 2,
        channels: 6,
        height: 1,
        width: 70,
        filters: 14,
        kernel: [1, 3],
        stride: [1, 1],
        padding: [0, 1],
        dilation: [1, 1],
        groups: 1,
        out: [1, 70],
    };
    let shapes = [
        base,
        ConvolutionShape { kernel: [1, 5], stride: [1, 3], dilation: [1, 2], out: [1, 24], ..base },
        ConvolutionShape { groups: 2, out: [1, 70], ..base },
        ConvolutionShape { filters: 6, groups: 6, stride: [1, 2], out: [1, 35], ..base },
        ConvolutionShape { width: 9, out: [1, 9], ..base },
        ConvolutionShape {
            height: 11,
            width: 40,
            kernel: [3, 3],
            stride: [2, 1],
            padding: [1, 1],
            out: [6, 40],
            ..base
        },
        // Enough channels and filters for tiles.
        ConvolutionShape { channels: 40, filters: 33, ..base },
        ConvolutionShape {
            channels: 64,
            width: 2_100,
            filters: 48,
            kernel: [1, 5],
            stride: [1, 2],
            padding: [0, 4],
            dilation: [1, 3],
            groups: 2,
            out: [1, 1_048],
            ..base
        },
        ConvolutionShape {
            channels: 19,
            height: 5,
            width: 40,
            filters: 20,
            kernel: [3, 3],
            padding: [1, 1],
            out: [5, 40],
            ..base
        },
    ];
    let mut numbers = Numbers(3);
    for shape in shapes {
        let x = numbers.vector(shape.batch * shape.channels * shape.height * shape.width);
        let window = shape.channels / shape.groups * shape.kernel[0] * shape.kernel[1];
        let weight = numbers.vector(shape.filters * window);
        let expected = convolution_reference(shape, &x, &weight);
        everywhere(|context| {
            for (precision, tolerance) in PRECISIONS {
                let mut out = vec![7.0; expected.len()];
                let epilogue = Epilogue::default();
                convolution(context, shape, &x, &weight, epilogue, precision, &mut out).unwrap();
                let what = format!("{shape:?} {precision:?} {}", context.level);
                assert_close(&what, &out, &expected, tolerance);
            }
        });
    }
}

#[test]
fn convolution_propagates_special_values() {
    let shape = ConvolutionShape {
        batch: 1,
        channels: 32,
        height: 1,
        width: 64,
        filters: 32,
        kernel: [1, 1],
        stride: [1, 1],
        padding: [0, 0],
        dilation: [1, 1],
        groups: 1,
        out: [1, 64],
    };
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX];
    let mut x = vec![0.0; 32 * 64];
    x[..4].copy_from_slice(&special);
    let weight = vec![1.0; 32 * 32];
    everywhere(|context| {
        let (mut out, precision) = (vec![7.0; 32 * 64], Precision::High);
        convolution(context, shape, &x, &weight, Epilogue::default(), precision, &mut out).unwrap();
        for out in out.chunks(64) {
            for (got, expected) in out.iter().zip(special) {
                assert!(*got == expected || got.is_nan() && expected.is_nan(), "{}", context.level);
            }
            assert!(out[4..].iter().all(|got| *got == 0.0));
        }
    });
}

/// Images of 3 x 3 windows at stride 1, which Winograd's algorithm convolves.
fn winograd_shapes() -> Vec<ConvolutionShape> {
    // Channels, filters, height, width and padding; outputs that are multiples of 4 and others, rows of many tiles
    // and of few, blocks that begin within a row, numbers of filters that fill no register tile.
    let extents = [
        (16, 16, 16, 16, 1),
        (16, 20, 17, 15, 1),
        (33, 17, 23, 50, 0),
        (24, 70, 13, 90, 2),
        (64, 64, 9, 111, 1),
        (130, 24, 30, 30, 1),
    ];
    let shape = |(channels, filters, height, width, padding)| ConvolutionShape {
        batch: 2,
        channels,
        height,
        width,
        filters,
        kernel: [3, 3],
        stride: [1, 1],
        padding: [padding; 2],
        dilation: [1, 1],
        groups: 1,
        out: [height + 2 * padding - 2, width + 2 * padding - 2],
    };
    extents.map(shape).to_vec()
}

fn root_mean_square(got: &[f32], expected: &[f64]) -> f64 {
    let squares = got.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).powi(2));
    (squares.sum::<f64>() / expected.len() as f64).sqrt()
}

#[test]
fn winograd_errors_are_near_those_of_plain_sums() {
    let mut numbers = Numbers(11);
    for shape in winograd_shapes() {
        let x = numbers.vector(shape.batch * shape.channels * shape.height * shape.width);
        let weight = numbers.vector(shape.filters * shape.channels * 9);
        let expected = convolution_reference(shape, &x, &weight);
        // A fourth column of zeros adds nothing, and is no case for Winograd.
        let wider = ConvolutionShape { kernel: [3, 4], ..shape };
        let rows = weight.chunks(3).flat_map(|row| [row[0], row[1], row[2], 0.0]);
        let wider_weight: Vec<f32> = rows.collect();
        everywhere(|context| {
            let run = |shape, weight: &[f32]| {
                let (mut out, epilogue) = (vec![7.0; expected.len()], Epilogue::default());
                convolution(context, shape, &x, weight, epilogue, Precision::Highest, &mut out)
                    .unwrap();
                out
            };
            let got = run(shape, &weight);
            assert_close(&format!("{shape:?} {}", context.level), &got, &expected, 3e-6);
            let error = root_mean_square(&got, &expected);
            let plain = root_mean_square(&run(wider, &wider_weight), &expected);
            let level = context.level;
            assert!(error <= 3.0 * plain, "{shape:?} {level}: {error:e}, plain sums {plain:e}");
        });
    }
}

#[test]
fn winograd_applies_epilogues() {
    let mut numbers = Numbers(13);
    for shape in winograd_shapes() {
        let x = numbers.vector(shape.batch * shape.channels * shape.height * shape.width);
        let weight = numbers.vector(shape.filters * shape.channels * 9);
        let bias = numbers.vector(shape.filters);
        let image = shape.out[0] * shape.out[1];
        let residual = numbers.vector(shape.batch * shape.filters * image);
        let sums = convolution_reference(shape, &x, &weight);
        let expected = sums.iter().enumerate().map(|(index, sum)| {
            let bias = f64::from(bias[index / image % shape.filters]);
            (sum + bias).max(0.0) + f64::from(residual[index])
        });
        let expected: Vec<f64> = expected.collect();
        everywhere(|context| {
            let epilogue = Epilogue {
                bias: Some(&bias),
                activation: Activation::Relu,
                residual: Some(&residual),
            };
            let (mut out, precision) = (vec![7.0; expected.len()], Precision::Highest);
            convolution(context, shape, &x, &weight, epilogue, precision, &mut out).unwrap();
            assert_close(&format!("{shape:?} {}", context.level), &out, &expected, 3e-6);
        });
    }
}

#[test]
fn winograd_depends_on_neither_batch_nor_threads() {
    let mut numbers = Numbers(17);
    for shape in winograd_shapes() {
        let image = shape.channels * shape.height * shape.width;
        let x = numbers.vector(shape.batch * image);
        let weight = numbers.vector(shape.filters * shape.channels * 9);
        for level in Level::available() {
            let run = |threads: usize, batch: usize, x: &[f32]| {
                let pool = ThreadPool::new(threads);
                let (context, shape) =
                    (Context { threads: &pool, level }, ConvolutionShape { batch, ..shape });
                let mut out = vec![7.0; batch * shape.filters * shape.out[0] * shape.out[1]];
                let (epilogue, precision) = (Epilogue::default(), Precision::Highest);
                convolution(context, shape, x, &weight, epilogue, precision, &mut out).unwrap();
                out
            };
            let together = run(1, shape.batch, &x);
            assert_eq!(together, run(3, shape.batch, &x), "{shape:?} {level}");
            let each: Vec<f32> = x.chunks(image).flat_map(|x| run(2, 1, x)).collect();
            assert_eq!(together, each, "{shape:?} {level}");
        }
    }
}

#[test]
fn winograd_leaves_special_values_to_plain_sums() {
    let shape = winograd_shapes()[0];
    let image = shape.height * shape.width;
    // A tile that reads f32::MAX overflows at the points alone.
    for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX] {
        let (row, column) = (6, 9);
        let mut x = vec![0.0; shape.batch * shape.channels * image];
        x[shape.channels * image + row * shape.width + column] = special;
        let weight = vec![1.0; shape.filters * shape.channels * 9];
        everywhere(|context| {
            let mut out = vec![7.0; shape.batch * shape.filters * image];
            let (epilogue, precision) = (Epilogue::default(), Precision::Highest);
            convolution(context, shape, &x, &weight, epilogue, precision, &mut out).unwrap();
            for (index, got) in out.iter().enumerate() {
                let (place, filter) = (index % image, index / image);
                let (out_row, out_column) = (place / shape.width, place % shape.width);
                let near = out_row.abs_diff(row) <= 1 && out_column.abs_diff(column) <= 1;
                let expected = if near && filter >= shape.filters { special } else { 0.0 };
                let same = *got == expected || got.is_nan() && expected.is_nan();
                assert!(same, "{special} {}: [{index}] {got}", context.level);
            }
        });
    }
}

#[test]
fn transposed_convolutions_match_reference() {
    for (channels, filters, groups, stride) in
        [(4, 9, 1, 4), (4, 8, 2, 7), (4, 4, 4, 2), (33, 17, 1, 3), (80, 70, 2, 2)]
    {
        let shape = TransposedShape {
            batch: 2,
            channels,
            width: 41,
            filters,
            kernel: 5,
            stride,
            padding: 2,
            dilation: 1,
            groups,
            out_width: 40 * stride + 2,
        };
        let mut numbers = Numbers(4);
        let x = numbers.vector(2 * channels * 41);
        let weight = numbers.vector(channels * filters / groups * 5);
        let bias = numbers.vector(filters);
        let each = filters / groups;
        let mut expected = vec![0.0; 2 * filters * shape.out_width];
        for (row, out) in expected.chunks_mut(shape.out_width).enumerate() {
            let (sample, filter) = (row / filters, row % filters);
            out.fill(f64::from(bias[filter]));
            for channel in 0..channels / groups {
                let channel = filter / each * (channels / groups) + channel;
                for (t, k) in (0..41).flat_map(|t| (0..5).map(move |k| (t, k))) {
                    if let Some(at) = (t * stride + k).checked_sub(2)
                        && at < out.len()
                    {
                        let tap = weight[(channel * each + filter % each) * 5 + k];
                        let x = x[(sample * channels + channel) * 41 + t];
                        out[at] += f64::from(x) * f64::from(tap);
                    }
                }
            }
        }
        everywhere(|context| {
            for (precision, tolerance) in PRECISIONS {
                let (mut out, bias) = (vec![7.0; expected.len()], Some(&bias[..]));
                transposed_convolution(context, shape, &x, &weight, bias, precision, &mut out)
                    .unwrap();
                let what = format!("{shape:?} {precision:?} {}", context.level);
                assert_close(&what, &out, &expected, tolerance);
            }
        });
    }
}

#[test]
fn lstm_matches_reference_in_both_directions() {
    let (steps, batch, hidden) = (5, 2, 21);
    let mut numbers = Numbers(5);
    let gates = numbers.vector(2 * steps * batch * 4 * hidden);
    let mut small = |count| numbers.vector(count).iter().map(|x| 0.2 * x).collect::<Vec<_>>();
    let (first, second) = (small(4 * hidden * hidden), small(4 * hidden * hidden));
    let bias = small(4 * hidden);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut expected = vec![0.0; steps * batch * 2 * hidden];
    for (direction, weights) in [&first, &second].into_iter().enumerate() {
        for sequence in 0..batch {
            let (mut h, mut c) = (vec![0.0; hidden], vec![0.0; hidden]);
            for index in 0..steps {
                let step = if direction == 1 { steps - 1 - index } else { index };
                let start = ((direction * steps + step) * batch + sequence) * 4 * hidden;
                let gate = |row: usize| {
                    let products = weights[row * hidden..].iter().zip(&h);
                    let product: f64 = products.map(|(w, h)| f64::from(*w) * h).sum();
                    f64::from(gates[start + row]) + f64::from(bias[row]) + product
                };
                let all: Vec<f64> = (0..4 * hidden).map(gate).collect();
                for unit in 0..hidden {
                    let cell = all[2 * hidden + unit].tanh();
                    c[unit] = sigmoid(all[hidden + unit]) * c[unit] + sigmoid(all[unit]) * cell;
                    h[unit] = sigmoid(all[3 * hidden + unit]) * c[unit].tanh();
                    expected[((step * batch + sequence) * 2 + direction) * hidden + unit] = h[unit];
                }
            }
        }
    }
    everywhere(|context| {
        let (mut h, mut c) = (vec![0.0; 2 * batch * hidden], vec![0.0; 2 * batch * hidden]);
        let mut out = vec![0.0; expected.len()];
        let shape = LstmShape { steps, batch, hidden, reverse: false };
        let weights = [&first, &second];
        let weights = weights.map(|hidden| LstmWeights { hidden, bias: Some(&bias) });
        lstm(context, shape, &weights, &gates, &mut h, &mut c, &mut out).unwrap();
        assert_close(&format!("{}", context.level), &out, &expected, 3e-6);
    });
}

#[test]
fn group_norms_match_reference() {
    let shape = ChannelShape { batch: 2, channels: 6, columns: 37 };
    let mut numbers = Numbers(6);
    let x: Vec<f32> = numbers.vector(2 * 6 * 37).iter().map(|x| x + 30.0).collect();
    let alpha: Vec<f32> = (1..=6).map(|channel| channel as f32 * 0.7).collect();
    for groups in [1, 3, 6] {
        let mut expected = Vec::new();
        for (index, group) in x.chunks(6 / groups * 37).enumerate() {
            let group = wide(group);
            let mean = group.iter().sum::<f64>() / group.len() as f64;
            let variance = group.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            let deviation = (variance / group.len() as f64 + 1e-5).sqrt();
            for (place, x) in group.iter().enumerate() {
                let channel = (index * (6 / groups) + place / 37) % 6;
                let (normed, alpha) = ((x - mean) / deviation, f64::from(alpha[channel]));
                expected.push(normed + (alpha * normed).sin().powi(2) / alpha);
            }
        }
        everywhere(|context| {
            let norm = GroupNorm {
                groups,
                weight: None,
                bias: None,
                per_sample: false,
                offset: 0.0,
                epsilon: 1e-5,
                activation: ChannelActivation { alpha: Some(&alpha), slope: 1.0 },
            };
            let mut out = vec![0.0; x.len()];
            group_norm(context, shape, norm, &x, &mut out).unwrap();
            assert_close(&format!("{groups} {}", context.level), &out, &expected, 1e-5);
        });
    }
}

#[test]
fn transforms_match_the_definition() {
    for (length, rows) in
        [(1, 3), (2, 1), (12, 20), (35, 2), (37, 17), (77, 1), (1_200, 1), (2_050, 1)]
    {
        let x = Numbers(length as u64).vector(2 * rows * length);
        let mut expected = Vec::new();
        for row in x.chunks(2 * length) {
            for k in 0..length {
                let (mut re, mut im) = (0.0, 0.0);
                for (n, pair) in row.chunks(2).enumerate() {
                    let angle = -2.0 * std::f64::consts::PI * (n * k % length) as f64;
                    let (sine, cosine) = (angle / length as f64).sin_cos();
                    let (a, b) = (f64::from(pair[0]), f64::from(pair[1]));
                    re += a * cosine - b * sine;
                    im += a * sine + b * cosine;
                }
                expected.extend([re, im]);
            }
        }
        everywhere(|context| {
            let mut out = vec![0.0; x.len()];
            fourier(context, FourierKind::Complex, length, 1.0, &x, &mut out).unwrap();
            assert_close(&format!("{length} {}", context.level), &out, &expected, 2e-6);
            let (mut back, scale) = (vec![0.0; x.len()], 1.0 / length as f32);
            fourier(context, FourierKind::Inverse, length, scale, &out, &mut back).unwrap();
            assert_close(&format!("{length} back {}", context.level), &back, &wide(&x), 3e-6);
        });
    }
}

#[test]
fn frames_and_overlapping_ones_give_the_signal_back() {
    for length in [20, 37, 62] {
        let x = Numbers(9).vector(500);
        let shape = FrameShape {
            batch: 1,
            samples: 500,
            length,
            hop: 5,
            frames: 101,
            padding: length / 2,
            reflect: true,
            value: FrameValue::Complex,
        };
        let window: Vec<f32> = (0..length).map(|n| 1.0 + (n as f32).sin() / 2.0).collect();
        everywhere(|context| {
            let bins = length / 2 + 1;
            let mut spectrum = vec![0.0; 2 * bins * 101];
            stft(context, shape, &x, &window, &mut spectrum).unwrap();
            let frames = (0..101).flat_map(|frame| (0..bins).map(move |bin| (bin, frame)));
            let rows: Vec<f32> = frames
                .flat_map(|(bin, frame)| [0, 1].map(|part| 2 * (bin * 101 + frame) + part))
                .map(|at| spectrum[at])
                .collect();
            let mut pieces = vec![0.0; 101 * length];
            let scale = 1.0 / length as f32;
            fourier(context, FourierKind::ComplexToReal, length, scale, &rows, &mut pieces)
                .unwrap();
            let mut back = vec![0.0; 500];
            overlap_add(context, &pieces, &window, 1, 5, length / 2, 1e-9, &mut back).unwrap();
            assert_close(
                &format!("{length} {}", context.level),
                &back[..490],
                &wide(&x)[..490],
                4e-6,
            );
        });
    }
}

#[test]
fn resampling_keeps_what_a_filter_of_the_raised_rate_gives() {
    let (x, taps) = (Numbers(1).vector(53), Numbers(2).vector(31));
    for (up, down) in [(1, 1), (3, 2), (7, 11)] {
        let outputs = (53_usize * up).div_ceil(down);
        let mut raised = vec![0.0; 53 * up + 31];
        for (index, x) in x.iter().enumerate() {
            for (tap, weight) in taps.iter().enumerate() {
                raised[index * up + tap] += f64::from(*x) * f64::from(*weight);
            }
        }
        let expected: Vec<f64> = (0..outputs).map(|index| raised[15 + index * down]).collect();
        everywhere(|context| {
            let mut out = vec![0.0; outputs];
            let resampling = Resampling { batch: 1, up, down, first: 15 };
            resample(context, resampling, &x, &taps, &mut out).unwrap();
            assert_close(&format!("{up}/{down} {}", context.level), &out, &expected, 2e-6);
        });
    }
}
