//! The invariants of a book, checked from its first order to its last.

use crate::book::{Book, NO_ASK, NO_BID};
use crate::event::Side;
use crate::level::Levels;
use crate::orders::{NONE, Orders};

impl<L: Levels, O: Orders> Book<L, O> {
    /// Checks every level and list; the first broken invariant is the error. Slow.
    pub fn verify(&mut self) -> Result<usize, String> {
        if self.best_bid >= self.best_ask {
            return Err(format!("bid {} is not below ask {}", self.best_bid, self.best_ask));
        }
        let mut orders = 0;
        for side in [Side::Buy, Side::Sell] {
            let prices: Vec<i32> = self.depth(side).map(|(price, _)| price).collect();
            for price in prices {
                orders += self.verify_level(price)?;
            }
        }
        let outermost = [(NO_BID, self.levels.above(NO_BID)), (NO_ASK, self.levels.below(NO_ASK))];
        let occupied = outermost.into_iter().filter_map(|(_, price)| price).count();
        if (occupied == 0) != (self.best_bid == NO_BID && self.best_ask == NO_ASK) {
            return Err("occupied levels and best prices disagree".to_owned());
        }
        Ok(orders)
    }

    fn verify_level(&mut self, price: i32) -> Result<usize, String> {
        let level = *self.levels.at(price);
        let (mut slot, mut previous, mut quantity, mut orders) = (level.head, NONE, 0_u64, 0);
        while slot != NONE {
            let order = *self.orders.at(slot);
            if order.price != price || order.quantity == 0 || order.previous != previous {
                return Err(format!("level {price}: order {slot} is {order:?}"));
            }
            if self.orders.find(self.orders.id(slot)) != Some(slot) {
                return Err(format!("level {price}: order {slot} is not found by its id"));
            }
            quantity += u64::from(order.quantity);
            orders += 1;
            (previous, slot) = (slot, order.next);
        }
        if level.tail != previous || level.quantity != quantity || orders == 0 {
            return Err(format!("level {price}: {level:?} holds {quantity} in {orders} orders"));
        }
        Ok(orders)
    }
}
