//! Attention of many queries over keys and values of bfloat16, on AMX tiles: as [`tiled`](super::tiled), with
//! queries and weights rounded to bfloat16 too, so that each product is one instead of six.

use super::shape::AttentionShape;
use super::tile_operands::{Operands, Place, store_scores, weigh};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::simd::{
    Amx, AmxSession, Kernel, LANES, SPLIT_SIDE, TILE_K, TileB, TileC, TileOperands, Vector,
};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

thread_local! {
    /// The packed keys and values of a call.
    static PACKED: RefCell<[AlignedBuffer; 2]> = RefCell::default();
    /// Scores of a tile; its queries and its weights in bfloat16.
    static TILE: RefCell<[AlignedBuffer; 3]> = RefCell::default();
}

/// Writes attention to all keys.
pub(super) fn bf16_attention(context: Context, amx: Amx, operands: Operands<u16>, out: &mut [f32]) {
    let AttentionShape { heads, kv_heads, head_size, .. } = operands.shape;
    // Columns of keys are 32 at once, those of values 32 elements at once.
    let each = operands.keys().div_ceil(SPLIT_SIDE) * (head_size / TILE_K) * 2;
    let out = DisjointSlice::new(out);
    PACKED.with_borrow_mut(|[keys, values]| {
        let (keys, values) = (keys.tiles(kv_heads * each), values.tiles(kv_heads * each));
        {
            let (keys, values) = (DisjointSlice::new(keys), DisjointSlice::new(values));
            context.threads.parallel_for(kv_heads, 1, &|range| {
                for head in range {
                    let range = head * each..(head + 1) * each;
                    // SAFETY: heads do not overlap.
                    let (keys, values) =
                        unsafe { (keys.slice_mut(range.clone()), values.slice_mut(range)) };
                    pack_keys(operands, head, keys);
                    pack_values(operands, head, values);
                }
            });
        }
        let tiles = operands.queries().div_ceil(SPLIT_SIDE);
        // Tiles of one head after the other: all cores read the same keys.
        context.threads.run(tiles * heads, &|task| {
            let (head, tile) = (task / tiles, task % tiles);
            let packed = head / operands.shape.group() * each;
            let width = operands.keys().next_multiple_of(SPLIT_SIDE);
            TILE.with_borrow_mut(|[scores, queries, weights]| {
                amx.run(Tile {
                    amx,
                    operands,
                    head,
                    first: tile * SPLIT_SIDE,
                    keys: &keys[packed..packed + each],
                    values: &values[packed..packed + each],
                    scores: scores.floats(SPLIT_SIDE * width),
                    queries: queries.halves(SPLIT_SIDE * head_size),
                    weights: weights.halves(SPLIT_SIDE * width),
                    out: &out,
                });
            });
        });
    });
}

/// Keys of a head as columns, 32 after 32: the tiles of the first sixteen, then those of the others.
fn pack_keys(operands: Operands<u16>, head: usize, out: &mut [TileB]) {
    let depth = operands.shape.head_size / TILE_K;
    for (half, tiles) in out.chunks_exact_mut(depth).enumerate() {
        for lane in 0..LANES {
            let key = half * LANES + lane;
            for (step, tile) in tiles.iter_mut().enumerate() {
                let zeros = [0; TILE_K];
                let numbers = match key < operands.keys() {
                    true => &operands.key_row(head, key)[step * TILE_K..][..TILE_K],
                    false => &zeros[..],
                };
                for (pair, line) in numbers.as_chunks::<2>().0.iter().zip(&mut tile.0) {
                    line.as_chunks_mut::<2>().0[lane] = *pair;
                }
            }
        }
    }
}

