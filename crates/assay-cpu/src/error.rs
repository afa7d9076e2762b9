//! Errors of operations: operation, expected, got.

use std::fmt;

/// Invalid arguments of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpError {
    /// Shapes do not match.
    Shape {
        /// The operation.
        operation: &'static str,
        /// The argument.
        argument: &'static str,
        /// What was expected.
        expected: String,
        /// What was given.
        got: String,
    },
    /// A value is out of range.
    Value {
        /// The operation.
        operation: &'static str,
        /// The argument.
        argument: &'static str,
        /// What was expected.
        expected: String,
        /// What was given.
        got: String,
    },
    /// An index is out of bounds.
    Index {
        /// The operation.
        operation: &'static str,
        /// The argument.
        argument: &'static str,
        /// The exclusive upper bound.
        limit: usize,
        /// The index given.
        got: i64,
    },
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, OpError>;

impl OpError {
    /// A stable error code, for mapping to other languages.
    pub const fn code(&self) -> &'static str {
        match self {
            OpError::Shape { .. } => "shape",
            OpError::Value { .. } => "value",
            OpError::Index { .. } => "index",
        }
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpError::Shape { operation, argument, expected, got } => write!(
                formatter,
                "shape mismatch in {operation}: expected {argument} of {expected}, got {got}"
            ),
            OpError::Value { operation, argument, expected, got } => write!(
                formatter,
                "invalid {argument} in {operation}: expected {expected}, got {got}"
            ),
            OpError::Index { operation, argument, limit, got } => write!(
                formatter,
                "index out of range in {operation}: expected {argument} from 0 to below {limit}, \
                 got {got}"
            ),
        }
    }
}

impl std::error::Error for OpError {}

/// Checks the length of a slice against its shape.
pub(crate) fn check_length(
    operation: &'static str,
    argument: &'static str,
    got: usize,
    shape: &[usize],
) -> Result<()> {
    let expected = shape.iter().try_fold(1_usize, |length, extent| length.checked_mul(*extent));
    if expected == Some(got) {
        return Ok(());
    }
    Err(OpError::Shape {
        operation,
        argument,
        expected: format!("{shape:?} elements"),
        got: format!("{got} elements"),
    })
}

/// Checks a condition on a value.
pub(crate) fn check_value(
    operation: &'static str,
    argument: &'static str,
    holds: bool,
    expected: impl fmt::Display,
    got: impl fmt::Display,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(OpError::Value {
        operation,
        argument,
        expected: expected.to_string(),
        got: got.to_string(),
    })
}

/// Checks an index and converts it.
pub(crate) fn check_index(
    operation: &'static str,
    argument: &'static str,
    index: i64,
    limit: usize,
) -> Result<usize> {
    match usize::try_from(index) {
        Ok(index) if index < limit => Ok(index),
        _ => Err(OpError::Index { operation, argument, limit, got: index }),
    }
}
