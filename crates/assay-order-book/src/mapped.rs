//! Orders in the standard library's hash map: the plain way, safe from ids chosen to collide.

use std::collections::HashMap;

use crate::event::Rejection;
use crate::orders::{Order, Orders};

/// Orders by id through a [`HashMap`].
#[derive(Clone, Debug, Default)]
pub struct MappedOrders {
    slots: HashMap<u64, u32>,
    orders: Vec<Order>,
    ids: Vec<u64>,
    free: Vec<u32>,
}

impl Orders for MappedOrders {
    fn find(&self, id: u64) -> Option<u32> {
        self.slots.get(&id).copied()
    }

    fn reserve(&mut self, id: u64) -> Result<u32, Rejection> {
        if self.slots.contains_key(&id) {
            return Err(Rejection::DuplicateOrder);
        }
        let slot = self.free.pop().unwrap_or(self.orders.len() as u32);
        if slot as usize == self.orders.len() {
            self.orders.push(Order::EMPTY);
            self.ids.push(id);
        }
        self.ids[slot as usize] = id;
        self.slots.insert(id, slot);
        Ok(slot)
    }

    fn release(&mut self, slot: u32) {
        self.orders[slot as usize].quantity = 0;
        self.slots.remove(&self.ids[slot as usize]);
        self.free.push(slot);
    }

    fn at(&self, slot: u32) -> &Order {
        &self.orders[slot as usize]
    }

    fn at_mut(&mut self, slot: u32) -> &mut Order {
        &mut self.orders[slot as usize]
    }

    fn id(&self, slot: u32) -> u64 {
        self.ids[slot as usize]
    }

    fn clear(&mut self) {
        self.slots.clear();
        self.orders.clear();
        self.ids.clear();
        self.free.clear();
    }
}
