//! Products of many rows on matrix tiles: rows of bfloat16 where they lie, and columns that are brought
//! into the order of tiles as they are needed.

mod narrow;
mod store;

pub(crate) use narrow::with_narrow_rows;

use super::{Context, Epilogue};
use crate::simd::{
    Kernel, LANES, STEP, Sums, TileColumns, TileFactors, TileSession, Tiles, Vector,
};
use crate::threads::Disjoint;
use std::cell::RefCell;
use std::ops::Range;
use store::Store;

/// Rows from which tiles are worth bringing columns into their order.
pub(crate) const TILE_ROWS: usize = 3 * LANES;
/// Rows and columns that are multiplied at a time: two tiles by two.
const SIDE: usize = 2 * LANES;
/// About as many steps as let the columns of [`SIDE`] stay in the first cache.
const BLOCK: usize = 20;
/// Rows that are worth bringing the same columns into order once more, by another thread.
const LEAST_ROWS: usize = 256;

/// The right side of a product: numbers of sixteen columns at a time.
pub(crate) trait Panels: Sync {
    /// Bfloat16 numbers that a number is the sum of.
    const TERMS: usize = 1;
    /// Steps are filled in multiples of this.
    const GRAIN: usize = 1;

    /// Writes some steps of the columns from `16 panel` on, for each term; whatever there is in place of
    /// columns that are not there.
    fn fill<V: Vector>(
        &self,
        v: V,
        tiles: Tiles,
        panel: usize,
        steps: Range<usize>,
        out: &mut [TileColumns],
    );
}

/// Rows of bfloat16 in memory, a multiple of [`STEP`] numbers and at least sixteen of them.
#[derive(Clone, Copy)]
pub(crate) struct TileRows<'a> {
    pub data: &'a [u16],
    pub rows: usize,
    pub depth: usize,
    /// Numbers from one row to the next.
    pub stride: usize,
}

/// What becomes of sums: times a number for each output, then the rest of a linear layer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Finish<'a> {
    /// Whether rows of the product are columns of the output.
    pub turned: bool,
    pub scales: Option<&'a [f32]>,
    pub epilogue: Epilogue<'a>,
}

impl Finish<'_> {
    fn is_plain(&self) -> bool {
        self.scales.is_none() && self.epilogue.is_empty()
    }
}

/// Memory of a thread, kept from call to call.
#[derive(Default)]
struct Scratch {
    /// The columns at hand.
    columns: Vec<TileColumns>,
    /// Their sums with two times sixteen rows each.
    sums: Vec<[Sums; 4]>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Writes the products of all rows with `columns` columns.
pub(crate) fn multiply<P: Panels>(
    context: Context,
    tiles: Tiles,
    rows: TileRows,
    panels: &P,
    columns: usize,
    finish: Finish,
    out: &mut [f32],
) {
    assert!(rows.rows >= LANES && rows.depth > 0 && rows.depth.is_multiple_of(STEP));
    assert!(rows.data.len() >= (rows.rows - 1) * rows.stride + rows.depth);
    let out = Disjoint::new(out);
    let pairs = columns.div_ceil(SIDE);
    // Where columns are few, rows are divided too, so that every core has some.
    let wanted = (8 * context.threads.count()).div_ceil(pairs.max(1));
    let splits = wanted.min(rows.rows / LEAST_ROWS).max(1);
    let split = rows.rows.div_ceil(splits).next_multiple_of(SIDE);
    let splits = rows.rows.div_ceil(split);
    context.threads.ranges(pairs * splits, 1, &|parts| {
        SCRATCH.with_borrow_mut(|scratch| {
            for part in parts {
                let start = part % splits * split;
                tiles.run(Product {
                    tiles,
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

/// Some rows by [`SIDE`] columns.
struct Product<'a, P> {
    tiles: Tiles,
    rows: TileRows<'a>,
    range: Range<usize>,
    panels: &'a P,
    columns: usize,
    pair: usize,
    finish: Finish<'a>,
    scratch: &'a mut Scratch,
    out: &'a Disjoint<'a, f32>,
}

impl<P: Panels> Kernel for Product<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let steps = self.rows.depth / STEP;
        let each = steps.div_ceil(steps.div_ceil(BLOCK).max(1));
        let each = each.next_multiple_of(P::GRAIN).max(1);
        let count = self.range.len().div_ceil(SIDE);
        let Scratch { columns, sums } = self.scratch;
        let room = (2 * each * P::TERMS).max(columns.len());
        columns.resize(room, TileColumns([[0; STEP]; LANES]));
        let room = count.max(sums.len());
        sums.resize(room, std::array::from_fn(|_| Sums([[0.0; LANES]; LANES])));
        let sums = &mut sums[..count];
        {
            let session = self.tiles.session();
            for first in (0..steps).step_by(each) {
                let steps = first..steps.min(first + each);
                let length = steps.len() * P::TERMS;
                let (left, right) = columns.split_at_mut(length);
                let right = &mut right[..length];
                let panel = 2 * self.pair;
                self.panels.fill(v, self.tiles, panel, steps.clone(), left);
                self.panels
                    .fill(v, self.tiles, panel + 1, steps.clone(), right);
                for (index, sums) in sums.iter_mut().enumerate() {
                    let row = self.range.start + index * SIDE;
                    self.rows
                        .add_products(&session, row, &steps, P::TERMS, [left, right], sums);
                }
            }
        }
        let start = self.pair * SIDE;
        let store = Store {
            columns: start..self.columns.min(start + SIDE),
            outputs: if self.finish.turned {
                self.rows.rows
            } else {
                self.columns
            },
            finish: self.finish,
            out: self.out,
        };
        for (index, sums) in sums.iter().enumerate() {
            let row = self.range.start + index * SIDE;
            let starts = self.rows.starts(row);
            for (half, start) in starts.into_iter().enumerate() {
                let [left, right] = [&sums[2 * half], &sums[2 * half + 1]];
                match self.finish.turned {
                    true => store.turned(v, start, left, right),
                    false => store.straight(v, start, left, right),
                }
            }
        }
    }
}

impl TileRows<'_> {
    /// Where the two times sixteen rows from `row` on begin; the last ones, which may have been taken
    /// before, where fewer are left.
    #[inline(always)]
    fn starts(&self, row: usize) -> [usize; 2] {
        let last = self.rows - LANES;
        [row.min(last), (row + LANES).min(last)]
    }

    #[inline(always)]
    fn add_products(
        &self,
        session: &TileSession,
        row: usize,
        steps: &Range<usize>,
        terms: usize,
        columns: [&[TileColumns]; 2],
        sums: &mut [Sums; 4],
    ) {
        let first = |start: usize| &self.data[start * self.stride + steps.start * STEP..];
        let factors = TileFactors {
            rows: self.starts(row).map(|start| first(start).as_ptr()),
            row_bytes: self.stride * size_of::<u16>(),
            columns,
            steps: steps.len(),
            terms,
            fresh: steps.start == 0,
        };
        // SAFETY: sixteen rows follow each start, and the data reach to the end of the last row.
        unsafe { session.multiply(factors, sums) };
    }
}
