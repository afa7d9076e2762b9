//! The input of a block of tiles at the points.

use super::interleaving::split_columns;
use super::layout::{BlockLayout, SQUARE, Segment, Tiles};
use super::transforms::{Inputs, OUTPUTS, POINTS, Transform};
use crate::ops::convolution::shape::ConvolutionShape;
use crate::simd::{Kernel, LANES, Vector, prefetch};
use std::ops::Range;

/// Writes the transforms of all channels of a block of tiles.
pub(super) struct TransformInput<'a> {
    pub shape: &'a ConvolutionShape,
    pub x: &'a [f32],
    pub tiles: Tiles,
    pub block: Range<usize>,
    pub layout: BlockLayout,
    /// Vectors of a panel of the micro-kernel, at most.
    pub panel: usize,
    /// For each of the 36 elements of a tile a line of all tiles; then a row of pixels.
    pub lines: &'a mut [f32],
    pub out: &'a mut [f32],
}

impl Kernel for TransformInput<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (layout, length) = (self.layout, self.layout.line());
        let (lines, row) = self.lines.split_at_mut(SQUARE * length);
        // Tiles beyond the last are zeros.
        lines.fill(0.0);
        for channel in 0..self.shape.channels {
            for segment in self.tiles.segments(self.block.clone()) {
                let gather = Gather { shape: self.shape, x: self.x, channel, segment };
                gather.run(v, lines, length, row);
            }
            for panel in layout.panels(self.panel) {
                for vector in panel.clone() {
                    let mut square = [[v.splat(0.0); POINTS]; POINTS];
                    for (index, line) in lines.chunks_exact(length).enumerate() {
                        if let Some(values) = line[vector * LANES..].first_chunk() {
                            square[index / POINTS][index % POINTS] = v.load(values);
                        }
                    }
                    let points = Inputs::apply_to_square(v, &square);
                    let start = panel.start * layout.channels + channel * panel.len();
                    let first = (start + vector - panel.start) * LANES;
                    let outputs = self.out.chunks_exact_mut(layout.point_stride());
                    for (value, out) in points.as_flattened().iter().zip(outputs) {
                        if let Some(out) = out[first..].first_chunk_mut() {
                            v.store(*value, out);
                        }
                    }
                }
            }
        }
    }
}

/// Lays out the elements of adjacent tiles of a channel: those of a place in all tiles are adjacent.
struct Gather<'a> {
    shape: &'a ConvolutionShape,
    x: &'a [f32],
    channel: usize,
    segment: Segment,
}

impl Gather<'_> {
    #[inline(always)]
    fn run<V: Vector>(&self, v: V, lines: &mut [f32], length: usize, row: &mut [f32]) {
        let Gather { shape, segment, .. } = self;
        let plane = (segment.image * shape.channels + self.channel) * shape.height;
        // Whole vectors of tiles; those beyond the last are zeros until the next segment covers them.
        let vectors = segment.columns.len().div_ceil(LANES);
        let padded = &mut row[..(vectors * LANES + 1) * OUTPUTS];
        for (index, lines) in lines.chunks_exact_mut(POINTS * length).enumerate() {
            let row = (segment.row * OUTPUTS + index).checked_sub(shape.padding[0]);
            match row.filter(|row| *row < shape.height) {
                Some(row) => self.copy_padded(plane + row, padded),
                None => padded.fill(0.0),
            }
            // The last columns of a tile are the first of the next.
            let (firsts, lasts) = lines.split_at_mut(OUTPUTS * length);
            for (offset, lines) in [(0, firsts), (OUTPUTS, lasts)] {
                let rows = padded[offset..].as_chunks::<{ OUTPUTS * LANES }>().0;
                for (vector, row) in rows.iter().enumerate() {
                    let columns = split_columns(row);
                    let at = segment.first + vector * LANES;
                    for (column, line) in columns.iter().zip(lines.chunks_exact_mut(length)) {
                        if let Some(line) = line[at..].first_chunk_mut() {
                            v.store(v.load(column), line);
                        }
                    }
                }
            }
        }
    }

    /// Copies what the tiles read of row `index` of the input; zeros outside of it.
    #[inline(always)]
    fn copy_padded(&self, index: usize, padded: &mut [f32]) {
        let Gather { shape, x, segment, .. } = self;
        let row = &x[index * shape.width..(index + 1) * shape.width];
        let padding = shape.padding[1];
        let (start, reach) =
            (segment.columns.start * OUTPUTS, (segment.columns.len() - 1) * OUTPUTS + POINTS);
        let before = padding.saturating_sub(start).min(reach);
        let first = (start + before).saturating_sub(padding).min(row.len());
        let count = (reach - before).min(row.len() - first);
        padded[..before].fill(0.0);
        padded[before..before + count].copy_from_slice(&row[first..first + count]);
        padded[before + count..].fill(0.0);
        // The same row of the next channel, which is far from this one.
        let next = row[first..].as_ptr().wrapping_add(shape.height * shape.width);
        for line in (0..count).step_by(LANES) {
            prefetch(next.wrapping_add(line));
        }
    }
}
