//! The address space of a pool: slabs divided into blocks, free ones listed by owner and size.
//!
//! Every free block belongs to the stream slot on which it was freed; slot 0 is the common one,
//! whose blocks anybody may take. Blocks are joined with free neighbors of the same owner and
//! zone only, because the others are not free for the same reader at the same time.

mod audit;
mod dissolve;

use crate::memory::bins::Bins;
use crate::memory::block::{BlockState, Blocks, NONE, Zone};
use crate::memory::size_class::{CLASS_COUNT, SMALL_LIMIT_BYTES, class_of};

/// The slot whose blocks no stream still uses.
pub(super) const COMMON: usize = 0;

/// How much the small zone takes from the large one at a time, and the least it gives back.
pub(super) const CHUNK_BYTES: u64 = 2 << 20;

/// What one stream has freed.
pub(super) struct FreeLists {
    /// Blocks of each size class in the order of freeing, newest first, not joined.
    quick: [u32; CLASS_COUNT],
    pub quick_bytes: u64,
    small: Bins,
    large: Bins,
    /// Bytes in the bins.
    pub binned_bytes: u64,
    /// Blocks put in the bins now get this number.
    pub epoch: u64,
    /// Whether any did.
    pub has_open: bool,
}

impl FreeLists {
    fn bins(&mut self, zone: Zone) -> &mut Bins {
        match zone {
            Zone::Small => &mut self.small,
            Zone::Large => &mut self.large,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.quick_bytes == 0 && self.binned_bytes == 0
    }
}

/// A piece of backend memory.
#[derive(Clone, Copy)]
pub(super) struct Slab {
    pub address: u64,
    pub bytes: u64,
    /// The block at its beginning, whose index never changes: joins keep the lower block.
    pub first: u32,
}

pub(super) struct Heap {
    pub blocks: Blocks,
    pub lists: Vec<FreeLists>,
    pub slabs: Vec<Slab>,
    pub splits: u64,
    pub joins: u64,
    releases: u64,
    /// For whom everything was joined last, and after how many releases.
    dissolved: (usize, u64),
}

impl Heap {
    pub fn new(expected_blocks: usize) -> Self {
        let mut heap = Heap {
            blocks: Blocks::with_capacity(expected_blocks),
            lists: Vec::new(),
            slabs: Vec::new(),
            splits: 0,
            joins: 0,
            releases: 0,
            dissolved: (COMMON, 0),
        };
        heap.add_slot();
        heap
    }

    /// Makes room for one more owner.
    pub fn add_slot(&mut self) -> usize {
        let lists = FreeLists {
            quick: [NONE; CLASS_COUNT],
            quick_bytes: 0,
            small: Bins::new(),
            large: Bins::new(),
            binned_bytes: 0,
            epoch: 1,
            has_open: false,
        };
        self.lists.push(lists);
        self.lists.len() - 1
    }

    /// Adds fresh memory, which belongs to nobody yet.
    pub fn add_slab(&mut self, address: u64, bytes: u64) {
        let first = self.blocks.claim();
        let block = &mut self.blocks[first];
        block.address = address;
        block.bytes = bytes;
        block.state = BlockState::Free;
        self.slabs.push(Slab {
            address,
            bytes,
            first,
        });
        self.insert(first);
    }

    /// Takes a slab out if all of it is common and free.
    pub fn remove_slab(&mut self, position: usize) -> Option<Slab> {
        let slab = *self.slabs.get(position)?;
        let block = &self.blocks[slab.first];
        let whole = block.state == BlockState::Free
            && usize::from(block.owner) == COMMON
            && block.bytes == slab.bytes;
        if !whole {
            return None;
        }
        self.remove(slab.first);
        self.blocks.retire(slab.first);
        self.slabs.remove(position);
        Some(slab)
    }

    /// A block of the class for this slot, from quick lists or the small zone.
    pub fn take_class(&mut self, slot: usize, class: usize, bytes: u64) -> Option<u32> {
        if let Some(index) = self.pop_quick(slot, class) {
            return Some(index);
        }
        if slot != COMMON
            && let Some(index) = self.pop_quick(COMMON, class)
        {
            return Some(index);
        }
        if let Some(index) = self.take(slot, Zone::Small, bytes) {
            return Some(index);
        }
        let chunk = self.take(slot, Zone::Large, CHUNK_BYTES)?;
        self.blocks[chunk].zone = Zone::Small;
        // What lay in another zone a moment ago may now be a neighbor to join.
        let above = self.blocks[chunk].above;
        if self.joinable(above, chunk) {
            self.remove(above);
            self.absorb(chunk, above);
        }
        self.divide(chunk, bytes);
        Some(chunk)
    }

    fn pop_quick(&mut self, slot: usize, class: usize) -> Option<u32> {
        let lists = &mut self.lists[slot];
        let index = lists.quick[class];
        if index == NONE {
            return None;
        }
        let block = &self.blocks[index];
        lists.quick[class] = block.next;
        lists.quick_bytes -= block.bytes;
        Some(index)
    }

