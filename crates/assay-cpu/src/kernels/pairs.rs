//! Fused layers over pairs of residues and alignments.

use super::activation::elementwise_activation;
use super::call::{Call, Span, op_error};
use crate::ops::{
    self, AttentionAxis, ChannelProjection, Context, LayerNorm, OuterShape, PlaneShape, Transition,
    TriangleShape, TriangleUpdate,
};
use assay_runtime::backend::Result;

/// Weight and bias of a LayerNorm.
struct NormSpans<'a> {
    weight: Span<'a, f32>,
    bias: Span<'a, f32>,
    epsilon: f32,
}

impl<'a> NormSpans<'a> {
    fn new(call: &Call<'a>, weight: &str, bias: &str, width: usize) -> Result<Self> {
        Ok(NormSpans {
            weight: call.span(weight, &[width])?,
            bias: call.span(bias, &[width])?,
            epsilon: call.float("epsilon")?,
        })
    }

    /// # Safety
    ///
    /// The kernel runs, and operands do not overlap.
    unsafe fn read(&self) -> LayerNorm<'a> {
        // SAFETY: the caller's.
        let (weight, bias) = unsafe { (self.weight.read(), self.bias.read()) };
        LayerNorm { weight, bias, epsilon: self.epsilon }
    }
}

pub(super) fn channel_projection(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = PlaneShape {
        batch: call.size("batch")?,
        rows: call.size("rows")?,
        columns: call.size("columns")?,
        inputs: call.size("inputs")?,
        outputs: call.size("outputs")?,
        transposed: call.flag("transposed")?,
    };
    let PlaneShape { batch, rows, columns, inputs, outputs, .. } = shape;
    let x = call.span::<f32>("x", &[batch, rows, columns, inputs])?;
    let norm = NormSpans::new(call, "norm_weight", "norm_bias", inputs)?;
    let weights = call.span::<f32>("weights", &[outputs, inputs])?;
    let gates = call.optional::<f32>("gates", &[outputs, inputs])?;
    let mask = call.optional::<f32>("mask", &[batch, rows, columns])?;
    let out = call.span::<f32>("out", &[batch, outputs, rows, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let projection = ChannelProjection {
            norm: norm.read(),
            weights: weights.read(),
            gates: gates.as_ref().map(|gates| gates.read()),
            mask: mask.as_ref().map(|mask| mask.read()),
        };
        ops::channel_projection(context, shape, projection, x.read(), out.write())
    }
    .map_err(op_error)
}

pub(super) fn triangle_update(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = TriangleShape {
        batch: call.size("batch")?,
        places: call.size("places")?,
        hidden: call.size("hidden")?,
        channels: call.size("channels")?,
    };
    let TriangleShape { batch, places, hidden, channels } = shape;
    let sums = call.span::<f32>("sums", &[batch, hidden, places])?;
    let pairs = call.span::<f32>("pairs", &[batch, places, channels])?;
    let sum_norm = NormSpans::new(call, "sum_weight", "sum_bias", hidden)?;
    let pair_norm = NormSpans::new(call, "pair_weight", "pair_bias", channels)?;
    let gates = call.span::<f32>("gates", &[hidden, channels])?;
    let weights = call.span::<f32>("weights", &[channels, hidden])?;
    let out = call.span::<f32>("out", &[batch, places, channels])?;
    let residual = call.flag("residual")?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let update = TriangleUpdate {
            sum_norm: sum_norm.read(),
            pair_norm: pair_norm.read(),
            gates: gates.read(),
            weights: weights.read(),
            residual,
        };
        ops::triangle_update(context, shape, update, sums.read(), pairs.read(), out.write())
    }
    .map_err(op_error)
}

pub(super) fn transition(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, width, hidden) = (call.size("rows")?, call.size("width")?, call.size("hidden")?);
    let x = call.span::<f32>("x", &[rows, width])?;
    let norm = NormSpans::new(call, "norm_weight", "norm_bias", width)?;
    let first = call.span::<f32>("first", &[hidden, width])?;
    let second = call.span::<f32>("second", &[width, hidden])?;
    let out = call.span::<f32>("out", &[rows, width])?;
    let activation = elementwise_activation(call)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let (norm, first, second) = (norm.read(), first.read(), second.read());
        let weights = Transition { norm, first, second, activation };
        ops::transition(context, weights, x.read(), out.write())
    }
    .map_err(op_error)
}

pub(super) fn gated_attention(context: Context, call: &Call<'_>) -> Result<()> {
    let axis = AttentionAxis {
        rows: call.size("rows")?,
        columns: call.size("columns")?,
        along_columns: call.flag("along_columns")?,
        heads: call.size("heads")?,
        head_size: call.size("head_dim")?,
    };
    let AttentionAxis { rows, columns, heads, head_size, along_columns } = axis;
    let length = if along_columns { rows } else { columns };
    let projected = call.span::<f32>("projected", &[rows, columns, 4, heads, head_size])?;
    let bias = call.optional::<f32>("bias", &[heads, length, length])?;
    let out = call.span::<f32>("out", &[rows, columns, heads, head_size])?;
    let scale = call.float("scale")?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let bias = bias.as_ref().map(|bias| bias.read());
        ops::gated_attention(context, axis, scale, projected.read(), bias, out.write())
    }
    .map_err(op_error)
}

pub(super) fn outer_product_mean(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = OuterShape {
        sequences: call.size("sequences")?,
        residues: call.size("residues")?,
        inner: call.size("inner")?,
        channels: call.size("channels")?,
    };
    let OuterShape { sequences, residues, inner, channels } = shape;
    let left = call.span::<f32>("left", &[sequences, residues, inner])?;
    let right = call.span::<f32>("right", &[sequences, residues, inner])?;
    let weights = call.span::<f32>("weights", &[channels, inner, inner])?;
    let pairs = call.span::<f32>("pairs", &[residues, residues, channels])?;
    let out = call.span::<f32>("out", &[residues, residues, channels])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let (left, right, weights) = (left.read(), right.read(), weights.read());
        ops::outer_product_mean(context, shape, left, right, weights, pairs.read(), out.write())
    }
    .map_err(op_error)
}
