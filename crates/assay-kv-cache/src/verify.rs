//! The books held against each other, for tests and for doubt.

use super::KvCache;
use super::error::{KvError, Result};
use super::prefix::Link;
use std::collections::HashMap;

impl KvCache {
    /// Checks that every block is exactly one of free, held or kept, that holders are counted
    /// right, and that no findable block outlives the one before it.
    pub fn verify(&self) -> Result<()> {
        let mut holders: HashMap<u32, u32> = HashMap::new();
        for (name, sequence) in &self.sequences {
            let full = sequence.length / self.block_tokens;
            if sequence.blocks.len() * self.block_tokens < sequence.length {
                return wrong(format!(
                    "sequence {name} has more tokens than its blocks hold"
                ));
            }
            if sequence.tail.len() != sequence.length % self.block_tokens {
                return wrong(format!("sequence {name} lost count of its last tokens"));
            }
            for (index, block) in sequence.blocks.iter().enumerate() {
                *holders.entry(*block).or_default() += 1;
                if self.prefix_caching && (index < full) != self.prefixes.contains(*block) {
                    return wrong(format!(
                        "block {index} of sequence {name} is findable when it is not full, or not when it is"
                    ));
                }
            }
        }
        let kept: Vec<u32> = self.blocks.kept().collect();
        let mut places = kept.len() + self.blocks.free().len();
        for block in 0..self.blocks.count() as u32 {
            let counted = holders.get(&block).copied().unwrap_or(0);
            if counted != self.blocks.holders(block) {
                return wrong(format!(
                    "block {block} has {counted} holders and counts {}",
                    self.blocks.holders(block)
                ));
            }
            places += usize::from(counted > 0);
        }
        if places != self.blocks.count() || kept.len() != self.blocks.kept_count() {
            return wrong(format!(
                "{places} places for {} blocks",
                self.blocks.count()
            ));
        }
        let held_findable = holders
            .keys()
            .filter(|block| self.prefixes.contains(**block));
        if held_findable.count() + kept.len() != self.prefixes.len() {
            return wrong("the prefix index names blocks that are free".to_owned());
        }
        self.verify_order(&kept)
    }

    /// Whoever comes before a kept block in its chain is held, or was used later.
    fn verify_order(&self, kept: &[u32]) -> Result<()> {
        let mut later: HashMap<Link, u32> = HashMap::new();
        for block in kept.iter().rev() {
            let Some((before, _)) = self.prefixes.content(*block) else {
                return wrong(format!("kept block {block} cannot be found"));
            };
            let held = (0..self.blocks.count() as u32).any(|other| {
                self.blocks.holders(other) > 0 && self.prefixes.link_of(other) == Some(before)
            });
            if before != Link::START && !held && !later.contains_key(&before) {
                return wrong(format!("block {block} outlives the one before it"));
            }
            if let Some(link) = self.prefixes.link_of(*block) {
                later.insert(link, *block);
            }
        }
        Ok(())
    }
}

fn wrong(what: String) -> Result<()> {
    Err(KvError::Inconsistent { what })
}
