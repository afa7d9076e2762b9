//! Choosing the next token from its scores.

use super::Context;
use super::softmax::largest;
use crate::error::{Result, check_value};
use crate::simd::{Kernel, LANES, Level, Vector, exponential, load_part, store_part};
use std::cell::RefCell;
use std::cmp::Ordering;

/// How a token is chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Scores are divided by this; 0 takes the best token.
    pub temperature: f32,
    /// Only so many best tokens; 0 for all.
    pub top_k: usize,
    /// Only the best tokens that together have this probability; 1 for all.
    pub top_p: f32,
    /// Only tokens with at least this share of the best one's probability; 0 for all.
    pub min_p: f32,
}

impl Sampling {
    fn check(&self) -> Result<()> {
        let operation = "sample";
        let warm = self.temperature >= 0.0 && self.temperature.is_finite();
        let got = self.temperature;
        check_value(operation, "temperature", warm, "0 or more", got)?;
        let part = self.top_p > 0.0 && self.top_p <= 1.0;
        check_value(
            operation,
            "top_p",
            part,
            "above 0 and at most 1",
            self.top_p,
        )?;
        let share = (0.0..=1.0).contains(&self.min_p);
        check_value(operation, "min_p", share, "from 0 to 1", self.min_p)
    }
}

/// The best token, the first of several; none where no score is a number.
pub fn argmax(scores: &[f32]) -> Option<usize> {
    best(Level::best(), scores).map(|(token, _)| token)
}

fn best(level: Level, scores: &[f32]) -> Option<(usize, f32)> {
    let (first, most) = level.run(Best(scores));
    let place = scores[first..].iter().position(|score| *score == most)?;
    Some((first + place, most))
}

/// The largest score, and a place not far before the first one of it.
struct Best<'a>(&'a [f32]);

impl Kernel for Best<'_> {
    type Output = (usize, f32);

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> (usize, f32) {
        let mut found = (0, f32::NEG_INFINITY);
        for (piece, scores) in self.0.chunks(NEAR).enumerate() {
            let most = largest(v, scores);
            if most > found.1 {
                found = (piece * NEAR, most);
            }
        }
        found
    }
}

/// Tokens that are looked through one by one once a search has come near.
const NEAR: usize = 256;

