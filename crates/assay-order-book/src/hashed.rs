//! Orders of any ids: an open-addressing table of slots in a slab.

use crate::event::Rejection;
use crate::orders::{NONE, Order, Orders};

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u64,
    slot: u32,
}

const VACANT: Entry = Entry { id: 0, slot: NONE };
const FIRST_BITS: u32 = 10;

/// Orders by id through a table of twice their number at least, in memory that follows the live orders.
///
/// A sender who chooses ids can make them collide; [`MappedOrders`](crate::MappedOrders) is for feeds that
/// are not trusted.
#[derive(Clone, Debug)]
pub struct HashedOrders {
    entries: Vec<Entry>,
    bits: u32,
    live: usize,
    orders: Vec<Order>,
    ids: Vec<u64>,
    free: Vec<u32>,
}

impl Default for HashedOrders {
    fn default() -> Self {
        HashedOrders {
            entries: vec![VACANT; 1 << FIRST_BITS],
            bits: FIRST_BITS,
            live: 0,
            orders: Vec::new(),
            ids: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl HashedOrders {
    /// Where probing for an id begins: the high bits of a product with 2^64 over the golden ratio.
    #[inline]
    fn home(&self, id: u64) -> usize {
        (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.bits)) as usize
    }

    /// The entry of an id, or the vacant one where it would be.
    #[inline]
    fn probe(&self, id: u64) -> usize {
        let mask = self.entries.len() - 1;
        let mut place = self.home(id);
        loop {
            let entry = self.entries[place];
            if entry.slot == NONE || entry.id == id {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.entries);
        self.bits += 1;
        self.entries = vec![VACANT; 1 << self.bits];
        for entry in old.into_iter().filter(|entry| entry.slot != NONE) {
            let place = self.probe(entry.id);
            self.entries[place] = entry;
        }
    }
}

impl Orders for HashedOrders {
    #[inline]
    fn find(&self, id: u64) -> Option<u32> {
        let slot = self.entries[self.probe(id)].slot;
        (slot != NONE).then_some(slot)
    }

    #[inline]
    fn reserve(&mut self, id: u64) -> Result<u32, Rejection> {
        if self.live * 2 >= self.entries.len() {
            self.grow();
        }
        let place = self.probe(id);
        if self.entries[place].slot != NONE {
            return Err(Rejection::DuplicateOrder);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.orders.push(Order::EMPTY);
                self.ids.push(id);
                (self.orders.len() - 1) as u32
            }
        };
        self.ids[slot as usize] = id;
        self.entries[place] = Entry { id, slot };
        self.live += 1;
        Ok(slot)
    }

    #[inline]
    fn release(&mut self, slot: u32) {
        self.orders[slot as usize].quantity = 0;
        let mask = self.entries.len() - 1;
        let mut hole = self.probe(self.ids[slot as usize]);
        // Entries behind the hole move into it where probing for them passes it.
        let mut place = (hole + 1) & mask;
        while self.entries[place].slot != NONE {
            let home = self.home(self.entries[place].id);
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(hole) & mask) {
                self.entries[hole] = self.entries[place];
                hole = place;
            }
            place = (place + 1) & mask;
        }
        self.entries[hole] = VACANT;
        self.free.push(slot);
        self.live -= 1;
    }

    #[inline]
    fn at(&self, slot: u32) -> &Order {
        &self.orders[slot as usize]
    }

    #[inline]
    fn at_mut(&mut self, slot: u32) -> &mut Order {
        &mut self.orders[slot as usize]
    }

    #[inline]
    fn id(&self, slot: u32) -> u64 {
        self.ids[slot as usize]
    }

    fn clear(&mut self) {
        self.entries.fill(VACANT);
        self.live = 0;
        self.orders.clear();
        self.ids.clear();
        self.free.clear();
    }
}
