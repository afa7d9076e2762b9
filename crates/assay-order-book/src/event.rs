//! What happens to a book, and why an event is refused.

use assay_collections::named;

/// The side of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// A bid.
    Buy,
    /// An ask.
    Sell,
}

/// What an event does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A limit order: trades what it crosses, and the rest of it rests.
    Add,
    /// Takes a resting order away.
    Cancel,
    /// Gives a resting order another price and quantity, behind all others of its level.
    Replace,
    /// Trades at any price; what is not filled is dropped.
    Market,
    /// Takes quantity from a resting order, which keeps its place; all of it removes the order.
    Reduce,
}

impl Kind {
    /// Every kind, by its code in a column.
    pub const ALL: [Kind; 5] = [Kind::Add, Kind::Cancel, Kind::Replace, Kind::Market, Kind::Reduce];

    /// The kind of a code.
    #[inline]
    pub fn of_code(code: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(code)).copied()
    }
}

impl Side {
    /// The side of a code: 0 buys, 1 sells.
    #[inline]
    pub fn of_code(code: u8) -> Option<Side> {
        match code {
            0 => Some(Side::Buy),
            1 => Some(Side::Sell),
            _ => None,
        }
    }
}

/// One event of an instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What it does.
    pub kind: Kind,
    /// The side of an added or market order; a resting order has one already.
    pub side: Side,
    /// The order's id; of no meaning to market orders.
    pub order: u64,
    /// The price in ticks, which may be negative, of added and replaced orders.
    pub price: i32,
    /// The quantity added, traded, taken away, or that a replaced order then has.
    pub quantity: u32,
}

named! {
    /// Why an event changed nothing.
    pub enum Rejection {
        /// The code of no kind.
        UnknownKind = "unknown kind",
        /// The code of no side.
        UnknownSide = "unknown side",
        /// An instrument beyond those of the books.
        UnknownInstrument = "unknown instrument",
        /// No such order rests.
        UnknownOrder = "unknown order",
        /// An order with this id rests already.
        DuplicateOrder = "duplicate order",
        /// An id beyond those that the books were made for.
        OrderOutOfRange = "order id out of range",
        /// Nothing to add, trade or take away.
        ZeroQuantity = "zero quantity",
        /// The least or greatest 32-bit integer, which stand for no bid and no ask.
        PriceOutOfRange = "price out of range",
    }
}