/// A uniform number from 0 to below 1, the same for the same seed and step everywhere.
///
/// The mixing function is that of SplitMix64.
pub fn uniform(seed: u64, step: u64) -> f64 {
    let mut mixed = seed.wrapping_add(step.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// Working memory of [`sample`], kept from call to call so that none allocates.
#[derive(Default)]
struct Scratch {
    weights: Vec<f32>,
    /// Sums of the weights, piece by piece.
    sums: Vec<f64>,
    kept: Vec<(f32, u32)>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Chooses a token: temperature, then min-p, then top-k, then top-p, then by the number `uniform`
/// from 0 to 1.
///
/// The kept tokens share the range from 0 to 1 by their chances, the likeliest first where there is
/// a top-k or top-p, and in the order of their numbers otherwise. A score that is not a number is
/// never chosen; where none is a number there is no token.
pub fn sample(
    context: Context,
    scores: &[f32],
    sampling: Sampling,
    uniform: f64,
) -> Result<Option<usize>> {
    let operation = "sample";
    sampling.check()?;
    let unit = (0.0..1.0).contains(&uniform);
    check_value(operation, "uniform", unit, "from 0 to below 1", uniform)?;
    let Some((token, most)) = best(context.level, scores) else {
        return Ok(None);
    };
    if sampling.temperature == 0.0 || most == f32::INFINITY {
        return Ok(Some(token));
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let Scratch {
            weights,
            sums,
            kept,
        } = scratch;
        weights.resize(scores.len(), 0.0);
        context.level.run(Weights {
            scores,
            most,
            sharpness: 1.0 / sampling.temperature,
            out: weights,
        });
        if sampling.min_p > 0.0 {
            for weight in weights.iter_mut() {
                *weight = if *weight < sampling.min_p {
                    0.0
                } else {
                    *weight
                };
            }
        }
        sums.clear();
        sums.extend(weights.chunks(NEAR).map(sum_of));
        let all: f64 = sums.iter().sum();
        if sampling.top_k > 0 || sampling.top_p < 1.0 {
            keep_best(weights, all, sampling, kept);
            let sum: f64 = kept.iter().map(|(weight, _)| f64::from(*weight)).sum();
            let place = reach(kept, |before| before > uniform * sum);
            let drawn = kept.get(place).map(|(_, drawn)| *drawn as usize);
            return Ok(drawn.or(Some(token)));
        }
        // The piece in which the number falls, and then the token.
        let mut left = uniform * all;
        let mut piece = 0;
        while piece + 1 < sums.len() && left >= sums[piece] {
            left -= sums[piece];
            piece += 1;
        }
        let first = piece * NEAR;
        let near = weights[first..].iter().take(NEAR).zip(first as u32..);
        let near = near.map(|(weight, token)| (*weight, token));
        // Rounding may lead past the last token that has any chance.
        Ok(draw(near, left).or(Some(token)))
    })
}

/// The sum of a piece of weights, in as many chains as keep a processor busy.
fn sum_of(weights: &[f32]) -> f64 {
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

/// Weights are counted by exponent and the first four bits of the fraction; 1 is the largest.
const BUCKET_SHIFT: u32 = 19;
const BUCKETS: usize = (1.0_f32.to_bits() >> BUCKET_SHIFT) as usize + 1;

/// Leaves the best tokens in `kept`, in no order; `all` is the sum of all weights.
fn keep_best(weights: &[f32], all: f64, sampling: Sampling, kept: &mut Vec<(f32, u32)>) {
    let most_kept = match sampling.top_k {
        0 => weights.len(),
        count => count,
    };
    // Few tokens have nearly all the chance: a count tells how far down they reach.
    let mut counts = [0_u32; BUCKETS];
    for weight in weights {
        counts[((weight.to_bits() >> BUCKET_SHIFT) as usize).min(BUCKETS - 1)] += 1;
    }
    let (mut bucket, mut tokens, mut chance) = (BUCKETS, 0_usize, 0.0_f64);
    let mut floor = 0.0;
    // Below the last bucket is nothing that could be drawn beside a weight of 1.
    while bucket > 1 {
        bucket -= 1;
        floor = f32::from_bits((bucket as u32) << BUCKET_SHIFT);
        tokens += counts[bucket] as usize;
        chance += f64::from(floor) * f64::from(counts[bucket]);
        let enough = sampling.top_k == 0 && chance >= all * f64::from(sampling.top_p);
        if enough || tokens >= most_kept {
            break;
        }
    }
    kept.clear();
    let numbered = weights.iter().zip(0_u32..);
    kept.extend(
        numbered
            .filter(|(weight, _)| **weight >= floor)
            .map(|(w, t)| (*w, t)),
    );
    if most_kept < kept.len() {
        kept.select_nth_unstable_by(most_kept - 1, better);
        kept.truncate(most_kept);
    }
    if sampling.top_p < 1.0 {
        let among = match sampling.top_k {
            0 => all,
            _ => kept.iter().map(|(weight, _)| f64::from(*weight)).sum(),
        };
        let enough = among * f64::from(sampling.top_p);
        let last = reach(kept, |sum| sum >= enough);
        kept.truncate(last + 1);
    }
}

/// Likelier tokens first, and the lower number of two that are alike.
fn better(a: &(f32, u32), b: &(f32, u32)) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The place, counted from the likeliest token on, at which the sum of weights is enough; the last
/// one if it never is. What is likelier lies before it then, in no order: nothing is sorted.
fn reach(tokens: &mut [(f32, u32)], enough: impl Fn(f64) -> bool) -> usize {
    let (mut first, mut end, mut before) = (0, tokens.len(), 0.0);
    while end - first > 1 {
        let half = (end - first) / 2;
        tokens[first..end].select_nth_unstable_by(half, better);
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

/// The token whose share of the chances the number falls into.
fn draw(chances: impl Iterator<Item = (f32, u32)>, mut left: f64) -> Option<usize> {
    let mut last = None;
    for (weight, token) in chances {
        left -= f64::from(weight);
        if left < 0.0 {
            return Some(token as usize);
        }
        if weight > 0.0 {
            last = Some(token as usize);
        }
    }
    // Rounding may leave a little over: it belongs to the last token that has any chance.
    last
}

/// Writes e to the distance from the largest score over the temperature; 0 for what is not a
/// number.
struct Weights<'a> {
    scores: &'a [f32],
    most: f32,
    sharpness: f32,
    out: &'a mut [f32],
}

impl Kernel for Weights<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (whole, rest) = self.out.as_chunks_mut::<LANES>();
        let (scores, scores_rest) = self.scores.as_chunks::<LANES>();
        for (out, scores) in whole.iter_mut().zip(scores) {
            v.store(weigh(v, v.load(scores), self.most, self.sharpness), out);
        }
        let last = load_part(v, scores_rest, f32::NEG_INFINITY);
        store_part(v, weigh(v, last, self.most, self.sharpness), rest);
    }
}

// A function, because a closure would not have to be inlined, and must be.
#[inline(always)]
fn weigh<V: Vector>(v: V, scores: V::F, most: f32, sharpness: f32) -> V::F {
    let numbers = v.max(scores, v.splat(f32::NEG_INFINITY));
    let distance = v.mul(v.sub(numbers, v.splat(most)), v.splat(sharpness));
    // Nothing is better than the best, whatever the last bit of the exponential says.
    v.min(exponential(v, distance), v.splat(1.0))
}

/// The logarithm of a token's probability at temperature 1 among all tokens.
pub fn log_probability(context: Context, scores: &[f32], token: usize) -> Result<f32> {
    let operation = "log_probability";
    let limit = scores.len();
    let below = format_args!("below {limit}");
    check_value(operation, "token", token < limit, below, token)?;
    let most = best(context.level, scores).map_or(f32::NAN, |(_, most)| most);
    let sum = context.level.run(SumOfPowers { scores, most });
    Ok(((f64::from(scores[token]) - f64::from(most)) - sum.ln()) as f32)
}

struct SumOfPowers<'a> {
    scores: &'a [f32],
    most: f32,
}

impl Kernel for SumOfPowers<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> f64 {
        let mut total = 0.0;
        // In pieces, so that a long sum keeps its digits.
        for piece in self.scores.chunks(64 * LANES) {
            let (whole, rest) = piece.as_chunks::<LANES>();
            let rest = load_part(v, rest, f32::NEG_INFINITY);
            let mut sum = weigh(v, rest, self.most, 1.0);
            for scores in whole {
                sum = v.add(sum, weigh(v, v.load(scores), self.most, 1.0));
            }
            total += f64::from(v.sum(sum));
        }
        total
    }
}
