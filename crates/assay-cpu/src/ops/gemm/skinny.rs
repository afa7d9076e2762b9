//! Skinny GEMM: few rows of A. B is read once, and each thread packs the panel of B that it is about
//! to multiply, so that no thread waits for packing.

use super::matrix::Matrix;
use super::microkernel::{OutputTile, RegisterTile, microkernel, store_tile};
use super::packing::{chunks, pack, pack_panels};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::element::Load;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Rows of A below which packing B for all threads costs more than it saves.
pub(super) const SKINNY_ROWS: usize = 192;
/// Depth of a packed panel of B, which stays in L1.
const KC: usize = 128;
/// The most panels of B that a thread takes at a time; adjacent panels share memory pages.
const MAX_PANELS: usize = 8;

thread_local! {
    /// All of A, packed.
    static PACKED_A: RefCell<AlignedBuffer> = RefCell::default();
    /// The current panel of B, packed.
    static PACKED_B: RefCell<AlignedBuffer> = RefCell::default();
}

pub(super) fn skinny_gemm<A: Load, B: Load>(
    context: Context,
    tile: RegisterTile,
    a: &Matrix<A>,
    b: &Matrix<B>,
    out: &mut [f32],
) {
    let height = a.rows.next_multiple_of(tile.mr());
    let packed_b = b.transposed();
    let out = DisjointSlice::new(out);
    PACKED_A.with_borrow_mut(|buffer| {
        let packed_a = buffer.floats(height * a.columns);
        for depth in chunks(0..a.columns, KC) {
            let part = &mut packed_a[height * depth.start..height * depth.end];
            pack(context, a, tile.mr(), &(0..a.rows), &depth, part);
        }
        let panels = b.columns.div_ceil(tile.nr());
        let most = panels.div_ceil(4 * context.threads.count());
        let each = most.clamp(1, MAX_PANELS);
        context.threads.parallel_for(panels.div_ceil(each), 1, &|groups| {
            PACKED_B.with_borrow_mut(|panel| {
                let panel = panel.floats(tile.nr() * KC.min(a.columns));
                for group in groups {
                    let panels = group * each..panels.min((group + 1) * each);
                    for depth in chunks(0..a.columns, KC) {
                        for index in panels.clone() {
                            let start = index * tile.nr();
                            let columns = start..b.columns.min(start + tile.nr());
                            let panel = &mut panel[..tile.nr() * depth.len()];
                            pack_strip(tile, &packed_b, columns.clone(), depth.clone(), panel);
                            context.level.run(PanelProduct {
                                tile,
                                packed_a: &packed_a[height * depth.start..height * depth.end],
                                packed_b: panel,
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

fn pack_strip<B: Load>(
    tile: RegisterTile,
    packed_b: &Matrix<B>,
    columns: Range<usize>,
    depth: Range<usize>,
    out: &mut [f32],
) {
    match tile {
        RegisterTile::Large => pack_panels::<B, { 2 * LANES }>(packed_b, columns, depth, out),
        RegisterTile::Middle | RegisterTile::Small => {
            pack_panels::<B, LANES>(packed_b, columns, depth, out)
        }
    }
}

/// All rows of A by one packed panel of B.
struct PanelProduct<'a> {
    tile: RegisterTile,
    packed_a: &'a [f32],
    packed_b: &'a [f32],
    rows: usize,
    stride: usize,
    columns: Range<usize>,
    depth: Range<usize>,
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for PanelProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        match self.tile {
            RegisterTile::Large => self.tiles::<V, 12, 2>(v),
            RegisterTile::Middle => self.tiles::<V, 6, 1>(v),
            RegisterTile::Small => self.tiles::<V, 2, 1>(v),
        }
    }
}

impl PanelProduct<'_> {
    #[inline(always)]
    fn tiles<V: Vector, const MR: usize, const NR_VECTORS: usize>(&self, v: V) {
        let panels = self.packed_a.chunks_exact(MR * self.depth.len());
        for (index, packed_a) in panels.enumerate() {
            let row = index * MR;
            let target = OutputTile {
                first: row * self.stride + self.columns.start,
                stride: self.stride,
                rows: MR.min(self.rows - row),
                columns: self.columns.len(),
                accumulate: self.depth.start > 0,
            };
            target.prefetch(self.out);
            let sums = microkernel::<V, MR, NR_VECTORS>(v, packed_a, self.packed_b);
            // SAFETY: panels do not share columns, and tiles of a panel do not share rows.
            unsafe { store_tile(v, &sums, self.out, target) };
        }
    }
}
