//! What holds for layers of protein trunks whatever their numbers are.

use crate::common::{Numbers, everywhere};
use assay_cpu::ops::*;
use assay_cpu::threads::ThreadPool;

fn norm<'a>(weight: &'a [f32], bias: &'a [f32]) -> LayerNorm<'a> {
    LayerNorm { weight, bias, epsilon: 1e-5 }
}

/// A result depends on its own sample and rows: not on others, nor on how many threads there are.
#[test]
fn results_do_not_depend_on_batch_or_threads() {
    let mut numbers = Numbers(8);
    let (rows, columns, width, hidden) = (6, 30, 20, 40);
    let places = rows * columns;
    let x = numbers.vector(2 * places * width);
    let (weight, bias) = (numbers.vector(width), numbers.vector(width));
    let (hidden_weight, hidden_bias) = (numbers.vector(hidden), numbers.vector(hidden));
    let (wide, narrow) = (numbers.vector(hidden * width), numbers.vector(width * hidden));
    let sums = numbers.vector(2 * hidden * places);
    let run = |context: Context, samples: std::ops::Range<usize>| {
        let batch = samples.len();
        let x = &x[samples.start * places * width..samples.end * places * width];
        let sums = &sums[samples.start * hidden * places..samples.end * hidden * places];
        let outputs = hidden;
        let shape = PlaneShape { batch, rows, columns, inputs: width, outputs, transposed: true };
        let (gates, norm) = (Some(&wide[..]), norm(&weight, &bias));
        let projection = ChannelProjection { norm, weights: &wide, gates, mask: None };
        let mut projected = vec![f32::NAN; sums.len()];
        channel_projection(context, shape, projection, x, &mut projected).unwrap();
        let shape = TriangleShape { batch, places, hidden, channels: width };
        let sum_norm = self::norm(&hidden_weight, &hidden_bias);
        let (gates, weights) = (&wide[..], &narrow[..]);
        let update = TriangleUpdate { sum_norm, pair_norm: norm, gates, weights, residual: true };
        let mut updated = vec![f32::NAN; x.len()];
        triangle_update(context, shape, update, sums, x, &mut updated).unwrap();
        let activation = Activation::Gelu;
        let weights = Transition { norm, first: &wide, second: &narrow, activation };
        let mut moved = vec![f32::NAN; x.len()];
        transition(context, weights, x, &mut moved).unwrap();
        [projected, updated, moved]
    };
    let alone = ThreadPool::new(1);
    everywhere(|context| {
        let together = run(Context { threads: &alone, ..context }, 0..2);
        let parts = [run(context, 0..1), run(context, 1..2)];
        for (index, whole) in together.iter().enumerate() {
            let parts = parts.each_ref().map(|part| &part[index][..]).concat();
            assert_eq!(*whole, parts, "result {index} {}", context.level);
        }
    });
}

#[test]
fn what_is_not_finite_stays_in_its_row() {
    let mut numbers = Numbers(9);
    let (rows, columns, width, hidden) = (3, 47, 20, 36);
    let places = rows * columns;
    let (weight, bias) = (numbers.vector(width), numbers.vector(width));
    let (wide, narrow) = (numbers.vector(hidden * width), numbers.vector(width * hidden));
    let bad = 77;
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = numbers.vector(places * width);
        x[bad * width + 3] = value;
        everywhere(|context| {
            let norm = norm(&weight, &bias);
            let outputs = hidden;
            let shape =
                PlaneShape { batch: 1, rows, columns, inputs: width, outputs, transposed: false };
            let gates = Some(&wide[..]);
            let projection = ChannelProjection { norm, weights: &wide, gates, mask: None };
            let mut projected = vec![0.0; hidden * places];
            channel_projection(context, shape, projection, &x, &mut projected).unwrap();
            let weights =
                Transition { norm, first: &wide, second: &narrow, activation: Activation::Relu };
            let mut moved = vec![0.0; x.len()];
            transition(context, weights, &x, &mut moved).unwrap();
            for place in 0..places {
                let channels = projected.iter().skip(place).step_by(places);
                let row = &moved[place * width..(place + 1) * width];
                for result in channels.chain(row) {
                    let expected = place != bad;
                    assert_eq!(result.is_finite(), expected, "{place} {value} {}", context.level);
                }
            }
        });
        // A key of one column of the alignment, which attends along columns: to the rows of that column.
        let axis = AttentionAxis { rows, columns, along_columns: true, heads: 1, head_size: 5 };
        everywhere(|context| {
            let mut x = x.clone();
            x[bad * width + 3] = 0.0;
            x[bad * width + 5] = value;
            let mut mixed = vec![0.0; places * 5];
            gated_attention(context, axis, 0.5, &x, None, &mut mixed).unwrap();
            for (place, row) in mixed.chunks_exact(5).enumerate() {
                if place % columns != bad % columns {
                    assert!(row.iter().all(|x| x.is_finite()), "{place} {value} {}", context.level);
                } else if value.is_nan() {
                    assert!(row.iter().all(|x| x.is_nan()), "{place} {value} {}", context.level);
                }
            }
        });
    }
}
