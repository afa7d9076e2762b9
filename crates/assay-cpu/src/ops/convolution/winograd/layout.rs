//! The tiles of a convolution, blocks of them, and where their transforms are.

use super::transforms::{OUTPUTS, POINTS};
use crate::ops::convolution::shape::ConvolutionShape;
use crate::simd::LANES;
use std::ops::Range;

/// Points of a tile.
pub(super) const SQUARE: usize = POINTS * POINTS;

/// Tiles of 4 x 4 outputs: those of all images, row by row.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    /// Rows of tiles of an image.
    pub rows: usize,
    /// Tiles of a row.
    pub columns: usize,
    pub count: usize,
}

/// Adjacent tiles of a row.
pub(super) struct Segment {
    pub image: usize,
    /// The row of tiles.
    pub row: usize,
    pub columns: Range<usize>,
    /// The first tile, in its block.
    pub first: usize,
}

impl Tiles {
    pub fn new(shape: &ConvolutionShape) -> Self {
        let (rows, columns) = (shape.out[0].div_ceil(OUTPUTS), shape.out[1].div_ceil(OUTPUTS));
        Tiles { rows, columns, count: shape.batch * rows * columns }
    }

    /// The parts of rows that make up a range of tiles.
    pub fn segments(self, block: Range<usize>) -> impl Iterator<Item = Segment> {
        let rows = block.start / self.columns..block.end.div_ceil(self.columns);
        rows.map(move |row| {
            let start = block.start.max(row * self.columns);
            let end = block.end.min((row + 1) * self.columns);
            Segment {
                image: row / self.rows,
                row: row % self.rows,
                columns: start - row * self.columns..end - row * self.columns,
                first: start - block.start,
            }
        })
    }
}

/// Where the transforms of a block are: at each point a matrix of channels by tiles.
#[derive(Clone, Copy)]
pub(super) struct BlockLayout {
    pub channels: usize,
    /// Vectors of tiles.
    pub vectors: usize,
}

impl BlockLayout {
    /// Elements from one point to the next: an odd number of cache lines, so that those of a tile are in different
    /// sets.
    pub fn point_stride(&self) -> usize {
        ((self.channels * self.vectors) | 1) * LANES
    }

    /// Elements of a line, a number of each tile; vectors that begin before the last tile end inside of it.
    pub fn line(&self) -> usize {
        (self.vectors + 1) * LANES
    }

    /// Elements of a row of pixels of all tiles, and of one more.
    pub fn row(&self) -> usize {
        OUTPUTS * self.line()
    }

    pub fn elements(&self) -> usize {
        SQUARE * self.point_stride()
    }

    /// The panels of the micro-kernel, at most `most` vectors wide: 2 and 2 rather than 3 and 1.
    pub fn panels(self, most: usize) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let left = self.vectors - start;
            let width = if most == 3 && left == 4 { 2 } else { left.min(most) };
            start += width;
            (width > 0).then_some(start - width..start)
        })
    }
}
