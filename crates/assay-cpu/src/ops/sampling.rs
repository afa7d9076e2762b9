//! Token sampling from logits: temperature, min-p, top-k, top-p and inverse-CDF sampling.

use super::softmax::largest;
use crate::context::Context;
use crate::error::{Result, check_value};
use crate::simd::{Kernel, LANES, Level, Vector, exponential, load_partial, store_partial};
use std::cell::RefCell;
use std::cmp::Ordering;

/// Sampling parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Divides the logits; 0 is greedy sampling (argmax).
    pub temperature: f32,
    /// Keeps this many of the most probable tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the smallest set of the most probable tokens with this total probability; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens with at least this fraction of the maximum probability; 0 keeps all.
    pub min_p: f32,
}

impl Sampling {
    fn check(&self) -> Result<()> {
        let operation = "sample";
        let valid = self.temperature >= 0.0 && self.temperature.is_finite();
        let got = self.temperature;
        check_value(operation, "temperature", valid, "0 or more", got)?;
        let part = self.top_p > 0.0 && self.top_p <= 1.0;
        check_value(operation, "top_p", part, "above 0 and at most 1", self.top_p)?;
        let share = (0.0..=1.0).contains(&self.min_p);
        check_value(operation, "min_p", share, "from 0 to 1", self.min_p)
    }
}

/// The first token with the maximum logit; `None` if all logits are NaN.
pub fn argmax(logits: &[f32]) -> Option<usize> {
    max_logit(Level::best(), logits).map(|(token, _)| token)
}

fn max_logit(level: Level, logits: &[f32]) -> Option<(usize, f32)> {
    let (first, max) = level.run(MaxLogit(logits));
    let index = logits[first..].iter().position(|logit| *logit == max)?;
    Some((first + index, max))
}

/// The start of the first chunk with the maximum logit, and that logit.
struct MaxLogit<'a>(&'a [f32]);

impl Kernel for MaxLogit<'_> {
    type Output = (usize, f32);

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> (usize, f32) {
        let mut found = (0, f32::NEG_INFINITY);
        for (chunk, logits) in self.0.chunks(CHUNK).enumerate() {
            let max = largest(v, logits);
            if max > found.1 {
                found = (chunk * CHUNK, max);
            }
        }
        found
    }
}

/// Tokens per chunk: searches skip whole chunks and then scan one.
const CHUNK: usize = 256;

