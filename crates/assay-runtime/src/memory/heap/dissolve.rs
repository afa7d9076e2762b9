//! Joining across the boundaries that a heap usually keeps.

use super::{CHUNK_BYTES, COMMON, Heap};
use crate::memory::block::{Block, BlockState, NONE, Zone};

impl Heap {
    /// Joins everything adjacent that the slot may use, across owners and zones.
    ///
    /// Common memory is kept common, and small apart from large, for as long as that is possible;
    /// this is for when it is not.
    pub fn dissolve(&mut self, slot: usize) {
        if self.dissolved == (slot, self.releases) {
            return;
        }
        for position in 0..self.slabs.len() {
            let mut index = self.slabs[position].first;
            while index != NONE {
                if self.usable(index, slot) && self.usable(self.blocks[index].above, slot) {
                    self.join_run(index, slot);
                }
                index = self.blocks[index].above;
            }
        }
        self.dissolved = (slot, self.releases);
    }

    fn usable(&self, index: u32, slot: usize) -> bool {
        let usable = |block: &Block| {
            let owner = usize::from(block.owner);
            block.state == BlockState::Free && (owner == slot || owner == COMMON)
        };
        self.blocks.get(index).is_some_and(usable)
    }

    /// Joins a block with all usable ones above it.
    fn join_run(&mut self, index: u32, slot: usize) {
        self.remove(index);
        let mut owner = self.blocks[index].owner;
        let mut zone = self.blocks[index].zone;
        loop {
            let above = self.blocks[index].above;
            if !self.usable(above, slot) {
                break;
            }
            self.remove(above);
            let block = &self.blocks[above];
            owner = owner.max(block.owner);
            if block.zone == Zone::Large {
                zone = Zone::Large;
            }
            self.absorb(index, above);
        }
        let block = &mut self.blocks[index];
        block.owner = owner;
        block.zone = if block.bytes >= CHUNK_BYTES {
            Zone::Large
        } else {
            zone
        };
        self.insert(index);
    }
}
