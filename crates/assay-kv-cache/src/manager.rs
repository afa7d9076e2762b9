//! Block tables of open sequences, over the block pool and the prefix cache.

use super::block_pool::BlockPool;
use super::error::{KvError, Result};
use super::prefix_cache::{PrefixCache, PrefixId};
use super::statistics::KvStatistics;
use std::collections::HashMap;

/// Identifies an open sequence.
pub type SequenceId = u64;

/// Size and behavior of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvOptions {
    /// Number of blocks.
    pub blocks: usize,
    /// Tokens per block.
    pub block_tokens: usize,
    /// Whether later prompts reuse full blocks.
    pub prefix_caching: bool,
}

/// A newly opened sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenedSequence {
    /// The sequence.
    pub sequence: SequenceId,
    /// Leading tokens whose keys and values are in the prefix cache.
    pub cached_tokens: usize,
}

/// A copy on write that must be made before the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockCopy {
    /// The shared block.
    pub from: u32,
    /// The sequence's own block.
    pub to: u32,
}

/// One open sequence.
pub(super) struct Sequence {
    /// The block table.
    pub blocks: Vec<u32>,
    /// Tokens whose keys and values are committed.
    pub length: usize,
    /// Tokens of the last, partial block.
    pub partial: Vec<u32>,
    /// The prefix of full blocks.
    pub prefix: PrefixId,
}

/// Assigns the blocks of a paged KV cache to sequences.
///
/// ```
/// use assay_kv_cache::{BlockManager, KvOptions};
/// let options = KvOptions { blocks: 8, block_tokens: 2, prefix_caching: true };
/// let mut manager = BlockManager::new(options)?;
/// let first = manager.open(&[1, 2, 3], 3)?;
/// manager.commit(first.sequence, &[1, 2, 3])?;
/// assert_eq!(manager.open(&[1, 2, 9], 3)?.cached_tokens, 2);
/// # Ok::<(), assay_kv_cache::KvError>(())
/// ```
pub struct BlockManager {
    pub(super) pool: BlockPool,
    pub(super) prefix_cache: PrefixCache,
    pub(super) sequences: HashMap<SequenceId, Sequence>,
    next_sequence: SequenceId,
    pub(super) block_tokens: usize,
    pub(super) prefix_caching: bool,
    counters: KvStatistics,
}

impl BlockManager {
    /// A manager with all blocks free.
    pub fn new(options: KvOptions) -> Result<Self> {
        let invalid = |name, expected, got| KvError::InvalidOption { name, expected, got };
        if options.block_tokens == 0 {
            return Err(invalid("block_tokens", "at least 1", 0));
        }
        let slots = options.blocks.checked_mul(options.block_tokens);
        if options.blocks == 0 || slots.is_none_or(|slots| slots > i32::MAX as usize) {
            let expected = "from 1 to as many as have 2^31 slots together";
            return Err(invalid("blocks", expected, options.blocks));
        }
        Ok(BlockManager {
            pool: BlockPool::new(options.blocks as u32),
            prefix_cache: PrefixCache::default(),
            sequences: HashMap::new(),
            next_sequence: 1,
            block_tokens: options.block_tokens,
            prefix_caching: options.prefix_caching,
            counters: KvStatistics::default(),
        })
    }

    /// Leading tokens of a prompt that the prefix cache holds.
    ///
    /// The last token is never among them: its logits have to be computed.
    pub fn lookup(&self, tokens: &[u32]) -> usize {
        self.cached_prefix(tokens).len() * self.block_tokens
    }