/// A uniform number in [0, 1), a function of seed and step on every platform.
///
/// The mixing function is that of SplitMix64.
pub fn uniform(seed: u64, step: u64) -> f64 {
    let mut mixed = seed.wrapping_add(step.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// Scratch memory of [`sample`], reused from call to call.
#[derive(Default)]
struct Scratch {
    weights: Vec<f32>,
    /// The sum of each chunk of weights.
    sums: Vec<f64>,
    candidates: Vec<(f32, u32)>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Samples a token: temperature, min-p, top-k, top-p, then inverse-CDF sampling at `uniform`.
///
/// The CDF runs over the candidates by descending probability with top-k or top-p, and by token id
/// otherwise. A NaN logit is never sampled; returns `None` if all logits are NaN.
pub fn sample(
    context: Context,
    logits: &[f32],
    sampling: Sampling,
    uniform: f64,
) -> Result<Option<usize>> {
    let operation = "sample";
    sampling.check()?;
    let unit = (0.0..1.0).contains(&uniform);
    check_value(operation, "uniform", unit, "from 0 to below 1", uniform)?;
    let Some((token, max)) = max_logit(context.level, logits) else {
        return Ok(None);
    };
    if sampling.temperature == 0.0 || max == f32::INFINITY {
        return Ok(Some(token));
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let Scratch { weights, sums, candidates } = scratch;
        weights.resize(logits.len(), 0.0);
        context.level.run(SoftmaxWeights {
            logits,
            max,
            inverse_temperature: 1.0 / sampling.temperature,
            out: weights,
        });
        if sampling.min_p > 0.0 {
            for weight in weights.iter_mut() {
                *weight = if *weight < sampling.min_p { 0.0 } else { *weight };
            }
        }
        sums.clear();
        sums.extend(weights.chunks(CHUNK).map(chunk_sum));
        let all: f64 = sums.iter().sum();
        if sampling.top_k > 0 || sampling.top_p < 1.0 {
            select_candidates(weights, all, sampling, candidates);
            let sum: f64 = candidates.iter().map(|(weight, _)| f64::from(*weight)).sum();
            let index = prefix_reaching(candidates, |before| before > uniform * sum);
            let sampled = candidates.get(index).map(|(_, sampled)| *sampled as usize);
            return Ok(sampled.or(Some(token)));
        }
        // Inverse CDF: first the chunk, then the token in it.
        let mut remaining = uniform * all;
        let mut chunk = 0;
        while chunk + 1 < sums.len() && remaining >= sums[chunk] {
            remaining -= sums[chunk];
            chunk += 1;
        }
        let first = chunk * CHUNK;
        let near = weights[first..].iter().take(CHUNK).zip(first as u32..);
        let near = near.map(|(weight, token)| (*weight, token));
        // Rounding may lead past the last token with a nonzero probability.
        Ok(inverse_cdf(near, remaining).or(Some(token)))
    })
}

/// The sum of a chunk of weights, in eight independent chains.
fn chunk_sum(weights: &[f32]) -> f64 {
    let (eights, rest) = weights.as_chunks::<8>();
    let mut chains = [0.0_f64; 8];
    for eight in eights {
        for (chain, weight) in chains.iter_mut().zip(eight) {
            *chain += f64::from(*weight);
        }
    }
    let rest: f64 = rest.iter().map(|weight| f64::from(*weight)).sum();
    chains.iter().sum::<f64>() + rest
}

/// Histogram buckets of weights: exponent and the first four bits of the fraction; the maximum is 1.
const BUCKET_SHIFT: u32 = 19;
const BUCKETS: usize = (1.0_f32.to_bits() >> BUCKET_SHIFT) as usize + 1;

/// Selects the top-k and top-p candidates, unsorted; `all` is the sum of all weights.
fn select_candidates(
    weights: &[f32],
    all: f64,
    sampling: Sampling,
    candidates: &mut Vec<(f32, u32)>,
) {
    let max_candidates = match sampling.top_k {
        0 => weights.len(),
        count => count,
    };
    // Few tokens have nearly all the mass: a histogram bounds the smallest weight among them.
    let mut counts = [0_u32; BUCKETS];
    for weight in weights {
        counts[((weight.to_bits() >> BUCKET_SHIFT) as usize).min(BUCKETS - 1)] += 1;
    }
    let (mut bucket, mut tokens, mut mass) = (BUCKETS, 0_usize, 0.0_f64);
    let mut floor = 0.0;
    // Weights below the last bucket cannot be sampled beside a weight of 1.
    while bucket > 1 {
        bucket -= 1;
        floor = f32::from_bits((bucket as u32) << BUCKET_SHIFT);
        tokens += counts[bucket] as usize;
        mass += f64::from(floor) * f64::from(counts[bucket]);
        let enough = sampling.top_k == 0 && mass >= all * f64::from(sampling.top_p);
        if enough || tokens >= max_candidates {
            break;
        }
    }
    candidates.clear();
    let numbered = weights.iter().zip(0_u32..);
    candidates.extend(numbered.filter(|(weight, _)| **weight >= floor).map(|(w, t)| (*w, t)));
    if max_candidates < candidates.len() {
        candidates.select_nth_unstable_by(max_candidates - 1, by_probability);
        candidates.truncate(max_candidates);
    }
    if sampling.top_p < 1.0 {
        let among = match sampling.top_k {
            0 => all,
            _ => candidates.iter().map(|(weight, _)| f64::from(*weight)).sum(),
        };
        let enough = among * f64::from(sampling.top_p);
        let last = prefix_reaching(candidates, |sum| sum >= enough);
        candidates.truncate(last + 1);
    }
}

/// Orders by descending probability, then by token id.
fn by_probability(a: &(f32, u32), b: &(f32, u32)) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The index, by descending probability, at which the cumulative weight is enough; the last one if it
/// never is. A quickselect: more probable tokens come before the index, unsorted.
fn prefix_reaching(tokens: &mut [(f32, u32)], enough: impl Fn(f64) -> bool) -> usize {
    let (mut first, mut end, mut before) = (0, tokens.len(), 0.0);
    while end - first > 1 {
        let half = (end - first) / 2;
        tokens[first..end].select_nth_unstable_by(half, by_probability);
        let likelier = &tokens[first..first + half];
        let sum: f64 = likelier.iter().map(|(weight, _)| f64::from(*weight)).sum();
        if enough(before + sum) {
            end = first + half;
        } else {
            (first, before) = (first + half, before + sum);
        }
    }
    first
}

/// The token at which the cumulative weight exceeds `remaining`.
fn inverse_cdf(weights: impl Iterator<Item = (f32, u32)>, mut remaining: f64) -> Option<usize> {
    let mut last = None;
    for (weight, token) in weights {
        remaining -= f64::from(weight);
        if remaining < 0.0 {
            return Some(token as usize);
        }
        if weight > 0.0 {
            last = Some(token as usize);
        }
    }
    // A rounding remainder belongs to the last token with a nonzero weight.
    last
}

/// Writes exp((logit - max) / temperature); 0 for NaN.
struct SoftmaxWeights<'a> {
    logits: &'a [f32],
    max: f32,
    inverse_temperature: f32,
    out: &'a mut [f32],
}

impl Kernel for SoftmaxWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (whole, rest) = self.out.as_chunks_mut::<LANES>();
        let (logits, logits_rest) = self.logits.as_chunks::<LANES>();
        for (out, logits) in whole.iter_mut().zip(logits) {
            v.store(softmax_weight(v, v.load(logits), self.max, self.inverse_temperature), out);
        }
        let last = load_partial(v, logits_rest, f32::NEG_INFINITY);
        store_partial(v, softmax_weight(v, last, self.max, self.inverse_temperature), rest);
    }
}

