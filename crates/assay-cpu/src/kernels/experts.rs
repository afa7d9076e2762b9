//! Mixture of experts: routing, the grouped GEMM of the experts, and their weighted sum.

use super::activation::activation;
use super::call::{Call, for_element, op_error};
use super::linear::packed_linear;
use super::weights::{PackedSpan, block_format};
use crate::ops::{
    self, Context, Epilogue, GroupScore, LinearShape, NO_EXPERT, Routing, Scoring, gate,
    linear as dense_linear,
};
use crate::quantization::PackedView;
use assay_operations::Activation;
use assay_runtime::backend::Result;
use std::cell::RefCell;

thread_local! {
    /// Rows of one expert and their outputs, reused from call to call.
    static ROWS: RefCell<[Vec<f32>; 3]> = RefCell::default();
}

pub(super) fn route(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, experts, top_k) =
        (call.size("rows")?, call.size("experts_count")?, call.size("top_k")?);
    let routing = Routing {
        experts,
        top_k,
        scoring: match call.flag("sigmoid")? {
            true => Scoring::Sigmoid,
            false => Scoring::Softmax,
        },
        normalize: call.flag("normalize")?,
        groups: call.size("groups")?,
        top_groups: call.size("top_groups")?,
        group_score: match call.flag("top_two_groups")? {
            true => GroupScore::TopTwo,
            false => GroupScore::Largest,
        },
        factor: call.float("factor")?,
    };
    let logits = call.span::<f32>("logits", &[rows, experts])?;
    let bias = call.optional::<f32>("bias", &[experts])?;
    let slots = call.optional::<i32>("slots", &[rows])?;
    let chosen = call.span::<i32>("experts", &[rows, top_k])?;
    let weights = call.span::<f32>("weights", &[rows, top_k])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (logits, bias, slots, chosen, weights) = unsafe {
        (
            logits.read(),
            bias.map(|bias| bias.read()),
            slots.map(|slots| slots.read()),
            chosen.write(),
            weights.write(),
        )
    };
    ops::route(context, routing, logits, bias, slots, chosen, weights).map_err(op_error)
}

pub(super) fn combine_experts(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let top_k = call.size("top_k")?;
    let outputs = call.span::<f32>("outputs", &[rows, top_k, columns])?;
    let weights = call.span::<f32>("weights", &[rows, top_k])?;
    let residual = call.optional::<f32>("residual", &[rows, columns])?;
    let shared = call.optional::<f32>("shared", &[rows, columns])?;
    let gates = call.optional::<f32>("gates", &[rows])?;
    let out = call.span::<f32>("out", &[rows, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let gates = gates.map(|gates| gates.read());
        ops::combine_experts(
            context,
            outputs.read(),
            weights.read(),
            columns,
            residual.map(|residual| residual.read()),
            shared.map(|shared| (shared.read(), gates)),
            out.write(),
        )
    }
    .map_err(op_error)
}

/// Grouped GEMM: assignment i multiplies row i / fan_out of x by the weights of expert experts\[i\].
pub(super) fn grouped_linear(context: Context, call: &Call<'_>) -> Result<()> {
    let (assignments, fan_out) = (call.size("assignments")?, call.size("fan_out")?);
    let (inputs, outputs) = (call.size("inputs")?, call.size("outputs")?);
    let count = call.size("experts_count")?;
    let activation = activation(call)?;
    if fan_out == 0 || !assignments.is_multiple_of(fan_out) {
        let expected = format_args!("a divisor of the {assignments} assignments");
        return Err(call.error("fan_out", expected, fan_out));
    }
    let gated = activation.is_gated();
    if gated && !outputs.is_multiple_of(2) {
        return Err(call.error("outputs", "even, for gates and ups", outputs));
    }
    let width = if gated { outputs / 2 } else { outputs };
    let batch_invariant = call.flag("batch_invariant")?;
    let x = call.span::<f32>("x", &[assignments / fan_out, inputs])?;
    let bias = call.optional::<f32>("bias", &[count, outputs])?;
    let experts = call.span::<i32>("experts", &[assignments])?;
    let out = call.span::<f32>("out", &[assignments, width])?;
    let all_rows = count.saturating_mul(outputs);
    let packed = block_format(call.format("weights")?).is_some();
    if packed {
        PackedSpan::of_experts(call, "weights", count, outputs, inputs)?;
    } else {
        for_element!(call, "weights", T => {
            call.span::<T>("weights", &[all_rows, inputs]).map(|_| ())
        })?;
    }
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, bias, experts, out) =
        unsafe { (x.read(), bias.map(|bias| bias.read()), experts.read(), out.write()) };
    if let Some(wrong) =
        experts.iter().find(|one| **one != NO_EXPERT && !(0..count).contains(&(**one as usize)))
    {
        let expected = format_args!("{NO_EXPERT} or from 0 to below {count}");
        return Err(call.error("experts", expected, wrong));
    }
    let elementwise = if gated { Activation::None } else { activation };
    let group = Group {
        context,
        x,
        bias,
        experts,
        fan_out,
        inputs,
        outputs,
        width,
        activation: elementwise,
        gate: gated.then_some(activation),
    };
    if packed {
        let weights = PackedSpan::of_experts(call, "weights", count, outputs, inputs)?;
        return group.run(count, out, |expert, rows, x, epilogue, out| {
            // SAFETY: as above.
            let view: PackedView = unsafe { weights.read_expert(expert)? };
            packed_linear(context, view, x, rows, epilogue, batch_invariant, out)
        });
    }
    for_element!(call, "weights", T => {
        let weights = call.span::<T>("weights", &[all_rows, inputs])?;
        // SAFETY: as above.
        let weights = unsafe { weights.read() };
        group.run(count, out, |expert, rows, x, epilogue, out| {
            let weights = &weights[expert * outputs * inputs..][..outputs * inputs];
            let shape = LinearShape { rows, inputs, outputs };
            dense_linear(context, x, weights, shape, epilogue, batch_invariant, out)
                .map_err(op_error)
        })
    })
}

