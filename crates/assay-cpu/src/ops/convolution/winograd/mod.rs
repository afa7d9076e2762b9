//! Winograd convolution: F(4 x 4, 3 x 3), 36 products for the 144 multiply-adds of a tile of 4 x 4 outputs.
//!
//! Tiles fill the lanes: a block of them is transformed, multiplied at each of the 36 points, and transformed back
//! while it is in cache. The sums of an output do not depend on the block that it is in, so results depend on
//! neither threads nor batch.

mod filters;
mod input;
mod interleaving;
mod layout;
mod output;
mod product;
mod transforms;

use super::shape::ConvolutionShape;
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::gemm::Epilogue;
use crate::ops::split::AllFinite;
use crate::simd::{LANES, Level};
use crate::threads::DisjointSlice;
use input::TransformInput;
use layout::{BlockLayout, SQUARE, Tiles};
use output::TransformOutput;
use product::{Product, Tile};
use std::cell::RefCell;
use transforms::{OUTPUTS, TAPS};

/// Channels, and filters, from which products outweigh the transforms.
const MIN_CHANNELS: usize = 16;
/// Tiles of an image that make up for the transform of the filters.
const MIN_TILES: usize = 16;
/// Transformed filters, at most: the calling thread keeps them, four times as many as the weights.
const MOST_ELEMENTS: usize = 1 << 24;
/// Tiles of a block whose transforms are in L2 with the filters.
const BLOCK_TILES: usize = 48;
/// Tiles of a block where the filters are beyond L2, and every block reads them anew.
const LARGE_BLOCK_TILES: usize = 112;
/// Transformed filters that are not beyond L2.
const RESIDENT_ELEMENTS: usize = 1 << 19;

thread_local! {
    /// The transformed filters of a call.
    static FILTERS: RefCell<AlignedBuffer> = RefCell::default();
    /// Lines, inputs and products of a block.
    static BLOCK: RefCell<[AlignedBuffer; 3]> = RefCell::default();
}

/// Whether products at points are faster; AMX multiplies all taps in less time than transforms take. The number of
/// images does not count: it must not change results.
pub(super) fn applies(level: Level, shape: &ConvolutionShape) -> bool {
    let windows = shape.kernel == [TAPS; 2]
        && (shape.stride, shape.dilation, shape.groups) == ([1; 2], [1; 2], 1);
    let Tiles { rows, columns, .. } = Tiles::new(shape);
    // Half of the outputs of tiles count at least.
    let filled = rows * columns * OUTPUTS * OUTPUTS <= 2 * shape.out[0] * shape.out[1];
    let enough = shape.channels.min(shape.filters) >= MIN_CHANNELS && rows * columns >= MIN_TILES;
    let few = || filters::elements(shape, Tile::of(level).height()) <= MOST_ELEMENTS;
    level.amx().is_none() && windows && filled && enough && few()
}

/// Writes the convolution; returns false where a sum is not finite, and the outputs are not to be used: infinity, and
/// numbers that overflow at a point, reach all outputs of a tile.
pub(super) fn convolve(
    context: Context,
    shape: &ConvolutionShape,
    x: &[f32],
    weight: &[f32],
    epilogue: Epilogue,
    out: &mut [f32],
) -> bool {
    let tile = Tile::of(context.level);
    let tiles = Tiles::new(shape);
    let finite = AllFinite::default();
    let out = DisjointSlice::new(out);
    FILTERS.with_borrow_mut(|buffer| {
        let filters = buffer.floats(filters::elements(shape, tile.height()));
        filters::pack(context, shape, weight, tile.height(), filters);
        let resident = filters.len() <= RESIDENT_ELEMENTS;
        let most = if resident { BLOCK_TILES } else { LARGE_BLOCK_TILES };
        // Each thread has as many blocks as the next.
        let blocks = tiles.count.div_ceil(most).next_multiple_of(context.threads.count());
        let length = tiles.count.div_ceil(blocks).next_multiple_of(LANES);
        context.threads.run(tiles.count.div_ceil(length), &|index| {
            let block = index * length..((index + 1) * length).min(tiles.count);
            let vectors = block.len().div_ceil(LANES);
            let input_layout = BlockLayout { channels: shape.channels, vectors };
            let padded = shape.filters.next_multiple_of(tile.height());
            let output_layout = BlockLayout { channels: padded, vectors };
            BLOCK.with_borrow_mut(|[lines, inputs, products]| {
                let lines = lines.floats(SQUARE * input_layout.line() + input_layout.row());
                let inputs = inputs.floats(input_layout.elements());
                let products = products.floats(output_layout.elements());
                context.level.run(TransformInput {
                    shape,
                    x,
                    tiles,
                    block: block.clone(),
                    layout: input_layout,
                    panel: tile.vectors(),
                    lines,
                    out: inputs,
                });
                context.level.run(Product {
                    shape,
                    tile,
                    filters,
                    inputs,
                    input_layout,
                    output_layout,
                    out: products,
                });
                finite.note(context.level.run(TransformOutput {
                    shape,
                    products,
                    tiles,
                    block,
                    layout: output_layout,
                    lines,
                    epilogue,
                    out: &out,
                }));
            });
        });
    });
    finite.get()
}