// A function: closures cannot be forced inline.
#[inline(always)]
fn softmax_weight<V: Vector>(v: V, logits: V::F, max: f32, inverse_temperature: f32) -> V::F {
    let numbers = v.max(logits, v.splat(f32::NEG_INFINITY));
    let distance = v.mul(v.sub(numbers, v.splat(max)), v.splat(inverse_temperature));
    // No weight exceeds the maximum's, whatever the rounding of the exponential.
    v.min(exponential(v, distance), v.splat(1.0))
}

/// The log-probability of a token at temperature 1 over the whole vocabulary.
pub fn log_probability(context: Context, logits: &[f32], token: usize) -> Result<f32> {
    let operation = "log_probability";
    let limit = logits.len();
    let below = format_args!("below {limit}");
    check_value(operation, "token", token < limit, below, token)?;
    let max = max_logit(context.level, logits).map_or(f32::NAN, |(_, max)| max);
    let sum = context.level.run(SumExp { logits, max });
    Ok(((f64::from(logits[token]) - f64::from(max)) - sum.ln()) as f32)
}

struct SumExp<'a> {
    logits: &'a [f32],
    max: f32,
}

impl Kernel for SumExp<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> f64 {
        let mut total = 0.0;
        // In chunks, so that a long sum keeps its precision.
        for chunk in self.logits.chunks(64 * LANES) {
            let (whole, rest) = chunk.as_chunks::<LANES>();
            let rest = load_partial(v, rest, f32::NEG_INFINITY);
            let mut sum = softmax_weight(v, rest, self.max, 1.0);
            for logits in whole {
                sum = v.add(sum, softmax_weight(v, v.load(logits), self.max, 1.0));
            }
            total += f64::from(v.sum(sum));
        }
        total
    }
}
