//! Activations and their codes.

use assay_collections::named;

named! {
    /// The activation of a linear layer. The discriminant is its code in calls and the value of the
    /// CUDA kernels' `ACTIVATION_CODE` macro.
    #[derive(Default)]
    #[repr(u32)]
    pub enum Activation {
        /// x.
        #[default]
        None = "none",
        /// x / (1 + e^-x).
        Silu = "silu",
        /// x Phi(x), with the error function.
        Gelu = "gelu",
        /// x Phi(x), with the tanh approximation.
        GeluTanh = "gelu_tanh",
        /// max(x, 0).
        Relu = "relu",
        /// silu(gate) x up: the first half of a row is the gate of the second.
        Swiglu = "swiglu",
        /// gelu(gate) x up, with the tanh approximation.
        GegluTanh = "geglu_tanh",
        /// gelu(gate) x up, with the error function.
        Geglu = "geglu",
        /// gate sigmoid(1.702 gate) x (up + 1), gates at most 7 and ups from -7 to 7 (gpt-oss).
        SwigluClamped = "swiglu_clamped",
        /// The hyperbolic tangent.
        Tanh = "tanh",
        /// 1 / (1 + e^-x).
        Sigmoid = "sigmoid",
    }
}

impl Activation {
    /// The activation's code in calls.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Whether the activation is gated: it halves the number of outputs and is not elementwise.
    pub const fn is_gated(self) -> bool {
        matches!(
            self,
            Activation::Swiglu
                | Activation::GegluTanh
                | Activation::Geglu
                | Activation::SwigluClamped
        )
    }
}
