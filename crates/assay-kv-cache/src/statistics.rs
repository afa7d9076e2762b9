//! Usage counters of the block manager.

/// Block counts by state, and event counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvStatistics {
    /// All blocks.
    pub blocks: u64,
    /// Tokens per block.
    pub block_tokens: u64,
    /// Blocks referenced by sequences.
    pub used: u64,
    /// Blocks in the free list.
    pub free: u64,
    /// Unreferenced blocks in the prefix cache.
    pub cached: u64,
    /// Open sequences.
    pub sequences: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub queried_tokens: u64,
    /// Prompt tokens found in it.
    pub hit_tokens: u64,
    /// Cached blocks evicted for other tokens.
    pub evictions: u64,
    /// Copies on write: blocks copied because another sequence referenced them too.
    pub copies: u64,
    /// Blocks released because an equal one was in the prefix cache.
    pub duplicates: u64,
}