    /// Opens a sequence for a prompt and reserves `capacity` tokens, the cached ones included.
    pub fn open(&mut self, tokens: &[u32], capacity: usize) -> Result<OpenedSequence> {
        let found = self.cached_prefix(tokens);
        let capacity_blocks = capacity.div_ceil(self.block_tokens);
        let needed = capacity_blocks.saturating_sub(found.len());
        let unreferenced = found.iter().filter(|(block, _)| self.pool.reference_count(*block) == 0);
        self.check_available(needed, unreferenced.count())?;
        for (block, _) in &found {
            self.pool.acquire(*block);
        }
        let cached_tokens = found.len() * self.block_tokens;
        let mut opened = Sequence {
            blocks: found.iter().map(|(block, _)| *block).collect(),
            length: cached_tokens,
            partial: Vec::new(),
            prefix: found.last().map_or(PrefixId::EMPTY, |(_, prefix)| *prefix),
        };
        self.extend(&mut opened.blocks, needed)?;
        self.counters.queried_tokens += tokens.len() as u64;
        self.counters.hit_tokens += cached_tokens as u64;
        Ok(OpenedSequence { sequence: self.add(opened), cached_tokens })
    }

    /// Reserves slots for `tokens` tokens after the committed ones, all or nothing.
    ///
    /// A returned copy must be made before anything is written.
    pub fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> Result<Option<BlockCopy>> {
        let state = self.sequence(sequence)?;
        let capacity_blocks = (state.length + tokens).div_ceil(self.block_tokens);
        let more = capacity_blocks.saturating_sub(state.blocks.len());
        let next = state.length / self.block_tokens;
        let shared = tokens > 0 && self.next_block_is_shared(state);
        self.check_available(more + usize::from(shared), 0)?;
        let mut copy = None;
        let mut blocks = std::mem::take(&mut self.sequence_mut(sequence)?.blocks);
        if shared {
            self.extend(&mut blocks, 1)?;
            let from = blocks.swap_remove(next);
            self.release(from);
            self.counters.copies += 1;
            copy = Some(BlockCopy { from, to: blocks[next] });
        }
        self.extend(&mut blocks, more)?;
        self.sequence_mut(sequence)?.blocks = blocks;
        Ok(copy)
    }

    /// Commits tokens whose keys and values were written after the committed ones.
    ///
    /// Blocks that became full enter the prefix cache. Where it holds an equal block already, the
    /// sequence switches to that and releases its own.
    pub fn commit(&mut self, sequence: SequenceId, tokens: &[u32]) -> Result<()> {
        let state = self.sequence(sequence)?;
        self.check_reserved(sequence, state, state.length + tokens.len())?;
        for token in tokens {
            let block_tokens = self.block_tokens;
            let state = self.sequence_mut(sequence)?;
            state.partial.push(*token);
            state.length += 1;
            if state.partial.len() == block_tokens {
                self.complete_block(sequence)?;
            }
        }
        Ok(())
    }

    /// Forks a sequence: the two share blocks, copied on write.
    pub fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId> {
        let state = self.sequence(sequence)?;
        let copy = Sequence {
            blocks: state.blocks[..state.length.div_ceil(self.block_tokens)].to_vec(),
            length: state.length,
            partial: state.partial.clone(),
            prefix: state.prefix,
        };
        for block in &copy.blocks {
            self.pool.acquire(*block);
        }
        Ok(self.add(copy))
    }

    /// Closes a sequence and releases its blocks; full ones stay in the prefix cache until evicted.
    pub fn close(&mut self, sequence: SequenceId) -> Result<()> {
        let closed =
            self.sequences.remove(&sequence).ok_or(KvError::UnknownSequence { sequence })?;
        // In reverse, so that a chain is evicted from its end: more prompts share its beginning.
        for block in closed.blocks.into_iter().rev() {
            self.release(block);
        }
        Ok(())
    }

    /// The block table of a sequence; the last blocks may be reserved only.
    pub fn block_table(&self, sequence: SequenceId) -> Result<&[u32]> {
        Ok(&self.sequence(sequence)?.blocks)
    }

    /// Tokens committed to a sequence.
    pub fn length(&self, sequence: SequenceId) -> Result<usize> {
        Ok(self.sequence(sequence)?.length)
    }

    /// Block counts by state, and event counters.
    pub fn statistics(&self) -> KvStatistics {
        let (free, cached) = (self.pool.free_count(), self.pool.cached_count());
        KvStatistics {
            blocks: self.pool.count() as u64,
            block_tokens: self.block_tokens as u64,
            used: (self.pool.count() - free - cached) as u64,
            free: free as u64,
            cached: cached as u64,
            sequences: self.sequences.len() as u64,
            ..self.counters
        }
    }

