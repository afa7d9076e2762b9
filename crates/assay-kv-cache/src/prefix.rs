//! Which block holds the keys and values of which tokens after which others.
//!
//! A full block is found by its tokens and the block before it in its chain. Chains are compared
//! token by token, never by a digest, so that no two prompts can be mistaken for each other.

use std::collections::HashMap;

/// The place of a block in a chain; numbers are never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Link(u64);

impl Link {
    /// Where every chain begins.
    pub const START: Link = Link(0);
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    before: Link,
    tokens: Box<[u32]>,
}

struct Entry {
    link: Link,
    key: Key,
}

/// The full blocks that can be found by their tokens.
#[derive(Default)]
pub(super) struct PrefixIndex {
    blocks: HashMap<Key, u32>,
    /// What each block is found by, by its number.
    entries: Vec<Option<Entry>>,
    last_link: u64,
}

impl PrefixIndex {
    /// The block that holds these tokens after `before`, and its own link.
    pub fn find(&self, before: Link, tokens: &[u32]) -> Option<(u32, Link)> {
        let key = Key {
            before,
            tokens: tokens.into(),
        };
        let block = *self.blocks.get(&key)?;
        Some((block, self.link_of(block)?))
    }

    pub fn link_of(&self, block: u32) -> Option<Link> {
        Some(self.entry(block)?.link)
    }

    pub fn contains(&self, block: u32) -> bool {
        self.entry(block).is_some()
    }

    /// What comes before the block, and its tokens.
    pub fn content(&self, block: u32) -> Option<(Link, &[u32])> {
        let entry = self.entry(block)?;
        Some((entry.key.before, &entry.key.tokens))
    }

    /// Names a block that `find` does not find yet.
    pub fn insert(&mut self, block: u32, before: Link, tokens: &[u32]) -> Link {
        self.last_link += 1;
        let link = Link(self.last_link);
        let key = Key {
            before,
            tokens: tokens.into(),
        };
        self.blocks.insert(key.clone(), block);
        let index = block as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index] = Some(Entry { link, key });
        link
    }

    pub fn remove(&mut self, block: u32) {
        let entry = self.entries.get_mut(block as usize).and_then(Option::take);
        if let Some(entry) = entry {
            self.blocks.remove(&entry.key);
        }
    }

    /// How many blocks can be found.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    fn entry(&self, block: u32) -> Option<&Entry> {
        self.entries.get(block as usize)?.as_ref()
    }
}
