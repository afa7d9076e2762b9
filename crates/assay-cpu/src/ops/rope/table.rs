//! Cosine and sine tables of rotary position embedding, with scaled frequencies.

use super::rotary::{RopeLayout, Rotary};
use crate::context::Context;
use crate::error::{Result, check_value};
use crate::threads::DisjointSlice;
use std::f64::consts::PI;

/// Frequency scaling for contexts longer than the model was trained on.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum RopeScaling {
    /// No scaling.
    #[default]
    None,
    /// Every position is divided by the factor (Chen et al. 2023, "Extending context window of
    /// large language models via positional interpolation").
    Linear {
        /// The ratio of the new to the original context length.
        factor: f64,
    },
    /// NTK-aware scaling: a larger base stretches the lowest frequency by the factor and keeps the
    /// highest.
    Ntk {
        /// The ratio of the new to the original context length.
        factor: f64,
    },
    /// Low frequencies are stretched, high ones kept, and attention is sharpened (Peng et al.
    /// 2023, "YaRN: Efficient context window extension of large language models").
    Yarn {
        /// The ratio of the new to the original context length.
        factor: f64,
        /// The context the model was trained on.
        original_context: usize,
        /// Rotations over that context above which a frequency is kept; 32 in the paper.
        beta_fast: f64,
        /// Rotations below which it is stretched in full; 1 in the paper.
        beta_slow: f64,
        /// What cosines and sines are multiplied by; `None` is the paper's 0.1 ln(factor) + 1.
        attention_factor: Option<f64>,
        /// Whether the ends of the ramp are rounded outward to whole pairs, as in the paper's code.
        truncate: bool,
    },
    /// Wavelengths beyond the trained context are stretched, short ones kept, those between blended
    /// (Llama 3.1's rule, as in its reference code).
    Llama3 {
        /// The ratio of the new to the original context length.
        factor: f64,
        /// The context the model was trained on.
        original_context: usize,
        /// Wavelengths above the original context over this are stretched in full.
        low_frequency: f64,
        /// Wavelengths below the original context over this are kept.
        high_frequency: f64,
    },
}

/// Cosines and sines for every position.
#[derive(Clone, PartialEq, Debug)]
pub struct RopeTable {
    rotary_dim: usize,
    /// For each position, the cosines of all pairs and then their sines.
    cos_sin: Vec<f32>,
}

/// The inverse frequency of each pair, and the attention factor.
fn frequencies(rotary_dim: usize, base: f64, scaling: RopeScaling) -> (Vec<f64>, f64) {
    let inverse_frequencies = |base: f64| -> Vec<f64> {
        (0..rotary_dim / 2).map(|pair| base.powf(-2.0 * pair as f64 / rotary_dim as f64)).collect()
    };
    let width = rotary_dim as f64;
    match scaling {
        RopeScaling::None => (inverse_frequencies(base), 1.0),
        RopeScaling::Linear { factor } => {
            let divided = inverse_frequencies(base).iter().map(|angle| angle / factor).collect();
            (divided, 1.0)
        }
        RopeScaling::Ntk { factor } => {
            let exponent = width / (width - 2.0).max(1.0);
            (inverse_frequencies(base * factor.powf(exponent)), 1.0)
        }
        RopeScaling::Yarn {
            factor,
            original_context,
            beta_fast,
            beta_slow,
            attention_factor,
            truncate,
        } => {
            // The pair that makes this many rotations over the original context.
            let pair_of = |rotations: f64| {
                width * (original_context as f64 / (rotations * 2.0 * PI)).ln() / (2.0 * base.ln())
            };
            let (mut first, mut last) = (pair_of(beta_fast), pair_of(beta_slow));
            if truncate {
                (first, last) = (first.floor(), last.ceil());
            }
            (first, last) = (first.max(0.0), last.min(width - 1.0));
            let ramp = |pair: usize| {
                let distance = (last - first).max(0.001);
                ((pair as f64 - first) / distance).clamp(0.0, 1.0)
            };
            let blend = |(pair, angle): (usize, &f64)| {
                let stretched = ramp(pair);
                angle / factor * stretched + angle * (1.0 - stretched)
            };
            let angles = inverse_frequencies(base).iter().enumerate().map(blend).collect();
            let sharpened = attention_factor.unwrap_or_else(|| 0.1 * factor.max(1.0).ln() + 1.0);
            (angles, sharpened)
        }
        RopeScaling::Llama3 { factor, original_context, low_frequency, high_frequency } => {
            let stretch = |angle: &f64| {
                let waves = original_context as f64 * angle / (2.0 * PI);
                let weight = (waves - low_frequency) / (high_frequency - low_frequency);
                let weight = weight.clamp(0.0, 1.0);
                (1.0 - weight) * angle / factor + weight * angle
            };
            (inverse_frequencies(base).iter().map(stretch).collect(), 1.0)
        }
    }
}

