//! Blocks with counted holders: free, held, or kept for whoever needs their tokens again.

use assay_collections::Lru;

/// Which blocks are held, by how many, and in which order the others may be taken.
pub(super) struct Blocks {
    holders: Vec<u32>,
    /// Blocks whose content nobody needs; the one freed last is taken first.
    free: Vec<u32>,
    /// Blocks without holders whose content the prefix index still names, by last use.
    kept: Lru,
    kept_count: usize,
}

/// A block that was taken, and whether its old content must leave the prefix index.
pub(super) struct Taken {
    pub block: u32,
    pub evicted: bool,
}

impl Blocks {
    pub fn new(count: u32) -> Self {
        Blocks {
            holders: vec![0; count as usize],
            free: (0..count).rev().collect(),
            kept: Lru::default(),
            kept_count: 0,
        }
    }

    pub fn count(&self) -> usize {
        self.holders.len()
    }

    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    pub fn kept_count(&self) -> usize {
        self.kept_count
    }

    /// Blocks that `take` can give.
    pub fn available(&self) -> usize {
        self.free.len() + self.kept_count
    }

    pub fn holders(&self, block: u32) -> u32 {
        self.holders[block as usize]
    }

    /// Takes a free block, or else the kept one that was not used for longest.
    pub fn take(&mut self) -> Option<Taken> {
        let taken = match self.free.pop() {
            Some(block) => Taken {
                block,
                evicted: false,
            },
            None => {
                let block = self.kept.iter().next()?;
                self.kept.remove(block);
                self.kept_count -= 1;
                Taken {
                    block,
                    evicted: true,
                }
            }
        };
        self.holders[taken.block as usize] = 1;
        Some(taken)
    }

    /// Adds a holder to a block that is held or kept.
    pub fn hold(&mut self, block: u32) {
        let holders = &mut self.holders[block as usize];
        if *holders == 0 {
            self.kept.remove(block);
            self.kept_count -= 1;
        }
        *holders += 1;
    }

    /// Takes a holder away; without any the block is kept, if others can find it, or free.
    pub fn release(&mut self, block: u32, findable: bool) {
        let holders = &mut self.holders[block as usize];
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        if findable {
            self.kept.touch(block);
            self.kept_count += 1;
        } else {
            self.free.push(block);
        }
    }

    /// Frees every kept block and gives them, least recently used first.
    pub fn drop_kept(&mut self) -> Vec<u32> {
        let dropped: Vec<u32> = self.kept.iter().collect();
        for block in &dropped {
            self.kept.remove(*block);
            self.free.push(*block);
        }
        self.kept_count = 0;
        dropped
    }

    /// Blocks without holders that can be found, least recently used first.
    pub fn kept(&self) -> impl Iterator<Item = u32> + '_ {
        self.kept.iter()
    }

    pub fn free(&self) -> &[u32] {
        &self.free
    }
}
