//! The block manager's errors, one variant per failure.

use std::fmt;

/// Why a call failed; the state is as before it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KvError {
    /// Too few blocks are free or evictable.
    OutOfBlocks {
        /// Blocks the call needs.
        needed: usize,
        /// Blocks that are free or can be evicted from the prefix cache.
        available: usize,
    },
    /// There is no such sequence, or it was closed.
    UnknownSequence {
        /// The sequence given.
        sequence: u64,
    },
    /// Tokens were committed beyond the reserved slots.
    NotReserved {
        /// The sequence.
        sequence: u64,
        /// Tokens it would have.
        tokens: usize,
        /// Tokens reserved for it.
        reserved: usize,
    },
    /// An option cannot be used.
    InvalidOption {
        /// Its name.
        name: &'static str,
        /// What is valid.
        expected: &'static str,
        /// What was given.
        got: usize,
    },
    /// A step does not fit its output array.
    StepTooLarge {
        /// Which extent.
        what: &'static str,
        /// The array's extent.
        expected: usize,
        /// The step's extent.
        got: usize,
    },
    /// A list of cached blocks cannot be adopted.
    InvalidChain {
        /// The block's index in the list.
        index: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The state is inconsistent.
    Inconsistent {
        /// The violated invariant.
        what: String,
    },
}

impl KvError {
    /// A stable name for the failure, for mapping it in other languages.
    pub const fn code(&self) -> &'static str {
        match self {
            KvError::OutOfBlocks { .. } => "out_of_blocks",
            KvError::UnknownSequence { .. } => "unknown_sequence",
            KvError::NotReserved { .. } => "not_reserved",
            KvError::InvalidOption { .. } => "invalid_option",
            KvError::StepTooLarge { .. } => "step_too_large",
            KvError::InvalidChain { .. } => "invalid_chain",
            KvError::Inconsistent { .. } => "inconsistent",
        }
    }
}

impl fmt::Display for KvError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KvError::OutOfBlocks { needed, available } => write!(
                formatter,
                "KV cache: expected {needed} free blocks, got {available}\n\
                 hint: close a sequence or make the cache larger"
            ),
            KvError::UnknownSequence { sequence } => write!(
                formatter,
                "KV cache: expected an open sequence, got {sequence}, which is not"
            ),
            KvError::NotReserved {
                sequence,
                tokens,
                reserved,
            } => write!(
                formatter,
                "KV cache: expected sequence {sequence} to stay within its {reserved} reserved tokens, \
                 got {tokens}\nhint: reserve before committing, and again after a fork"
            ),
            KvError::InvalidOption {
                name,
                expected,
                got,
            } => write!(formatter, "KV cache: expected {name} {expected}, got {got}"),
            KvError::StepTooLarge {
                what,
                expected,
                got,
            } => write!(
                formatter,
                "KV cache: expected a step of at most {expected} {what}, got {got}"
            ),
            KvError::InvalidChain { index, what } => {
                write!(formatter, "KV cache: cached block {index} {what}")
            }
            KvError::Inconsistent { what } => write!(formatter, "KV cache: {what}"),
        }
    }
}

impl std::error::Error for KvError {}

/// Result of a block manager call.
pub type Result<T> = std::result::Result<T, KvError>;
