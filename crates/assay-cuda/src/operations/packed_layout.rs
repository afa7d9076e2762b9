//! The layouts of quantized weights: one table for Rust, Python ([`layout_macros`]) and CUDA
//! ([`codes`](super::codes)).
//!
//! The values of the kernels' macros are enumerators (`-DWEIGHT_FORMAT=WeightFormat::Int8`), of a
//! type for each macro: no number is repeated, and one macro's value for another does not compile.

use super::define::Define;
use assay_operations::ElementFormat;

/// Declares an enumeration that the kernels have too.
macro_rules! kernel_enumeration {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum $name { $($(#[$meaning])* $variant,)* }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The value of the kernels' macro.
            pub const fn macro_value(self) -> &'static str {
                match self {
                    $($name::$variant => concat!(stringify!($name), "::", stringify!($variant)),)*
                }
            }
        }
    };
}

kernel_enumeration! {
    /// The kernels' WEIGHT_FORMAT: what the code of a weight is.
    WeightFormat {
        /// No code: a float of 16 bits.
        Float16,
        /// A signed integer.
        Int8,
        /// An 8-bit float with 4 exponent bits.
        E4m3,
        /// An unsigned code of 4 bits.
        Uint4,
        /// An unsigned code of 5 bits.
        Uint5,
        /// An unsigned code of 6 bits.
        Uint6,
        /// A 4-bit index into the table of IQ4_NL.
        Iq4Nl,
        /// e2m1, the 4-bit float of MXFP4.
        E2m1,
    }
}

kernel_enumeration! {
    /// The kernels' SCALE_FORMAT: how a group stores its scale.
    ScaleFormat {
        /// Scale and minimum in half precision.
        Pair,
        /// Bytes of scale and minimum, times two numbers of each block of 256 weights.
        NestedMinimum,
        /// A byte, times a number of each block of 256 weights.
        Nested,
        /// An exponent of two.
        Exponent,
    }
}

/// The layout of a format of weights, as the kernels' macros of those names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WeightLayout {
    pub weight_format: WeightFormat,
    /// Weights that share a scale; 0 where a row has one scale.
    pub group_size: u64,
    scale_format: ScaleFormat,
    /// The code that stands for zero.
    zero_point: u64,
}

/// Weights that share the factor of nested scales.
const NESTED_BLOCK: u64 = 256;

/// Declares the layout of every format that kernels read: weight format, group size, scale format
/// and zero point. `blocks` are formats of llama.cpp's ggml, values of BLOCK_FORMAT.
macro_rules! layouts {
    (rows { $($row:ident $rule:tt)* } blocks { $($block:ident $block_rule:tt)* }) => {
        impl WeightLayout {
            /// The layout of a format; none for floats, and for block formats without kernels.
            pub fn of(format: ElementFormat) -> Option<Self> {
                match format {
                    $(ElementFormat::$row => layouts!(@layout $rule),)*
                    $(ElementFormat::$block => layouts!(@layout $block_rule),)*
                    _ => None,
                }
            }
        }

        /// Formats that kernels have as values of BLOCK_FORMAT.
        pub(super) const BLOCKS: &[ElementFormat] = &[$(ElementFormat::$block),*];

        /// The value of the kernels' BLOCK_FORMAT for a format of GGUF files.
        pub(super) fn block_format(format: ElementFormat) -> Option<&'static str> {
            match format {
                $(ElementFormat::$block => Some(concat!("BlockFormat::", stringify!($block))),)*
                _ => None,
            }
        }
    };
    (@layout ($weights:ident $group:literal $scales:ident $zero:literal)) => {
        Some(WeightLayout {
            weight_format: WeightFormat::$weights,
            group_size: $group,
            scale_format: ScaleFormat::$scales,
            zero_point: $zero,
        })
    };
}

