//! The heap of a pool: slabs split into blocks, with free lists by owner and size.
//!
//! Every free block is owned by the stream slot on which it was freed. Blocks of slot 0
//! ([`ANY_STREAM`]) may be reused by any stream. A block coalesces only with free neighbors of the
//! same owner and zone: the others become reusable at another time, or not for the same stream.

mod audit;
mod coalesce_all;

use crate::memory::bins::Bins;
use crate::memory::block::{BlockState, Blocks, NONE, Zone};
use crate::memory::size_class::{CLASS_COUNT, SMALL_LIMIT_BYTES, class_of};

/// The slot of blocks that any stream may reuse without waiting.
pub(super) const ANY_STREAM: usize = 0;

/// The unit in which the small zone grows from the large zone, and the least it returns.
pub(super) const CHUNK_BYTES: u64 = 2 << 20;

/// The free lists of one stream slot.
pub(super) struct FreeLists {
    /// A LIFO free list for each size class; its blocks are not coalesced.
    class_heads: [u32; CLASS_COUNT],
    /// Bytes in the lists of the size classes.
    pub cached_bytes: u64,
    small: Bins,
    large: Bins,
    /// Bytes in bins.
    pub binned_bytes: u64,
    /// The epoch of blocks that enter the bins now; sealing starts the next one.
    pub epoch: u64,
    /// Whether any block entered in this epoch.
    pub has_unsealed: bool,
}

impl FreeLists {
    fn bins(&mut self, zone: Zone) -> &mut Bins {
        match zone {
            Zone::Small => &mut self.small,
            Zone::Large => &mut self.large,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.cached_bytes == 0 && self.binned_bytes == 0
    }
}

/// One allocation of backend memory.
#[derive(Clone, Copy)]
pub(super) struct Slab {
    pub address: u64,
    pub bytes: u64,
    /// The block at its beginning, whose index never changes: merging keeps the lower block.
    pub first: u32,
}

pub(super) struct Heap {
    pub blocks: Blocks,
    pub lists: Vec<FreeLists>,
    pub slabs: Vec<Slab>,
    pub splits: u64,
    pub coalesces: u64,
    releases: u64,
    /// The slot of the last [`coalesce_all`](Heap::coalesce_all), and the releases before it.
    coalesced_all: (usize, u64),
}

impl Heap {
    pub fn new(expected_blocks: usize) -> Self {
        let mut heap = Heap {
            blocks: Blocks::with_capacity(expected_blocks),
            lists: Vec::new(),
            slabs: Vec::new(),
            splits: 0,
            coalesces: 0,
            releases: 0,
            coalesced_all: (ANY_STREAM, 0),
        };
        heap.add_slot();
        heap
    }

    /// Adds a stream slot.
    pub fn add_slot(&mut self) -> usize {
        let lists = FreeLists {
            class_heads: [NONE; CLASS_COUNT],
            cached_bytes: 0,
            small: Bins::new(),
            large: Bins::new(),
            binned_bytes: 0,
            epoch: 1,
            has_unsealed: false,
        };
        self.lists.push(lists);
        self.lists.len() - 1
    }

    /// Adds a slab as one free block of [`ANY_STREAM`].
    pub fn add_slab(&mut self, address: u64, bytes: u64) {
        let first = self.blocks.claim();
        let block = &mut self.blocks[first];
        block.address = address;
        block.bytes = bytes;
        block.state = BlockState::Free;
        self.slabs.push(Slab { address, bytes, first });
        self.insert(first);
    }

    /// Removes a slab that is one free block of [`ANY_STREAM`].
    pub fn remove_slab(&mut self, position: usize) -> Option<Slab> {
        let slab = *self.slabs.get(position)?;
        let block = &self.blocks[slab.first];
        let unused = block.state == BlockState::Free
            && usize::from(block.owner) == ANY_STREAM
            && block.bytes == slab.bytes;
        if !unused {
            return None;
        }
        self.remove(slab.first);
        self.blocks.retire(slab.first);
        self.slabs.remove(position);
        Some(slab)
    }

