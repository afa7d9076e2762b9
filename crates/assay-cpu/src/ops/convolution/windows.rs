//! Convolution of short rows: the windows of all images are the rows of one linear layer.

use super::shape::ConvolutionShape;
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::Result;
use crate::ops::gemm::{Epilogue, LinearShape, linear};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

/// Elements of the windows that are laid out at a time.
const MOST_ELEMENTS: usize = 1 << 22;
/// Elements per task at least: enough to amortize waking a thread.
const GRAIN: usize = 16_384;

thread_local! {
    /// Windows as rows, and their products.
    static BUFFERS: RefCell<[AlignedBuffer; 2]> = RefCell::default();
}

pub(super) fn convolve(
    context: Context,
    shape: ConvolutionShape,
    x: &[f32],
    weight: &[f32],
    epilogue: Epilogue,
    out: &mut [f32],
) -> Result<()> {
    let (filters, depth) = (shape.group_filters(), shape.group_channels() * shape.kernel[0]);
    let window = depth * shape.kernel[1];
    let positions = shape.out[0] * shape.out[1];
    let samples = (MOST_ELEMENTS / (positions * window).max(1)).clamp(1, shape.batch);
    let out = DisjointSlice::new(out);
    BUFFERS.with_borrow_mut(|[windows, products]| {
        for first in (0..shape.batch).step_by(samples) {
            let rows = samples.min(shape.batch - first) * positions;
            let windows = windows.floats(rows * window);
            let products = products.floats(rows * filters);
            for group in 0..shape.groups {
                lay_out(context, shape, x, first * positions, group, windows);
                let range = group * filters..(group + 1) * filters;
                let layer = LinearShape { rows, inputs: window, outputs: filters };
                let bias = epilogue.bias.map(|bias| &bias[range.clone()]);
                let inner = Epilogue { bias, activation: epilogue.activation, residual: None };
                let weight = &weight[range.start * window..range.end * window];
                linear(context, windows, weight, layer, inner, false, products)?;
                transpose(context, shape, (first, range.start), products, epilogue.residual, &out);
            }
        }
        Ok(())
    })
}

/// Writes the window of each output position from `first` on as a row.
fn lay_out(
    context: Context,
    shape: ConvolutionShape,
    x: &[f32],
    first: usize,
    group: usize,
    windows: &mut [f32],
) {
    let kernel = shape.kernel[1];
    let window = shape.group_channels() * shape.kernel[0] * kernel;
    if window == 0 {
        return;
    }
    let rows = windows.len() / window;
    let windows = DisjointSlice::new(windows);
    context.threads.parallel_for(rows, GRAIN.div_ceil(window), &|range| {
        for row in range {
            // SAFETY: rows do not overlap.
            let out = unsafe { windows.slice_mut(row * window..(row + 1) * window) };
            let (image, column) = ((first + row) / shape.out[1], (first + row) % shape.out[1]);
            let start = (column * shape.stride[1]) as isize - shape.padding[1] as isize;
            for (index, out) in out.chunks_exact_mut(kernel).enumerate() {
                let Some(at) = shape.input_row(image, group, index) else {
                    out.fill(0.0);
                    continue;
                };
                let line = &x[at..at + shape.width];
                for (tap, out) in out.iter_mut().enumerate() {
                    let at = start + (tap * shape.dilation[1]) as isize;
                    *out = usize::try_from(at).ok().and_then(|at| line.get(at)).map_or(0.0, |x| *x);
                }
            }
        }
    });
}

/// Writes rows of products, one for each position, as channels; adds the residual.
fn transpose(
    context: Context,
    shape: ConvolutionShape,
    (sample, filter): (usize, usize),
    products: &[f32],
    residual: Option<&[f32]>,
    out: &DisjointSlice<f32>,
) {
    let (filters, positions) = (shape.group_filters(), shape.out[0] * shape.out[1]);
    let samples = products.len() / (positions * filters);
    context.threads.parallel_for(samples, GRAIN.div_ceil(positions * filters), &|range| {
        for index in range {
            let products =
                &products[index * positions * filters..(index + 1) * positions * filters];
            let first = ((sample + index) * shape.filters + filter) * positions;
            // SAFETY: samples do not overlap.
            let out = unsafe { out.slice_mut(first..first + filters * positions) };
            for (channel, out) in out.chunks_exact_mut(positions).enumerate() {
                for (out, product) in
                    out.iter_mut().zip(products[channel..].iter().step_by(filters))
                {
                    *out = *product;
                }
            }
            if let Some(residual) = residual {
                for (out, residual) in out.iter_mut().zip(&residual[first..]) {
                    *out += residual;
                }
            }
        }
    });
}
