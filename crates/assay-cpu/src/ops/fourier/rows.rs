//! Transforms of many rows: sixteen rows in the lanes of a vector.

use super::lanes::{Lane, Work};
use super::plan::Plan;
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

/// Complex elements in sixteen floats.
const PAIRS: usize = LANES / 2;

thread_local! {
    /// The lanes of a task.
    pub(super) static WORK: RefCell<AlignedBuffer> = RefCell::default();
}

/// Which way, and what the result is multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Direction {
    pub inverse: bool,
    pub scale: f32,
}

/// Transforms rows of interleaved complex numbers.
pub(super) fn transform_rows(
    context: Context,
    plan: &Plan,
    direction: Direction,
    x: &[f32],
    out: &mut [f32],
) {
    let row = 2 * plan.length;
    let rows = x.len() / row;
    let out = DisjointSlice::new(out);
    let groups = rows.div_ceil(LANES);
    let grain = 4_096_usize.div_ceil(plan.length * LANES);
    context.threads.parallel_for(groups, grain, &|groups| {
        for group in groups {
            let range = group * LANES * row..((group + 1) * LANES).min(rows) * row;
            WORK.with_borrow_mut(|memory| {
                context.level.run(Group {
                    plan,
                    direction,
                    memory: memory.floats(Work::floats(plan.length)),
                    x: &x[range.clone()],
                    // SAFETY: groups of rows do not overlap.
                    out: unsafe { out.slice_mut(range) },
                });
            });
        }
    });
}

/// Up to sixteen rows.
struct Group<'a> {
    plan: &'a Plan,
    direction: Direction,
    memory: &'a mut [f32],
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Group<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let row = 2 * self.plan.length;
        let mut work = Work::new(self.memory, self.plan.length);
        load_rows(v, self.x, row, &mut work, self.direction.inverse);
        work.transform(v, self.plan);
        store_rows(v, &work, self.direction, row, self.out);
    }
}

/// Rows of `row` floats into lanes; the inverse transform is the transform of exchanged parts.
#[inline(always)]
pub(super) fn load_rows<V: Vector>(v: V, x: &[f32], row: usize, work: &mut Work, exchanged: bool) {
    let count = x.len() / row;
    let (re, im) = match exchanged {
        false => (&mut *work.re, &mut *work.im),
        true => (&mut *work.im, &mut *work.re),
    };
    let zeros = [0.0; LANES];
    let mut columns = [zeros; LANES];
    for first in (0..row).step_by(LANES) {
        if first + LANES > row {
            for lane in 0..LANES {
                for column in first..row {
                    let value = if lane < count { x[lane * row + column] } else { 0.0 };
                    columns[column - first][lane] = value;
                }
            }
        } else {
            let mut lines = [&zeros; LANES];
            for (lane, line) in lines.iter_mut().enumerate().take(count) {
                if let Some(chunk) = x[lane * row + first..].first_chunk() {
                    *line = chunk;
                }
            }
            v.transpose(lines, &mut columns);
        }
        let pairs = columns.as_chunks::<2>().0.iter().take((row - first) / 2);
        for (index, [real, imaginary]) in pairs.enumerate() {
            re[first / 2 + index] = *real;
            im[first / 2 + index] = *imaginary;
        }
    }
}

/// The lanes back to rows, times the scale.
#[inline(always)]
fn store_rows<V: Vector>(v: V, work: &Work, direction: Direction, row: usize, out: &mut [f32]) {
    let count = out.len() / row;
    let (re, im) = match direction.inverse {
        false => (&*work.re, &*work.im),
        true => (&*work.im, &*work.re),
    };
    let scale = v.splat(direction.scale);
    let mut columns = [[0.0; LANES]; LANES];
    let mut lines = [[0.0; LANES]; LANES];
    for first in (0..row / 2).step_by(PAIRS) {
        let pairs = PAIRS.min(row / 2 - first);
        for pair in 0..pairs {
            v.store(v.mul(v.load(&re[first + pair]), scale), &mut columns[2 * pair]);
            v.store(v.mul(v.load(&im[first + pair]), scale), &mut columns[2 * pair + 1]);
        }
        v.transpose(columns.each_ref(), &mut lines);
        for (lane, line) in lines.iter().enumerate().take(count) {
            let start = lane * row + 2 * first;
            out[start..start + 2 * pairs].copy_from_slice(&line[..2 * pairs]);
        }
    }
}

/// Up to sixteen interleaved complex numbers, as parts.
#[inline(always)]
pub(super) fn split(from: &[f32], re: &mut Lane, im: &mut Lane) {
    match from.first_chunk::<{ 2 * LANES }>() {
        Some(from) => {
            for lane in 0..LANES {
                re[lane] = from[2 * lane];
                im[lane] = from[2 * lane + 1];
            }
        }
        None => {
            for (lane, pair) in from.as_chunks::<2>().0.iter().enumerate() {
                (re[lane], im[lane]) = (pair[0], pair[1]);
            }
        }
    }
}

/// Parts as up to sixteen interleaved complex numbers.
#[inline(always)]
pub(super) fn join(re: &Lane, im: &Lane, to: &mut [f32]) {
    match to.first_chunk_mut::<{ 2 * LANES }>() {
        Some(to) => {
            for lane in 0..LANES {
                to[2 * lane] = re[lane];
                to[2 * lane + 1] = im[lane];
            }
        }
        None => {
            for (lane, pair) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *pair = [re[lane], im[lane]];
            }
        }
    }
}
