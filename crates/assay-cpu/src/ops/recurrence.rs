//! LSTM (Hochreiter and Schmidhuber 1997, with forget gates): the recurrence, after the products of the inputs.

use super::gemm::{Epilogue, LinearShape, linear};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector, load_partial, logistic, store_partial, tanh};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Multiply-adds of a step below which threads would wait for each other longer than they work.
const MIN_PARALLEL_STEP: usize = 1 << 20;

thread_local! {
    /// The products of the hidden state of a step.
    static PRODUCTS: RefCell<AlignedBuffer> = RefCell::default();
}

/// The shape of a recurrence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LstmShape {
    /// Steps.
    pub steps: usize,
    /// Sequences.
    pub batch: usize,
    /// Elements of a hidden state.
    pub hidden: usize,
    /// Whether a single direction runs from the last step to the first.
    pub reverse: bool,
}

/// The weights of one direction; gates are in the order input, forget, cell, output.
#[derive(Clone, Copy, Debug)]
pub struct LstmWeights<'a> {
    /// [4 hidden, hidden].
    pub hidden: &'a [f32],
    /// [4 hidden], of inputs and hidden state together.
    pub bias: Option<&'a [f32]>,
}

/// Runs the recurrence of one direction, or of two, of which the second runs from the last step to the first.
///
/// `gates`, [directions, steps, batch, 4 hidden], are the products of the inputs. `h` and `c`, [directions,
/// batch, hidden], are the states, updated in place. `out` is [steps, batch, directions, hidden].
pub fn lstm(
    context: Context,
    shape: LstmShape,
    weights: &[LstmWeights],
    gates: &[f32],
    h: &mut [f32],
    c: &mut [f32],
    out: &mut [f32],
) -> Result<()> {
    let LstmShape { steps, batch, hidden, reverse } = shape;
    let (operation, directions) = ("lstm", weights.len());
    check_value(operation, "directions", (1..=2).contains(&directions), "1 or 2", directions)?;
    check_length(operation, "gates", gates.len(), &[directions, steps, batch, 4, hidden])?;
    check_length(operation, "h", h.len(), &[directions, batch, hidden])?;
    check_length(operation, "c", c.len(), &[directions, batch, hidden])?;
    check_length(operation, "out", out.len(), &[steps, batch, directions, hidden])?;
    for weights in weights {
        check_length(operation, "weights", weights.hidden.len(), &[4, hidden, hidden])?;
        if let Some(bias) = weights.bias {
            check_length(operation, "bias", bias.len(), &[4, hidden])?;
        }
    }
    if out.is_empty() {
        return Ok(());
    }
    let (h, c, out) = (DisjointSlice::new(h), DisjointSlice::new(c), DisjointSlice::new(out));
    let parallel_steps = directions == 1 && batch * 4 * hidden * hidden >= MIN_PARALLEL_STEP;
    let inner = match parallel_steps {
        true => context,
        false => Context { level: context.level, ..Context::caller() },
    };
    let run = |direction: usize| {
        let states = direction * batch * hidden..(direction + 1) * batch * hidden;
        let gates = &gates[direction * steps * batch * 4 * hidden..][..steps * batch * 4 * hidden];
        // SAFETY: directions have states of their own.
        let (h, c) = unsafe { (h.slice_mut(states.clone()), c.slice_mut(states)) };
        let last_first = if directions == 2 { direction == 1 } else { reverse };
        let layer = LinearShape { rows: batch, inputs: hidden, outputs: 4 * hidden };
        PRODUCTS.with_borrow_mut(|products| {
            let products = products.floats(batch * 4 * hidden);
            for index in 0..steps {
                let step = if last_first { steps - 1 - index } else { index };
                let epilogue = Epilogue { bias: weights[direction].bias, ..Epilogue::default() };
                // Batch-invariant: a sequence's result does not depend on those beside it.
                let weights = weights[direction].hidden;
                linear(inner, h, weights, layer, epilogue, true, products)?;
                for sequence in 0..batch {
                    let row = (step * batch + sequence) * directions + direction;
                    let states = sequence * hidden..(sequence + 1) * hidden;
                    let four = sequence * 4 * hidden..(sequence + 1) * 4 * hidden;
                    context.level.run(Cell {
                        gates: &gates[step * batch * 4 * hidden..][four.clone()],
                        products: &products[four],
                        h: &mut h[states.clone()],
                        c: &mut c[states],
                        // SAFETY: rows do not overlap.
                        out: unsafe { out.slice_mut(row * hidden..(row + 1) * hidden) },
                    });
                }
            }
            Ok(())
        })
    };
    if directions == 1 {
        return run(0);
    }
    let failures = std::sync::Mutex::new(Ok(()));
    context.threads.run(directions, &|direction| {
        if let Err(error) = run(direction) {
            *failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Err(error);
        }
    });
    failures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The cell of one sequence at one step.
struct Cell<'a> {
    gates: &'a [f32],
    products: &'a [f32],
    h: &'a mut [f32],
    c: &'a mut [f32],
    out: &'a mut [f32],
}

impl Kernel for Cell<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let hidden = self.h.len();
        for first in (0..hidden).step_by(LANES) {
            let lanes = first..(first + LANES).min(hidden);
            let input = logistic(v, self.gate(v, 0, &lanes));
            let forget = logistic(v, self.gate(v, 1, &lanes));
            let cell = tanh(v, self.gate(v, 2, &lanes));
            let output = logistic(v, self.gate(v, 3, &lanes));
            let kept = v.mul(forget, load(v, &self.c[lanes.clone()]));
            let c = v.mul_add(input, cell, kept);
            let h = v.mul(output, tanh(v, c));
            store(v, c, &mut self.c[lanes.clone()]);
            store(v, h, &mut self.h[lanes.clone()]);
            store(v, h, &mut self.out[lanes]);
        }
    }
}

impl Cell<'_> {
    /// Some lanes of a gate: the product of the input, and that of the hidden state.
    #[inline(always)]
    fn gate<V: Vector>(&self, v: V, index: usize, lanes: &Range<usize>) -> V::F {
        let first = index * self.h.len();
        let range = first + lanes.start..first + lanes.end;
        v.add(load(v, &self.gates[range.clone()]), load(v, &self.products[range]))
    }
}

/// A vector of up to sixteen elements.
#[inline(always)]
fn load<V: Vector>(v: V, from: &[f32]) -> V::F {
    match from.first_chunk::<LANES>() {
        Some(from) => v.load(from),
        None => load_partial(v, from, 0.0),
    }
}

#[inline(always)]
fn store<V: Vector>(v: V, value: V::F, to: &mut [f32]) {
    match to.first_chunk_mut::<LANES>() {
        Some(to) => v.store(value, to),
        None => store_partial(v, value, to),
    }
}
