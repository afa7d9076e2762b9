//! Macros of kernels' sources.

use assay_operations::Activation;
use std::fmt;

/// A macro of a kernel's source (`-D`): its name and its value.
pub(super) type Define = (&'static str, DefineValue);

/// The value of a macro.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum DefineValue {
    Number(u64),
    Name(&'static str),
    Activation(Activation),
}

impl fmt::Display for DefineValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefineValue::Number(number) => number.fmt(formatter),
            DefineValue::Name(name) => formatter.write_str(name),
            DefineValue::Activation(activation) => write!(formatter, "Activation::{activation:?}"),
        }
    }
}

impl From<u64> for DefineValue {
    fn from(number: u64) -> Self {
        DefineValue::Number(number)
    }
}

impl From<bool> for DefineValue {
    fn from(flag: bool) -> Self {
        DefineValue::Number(u64::from(flag))
    }
}

impl From<Activation> for DefineValue {
    fn from(activation: Activation) -> Self {
        DefineValue::Activation(activation)
    }
}

impl From<&'static str> for DefineValue {
    fn from(name: &'static str) -> Self {
        DefineValue::Name(name)
    }
}
