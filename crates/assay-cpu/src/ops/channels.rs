//! Channels of samples: group and instance norm, leaky ReLU and snake.

use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector, load_partial, sine, store_partial};
use crate::threads::DisjointSlice;

/// Elements per task at least: enough to amortize waking a thread.
const GRAIN: usize = 8_192;
/// Elements that are summed in single precision before they are added in double precision.
const BLOCK: usize = 4_096;

/// What follows a norm, or stands alone.
#[derive(Clone, Copy, Debug)]
pub struct ChannelActivation<'a> {
    /// Snake: x + sin^2(alpha x) / alpha, with the alpha of the channel.
    pub alpha: Option<&'a [f32]>,
    /// Leaky ReLU: negative elements are multiplied by this; 1 changes nothing.
    pub slope: f32,
}

impl ChannelActivation<'_> {
    #[inline(always)]
    fn apply<V: Vector>(&self, v: V, channel: usize, x: V::F) -> V::F {
        let x = match self.slope == 1.0 {
            true => x,
            // Where x is negative, the lesser of the two is below zero, scaled.
            false => {
                let zero = v.splat(0.0);
                v.mul_add(v.min(zero, x), v.splat(self.slope), v.max(zero, x))
            }
        };
        let Some(alpha) = self.alpha else {
            return x;
        };
        let alpha = alpha[channel];
        let wave = sine(v, v.mul(x, v.splat(alpha)));
        v.mul_add(v.mul(wave, wave), v.splat(1.0 / alpha), x)
    }
}

/// The shape of [batch, channels, columns].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelShape {
    /// Samples of the batch.
    pub batch: usize,
    /// Channels of each.
    pub channels: usize,
    /// Elements of a channel.
    pub columns: usize,
}

/// Writes the activation of each channel to `out`.
pub fn activate_channels(
    context: Context,
    shape: ChannelShape,
    activation: ChannelActivation,
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let ChannelShape { batch, channels, columns } = shape;
    check_length("activate_channels", "x", x.len(), &[batch, channels, columns])?;
    check_length("activate_channels", "out", out.len(), &[batch, channels, columns])?;
    if let Some(alpha) = activation.alpha {
        check_length("activate_channels", "alpha", alpha.len(), &[channels])?;
    }
    let out = DisjointSlice::new(out);
    context.threads.parallel_for(x.len(), GRAIN, &|range| {
        let mut start = range.start;
        while start < range.end {
            let count = (range.end - start).min(columns - start % columns);
            context.level.run(Row {
                channel: start / columns % channels,
                activation,
                mean: 0.0,
                factor: 1.0,
                bias: 0.0,
                x: &x[start..start + count],
                // SAFETY: ranges do not overlap.
                out: unsafe { out.slice_mut(start..start + count) },
            });
            start += count;
        }
    });
    Ok(())
}

/// A norm over the channels of a group: (x - mean) / standard deviation x (weight + offset) + bias.
#[derive(Clone, Copy, Debug)]
pub struct GroupNorm<'a> {
    /// Groups of channels that are normalized together; as many as channels: instance norm.
    pub groups: usize,
    /// Per channel, or per sample and channel where `per_sample`.
    pub weight: Option<&'a [f32]>,
    /// The same.
    pub bias: Option<&'a [f32]>,
    /// Whether every sample has weights of its own, as in adaptive instance norm.
    pub per_sample: bool,
    /// Added to the weights.
    pub offset: f32,
    /// Added to the variance.
    pub epsilon: f32,
    /// Applied last.
    pub activation: ChannelActivation<'a>,
}

