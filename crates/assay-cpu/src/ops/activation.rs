//! QuantizedActivations, one number at a time: SiLU, GELU, and the gated product.

use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{
    Kernel, LANES, Vector, error_function, load_partial, logistic, store_partial, tanh,
};
use crate::threads::DisjointSlice;
use assay_operations::Activation;

#[inline(always)]
fn apply<V: Vector>(v: V, activation: Activation, x: V::F) -> V::F {
    let (half, one) = (v.splat(0.5), v.splat(1.0));
    match activation {
        // Gated activations are refused before a kernel runs.
        Activation::None | Activation::Swiglu => x,
        Activation::Silu => v.mul(x, logistic(v, x)),
        Activation::Gelu => {
            let scaled = v.mul(x, v.splat(std::f32::consts::FRAC_1_SQRT_2));
            v.mul(v.mul(half, x), v.add(one, error_function(v, scaled)))
        }
        Activation::GeluTanh => {
            let cubic = v.mul(v.mul(x, x), v.splat(0.044_715));
            let inner = v.mul(v.mul_add(cubic, x, x), v.splat(0.797_884_6));
            v.mul(v.mul(half, x), v.add(one, tanh(v, inner)))
        }
        // NaN propagates: `max` returns its second argument.
        Activation::Relu => v.max(v.splat(0.0), x),
    }
}

#[inline(always)]
pub(super) fn activate_in_place<V: Vector>(v: V, activation: Activation, out: &mut [f32]) {
    if activation == Activation::None {
        return;
    }
    let (whole, rest) = out.as_chunks_mut::<LANES>();
    for out in whole {
        v.store(apply(v, activation, v.load(out)), out);
    }
    let last = apply(v, activation, load_partial(v, rest, 0.0));
    store_partial(v, last, rest);
}

/// Refuses an activation that is not elementwise.
pub(super) fn check_elementwise(operation: &'static str, activation: Activation) -> Result<()> {
    let elementwise = !activation.is_gated();
    check_value(
        operation,
        "activation",
        elementwise,
        "an elementwise one",
        activation,
    )
}

/// Elements per task at least: enough to amortize waking a thread.
const GRAIN: usize = 8_192;

/// Writes the activation of each element of `x` to `out`.
pub fn activate(
    context: Context,
    activation: Activation,
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    check_length("activate", "out", out.len(), &[x.len()])?;
    check_elementwise("activate", activation)?;
    let out = DisjointSlice::new(out);
    context.threads.parallel_for(x.len(), GRAIN, &|range| {
        // SAFETY: ranges do not overlap.
        let out = unsafe { out.slice_mut(range.clone()) };
        out.copy_from_slice(&x[range]);
        context.level.run(InPlace { activation, out });
    });
    Ok(())
}

struct InPlace<'a> {
    activation: Activation,
    out: &'a mut [f32],
}

impl Kernel for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        activate_in_place(v, self.activation, self.out);
    }
}

/// Writes `silu(gate) * up` to `out`; a row of `gate_up` is `columns` gates and then `columns` ups.
pub fn swiglu(context: Context, gate_up: &[f32], columns: usize, out: &mut [f32]) -> Result<()> {
    let rows = out.len().checked_div(columns).unwrap_or(0);
    check_length("swiglu", "gate_up", gate_up.len(), &[rows, 2, columns])?;
    check_length("swiglu", "out", out.len(), &[rows, columns])?;
    let out = DisjointSlice::new(out);
    context
        .threads
        .parallel_for(rows * columns, GRAIN, &|range| {
            let mut start = range.start;
            while start < range.end {
                let (row, column) = (start / columns, start % columns);
                let count = (range.end - start).min(columns - column);
                let gate = row * 2 * columns + column;
                context.level.run(Swiglu {
                    gate: &gate_up[gate..gate + count],
                    up: &gate_up[gate + columns..gate + columns + count],
                    // SAFETY: ranges do not overlap.
                    out: unsafe { out.slice_mut(start..start + count) },
                });
                start += count;
            }
        });
    Ok(())
}

struct Swiglu<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Swiglu<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        let (gate, gate_rest) = self.gate.as_chunks::<LANES>();
        let (up, up_rest) = self.up.as_chunks::<LANES>();
        for (out, (gate, up)) in out.iter_mut().zip(gate.iter().zip(up)) {
            let gated = apply(v, Activation::Silu, v.load(gate));
            v.store(v.mul(gated, v.load(up)), out);
        }
        let gated = apply(v, Activation::Silu, load_partial(v, gate_rest, 0.0));
        store_partial(v, v.mul(gated, load_partial(v, up_rest, 0.0)), out_rest);
    }
}
