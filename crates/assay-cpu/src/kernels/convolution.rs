//! Convolutions and transposed ones.

use super::activation::elementwise_activation;
use super::call::{Call, op_error};
use crate::ops::{self, Context, ConvolutionShape, Epilogue, Precision, TransposedShape};
use assay_runtime::backend::Result;

/// The call's groups, which must divide channels and filters.
fn groups(call: &Call<'_>, channels: usize, filters: usize) -> Result<usize> {
    let groups = call.size("groups")?;
    if groups == 0 || !channels.is_multiple_of(groups) || !filters.is_multiple_of(groups) {
        return Err(call.error("groups", "that divide channels and filters", groups));
    }
    Ok(groups)
}

/// The precision for which so many bfloat16 terms of each number are enough.
fn precision(call: &Call<'_>) -> Result<Precision> {
    match call.size("terms")? {
        1 => Ok(Precision::Medium),
        2 => Ok(Precision::High),
        3 => Ok(Precision::Highest),
        terms => Err(call.error("terms", "1 to 3", terms)),
    }
}

pub(super) fn convolution(context: Context, call: &Call<'_>) -> Result<()> {
    let (channels, filters) = (call.size("channels")?, call.size("filters")?);
    let groups = groups(call, channels, filters)?;
    let shape = ConvolutionShape {
        batch: call.size("batch")?,
        channels,
        height: call.size("height")?,
        width: call.size("width")?,
        filters,
        kernel: [call.size("kernel_height")?, call.size("kernel_width")?],
        stride: [call.size("stride_height")?, call.size("stride_width")?],
        padding: [call.size("pad_height")?, call.size("pad_width")?],
        dilation: [call.size("dilation_height")?, call.size("dilation_width")?],
        groups,
        out: [call.size("out_height")?, call.size("out_width")?],
    };
    let activation = elementwise_activation(call)?;
    let precision = precision(call)?;
    let [kernel_height, kernel_width] = shape.kernel;
    let extents = [shape.batch, filters, shape.out[0], shape.out[1]];
    let x = call.span::<f32>("x", &[shape.batch, channels, shape.height, shape.width])?;
    let windows = [filters, channels / groups, kernel_height, kernel_width];
    let weight = call.span::<f32>("weight", &windows)?;
    let bias = call.optional::<f32>("bias", &[filters])?;
    let residual = call.optional::<f32>("residual", &extents)?;
    let out = call.span::<f32>("out", &extents)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let epilogue = Epilogue {
            bias: bias.map(|bias| bias.read()),
            activation,
            residual: residual.map(|residual| residual.read()),
        };
        let (x, weight) = (x.read(), weight.read());
        ops::convolution(context, shape, x, weight, epilogue, precision, out.write())
    }
    .map_err(op_error)
}

pub(super) fn transposed_convolution(context: Context, call: &Call<'_>) -> Result<()> {
    let (channels, filters) = (call.size("channels")?, call.size("filters")?);
    let groups = groups(call, channels, filters)?;
    let shape = TransposedShape {
        batch: call.size("batch")?,
        channels,
        width: call.size("width")?,
        filters,
        kernel: call.size("kernel")?,
        stride: call.size("stride")?,
        padding: call.size("padding")?,
        dilation: call.size("dilation")?,
        groups,
        out_width: call.size("out_width")?,
    };
    let precision = precision(call)?;
    let x = call.span::<f32>("x", &[shape.batch, channels, shape.width])?;
    let weight = call.span::<f32>("weight", &[channels, filters / groups, shape.kernel])?;
    let bias = call.optional::<f32>("bias", &[filters])?;
    let out = call.span::<f32>("out", &[shape.batch, filters, shape.out_width])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let bias = bias.map(|bias| bias.read());
        let (x, weight) = (x.read(), weight.read());
        ops::transposed_convolution(context, shape, x, weight, bias, precision, out.write())
    }
    .map_err(op_error)
}
