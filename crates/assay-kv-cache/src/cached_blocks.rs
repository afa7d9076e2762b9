//! Export and import of the prefix cache, between managers or across a restart.

use super::error::{KvError, Result};
use super::manager::BlockManager;
use super::prefix_cache::PrefixId;
use std::collections::HashMap;

/// A full block of the prefix cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CachedBlock {
    /// Its block id.
    pub block: u32,
    /// The index in the list of its parent block, if it has one.
    pub parent: Option<usize>,
    /// Its tokens.
    pub tokens: Vec<u32>,
}

impl BlockManager {
    /// Every block of the prefix cache, each after its parent; unreferenced ones most recently used
    /// first.
    pub fn cached_blocks(&self) -> Vec<CachedBlock> {
        let mut tables: Vec<(Vec<u32>, usize)> = Vec::new();
        for sequence in self.sequences.values() {
            tables.push((sequence.blocks.clone(), sequence.length / self.block_tokens));
        }
        tables.sort();
        let referenced =
            tables.iter().flat_map(|(blocks, full)| blocks.iter().take(*full).copied());
        let mut unreferenced: Vec<u32> = self.pool.cached().collect();
        unreferenced.reverse();
        let mut indices: HashMap<PrefixId, usize> = HashMap::new();
        let mut listed = Vec::new();
        for block in referenced.chain(unreferenced) {
            let Some((parent, tokens)) = self.prefix_cache.content(block) else {
                continue;
            };
            let Some(prefix) = self.prefix_cache.prefix_of(block) else {
                continue;
            };
            if indices.contains_key(&prefix) {
                continue;
            }
            indices.insert(prefix, listed.len());
            listed.push(CachedBlock {
                block,
                parent: indices.get(&parent).copied(),
                tokens: tokens.to_vec(),
            });
        }
        listed
    }

    /// Adopts blocks of another prefix cache. Returns for each the block here that its keys and
    /// values must be written to before the next step; none where an equal block exists here, or
    /// where there is no room.
    ///
    /// Evicts unreferenced blocks for them; referenced ones are not touched.
    pub fn adopt(&mut self, cached: &[CachedBlock]) -> Result<Vec<Option<u32>>> {
        self.check_chains(cached)?;
        if !self.prefix_caching {
            return Ok(vec![None; cached.len()]);
        }
        let mut prefixes: Vec<Option<PrefixId>> = Vec::with_capacity(cached.len());
        let mut destinations: Vec<Option<u32>> = Vec::with_capacity(cached.len());
        let mut acquired = Vec::new();
        for entry in cached {
            let parent = match entry.parent {
                None => Some(PrefixId::EMPTY),
                Some(index) => prefixes[index],
            };
            let found = parent.and_then(|parent| self.prefix_cache.find(parent, &entry.tokens));
            let (prefix, destination) = match (parent, found) {
                (_, Some((block, prefix))) => {
                    self.pool.acquire(block);
                    acquired.push(block);
                    (Some(prefix), None)
                }
                (Some(parent), None) if self.pool.available() > 0 => {
                    self.extend(&mut acquired, 1)?;
                    let block = acquired.last().copied();
                    let insert = |block| self.prefix_cache.insert(block, parent, &entry.tokens);
                    (block.map(insert), block)
                }
                _ => (None, None),
            };
            prefixes.push(prefix);
            destinations.push(destination);
        }
        // Acquired until now so that none was evicted for a later one; released in reverse, so that
        // the first are evicted last.
        for block in acquired.into_iter().rev() {
            self.release(block);
        }
        Ok(destinations)
    }

    /// Evicts every unreferenced block and returns how many there were.
    pub fn clear_cached(&mut self) -> usize {
        let evicted = self.pool.evict_all();
        for block in &evicted {
            self.prefix_cache.remove(*block);
        }
        evicted.len()
    }

    fn check_chains(&self, cached: &[CachedBlock]) -> Result<()> {
        for (index, entry) in cached.iter().enumerate() {
            let invalid = |what| -> Result<()> { Err(KvError::InvalidChain { index, what }) };
            if entry.tokens.len() != self.block_tokens {
                invalid("does not have as many tokens as blocks here have")?;
            }
            if entry.parent.is_some_and(|parent| parent >= index) {
                invalid("comes before its parent")?;
            }
        }
        Ok(())
    }
}
