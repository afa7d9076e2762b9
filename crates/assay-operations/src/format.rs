//! How the elements of an operand are stored.

use std::fmt;

/// A number format of operands; the discriminant is its code in calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum ElementFormat {
    /// Single precision.
    F32 = 0,
    /// Half precision.
    F16 = 1,
    /// bfloat16.
    Bf16 = 2,
    /// 32-bit signed integers.
    I32 = 3,
    /// 64-bit signed integers.
    I64 = 4,
    /// Bytes.
    U8 = 5,
    /// Signed bytes with one scale for each row.
    Int8 = 6,
    /// Blocks of 32 signed bytes and a scale.
    Q8_0 = 7,
    /// Blocks of 32 times 4 bits counted from 8, and a scale.
    Q4_0 = 8,
    /// Blocks of 32 times 4 bits, a scale and a minimum.
    Q4_1 = 9,
    /// Blocks of 256 times 4 bits; a 6-bit scale and minimum for each 32.
    Q4K = 10,
    /// Blocks of 256 times 6 bits; an 8-bit scale for each 16.
    Q6K = 11,
    /// 8-bit floats of 4 exponent bits (e4m3) with one scale for each row.
    Fp8 = 12,
    /// Groups of 128 times 4 bits, a scale and a minimum.
    Int4 = 13,
    /// Double precision.
    F64 = 14,
    /// Truth values, a byte each.
    Bool = 15,
    /// 8-bit signed integers that stand for themselves.
    I8 = 16,
    /// 16-bit signed integers.
    I16 = 17,
    /// 16-bit unsigned integers.
    U16 = 18,
    /// 32-bit unsigned integers.
    U32 = 19,
    /// 64-bit unsigned integers.
    U64 = 20,
    /// Complex numbers of two single-precision parts.
    Complex64 = 21,
    /// Complex numbers of two double-precision parts.
    Complex128 = 22,
}

impl ElementFormat {
    /// All formats in the order of their codes.
    pub const ALL: [ElementFormat; 23] = [
        ElementFormat::F32,
        ElementFormat::F16,
        ElementFormat::Bf16,
        ElementFormat::I32,
        ElementFormat::I64,
        ElementFormat::U8,
        ElementFormat::Int8,
        ElementFormat::Q8_0,
        ElementFormat::Q4_0,
        ElementFormat::Q4_1,
        ElementFormat::Q4K,
        ElementFormat::Q6K,
        ElementFormat::Fp8,
        ElementFormat::Int4,
        ElementFormat::F64,
        ElementFormat::Bool,
        ElementFormat::I8,
        ElementFormat::I16,
        ElementFormat::U16,
        ElementFormat::U32,
        ElementFormat::U64,
        ElementFormat::Complex64,
        ElementFormat::Complex128,
    ];

    /// The format's code in calls.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The format with this code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The format's name, as Python spells it.
    pub const fn name(self) -> &'static str {
        match self {
            ElementFormat::F32 => "f32",
            ElementFormat::F16 => "f16",
            ElementFormat::Bf16 => "bf16",
            ElementFormat::I32 => "i32",
            ElementFormat::I64 => "i64",
            ElementFormat::U8 => "u8",
            ElementFormat::Int8 => "int8",
            ElementFormat::Q8_0 => "q8_0",
            ElementFormat::Q4_0 => "q4_0",
            ElementFormat::Q4_1 => "q4_1",
            ElementFormat::Q4K => "q4_k",
            ElementFormat::Q6K => "q6_k",
            ElementFormat::Fp8 => "fp8",
            ElementFormat::Int4 => "int4",
            ElementFormat::F64 => "f64",
            ElementFormat::Bool => "bool",
            ElementFormat::I8 => "i8",
            ElementFormat::I16 => "i16",
            ElementFormat::U16 => "u16",
            ElementFormat::U32 => "u32",
            ElementFormat::U64 => "u64",
            ElementFormat::Complex64 => "complex64",
            ElementFormat::Complex128 => "complex128",
        }
    }

    /// Bytes of one element, of formats whose elements stand alone.
    pub const fn element_bytes(self) -> Option<u64> {
        match self {
            ElementFormat::U8 | ElementFormat::I8 | ElementFormat::Bool => Some(1),
            ElementFormat::F16 | ElementFormat::Bf16 | ElementFormat::I16 | ElementFormat::U16 => {
                Some(2)
            }
            ElementFormat::F32 | ElementFormat::I32 | ElementFormat::U32 => Some(4),
            ElementFormat::F64
            | ElementFormat::I64
            | ElementFormat::U64
            | ElementFormat::Complex64 => Some(8),
            ElementFormat::Complex128 => Some(16),
            ElementFormat::Int8
            | ElementFormat::Q8_0
            | ElementFormat::Q4_0
            | ElementFormat::Q4_1
            | ElementFormat::Q4K
            | ElementFormat::Q6K
            | ElementFormat::Fp8
            | ElementFormat::Int4 => None,
        }
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
    fn codes_and_formats_go_both_ways() {
        for format in ElementFormat::ALL {
            assert_eq!(ElementFormat::from_code(format.code()), Some(format));
        }
        assert_eq!(ElementFormat::from_code(23), None);
        assert_eq!(ElementFormat::from_code(u32::MAX), None);
    }
}
