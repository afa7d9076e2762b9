//! What a linear layer does to its sums before they leave the cache.

use super::activation::{Activation, activate_in_place};
use crate::error::{Result, check_length};
use crate::simd::{LANES, Vector, load_part, store_part};
use std::ops::Range;

/// A bias for each output, then an activation; both may be left out.
#[derive(Clone, Copy, Default, Debug)]
pub struct Epilogue<'a> {
    /// Added to each output.
    pub bias: Option<&'a [f32]>,
    /// Applied after the bias.
    pub activation: Activation,
}

impl Epilogue<'_> {
    pub(crate) fn check(&self, operation: &'static str, outputs: usize) -> Result<()> {
        match self.bias {
            Some(bias) => check_length(operation, "bias", bias.len(), &[outputs]),
            None => Ok(()),
        }
    }

    /// Finishes the outputs of these columns.
    #[inline(always)]
    pub(crate) fn apply<V: Vector>(&self, v: V, columns: Range<usize>, out: &mut [f32]) {
        if let Some(bias) = self.bias {
            let bias = &bias[columns];
            let (whole, rest) = out.as_chunks_mut::<LANES>();
            let (bias_whole, bias_rest) = bias.as_chunks::<LANES>();
            for (out, bias) in whole.iter_mut().zip(bias_whole) {
                v.store(v.add(v.load(out), v.load(bias)), out);
            }
            let sum = v.add(load_part(v, rest, 0.0), load_part(v, bias_rest, 0.0));
            store_part(v, sum, rest);
        }
        activate_in_place(v, self.activation, out);
    }
}
