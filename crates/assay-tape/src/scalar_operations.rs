//! The definition of each elementwise operation at one point.
//!
//! The scalar path and the vector kernels are both generated from this table, so that a value is
//! bit-identical whether it is computed once per call or once per point.

use super::functions;
use super::op::Op;

/// A function of one number.
pub(super) trait Unary {
    fn apply(a: f64) -> f64;
}

/// A function of two numbers.
pub(super) trait Binary {
    fn apply(a: f64, b: f64) -> f64;
}

/// Passes the table to the macro `$use_table`. Any number but zero is true, NaN included.
macro_rules! elementwise {
    ($use_table:ident) => {
        $use_table! {
            unary {
                Neg: |a| -a;
                Sqrt: |a| a.sqrt();
                Exp: |a| functions::exp(a);
                Log: |a| functions::log(a);
                Log2: |a| functions::log2(a);
                Log10: |a| functions::log10(a);
                Expm1: |a| functions::expm1(a);
                Log1p: |a| functions::log1p(a);
                Abs: |a| a.abs();
                Floor: |a| a.floor();
                Ceil: |a| a.ceil();
                Round: |a| a.round_ties_even();
                Sin: |a| functions::sin(a);
                Cos: |a| functions::cos(a);
                Tan: |a| functions::tan(a);
                Atan: |a| functions::atan(a);
                Tanh: |a| functions::tanh(a);
                Erf: |a| functions::erf(a);
                Not: |a| truth(a == 0.0);
            }
            binary {
                Add: |a, b| a + b;
                Sub: |a, b| a - b;
                Mul: |a, b| a * b;
                Div: |a, b| a / b;
                Minimum: |a, b| if a <= b || a.is_nan() { a } else { b };
                Maximum: |a, b| if a >= b || a.is_nan() { a } else { b };
                Modulo: |a, b| modulo(a, b);
                Lt: |a, b| truth(a < b);
                Le: |a, b| truth(a <= b);
                Gt: |a, b| truth(a > b);
                Ge: |a, b| truth(a >= b);
                Eq: |a, b| truth(a == b);
                Ne: |a, b| truth(a != b);
                And: |a, b| truth((a != 0.0) & (b != 0.0));
                Or: |a, b| truth((a != 0.0) | (b != 0.0));
            }
        }
    };
}
pub(super) use elementwise;

macro_rules! define {
    (
        unary { $($unary:ident: |$x:ident| $of_one:expr;)* }
        binary { $($binary:ident: |$a:ident, $b:ident| $of_two:expr;)* }
    ) => {
        $(
            pub(super) struct $unary;

            impl Unary for $unary {
                #[inline(always)]
                fn apply($x: f64) -> f64 {
                    $of_one
                }
            }
        )*
        $(
            pub(super) struct $binary;

            impl Binary for $binary {
                #[inline(always)]
                fn apply($a: f64, $b: f64) -> f64 {
                    $of_two
                }
            }
        )*

        /// The result of an operation; `immediate` is the `b` field of `powi`.
        ///
        /// Blocks and extracts are not functions of three numbers: their callers handle them.
        pub(super) fn apply(op: Op, a: f64, b: f64, c: f64, immediate: u32) -> f64 {
            match op {
                $(Op::$unary => $unary::apply(a),)*
                $(Op::$binary => $binary::apply(a, b),)*
                Op::Pow => functions::pow(a, b),
                Op::Powi => powi(a, immediate as i32),
                Op::Select => select(a, b, c),
                Op::Block | Op::Extract => f64::NAN,
            }
        }
    };
}
elementwise!(define);

/// `1.0` for true, `0.0` for false.
#[inline(always)]
pub(super) fn truth(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

/// Remainder with the sign of the divisor.
#[inline(always)]
fn modulo(a: f64, b: f64) -> f64 {
    let remainder = a % b;
    if remainder == 0.0 {
        0.0_f64.copysign(b)
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder + b
    } else {
        remainder
    }
}

/// Integer power by repeated squaring, lowest bit of the exponent first.
#[inline(always)]
pub(super) fn powi(base: f64, exponent: i32) -> f64 {
    let mut remaining = exponent.unsigned_abs();
    let mut square = base;
    let mut product = 1.0;
    while remaining > 0 {
        if remaining & 1 == 1 {
            product *= square;
        }
        square *= square;
        remaining >>= 1;
    }
    if exponent < 0 { 1.0 / product } else { product }
}

/// Either of two by a condition.
#[inline(always)]
pub(super) fn select(a: f64, b: f64, condition: f64) -> f64 {
    if condition != 0.0 { a } else { b }
}
