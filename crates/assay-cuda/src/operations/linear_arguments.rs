//! The arguments of a linear layer, which all its kernels take.

use super::packed_weights::PackedWeights;
use assay_operations::{Activation, Operand};

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
}
