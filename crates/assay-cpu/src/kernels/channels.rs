//! Norms and activations of channels of samples.

use super::call::{Call, op_error};
use crate::ops::{self, ChannelActivation, ChannelShape, Context, GroupNorm};
use assay_runtime::backend::Result;

fn shape(call: &Call<'_>) -> Result<ChannelShape> {
    Ok(ChannelShape {
        batch: call.size("batch")?,
        channels: call.size("channels")?,
        columns: call.size("columns")?,
    })
}

pub(super) fn group_norm(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = shape(call)?;
    let extents = [shape.batch, shape.channels, shape.columns];
    let (groups, per_sample) = (call.size("groups")?, call.flag("per_sample")?);
    let (offset, epsilon) = (call.float("offset")?, call.float("epsilon")?);
    let slope = call.float("slope")?;
    let samples = if per_sample { shape.batch } else { 1 };
    let x = call.span::<f32>("x", &extents)?;
    let weight = call.optional::<f32>("weight", &[samples, shape.channels])?;
    let bias = call.optional::<f32>("bias", &[samples, shape.channels])?;
    let alpha = call.optional::<f32>("alpha", &[shape.channels])?;
    let out = call.span::<f32>("out", &extents)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let norm = GroupNorm {
            groups,
            weight: weight.map(|weight| weight.read()),
            bias: bias.map(|bias| bias.read()),
            per_sample,
            offset,
            epsilon,
            activation: ChannelActivation { alpha: alpha.map(|alpha| alpha.read()), slope },
        };
        ops::group_norm(context, shape, norm, x.read(), out.write())
    }
    .map_err(op_error)
}

pub(super) fn activate_channels(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = shape(call)?;
    let extents = [shape.batch, shape.channels, shape.columns];
    let slope = call.float("slope")?;
    let x = call.span::<f32>("x", &extents)?;
    let alpha = call.optional::<f32>("alpha", &[shape.channels])?;
    let out = call.span::<f32>("out", &extents)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let activation = ChannelActivation { alpha: alpha.map(|alpha| alpha.read()), slope };
        ops::activate_channels(context, shape, activation, x.read(), out.write())
    }
    .map_err(op_error)
}
