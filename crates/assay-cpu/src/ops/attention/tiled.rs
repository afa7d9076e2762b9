//! Attention of many queries over all keys, on AMX tiles: scores of 32 queries, their softmax, then the
//! weighted sum of values.

use super::shape::AttentionShape;
use super::tile_operands::{Operands, Place, store_scores, weigh};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::split::{AllFinite, pack_columns, pack_rows};
use crate::simd::{
    Amx, Kernel, LANES, SPLIT_SIDE, SplitColumns, SplitStep, StepOffsets, TILE_K, TileC, Vector,
};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

thread_local! {
    /// The packed keys and values of a call.
    static PACKED: RefCell<[AlignedBuffer; 2]> = RefCell::default();
    /// Scores of a tile; its packed queries; its packed weights.
    static TILE: RefCell<[AlignedBuffer; 3]> = RefCell::default();
}

/// Writes attention to all keys; returns false where a number is not finite, and it is not to be used.
pub(super) fn tiled_attention(
    context: Context,
    amx: Amx,
    operands: Operands<f32>,
    out: &mut [f32],
) -> bool {
    let finite = AllFinite::default();
    let AttentionShape { heads, kv_heads, head_size, .. } = operands.shape;
    let depth = head_size / TILE_K;
    let key_blocks = operands.keys().div_ceil(SPLIT_SIDE);
    let each = key_blocks * depth;
    let (by_depth, by_key) = (StepOffsets::adjacent(depth), StepOffsets::adjacent(key_blocks));
    let out = DisjointSlice::new(out);
    PACKED.with_borrow_mut(|[keys, values]| {
        let (keys, values) =
            (keys.split_steps(kv_heads * each), values.split_steps(kv_heads * each));
        {
            let (keys, values) = (DisjointSlice::new(keys), DisjointSlice::new(values));
            context.threads.parallel_for(kv_heads, 1, &|range| {
                for head in range {
                    let range = head * each..(head + 1) * each;
                    // SAFETY: heads do not overlap.
                    let (keys, values) =
                        unsafe { (keys.slice_mut(range.clone()), values.slice_mut(range)) };
                    finite.note(amx.run(PackHead { amx, operands, head, keys, values }));
                }
            });
        }
        let tiles = operands.queries().div_ceil(SPLIT_SIDE);
        // Tiles of one head after the other: all cores read the same keys.
        context.threads.run(tiles * heads, &|task| {
            let (head, tile) = (task / tiles, task % tiles);
            let kv_head = head / operands.shape.group();
            TILE.with_borrow_mut(|[scores, queries, weights]| {
                finite.note(amx.run(Tile {
                    amx,
                    operands,
                    head,
                    first: tile * SPLIT_SIDE,
                    keys: &keys[kv_head * each..(kv_head + 1) * each],
                    values: &values[kv_head * each..(kv_head + 1) * each],
                    by_depth: &by_depth,
                    by_key: &by_key,
                    scores: scores.floats(SPLIT_SIDE * key_blocks * SPLIT_SIDE),
                    queries: queries.split_steps(depth),
                    weights: weights.split_steps(key_blocks),
                    out: &out,
                }));
            });
        });
    });
    finite.get()
}

/// Keys of a head as columns, 32 after 32, and its values as rows, 32 elements of each after 32.
struct PackHead<'a> {
    amx: Amx,
    operands: Operands<'a, f32>,
    head: usize,
    keys: &'a mut [SplitStep],
    values: &'a mut [SplitStep],
}

impl Kernel for PackHead<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let mut finite = true;
        let PackHead { amx, operands, head, keys, values } = self;
        let count = operands.keys();
        for (block, out) in keys.chunks_exact_mut(operands.shape.head_size / TILE_K).enumerate() {
            let first = block * SPLIT_SIDE;
            let key = |key: usize| operands.key_row(head, first + key);
            finite &= pack_columns(v, amx, count - first, key, out);
        }
        let zeros = [0.0; LANES];
        let steps = count.div_ceil(TILE_K);
        for (part, out) in values.chunks_exact_mut(steps).enumerate() {
            for (step, out) in out.iter_mut().enumerate() {
                for pair in 0..LANES {
                    for side in 0..2 {
                        let at = part * SPLIT_SIDE + side * LANES;
                        let lanes = |half: usize| {
                            let key = step * TILE_K + 2 * pair + half;
                            if key >= count {
                                return &zeros;
                            }
                            let row = operands.value_row(head, key);
                            row[at..].first_chunk().unwrap_or(&zeros)
                        };
                        let terms = out.row(side * LANES + pair);
                        finite &= amx.split_pairs(lanes(0), lanes(1), terms);
                    }
                }
            }
        }
        finite
    }
}

/// 32 queries of a head.
struct Tile<'a> {
    amx: Amx,
    operands: Operands<'a, f32>,
    head: usize,
    first: usize,
    keys: &'a [SplitStep],
    values: &'a [SplitStep],
    by_depth: &'a StepOffsets,
    by_key: &'a StepOffsets,
    scores: &'a mut [f32],
    queries: &'a mut [SplitStep],
    weights: &'a mut [SplitStep],
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for Tile<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let mut finite = true;
        let Tile { amx, operands, head, first, scores, .. } = self;
        let shape = operands.shape;
        let rows = SPLIT_SIDE.min(operands.queries() - first);
        let query = |row: usize| operands.query_row(head, first + row);
        finite &= pack_rows(v, amx, rows, shape.scale, query, self.queries);
        let session = amx.session();
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        let width = scores.len() / SPLIT_SIDE;
        for (block, keys) in self.keys.chunks_exact(self.queries.len()).enumerate() {
            let columns = SplitColumns::packed(keys, self.by_depth);
            session.multiply_split(self.queries, columns, &mut sums);
            store_scores(v, &sums, block, scores);
        }
        let mut shares = [0.0; SPLIT_SIDE];
        for (scores, share) in scores.chunks_exact_mut(width).zip(&mut shares).take(rows) {
            *share = weigh(v, scores, operands.keys());
        }
        let place = Place { shape, head, first };
        let row = |row: usize| &scores[row * width..(row + 1) * width];
        finite &= pack_rows(v, amx, rows, 1.0, row, self.weights);
        for (part, values) in self.values.chunks_exact(self.weights.len()).enumerate() {
            session.multiply_split(
                self.weights,
                SplitColumns::packed(values, self.by_key),
                &mut sums,
            );
            // SAFETY: each task has its own queries and head.
            unsafe { place.store_sums(v, &sums, &shares[..rows], part, self.out) };
        }
        finite
    }
}
