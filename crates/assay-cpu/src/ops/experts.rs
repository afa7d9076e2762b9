//! Mixture of experts: routing of tokens to experts, and the weighted sum of their outputs.

use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::threads::DisjointSlice;

/// How the router's logits become scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scoring {
    /// Softmax over all experts.
    Softmax,
    /// A sigmoid of each logit (DeepSeek-V3).
    Sigmoid,
}

/// How groups of experts are ranked, where only the best groups are considered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupScore {
    /// By their best expert (DeepSeek-V2).
    Largest,
    /// By the sum of their two best experts (DeepSeek-V3).
    TopTwo,
}

/// The rule by which a token's experts are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Routing {
    /// Experts.
    pub experts: usize,
    /// Experts of a token.
    pub top_k: usize,
    /// From logits to scores.
    pub scoring: Scoring,
    /// Whether the weights of a token's experts are divided by their sum.
    pub normalize: bool,
    /// Groups of experts; 1: no groups.
    pub groups: usize,
    /// Groups that are considered.
    pub top_groups: usize,
    /// How groups are ranked.
    pub group_score: GroupScore,
    /// Multiplies the weights.
    pub factor: f32,
}

impl Routing {
    fn check(&self) -> Result<()> {
        let operation = "route";
        let valid = self.top_k > 0 && self.top_k <= self.experts;
        let limit = format_args!("from 1 to the {} experts", self.experts);
        check_value(operation, "top_k", valid, limit, self.top_k)?;
        let divides = self.groups > 0 && self.experts.is_multiple_of(self.groups);
        let expected = format_args!("a divisor of the {} experts", self.experts);
        check_value(operation, "groups", divides, expected, self.groups)?;
        let size = self.experts / self.groups;
        let enough = self.top_groups.saturating_mul(size) >= self.top_k;
        let expected = format_args!("groups of {} experts together", self.top_k);
        let valid = enough && self.top_groups <= self.groups;
        check_value(operation, "top_groups", valid, expected, self.top_groups)
    }

    /// The experts and weights of one token.
    fn choose(
        &self,
        logits: &[f32],
        bias: Option<&[f32]>,
        chosen: &mut [i32],
        weights: &mut [f32],
    ) {
        let mut scores = logits.to_vec();
        match self.scoring {
            Scoring::Sigmoid => scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
            Scoring::Softmax => {
                let most = logits.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
                scores.iter_mut().for_each(|x| *x = (*x - most).exp());
                let sum: f32 = scores.iter().sum();
                scores.iter_mut().for_each(|x| *x /= sum);
            }
        }
        // The bias takes part in the choice only.
        let mut ranks = scores.clone();
        if let Some(bias) = bias {
            ranks.iter_mut().zip(bias).for_each(|(rank, bias)| *rank += bias);
        }
        if self.groups > 1 {
            self.mask_groups(&mut ranks);
        }
        let mut sum = 0.0;
        for (slot, (chosen, weight)) in chosen.iter_mut().zip(&mut *weights).enumerate() {
            // Without a number left, any expert serves: its weight is NaN.
            let best = match largest_index(&ranks) {
                best if ranks[best].is_nan() => slot,
                best => best,
            };
            // NaN marks what is taken: it never compares greater.
            ranks[best] = f32::NAN;
            (*chosen, *weight) = (best as i32, scores[best]);
            sum += scores[best];
        }
        let factor = if self.normalize { self.factor / sum } else { self.factor };
        weights.iter_mut().for_each(|weight| *weight *= factor);
    }

    /// Excludes the experts of all but the best groups.
    fn mask_groups(&self, ranks: &mut [f32]) {
        let size = self.experts / self.groups;
        let mut groups: Vec<f32> = ranks.chunks_exact(size).map(|group| self.rank(group)).collect();
        let mut kept = vec![false; self.groups];
        for _ in 0..self.top_groups {
            let best = largest_index(&groups);
            groups[best] = f32::NAN;
            kept[best] = true;
        }
        for (group, kept) in ranks.chunks_exact_mut(size).zip(kept) {
            if !kept {
                group.fill(f32::NAN);
            }
        }
    }

    fn rank(&self, group: &[f32]) -> f32 {
        let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for rank in group {
            if *rank > first {
                (first, second) = (*rank, first);
            } else if *rank > second {
                second = *rank;
            }
        }
        match self.group_score {
            GroupScore::Largest => first,
            GroupScore::TopTwo if group.len() > 1 => first + second,
            GroupScore::TopTwo => first,
        }
    }
}

