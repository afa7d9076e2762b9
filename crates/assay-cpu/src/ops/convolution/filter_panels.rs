//! The filters of a direct convolution, packed in the order in which its register tiles read them.

use super::direct::Direct;
use crate::context::Context;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;

impl Direct<'_> {
    /// Filters in panels of `height`: row by row, tap by tap, one weight of each filter.
    pub(super) fn pack(&self, context: Context, height: usize, panel: usize, out: &mut [f32]) {
        let filters = &self.filters;
        let panels = filters.count.div_ceil(height);
        let out = DisjointSlice::new(out);
        let grain = (1_usize << 15).div_ceil(panel.max(1));
        context.threads.parallel_for(filters.groups * panels, grain, &|range| {
            for index in range {
                // SAFETY: panels do not overlap.
                let out = unsafe { out.slice_mut(index * panel..(index + 1) * panel) };
                let (group, first) = (index / panels, index % panels * height);
                context.level.run(PackPanel { direct: self, group, first, height, out });
            }
        });
    }
}

/// One panel of filters, from filter `first` of a group on.
struct PackPanel<'a> {
    direct: &'a Direct<'a>,
    group: usize,
    first: usize,
    height: usize,
    out: &'a mut [f32],
}

impl Kernel for PackPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let PackPanel { direct: Direct { filters, taps, depth, .. }, group, first, height, out } =
            self;
        let start = group * filters.group_stride + first * filters.filter_stride;
        let lanes = height.min(filters.count - first);
        let columns = depth * taps.len();
        // All weights of a filter, in order.
        let in_order = filters.depth_stride == taps.len() && filters.filter_stride == columns;
        let mut done = 0;
        if in_order && lanes == height {
            let zeros = [0.0; LANES];
            let mut square = [zeros; LANES];
            // A row of the square is stored whole; the next one covers what it has too much.
            while done + 2 * LANES <= columns {
                let mut lines = [&zeros; LANES];
                for (lane, line) in lines.iter_mut().enumerate().take(lanes) {
                    if let Some(chunk) =
                        filters.weight[start + lane * columns + done..].first_chunk()
                    {
                        *line = chunk;
                    }
                }
                v.transpose(lines, &mut square);
                for (column, values) in square.iter().enumerate() {
                    let at = (done + column) * height;
                    if let Some(out) = out[at..].first_chunk_mut() {
                        v.store(v.load(values), out);
                    }
                }
                done += LANES;
            }
        }
        for (index, out) in out.chunks_exact_mut(height).enumerate().skip(done) {
            let (row, tap) = (index / taps.len(), &taps[index % taps.len()]);
            let weights = &filters.weight[start + row * filters.depth_stride + tap.column..];
            let weights = weights.iter().step_by(filters.filter_stride).take(lanes);
            out.fill(0.0);
            for (out, weight) in out.iter_mut().zip(weights) {
                *out = *weight;
            }
        }
    }
}
