//! The block manager's errors, one variant per failure.

use assay_collections::errors;

errors! {
    /// Why a call failed; the state is as before it.
    pub enum KvError {
        /// Too few blocks are free or evictable.
        OutOfBlocks {
            /// Blocks the call needs.
            needed: usize,
            /// Blocks that are free or can be evicted from the prefix cache.
            available: usize,
        } = "out_of_blocks" =>
            "KV cache: expected {needed} free blocks, got {available}\n\
             hint: close a sequence or make the cache larger";
        /// There is no such sequence, or it was closed.
        UnknownSequence {
            /// The sequence given.
            sequence: u64,
        } = "unknown_sequence" =>
            "KV cache: expected an open sequence, got {sequence}, which is not";
        /// Tokens were committed beyond the reserved slots.
        NotReserved {
            /// The sequence.
            sequence: u64,
            /// Tokens it would have.
            tokens: usize,
            /// Tokens reserved for it.
            reserved: usize,
        } = "not_reserved" =>
            "KV cache: expected sequence {sequence} to stay within its {reserved} reserved tokens, \
             got {tokens}\nhint: reserve before committing, and again after a fork";
        /// An option cannot be used.
        InvalidOption {
            /// Its name.
            name: &'static str,
            /// What is valid.
            expected: &'static str,
            /// What was given.
            got: usize,
        } = "invalid_option" => "KV cache: expected {name} {expected}, got {got}";
        /// A step does not fit its output array.
        StepTooLarge {
            /// Which extent.
            what: &'static str,
            /// The array's extent.
            expected: usize,
            /// The step's extent.
            got: usize,
        } = "step_too_large" => "KV cache: expected a step of at most {expected} {what}, got {got}";
        /// A list of cached blocks cannot be adopted.
        InvalidChain {
            /// The block's index in the list.
            index: usize,
            /// What is wrong with it.
            what: &'static str,
        } = "invalid_chain" => "KV cache: cached block {index} {what}";
        /// The state is inconsistent.
        Inconsistent {
            /// The violated invariant.
            what: String,
        } = "inconsistent" => "KV cache: {what}";
    }
}

impl std::error::Error for KvError {}

/// Result of a block manager call.
pub type Result<T> = std::result::Result<T, KvError>;
