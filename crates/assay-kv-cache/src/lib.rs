//! Blocks of keys and values: who holds which, and whose content can be used again.
//!
//! A sequence holds a list of blocks. A full block is named by its tokens and everything before
//! them, so that a later prompt that begins alike takes it over instead of computing it again.
//! Blocks without holders stay findable until others need the room, least recently used first.
//! The bytes themselves are the engine's: here are only their books.

#![forbid(unsafe_code)]

mod blocks;
mod chain;
mod error;
mod prefix;
mod statistics;
mod step;
mod verify;

pub use chain::CachedBlock;
pub use error::{KvError, Result};
pub use statistics::KvStatistics;
pub use step::StepLayout;

use blocks::Blocks;
use prefix::{Link, PrefixIndex};
use std::collections::HashMap;

/// An open sequence.
pub type SequenceId = u64;

/// Sizes of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvOptions {
    /// Blocks in all.
    pub blocks: usize,
    /// Tokens in a block.
    pub block_tokens: usize,
    /// Whether full blocks can be found by later prompts.
    pub prefix_caching: bool,
}

/// What a new sequence begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The sequence.
    pub sequence: SequenceId,
    /// Tokens at its beginning whose keys and values are in the cache already.
    pub cached_tokens: usize,
}

/// The content of one block that must be copied to another before the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockCopy {
    /// The block that others hold too.
    pub from: u32,
    /// The block that is the sequence's own.
    pub to: u32,
}

struct Sequence {
    blocks: Vec<u32>,
    /// Tokens whose keys and values are in the blocks.
    length: usize,
    /// Tokens after the last full block.
    tail: Vec<u32>,
    /// The last full block.
    link: Link,
}

/// The books of a paged cache of keys and values.
///
/// ```
/// use assay_kv_cache::{KvCache, KvOptions};
/// let mut cache = KvCache::new(KvOptions { blocks: 8, block_tokens: 2, prefix_caching: true })?;
/// let first = cache.open(&[1, 2, 3], 3)?;
/// cache.commit(first.sequence, &[1, 2, 3])?;
/// assert_eq!(cache.open(&[1, 2, 9], 3)?.cached_tokens, 2);
/// # Ok::<(), assay_kv_cache::KvError>(())
/// ```
pub struct KvCache {
    blocks: Blocks,
    prefixes: PrefixIndex,
    sequences: HashMap<SequenceId, Sequence>,
    next_sequence: SequenceId,
    block_tokens: usize,
    prefix_caching: bool,
    counted: KvStatistics,
}

impl KvCache {
    /// An empty cache.
    pub fn new(options: KvOptions) -> Result<Self> {
        let invalid = |name, expected, got| KvError::InvalidOption {
            name,
            expected,
            got,
        };
        if options.block_tokens == 0 {
            return Err(invalid("block_tokens", "at least 1", 0));
        }
        let slots = options.blocks.checked_mul(options.block_tokens);
        if options.blocks == 0 || slots.is_none_or(|slots| slots > i32::MAX as usize) {
            let expected = "from 1 to as many as have 2^31 slots together";
            return Err(invalid("blocks", expected, options.blocks));
        }
        Ok(KvCache {
            blocks: Blocks::new(options.blocks as u32),
            prefixes: PrefixIndex::default(),
            sequences: HashMap::new(),
            next_sequence: 1,
            block_tokens: options.block_tokens,
            prefix_caching: options.prefix_caching,
            counted: KvStatistics::default(),
        })
    }

    /// Tokens at the beginning of a prompt that a new sequence would find in the cache.
    ///
    /// The last token is never among them: its logits are what the prompt is computed for.
    pub fn lookup(&self, tokens: &[u32]) -> usize {
        self.matching(tokens).len() * self.block_tokens
    }

