//! Convolutions over samples or pixels, and transposed ones over samples.
//!
//! Windows of 3 x 3 at stride 1 take a quarter of the products by Winograd's algorithm where the CPU has no AMX. Other
//! long rows are convolved directly: register tiles of filters by columns, over strips of the input that each thread
//! copies with their padding; on AMX tiles where the CPU has them. Where an output row is shorter than a tile, the
//! windows of all images become the rows of one linear layer. Groups of few filters are sums of shifted rows.

mod direct;
mod few_filters;
mod filter_panels;
mod outputs;
mod rows;
mod shape;
mod strips;
mod tiled;
mod transposed;
mod windows;
mod winograd;

pub use shape::{ConvolutionShape, Precision, TransposedShape};
pub use transposed::transposed_convolution;

use super::gemm::Epilogue;
use crate::context::Context;
use crate::error::Result;
use direct::{Direct, Filters};
use outputs::OutputRow;
use rows::convolve_rows;
use strips::Tap;

/// Outputs of a row below which windows become rows of a linear layer.
const MIN_DIRECT_WIDTH: usize = 24;
/// Filters of a group below which no tile of them pays off.
const MIN_TILED_FILTERS: usize = 4;

/// Writes the convolution (cross-correlation, as frameworks define it) of `x`, [batch, channels, height,
/// width], with `weight`, [filters, channels / groups, kernel height, kernel width], to `out`, [batch,
/// filters, out height, out width]; the bias is per filter, the residual of the shape of `out`.
///
/// The algorithm depends on the shape of an image, the filters and the CPU alone, never on batch or threads. Windows of
/// 3 x 3 at stride 1 of 16 channels and filters or more are Winograd's F(4 x 4, 3 x 3). Its errors are two to three
/// times those of plain sums in single precision, relative to the largest inputs of a tile of 6 x 6: all of them are
/// added to each other and subtracted again. Where a sum of any image is not finite, all are plain sums.
///
/// ```
/// use assay_cpu::ops::{Context, ConvolutionShape, Epilogue, Precision, convolution};
/// let shape = ConvolutionShape {
///     batch: 1, channels: 1, height: 1, width: 4, filters: 1, kernel: [1, 2], stride: [1, 1],
///     padding: [0, 0], dilation: [1, 1], groups: 1, out: [1, 3],
/// };
/// let mut out = [0.0; 3];
/// let (x, weight) = ([1.0, 2.0, 4.0, 8.0], [-1.0, 1.0]);
/// let precision = Precision::default();
/// convolution(Context::best(), shape, &x, &weight, Epilogue::default(), precision, &mut out)?;
/// assert_eq!(out, [1.0, 2.0, 4.0]);
/// # Ok::<(), assay_cpu::error::OpError>(())
/// ```
pub fn convolution(
    context: Context,
    shape: ConvolutionShape,
    x: &[f32],
    weight: &[f32],
    epilogue: Epilogue,
    precision: Precision,
    out: &mut [f32],
) -> Result<()> {
    shape.check(x, weight, out)?;
    epilogue.check("convolution", shape.batch * shape.out[0] * shape.out[1], shape.filters)?;
    if out.is_empty() {
        return Ok(());
    }
    if shape.group_filters() < MIN_TILED_FILTERS {
        few_filters::convolve(context, shape, x, weight, epilogue, out);
        return Ok(());
    }
    if winograd::applies(context.level, &shape)
        && winograd::convolve(context, &shape, x, weight, epilogue, out)
    {
        return Ok(());
    }
    if shape.out[1] < MIN_DIRECT_WIDTH {
        return windows::convolve(context, shape, x, weight, epilogue, out);
    }
    let taps = (0..shape.kernel[1]).map(|column| Tap {
        column,
        position: (column * shape.dilation[1]) as isize - shape.padding[1] as isize,
    });
    let (depth, columns) = (shape.group_channels() * shape.kernel[0], shape.kernel[1]);
    let direct = Direct {
        x,
        width: shape.width,
        step: shape.stride[1],
        taps: taps.collect(),
        depth,
        filters: Filters {
            weight,
            count: shape.group_filters(),
            groups: shape.groups,
            group_stride: shape.group_filters() * depth * columns,
            filter_stride: depth * columns,
            depth_stride: columns,
        },
        images: shape.batch * shape.out[0],
        columns: shape.out[1],
        input_row: &|image, group, row| shape.input_row(image, group, row),
        output_row: &|image, group| OutputRow {
            first: shape.output_row(image, group * shape.group_filters()),
            filter_stride: shape.out[0] * shape.out[1],
            step: 1,
        },
        first_output: 0,
    };
    convolve_rows(&[direct], context, precision, epilogue, out);
    Ok(())
}