/// The first index of the largest number that is not NaN; if all are NaN, the first.
fn largest_index(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] || (values[best].is_nan() && !value.is_nan()) {
            best = index;
        }
    }
    best
}

/// The expert of rows that are padding: none.
pub const NO_EXPERT: i32 = -1;

/// Writes the experts of each token, best first, and their weights; none, of weight 0, where the
/// token's slot is negative.
pub fn route(
    context: Context,
    routing: Routing,
    logits: &[f32],
    bias: Option<&[f32]>,
    slots: Option<&[i32]>,
    experts: &mut [i32],
    weights: &mut [f32],
) -> Result<()> {
    routing.check()?;
    let (count, top_k) = (routing.experts, routing.top_k);
    let rows = logits.len() / count;
    check_length("route", "logits", logits.len(), &[rows, count])?;
    check_length("route", "experts", experts.len(), &[rows, top_k])?;
    check_length("route", "weights", weights.len(), &[rows, top_k])?;
    if let Some(bias) = bias {
        check_length("route", "bias", bias.len(), &[count])?;
    }
    if let Some(slots) = slots {
        check_length("route", "slots", slots.len(), &[rows])?;
    }
    let (experts, weights) = (DisjointSlice::new(experts), DisjointSlice::new(weights));
    context.threads.parallel_for(rows, 64, &|rows| {
        for row in rows {
            let range = row * top_k..(row + 1) * top_k;
            // SAFETY: rows do not overlap.
            let (experts, weights) =
                unsafe { (experts.slice_mut(range.clone()), weights.slice_mut(range)) };
            if slots.is_some_and(|slots| slots[row] < 0) {
                experts.fill(NO_EXPERT);
                weights.fill(0.0);
                continue;
            }
            routing.choose(&logits[row * count..][..count], bias, experts, weights);
        }
    });
    Ok(())
}

/// The output of shared experts, and the logits of its gates, one for each row.
pub type Shared<'a> = (&'a [f32], Option<&'a [f32]>);

/// Writes the weighted sum of the outputs of each row's experts to `out`, plus residual and shared
/// experts.
pub fn combine_experts(
    context: Context,
    outputs: &[f32],
    weights: &[f32],
    columns: usize,
    residual: Option<&[f32]>,
    shared: Option<Shared>,
    out: &mut [f32],
) -> Result<()> {
    let operation = "combine_experts";
    let rows = out.len().checked_div(columns).unwrap_or(0);
    let top_k = weights.len().checked_div(rows).unwrap_or(0);
    check_length(operation, "out", out.len(), &[rows, columns])?;
    check_length(operation, "weights", weights.len(), &[rows, top_k])?;
    check_length(operation, "outputs", outputs.len(), &[rows, top_k, columns])?;
    if let Some(residual) = residual {
        check_length(operation, "residual", residual.len(), &[rows, columns])?;
    }
    if let Some((shared, gates)) = shared {
        check_length(operation, "shared", shared.len(), &[rows, columns])?;
        if let Some(gates) = gates {
            check_length(operation, "gates", gates.len(), &[rows])?;
        }
    }
    let out = DisjointSlice::new(out);
    let least = 8_192_usize.div_ceil(columns.max(1) * top_k.max(1));
    context.threads.parallel_for(rows, least, &|rows| {
        for row in rows {
            let range = row * columns..(row + 1) * columns;
            // SAFETY: rows do not overlap.
            let out = unsafe { out.slice_mut(range.clone()) };
            out.fill(0.0);
            for slot in row * top_k..(row + 1) * top_k {
                // Nothing wrote the output of no expert.
                if weights[slot] != 0.0 {
                    add_scaled(out, &outputs[slot * columns..][..columns], weights[slot]);
                }
            }
            if let Some((shared, gates)) = shared {
                let gate = gates.map_or(1.0, |gates| 1.0 / (1.0 + (-gates[row]).exp()));
                add_scaled(out, &shared[range.clone()], gate);
            }
            if let Some(residual) = residual {
                add_scaled(out, &residual[range], 1.0);
            }
        }
    });
    Ok(())
}

fn add_scaled(out: &mut [f32], x: &[f32], factor: f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += factor * x;
    }
}
