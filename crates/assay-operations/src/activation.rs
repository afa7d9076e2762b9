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

    /// The activation with this code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activation_codes_round_trip() {
        for activation in Activation::ALL {
            assert_eq!(Activation::from_code(activation.code()), Some(activation));
        }
        assert_eq!(Activation::from_code(11), None);
        assert_eq!(Activation::from_code(u32::MAX), None);
    }
}
