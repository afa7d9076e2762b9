//! Blocked GEMM after Goto and van de Geijn (2008), "Anatomy of high-performance matrix
//! multiplication", in the form of BLIS: packed panels of both matrices, a macro-kernel per thread,
//! and a micro-kernel that keeps an MR x NR tile of the output in registers.

use super::matrix::Matrix;
use super::microkernel::{OutputTile, RegisterTile, microkernel, store_tile};
use super::packing::{chunks, pack};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::element::Load;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Depth of a packed block: long, so that each output tile is loaded and stored few times.
const KC: usize = 512;
/// Rows of A in a packed block.
const MC: usize = 4096;
/// Columns of B in a packed block: many, so that A is packed few times.
const NC: usize = 4096;
/// Rows and columns of the macro-tile that a thread takes at a time; its panels of A stay in L2.
const THREAD_ROWS: usize = 48;
const THREAD_COLUMNS: usize = 512;

thread_local! {
    /// Packed blocks of A and B, reused from call to call.
    static PACKED: RefCell<[AlignedBuffer; 2]> = RefCell::default();
}

pub(super) fn blocked_gemm<A: Load, B: Load>(
    context: Context,
    tile: RegisterTile,
    a: &Matrix<A>,
    b: &Matrix<B>,
    out: &mut [f32],
) {
    let (stride, b_transposed) = (b.columns, b.transposed());
    let (mr, nr) = (tile.mr(), tile.nr());
    let out = DisjointSlice::new(out);
    PACKED.with_borrow_mut(|[packed_a, packed_b]| {
        for columns in chunks(0..b.columns, NC) {
            for depth in chunks(0..a.columns, KC) {
                let length = columns.len().next_multiple_of(nr) * depth.len();
                let packed_b = packed_b.floats(length);
                pack(context, &b_transposed, nr, &columns, &depth, packed_b);
                for rows in chunks(0..a.rows, MC) {
                    let length = rows.len().next_multiple_of(mr) * depth.len();
                    let packed_a = packed_a.floats(length);
                    pack(context, a, mr, &rows, &depth, packed_a);
                    let block = PackedBlock {
                        tile,
                        a: packed_a,
                        b: packed_b,
                        depth: depth.len(),
                        rows: rows.len(),
                        columns: columns.len(),
                        first: rows.start * stride + columns.start,
                        stride,
                        accumulate: depth.start > 0,
                    };
                    block.multiply(context, &out);
                }
            }
        }
    });
}

/// Packed blocks of A and B, and where their product goes.
struct PackedBlock<'a> {
    tile: RegisterTile,
    a: &'a [f32],
    b: &'a [f32],
    depth: usize,
    rows: usize,
    columns: usize,
    first: usize,
    stride: usize,
    accumulate: bool,
}

impl PackedBlock<'_> {
    fn multiply(&self, context: Context, out: &DisjointSlice<f32>) {
        // `THREAD_ROWS` is a multiple of every MR, as `THREAD_COLUMNS` is of every NR.
        let (tiles_down, tiles_across) =
            (self.rows.div_ceil(THREAD_ROWS), self.columns.div_ceil(THREAD_COLUMNS));
        context.threads.run(tiles_down * tiles_across, &|task| {
            let (row, column) =
                (task % tiles_down * THREAD_ROWS, task / tiles_down * THREAD_COLUMNS);
            context.level.run(MacroTile {
                block: self,
                rows: row..(row + THREAD_ROWS).min(self.rows),
                columns: column..(column + THREAD_COLUMNS).min(self.columns),
                out,
            });
        });
    }
}

/// The macro-kernel: one thread's macro-tile of the output, register tile by register tile.
struct MacroTile<'a> {
    block: &'a PackedBlock<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for MacroTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        match self.block.tile {
            RegisterTile::Large => self.tiles::<V, 12, 2>(v),
            RegisterTile::Middle => self.tiles::<V, 6, 1>(v),
            RegisterTile::Small => self.tiles::<V, 2, 1>(v),
        }
    }
}

impl MacroTile<'_> {
    #[inline(always)]
    fn tiles<V: Vector, const MR: usize, const NR_VECTORS: usize>(&self, v: V) {
        let block = self.block;
        for column in self.columns.clone().step_by(NR_VECTORS * LANES) {
            let b = &block.b[column * block.depth..][..NR_VECTORS * LANES * block.depth];
            for row in self.rows.clone().step_by(MR) {
                let a = &block.a[row * block.depth..][..MR * block.depth];
                let target = OutputTile {
                    first: block.first + row * block.stride + column,
                    stride: block.stride,
                    rows: MR.min(self.rows.end - row),
                    columns: (NR_VECTORS * LANES).min(self.columns.end - column),
                    accumulate: block.accumulate,
                };
                target.prefetch(self.out);
                let sums = microkernel::<V, MR, NR_VECTORS>(v, a, b);
                // SAFETY: macro-tiles do not overlap, and neither do the register tiles of one.
                unsafe { store_tile(v, &sums, self.out, target) };
            }
        }
    }
}