/// Values of a head as rows, sixteen elements of each after sixteen.
fn pack_values(operands: Operands<u16>, head: usize, out: &mut [TileB]) {
    let steps = operands.keys().div_ceil(SPLIT_SIDE);
    let zeros = [0; LANES];
    for (part, tiles) in out.chunks_exact_mut(steps).enumerate() {
        let elements = |key: usize| {
            if key >= operands.keys() {
                return &zeros;
            }
            let row = operands.value_row(head, key);
            row[part * LANES..].first_chunk::<LANES>().unwrap_or(&zeros)
        };
        for (step, tile) in tiles.iter_mut().enumerate() {
            for (pair, line) in tile.0.iter_mut().enumerate() {
                let key = step * TILE_K + 2 * pair;
                let (even, odd) = (elements(key), elements(key + 1));
                for (lane, out) in line.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    *out = [even[lane], odd[lane]];
                }
            }
        }
    }
}

/// 32 queries of a head.
struct Tile<'a> {
    amx: Amx,
    operands: Operands<'a, u16>,
    head: usize,
    first: usize,
    keys: &'a [TileB],
    values: &'a [TileB],
    scores: &'a mut [f32],
    queries: &'a mut [u16],
    weights: &'a mut [u16],
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Tile { amx, operands, head, first, scores, queries, weights, .. } = self;
        let AttentionShape { head_size, scale, .. } = operands.shape;
        let rows = SPLIT_SIDE.min(operands.queries() - first);
        for (row, out) in queries.chunks_exact_mut(head_size).enumerate() {
            match row < rows {
                true => round(v, amx, operands.query_row(head, first + row), scale, out),
                false => out.fill(0),
            }
        }
        let session = amx.session();
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        let width = scores.len() / SPLIT_SIDE;
        let depth = head_size / TILE_K;
        for (block, keys) in self.keys.chunks_exact(2 * depth).enumerate() {
            multiply(&session, queries, keys.split_at(depth), &mut sums);
            store_scores(v, &sums, block, scores);
        }
        let mut shares = [0.0; SPLIT_SIDE];
        let lines = scores.chunks_exact_mut(width).zip(weights.chunks_exact_mut(width));
        for ((scores, weights), share) in lines.zip(&mut shares).take(rows) {
            *share = weigh(v, scores, operands.keys());
            round(v, amx, scores, 1.0, weights);
        }
        let place = Place { shape: operands.shape, head, first };
        let steps = width / TILE_K;
        for (part, values) in self.values.chunks_exact(2 * steps).enumerate() {
            multiply(&session, weights, values.split_at(steps), &mut sums);
            // SAFETY: each task has its own queries and head.
            unsafe { place.store_sums(v, &sums, &shares[..rows], part, self.out) };
        }
    }
}

/// The products of 32 rows of bfloat16, one behind the other, with 32 columns.
#[inline(always)]
fn multiply(
    session: &AmxSession,
    rows: &[u16],
    columns: (&[TileB], &[TileB]),
    sums: &mut [TileC; 4],
) {
    let steps = columns.0.len();
    let length = steps * TILE_K;
    assert!(rows.len() == SPLIT_SIDE * length);
    let factors = TileOperands {
        rows: [rows.as_ptr(), rows[LANES * length..].as_ptr()],
        row_bytes: size_of::<u16>() * length,
        columns: [columns.0, columns.1],
        steps,
        terms: 1,
        zero_accumulators: true,
    };
    // SAFETY: sixteen rows of as many steps follow each start.
    unsafe { session.multiply(factors, sums) };
}

/// A row times a factor, rounded to bfloat16.
#[inline(always)]
fn round<V: Vector>(v: V, amx: Amx, row: &[f32], factor: f32, out: &mut [u16]) {
    for (row, out) in row.as_chunks::<TILE_K>().0.iter().zip(out.as_chunks_mut::<TILE_K>().0) {
        let mut scaled = [0.0; TILE_K];
        let halves = scaled.as_chunks_mut::<LANES>().0;
        for (row, scaled) in row.as_chunks::<LANES>().0.iter().zip(halves) {
            v.store(v.mul(v.load(row), v.splat(factor)), scaled);
        }
        amx.to_bf16(&scaled, out);
    }
}
