//! The one table of element types that weight files hold.

use std::fmt;

/// Declares every type once: variant, name, numbers in a block, bytes of a block, code in GGUF.
macro_rules! elements {
    ($($variant:ident $name:literal $values:literal $bytes:literal $code:expr, $meaning:literal;)*) => {
        /// How the numbers of a tensor are stored.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Element {
            $(#[doc = $meaning] $variant,)*
        }

        impl Element {
            /// All of them.
            pub const ALL: &'static [Element] = &[$(Element::$variant,)*];

            /// Its name in lower case, the same for every file format.
            pub const fn name(self) -> &'static str {
                match self { $(Element::$variant => $name,)* }
            }

            /// Numbers in a block.
            pub const fn block_values(self) -> u64 {
                match self { $(Element::$variant => $values,)* }
            }

            /// Bytes of a block.
            pub const fn block_bytes(self) -> u64 {
                match self { $(Element::$variant => $bytes,)* }
            }

            /// Its number in GGUF files, where it has one.
            pub const fn gguf_code(self) -> Option<u32> {
                match self { $(Element::$variant => $code,)* }
            }
        }
    };
}

// Block layouts and codes: `ggml-common.h` and `ggml.h` of ggml; the gguf package of its authors
// holds the same table, and the tests compare the two.
elements! {
    F32 "f32" 1 4 Some(0), "IEEE single precision.";
    F16 "f16" 1 2 Some(1), "IEEE half precision.";
    BF16 "bf16" 1 2 Some(30), "The upper half of single precision.";
    F64 "f64" 1 8 Some(28), "IEEE double precision.";
    I8 "i8" 1 1 Some(24), "Signed bytes.";
    I16 "i16" 1 2 Some(25), "Signed, 16 bits.";
    I32 "i32" 1 4 Some(26), "Signed, 32 bits.";
    I64 "i64" 1 8 Some(27), "Signed, 64 bits.";
    U8 "u8" 1 1 None, "Bytes.";
    U16 "u16" 1 2 None, "Unsigned, 16 bits.";
    U32 "u32" 1 4 None, "Unsigned, 32 bits.";
    U64 "u64" 1 8 None, "Unsigned, 64 bits.";
    Bool "bool" 1 1 None, "A truth value in a byte.";
    F8E4M3 "f8_e4m3" 1 1 None, "Eight bits, four of them exponent.";
    F8E5M2 "f8_e5m2" 1 1 None, "Eight bits, five of them exponent.";
    F8E8M0 "f8_e8m0" 1 1 None, "Eight bits of exponent: a power of two.";
    Q4_0 "q4_0" 32 18 Some(2), "4 bits counted from 8, a scale for each 32.";
    Q4_1 "q4_1" 32 20 Some(3), "4 bits, a scale and a minimum for each 32.";
    Q5_0 "q5_0" 32 22 Some(6), "5 bits, a scale for each 32.";
    Q5_1 "q5_1" 32 24 Some(7), "5 bits, a scale and a minimum for each 32.";
    Q8_0 "q8_0" 32 34 Some(8), "Signed bytes, a scale for each 32.";
    Q2K "q2_k" 256 84 Some(10), "2 bits, nested scales in blocks of 256.";
    Q3K "q3_k" 256 110 Some(11), "3 bits, nested scales in blocks of 256.";
    Q4K "q4_k" 256 144 Some(12), "4 bits, nested scales and minima in blocks of 256.";
    Q5K "q5_k" 256 176 Some(13), "5 bits, nested scales and minima in blocks of 256.";
    Q6K "q6_k" 256 210 Some(14), "6 bits, nested scales in blocks of 256.";
    Q8K "q8_k" 256 292 Some(15), "Signed bytes, a scale for each 256, sums for each 16.";
    Iq2Xxs "iq2_xxs" 256 66 Some(16), "About 2 bits, from a code book.";
    Iq2Xs "iq2_xs" 256 74 Some(17), "About 2.3 bits, from a code book.";
    Iq3Xxs "iq3_xxs" 256 98 Some(18), "About 3 bits, from a code book.";
    Iq1S "iq1_s" 256 50 Some(19), "About 1.6 bits, from a code book.";
    Iq4Nl "iq4_nl" 32 18 Some(20), "4 bits into a table of 16 values.";
    Iq3S "iq3_s" 256 110 Some(21), "About 3.4 bits, from a code book.";
    Iq2S "iq2_s" 256 82 Some(22), "About 2.5 bits, from a code book.";
    Iq4Xs "iq4_xs" 256 136 Some(23), "4 bits into a table, nested scales.";
    Iq1M "iq1_m" 256 56 Some(29), "About 1.75 bits, from a code book.";
    Tq1_0 "tq1_0" 256 54 Some(34), "Ternary, five to a byte.";
    Tq2_0 "tq2_0" 256 66 Some(35), "Ternary, four to a byte.";
    Mxfp4 "mxfp4" 32 17 Some(39), "4-bit floats, a power of two for each 32.";
}

impl Element {
    /// The type with this number in GGUF files.
    pub fn from_gguf_code(code: u32) -> Option<Element> {
        Element::ALL
            .iter()
            .copied()
            .find(|element| element.gguf_code() == Some(code))
    }

    /// Bytes of so many numbers, where they fill whole blocks and the bytes can be counted.
    pub const fn bytes(self, values: u64) -> Option<u64> {
        if !values.is_multiple_of(self.block_values()) {
            return None;
        }
        (values / self.block_values()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
