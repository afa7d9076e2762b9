//! The router of a mixture of experts in one kernel: norm, logits and top-k.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use super::experts::Routing;
use super::grid::grid_1d;
use super::layers::rms_norm_into;
use super::linear::{launch_linear, weights};
use super::linear_arguments::LinearArguments;
use super::packed_weights::PackedWeights;
use crate::device::{LaunchConfig, Queue};
use assay_operations::ElementFormat::{Bf16, F16, F32, I32};
use assay_operations::{Activation, Operand};
use assay_runtime::backend::{KernelArgument, Result};

/// Tokens of a cluster.
const CLUSTER_TOKENS: u64 = 8;
/// Experts of a CTA: rows of the tensor core's A operand.
const CTA_EXPERTS: u64 = 16;
/// The portable maximum of CTAs in a cluster.
const MAX_CLUSTER: u64 = 8;
/// Warps that may share the inputs; a warp's slice is a multiple of 32 inputs.
const WARPS: [u64; 6] = [8, 9, 10, 12, 15, 16];
/// Registers of a lane for the weights and the inputs of a k-step of 32 inputs, and for all else.
const K_STEP_REGISTERS: u64 = 12;
const OTHER_REGISTERS: u64 = 56;
/// The capability, as major times ten plus minor, from which GPUs have clusters.
const CLUSTER_CAPABILITY: u32 = 90;

/// Warps that split the inputs of the kernel, or none where it does not support them.
fn warps(inputs: u64) -> Option<u64> {
    WARPS.into_iter().find(|warps| {
        let registers = (65_536 / (32 * warps)).min(255) - OTHER_REGISTERS;
        let k_steps = inputs / (32 * warps);
        k_steps > 0 && k_steps * 32 * warps == inputs && k_steps * K_STEP_REGISTERS <= registers
    })
}

/// A call of `router`, read and checked.
struct Router {
    rows: u64,
    inputs: u64,
    experts_count: u64,
    routing: Routing,
    x: Operand,
    gain: Operand,
    weights: Operand,
    packed: Option<PackedWeights>,
    router_bias: Option<Operand>,
    choice_bias: Option<Operand>,
    slots: Option<Operand>,
    normed: Operand,
    logits: Operand,
    experts: Operand,
    expert_weights: Operand,
}

impl Router {
    fn read(call: &Call<'_>) -> Result<Self> {
        let (rows, inputs) = (call.size("rows")?, call.size("inputs")?);
        let experts_count = call.size("experts_count")?;
        let routing = Routing::read(call, experts_count)?;
        let x = call.operand("x", &[rows, inputs])?;
        let (weights, packed) = weights(call, x.format, experts_count, inputs)?;
        Ok(Router {
            rows,
            inputs,
            experts_count,
            routing,
            x,
            gain: call.typed("gain", x.format, &[inputs])?,
            weights,
            packed,
            router_bias: call.optional_typed("router_bias", x.format, &[experts_count])?,
            choice_bias: call.optional_typed("choice_bias", F32, &[experts_count])?,
            slots: call.optional_typed("slots", I32, &[rows])?,
            normed: call.typed("normed", x.format, &[rows, inputs])?,
            logits: call.typed("logits", F32, &[rows, experts_count])?,
            experts: call.typed("experts", I32, &[rows, routing.top_k])?,
            expert_weights: call.typed("expert_weights", F32, &[rows, routing.top_k])?,
        })
    }

    /// CTAs of a cluster and warps of a CTA, where the fused kernel supports the shape: many rows are a
    /// GEMM.
    fn fused_shape(&self, queue: &Queue<'_>, max_rows: u64) -> Option<(u64, u64)> {
        let cluster = self.experts_count.div_ceil(CTA_EXPERTS).next_power_of_two();
        let operands = [self.x, self.gain, self.weights, self.normed];
        let aligned = operands.iter().all(|one| one.pointer.0.is_multiple_of(16));
        let facts = queue.device().facts();
        let has_clusters = facts.capability >= CLUSTER_CAPABILITY && cluster <= MAX_CLUSTER;
        let supported = matches!(self.x.format, F16 | Bf16)
            && self.packed.is_none()
            && aligned
            && (cluster == 1 || has_clusters);
        let warps = warps(self.inputs).filter(|_| supported && self.rows <= max_rows)?;
        Some((cluster, warps))
    }

    fn launch_fused(&self, call: &Call<'_>, (cluster, warps): (u64, u64)) -> Result<()> {
        let [sigmoid, normalize, top_two] = self.routing.defines(call)?;
        let defines: [Define; 7] = [
            ("ELEMENT", call.float_type("x", self.x)?.into()),
            ("INPUTS", self.inputs.into()),
            ("WARPS", warps.into()),
            ("CLUSTER_SIZE", cluster.into()),
            sigmoid,
            normalize,
            top_two,
        ];
        let function = call.function("router", &defines)?;
        let config = LaunchConfig {
            cluster: cluster as u32,
            ..grid_1d(cluster * self.rows.div_ceil(CLUSTER_TOKENS), warps * 32)
        };
        let arguments = [
            pointer(self.x),
            pointer(self.gain),
            pointer(self.weights),
            pointer_or_null(self.router_bias),
            pointer_or_null(self.choice_bias),
            pointer_or_null(self.slots),
            pointer(self.normed),
            pointer(self.experts),
            pointer(self.expert_weights),
            int(self.rows),
            int(self.experts_count),
            KernelArgument::F32(call.float("epsilon")?),
            int(self.routing.top_k),
            int(self.routing.groups),
            int(self.routing.top_groups),
            KernelArgument::F32(call.float("factor")?),
        ];
        call.queue.launch(&function, config, &arguments)
    }

    /// Norm, logits and routing in kernels of their own.
    fn launch_unfused(&self, call: &Call<'_>) -> Result<()> {
        let norm = [self.x, self.gain, self.normed];
        rms_norm_into(call, norm, [self.rows, self.inputs])?;
        let linear = LinearArguments {
            rows: self.rows,
            inputs: self.inputs,
            outputs: self.experts_count,
            x: self.normed,
            weights: self.weights,
            packed: self.packed,
            gain: None,
            epsilon: 0.0,
            bias: self.router_bias,
            residual: None,
            out: self.logits,
            activation: Activation::None,
            gated: false,
            lora: None,
        };
        launch_linear(call, &linear)?;
        let size = [self.rows, self.experts_count];
        let operands = [self.logits, self.experts, self.expert_weights];
        let optional = [self.choice_bias, self.slots];
        self.routing.launch(call, size, operands, optional)
    }
}

pub(super) fn router(call: &Call<'_>) -> Result<()> {
    let router = Router::read(call)?;
    if router.rows == 0 {
        return Ok(());
    }
    // A row's bits must not depend on which kernel the number of rows selects.
    let batch_invariant = call.integer("batch_invariant")? != 0;
    let max_rows = if batch_invariant { 0 } else { call.size("fused_rows")? };
    match router.fused_shape(call.queue, max_rows) {
        Some(shape) => router.launch_fused(call, shape),
        None => router.launch_unfused(call),
    }
}

#[cfg(test)]
mod tests {
    use super::warps;

    #[test]
    fn warps_split_the_inputs_of_published_models() {
        // Qwen3-30B-A3B, Mixtral, gpt-oss, and DeepSeek-V3, which is too wide.
        let found = [2048, 4096, 2880, 7168, 64].map(warps);
        assert_eq!(found, [Some(8), Some(8), Some(9), None, None]);
    }
}
