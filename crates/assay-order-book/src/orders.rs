//! Resting orders, found by id.

use crate::event::Rejection;

/// No order, where a slot could be.
pub const NONE: u32 = u32::MAX;

/// A resting order; 16 bytes, four to a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// The order before it in its level.
    pub previous: u32,
    /// The order behind it in its level.
    pub next: u32,
    /// What of it is unfilled; 0 where no order rests.
    pub quantity: u32,
    /// Its price in ticks.
    pub price: i32,
}

impl Order {
    /// No order.
    pub const EMPTY: Order = Order { previous: NONE, next: NONE, quantity: 0, price: 0 };
}

/// Where the resting orders of a book are, by id and by slot.
pub trait Orders {
    /// The slot of a resting order.
    fn find(&self, id: u64) -> Option<u32>;

    /// The slot for a new order, or why it may not have this id.
    fn reserve(&mut self, id: u64) -> Result<u32, Rejection>;

    /// Gives a slot back.
    fn release(&mut self, slot: u32);

    /// The order in a slot.
    fn at(&self, slot: u32) -> &Order;

    /// The order in a slot, to be changed.
    fn at_mut(&mut self, slot: u32) -> &mut Order;

    /// The id of the order in a slot.
    fn id(&self, slot: u32) -> u64;

    /// Forgets all orders.
    fn clear(&mut self);
}