    /// A block of exactly `bytes`, from what the slot owns or from the common blocks.
    pub fn take(&mut self, slot: usize, zone: Zone, bytes: u64) -> Option<u32> {
        let mut owners = [slot, COMMON].into_iter();
        let index = owners.find_map(|owner| {
            let lists = &mut self.lists[owner];
            lists.bins(zone).find(&self.blocks, bytes)
        })?;
        self.remove(index);
        self.divide(index, bytes);
        Some(index)
    }

    /// Cuts a block that is in no list to `bytes`; the rest stays with its owner.
    fn divide(&mut self, index: u32, bytes: u64) {
        let block = &self.blocks[index];
        if block.bytes == bytes {
            return;
        }
        let (address, above) = (block.address + bytes, block.above);
        let (left, owner, zone) = (block.bytes - bytes, block.owner, block.zone);
        let rest = self.blocks.claim();
        let block = &mut self.blocks[rest];
        block.address = address;
        block.bytes = left;
        block.below = index;
        block.above = above;
        block.owner = owner;
        block.zone = zone;
        block.state = BlockState::Free;
        self.blocks[index].bytes = bytes;
        self.blocks[index].above = rest;
        if above != NONE {
            self.blocks[above].below = rest;
        }
        self.splits += 1;
        self.insert(rest);
    }

    /// Frees a block for the slot: a small one to its quick list, as it is.
    pub fn give(&mut self, index: u32, slot: usize, use_quick: bool) {
        let bytes = self.blocks[index].bytes;
        if !use_quick || bytes > SMALL_LIMIT_BYTES {
            return self.release(index, slot);
        }
        let (class, _) = class_of(bytes);
        let lists = &mut self.lists[slot];
        let block = &mut self.blocks[index];
        block.state = BlockState::Quick;
        block.owner = slot as u16;
        block.next = lists.quick[class];
        lists.quick[class] = index;
        lists.quick_bytes += bytes;
    }

    /// Frees a block that is in no list for the slot, joined with its free neighbors.
    pub fn release(&mut self, index: u32, slot: usize) {
        self.releases += 1;
        let block = &mut self.blocks[index];
        block.state = BlockState::Free;
        block.owner = slot as u16;
        let mut joined = self.join(index);
        let block = &mut self.blocks[joined];
        if block.zone == Zone::Small && block.bytes >= CHUNK_BYTES {
            block.zone = Zone::Large;
            joined = self.join(joined);
        }
        self.insert(joined);
    }

    fn join(&mut self, index: u32) -> u32 {
        let mut index = index;
        let below = self.blocks[index].below;
        if self.joinable(below, index) {
            self.remove(below);
            self.absorb(below, index);
            index = below;
        }
        let above = self.blocks[index].above;
        if self.joinable(above, index) {
            self.remove(above);
            self.absorb(index, above);
        }
        index
    }

    fn joinable(&self, neighbor: u32, index: u32) -> bool {
        if neighbor == NONE {
            return false;
        }
        let (neighbor, block) = (&self.blocks[neighbor], &self.blocks[index]);
        neighbor.state == BlockState::Free
            && neighbor.owner == block.owner
            && neighbor.zone == block.zone
    }

    /// Joins two adjacent blocks, neither in a list, into the lower one.
    fn absorb(&mut self, lower: u32, upper: u32) {
        let (bytes, above) = (self.blocks[upper].bytes, self.blocks[upper].above);
        self.blocks[lower].bytes += bytes;
        self.blocks[lower].above = above;
        if above != NONE {
            self.blocks[above].below = lower;
        }
        self.blocks.retire(upper);
        self.joins += 1;
    }

    fn insert(&mut self, index: u32) {
        let block = &self.blocks[index];
        let (owner, zone, bytes) = (usize::from(block.owner), block.zone, block.bytes);
        let lists = &mut self.lists[owner];
        lists.binned_bytes += bytes;
        lists.has_open = true;
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

    /// Moves a slot's quick blocks to its bins, joining them.
    pub fn flush_quick(&mut self, slot: usize) {
        for class in 0..CLASS_COUNT {
            while let Some(index) = self.pop_quick(slot, class) {
                self.release(index, slot);
            }
        }
    }

    /// Seals what the slot has freed so far: an event recorded now covers it.
    pub fn seal(&mut self, slot: usize) {
        let lists = &mut self.lists[slot];
        lists.epoch += 1;
        lists.has_open = false;
    }

    /// Hands the slot's sealed blocks to another owner.
    ///
    /// All its blocks are looked at. What is not sealed yet will be by the next time, so that each
    /// is looked at twice at most.
    pub fn hand_over_sealed(&mut self, slot: usize, owner: usize) {
        let epoch = self.lists[slot].epoch;
        for zone in [Zone::Small, Zone::Large] {
            let mut bin = self.lists[slot].bins(zone).first_bin(0);
            while let Some(current) = bin {
                let mut index = self.lists[slot].bins(zone).head(current);
                while index != NONE {
                    // Another owner's blocks never join with this one's, so the next stays put.
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