impl RopeTable {
    /// A table for `rotary_dim` elements of a head and positions from 0 to below `positions`.
    pub fn new(
        rotary_dim: usize,
        positions: usize,
        base: f64,
        scaling: RopeScaling,
    ) -> Result<Self> {
        let operation = "rope";
        check_value(
            operation,
            "rotary_dim",
            rotary_dim > 0 && rotary_dim.is_multiple_of(2),
            "an even number above 0",
            rotary_dim,
        )?;
        check_value(operation, "base", base > 1.0, "a number above 1", base)?;
        if let RopeScaling::Linear { factor }
        | RopeScaling::Ntk { factor }
        | RopeScaling::Yarn { factor, .. }
        | RopeScaling::Llama3 { factor, .. } = scaling
        {
            let valid = factor > 0.0 && factor.is_finite();
            check_value(operation, "factor", valid, "a number above 0", factor)?;
        }
        if let RopeScaling::Yarn {
            original_context, beta_fast, beta_slow, attention_factor, ..
        } = scaling
        {
            let valid = original_context > 0 && beta_slow > 0.0 && beta_fast >= beta_slow;
            let got = format!("{original_context}, {beta_fast} and {beta_slow}");
            let expected = "a context above 0 and rotations beta_fast >= beta_slow > 0";
            check_value(operation, "scaling", valid, expected, got)?;
            if let Some(factor) = attention_factor {
                let valid = factor > 0.0 && factor.is_finite();
                let expected = "a number above 0";
                check_value(operation, "attention_factor", valid, expected, factor)?;
            }
        }
        if let RopeScaling::Llama3 { original_context, low_frequency, high_frequency, .. } = scaling
        {
            let valid =
                original_context > 0 && low_frequency > 0.0 && high_frequency > low_frequency;
            let got = format!("{original_context}, {low_frequency} and {high_frequency}");
            let expected = "a context above 0 and frequencies high > low > 0";
            check_value(operation, "scaling", valid, expected, got)?;
        }
        let (angles, factor) = frequencies(rotary_dim, base, scaling);
        let mut cos_sin = vec![0.0; positions * rotary_dim];
        let out = DisjointSlice::new(&mut cos_sin);
        Context::best().threads.parallel_for(positions, 64, &|range| {
            // SAFETY: ranges of positions do not overlap.
            let out = unsafe { out.slice_mut(range.start * rotary_dim..range.end * rotary_dim) };
            for (position, out) in range.zip(out.chunks_exact_mut(rotary_dim)) {
                let (cosines, sines) = out.split_at_mut(rotary_dim / 2);
                for ((angle, cosine), sine) in angles.iter().zip(cosines).zip(sines) {
                    // Large angles need double precision.
                    let (sin, cos) = (angle * position as f64).sin_cos();
                    (*cosine, *sine) = ((cos * factor) as f32, (sin * factor) as f32);
                }
            }
        });
        Ok(RopeTable { rotary_dim, cos_sin })
    }

    /// The table as an argument of RoPE, with this layout.
    pub fn rotary(&self, layout: RopeLayout) -> Rotary<'_> {
        Rotary { table: &self.cos_sin, rotary_dim: self.rotary_dim, layout }
    }

    /// For each position, the cosines of all pairs and then their sines.
    pub fn cos_sin(&self) -> &[f32] {
        &self.cos_sin
    }
}