    /// Opens a sequence for a prompt with room for `room` tokens, the cached ones included.
    pub fn open(&mut self, tokens: &[u32], room: usize) -> Result<Opened> {
        let found = self.matching(tokens);
        let room_blocks = room.div_ceil(self.block_tokens);
        let needed = room_blocks.saturating_sub(found.len());
        let kept = found
            .iter()
            .filter(|(block, _)| self.blocks.holders(*block) == 0);
        self.check_available(needed, kept.count())?;
        for (block, _) in &found {
            self.blocks.hold(*block);
        }
        let cached_tokens = found.len() * self.block_tokens;
        let mut held = Sequence {
            blocks: found.iter().map(|(block, _)| *block).collect(),
            length: cached_tokens,
            tail: Vec::new(),
            link: found.last().map_or(Link::START, |(_, link)| *link),
        };
        self.extend(&mut held.blocks, needed)?;
        self.counted.queried_tokens += tokens.len() as u64;
        self.counted.hit_tokens += cached_tokens as u64;
        Ok(Opened {
            sequence: self.add(held),
            cached_tokens,
        })
    }

    /// Makes room for `tokens` more tokens than are committed, all or nothing.
    ///
    /// A copy that is returned must be made before anything is written.
    pub fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> Result<Option<BlockCopy>> {
        let held = self.sequence(sequence)?;
        let room_blocks = (held.length + tokens).div_ceil(self.block_tokens);
        let more = room_blocks.saturating_sub(held.blocks.len());
        let next = held.length / self.block_tokens;
        let shared = tokens > 0 && self.next_block_is_shared(held);
        self.check_available(more + usize::from(shared), 0)?;
        let mut copy = None;
        let mut blocks = std::mem::take(&mut self.sequence_mut(sequence)?.blocks);
        if shared {
            self.extend(&mut blocks, 1)?;
            let from = blocks.swap_remove(next);
            self.release(from);
            self.counted.copies += 1;
            copy = Some(BlockCopy {
                from,
                to: blocks[next],
            });
        }
        self.extend(&mut blocks, more)?;
        self.sequence_mut(sequence)?.blocks = blocks;
        Ok(copy)
    }

    /// Notes that keys and values of these tokens were written after those that were there.
    ///
    /// Blocks that are full now can be found by later prompts. Where an equal block can be found
    /// already, the sequence changes over to it and gives its own back.
    pub fn commit(&mut self, sequence: SequenceId, tokens: &[u32]) -> Result<()> {
        let held = self.sequence(sequence)?;
        self.check_room(sequence, held, held.length + tokens.len())?;
        for token in tokens {
            let block_tokens = self.block_tokens;
            let held = self.sequence_mut(sequence)?;
            held.tail.push(*token);
            held.length += 1;
            if held.tail.len() == block_tokens {
                self.complete_block(sequence)?;
            }
        }
        Ok(())
    }

    /// A second sequence with the same tokens; blocks are shared until one of them writes.
    pub fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId> {
        let held = self.sequence(sequence)?;
        let copy = Sequence {
            blocks: held.blocks[..held.length.div_ceil(self.block_tokens)].to_vec(),
            length: held.length,
            tail: held.tail.clone(),
            link: held.link,
        };
        for block in &copy.blocks {
            self.blocks.hold(*block);
        }
        Ok(self.add(copy))
    }

    /// Gives a sequence's blocks back; full ones stay findable for a while.
    pub fn close(&mut self, sequence: SequenceId) -> Result<()> {
        let held = self
            .sequences
            .remove(&sequence)
            .ok_or(KvError::UnknownSequence { sequence })?;
        // The end first, so that of a chain the end is evicted first: its beginning serves more.
        for block in held.blocks.into_iter().rev() {
            self.release(block);
        }
        Ok(())
    }

    /// The blocks of a sequence, in order; the last ones may be reserved only.
    pub fn table(&self, sequence: SequenceId) -> Result<&[u32]> {
        Ok(&self.sequence(sequence)?.blocks)
    }

    /// Tokens committed to a sequence.
    pub fn length(&self, sequence: SequenceId) -> Result<usize> {
        Ok(self.sequence(sequence)?.length)
    }

