//! The down projection of a mixture of experts and its weighted sum, in one kernel.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use super::experts::Combination;
use super::grid::grid_2d;
use super::grouped_arguments::GroupedLinear;
use super::linear::weights;
use assay_operations::Activation;
use assay_operations::ElementFormat::{Bf16, F16, F32, I32};
use assay_runtime::backend::Result;

/// The most threads of a CTA.
const MAX_THREADS: u64 = 1024;
/// The most 16-byte chunks of a weight row per thread.
const MAX_CHUNKS: u64 = 7;
/// Chunks of all rows of a tile in a thread's registers, with two CTAs per SM and with one.
const REGISTER_CHUNKS: [u64; 2] = [12, 16];
/// The most rows of a launch: the grid's y.
const MAX_ROWS: u64 = 65_535;

/// The tiling.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    warps_per_expert: u64,
    chunks_per_thread: u64,
    /// Weight rows of a tile.
    rows_per_cta: u64,
    ctas_per_sm: u64,
}

impl Shape {
    /// None where a weight row of all experts does not fit the registers of a CTA.
    fn new(top_k: u64, inputs: u64, outputs: u64) -> Option<Self> {
        let chunks = inputs.div_ceil(8);
        let max_warps = MAX_THREADS / 32 / top_k.max(1);
        // Few warps of many chunks: their partial sums are fewer.
        let warps_per_expert = (1..=max_warps).find(|warps| chunks.div_ceil(32 * warps) <= 4);
        let warps_per_expert = warps_per_expert.unwrap_or(max_warps).max(1);
        let chunks_per_thread = chunks.div_ceil(32 * warps_per_expert);
        let threads = 32 * top_k * warps_per_expert;
        if threads > MAX_THREADS || chunks_per_thread > MAX_CHUNKS {
            return None;
        }
        let ctas_per_sm = if threads <= 256 { 2 } else { 1 };
        // Threads of a full CTA have 64 registers each.
        let room = match threads {
            ..=256 => REGISTER_CHUNKS[0],
            257..=512 => REGISTER_CHUNKS[1],
            _ => REGISTER_CHUNKS[1] / 2,
        };
        let mut rows_per_cta = 16;
        while rows_per_cta > 2
            && (rows_per_cta * chunks_per_thread > room || !outputs.is_multiple_of(rows_per_cta))
        {
            rows_per_cta /= 2;
        }
        outputs.is_multiple_of(rows_per_cta).then_some(Shape {
            warps_per_expert,
            chunks_per_thread,
            rows_per_cta,
            ctas_per_sm,
        })
    }
}

/// The grouped GEMV of few rows with the weighted sum as its epilogue.
fn launch_fused(
    call: &Call<'_>,
    (grouped, combination): (&GroupedLinear, &Combination),
    shape: &Shape,
) -> Result<()> {
    let (rows, top_k, outputs) = (combination.rows, combination.top_k, grouped.outputs);
    let defines: [Define; 8] = [
        ("ELEMENT", call.float_type("x", grouped.x)?.into()),
        ("INPUTS", grouped.inputs.into()),
        ("TOP_K", top_k.into()),
        ("ROWS_PER_CTA", shape.rows_per_cta.into()),
        ("WARPS_PER_EXPERT", shape.warps_per_expert.into()),
        ("CHUNKS_PER_THREAD", shape.chunks_per_thread.into()),
        ("CTAS_PER_SM", shape.ctas_per_sm.into()),
        ("EXPERTS_READY", grouped.experts_ready.into()),
    ];
    let function = call.function("combine_gemv", &defines)?;
    // All CTAs of all rows are resident at once where they can be.
    let resident = u64::from(call.queue.device().facts().multiprocessors) * shape.ctas_per_sm;
    let ctas = (outputs / shape.rows_per_cta).min(resident.div_ceil(rows));
    let threads = 32 * top_k * shape.warps_per_expert;
    let arguments = [
        pointer(grouped.weights),
        pointer(grouped.x),
        pointer_or_null(grouped.bias),
        pointer(grouped.experts),
        pointer(combination.weights),
        pointer_or_null(combination.residual),
        pointer_or_null(combination.shared),
        pointer_or_null(combination.gates),
        pointer(combination.out),
        int(outputs),
    ];
    call.queue.launch(&function, grid_2d(ctas, rows, threads), &arguments)
}

pub(super) fn combine_linear(call: &Call<'_>) -> Result<()> {
    let (rows, top_k) = (call.size("rows")?, call.size("top_k")?);
    let (inputs, outputs) = (call.size("inputs")?, call.size("outputs")?);
    let experts_count = call.size("experts_count")?;
    let x = call.operand("x", &[rows, top_k, inputs])?;
    let (weights, packed) = weights(call, x.format, experts_count * outputs, inputs)?;
    let grouped = GroupedLinear {
        assignments: rows * top_k,
        fan_out: 1,
        inputs,
        outputs,
        experts_count,
        x,
        weights,
        packed,
        bias: call.optional_typed("bias", x.format, &[experts_count, outputs])?,
        experts: call.typed("experts", I32, &[rows, top_k])?,
        out: call.typed("expert_outputs", x.format, &[rows, top_k, outputs])?,
        activation: Activation::None,
        gated: false,
        experts_ready: call.integer("experts_ready")? != 0,
    };
    let combination = Combination {
        rows,
        columns: outputs,
        top_k,
        outputs: grouped.out,
        weights: call.typed("factors", F32, &[rows, top_k])?,
        residual: call.optional_typed("residual", x.format, &[rows, outputs])?,
        shared: call.optional_typed("shared", x.format, &[rows, outputs])?,
        gates: call.optional_typed("gates", F32, &[rows])?,
        out: call.typed("out", x.format, &[rows, outputs])?,
    };
    if rows * top_k * outputs == 0 {
        return Ok(());
    }
    let aligned = x.pointer.0.is_multiple_of(16) && weights.pointer.0.is_multiple_of(16);
    let is_16_bit = matches!(x.format, F16 | Bf16) && packed.is_none();
    let supported = is_16_bit && aligned && inputs > 0 && inputs.is_multiple_of(8);
    let batch_invariant = call.integer("batch_invariant")? != 0;
    let fuses = supported && !batch_invariant && rows <= MAX_ROWS && grouped.prefers_gemv(call)?;
    if let Some(shape) = Shape::new(top_k, inputs, outputs).filter(|_| fuses) {
        return launch_fused(call, (&grouped, &combination), &shape);
    }
    grouped.launch(call)?;
    combination.launch(call)
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn tiles_of_published_models_fit_the_registers() {
        let shape = |top_k, inputs, outputs| {
            Shape::new(top_k, inputs, outputs).map(|one| {
                (one.warps_per_expert, one.chunks_per_thread, one.rows_per_cta, one.ctas_per_sm)
            })
        };
        // Qwen3-30B-A3B, gpt-oss, Mixtral; more experts than a CTA has warps.
        assert_eq!(shape(8, 768, 2048), Some((1, 3, 4, 2)));
        assert_eq!(shape(4, 2880, 2880), Some((3, 4, 4, 1)));
        assert_eq!(shape(2, 14336, 4096), Some((14, 4, 2, 1)));
        assert_eq!(shape(64, 768, 2048), None);
    }
}