layouts! {
    rows {
        Int8 (Int8 0 Pair 0)
        Fp8 (E4m3 0 Pair 0)
        Int4 (Uint4 128 Pair 0)
    }
    blocks {
        Q8_0 (Int8 32 Pair 0)
        Q4_0 (Uint4 32 Pair 8)
        Q4_1 (Uint4 32 Pair 0)
        Q5_0 (Uint5 32 Pair 16)
        Q5_1 (Uint5 32 Pair 0)
        Iq4Nl (Iq4Nl 32 Pair 0)
        Mxfp4 (E2m1 32 Exponent 0)
        Q2K (Uint4 16 NestedMinimum 0)
        Q3K (Uint4 16 Nested 4)
        Q4K (Uint4 32 NestedMinimum 0)
        Q5K (Uint5 32 NestedMinimum 0)
        Q6K (Uint6 16 Nested 32)
        Iq4Xs (Iq4Nl 32 Nested 0)
    }
}

impl WeightLayout {
    /// The macros of this layout.
    pub fn defines(self) -> [Define; 4] {
        [
            ("WEIGHT_FORMAT", self.weight_format.macro_value().into()),
            ("GROUP_SIZE", self.group_size.into()),
            ("SCALE_FORMAT", self.scale_format.macro_value().into()),
            ("ZERO_POINT", self.zero_point.into()),
        ]
    }

    /// Whether the scales of groups are integers, times a number of each block of 256 weights.
    pub fn has_nested_scales(self) -> bool {
        use ScaleFormat::{Nested, NestedMinimum};
        matches!(self.scale_format, Nested | NestedMinimum)
    }

    /// Bits of a code in the 16-byte chunks of a row; upper bits follow them.
    fn bits(self) -> u64 {
        match self.weight_format {
            WeightFormat::Float16 => 16,
            WeightFormat::Int8 | WeightFormat::E4m3 => 8,
            _ => 4,
        }
    }

    /// Weights in 16 bytes.
    pub fn chunk(self) -> u64 {
        128 / self.bits()
    }

    /// Weights of a row, padded to whole 128-byte lines.
    pub fn padded(self, inputs: u64) -> u64 {
        match self.group_size {
            0 => inputs,
            _ => inputs.next_multiple_of(1024 / self.bits()),
        }
    }

    /// Bytes of a row of weights, and of its scales.
    pub fn row_bytes(self, inputs: u64) -> (u64, u64) {
        let code_bits = match self.weight_format {
            WeightFormat::Uint5 => 5,
            WeightFormat::Uint6 => 6,
            _ => self.bits(),
        };
        let weights = self.padded(inputs) * code_bits / 8;
        if self.group_size == 0 {
            return (weights, 4);
        }
        // Scales of whole chunks of 128 weights, in whole 16-byte units.
        let bytes = |of_group: u64| inputs.div_ceil(128) * (128 / self.group_size) * of_group;
        let blocks = inputs.div_ceil(NESTED_BLOCK) * 4;
        let scales = match self.scale_format {
            ScaleFormat::Pair => inputs.div_ceil(self.group_size) * 4,
            ScaleFormat::NestedMinimum => (bytes(2) + blocks).next_multiple_of(16),
            ScaleFormat::Nested => (bytes(1) + blocks).next_multiple_of(16),
            ScaleFormat::Exponent => bytes(1).next_multiple_of(16),
        };
        (weights, scales)
    }
}

/// Bytes of a row of weights of a format, and of its scales; none for formats without kernels.
pub fn packed_row_bytes(format: ElementFormat, inputs: u64) -> Option<(u64, u64)> {
    WeightLayout::of(format).map(|layout| layout.row_bytes(inputs))
}

/// The macros of the kernels that read a format, with values as text; none for formats without kernels.
pub fn layout_macros(format: ElementFormat) -> Option<Vec<(&'static str, String)>> {
    let mut defines = WeightLayout::of(format)?.defines().to_vec();
    defines.extend(block_format(format).map(|value| ("BLOCK_FORMAT", value.into())));
    let text = |(name, value): Define| (name, value.to_string());
    Some(defines.into_iter().map(text).collect())
}
