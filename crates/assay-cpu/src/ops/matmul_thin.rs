//! Products with few rows on the left: the right matrix is read once, and each thread packs what it is
//! about to multiply, so that nobody waits for packing.

use super::Context;
use super::element::Element;
use super::matmul::{Matrix, Tile, pack, pieces};
use super::microkernel::{Target, store_tile, tile};
use super::packing::pack_rows;
use crate::aligned::Aligned;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::Disjoint;
use std::cell::RefCell;
use std::ops::Range;

/// Rows below which packing the right matrix for all threads costs more than it saves.
pub(super) const FEW_ROWS: usize = 192;
/// How much of the inner dimension is packed at a time: a strip of it stays in the first cache.
const DEPTH: usize = 128;
/// Strips that a thread takes at a time, most: neighbors share pages of the right matrix.
const MOST_STRIPS: usize = 8;

thread_local! {
    /// The left matrix, packed whole.
    static LEFT: RefCell<Aligned> = RefCell::default();
    /// The strip at hand.
    static STRIP: RefCell<Aligned> = RefCell::default();
}

pub(super) fn thin<A: Element, B: Element>(
    context: Context,
    tile: Tile,
    a: &Matrix<A>,
    b: &Matrix<B>,
    out: &mut [f32],
) {
    let height = a.rows.next_multiple_of(tile.rows());
    let right = b.transposed();
    let out = Disjoint::new(out);
    LEFT.with_borrow_mut(|left| {
        let left = left.floats(height * a.columns);
        for depth in pieces(0..a.columns, DEPTH) {
            let part = &mut left[height * depth.start..height * depth.end];
            pack(context, a, tile.rows(), &(0..a.rows), &depth, part);
        }
        let strips = b.columns.div_ceil(tile.columns());
        let most = strips.div_ceil(4 * context.threads.count());
        let each = most.clamp(1, MOST_STRIPS);
        context.threads.ranges(strips.div_ceil(each), 1, &|groups| {
            STRIP.with_borrow_mut(|strip| {
                let strip = strip.floats(tile.columns() * DEPTH.min(a.columns));
                for group in groups {
                    let strips = group * each..strips.min((group + 1) * each);
                    for depth in pieces(0..a.columns, DEPTH) {
                        for index in strips.clone() {
                            let start = index * tile.columns();
                            let columns = start..b.columns.min(start + tile.columns());
                            let strip = &mut strip[..tile.columns() * depth.len()];
                            pack_strip(tile, &right, columns.clone(), depth.clone(), strip);
                            context.level.run(Strip {
                                tile,
                                left: &left[height * depth.start..height * depth.end],
                                right: strip,
                                rows: a.rows,
                                stride: b.columns,
                                columns,
                                depth: depth.clone(),
                                out: &out,
                            });
                        }
                    }
                }
            });
        });
    });
}

fn pack_strip<B: Element>(
    tile: Tile,
    right: &Matrix<B>,
    columns: Range<usize>,
    depth: Range<usize>,
    out: &mut [f32],
) {
    match tile {
        Tile::Large => pack_rows::<B, { 2 * LANES }>(right, columns, depth, out),
        Tile::Middle | Tile::Small => pack_rows::<B, LANES>(right, columns, depth, out),
    }
}

/// All rows by the columns of a packed strip.
struct Strip<'a> {
    tile: Tile,
    left: &'a [f32],
    right: &'a [f32],
    rows: usize,
    stride: usize,
    columns: Range<usize>,
    depth: Range<usize>,
    out: &'a Disjoint<'a, f32>,
}

impl Kernel for Strip<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        match self.tile {
            Tile::Large => self.tiles::<V, 12, 2>(v),
            Tile::Middle => self.tiles::<V, 6, 1>(v),
            Tile::Small => self.tiles::<V, 2, 1>(v),
        }
    }
}

impl Strip<'_> {
    #[inline(always)]
    fn tiles<V: Vector, const ROWS: usize, const WIDE: usize>(&self, v: V) {
        let panels = self.left.chunks_exact(ROWS * self.depth.len());
        for (index, left) in panels.enumerate() {
            let row = index * ROWS;
            let target = Target {
                first: row * self.stride + self.columns.start,
                stride: self.stride,
                rows: ROWS.min(self.rows - row),
                columns: self.columns.len(),
                add: self.depth.start > 0,
            };
            target.prefetch(self.out);
            let sums = tile::<V, ROWS, WIDE>(v, left, self.right);
            // SAFETY: strips do not share columns, and tiles of a strip do not share rows.
            unsafe { store_tile(v, &sums, self.out, target) };
        }
    }
}
