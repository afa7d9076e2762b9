//! Reference-counted blocks: free, referenced, or cached for reuse.

use assay_collections::Lru;

/// Reference counts of all blocks, the free list, and the eviction order of cached blocks.
pub(super) struct BlockPool {
    reference_counts: Vec<u32>,
    /// Free list: blocks without reusable content; last freed, first allocated.
    free: Vec<u32>,
    /// Unreferenced blocks in the prefix cache, by last use.
    cached: Lru,
    cached_count: usize,
}

/// An allocated block, and whether its old content must leave the prefix cache.
pub(super) struct AllocatedBlock {
    pub block: u32,
    pub evicted: bool,
}

impl BlockPool {
    pub fn new(count: u32) -> Self {
        BlockPool {
            reference_counts: vec![0; count as usize],
            free: (0..count).rev().collect(),
            cached: Lru::default(),
            cached_count: 0,
        }
    }

    pub fn count(&self) -> usize {
        self.reference_counts.len()
    }

    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    pub fn cached_count(&self) -> usize {
        self.cached_count
    }

    /// Blocks that `allocate` can return.
    pub fn available(&self) -> usize {
        self.free.len() + self.cached_count
    }

    pub fn reference_count(&self, block: u32) -> u32 {
        self.reference_counts[block as usize]
    }

    /// Allocates a free block, or else evicts the least recently used cached block.
    pub fn allocate(&mut self) -> Option<AllocatedBlock> {
        let allocated = match self.free.pop() {
            Some(block) => AllocatedBlock { block, evicted: false },
            None => {
                let block = self.cached.iter().next()?;
                self.cached.remove(block);
                self.cached_count -= 1;
                AllocatedBlock { block, evicted: true }
            }
        };
        self.reference_counts[allocated.block as usize] = 1;
        Some(allocated)
    }

    /// Adds a reference to a block that is referenced or cached.
    pub fn acquire(&mut self, block: u32) {
        let count = &mut self.reference_counts[block as usize];
        if *count == 0 {
            self.cached.remove(block);
            self.cached_count -= 1;
        }
        *count += 1;
    }

    /// Drops a reference; the last one moves the block to the cache if it is in the prefix cache,
    /// else to the free list.
    pub fn release(&mut self, block: u32, in_prefix_cache: bool) {
        let count = &mut self.reference_counts[block as usize];
        *count -= 1;
        if *count > 0 {
            return;
        }
        if in_prefix_cache {
            self.cached.touch(block);
            self.cached_count += 1;
        } else {
            self.free.push(block);
        }
    }

    /// Frees every cached block and returns them, least recently used first.
    pub fn evict_all(&mut self) -> Vec<u32> {
        let evicted: Vec<u32> = self.cached.iter().collect();
        for block in &evicted {
            self.cached.remove(*block);
            self.free.push(*block);
        }
        self.cached_count = 0;
        evicted
    }

    /// Unreferenced blocks in the prefix cache, least recently used first.
    pub fn cached(&self) -> impl Iterator<Item = u32> + '_ {
        self.cached.iter()
    }

    pub fn free(&self) -> &[u32] {
        &self.free
    }
}