/// The assignments of a grouped GEMM.
struct Group<'a> {
    context: Context<'a>,
    x: &'a [f32],
    bias: Option<&'a [f32]>,
    experts: &'a [i32],
    fan_out: usize,
    inputs: usize,
    outputs: usize,
    /// Outputs after the gate.
    width: usize,
    activation: Activation,
    gate: Option<Activation>,
}

impl Group<'_> {
    /// Multiplies the rows of each expert at once: gathers them, and scatters the outputs.
    fn run(
        &self,
        count: usize,
        out: &mut [f32],
        multiply: impl Fn(usize, usize, &[f32], Epilogue, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let mut order: Vec<usize> = (0..self.experts.len())
            .filter(|assignment| self.experts[*assignment] != NO_EXPERT)
            .collect();
        // A stable sort: an expert's rows stay in the order of the batch.
        order.sort_by_key(|assignment| self.experts[*assignment]);
        ROWS.with_borrow_mut(|[gathered, products, activated]| {
            for assignments in order.chunk_by(|a, b| self.experts[*a] == self.experts[*b]) {
                let expert = self.experts[assignments[0]] as usize;
                debug_assert!(expert < count);
                gathered.clear();
                for assignment in assignments {
                    let row = assignment / self.fan_out;
                    gathered.extend(&self.x[row * self.inputs..][..self.inputs]);
                }
                let rows = assignments.len();
                products.resize(rows * self.outputs, 0.0);
                let epilogue = Epilogue {
                    bias: self.bias.map(|bias| &bias[expert * self.outputs..][..self.outputs]),
                    activation: self.activation,
                    residual: None,
                };
                multiply(expert, rows, gathered, epilogue, products)?;
                let results: &[f32] = match self.gate {
                    None => products,
                    Some(activation) => {
                        activated.resize(rows * self.width, 0.0);
                        gate(self.context, activation, products, self.width, activated)
                            .map_err(op_error)?;
                        activated
                    }
                };
                for (assignment, row) in assignments.iter().zip(results.chunks_exact(self.width)) {
                    out[assignment * self.width..][..self.width].copy_from_slice(row);
                }
            }
            Ok(())
        })
    }
}
