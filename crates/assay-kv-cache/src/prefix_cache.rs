//! The prefix cache: finds the block that holds given tokens after a given prefix.
//!
//! A full block is keyed by its tokens and its parent, the block before it in the chain. Tokens are
//! compared exactly, never by a block hash, so that no two prompts can collide.

use std::collections::HashMap;

/// Identifies a prefix: a chain of full blocks. Ids are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct PrefixId(u64);

impl PrefixId {
    /// The empty prefix.
    pub const EMPTY: PrefixId = PrefixId(0);
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    parent: PrefixId,
    tokens: Box<[u32]>,
}

struct Entry {
    prefix: PrefixId,
    key: Key,
}

/// Full blocks by parent prefix and tokens.
#[derive(Default)]
pub(super) struct PrefixCache {
    blocks: HashMap<Key, u32>,
    /// The entry of each block, indexed by block id.
    entries: Vec<Option<Entry>>,
    last_prefix: u64,
}

impl PrefixCache {
    /// The block that holds these tokens after `parent`, and the prefix that ends with it.
    pub fn find(&self, parent: PrefixId, tokens: &[u32]) -> Option<(u32, PrefixId)> {
        let key = Key { parent, tokens: tokens.into() };
        let block = *self.blocks.get(&key)?;
        Some((block, self.prefix_of(block)?))
    }

    /// The prefix that ends with this block.
    pub fn prefix_of(&self, block: u32) -> Option<PrefixId> {
        Some(self.entry(block)?.prefix)
    }

    pub fn contains(&self, block: u32) -> bool {
        self.entry(block).is_some()
    }

    /// The block's parent prefix and its tokens.
    pub fn content(&self, block: u32) -> Option<(PrefixId, &[u32])> {
        let entry = self.entry(block)?;
        Some((entry.key.parent, &entry.key.tokens))
    }

    /// Inserts a block whose key is not present.
    pub fn insert(&mut self, block: u32, parent: PrefixId, tokens: &[u32]) -> PrefixId {
        self.last_prefix += 1;
        let prefix = PrefixId(self.last_prefix);
        let key = Key { parent, tokens: tokens.into() };
        self.blocks.insert(key.clone(), block);
        let index = block as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index] = Some(Entry { prefix, key });
        prefix
    }

    pub fn remove(&mut self, block: u32) {
        let entry = self.entries.get_mut(block as usize).and_then(Option::take);
        if let Some(entry) = entry {
            self.blocks.remove(&entry.key);
        }
    }

    /// Number of blocks in the cache.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    fn entry(&self, block: u32) -> Option<&Entry> {
        self.entries.get(block as usize)?.as_ref()
    }
}