    /// A block of the size class for this slot, from the class's free lists or the small zone.
    pub fn take_class(&mut self, slot: usize, class: usize, bytes: u64) -> Option<u32> {
        if let Some(index) = self.pop_cached(slot, class) {
            return Some(index);
        }
        if slot != ANY_STREAM
            && let Some(index) = self.pop_cached(ANY_STREAM, class)
        {
            return Some(index);
        }
        if let Some(index) = self.take(slot, Zone::Small, bytes) {
            return Some(index);
        }
        let chunk = self.take(slot, Zone::Large, CHUNK_BYTES)?;
        self.blocks[chunk].zone = Zone::Small;
        // The chunk changed zones, so its neighbor may now be one to coalesce with.
        let above = self.blocks[chunk].above;
        if self.can_coalesce(above, chunk) {
            self.remove(above);
            self.merge(chunk, above);
        }
        self.split(chunk, bytes);
        Some(chunk)
    }

    fn pop_cached(&mut self, slot: usize, class: usize) -> Option<u32> {
        let lists = &mut self.lists[slot];
        let index = lists.class_heads[class];
        if index == NONE {
            return None;
        }
        let block = &self.blocks[index];
        lists.class_heads[class] = block.next;
        lists.cached_bytes -= block.bytes;
        Some(index)
    }

    /// A block of exactly `bytes`, from the bins of the slot or of [`ANY_STREAM`].
    pub fn take(&mut self, slot: usize, zone: Zone, bytes: u64) -> Option<u32> {
        let mut owners = [slot, ANY_STREAM].into_iter();
        let index = owners.find_map(|owner| {
            let lists = &mut self.lists[owner];
            lists.bins(zone).find(&self.blocks, bytes)
        })?;
        self.remove(index);
        self.split(index, bytes);
        Some(index)
    }

    /// Splits a block that is in no list to `bytes`; the remainder stays with its owner.
    fn split(&mut self, index: u32, bytes: u64) {
        let block = &self.blocks[index];
        if block.bytes == bytes {
            return;
        }
        let (address, above) = (block.address + bytes, block.above);
        let (remaining, owner, zone) = (block.bytes - bytes, block.owner, block.zone);
        let remainder = self.blocks.claim();
        let block = &mut self.blocks[remainder];
        block.address = address;
        block.bytes = remaining;
        block.below = index;
        block.above = above;
        block.owner = owner;
        block.zone = zone;
        block.state = BlockState::Free;
        self.blocks[index].bytes = bytes;
        self.blocks[index].above = remainder;
        if above != NONE {
            self.blocks[above].below = remainder;
        }
        self.splits += 1;
        self.insert(remainder);
    }

    /// Frees a block for the slot; a small one enters its size class's free list uncoalesced.
    pub fn free(&mut self, index: u32, slot: usize, use_class_list: bool) {
        let bytes = self.blocks[index].bytes;
        if !use_class_list || bytes > SMALL_LIMIT_BYTES {
            return self.release(index, slot);
        }
        let (class, _) = class_of(bytes);
        let lists = &mut self.lists[slot];
        let block = &mut self.blocks[index];
        block.state = BlockState::Cached;
        block.owner = slot as u16;
        block.next = lists.class_heads[class];
        lists.class_heads[class] = index;
        lists.cached_bytes += bytes;
    }

    /// Frees a block that is in no list into the slot's bins, coalesced with its free neighbors.
    pub fn release(&mut self, index: u32, slot: usize) {
        self.releases += 1;
        let block = &mut self.blocks[index];
        block.state = BlockState::Free;
        block.owner = slot as u16;
        let mut coalesced = self.coalesce(index);
        let block = &mut self.blocks[coalesced];
        if block.zone == Zone::Small && block.bytes >= CHUNK_BYTES {
            block.zone = Zone::Large;
            coalesced = self.coalesce(coalesced);
        }
        self.insert(coalesced);
    }

