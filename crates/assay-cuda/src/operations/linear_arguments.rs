//! The arguments of a linear layer, which all its kernels take.

use super::call::pointer;
use super::packed_weights::PackedWeights;
use assay_operations::{Activation, Operand};
use assay_runtime::backend::KernelArgument;

/// The second product of each row's LoRA adapter, which is added before the activation.
#[derive(Clone, Copy)]
pub(super) struct LoraArguments {
    pub rank: u64,
    pub low: Operand,
    pub b: Operand,
    pub adapters: Operand,
}

/// A call of `linear`, read and checked: out = activation(norm(x) weights^T + bias) + residual.
#[derive(Clone, Copy)]
pub(super) struct LinearArguments {
    pub rows: u64,
    pub inputs: u64,
    pub outputs: u64,
    pub x: Operand,
    pub weights: Operand,
    /// The layout and scales of quantized weights.
    pub packed: Option<PackedWeights>,
    /// The gain of an RMS norm of x; none: no norm.
    pub gain: Option<Operand>,
    pub epsilon: f32,
    pub bias: Option<Operand>,
    pub residual: Option<Operand>,
    pub out: Operand,
    /// Where gated, which gate it is; none for SwiGLU.
    pub activation: Activation,
    /// Whether outputs are gates and then as many ups; out has half as many columns.
    pub gated: bool,
    /// What GEMV and small-M GEMM add; no other kernel does.
    pub lora: Option<LoraArguments>,
}

impl LinearArguments {
    /// The rank of adapters, 0 without any, and the arguments that a kernel then takes last.
    pub fn lora_arguments(&self) -> (u64, Vec<KernelArgument>) {
        self.lora.map_or((0, Vec::new()), |lora| {
            (lora.rank, [lora.low, lora.b, lora.adapters].map(pointer).to_vec())
        })
    }
}
