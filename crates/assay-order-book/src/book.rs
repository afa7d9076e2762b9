//! A book: matching by price, then by time.

use crate::event::{Event, Kind, Rejection, Side};
use crate::level::Levels;
use crate::orders::{NONE, Orders};

/// The price of the best bid where there is none.
pub const NO_BID: i32 = i32::MIN;
/// The price of the best ask where there is none.
pub const NO_ASK: i32 = i32::MAX;

/// What an event traded, over all the orders that it filled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Trade {
    /// The quantity, at most that of the event.
    pub quantity: u32,
    /// Price times quantity, summed; a product of a price and a quantity fits, and so does the sum.
    pub notional: i64,
}

/// A resting order that traded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill {
    /// Its id.
    pub order: u64,
    /// Its price.
    pub price: i32,
    /// What of it traded.
    pub quantity: u32,
}

/// Who wants to know which orders traded.
pub trait FillSink {
    /// A resting order traded.
    fn fill(&mut self, fill: Fill);
}

/// Nobody.
impl FillSink for () {
    #[inline]
    fn fill(&mut self, _fill: Fill) {}
}

impl FillSink for Vec<Fill> {
    fn fill(&mut self, fill: Fill) {
        self.push(fill);
    }
}

/// The best prices of a book and what rests there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Top {
    /// The best bid, or [`NO_BID`].
    pub bid_price: i32,
    /// What rests at it.
    pub bid_quantity: u64,
    /// The best ask, or [`NO_ASK`].
    pub ask_price: i32,
    /// What rests at it.
    pub ask_quantity: u64,
}

impl Top {
    /// Of a book without orders.
    pub const EMPTY: Top =
        Top { bid_price: NO_BID, bid_quantity: 0, ask_price: NO_ASK, ask_quantity: 0 };

    /// The mean of both prices, each weighted by what rests at the other; NaN without both.
    #[inline]
    pub fn microprice(&self) -> f64 {
        if self.bid_quantity == 0 || self.ask_quantity == 0 {
            return f64::NAN;
        }
        let (bid, ask) = (self.bid_quantity as f64, self.ask_quantity as f64);
        (f64::from(self.bid_price) * ask + f64::from(self.ask_price) * bid) / (bid + ask)
    }
}

/// A book after an event, from which a row of [`Tops`](crate::Tops) follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub top: Top,
    pub trade: Trade,
    /// All that traded so far, and price times quantity of it.
    pub traded: f64,
    pub notional: f64,
}

impl State {
    /// Of an instrument that there is not.
    pub const EMPTY: State = State {
        top: Top::EMPTY,
        trade: Trade { quantity: 0, notional: 0 },
        traded: 0.0,
        notional: 0.0,
    };

    /// The volume-weighted average price of all trades; NaN before the first.
    #[inline]
    pub fn vwap(&self) -> f64 {
        self.notional / self.traded
    }
}

/// The resting orders of one instrument.
#[derive(Clone, Debug)]
pub struct Book<L, O> {
    pub(crate) levels: L,
    pub(crate) orders: O,
    pub(crate) best_bid: i32,
    pub(crate) best_ask: i32,
    /// All that traded, and price times quantity of it.
    traded: f64,
    notional: f64,
}

impl<L: Levels, O: Orders> Book<L, O> {
    /// A book without orders.
    pub fn new(levels: L, orders: O) -> Self {
        Book { levels, orders, best_bid: NO_BID, best_ask: NO_ASK, traded: 0.0, notional: 0.0 }
    }

    /// Forgets all orders and trades, and keeps the memory.
    pub fn clear(&mut self) {
        self.levels.clear();
        self.orders.clear();
        (self.best_bid, self.best_ask) = (NO_BID, NO_ASK);
        (self.traded, self.notional) = (0.0, 0.0);
    }

    /// The book as it is, after what an event traded.
    #[inline]
    pub(crate) fn state(&mut self, trade: Trade) -> State {
        State { top: self.top(), trade, traded: self.traded, notional: self.notional }
    }

    /// Applies an event, or says why it changes nothing.
    #[inline]
    pub fn apply(&mut self, event: &Event, fills: &mut impl FillSink) -> Result<Trade, Rejection> {
        match event.kind {
            Kind::Add => {
                check_price(event.price)?;
                check_quantity(event.quantity)?;
                let slot = self.orders.reserve(event.order)?;
                Ok(self.submit(slot, event, event.side, fills))
            }
            Kind::Cancel => {
                let slot = self.orders.find(event.order).ok_or(Rejection::UnknownOrder)?;
                self.unlink(slot);
                self.orders.release(slot);
                Ok(Trade::default())
            }
            Kind::Replace => {
                check_price(event.price)?;
                check_quantity(event.quantity)?;
                let slot = self.orders.find(event.order).ok_or(Rejection::UnknownOrder)?;
                let side = self.side_of(self.orders.at(slot).price);
                self.unlink(slot);
                Ok(self.submit(slot, event, side, fills))
            }
            Kind::Market => {
                check_quantity(event.quantity)?;
                let limit = match event.side {
                    Side::Buy => NO_ASK - 1,
                    Side::Sell => NO_BID + 1,
                };
                Ok(self.trade(event.side, limit, event.quantity, fills))
            }
            Kind::Reduce => {
                check_quantity(event.quantity)?;
                let slot = self.orders.find(event.order).ok_or(Rejection::UnknownOrder)?;
                let order = self.orders.at_mut(slot);
                if event.quantity < order.quantity {
                    order.quantity -= event.quantity;
                    let price = order.price;
                    self.levels.at(price).quantity -= u64::from(event.quantity);
                } else {
                    self.unlink(slot);
                    self.orders.release(slot);
                }
                Ok(Trade::default())
            }
        }
    }