    pub(super) fn sequence(&self, sequence: SequenceId) -> Result<&Sequence> {
        let state = self.sequences.get(&sequence);
        state.ok_or(KvError::UnknownSequence { sequence })
    }

    fn sequence_mut(&mut self, sequence: SequenceId) -> Result<&mut Sequence> {
        let state = self.sequences.get_mut(&sequence);
        state.ok_or(KvError::UnknownSequence { sequence })
    }

    fn add(&mut self, state: Sequence) -> SequenceId {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.sequences.insert(sequence, state);
        sequence
    }

    /// The cached blocks of the prompt's longest cached prefix.
    fn cached_prefix(&self, tokens: &[u32]) -> Vec<(u32, PrefixId)> {
        let usable = tokens.len().saturating_sub(1) / self.block_tokens;
        let mut found = Vec::new();
        let mut parent = PrefixId::EMPTY;
        for block_tokens in tokens.chunks_exact(self.block_tokens).take(usable) {
            let Some((block, prefix)) = self.prefix_cache.find(parent, block_tokens) else {
                break;
            };
            found.push((block, prefix));
            parent = prefix;
        }
        found
    }

    /// Fails when `needed` blocks cannot be allocated after `claimed` cached ones are acquired.
    fn check_available(&self, needed: usize, claimed: usize) -> Result<()> {
        let available = self.pool.available() - claimed;
        if needed > available {
            return Err(KvError::OutOfBlocks { needed, available });
        }
        Ok(())
    }

    /// Whether the next token's block is partly filled and referenced by another sequence.
    fn next_block_is_shared(&self, state: &Sequence) -> bool {
        let next = state.blocks.get(state.length / self.block_tokens);
        next.is_some_and(|block| self.pool.reference_count(*block) > 1)
    }

    /// Fails when a sequence of `tokens` tokens exceeds its reserved slots.
    pub(super) fn check_reserved(
        &self,
        sequence: SequenceId,
        state: &Sequence,
        tokens: usize,
    ) -> Result<()> {
        let reserved = if self.next_block_is_shared(state) {
            state.length
        } else {
            state.blocks.len() * self.block_tokens
        };
        if tokens > reserved {
            return Err(KvError::NotReserved { sequence, tokens, reserved });
        }
        Ok(())
    }

    /// Appends `count` newly allocated blocks.
    pub(super) fn extend(&mut self, blocks: &mut Vec<u32>, count: usize) -> Result<()> {
        for _ in 0..count {
            let allocated =
                self.pool.allocate().ok_or(KvError::OutOfBlocks { needed: 1, available: 0 })?;
            if allocated.evicted {
                self.prefix_cache.remove(allocated.block);
                self.counters.evictions += 1;
            }
            blocks.push(allocated.block);
        }
        Ok(())
    }

    /// Drops a sequence's reference to a block.
    pub(super) fn release(&mut self, block: u32) {
        self.pool.release(block, self.prefix_cache.contains(block));
    }

    /// Enters the block that became full into the prefix cache.
    fn complete_block(&mut self, sequence: SequenceId) -> Result<()> {
        let state = self.sequence_mut(sequence)?;
        let tokens = std::mem::take(&mut state.partial);
        if !self.prefix_caching {
            return Ok(());
        }
        let state = self.sequence(sequence)?;
        let index = state.length / self.block_tokens - 1;
        let (own, parent) = (state.blocks[index], state.prefix);
        let (block, prefix) = match self.prefix_cache.find(parent, &tokens) {
            Some((equal, prefix)) => {
                self.pool.acquire(equal);
                self.release(own);
                self.counters.duplicates += 1;
                (equal, prefix)
            }
            None => (own, self.prefix_cache.insert(own, parent, &tokens)),
        };
        let state = self.sequence_mut(sequence)?;
        state.blocks[index] = block;
        state.prefix = prefix;
        Ok(())
    }
}
