//! Groups of few filters, as in a depthwise convolution: sums of shifted rows.

use super::shape::ConvolutionShape;
use crate::context::Context;
use crate::ops::activation::activate_in_place;
use crate::ops::gemm::Epilogue;
use crate::simd::{Kernel, Vector};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// Columns of a row that are summed at a time, in L1.
const COLUMNS: usize = 4_096;

pub(super) fn convolve(
    context: Context,
    shape: ConvolutionShape,
    x: &[f32],
    weight: &[f32],
    epilogue: Epilogue,
    out: &mut [f32],
) {
    let blocks = shape.out[1].div_ceil(COLUMNS);
    let rows = shape.batch * shape.filters * shape.out[0];
    let each = shape.group_channels() * shape.kernel[0] * shape.kernel[1];
    let work = each.saturating_mul(shape.out[1].min(COLUMNS)).max(1);
    let out = DisjointSlice::new(out);
    context.threads.parallel_for(rows * blocks, 65_536_usize.div_ceil(work), &|range| {
        for task in range {
            let (row, block) = (task / blocks, task % blocks);
            let (channel, out_row) = (row / shape.out[0], row % shape.out[0]);
            let (sample, filter) = (channel / shape.filters, channel % shape.filters);
            let columns = block * COLUMNS..((block + 1) * COLUMNS).min(shape.out[1]);
            let first = row * shape.out[1];
            context.level.run(Columns {
                shape,
                x,
                image: sample * shape.out[0] + out_row,
                group: filter / shape.group_filters(),
                weight: &weight[filter * each..(filter + 1) * each],
                bias: epilogue.bias.map_or(0.0, |bias| bias[filter]),
                epilogue,
                first: first + columns.start,
                // SAFETY: ranges of columns do not overlap.
                out: unsafe { out.slice_mut(first + columns.start..first + columns.end) },
                columns,
            });
        }
    });
}

/// Some columns of an output row of one filter.
struct Columns<'a> {
    shape: ConvolutionShape,
    x: &'a [f32],
    image: usize,
    group: usize,
    weight: &'a [f32],
    bias: f32,
    epilogue: Epilogue<'a>,
    columns: Range<usize>,
    first: usize,
    out: &'a mut [f32],
}

impl Kernel for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let shape = self.shape;
        let out = self.out;
        out.fill(self.bias);
        for (row, weights) in self.weight.chunks_exact(shape.kernel[1]).enumerate() {
            let Some(first) = shape.input_row(self.image, self.group, row) else {
                continue;
            };
            let line = &self.x[first..first + shape.width];
            for (tap, weight) in weights.iter().enumerate() {
                let position = (tap * shape.dilation[1]) as isize - shape.padding[1] as isize;
                add_shifted(line, *weight, position, shape.stride[1], self.columns.start, out);
            }
        }
        activate_in_place(v, self.epilogue.activation, out);
        if let Some(residual) = self.epilogue.residual {
            for (out, residual) in out.iter_mut().zip(&residual[self.first..]) {
                *out += residual;
            }
        }
    }
}

/// out[i] += weight x line[(column + i) stride + position], where the line has that element.
#[inline(always)]
fn add_shifted(
    line: &[f32],
    weight: f32,
    position: isize,
    stride: usize,
    column: usize,
    out: &mut [f32],
) {
    let step = stride as isize;
    let start = column as isize * step + position;
    let inside = (((-start).max(0) + step - 1) / step) as usize;
    let past = (((line.len() as isize - start).max(0) + step - 1) / step) as usize;
    let (inside, past) = (inside.min(out.len()), past.min(out.len()));
    if inside >= past {
        return;
    }
    let first = (start + inside as isize * step) as usize;
    let out = &mut out[inside..past];
    if stride == 1 {
        for (out, x) in out.iter_mut().zip(&line[first..]) {
            *out += weight * x;
        }
    } else {
        for (out, x) in out.iter_mut().zip(line[first..].iter().step_by(stride)) {
            *out += weight * x;
        }
    }
}