    /// Counts of blocks and events.
    pub fn statistics(&self) -> KvStatistics {
        let (free, cached) = (self.blocks.free_count(), self.blocks.kept_count());
        KvStatistics {
            blocks: self.blocks.count() as u64,
            block_tokens: self.block_tokens as u64,
            used: (self.blocks.count() - free - cached) as u64,
            free: free as u64,
            cached: cached as u64,
            sequences: self.sequences.len() as u64,
            ..self.counted
        }
    }

    fn sequence(&self, sequence: SequenceId) -> Result<&Sequence> {
        let held = self.sequences.get(&sequence);
        held.ok_or(KvError::UnknownSequence { sequence })
    }

    fn sequence_mut(&mut self, sequence: SequenceId) -> Result<&mut Sequence> {
        let held = self.sequences.get_mut(&sequence);
        held.ok_or(KvError::UnknownSequence { sequence })
    }

    fn add(&mut self, held: Sequence) -> SequenceId {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.sequences.insert(sequence, held);
        sequence
    }

    fn matching(&self, tokens: &[u32]) -> Vec<(u32, Link)> {
        let usable = tokens.len().saturating_sub(1) / self.block_tokens;
        let mut found = Vec::new();
        let mut before = Link::START;
        for part in tokens.chunks_exact(self.block_tokens).take(usable) {
            let Some((block, link)) = self.prefixes.find(before, part) else {
                break;
            };
            found.push((block, link));
            before = link;
        }
        found
    }

    /// Refuses when `needed` blocks cannot be taken once `claimed` kept ones are held.
    fn check_available(&self, needed: usize, claimed: usize) -> Result<()> {
        let available = self.blocks.available() - claimed;
        if needed > available {
            return Err(KvError::OutOfBlocks { needed, available });
        }
        Ok(())
    }

    /// Whether the block that the next token goes to is begun and held by others too.
    fn next_block_is_shared(&self, held: &Sequence) -> bool {
        let next = held.blocks.get(held.length / self.block_tokens);
        next.is_some_and(|block| self.blocks.holders(*block) > 1)
    }

    fn check_room(&self, sequence: SequenceId, held: &Sequence, tokens: usize) -> Result<()> {
        let room = if self.next_block_is_shared(held) {
            held.length
        } else {
            held.blocks.len() * self.block_tokens
        };
        if tokens > room {
            return Err(KvError::NotReserved {
                sequence,
                tokens,
                room,
            });
        }
        Ok(())
    }

    fn extend(&mut self, blocks: &mut Vec<u32>, count: usize) -> Result<()> {
        for _ in 0..count {
            let taken = self.blocks.take().ok_or(KvError::OutOfBlocks {
                needed: 1,
                available: 0,
            })?;
            if taken.evicted {
                self.prefixes.remove(taken.block);
                self.counted.evictions += 1;
            }
            blocks.push(taken.block);
        }
        Ok(())
    }

    fn release(&mut self, block: u32) {
        self.blocks.release(block, self.prefixes.contains(block));
    }

    /// Names the block that the tail has filled.
    fn complete_block(&mut self, sequence: SequenceId) -> Result<()> {
        let held = self.sequence_mut(sequence)?;
        let tokens = std::mem::take(&mut held.tail);
        if !self.prefix_caching {
            return Ok(());
        }
        let held = self.sequence(sequence)?;
        let index = held.length / self.block_tokens - 1;
        let (own, before) = (held.blocks[index], held.link);
        let (block, link) = match self.prefixes.find(before, &tokens) {
            Some((equal, link)) => {
                self.blocks.hold(equal);
                self.release(own);
                self.counted.duplicates += 1;
                (equal, link)
            }
            None => (own, self.prefixes.insert(own, before, &tokens)),
        };
        let held = self.sequence_mut(sequence)?;
        held.blocks[index] = block;
        held.link = link;
        Ok(())
    }
}
