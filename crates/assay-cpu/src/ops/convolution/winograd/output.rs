//! The outputs of a block of tiles.

use super::interleaving::join_columns;
use super::layout::{BlockLayout, Tiles};
use super::transforms::{OUTPUTS, Outputs, POINTS, Transform};
use crate::ops::activation::activate_in_place;
use crate::ops::convolution::shape::ConvolutionShape;
use crate::ops::gemm::Epilogue;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// Writes the outputs of all filters at a block of tiles; returns whether all sums were finite.
pub(super) struct TransformOutput<'a> {
    pub shape: &'a ConvolutionShape,
    pub products: &'a [f32],
    pub tiles: Tiles,
    pub block: Range<usize>,
    pub layout: BlockLayout,
    /// For each of the 16 elements of a tile a line of all tiles.
    pub lines: &'a mut [f32],
    pub epilogue: Epilogue<'a>,
    pub out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for TransformOutput<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let length = self.layout.line();
        let stride = self.layout.point_stride();
        let zero = v.splat(0.0);
        // Zero times a number that is not finite is NaN.
        let mut checks = [zero; OUTPUTS];
        for filter in 0..self.shape.filters {
            let bias = v.splat(self.epilogue.bias.map_or(0.0, |bias| bias[filter]));
            for vector in 0..self.layout.vectors {
                let first = (vector * self.layout.channels + filter) * LANES;
                let mut square = [[zero; POINTS]; POINTS];
                for (index, point) in self.products.chunks_exact(stride).enumerate() {
                    if let Some(values) = point[first..].first_chunk() {
                        square[index / POINTS][index % POINTS] = v.load(values);
                    }
                }
                let outputs = Outputs::apply_to_square(v, &square);
                for (index, line) in
                    self.lines.chunks_exact_mut(length).enumerate().take(OUTPUTS * OUTPUTS)
                {
                    let (row, column) = (index / OUTPUTS, index % OUTPUTS);
                    let value = outputs[row][column];
                    checks[column] = v.mul_add(value, zero, checks[column]);
                    if let Some(line) = line[vector * LANES..].first_chunk_mut::<LANES>() {
                        v.store(v.add(value, bias), line);
                        activate_in_place(v, self.epilogue.activation, line);
                    }
                }
            }
            self.scatter(filter);
        }
        checks.iter().all(|check| v.sum(*check) == 0.0)
    }
}

impl TransformOutput<'_> {
    /// Writes the rows of a filter, with the residual.
    #[inline(always)]
    fn scatter(&self, filter: usize) {
        let (shape, length) = (self.shape, self.layout.line());
        for segment in self.tiles.segments(self.block.clone()) {
            let start = segment.columns.start * OUTPUTS;
            let columns = (segment.columns.len() * OUTPUTS).min(shape.out[1] - start);
            let rows = segment.row * OUTPUTS..((segment.row + 1) * OUTPUTS).min(shape.out[0]);
            for (row, lines) in rows.zip(self.lines.chunks_exact(OUTPUTS * length)) {
                let first = shape.output_row(segment.image * shape.out[0] + row, filter) + start;
                // SAFETY: blocks of tiles do not overlap.
                let out = unsafe { self.out.slice_mut(first..first + columns) };
                for (vector, out) in out.chunks_mut(OUTPUTS * LANES).enumerate() {
                    let at = segment.first + vector * LANES;
                    let mut columns = [&[0.0; LANES]; OUTPUTS];
                    for (column, line) in columns.iter_mut().zip(lines.chunks_exact(length)) {
                        if let Some(line) = line[at..].first_chunk() {
                            *column = line;
                        }
                    }
                    let tiles = join_columns(columns);
                    match out.first_chunk_mut() {
                        Some(out) => *out = tiles,
                        None => out.copy_from_slice(&tiles[..out.len()]),
                    }
                }
                if let Some(residual) = self.epilogue.residual {
                    for (out, residual) in out.iter_mut().zip(&residual[first..first + columns]) {
                        *out += residual;
                    }
                }
            }
        }
    }
}
