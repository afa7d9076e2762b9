//! Orders whose ids are dense: the id is the slot.

use crate::event::Rejection;
use crate::orders::{NONE, Order, Orders};

/// Orders by id without a table: one memory access finds an order, and memory grows with the ids.
#[derive(Clone, Debug)]
pub struct DenseOrders {
    orders: Vec<Order>,
    limit: u64,
}

impl DenseOrders {
    /// Orders with ids below `limit`; memory is taken as ids come.
    pub fn new(limit: u64) -> DenseOrders {
        DenseOrders { orders: Vec::new(), limit: limit.min(u64::from(NONE)) }
    }
}

impl Orders for DenseOrders {
    #[inline]
    fn find(&self, id: u64) -> Option<u32> {
        let order = self.orders.get(usize::try_from(id).ok()?)?;
        // Ids are below the limit, which a slot can hold.
        (order.quantity != 0).then_some(id as u32)
    }

    #[inline]
    fn reserve(&mut self, id: u64) -> Result<u32, Rejection> {
        if id >= self.limit {
            return Err(Rejection::OrderOutOfRange);
        }
        let index = id as usize;
        match self.orders.get(index) {
            Some(order) if order.quantity != 0 => Err(Rejection::DuplicateOrder),
            Some(_) => Ok(id as u32),
            None => {
                // Room grows as that of a vector does: ids come one after the other.
                self.orders.resize(index + 1, Order::EMPTY);
                Ok(id as u32)
            }
        }
    }

    #[inline]
    fn release(&mut self, slot: u32) {
        self.orders[slot as usize].quantity = 0;
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
        u64::from(slot)
    }

    fn clear(&mut self) {
        self.orders.clear();
    }
}