/// Writes the group norm of `x`, [batch, channels, columns], to `out`.
pub fn group_norm(
    context: Context,
    shape: ChannelShape,
    norm: GroupNorm,
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let operation = "group_norm";
    let ChannelShape { batch, channels, columns } = shape;
    check_length(operation, "x", x.len(), &[batch, channels, columns])?;
    check_length(operation, "out", out.len(), &[batch, channels, columns])?;
    let whole = norm.groups > 0 && channels.is_multiple_of(norm.groups);
    check_value(operation, "groups", whole, "a divisor of the channels", norm.groups)?;
    check_value(operation, "epsilon", norm.epsilon >= 0.0, "at least 0", norm.epsilon)?;
    let samples = if norm.per_sample { batch } else { 1 };
    for (name, weights) in [("weight", norm.weight), ("bias", norm.bias)] {
        if let Some(weights) = weights {
            check_length(operation, name, weights.len(), &[samples, channels])?;
        }
    }
    if let Some(alpha) = norm.activation.alpha {
        check_length(operation, "alpha", alpha.len(), &[channels])?;
    }
    if out.is_empty() {
        return Ok(());
    }
    let (rows, least) = (batch * channels, GRAIN.div_ceil(columns));
    let out = DisjointSlice::new(out);
    let normalize = |row: usize, moments: Moments| {
        let range = row * columns..(row + 1) * columns;
        let channel = if norm.per_sample { row } else { row % channels };
        let deviation = (moments.squares / moments.count + f64::from(norm.epsilon)).sqrt();
        let weight = norm.weight.map_or(1.0, |weight| weight[channel] + norm.offset);
        context.level.run(Row {
            channel: row % channels,
            activation: norm.activation,
            mean: moments.mean as f32,
            factor: (f64::from(weight) / deviation) as f32,
            bias: norm.bias.map_or(0.0, |bias| bias[channel]),
            x: &x[range.clone()],
            // SAFETY: rows do not overlap.
            out: unsafe { out.slice_mut(range) },
        });
    };
    let measure =
        |row: usize| context.level.run(Measure { x: &x[row * columns..(row + 1) * columns] });
    if norm.groups == channels {
        context.threads.parallel_for(rows, least, &|rows| {
            for row in rows {
                normalize(row, measure(row));
            }
        });
        return Ok(());
    }
    let mut measured = vec![Moments::default(); rows];
    let slots = DisjointSlice::new(&mut measured);
    context.threads.parallel_for(rows, least, &|rows| {
        // SAFETY: ranges do not overlap.
        let slots = unsafe { slots.slice_mut(rows.clone()) };
        for (slot, row) in slots.iter_mut().zip(rows) {
            *slot = measure(row);
        }
    });
    let each = channels / norm.groups;
    let joined = measured.chunks(each);
    let joined: Vec<_> =
        joined.map(|rows| rows.iter().fold(Moments::default(), Moments::join)).collect();
    context.threads.parallel_for(rows, least, &|rows| {
        for row in rows {
            normalize(row, joined[row / each]);
        }
    });
    Ok(())
}

/// Count, mean, and sum of squared differences from the mean.
#[derive(Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// The moments of both sets of elements (Chan, Golub and LeVeque 1983).
    fn join(self, other: &Moments) -> Moments {
        let count = self.count + other.count;
        if count == 0.0 {
            return self;
        }
        let distance = other.mean - self.mean;
        Moments {
            count,
            mean: self.mean + distance * other.count / count,
            squares: self.squares
                + other.squares
                + distance * distance * self.count * other.count / count,
        }
    }
}

/// The moments of a row, in two passes.
struct Measure<'a> {
    x: &'a [f32],
}

impl Kernel for Measure<'_> {
    type Output = Moments;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> Moments {
        let count = self.x.len() as f64;
        let mean = total(v, self.x, |_, x| x) / count;
        let center = mean as f32;
        let squares = total(v, self.x, |v, x| {
            let distance = v.sub(x, v.splat(center));
            v.mul(distance, distance)
        });
        Moments { count, mean, squares }
    }
}

/// The sum of a function of each element, in double precision from block to block.
#[inline(always)]
fn total<V: Vector>(v: V, x: &[f32], f: impl Fn(V, V::F) -> V::F) -> f64 {
    let mut total = 0.0;
    for block in x.chunks(BLOCK) {
        let (whole, rest) = block.as_chunks::<LANES>();
        let mut sums = [v.splat(0.0); 4];
        for (index, lanes) in whole.iter().enumerate() {
            sums[index % 4] = v.add(sums[index % 4], f(v, v.load(lanes)));
        }
        let mut last = [0.0; LANES];
        v.store(f(v, load_partial(v, rest, 0.0)), &mut last);
        let rest: f32 = last[..rest.len()].iter().sum();
        let sum = v.add(v.add(sums[0], sums[1]), v.add(sums[2], sums[3]));
        total += f64::from(v.sum(sum)) + f64::from(rest);
    }
    total
}

/// One channel, or a part of it: activation((x - mean) factor + bias).
struct Row<'a> {
    channel: usize,
    activation: ChannelActivation<'a>,
    mean: f32,
    factor: f32,
    bias: f32,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (x, x_rest) = self.x.as_chunks::<LANES>();
        let (numbers, channel, activation) = (self.numbers(), self.channel, self.activation);
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        for (x, out) in x.iter().zip(out) {
            let value = Self::apply(v, numbers, channel, activation, v.load(x));
            v.store(value, out);
        }
        if !x_rest.is_empty() {
            let x = load_partial(v, x_rest, 0.0);
            let value = Self::apply(v, numbers, channel, activation, x);
            store_partial(v, value, out_rest);
        }
    }
}

impl Row<'_> {
    /// Mean, factor and bias.
    #[inline(always)]
    fn numbers(&self) -> [f32; 3] {
        [self.mean, self.factor, self.bias]
    }

    #[inline(always)]
    fn apply<V: Vector>(
        v: V,
        [mean, factor, bias]: [f32; 3],
        channel: usize,
        activation: ChannelActivation,
        x: V::F,
    ) -> V::F {
        let normed = v.mul_add(v.sub(x, v.splat(mean)), v.splat(factor), v.splat(bias));
        activation.apply(v, channel, normed)
    }
}
