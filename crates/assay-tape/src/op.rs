//! The operations of a tape: the one table of names, codes and arities.

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal, $arity:literal;)*) => {
        /// One operation. Codes and names are part of the stored format and never change meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Op {
            $($(#[$doc])* $variant = $code,)*
        }

        impl Op {
            /// Every operation, in the order of the table.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)*];

            /// The name used in programs and messages.
            pub const fn name(self) -> &'static str {
                match self { $(Op::$variant => $name,)* }
            }

            /// How many of the fields `a`, `b`, `c` are value numbers, counted from `a`.
            pub const fn arity(self) -> usize {
                match self { $(Op::$variant => $arity,)* }
            }

            /// The operation with this code, if there is one.
            pub const fn from_code(code: u32) -> Option<Op> {
                match code { $($code => Some(Op::$variant),)* _ => None }
            }
        }
    };
}

operations! {
    /// `a + b`
    Add = 1, "add", 2;
    /// `a - b`
    Sub = 2, "sub", 2;
    /// `a * b`
    Mul = 3, "mul", 2;
    /// `a / b`
    Div = 4, "div", 2;
    /// `-a`
    Neg = 5, "neg", 1;
    /// `a` to the power `b`, with the special cases of C's `pow`.
    Pow = 6, "pow", 2;
    /// `a` to an integer power by multiplication; field `b` holds the exponent's i32 bits.
    Powi = 7, "powi", 1;
    /// Square root of `a`.
    Sqrt = 8, "sqrt", 1;
    /// e to the power `a`.
    Exp = 9, "exp", 1;
    /// Natural logarithm of `a`.
    Log = 10, "log", 1;
    /// Logarithm of `a` to base 2, exact for powers of two.
    Log2 = 11, "log2", 1;
    /// Logarithm of `a` to base 10, exact for powers of ten.
    Log10 = 12, "log10", 1;
    /// `exp(a) - 1` without cancellation.
    Expm1 = 13, "expm1", 1;
    /// `log(1 + a)` without cancellation.
    Log1p = 14, "log1p", 1;
    /// Absolute value of `a`.
    Abs = 15, "abs", 1;
    /// The smaller of `a` and `b`; NaN if either is; `a` at a tie.
    Minimum = 16, "minimum", 2;
    /// The larger of `a` and `b`; NaN if either is; `a` at a tie.
    Maximum = 17, "maximum", 2;
    /// The largest integer not above `a`.
    Floor = 18, "floor", 1;
    /// The smallest integer not below `a`.
    Ceil = 19, "ceil", 1;
    /// The nearest integer to `a`, halves to even.
    Round = 20, "round", 1;
    /// Remainder with the sign of the divisor `b`, as Python's `%`; NaN where `b` is 0.
    Modulo = 21, "modulo", 2;
    /// Sine of `a`.
    Sin = 22, "sin", 1;
    /// Cosine of `a`.
    Cos = 23, "cos", 1;
    /// Tangent of `a`.
    Tan = 24, "tan", 1;
    /// Arc tangent of `a`.
    Atan = 25, "atan", 1;
    /// Hyperbolic tangent of `a`.
    Tanh = 26, "tanh", 1;
    /// Error function of `a`.
    Erf = 27, "erf", 1;
    /// 1 where `a < b`, else 0.
    Lt = 28, "lt", 2;
    /// 1 where `a <= b`, else 0.
    Le = 29, "le", 2;
    /// 1 where `a > b`, else 0.
    Gt = 30, "gt", 2;
    /// 1 where `a >= b`, else 0.
    Ge = 31, "ge", 2;
    /// 1 where `a == b`, else 0.
    Eq = 32, "eq", 2;
    /// 1 where `a != b`, else 0.
    Ne = 33, "ne", 2;
    /// 1 where both are non-zero, else 0.
    And = 34, "and", 2;
    /// 1 where either is non-zero, else 0.
    Or = 35, "or", 2;
    /// 1 where `a` is 0, else 0.
    Not = 36, "not", 1;
    /// `a` where `c` is non-zero, else `b`; the other branch leaves no trace.
    Select = 37, "select", 3;
    /// Solves block number `a`; its members are read by `extract`.
    Block = 38, "block", 0;
    /// Member `b` of the block executed by the instruction with value number `a`.
    Extract = 39, "extract", 1;
}

#[cfg(test)]
mod tests {
    use super::Op;

    #[test]
    fn codes_round_trip_and_names_are_unique() {
        let mut names: Vec<_> = Op::ALL.iter().map(|op| op.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Op::ALL.len());
        for &op in Op::ALL {
            assert_eq!(Op::from_code(op as u32), Some(op));
        }
        assert_eq!(Op::from_code(0), None);
        assert_eq!(Op::from_code(40), None);
    }
}
