//! How the elements of an operand, or of a tensor in a file, are stored.

use std::fmt;

/// Declares every format once: variant, name, bits of a value, values per block, bytes per block,
/// type number in GGUF files.
macro_rules! formats {
    ($($variant:ident $name:literal $bits:literal $values:literal $bytes:literal $gguf:expr,
       $meaning:literal;)*) => {
        /// An element or block format. The discriminant is its code in calls.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u32)]
        pub enum ElementFormat {
            $(#[doc = $meaning] $variant,)*
        }

        impl ElementFormat {
            /// All formats in the order of their codes.
            pub const ALL: &'static [ElementFormat] = &[$(ElementFormat::$variant,)*];

            /// The format's name: lower case, the same in Python and for every file format.
            pub const fn name(self) -> &'static str {
                match self { $(ElementFormat::$variant => $name,)* }
            }

            /// Bits of one value's code, scales excluded; nominal for codebook formats.
            pub const fn bits(self) -> u64 {
                match self { $(ElementFormat::$variant => $bits,)* }
            }

            /// Values per block; 1 where each element stands alone.
            pub const fn block_values(self) -> u64 {
                match self { $(ElementFormat::$variant => $values,)* }
            }

            /// Bytes per block, without scales that are stored behind all rows.
            pub const fn block_bytes(self) -> u64 {
                match self { $(ElementFormat::$variant => $bytes,)* }
            }

            /// Its type number in GGUF files, if it has one.
            pub const fn gguf_code(self) -> Option<u32> {
                match self { $(ElementFormat::$variant => $gguf,)* }
            }
        }
    };
}

// The sizes of GGUF formats are those of `ggml-common.h` and `ggml.h` of ggml; a test compares them
// with the table in the gguf package by the same authors.
formats! {
    F32 "f32" 32 1 4 Some(0), "IEEE single precision.";
    F16 "f16" 16 1 2 Some(1), "IEEE half precision.";
    Bf16 "bf16" 16 1 2 Some(30), "bfloat16: the upper half of single precision.";
    I32 "i32" 32 1 4 Some(26), "Signed integers, 32 bits.";
    I64 "i64" 64 1 8 Some(27), "Signed integers, 64 bits.";
    U8 "u8" 8 1 1 None, "Unsigned integers, 8 bits.";
    Int8 "int8" 8 1 1 None, "Signed 8-bit codes with one scale per row, stored behind all rows.";
    Q8_0 "q8_0" 8 32 34 Some(8), "Signed 8-bit codes, a scale per 32.";
    Q4_0 "q4_0" 4 32 18 Some(2), "4-bit codes with zero point 8, a scale per 32.";
    Q4_1 "q4_1" 4 32 20 Some(3), "4-bit codes, a scale and a minimum per 32.";
    Q4K "q4_k" 4 256 144 Some(12),
        "4-bit codes; a 6-bit scale and minimum per 32 in superblocks of 256.";
    Q6K "q6_k" 6 256 210 Some(14), "6-bit codes; an 8-bit scale per 16 in superblocks of 256.";
    Fp8 "fp8" 8 1 1 None, "8-bit floats (e4m3) with one scale per row, stored behind all rows.";
    Int4 "int4" 4 128 64 None,
        "4-bit codes; a scale and a minimum per group of 128, stored behind all rows.";
    F64 "f64" 64 1 8 Some(28), "IEEE double precision.";
    Bool "bool" 8 1 1 None, "Booleans, a byte each.";
    I8 "i8" 8 1 1 Some(24), "Signed integers, 8 bits.";
    I16 "i16" 16 1 2 Some(25), "Signed integers, 16 bits.";
    U16 "u16" 16 1 2 None, "Unsigned integers, 16 bits.";
    U32 "u32" 32 1 4 None, "Unsigned integers, 32 bits.";
    U64 "u64" 64 1 8 None, "Unsigned integers, 64 bits.";
    Complex64 "complex64" 64 1 8 None, "Complex numbers, two single-precision parts.";
    Complex128 "complex128" 128 1 16 None, "Complex numbers, two double-precision parts.";
    F8E4M3 "f8_e4m3" 8 1 1 None, "8-bit floats, 4 exponent bits.";
    F8E5M2 "f8_e5m2" 8 1 1 None, "8-bit floats, 5 exponent bits.";
    F8E8M0 "f8_e8m0" 8 1 1 None, "8-bit exponents: powers of two.";
    Q5_0 "q5_0" 5 32 22 Some(6), "5-bit codes, a scale per 32.";
    Q5_1 "q5_1" 5 32 24 Some(7), "5-bit codes, a scale and a minimum per 32.";
    Q2K "q2_k" 2 256 84 Some(10), "2-bit codes, nested scales in superblocks of 256.";
    Q3K "q3_k" 3 256 110 Some(11), "3-bit codes, nested scales in superblocks of 256.";
    Q5K "q5_k" 5 256 176 Some(13), "5-bit codes, nested scales and minima in superblocks of 256.";
    Q8K "q8_k" 8 256 292 Some(15), "Signed 8-bit codes, a scale per 256, sums per 16.";
    Iq2Xxs "iq2_xxs" 2 256 66 Some(16), "About 2 bits, from a codebook.";
    Iq2Xs "iq2_xs" 2 256 74 Some(17), "About 2.3 bits, from a codebook.";
    Iq3Xxs "iq3_xxs" 3 256 98 Some(18), "About 3 bits, from a codebook.";
    Iq1S "iq1_s" 1 256 50 Some(19), "About 1.6 bits, from a codebook.";
    Iq4Nl "iq4_nl" 4 32 18 Some(20), "4-bit indices into a table of 16 values.";
    Iq3S "iq3_s" 3 256 110 Some(21), "About 3.4 bits, from a codebook.";
    Iq2S "iq2_s" 2 256 82 Some(22), "About 2.5 bits, from a codebook.";
    Iq4Xs "iq4_xs" 4 256 136 Some(23), "4-bit indices into a table, nested scales.";
    Iq1M "iq1_m" 1 256 56 Some(29), "About 1.75 bits, from a codebook.";
    Tq1_0 "tq1_0" 1 256 54 Some(34), "Ternary, five to a byte.";
    Tq2_0 "tq2_0" 2 256 66 Some(35), "Ternary, four to a byte.";
    Mxfp4 "mxfp4" 4 32 17 Some(39), "4-bit floats, a power of two per 32.";
}

