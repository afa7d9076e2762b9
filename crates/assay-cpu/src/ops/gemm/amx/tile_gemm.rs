//! GEMM on AMX tiles: A is read in place as bfloat16 rows, and panels of B are converted to the VNNI
//! layout of a B tile as they are needed.

use super::operands::{BLOCK_SIDE, Bf16Rows, PanelSource, TileEpilogue};
use super::store::Store;
use crate::context::Context;
use crate::simd::{Amx, AmxSession, Kernel, LANES, TILE_K, TileB, TileC, TileOperands, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Rows from which converting B for AMX pays off.
pub(crate) const MIN_AMX_ROWS: usize = 3 * LANES;
/// Steps of K in a block: two panels of B tiles stay in L1.
const K_BLOCK: usize = 20;
/// Rows per split that justify another thread's converting the same panels of B.
const MIN_ROWS_PER_SPLIT: usize = 256;

/// Scratch memory of a thread, reused from call to call.
#[derive(Default)]
struct Scratch {
    /// The current panels of B.
    columns: Vec<TileB>,
    /// Accumulators of each 32 x 32 block.
    sums: Vec<[TileC; 4]>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Writes the product of all rows of A with `columns` columns of B.
pub(crate) fn tile_gemm<P: PanelSource>(
    context: Context,
    amx: Amx,
    rows: Bf16Rows,
    panels: &P,
    columns: usize,
    finish: TileEpilogue,
    out: &mut [f32],
) {
    assert!(rows.rows >= LANES && rows.depth > 0 && rows.depth.is_multiple_of(TILE_K));
    assert!(rows.data.len() >= (rows.rows - 1) * rows.stride + rows.depth);
    let out = DisjointSlice::new(out);
    let pairs = columns.div_ceil(BLOCK_SIDE);
    // With few columns, rows are split too, so that every core has work.
    let target_splits = (8 * context.threads.count()).div_ceil(pairs.max(1));
    let splits = target_splits.min(rows.rows / MIN_ROWS_PER_SPLIT).max(1);
    let split = rows.rows.div_ceil(splits).next_multiple_of(BLOCK_SIDE);
    let splits = rows.rows.div_ceil(split);
    context.threads.parallel_for(pairs * splits, 1, &|parts| {
        SCRATCH.with_borrow_mut(|scratch| {
            for part in parts {
                let start = part % splits * split;
                amx.run(TileGemm {
                    amx,
                    rows,
                    range: start..rows.rows.min(start + split),
                    panels,
                    columns,
                    pair: part / splits,
                    finish,
                    scratch,
                    out: &out,
                });
            }
        });
    });
}

/// A range of rows by [`BLOCK_SIDE`] columns.
struct TileGemm<'a, P> {
    amx: Amx,
    rows: Bf16Rows<'a>,
    range: Range<usize>,
    panels: &'a P,
    columns: usize,
    pair: usize,
    finish: TileEpilogue<'a>,
    scratch: &'a mut Scratch,
    out: &'a DisjointSlice<'a, f32>,
}

impl<P: PanelSource> Kernel for TileGemm<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let steps = self.rows.depth / TILE_K;
        let each = steps.div_ceil(steps.div_ceil(K_BLOCK).max(1));
        let each = each.next_multiple_of(P::GRAIN).max(1);
        let count = self.range.len().div_ceil(BLOCK_SIDE);
        let Scratch { columns, sums } = self.scratch;
        let room = (2 * each * P::TERMS).max(columns.len());
        columns.resize(room, TileB([[0; TILE_K]; LANES]));
        let room = count.max(sums.len());
        sums.resize(room, std::array::from_fn(|_| TileC([[0.0; LANES]; LANES])));
        let sums = &mut sums[..count];
        {
            let session = self.amx.session();
            for first in (0..steps).step_by(each) {
                let steps = first..steps.min(first + each);
                let length = steps.len() * P::TERMS;
                let (left, right) = columns.split_at_mut(length);
                let right = &mut right[..length];
                let panel = 2 * self.pair;
                self.panels.fill(v, self.amx, panel, steps.clone(), left);
                self.panels.fill(v, self.amx, panel + 1, steps.clone(), right);
                for (index, sums) in sums.iter_mut().enumerate() {
                    let row = self.range.start + index * BLOCK_SIDE;
                    self.rows.add_products(&session, row, &steps, P::TERMS, [left, right], sums);
                }
            }
        }
        let start = self.pair * BLOCK_SIDE;
        let store = Store {
            columns: start..self.columns.min(start + BLOCK_SIDE),
            outputs: if self.finish.transposed { self.rows.rows } else { self.columns },
            finish: self.finish,
            out: self.out,
        };
        for (index, sums) in sums.iter().enumerate() {
            let row = self.range.start + index * BLOCK_SIDE;
            let starts = self.rows.starts(row);
            for (half, start) in starts.into_iter().enumerate() {
                let [left, right] = [&sums[2 * half], &sums[2 * half + 1]];
                match self.finish.transposed {
                    true => store.transposed(v, start, left, right),
                    false => store.rows(v, start, left, right),
                }
            }
        }
    }
}

impl Bf16Rows<'_> {
    /// First rows of the two A tiles at `row`; the last tiles overlap earlier ones where fewer than
    /// sixteen rows are left.
    #[inline(always)]
    fn starts(&self, row: usize) -> [usize; 2] {
        let last = self.rows - LANES;
        [row.min(last), (row + LANES).min(last)]
    }

    #[inline(always)]
    fn add_products(
        &self,
        session: &AmxSession,
        row: usize,
        steps: &Range<usize>,
        terms: usize,
        columns: [&[TileB]; 2],
        sums: &mut [TileC; 4],
    ) {
        let first = |start: usize| &self.data[start * self.stride + steps.start * TILE_K..];
        let factors = TileOperands {
            rows: self.starts(row).map(|start| first(start).as_ptr()),
            row_bytes: self.stride * size_of::<u16>(),
            columns,
            steps: steps.len(),
            terms,
            zero_accumulators: steps.start == 0,
        };
        // SAFETY: sixteen rows follow each start, and the data extend to the end of the last row.
        unsafe { session.multiply(factors, sums) };
    }
}
