//! Attention with a bias for each pair and a gate for each query, over rows or columns of an alignment.

use super::block::{load, store};
use super::columns::{Lanes, gather, lanes, reduce, scatter};
use super::exponential::exponential;
use super::product::{BLOCK_LANES, multiply};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector, logistic};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

const OPERATION: &str = "gated_attention";

thread_local! {
    /// The bias of all heads: queries are columns.
    static BIAS: RefCell<AlignedBuffer> = RefCell::default();
    static SEQUENCE: RefCell<SequenceBuffers> = RefCell::default();
}

/// What a sequence is computed in.
#[derive(Default)]
struct SequenceBuffers {
    /// Rows of all heads.
    rows: AlignedBuffer,
    /// Results of all heads.
    out: AlignedBuffer,
    /// Keys and values of a head; queries of a block, their scores and results.
    head: [AlignedBuffer; 5],
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
    if out.is_empty() {
        return Ok(());
    }
    let out = DisjointSlice::new(out);
    let plane = length.next_multiple_of(BLOCK_LANES) / LANES * length;
    BIAS.with_borrow_mut(|columns| {
        let bias = bias.map(|bias| {
            let to = lanes(columns, heads * plane);
            context.level.run(Biases { bias, length, plane, to });
            &*to
        });
        context.threads.run(sequences, &|sequence| {
            SEQUENCE.with_borrow_mut(|buffers| {
                let out = &out;
                context.level.run(Sequence {
                    axis,
                    projected,
                    scale,
                    bias,
                    sequence,
                    out,
                    buffers,
                });
            });
        });
    });
    Ok(())
}

/// The bias of all heads, whose queries become columns.
struct Biases<'a> {
    bias: &'a [f32],
    length: usize,
    plane: usize,
    to: &'a mut [Lanes],
}

impl Kernel for Biases<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let length = self.length;
        let heads = self.bias.chunks_exact(length * length);
        for (bias, to) in heads.zip(self.to.chunks_exact_mut(self.plane)) {
            gather(v, length, length, |query| &bias[query * length..(query + 1) * length], to);
        }
    }
}

/// The attention of one sequence.
struct Sequence<'a> {
    axis: AttentionAxis,
    projected: &'a [f32],
    scale: f32,
    /// Panels of queries by keys, for each head.
    bias: Option<&'a [Lanes]>,
    sequence: usize,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut SequenceBuffers,
}

impl Kernel for Sequence<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Sequence { axis, scale, buffers, .. } = self;
        let (_, length) = axis.extents();
        let width = axis.heads * axis.head_size;
        let SequenceBuffers { rows, out: own, head } = buffers;
        // Rows of a column are as far as caches have sets: heads read and write copies of them.
        let rows = rows.floats(length * 4 * width);
        for (row, to) in rows.chunks_exact_mut(4 * width).enumerate() {
            let first = axis.place(self.sequence, row) * 4 * width;
            to.copy_from_slice(&self.projected[first..first + 4 * width]);
        }
        let own = own.floats(length * width);
        let plane = self.bias.map_or(0, |bias| bias.len() / axis.heads);
        for head_index in 0..axis.heads {
            let bias = self.bias.map(|bias| &bias[head_index * plane..][..plane]);
            let rows = Rows { rows: &*rows, axis, head: head_index };
            attend(v, rows, scale, bias, own, head);
        }
        for (row, own) in own.chunks_exact(width).enumerate() {
            let first = axis.place(self.sequence, row) * width;
            // SAFETY: each task has its own sequence.
            unsafe { self.out.slice_mut(first..first + width) }.copy_from_slice(own);
        }
    }
}

/// The rows of a head, each a query, a key, a value and a gate.
#[derive(Clone, Copy)]
struct Rows<'a> {
    rows: &'a [f32],
    axis: AttentionAxis,
    head: usize,
}

impl<'a> Rows<'a> {
    /// The query, key, value or gate of a row.
    fn part(self, row: usize, part: usize) -> &'a [f32] {
        let AttentionAxis { heads, head_size, .. } = self.axis;
        &self.rows[((row * 4 + part) * heads + self.head) * head_size..][..head_size]
    }
}

/// Writes the gated attention of a head to rows of all heads.
#[inline(always)]
fn attend<V: Vector>(
    v: V,
    rows: Rows,
    scale: f32,
    bias: Option<&[Lanes]>,
    out: &mut [f32],
    buffers: &mut [AlignedBuffer; 5],
) {
    let [keys, values, queries, scores, mixed] = buffers;
    let AttentionAxis { heads, head_size, .. } = rows.axis;
    let (_, length) = rows.axis.extents();
    let keys = lanes(keys, length.div_ceil(LANES) * head_size);
    let values = lanes(values, head_size.div_ceil(LANES) * length);
    let (queries, scores) = (lanes(queries, 2 * head_size), lanes(scores, 2 * length));
    let mixed = lanes(mixed, 2 * head_size);
    gather(v, length, head_size, |row| rows.part(row, 1), keys);
    for (panel, values) in values.chunks_exact_mut(length).enumerate() {
        for (row, to) in values.iter_mut().enumerate() {
            let part = &rows.part(row, 2)[panel * LANES..];
            v.store(load(v, &part[..part.len().min(LANES)]), to);
        }
    }
    for first in (0..length).step_by(BLOCK_LANES) {
        let count = BLOCK_LANES.min(length - first);
        gather(v, count, head_size, |row| rows.part(first + row, 0), queries);
        for query in queries.iter_mut() {
            v.store(v.mul(v.load(query), v.splat(scale)), query);
        }
        let (left, right) = queries.split_at(head_size);
        multiply(v, keys, [left, right], scores.split_at_mut(length).into());
        let mut shares = [v.splat(0.0); 2];
        for (panel, share) in shares.iter_mut().enumerate() {
            let bias = bias.map(|bias| &bias[(first / LANES + panel) * length..][..length]);
            *share = weigh(v, bias, &mut scores[panel * length..(panel + 1) * length]);
        }
        let (left, right) = scores.split_at(length);
        multiply(v, values, [left, right], mixed.split_at_mut(head_size).into());
        for (mixed, share) in mixed.chunks_exact_mut(head_size).zip(shares) {
            for mixed in mixed {
                v.store(v.mul(v.load(mixed), share), mixed);
            }
        }
        scatter(v, count, head_size, mixed, |row, elements, value| {
            let gate = load(v, &rows.part(first + row, 3)[elements.clone()]);
            let start = ((first + row) * heads + rows.head) * head_size;
            let out = &mut out[start + elements.start..start + elements.end];
            store(v, v.mul(value, logistic(v, gate)), out);
        });
    }
}

/// Adds the bias to scores of sixteen queries, replaces them by their exponentials, and returns what makes these a
/// softmax.
#[inline(always)]
fn weigh<V: Vector>(v: V, bias: Option<&[Lanes]>, scores: &mut [Lanes]) -> V::F {
    if let Some(bias) = bias {
        for (score, bias) in scores.iter_mut().zip(bias) {
            v.store(v.add(v.load(score), v.load(bias)), score);
        }
    }
    let larger = |most: V::F, score: V::F| v.max(score, most);
    let most = reduce(v, scores, v.splat(f32::NEG_INFINITY), larger, larger);
    let mut total = v.splat(0.0);
    for score in scores {
        let weight = exponential(v, v.sub(v.load(score), most));
        total = v.add(total, weight);
        v.store(weight, score);
    }
    v.div(v.splat(1.0), total)
}
