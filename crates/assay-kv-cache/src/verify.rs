//! Checks the block manager's invariants, for tests and debugging.

use super::error::{KvError, Result};
use super::manager::BlockManager;
use super::prefix_cache::PrefixId;
use std::collections::HashMap;

impl BlockManager {
    /// Checks that every block is exactly one of free, referenced or cached, that reference counts
    /// are right, and that no cached block outlives its parent.
    pub fn verify(&self) -> Result<()> {
        let mut references: HashMap<u32, u32> = HashMap::new();
        for (name, sequence) in &self.sequences {
            let full = sequence.length / self.block_tokens;
            if sequence.blocks.len() * self.block_tokens < sequence.length {
                return inconsistent(format!(
                    "sequence {name} has more tokens than its blocks hold"
                ));
            }
            if sequence.partial.len() != sequence.length % self.block_tokens {
                return inconsistent(format!(
                    "sequence {name} has a wrong count of partial-block tokens"
                ));
            }
            for (index, block) in sequence.blocks.iter().enumerate() {
                *references.entry(*block).or_default() += 1;
                if self.prefix_caching && (index < full) != self.prefix_cache.contains(*block) {
                    return inconsistent(format!(
                        "block {index} of sequence {name} is cached when it is not full, or not when it is"
                    ));
                }
            }
        }
        let cached: Vec<u32> = self.pool.cached().collect();
        let mut states = cached.len() + self.pool.free().len();
        for block in 0..self.pool.count() as u32 {
            let counted = references.get(&block).copied().unwrap_or(0);
            if counted != self.pool.reference_count(block) {
                return inconsistent(format!(
                    "block {block} has {counted} references and counts {}",
                    self.pool.reference_count(block)
                ));
            }
            states += usize::from(counted > 0);
        }
        if states != self.pool.count() || cached.len() != self.pool.cached_count() {
            return inconsistent(format!("{states} block states for {} blocks", self.pool.count()));
        }
        let referenced_cached =
            references.keys().filter(|block| self.prefix_cache.contains(**block));
        if referenced_cached.count() + cached.len() != self.prefix_cache.len() {
            return inconsistent("the prefix cache contains free blocks".to_owned());
        }
        self.verify_order(&cached)
    }

    /// The parent of every cached block is referenced, or was used later.
    fn verify_order(&self, cached: &[u32]) -> Result<()> {
        let mut later: HashMap<PrefixId, u32> = HashMap::new();
        for block in cached.iter().rev() {
            let Some((parent, _)) = self.prefix_cache.content(*block) else {
                return inconsistent(format!("cached block {block} is not in the prefix cache"));
            };
            let referenced = (0..self.pool.count() as u32).any(|other| {
                self.pool.reference_count(other) > 0
                    && self.prefix_cache.prefix_of(other) == Some(parent)
            });
            if parent != PrefixId::EMPTY && !referenced && !later.contains_key(&parent) {
                return inconsistent(format!("block {block} outlives its parent"));
            }
            if let Some(prefix) = self.prefix_cache.prefix_of(*block) {
                later.insert(prefix, *block);
            }
        }
        Ok(())
    }
}

fn inconsistent(what: String) -> Result<()> {
    Err(KvError::Inconsistent { what })
}
