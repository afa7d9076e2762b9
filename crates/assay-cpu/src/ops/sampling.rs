//! Choosing the next token from its scores.

use crate::error::{OpError, Result, check_value};

/// How tokens are chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Scores are divided by this; 0 takes the best token.
    pub temperature: f32,
    /// Only so many best tokens; 0 for all.
    pub top_k: usize,
    /// Only the best tokens that together have this probability; 1 for all.
    pub top_p: f32,
}

/// The best token; the first of several.
pub fn argmax(scores: &[f32]) -> Result<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (token, score) in scores.iter().enumerate() {
        if best.is_none_or(|(_, most)| *score > most) && !score.is_nan() {
            best = Some((token, *score));
        }
    }
    best.map(|(token, _)| token)
        .ok_or_else(|| nothing_to_choose("argmax"))
}

fn nothing_to_choose(operation: &'static str) -> OpError {
    OpError::Value {
        operation,
        argument: "scores",
        expected: "at least one number".to_owned(),
        got: "none".to_owned(),
    }
}

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

/// Chooses a token: temperature, then top-k, then top-p, then by the number `uniform` from 0 to 1.
///
/// `order` is working memory, kept by the caller so that no call allocates.
pub fn sample(
    scores: &[f32],
    sampling: Sampling,
    uniform: f64,
    order: &mut Vec<(f32, u32)>,
) -> Result<usize> {
    let operation = "sample";
    let Sampling {
        temperature,
        top_k,
        top_p,
    } = sampling;
    let warm = temperature >= 0.0 && temperature.is_finite();
    check_value(operation, "temperature", warm, "0 or more", temperature)?;
    let part = top_p > 0.0 && top_p <= 1.0;
    check_value(operation, "top_p", part, "above 0 and at most 1", top_p)?;
    let unit = (0.0..1.0).contains(&uniform);
    check_value(operation, "uniform", unit, "from 0 to below 1", uniform)?;
    if temperature == 0.0 {
        return argmax(scores);
    }
    let best = scores[argmax(scores)?];
    order.clear();
    for (token, score) in scores
        .iter()
        .enumerate()
        .filter(|(_, score)| !score.is_nan())
    {
        // An infinite best score is certain, and its distance to itself would not be a number.
        let distance = if *score == best { 0.0 } else { score - best };
        order.push(((distance / temperature).exp(), token as u32));
    }
    let better = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if top_k > 0 && top_k < order.len() {
        order.select_nth_unstable_by(top_k - 1, better);
        order.truncate(top_k);
    }
    if top_p < 1.0 {
        order.sort_unstable_by(better);
        let enough = total(order) * f64::from(top_p);
        let mut sum = 0.0;
        let kept = order.iter().position(|(weight, _)| {
            sum += f64::from(*weight);
            sum >= enough
        });
        order.truncate(kept.map_or(order.len(), |last| last + 1));
    } else {
        // The order in which chances are added decides which token a number means.
        order.sort_unstable_by_key(|(_, token)| *token);
    }
    let mut left = uniform * total(order);
    for (weight, token) in order.iter() {
        left -= f64::from(*weight);
        if left < 0.0 {
            return Ok(*token as usize);
        }
    }
    // Rounding may leave a little over: it belongs to the last token that has any chance.
    let last = order.iter().rev().find(|(weight, _)| *weight > 0.0);
    last.map(|(_, token)| *token as usize)
        .ok_or_else(|| nothing_to_choose(operation))
}

fn total(order: &[(f32, u32)]) -> f64 {
    order.iter().map(|(weight, _)| f64::from(*weight)).sum()
}
