//! The selective scan of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), one row after the other.

use super::sequences::{SequenceRows, StateBatch};
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector, load_partial, store_partial};
use crate::threads::DisjointSlice;

/// Extents of the scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanShape {
    /// Heads.
    pub heads: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// Groups of heads that share B and C.
    pub groups: usize,
    /// Elements of the state for each element of a head.
    pub state_size: usize,
}

impl ScanShape {
    /// Elements of all heads.
    fn inner(&self) -> usize {
        self.heads * self.head_size
    }

    /// Elements of a convolved row: x, B and C.
    fn convolved(&self) -> usize {
        self.inner() + 2 * self.groups * self.state_size
    }

    /// Elements of a projected row: z, what is convolved, and the step size of each head.
    fn projected(&self) -> usize {
        self.inner() + self.convolved() + self.heads
    }

    fn check(&self, operation: &'static str) -> Result<()> {
        let extents = [self.heads, self.head_size, self.groups, self.state_size];
        let valid = extents.iter().all(|extent| (1..1 << 24).contains(extent));
        check_value(
            operation,
            "shape",
            valid && self.heads.is_multiple_of(self.groups),
            "heads in groups, of at least 1 element and 1 state",
            format_args!("{self:?}"),
        )
    }
}

/// What decides how far a step moves the state: one number a head, and the bounds of the step size.
#[derive(Clone, Copy, Debug)]
pub struct StepSize<'a> {
    /// The logarithm of the decay rate.
    pub a_log: &'a [f32],
    /// The weight of x in the output.
    pub d: &'a [f32],
    /// Added to the raw step size, before softplus.
    pub bias: &'a [f32],
    /// The smallest step size.
    pub least: f32,
    /// The largest step size.
    pub most: f32,
}

/// Writes y silu(z) of every row to `out`, and updates the state, slots x heads x head_size x
/// state_size. Rows of no sequence become zeros.
#[allow(clippy::too_many_arguments)] // Four arrays and what they mean: a struct would only rename them.
pub fn selective_scan(
    context: Context,
    shape: ScanShape,
    step: StepSize,
    batch: StateBatch,
    projected: &[f32],
    convolved: &[f32],
    state: &mut [f32],
    out: &mut [f32],
) -> Result<()> {
    let operation = "selective_scan";
    shape.check(operation)?;
    let rows = projected.len() / shape.projected();
    let extents = [rows, shape.projected()];
    check_length(operation, "projected", projected.len(), &extents)?;
    let extents = [rows, shape.convolved()];
    check_length(operation, "convolved", convolved.len(), &extents)?;
    check_length(operation, "out", out.len(), &[rows, shape.inner()])?;
    for (name, values) in [("a_log", step.a_log), ("d", step.d), ("dt_bias", step.bias)] {
        check_length(operation, name, values.len(), &[shape.heads])?;
    }
    let valid = step.least >= 0.0 && step.least <= step.most;
    let got = format_args!("{} and {}", step.least, step.most);
    check_value(operation, "dt_min", valid, "from 0 to dt_max", got)?;
    let slot = shape.inner() * shape.state_size;
    let states = state.len() / slot;
    check_length(operation, "state", state.len(), &[states, slot])?;
    batch.check(operation, rows, states)?;
    out.fill(0.0);
    let (state, out) = (DisjointSlice::new(state), DisjointSlice::new(out));
    let tasks = batch.seq_lens.len() * shape.heads;
    context.threads.run(tasks, &|task| {
        let (index, head) = (task / shape.heads, task % shape.heads);
        let Some(sequence) = batch.sequence(index) else {
            return;
        };
        context.level.run(ScanHead {
            shape,
            step,
            projected,
            convolved,
            sequence,
            head,
            state: &state,
            out: &out,
        });
    });
    Ok(())
}

/// One head of all rows of one sequence.
struct ScanHead<'a> {
    shape: ScanShape,
    step: StepSize<'a>,
    projected: &'a [f32],
    convolved: &'a [f32],
    sequence: SequenceRows,
    head: usize,
    state: &'a DisjointSlice<'a, f32>,
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for ScanHead<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let ScanShape { heads, head_size, groups, state_size } = self.shape;
        let (inner, head) = (self.shape.inner(), self.head);
        let size = head_size * state_size;
        let start = (self.sequence.slot * heads + head) * size;
        // SAFETY: each task has its own sequence, slot and head.
        let state = unsafe { self.state.slice_mut(start..start + size) };
        if self.sequence.begins {
            state.fill(0.0);
        }
        let rate = -self.step.a_log[head].exp();
        let group = head / (heads / groups) * state_size;
        for row in self.sequence.rows.clone() {
            let convolved = &self.convolved[row * self.shape.convolved()..];
            let x = &convolved[head * head_size..][..head_size];
            let b = &convolved[inner + group..][..state_size];
            let c = &convolved[inner + groups * state_size + group..][..state_size];
            let projected = &self.projected[row * self.shape.projected()..];
            let z = &projected[head * head_size..][..head_size];
            let raw = projected[inner + self.shape.convolved() + head] + self.step.bias[head];
            let dt = softplus(raw).clamp(self.step.least, self.step.most);
            let decay = (dt * rate).exp();
            let at = row * inner + head * head_size;
            // SAFETY: each task has its own rows and head.
            let out = unsafe { self.out.slice_mut(at..at + head_size) };
            let states = state.chunks_exact_mut(state_size);
            for (((out, x), z), state) in out.iter_mut().zip(x).zip(z).zip(states) {
                let y = advance(v, state, decay, dt * x, b, c) + self.step.d[head] * x;
                *out = y * z / (1.0 + (-z).exp());
            }
        }
    }
}

/// log(1 + e^x), without overflow.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// state = decay state + input b; returns its product with c.
#[inline(always)]
fn advance<V: Vector>(
    v: V,
    state: &mut [f32],
    decay: f32,
    input: f32,
    b: &[f32],
    c: &[f32],
) -> f32 {
    let (decay, input) = (v.splat(decay), v.splat(input));
    let mut sum = v.splat(0.0);
    let (whole, rest) = state.as_chunks_mut::<LANES>();
    let (b_whole, b_rest) = b.as_chunks::<LANES>();
    let (c_whole, c_rest) = c.as_chunks::<LANES>();
    for ((state, b), c) in whole.iter_mut().zip(b_whole).zip(c_whole) {
        let next = v.mul_add(input, v.load(b), v.mul(decay, v.load(state)));
        v.store(next, state);
        sum = v.mul_add(next, v.load(c), sum);
    }
    if !rest.is_empty() {
        let b = load_partial(v, b_rest, 0.0);
        let next = v.mul_add(input, b, v.mul(decay, load_partial(v, rest, 0.0)));
        store_partial(v, next, rest);
        sum = v.mul_add(next, load_partial(v, c_rest, 0.0), sum);
    }
    v.sum(sum)
}
