//! Attention with a bias for each pair and a gate for each query, over rows or columns of an alignment.

use super::block::{load, store};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::softmax::{exponentials, largest};
use crate::ops::transposing::transpose;
use crate::simd::{Kernel, LANES, Vector, logistic};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

const OPERATION: &str = "gated_attention";
/// Vectors of scores that stay in registers.
const SCORES_AT_ONCE: usize = 8;

thread_local! {
    /// Keys as columns, values, and scores of a query.
    static HEAD: RefCell<[AlignedBuffer; 3]> = RefCell::default();
}

/// Sequences of rows, and heads of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttentionAxis {
    /// Rows are those of a plane of so many rows ...
    pub rows: usize,
    /// ... and columns.
    pub columns: usize,
    /// Whether columns attend to each other, and not rows.
    pub along_columns: bool,
    /// Heads of a row.
    pub heads: usize,
    /// Elements of a head.
    pub head_size: usize,
}

impl AttentionAxis {
    /// Sequences, and the rows of each.
    fn extents(&self) -> (usize, usize) {
        match self.along_columns {
            true => (self.columns, self.rows),
            false => (self.rows, self.columns),
        }
    }

    /// Where a row of a sequence is.
    fn place(&self, sequence: usize, row: usize) -> usize {
        match self.along_columns {
            true => row * self.columns + sequence,
            false => sequence * self.columns + row,
        }
    }
}

/// Writes softmax(scale q k + bias) v sigmoid(gate). A row of `projected`, [rows, columns, 4 heads x head_size], has
/// all queries, keys, values and gates; the bias is [heads, length, length].
pub fn gated_attention(
    context: Context,
    axis: AttentionAxis,
    scale: f32,
    projected: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<()> {
    let AttentionAxis { rows, columns, heads, head_size, .. } = axis;
    let (sequences, length) = axis.extents();
    check_value(OPERATION, "head_size", head_size > 0, "at least 1", head_size)?;
    check_length(OPERATION, "projected", projected.len(), &[rows, columns, 4, heads, head_size])?;
    check_length(OPERATION, "out", out.len(), &[rows, columns, heads, head_size])?;
    if let Some(bias) = bias {
        check_length(OPERATION, "bias", bias.len(), &[heads, length, length])?;
    }
    let out = DisjointSlice::new(out);
    context.threads.run(sequences, &|sequence| {
        HEAD.with_borrow_mut(|buffers| {
            for head in 0..heads {
                let bias = bias.map(|bias| &bias[head * length * length..][..length * length]);
                let rows = Rows { axis, projected, sequence, head };
                context.level.run(Head { rows, scale, bias, out: &out, buffers });
            }
        });
    });
    Ok(())
}

/// The rows of a head of a sequence.
#[derive(Clone, Copy)]
struct Rows<'a> {
    axis: AttentionAxis,
    projected: &'a [f32],
    sequence: usize,
    head: usize,
}

/// A head of a sequence.
struct Head<'a> {
    rows: Rows<'a>,
    scale: f32,
    bias: Option<&'a [f32]>,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 3],
}

impl<'a> Rows<'a> {
    /// A row's part: 0 queries, 1 keys, 2 values, 3 gates.
    #[inline(always)]
    fn part(&self, row: usize, part: usize) -> &'a [f32] {
        let AttentionAxis { heads, head_size, .. } = self.axis;
        let place = self.axis.place(self.sequence, row);
        &self.projected[((place * 4 + part) * heads + self.head) * head_size..][..head_size]
    }
}