    fn coalesce(&mut self, index: u32) -> u32 {
        let mut index = index;
        let below = self.blocks[index].below;
        if self.can_coalesce(below, index) {
            self.remove(below);
            self.merge(below, index);
            index = below;
        }
        let above = self.blocks[index].above;
        if self.can_coalesce(above, index) {
            self.remove(above);
            self.merge(index, above);
        }
        index
    }

    fn can_coalesce(&self, neighbor: u32, index: u32) -> bool {
        if neighbor == NONE {
            return false;
        }
        let (neighbor, block) = (&self.blocks[neighbor], &self.blocks[index]);
        neighbor.state == BlockState::Free
            && neighbor.owner == block.owner
            && neighbor.zone == block.zone
    }

    /// Merges two adjacent blocks, neither in a list, into the lower one.
    fn merge(&mut self, lower: u32, upper: u32) {
        let (bytes, above) = (self.blocks[upper].bytes, self.blocks[upper].above);
        self.blocks[lower].bytes += bytes;
        self.blocks[lower].above = above;
        if above != NONE {
            self.blocks[above].below = lower;
        }
        self.blocks.retire(upper);
        self.coalesces += 1;
    }

    fn insert(&mut self, index: u32) {
        let block = &self.blocks[index];
        let (owner, zone, bytes) = (usize::from(block.owner), block.zone, block.bytes);
        let lists = &mut self.lists[owner];
        lists.binned_bytes += bytes;
        lists.has_unsealed = true;
        self.blocks[index].epoch = lists.epoch;
        lists.bins(zone).insert(&mut self.blocks, index);
    }

    fn remove(&mut self, index: u32) {
        let block = &self.blocks[index];
        let (owner, zone, bytes) = (usize::from(block.owner), block.zone, block.bytes);
        let lists = &mut self.lists[owner];
        lists.binned_bytes -= bytes;
        lists.bins(zone).remove(&mut self.blocks, index);
    }

    /// Moves a slot's blocks from the size classes' free lists to its bins, coalescing them.
    pub fn coalesce_cached(&mut self, slot: usize) {
        for class in 0..CLASS_COUNT {
            while let Some(index) = self.pop_cached(slot, class) {
                self.release(index, slot);
            }
        }
    }

    /// Seals the slot's binned blocks: an event recorded now is ordered after their frees.
    pub fn seal(&mut self, slot: usize) {
        let lists = &mut self.lists[slot];
        lists.epoch += 1;
        lists.has_unsealed = false;
    }

    /// Transfers the slot's sealed blocks to another owner.
    ///
    /// Visits all blocks of the slot. A block not sealed now is sealed by the next call, so each is
    /// visited at most twice.
    pub fn transfer_sealed(&mut self, slot: usize, owner: usize) {
        let epoch = self.lists[slot].epoch;
        for zone in [Zone::Small, Zone::Large] {
            let mut bin = self.lists[slot].bins(zone).first_bin(0);
            while let Some(current) = bin {
                let mut index = self.lists[slot].bins(zone).head(current);
                while index != NONE {
                    // Blocks of different owners never coalesce, so `next` stays in its list.
                    let next = self.blocks[index].next;
                    if self.blocks[index].epoch < epoch {
                        self.remove(index);
                        self.release(index, owner);
                    }
                    index = next;
                }
                bin = self.lists[slot].bins(zone).first_bin(current + 1);
            }
        }
    }

    /// The largest block in the bins of any slot.
    pub fn largest_free(&self) -> u64 {
        let largest = |lists: &FreeLists| {
            let large = lists.large.largest(&self.blocks);
            large.max(lists.small.largest(&self.blocks))
        };
        self.lists.iter().map(largest).max().unwrap_or(0)
    }
}
