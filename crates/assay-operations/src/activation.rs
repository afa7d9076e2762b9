//! Activations and their codes.

use std::fmt;

/// The activation of a linear layer. The discriminant is its code in calls and the value of the
/// CUDA kernels' `ACTIVATION_CODE` macro.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u32)]
pub enum Activation {
    /// x.
    #[default]
    None = 0,
    /// x / (1 + e^-x).
    Silu = 1,
    /// x Phi(x), with the error function.
    Gelu = 2,
    /// x Phi(x), with the tanh approximation.
    GeluTanh = 3,
    /// max(x, 0).
    Relu = 4,
    /// silu(gate) x up: the first half of a row is the gate of the second.
    Swiglu = 5,
    /// gelu(gate) x up, with the tanh approximation.
    GegluTanh = 6,
    /// gelu(gate) x up, with the error function.
    Geglu = 7,
    /// gate sigmoid(1.702 gate) x (up + 1), gates at most 7 and ups from -7 to 7 (gpt-oss).
    SwigluClamped = 8,
}

impl Activation {
    /// All activations in the order of their codes.
    pub const ALL: [Activation; 9] = [
        Activation::None,
        Activation::Silu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Relu,
        Activation::Swiglu,
        Activation::GegluTanh,
        Activation::Geglu,
        Activation::SwigluClamped,
    ];

    /// The activation's code in calls.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The activation with this code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The activation's name, as Python spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Activation::None => "none",
            Activation::Silu => "silu",
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_tanh",
            Activation::Relu => "relu",
            Activation::Swiglu => "swiglu",
            Activation::GegluTanh => "geglu_tanh",
            Activation::Geglu => "geglu",
            Activation::SwigluClamped => "swiglu_clamped",
        }
    }

    /// Whether the activation is gated: it halves the number of outputs and is not elementwise.
    pub const fn is_gated(self) -> bool {
        self as u32 >= Activation::Swiglu as u32
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
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
        assert_eq!(Activation::from_code(9), None);
        assert_eq!(Activation::from_code(u32::MAX), None);
    }
}
