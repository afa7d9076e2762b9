//! Taking the findable blocks out of a cache and into another, or back after a restart.

use super::KvCache;
use super::error::{KvError, Result};
use super::prefix::Link;
use std::collections::HashMap;

/// A full block that can be found by its tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CachedBlock {
    /// Where its keys and values are.
    pub block: u32,
    /// The place in the list of the block before it in its chain.
    pub before: Option<usize>,
    /// Its tokens.
    pub tokens: Vec<u32>,
}

impl KvCache {
    /// Every findable block, each after the one before it in its chain; of those without holders
    /// the most recently used come first.
    pub fn cached_blocks(&self) -> Vec<CachedBlock> {
        let mut held: Vec<(Vec<u32>, usize)> = Vec::new();
        for sequence in self.sequences.values() {
            held.push((sequence.blocks.clone(), sequence.length / self.block_tokens));
        }
        held.sort();
        let in_sequences = held
            .iter()
            .flat_map(|(blocks, full)| blocks.iter().take(*full).copied());
        let mut kept: Vec<u32> = self.blocks.kept().collect();
        kept.reverse();
        let mut places: HashMap<Link, usize> = HashMap::new();
        let mut listed = Vec::new();
        for block in in_sequences.chain(kept) {
            let Some((before, tokens)) = self.prefixes.content(block) else {
                continue;
            };
            let Some(link) = self.prefixes.link_of(block) else {
                continue;
            };
            if places.contains_key(&link) {
                continue;
            }
            places.insert(link, listed.len());
            listed.push(CachedBlock {
                block,
                before: places.get(&before).copied(),
                tokens: tokens.to_vec(),
            });
        }
        listed
    }

    /// Makes blocks of another cache findable in this one and gives, for each, the block here that
    /// its keys and values must be written to before the next step; none where an equal block is
    /// here already, or where there is no room.
    ///
    /// Blocks without holders are given up for them, those with holders are not touched.
    pub fn adopt(&mut self, cached: &[CachedBlock]) -> Result<Vec<Option<u32>>> {
        self.check_chains(cached)?;
        if !self.prefix_caching {
            return Ok(vec![None; cached.len()]);
        }
        let mut links: Vec<Option<Link>> = Vec::with_capacity(cached.len());
        let mut taken: Vec<Option<u32>> = Vec::with_capacity(cached.len());
        let mut holding = Vec::new();
        for entry in cached {
            let before = match entry.before {
                None => Some(Link::START),
                Some(index) => links[index],
            };
            let found = before.and_then(|before| self.prefixes.find(before, &entry.tokens));
            let (link, fresh) = match (before, found) {
                (_, Some((block, link))) => {
                    self.blocks.hold(block);
                    holding.push(block);
                    (Some(link), None)
                }
                (Some(before), None) if self.blocks.available() > 0 => {
                    self.extend(&mut holding, 1)?;
                    let block = holding.last().copied();
                    let insert = |block| self.prefixes.insert(block, before, &entry.tokens);
                    (block.map(insert), block)
                }
                _ => (None, None),
            };
            links.push(link);
            taken.push(fresh);
        }
        // They were held so that none was given up for a later one; the first are used last.
        for block in holding.into_iter().rev() {
            self.release(block);
        }
        Ok(taken)
    }

    /// Forgets all tokens of blocks without holders and gives how many there were.
    pub fn clear_cached(&mut self) -> usize {
        let dropped = self.blocks.drop_kept();
        for block in &dropped {
            self.prefixes.remove(*block);
        }
        dropped.len()
    }

    fn check_chains(&self, cached: &[CachedBlock]) -> Result<()> {
        for (index, entry) in cached.iter().enumerate() {
            let wrong = |what| -> Result<()> { Err(KvError::InvalidChain { index, what }) };
            if entry.tokens.len() != self.block_tokens {
                wrong("does not have as many tokens as blocks here have")?;
            }
            if entry.before.is_some_and(|before| before >= index) {
                wrong("comes before the one that it follows")?;
            }
        }
        Ok(())
    }
}
