//! Coalescing across owners and zones.

use super::{ANY_STREAM, CHUNK_BYTES, Heap};
use crate::memory::block::{Block, BlockState, NONE, Zone};

impl Heap {
    /// Coalesces all adjacent blocks that the slot may use, across owners and zones.
    ///
    /// Takes blocks from [`ANY_STREAM`] and mixes the zones: a fallback when nothing else fits.
    pub fn coalesce_all(&mut self, slot: usize) {
        if self.coalesced_all == (slot, self.releases) {
            return;
        }
        for position in 0..self.slabs.len() {
            let mut index = self.slabs[position].first;
            while index != NONE {
                if self.usable(index, slot) && self.usable(self.blocks[index].above, slot) {
                    self.coalesce_run(index, slot);
                }
                index = self.blocks[index].above;
            }
        }
        self.coalesced_all = (slot, self.releases);
    }

    fn usable(&self, index: u32, slot: usize) -> bool {
        let usable = |block: &Block| {
            let owner = usize::from(block.owner);
            block.state == BlockState::Free && (owner == slot || owner == ANY_STREAM)
        };
        self.blocks.get(index).is_some_and(usable)
    }

    /// Coalesces a block with all usable blocks above it.
    fn coalesce_run(&mut self, index: u32, slot: usize) {
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
            self.merge(index, above);
        }
        let block = &mut self.blocks[index];
        block.owner = owner;
        block.zone = if block.bytes >= CHUNK_BYTES { Zone::Large } else { zone };
        self.insert(index);
    }
}
