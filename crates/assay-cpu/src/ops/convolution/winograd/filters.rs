//! Transformed filters, packed for the micro-kernel.

use super::layout::SQUARE;
use super::transforms::{Filters, TAPS, Transform};
use crate::context::Context;
use crate::ops::convolution::shape::ConvolutionShape;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;

/// Elements that a thread packs at least.
const GRAIN: usize = 4_096;

/// Channels of a vector: the lanes are `height` filters of each.
fn channels_at_once(height: usize) -> usize {
    LANES / height
}

/// Elements of a panel of `height` filters at a point.
pub(super) fn panel_elements(shape: &ConvolutionShape, height: usize) -> usize {
    shape.channels.next_multiple_of(channels_at_once(height)) * height
}

/// Elements of all filters at all points.
pub(super) fn elements(shape: &ConvolutionShape, height: usize) -> usize {
    SQUARE * shape.filters.div_ceil(height) * panel_elements(shape, height)
}

/// Writes the filters at the points: point by point, panel by panel, channel by channel.
pub(super) fn pack(
    context: Context,
    shape: &ConvolutionShape,
    weight: &[f32],
    height: usize,
    out: &mut [f32],
) {
    let panels = shape.filters.div_ceil(height);
    let out = DisjointSlice::new(out);
    let grain = GRAIN.div_ceil(panel_elements(shape, height));
    context.threads.parallel_for(panels, grain, &|range| {
        for panel in range {
            context.level.run(PackPanel { shape, weight, height, panel, panels, out: &out });
        }
    });
}

/// The filters of a panel at all points.
struct PackPanel<'a> {
    shape: &'a ConvolutionShape,
    weight: &'a [f32],
    height: usize,
    panel: usize,
    panels: usize,
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for PackPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let PackPanel { shape, weight, height, panel, panels, out } = self;
        let elements = panel_elements(shape, height);
        for (step, channel) in (0..shape.channels).step_by(channels_at_once(height)).enumerate() {
            let mut taps = [[0.0; LANES]; TAPS * TAPS];
            for lane in 0..LANES {
                let (filter, channel) = (panel * height + lane % height, channel + lane / height);
                if filter < shape.filters && channel < shape.channels {
                    let first = (filter * shape.channels + channel) * TAPS * TAPS;
                    let window = &weight[first..first + TAPS * TAPS];
                    for (tap, weight) in taps.iter_mut().zip(window) {
                        tap[lane] = *weight;
                    }
                }
            }
            let mut square = [[v.splat(0.0); TAPS]; TAPS];
            for (index, tap) in taps.iter().enumerate() {
                square[index / TAPS][index % TAPS] = v.load(tap);
            }
            let points = Filters::apply_to_square(v, &square);
            for (point, value) in points.as_flattened().iter().enumerate() {
                let first = (point * panels + panel) * elements + step * LANES;
                // SAFETY: panels do not overlap.
                let out = unsafe { out.slice_mut(first..first + LANES) };
                if let Some(out) = out.first_chunk_mut() {
                    v.store(*value, out);
                }
            }
        }
    }
}
