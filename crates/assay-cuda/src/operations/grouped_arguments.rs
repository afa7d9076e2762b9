//! The arguments of a grouped linear layer, which all its kernels take.

use super::packed_weights::PackedWeights;
use assay_operations::{Activation, Operand};

/// A grouped linear layer, read and checked: out\[i\] is row i / fan_out of x times the weights of
/// expert experts\[i\].
#[derive(Clone, Copy)]
pub(super) struct GroupedLinear {
    pub assignments: u64,
    pub fan_out: u64,
    pub inputs: u64,
    /// Weight rows of one expert.
    pub outputs: u64,
    pub experts_count: u64,
    pub x: Operand,
    pub weights: Operand,
    pub packed: Option<PackedWeights>,
    pub bias: Option<Operand>,
    pub experts: Operand,
    pub out: Operand,
    /// Where gated, which gate it is; none for SwiGLU.
    pub activation: Activation,
    pub gated: bool,
    /// The experts were there before the preceding operation began.
    pub experts_ready: bool,
}