impl Kernel for Head<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Head { rows, bias, scale, buffers, .. } = self;
        let [keys, values, scores] = buffers;
        let AttentionAxis { heads, head_size, .. } = rows.axis;
        let (_, length) = rows.axis.extents();
        let (width, lanes) = (length.next_multiple_of(LANES), head_size.next_multiple_of(LANES));
        let (keys, values) = (keys.floats(head_size * width), values.floats(width * lanes));
        // Rows of values are where keys wait to be transposed first.
        values[length * head_size..].fill(0.0);
        for row in 0..length {
            values[row * head_size..][..head_size].copy_from_slice(rows.part(row, 1));
        }
        transpose(v, values, head_size, width, head_size, keys);
        for row in 0..length {
            let line = &mut values[row * lanes..][..lanes];
            line[..head_size].copy_from_slice(rows.part(row, 2));
            line[head_size..].fill(0.0);
        }
        let scores = scores.floats(width);
        for row in 0..length {
            let query = rows.part(row, 0);
            let bias = bias.map(|bias| &bias[row * length..(row + 1) * length]);
            score(v, query, scale, bias, keys, scores);
            let scores = &mut scores[..length];
            let most = largest(v, scores);
            let share = v.splat(1.0 / exponentials(v, scores, most));
            let gates = rows.part(row, 3);
            let place = rows.axis.place(rows.sequence, row);
            let start = (place * heads + rows.head) * head_size;
            // SAFETY: each task has its own sequence, and each call its own head.
            let out = unsafe { self.out.slice_mut(start..start + head_size) };
            for (index, (out, gate)) in out.chunks_mut(LANES).zip(gates.chunks(LANES)).enumerate() {
                let mixed = mix(v, scores, values, lanes, index * LANES);
                let gate = logistic(v, load(v, gate));
                store(v, v.mul(v.mul(mixed, share), gate), out);
            }
        }
    }
}

/// Scores of a query with all keys, which are columns; those beyond the last are of no use.
#[inline(always)]
fn score<V: Vector>(
    v: V,
    query: &[f32],
    scale: f32,
    bias: Option<&[f32]>,
    keys: &[f32],
    scores: &mut [f32],
) {
    let width = scores.len();
    let mut first = 0;
    while first < width {
        let count = SCORES_AT_ONCE.min((width - first) / LANES);
        let mut sums = [v.splat(0.0); SCORES_AT_ONCE];
        if let Some(bias) = bias {
            for (index, sum) in sums.iter_mut().take(count).enumerate() {
                let at = first + index * LANES;
                *sum = load(v, &bias[at..bias.len().min(at + LANES)]);
            }
        }
        if count == SCORES_AT_ONCE {
            for (query, keys) in query.iter().zip(keys.chunks_exact(width)) {
                let query = v.splat(query * scale);
                let keys = keys[first..].as_chunks::<LANES>().0;
                for (sum, keys) in sums.iter_mut().zip(keys) {
                    *sum = v.mul_add(query, v.load(keys), *sum);
                }
            }
        } else {
            for (query, keys) in query.iter().zip(keys.chunks_exact(width)) {
                let query = v.splat(query * scale);
                let keys = keys[first..].as_chunks::<LANES>().0;
                for (sum, keys) in sums.iter_mut().zip(keys).take(count) {
                    *sum = v.mul_add(query, v.load(keys), *sum);
                }
            }
        }
        let scores = scores[first..].as_chunks_mut::<LANES>().0;
        for (sum, scores) in sums.iter().zip(scores) {
            v.store(*sum, scores);
        }
        first += count * LANES;
    }
}

/// The sum of sixteen columns of values, weighted, in four independent chains.
#[inline(always)]
fn mix<V: Vector>(v: V, weights: &[f32], values: &[f32], width: usize, first: usize) -> V::F {
    let mut sums = [v.splat(0.0); 4];
    let (fours, rest) = weights.as_chunks::<4>();
    let value = |row: usize| load(v, &values[row * width + first..][..LANES]);
    for (group, weights) in fours.iter().enumerate() {
        for (chain, weight) in weights.iter().enumerate() {
            sums[chain] = v.mul_add(v.splat(*weight), value(4 * group + chain), sums[chain]);
        }
    }
    for (index, weight) in rest.iter().enumerate() {
        sums[0] = v.mul_add(v.splat(*weight), value(4 * fours.len() + index), sums[0]);
    }
    v.add(v.add(sums[0], sums[1]), v.add(sums[2], sums[3]))
}
