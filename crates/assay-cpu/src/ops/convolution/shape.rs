//! Shapes of convolutions, and which rows of the input an output row reads.

use crate::error::{Result, check_length, check_value};

/// The largest reach of a window, and padding, that positions are computed for.
const MOST_REACH: usize = 1 << 40;

/// How many bits of the fractions of numbers count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precision {
    /// All of them.
    #[default]
    Highest,
    /// At least 16, where products of those are faster.
    High,
    /// At least 8, as above.
    Medium,
}

/// The shape of a convolution; pairs are height and width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvolutionShape {
    /// Images.
    pub batch: usize,
    /// Channels of the input.
    pub channels: usize,
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Channels of the output.
    pub filters: usize,
    /// Extents of a window.
    pub kernel: [usize; 2],
    /// Elements from one window to the next.
    pub stride: [usize; 2],
    /// Zeros above the first row, and left of the first column; those below and right follow from `out`.
    pub padding: [usize; 2],
    /// Elements from one tap of a window to the next.
    pub dilation: [usize; 2],
    /// Parts of the channels, each of which has filters of its own.
    pub groups: usize,
    /// Extents of an output image.
    pub out: [usize; 2],
}

fn divides(
    operation: &'static str,
    argument: &'static str,
    groups: usize,
    got: usize,
) -> Result<()> {
    let whole = groups > 0 && got > 0 && got.is_multiple_of(groups);
    check_value(operation, argument, whole, format_args!("a multiple of {groups} groups"), got)
}

/// Refuses extents whose positions could overflow.
fn check_reach(operation: &'static str, extents: [usize; 5]) -> Result<()> {
    let [out, stride, kernel, dilation, padding] = extents;
    let reach = out
        .checked_mul(stride)
        .zip(kernel.checked_mul(dilation))
        .and_then(|(windows, taps)| windows.checked_add(taps))
        .and_then(|reach| reach.checked_add(padding));
    let valid =
        kernel > 0 && stride > 0 && dilation > 0 && reach.is_some_and(|reach| reach < MOST_REACH);
    check_value(
        operation,
        "window",
        valid,
        "of 1 or more elements, stride and dilation, within an image",
        format_args!("{kernel} of stride {stride}, dilation {dilation} and padding {padding}"),
    )
}

impl ConvolutionShape {
    pub(super) fn check(&self, x: &[f32], weight: &[f32], out: &[f32]) -> Result<()> {
        let operation = "convolution";
        divides(operation, "channels", self.groups, self.channels)?;
        divides(operation, "filters", self.groups, self.filters)?;
        for axis in 0..2 {
            let extents = [
                self.out[axis],
                self.stride[axis],
                self.kernel[axis],
                self.dilation[axis],
                self.padding[axis],
            ];
            check_reach(operation, extents)?;
        }
        check_length(
            operation,
            "x",
            x.len(),
            &[self.batch, self.channels, self.height, self.width],
        )?;
        let window = [self.filters, self.group_channels(), self.kernel[0], self.kernel[1]];
        check_length(operation, "weight", weight.len(), &window)?;
        check_length(
            operation,
            "out",
            out.len(),
            &[self.batch, self.filters, self.out[0], self.out[1]],
        )
    }

    pub(super) fn group_channels(&self) -> usize {
        self.channels / self.groups
    }

    pub(super) fn group_filters(&self) -> usize {
        self.filters / self.groups
    }

    /// The first element of the input row that row `row` of a window reads: the rows of the group's
    /// channels, kernel row by kernel row; none where it is padding. An image here is an output row.
    #[inline]
    pub(super) fn input_row(&self, image: usize, group: usize, row: usize) -> Option<usize> {
        let (sample, out_row) = (image / self.out[0], image % self.out[0]);
        let (channel, kernel_row) = (row / self.kernel[0], row % self.kernel[0]);
        let at = out_row * self.stride[0] + kernel_row * self.dilation[0];
        let at = at.checked_sub(self.padding[0]).filter(|at| *at < self.height)?;
        let channel = group * self.group_channels() + channel;
        Some(((sample * self.channels + channel) * self.height + at) * self.width)
    }

    /// The first element of an output row of a filter.
    pub(super) fn output_row(&self, image: usize, filter: usize) -> usize {
        let (sample, row) = (image / self.out[0], image % self.out[0]);
        ((sample * self.filters + filter) * self.out[0] + row) * self.out[1]
    }
}

/// The shape of a transposed convolution over samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransposedShape {
    /// Sequences of samples.
    pub batch: usize,
    /// Channels of the input.
    pub channels: usize,
    /// Samples of a channel.
    pub width: usize,
    /// Channels of the output.
    pub filters: usize,
    /// Taps of a filter.
    pub kernel: usize,
    /// Output samples from one input sample to the next.
    pub stride: usize,
    /// Output samples cut off on the left; those on the right follow from `out_width`.
    pub padding: usize,
    /// Output samples from one tap to the next.
    pub dilation: usize,
    /// Parts of the channels, each of which has filters of its own.
    pub groups: usize,
    /// Samples of an output channel.
    pub out_width: usize,
}

impl TransposedShape {
    pub(super) fn check(&self, x: &[f32], weight: &[f32], out: &[f32]) -> Result<()> {
        let operation = "transposed_convolution";
        divides(operation, "channels", self.groups, self.channels)?;
        divides(operation, "filters", self.groups, self.filters)?;
        let extents = [self.width, self.stride, self.kernel, self.dilation, self.padding];
        check_reach(operation, extents)?;
        check_length(operation, "x", x.len(), &[self.batch, self.channels, self.width])?;
        let taps = [self.channels, self.filters / self.groups, self.kernel];
        check_length(operation, "weight", weight.len(), &taps)?;
        check_length(operation, "out", out.len(), &[self.batch, self.filters, self.out_width])
    }
}
