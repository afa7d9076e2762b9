//! Descriptions of blocks, kept beside the memory because device memory cannot hold links.
//!
//! All lists run through these descriptions as 32-bit indices; nothing is allocated or moved when
//! a block changes lists.

use std::ops::{Index, IndexMut};

/// The index that means none.
pub(super) const NONE: u32 = u32::MAX;

/// What a description stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockState {
    /// Nothing; waiting to describe a block again.
    Unused,
    /// Memory in a caller's hands.
    Allocated,
    /// Free, in the bins, joined with its free neighbors.
    Free,
    /// Free, in a quick list, not joined.
    Quick,
}

/// Which part of the heap a block belongs to; blocks of different zones are never joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Zone {
    /// Divided among small requests.
    Small,
    /// Everything else.
    Large,
}

/// One block, on one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Block {
    pub address: u64,
    pub bytes: u64,
    /// What the caller asked for.
    pub requested: u64,
    /// The blocks just below and above in the same slab.
    pub below: u32,
    pub above: u32,
    /// Neighbors in a bin or quick list.
    pub previous: u32,
    pub next: u32,
    /// When it was put in the bins, in its owner's count.
    pub epoch: u64,
    /// Counts the allocations of this description, so that stale handles are recognized.
    pub generation: u32,
    pub tenant: u32,
    /// The stream slot that may reuse it at once; meaningful while free.
    pub owner: u16,
    pub state: BlockState,
    pub zone: Zone,
}

impl Block {
    fn unused() -> Self {
        Block {
            address: 0,
            bytes: 0,
            requested: 0,
            below: NONE,
            above: NONE,
            previous: NONE,
            next: NONE,
            epoch: 0,
            generation: 0,
            tenant: 0,
            owner: 0,
            state: BlockState::Unused,
            zone: Zone::Large,
        }
    }
}

/// All descriptions of a pool.
pub(super) struct Blocks {
    nodes: Vec<Block>,
    /// Unused descriptions, linked by `next`.
    spare: u32,
}

impl Blocks {
    pub fn with_capacity(blocks: usize) -> Self {
        Blocks {
            nodes: Vec::with_capacity(blocks),
            spare: NONE,
        }
    }

    pub fn get(&self, index: u32) -> Option<&Block> {
        self.nodes.get(index as usize)
    }

    /// A description to fill in, with its generation kept.
    pub fn claim(&mut self) -> u32 {
        let index = self.spare;
        if index == NONE {
            self.nodes.push(Block::unused());
            return (self.nodes.len() - 1) as u32;
        }
        self.spare = self[index].next;
        let generation = self[index].generation;
        self[index] = Block {
            generation,
            ..Block::unused()
        };
        index
    }

    /// Gives a description back.
    pub fn retire(&mut self, index: u32) {
        let spare = self.spare;
        let block = &mut self[index];
        block.state = BlockState::Unused;
        block.next = spare;
        self.spare = index;
    }
}

impl Index<u32> for Blocks {
    type Output = Block;

    fn index(&self, index: u32) -> &Block {
        &self.nodes[index as usize]
    }
}

impl IndexMut<u32> for Blocks {
    fn index_mut(&mut self, index: u32) -> &mut Block {
        &mut self.nodes[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_fills_one_cache_line() {
        assert_eq!(std::mem::size_of::<Block>(), 64);
    }
}
