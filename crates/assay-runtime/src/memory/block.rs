//! Block descriptors, kept outside the memory because the host cannot write links into device
//! memory.
//!
//! All free lists link descriptors by 32-bit indices; nothing is allocated or moved when a block
//! changes lists.

use std::ops::{Index, IndexMut};

/// The index that means none.
pub(super) const NONE: u32 = u32::MAX;

/// What a descriptor stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockState {
    /// No block; the descriptor can be reused.
    Unused,
    /// Allocated to a caller.
    Allocated,
    /// Free, in a bin, coalesced with its free neighbors.
    Free,
    /// Free, in the free list of its size class, not coalesced.
    Cached,
}

/// Which part of the heap a block belongs to; blocks of different zones are not coalesced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Zone {
    /// Chunks split for small requests.
    Small,
    /// All other memory.
    Large,
}

/// The descriptor of one block, on one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Block {
    pub address: u64,
    pub bytes: u64,
    /// The size in the caller's request.
    pub requested: u64,
    /// The adjacent blocks of the same slab, at lower and higher addresses.
    pub below: u32,
    pub above: u32,
    /// Links of a bin or of a size class's free list.
    pub previous: u32,
    pub next: u32,
    /// The owner's epoch when the block entered the bins.
    pub epoch: u64,
    /// Incremented at each allocation, so that stale handles are recognized.
    pub generation: u32,
    pub tenant: u32,
    /// The stream slot that may reuse the block without waiting; meaningful while free.
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

/// All descriptors of a pool.
pub(super) struct Blocks {
    nodes: Vec<Block>,
    /// Unused descriptors, linked by `next`.
    unused: u32,
}

impl Blocks {
    pub fn with_capacity(blocks: usize) -> Self {
        Blocks { nodes: Vec::with_capacity(blocks), unused: NONE }
    }

    pub fn get(&self, index: u32) -> Option<&Block> {
        self.nodes.get(index as usize)
    }

    /// A descriptor to fill in; its generation is kept.
    pub fn claim(&mut self) -> u32 {
        let index = self.unused;
        if index == NONE {
            self.nodes.push(Block::unused());
            return (self.nodes.len() - 1) as u32;
        }
        self.unused = self[index].next;
        let generation = self[index].generation;
        self[index] = Block { generation, ..Block::unused() };
        index
    }

    /// Returns a descriptor to the unused ones.
    pub fn retire(&mut self, index: u32) {
        let unused = self.unused;
        let block = &mut self[index];
        block.state = BlockState::Unused;
        block.next = unused;
        self.unused = index;
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
    fn descriptor_fills_one_cache_line() {
        assert_eq!(std::mem::size_of::<Block>(), 64);
    }
}
