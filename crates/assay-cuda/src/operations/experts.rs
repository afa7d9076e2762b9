//! Mixture of experts: routing, the grouped GEMM of the experts, and their weighted sum.

use super::call::{Call, int, pointer, pointer_or_null, vector};
use super::context::{Define, OperationContext};
use super::gemv::{GroupedGemv, launch_grouped_gemv};
use super::grid::{grid_1d, grid_2d};
use super::layers::activation;
use super::packed_weights::{PackedWeights, WeightLayout};
use crate::device::{LaunchConfig, Queue};
use assay_operations::ElementFormat::{self, F32, I32};
use assay_operations::{Activation, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Assignments of a tile of the grouped GEMM.
const TILE_ROWS: u64 = 64;
/// Weight rows of a tile.
const TILE_OUTPUTS: u64 = 128;
/// Two stages of x and weights, of 128 bytes a row.
const SHARED_BYTES: u64 = 2 * (TILE_ROWS + TILE_OUTPUTS) * 128;
/// Assignments up to which each reads its own weights: rarely two share an expert.
const FEW_ASSIGNMENTS: u64 = 16;
/// The most experts whose scores and counters fit the shared memory of a CTA.
const MAX_EXPERTS: u64 = 4096;

pub(super) fn route(context: &OperationContext, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, experts) = (call.size("rows")?, call.size("experts_count")?);
    let (top_k, groups) = (call.size("top_k")?, call.size("groups")?);
    let top_groups = call.size("top_groups")?;
    let logits = call.typed("logits", F32, &[rows, experts])?;
    let bias = call.optional_typed("bias", F32, &[experts])?;
    let chosen = call.typed("experts", I32, &[rows, top_k])?;
    let weights = call.typed("weights", F32, &[rows, top_k])?;
    if top_k == 0 || top_k > experts || experts > MAX_EXPERTS {
        let expected = format_args!("top_k of up to {MAX_EXPERTS} experts");
        return Err(call.error(expected, format_args!("{top_k} of {experts}")));
    }
    let divides = groups > 0 && experts.is_multiple_of(groups) && top_groups <= groups;
    if !divides || top_groups * (experts / groups) < top_k {
        let expected = format_args!("groups of {experts} experts that hold {top_k}");
        return Err(call.error(expected, format_args!("{top_groups} of {groups}")));
    }
    if rows == 0 {
        return Ok(());
    }
    let flag = |name| call.integer(name).map(|value| value != 0);
    let defines: [Define; 3] = [
        ("SIGMOID", flag("sigmoid")?.into()),
        ("NORMALIZE", flag("normalize")?.into()),
        ("TOP_TWO_GROUPS", flag("top_two_groups")?.into()),
    ];
    let function = context.function(queue, "route", &defines)?;
    let config = LaunchConfig {
        shared_bytes: (4 * (2 * experts + groups)) as u32,
        ..grid_1d(rows, 32)
    };
    let arguments = [
        pointer(logits),
        pointer_or_null(bias),
        pointer(chosen),
        pointer(weights),
        int(experts),
        int(top_k),
        int(groups),
        int(top_groups),
        KernelArgument::F32(call.float("factor")?),
    ];
    queue.launch(&function, config, &arguments)
}

pub(super) fn combine_experts(
    context: &OperationContext,
    queue: &Queue<'_>,
    call: &Call<'_>,
) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let top_k = call.size("top_k")?;
    let outputs = call.operand("outputs", &[rows, top_k, columns])?;
    let weights = call.typed("weights", F32, &[rows, top_k])?;
    let residual = call.optional_typed("residual", outputs.format, &[rows, columns])?;
    let shared = call.optional_typed("shared", outputs.format, &[rows, columns])?;
    let gates = call.optional_typed("gates", F32, &[rows])?;
    let out = call.typed("out", outputs.format, &[rows, columns])?;
    if rows * columns == 0 {
        return Ok(());
    }
    if rows > 65_535 {
        return Err(call.error("at most 65535 rows", rows));
    }
    let operands = [Some(outputs), residual, shared, Some(out)];
    let vector = vector(outputs.format, columns, &operands);
    let defines: [Define; 2] = [
        ("ELEMENT", call.float_type("outputs", outputs)?.into()),
        ("VECTOR", vector.into()),
    ];
    let function = context.function(queue, "combine_experts", &defines)?;
    let threads = 128;
    let arguments = [
        pointer(outputs),
        pointer(weights),
        pointer_or_null(residual),
        pointer_or_null(shared),
        pointer_or_null(gates),
        pointer(out),
        int(columns),
        int(top_k),
    ];
    let ctas_x = columns.div_ceil(vector * threads);
    queue.launch(&function, grid_2d(ctas_x, rows, threads), &arguments)
}

/// A call of `grouped_linear`, read and checked.
struct GroupedLinear {
    assignments: u64,
    fan_out: u64,
    inputs: u64,
    outputs: u64,
    experts_count: u64,
    x: Operand,
    weights: Operand,
    packed: Option<PackedWeights>,
    bias: Option<Operand>,
    experts: Operand,
    out: Operand,
    activation: Activation,
    gated: bool,
}

