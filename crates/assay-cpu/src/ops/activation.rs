//! Activations, one number at a time: SiLU, GELU, and the gated products.

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
        Activation::None
        | Activation::Swiglu
        | Activation::GegluTanh
        | Activation::Geglu
        | Activation::SwigluClamped => x,
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
        Activation::Tanh => tanh(v, x),
        Activation::Sigmoid => logistic(v, x),
    }
}

#[inline(always)]
fn gated<V: Vector>(v: V, activation: Activation, gate: V::F, up: V::F) -> V::F {
    match activation {
        Activation::GegluTanh => v.mul(apply(v, Activation::GeluTanh, gate), up),
        Activation::Geglu => v.mul(apply(v, Activation::Gelu, gate), up),
        Activation::SwigluClamped => {
            let (low, high) = (v.splat(-CLAMP), v.splat(CLAMP));
            // NaN propagates: `max` and `min` return their second argument.
            let gate = v.min(high, gate);
            let up = v.max(low, v.min(high, up));
            let sigmoid = logistic(v, v.mul(gate, v.splat(CLAMPED_ALPHA)));
            v.mul(v.add(up, v.splat(1.0)), v.mul(gate, sigmoid))
        }
        _ => v.mul(apply(v, Activation::Silu, gate), up),
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
    check_value(operation, "activation", elementwise, "an elementwise one", activation)
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

/// The bound of gates and ups of [`Activation::SwigluClamped`], and its factor in the sigmoid.
const CLAMP: f32 = 7.0;
const CLAMPED_ALPHA: f32 = 1.702;

/// Writes a gated product to `out`, as `silu(gate) * up` for SwiGLU; a row of `gate_up` is `columns`
/// gates and then `columns` ups.
pub fn gate(
    context: Context,
    activation: Activation,
    gate_up: &[f32],
    columns: usize,
    out: &mut [f32],
) -> Result<()> {
    let rows = out.len().checked_div(columns).unwrap_or(0);
    let gated = activation.is_gated();
    check_value("gate", "activation", gated, "a gated one", activation)?;
    check_length("gate", "gate_up", gate_up.len(), &[rows, 2, columns])?;
    check_length("gate", "out", out.len(), &[rows, columns])?;
    let out = DisjointSlice::new(out);
    context.threads.parallel_for(rows * columns, GRAIN, &|range| {
        let mut start = range.start;
        while start < range.end {
            let (row, column) = (start / columns, start % columns);
            let count = (range.end - start).min(columns - column);
            let gate = row * 2 * columns + column;
            context.level.run(Gate {
                activation,
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

struct Gate<'a> {
    activation: Activation,
    gate: &'a [f32],
    up: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        let (gate, gate_rest) = self.gate.as_chunks::<LANES>();
        let (up, up_rest) = self.up.as_chunks::<LANES>();
        for (out, (gate, up)) in out.iter_mut().zip(gate.iter().zip(up)) {
            v.store(gated(v, self.activation, v.load(gate), v.load(up)), out);
        }
        let (gate, up) = (load_partial(v, gate_rest, 0.0), load_partial(v, up_rest, 0.0));
        store_partial(v, gated(v, self.activation, gate, up), out_rest);
    }
}
