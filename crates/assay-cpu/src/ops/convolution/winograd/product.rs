//! The products at the points: a GEMM for each, of filters by channels and channels by tiles.

use super::filters::panel_elements;
use super::layout::{BlockLayout, SQUARE};
use crate::ops::convolution::shape::ConvolutionShape;
use crate::ops::gemm::microkernel;
use crate::simd::{Kernel, LANES, Level, Vector};
use std::ops::Range;

/// The register tile of a level.
#[derive(Clone, Copy)]
pub(super) enum Tile {
    /// 8 filters by 48 tiles: 11 loads for 24 FMAs, and few numbers of filters need padding.
    Large,
    /// 4 filters by 16 tiles.
    Small,
}

impl Tile {
    pub fn of(level: Level) -> Self {
        match level.is_avx512() {
            true => Tile::Large,
            false => Tile::Small,
        }
    }

    pub fn height(self) -> usize {
        match self {
            Tile::Large => 8,
            Tile::Small => 4,
        }
    }

    /// Vectors of tiles.
    pub fn vectors(self) -> usize {
        match self {
            Tile::Large => 3,
            Tile::Small => 1,
        }
    }
}

/// Writes the products of a block, filters by tiles at each point.
pub(super) struct Product<'a> {
    pub shape: &'a ConvolutionShape,
    pub tile: Tile,
    pub filters: &'a [f32],
    pub inputs: &'a [f32],
    pub input_layout: BlockLayout,
    pub output_layout: BlockLayout,
    pub out: &'a mut [f32],
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(mut self, v: V) {
        let (filters, inputs, height) = (self.filters, self.inputs, self.tile.height());
        let filter_stride = filters.len() / SQUARE;
        for point in 0..SQUARE {
            let filters = &filters[point * filter_stride..][..filter_stride];
            let inputs = &inputs[point * self.input_layout.point_stride()..];
            for columns in self.input_layout.panels(self.tile.vectors()) {
                let inputs = &inputs[columns.start * self.shape.channels * LANES..];
                let inputs = &inputs[..columns.len() * self.shape.channels * LANES];
                for (panel, filters) in
                    filters.chunks_exact(panel_elements(self.shape, height)).enumerate()
                {
                    let filters = &filters[..self.shape.channels * height];
                    let place = (point, panel * height, columns.clone());
                    match (self.tile, columns.len()) {
                        (Tile::Large, 3) => self.tile::<V, 8, 3>(v, filters, inputs, place),
                        (Tile::Large, 2) => self.tile::<V, 8, 2>(v, filters, inputs, place),
                        (Tile::Large, _) => self.tile::<V, 8, 1>(v, filters, inputs, place),
                        (Tile::Small, _) => self.tile::<V, 4, 1>(v, filters, inputs, place),
                    }
                }
            }
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn tile<V: Vector, const MR: usize, const NR_VECTORS: usize>(
        &mut self,
        v: V,
        filters: &[f32],
        inputs: &[f32],
        (point, filter, columns): (usize, usize, Range<usize>),
    ) {
        let sums = microkernel::<V, MR, NR_VECTORS>(v, filters, inputs);
        let layout = self.output_layout;
        for (vector, column) in columns.enumerate() {
            let first = point * layout.point_stride() + (column * layout.channels + filter) * LANES;
            let out = self.out[first..].as_chunks_mut::<LANES>().0;
            for (out, sums) in out.iter_mut().zip(&sums) {
                v.store(sums[vector], out);
            }
        }
    }
}