impl GroupedLinear {
    fn read(call: &Call<'_>) -> Result<Self> {
        let (assignments, fan_out) = (call.size("assignments")?, call.size("fan_out")?);
        let (inputs, outputs) = (call.size("inputs")?, call.size("outputs")?);
        let experts_count = call.size("experts_count")?;
        let activation = activation(call)?;
        let gated = activation.is_gated();
        if fan_out == 0 || !assignments.is_multiple_of(fan_out) {
            let expected = format_args!("a fan_out that divides {assignments} assignments");
            return Err(call.error(expected, fan_out));
        }
        if gated && !outputs.is_multiple_of(2) {
            return Err(call.error("an even number of outputs", outputs));
        }
        let columns = if gated { outputs / 2 } else { outputs };
        let x = call.operand("x", &[assignments / fan_out, inputs])?;
        let supported = matches!(x.format, ElementFormat::F16 | ElementFormat::Bf16);
        let aligned = inputs > 0 && inputs.is_multiple_of(8) && x.pointer.0.is_multiple_of(16);
        if !supported || !aligned {
            let got = format_args!("{} of {}", inputs, x.format);
            return Err(call.error("x of f16 or bf16 in multiples of 8 inputs", got));
        }
        let rows = experts_count * outputs;
        let (weights, packed) = match WeightLayout::of(call.raw("weights")?.format) {
            None => (call.typed("weights", x.format, &[rows, inputs])?, None),
            Some(layout) => {
                let (weights, scales) = layout.find(call, "weights", rows, inputs)?;
                let packed = PackedWeights {
                    layout,
                    weights: weights.pointer,
                    scales,
                    outputs: rows,
                    inputs,
                };
                (weights, Some(packed))
            }
        };
        Ok(GroupedLinear {
            assignments,
            fan_out,
            inputs,
            outputs,
            experts_count,
            x,
            weights,
            packed,
            bias: call.optional_typed("bias", x.format, &[rows])?,
            experts: call.typed("experts", I32, &[assignments])?,
            out: call.typed("out", x.format, &[assignments, columns])?,
            activation: match activation {
                Activation::Swiglu => Activation::None,
                other => other,
            },
            gated,
        })
    }

    /// Few assignments read the weights of their experts one by one; more share them in tiles.
    fn prefers_gemv(&self) -> bool {
        self.assignments <= FEW_ASSIGNMENTS || 2 * self.assignments <= self.experts_count
    }

    fn launch_gemm(
        &self,
        context: &OperationContext,
        queue: &Queue<'_>,
        call: &Call<'_>,
    ) -> Result<()> {
        if self.experts_count > MAX_EXPERTS {
            let expected = format_args!("at most {MAX_EXPERTS} experts");
            return Err(call.error(expected, self.experts_count));
        }
        let max_tiles = self.assignments.div_ceil(TILE_ROWS) + self.experts_count;
        let max_tiles = max_tiles.min(self.assignments);
        if max_tiles > 65_535 {
            return Err(call.error("fewer assignments", self.assignments));
        }
        let order = context.scratch(queue, "grouped order", self.assignments * 4)?;
        let tiles = context.scratch(queue, "grouped tiles", max_tiles * 12)?;
        let defines: [Define; 1] = [("TILE_ROWS", TILE_ROWS.into())];
        let group = context.function(queue, "group_assignments", &defines)?;
        let config = LaunchConfig {
            shared_bytes: (4 * (2 * self.experts_count + 1)) as u32,
            ..grid_1d(1, 1024)
        };
        let arguments = [
            pointer(self.experts),
            KernelArgument::Pointer(order),
            KernelArgument::Pointer(tiles),
            int(self.assignments),
            int(self.experts_count),
            int(max_tiles),
        ];
        queue.launch(&group, config, &arguments)?;
        self.launch_tiles(context, queue, call, [order, tiles], max_tiles)
    }

    fn launch_tiles(
        &self,
        context: &OperationContext,
        queue: &Queue<'_>,
        call: &Call<'_>,
        [order, tiles]: [DevicePointer; 2],
        max_tiles: u64,
    ) -> Result<()> {
        let defines: [Define; 3] = [
            ("ELEMENT", call.float_type("x", self.x)?.into()),
            ("GATED", self.gated.into()),
            ("ACTIVATION_CODE", self.activation.into()),
        ];
        let function = context.function(queue, "grouped_gemm", &defines)?;
        let config = LaunchConfig {
            shared_bytes: SHARED_BYTES as u32,
            ..grid_2d(self.outputs.div_ceil(TILE_OUTPUTS), max_tiles, 128)
        };
        let arguments = [
            pointer(self.weights),
            pointer(self.x),
            pointer_or_null(self.bias),
            KernelArgument::Pointer(order),
            KernelArgument::Pointer(tiles),
            pointer(self.out),
            int(self.fan_out),
            int(self.inputs),
            int(self.outputs),
        ];
        queue.launch(&function, config, &arguments)
    }
}

pub(super) fn grouped_linear(
    context: &OperationContext,
    queue: &Queue<'_>,
    call: &Call<'_>,
) -> Result<()> {
    let grouped = GroupedLinear::read(call)?;
    if grouped.assignments * grouped.outputs == 0 {
        return Ok(());
    }
    // A row's bits must not depend on how many rows there are: one kernel then serves any number.
    let batch_invariant = call.integer("batch_invariant")? != 0;
    if grouped.packed.is_none() && (batch_invariant || !grouped.prefers_gemv()) {
        return grouped.launch_gemm(context, queue, call);
    }
    let gemv = GroupedGemv {
        assignments: grouped.assignments,
        fan_out: grouped.fan_out,
        inputs: grouped.inputs,
        outputs: grouped.outputs,
        x: grouped.x,
        weights: grouped.weights,
        packed: grouped.packed,
        bias: grouped.bias,
        experts: grouped.experts,
        out: grouped.out,
        activation: grouped.activation,
        gated: grouped.gated,
    };
    launch_grouped_gemv(context, queue, call, &gemv)
}
