//! Transposed convolution: for each phase of the stride, the outputs of that phase are an ordinary
//! convolution of the taps that reach them.

use super::MIN_TILED_FILTERS;
use super::direct::{Direct, Filters};
use super::outputs::OutputRow;
use super::rows::convolve_rows;
use super::shape::{Precision, TransposedShape};
use super::strips::Tap;
use crate::context::Context;
use crate::error::{Result, check_length};
use crate::ops::gemm::Epilogue;
use crate::threads::DisjointSlice;

/// Writes the transposed convolution of `x`, [batch, channels, width], with `weight`, [channels, filters /
/// groups, kernel], to `out`, [batch, filters, out width]: sample t adds weight[k] x[t] to out[t stride + k
/// dilation - padding].
pub fn transposed_convolution(
    context: Context,
    shape: TransposedShape,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    precision: Precision,
    out: &mut [f32],
) -> Result<()> {
    shape.check(x, weight, out)?;
    if let Some(bias) = bias {
        check_length("transposed_convolution", "bias", bias.len(), &[shape.filters])?;
    }
    if out.is_empty() {
        return Ok(());
    }
    if shape.filters / shape.groups < MIN_TILED_FILTERS {
        few_filters(context, shape, x, weight, bias, out);
        return Ok(());
    }
    let (filters, channels) = (shape.filters / shape.groups, shape.channels / shape.groups);
    let input_row = |sample, group, channel| {
        Some((sample * shape.channels + group * channels + channel) * shape.width)
    };
    let output_row = |sample, group| OutputRow {
        first: (sample * shape.filters + group * filters) * shape.out_width,
        filter_stride: shape.out_width,
        step: shape.stride,
    };
    let phases = (0..shape.stride.min(shape.out_width)).map(|phase| Direct {
        x,
        width: shape.width,
        step: 1,
        taps: taps(shape, phase),
        depth: channels,
        filters: Filters {
            weight,
            count: filters,
            groups: shape.groups,
            group_stride: channels * filters * shape.kernel,
            filter_stride: shape.kernel,
            depth_stride: filters * shape.kernel,
        },
        images: shape.batch,
        columns: (shape.out_width - phase).div_ceil(shape.stride),
        input_row: &input_row,
        output_row: &output_row,
        first_output: phase,
    });
    let phases: Vec<Direct> = phases.collect();
    convolve_rows(&phases, context, precision, Epilogue { bias, ..Epilogue::default() }, out);
    Ok(())
}

/// The taps that reach the outputs at `phase`, `phase + stride`, and so on.
fn taps(shape: TransposedShape, phase: usize) -> Vec<Tap> {
    let stride = shape.stride as isize;
    let taps = (0..shape.kernel).filter_map(|column| {
        let distance = (phase + shape.padding) as isize - (column * shape.dilation) as isize;
        (distance.rem_euclid(stride) == 0)
            .then_some(Tap { column, position: distance.div_euclid(stride) })
    });
    taps.collect()
}

/// Groups of few filters: every input sample is added to the outputs that it reaches.
fn few_filters(
    context: Context,
    shape: TransposedShape,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let (filters, channels) = (shape.filters / shape.groups, shape.channels / shape.groups);
    let work = channels.saturating_mul(shape.kernel).saturating_mul(shape.width).max(1);
    let out = DisjointSlice::new(out);
    context.threads.parallel_for(
        shape.batch * shape.filters,
        65_536_usize.div_ceil(work),
        &|rows| {
            for row in rows {
                let (sample, filter) = (row / shape.filters, row % shape.filters);
                // SAFETY: rows do not overlap.
                let out =
                    unsafe { out.slice_mut(row * shape.out_width..(row + 1) * shape.out_width) };
                out.fill(bias.map_or(0.0, |bias| bias[filter]));
                for channel in 0..channels {
                    let channel = filter / filters * channels + channel;
                    let first = (sample * shape.channels + channel) * shape.width;
                    let line = &x[first..first + shape.width];
                    let taps = &weight[(channel * filters + filter % filters) * shape.kernel..];
                    for (tap, weight) in taps[..shape.kernel].iter().enumerate() {
                        let start = (tap * shape.dilation) as isize - shape.padding as isize;
                        // The first sample whose output is inside.
                        let skipped = (-start).max(0).unsigned_abs().div_ceil(shape.stride);
                        let first = (start + (skipped * shape.stride) as isize).unsigned_abs();
                        let outputs = out.iter_mut().skip(first).step_by(shape.stride);
                        for (out, x) in outputs.zip(line.iter().skip(skipped)) {
                            *out += weight * x;
                        }
                    }
                }
            }
        },
    );
}
