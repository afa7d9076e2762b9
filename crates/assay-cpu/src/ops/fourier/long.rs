//! A long row as a matrix (Bailey 1990): transforms of its columns, a rotation, transforms of its rows,
//! and the result transposed; each step takes sixteen columns or rows at once.

use super::lanes::{Work, times};
use super::plan::{Plan, factors, root};
use super::rows::{Direction, WORK, join, load_rows, split};
use crate::context::Context;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::ops::Range;
use std::sync::Arc;

/// A length as a product, and roots of unity by high and low digits of their exponent.
pub(super) struct Matrix {
    rows: Arc<Plan>,
    columns: Arc<Plan>,
    digits: u32,
    high: Vec<[f32; 2]>,
    low: Vec<[f32; 2]>,
}

impl Matrix {
    /// The most square factorization of a length.
    pub fn of(length: usize) -> Option<Matrix> {
        let mut rows = 1;
        for factor in factors(length)?.into_iter().rev() {
            if rows * factor * rows * factor <= length || rows == 1 {
                rows *= factor;
            }
        }
        let digits = length.ilog2().div_ceil(2);
        let count = (length >> digits) + 1;
        Some(Matrix {
            rows: Plan::of(rows)?,
            columns: Plan::of(length / rows)?,
            digits,
            high: (0..count).map(|high| root((high << digits) as u64, length as u64)).collect(),
            low: (0..1 << digits).map(|low| root(low, length as u64)).collect(),
        })
    }

    /// Transforms a row of interleaved complex numbers; `middle` is memory of the same size.
    pub fn transform(
        &self,
        context: Context,
        direction: Direction,
        x: &[f32],
        middle: &mut [f32],
        out: &mut [f32],
    ) {
        let (rows, columns) = (self.rows.length, self.columns.length);
        let shared = DisjointSlice::new(middle);
        context.threads.run(columns.div_ceil(LANES), &|task| {
            let lanes = task * LANES..((task + 1) * LANES).min(columns);
            WORK.with_borrow_mut(|memory| {
                let memory = memory.floats(Work::floats(rows));
                let out = &shared;
                let exchanged = direction.inverse;
                context.level.run(Columns { matrix: self, exchanged, memory, lanes, x, out });
            });
        });
        let (middle, out) = (&*middle, DisjointSlice::new(out));
        context.threads.run(rows.div_ceil(LANES), &|task| {
            let lanes = task * LANES..((task + 1) * LANES).min(rows);
            WORK.with_borrow_mut(|memory| {
                let memory = memory.floats(Work::floats(columns));
                context.level.run(Rows {
                    matrix: self,
                    direction,
                    memory,
                    lanes,
                    middle,
                    out: &out,
                });
            });
        });
    }
}

/// The transforms of some columns, rotated.
struct Columns<'a> {
    matrix: &'a Matrix,
    exchanged: bool,
    memory: &'a mut [f32],
    lanes: Range<usize>,
    x: &'a [f32],
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (rows, columns) = (self.matrix.rows.length, self.matrix.columns.length);
        let mut work = Work::new(self.memory, rows);
        let line = |row: usize| {
            2 * (row * columns + self.lanes.start)..2 * (row * columns + self.lanes.end)
        };
        for row in 0..rows {
            let (re, im) = match self.exchanged {
                false => (&mut work.re[row], &mut work.im[row]),
                true => (&mut work.im[row], &mut work.re[row]),
            };
            split(&self.x[line(row)], re, im);
        }
        work.transform(v, &self.matrix.rows);
        let mask = (1_usize << self.matrix.digits) - 1;
        for row in 0..rows {
            let (mut cosines, mut sines) = ([1.0; LANES], [0.0; LANES]);
            for (lane, column) in self.lanes.clone().enumerate() {
                let exponent = row * column;
                let [a, b] = self.matrix.high[exponent >> self.matrix.digits];
                let [c, d] = self.matrix.low[exponent & mask];
                cosines[lane] = a * c - b * d;
                sines[lane] = a * d + b * c;
            }
            let (re, im) = (v.load(&work.re[row]), v.load(&work.im[row]));
            let (cosine, sine) = (v.load(&cosines), v.load(&sines));
            let (mut to_re, mut to_im) = ([0.0; LANES], [0.0; LANES]);
            v.store(v.sub(v.mul(re, cosine), v.mul(im, sine)), &mut to_re);
            v.store(v.mul_add(re, sine, v.mul(im, cosine)), &mut to_im);
            // SAFETY: tasks have different columns.
            join(&to_re, &to_im, unsafe { self.out.slice_mut(line(row)) });
        }
    }
}

/// The transforms of some rows, transposed.
struct Rows<'a> {
    matrix: &'a Matrix,
    direction: Direction,
    memory: &'a mut [f32],
    lanes: Range<usize>,
    middle: &'a [f32],
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (rows, columns) = (self.matrix.rows.length, self.matrix.columns.length);
        let mut work = Work::new(self.memory, columns);
        let middle = &self.middle[2 * self.lanes.start * columns..2 * self.lanes.end * columns];
        load_rows(v, middle, 2 * columns, &mut work, false);
        work.transform(v, &self.matrix.columns);
        for column in 0..columns {
            let pair = (v.load(&work.re[column]), v.load(&work.im[column]));
            let pair = times(v, pair, [self.direction.scale, 0.0]);
            let (mut re, mut im) = ([0.0; LANES], [0.0; LANES]);
            v.store(pair.0, &mut re);
            v.store(pair.1, &mut im);
            if self.direction.inverse {
                std::mem::swap(&mut re, &mut im);
            }
            let line = column * rows + self.lanes.start..column * rows + self.lanes.end;
            // SAFETY: tasks have different rows.
            join(&re, &im, unsafe { self.out.slice_mut(2 * line.start..2 * line.end) });
        }
    }
}
