//! Counts that tell how the cache is used.

/// How many blocks are where, and what has happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvStatistics {
    /// Blocks in all.
    pub blocks: u64,
    /// Tokens in a block.
    pub block_tokens: u64,
    /// Blocks that sequences hold.
    pub used: u64,
    /// Blocks whose content nobody needs.
    pub free: u64,
    /// Blocks without holders that a later prompt can still find.
    pub cached: u64,
    /// Open sequences.
    pub sequences: u64,
    /// Prompt tokens that were looked for in the prefix cache.
    pub queried_tokens: u64,
    /// Prompt tokens that were found there.
    pub hit_tokens: u64,
    /// Cached blocks whose content was given up for other tokens.
    pub evictions: u64,
    /// Blocks that were copied because another sequence held them too.
    pub copies: u64,
    /// Blocks given back because an equal one could be found already.
    pub duplicates: u64,
}