    /// The best prices, and what rests there.
    #[inline]
    pub fn top(&mut self) -> Top {
        let (bid_price, ask_price) = (self.best_bid, self.best_ask);
        Top {
            bid_price,
            bid_quantity: if bid_price == NO_BID { 0 } else { self.levels.touch(bid_price) },
            ask_price,
            ask_quantity: if ask_price == NO_ASK { 0 } else { self.levels.touch(ask_price) },
        }
    }

    /// Prices and quantities of a side, from the best on.
    pub fn depth(&self, side: Side) -> impl Iterator<Item = (i32, u64)> {
        let first = match side {
            Side::Buy => Some(self.best_bid).filter(|&price| price != NO_BID),
            Side::Sell => Some(self.best_ask).filter(|&price| price != NO_ASK),
        };
        std::iter::successors(first, move |&price| match side {
            Side::Buy => self.levels.below(price),
            Side::Sell => self.levels.above(price),
        })
        .map(|price| (price, self.levels.quantity(price)))
    }

    /// The price of a resting order.
    pub fn price_of(&self, order: u64) -> Option<i32> {
        self.orders.find(order).map(|slot| self.orders.at(slot).price)
    }

    /// The side of a resting order: no ask is as low as the best bid.
    #[inline]
    fn side_of(&self, price: i32) -> Side {
        if price <= self.best_bid { Side::Buy } else { Side::Sell }
    }

    /// Trades what an order crosses and lets the rest of it rest in its slot.
    #[inline]
    fn submit(&mut self, slot: u32, event: &Event, side: Side, fills: &mut impl FillSink) -> Trade {
        let crosses = match side {
            Side::Buy => event.price >= self.best_ask,
            Side::Sell => event.price <= self.best_bid,
        };
        let trade = if crosses {
            self.trade(side, event.price, event.quantity, fills)
        } else {
            Trade::default()
        };
        let left = event.quantity - trade.quantity;
        if left == 0 {
            self.orders.release(slot);
        } else {
            self.link(slot, side, event.price, left);
        }
        trade
    }

    /// Puts an order behind all others of its level.
    #[inline]
    fn link(&mut self, slot: u32, side: Side, price: i32, quantity: u32) {
        let level = self.levels.at(price);
        let previous = level.tail;
        level.quantity += u64::from(quantity);
        level.tail = slot;
        let order = self.orders.at_mut(slot);
        order.previous = previous;
        order.next = NONE;
        order.quantity = quantity;
        order.price = price;
        if previous != NONE {
            self.orders.at_mut(previous).next = slot;
            return;
        }
        level.head = slot;
        self.levels.occupy(price);
        match side {
            Side::Buy => self.best_bid = self.best_bid.max(price),
            Side::Sell => self.best_ask = self.best_ask.min(price),
        }
    }

    /// Takes an order out of its level.
    #[inline]
    fn unlink(&mut self, slot: u32) {
        let order = *self.orders.at(slot);
        let level = self.levels.at(order.price);
        level.quantity -= u64::from(order.quantity);
        if order.previous == NONE {
            level.head = order.next;
        } else {
            self.orders.at_mut(order.previous).next = order.next;
        }
        if order.next == NONE {
            level.tail = order.previous;
        } else {
            self.orders.at_mut(order.next).previous = order.previous;
        }
        if order.previous == NONE && order.next == NONE {
            self.vacate(order.price);
        }
    }

    /// Forgets a level that has become empty.
    #[inline]
    fn vacate(&mut self, price: i32) {
        self.levels.vacate(price);
        if price == self.best_bid {
            self.best_bid = self.levels.below(price).unwrap_or(NO_BID);
        } else if price == self.best_ask {
            self.best_ask = self.levels.above(price).unwrap_or(NO_ASK);
        }
    }

    /// Trades with resting orders, best price first, within a limit.
    #[inline]
    fn trade(&mut self, side: Side, limit: i32, quantity: u32, fills: &mut impl FillSink) -> Trade {
        let mut left = quantity;
        let mut notional = 0_i64;
        while left != 0 {
            let price = match side {
                Side::Buy if self.best_ask <= limit => self.best_ask,
                Side::Sell if self.best_bid >= limit => self.best_bid,
                _ => break,
            };
            let level = self.levels.at(price);
            let before = left;
            let mut head = level.head;
            while left != 0 && head != NONE {
                let order = self.orders.at_mut(head);
                let traded = order.quantity.min(left);
                order.quantity -= traded;
                left -= traded;
                let (next, emptied) = (order.next, order.quantity == 0);
                fills.fill(Fill { order: self.orders.id(head), price, quantity: traded });
                if emptied {
                    self.orders.release(head);
                    head = next;
                }
            }
            let traded = before - left;
            notional += i64::from(price) * i64::from(traded);
            level.quantity -= u64::from(traded);
            level.head = head;
            if head == NONE {
                level.tail = NONE;
                self.vacate(price);
            } else {
                self.orders.at_mut(head).previous = NONE;
            }
        }
        let traded = quantity - left;
        self.traded += f64::from(traded);
        self.notional += notional as f64;
        Trade { quantity: traded, notional }
    }
}

#[inline]
fn check_price(price: i32) -> Result<(), Rejection> {
    if price == NO_BID || price == NO_ASK {
        return Err(Rejection::PriceOutOfRange);
    }
    Ok(())
}

#[inline]
fn check_quantity(quantity: u32) -> Result<(), Rejection> {
    if quantity == 0 {
        return Err(Rejection::ZeroQuantity);
    }
    Ok(())
}