impl ElementFormat {
    /// The format's code in calls.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The format with this code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The format with this type number in GGUF files.
    pub fn from_gguf_code(code: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.gguf_code() == Some(code))
    }

    /// Whether scales are stored behind all rows instead of in each block.
    pub const fn has_separate_scales(self) -> bool {
        matches!(self, ElementFormat::Int8 | ElementFormat::Fp8 | ElementFormat::Int4)
    }

    /// Bytes of one element, for formats whose elements stand alone.
    pub const fn element_bytes(self) -> Option<u64> {
        if self.block_values() == 1 && !self.has_separate_scales() {
            Some(self.block_bytes())
        } else {
            None
        }
    }

    /// Bytes of this many values; `None` if they do not fill whole blocks or the count overflows.
    pub const fn bytes(self, values: u64) -> Option<u64> {
        if !values.is_multiple_of(self.block_values()) {
            return None;
        }
        (values / self.block_values()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for ElementFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_codes_round_trip() {
        for format in ElementFormat::ALL {
            assert_eq!(ElementFormat::from_code(format.code()), Some(*format));
        }
        let count = u32::try_from(ElementFormat::ALL.len()).unwrap();
        assert_eq!(ElementFormat::from_code(count), None);
        assert_eq!(ElementFormat::from_code(u32::MAX), None);
    }

    #[test]
    fn only_standalone_elements_have_element_bytes() {
        assert_eq!(ElementFormat::Bf16.element_bytes(), Some(2));
        for format in [ElementFormat::Int8, ElementFormat::Q8_0, ElementFormat::Int4] {
            assert_eq!(format.element_bytes(), None);
        }
    }
}
