//! Events and what follows from them, as columns.

use crate::event::{Event, Kind, Rejection, Side};
use std::ops::Range;

/// Columns of events, all of one length; codes of kinds and sides are their places in the enums.
#[derive(Clone, Copy, Debug)]
pub struct Events<'a> {
    /// Codes of kinds.
    pub kind: &'a [u8],
    /// Codes of sides.
    pub side: &'a [u8],
    /// Numbers of instruments.
    pub instrument: &'a [u16],
    /// Ids of orders, each instrument's its own.
    pub order: &'a [u64],
    /// Prices in ticks.
    pub price: &'a [i32],
    /// Quantities.
    pub quantity: &'a [u32],
}

impl Events<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Whether all columns have the same length.
    pub fn is_rectangular(&self) -> bool {
        [
            self.side.len(),
            self.instrument.len(),
            self.order.len(),
            self.price.len(),
            self.quantity.len(),
        ]
        .into_iter()
        .all(|length| length == self.kind.len())
    }

    /// Some of the rows.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Events<'_> {
        Events {
            kind: &self.kind[rows.clone()],
            side: &self.side[rows.clone()],
            instrument: &self.instrument[rows.clone()],
            order: &self.order[rows.clone()],
            price: &self.price[rows.clone()],
            quantity: &self.quantity[rows],
        }
    }

    /// The event of a row.
    #[inline]
    pub(crate) fn at(&self, row: usize) -> Result<Event, Rejection> {
        Ok(Event {
            kind: Kind::of_code(self.kind[row]).ok_or(Rejection::UnknownKind)?,
            side: Side::of_code(self.side[row]).ok_or(Rejection::UnknownSide)?,
            order: self.order[row],
            price: self.price[row],
            quantity: self.quantity[row],
        })
    }
}

/// Columns of the top of the book of an event's instrument after it, and of what it traded.
#[derive(Debug)]
pub struct Tops<'a> {
    /// Best bids, [`NO_BID`](crate::NO_BID) where there is none.
    pub bid_price: &'a mut [i32],
    /// What rests at them.
    pub bid_quantity: &'a mut [u64],
    /// Best asks, [`NO_ASK`](crate::NO_ASK) where there is none.
    pub ask_price: &'a mut [i32],
    /// What rests at them.
    pub ask_quantity: &'a mut [u64],
    /// Quantities traded.
    pub traded: &'a mut [u32],
    /// Prices times quantities traded.
    pub notional: &'a mut [i64],
    /// Microprices: the mean of both prices, each weighted by what rests at the other; NaN without both.
    pub microprice: &'a mut [f64],
    /// Volume-weighted average prices of all trades of the instrument so far; NaN before the first.
    pub vwap: &'a mut [f64],
}

impl Tops<'_> {
    /// Whether every column has this length.
    pub fn is_of_length(&self, length: usize) -> bool {
        [
            self.bid_price.len(),
            self.bid_quantity.len(),
            self.ask_price.len(),
            self.ask_quantity.len(),
            self.traded.len(),
            self.notional.len(),
            self.microprice.len(),
            self.vwap.len(),
        ]
        .into_iter()
        .all(|rows| rows == length)
    }

    /// Overwrites the rows from `first` on.
    pub(crate) fn copy_from(&mut self, first: usize, rows: &Tops<'_>) {
        fn copy<T: Copy>(to: &mut [T], first: usize, rows: &[T]) {
            to[first..first + rows.len()].copy_from_slice(rows);
        }
        copy(self.bid_price, first, rows.bid_price);
        copy(self.bid_quantity, first, rows.bid_quantity);
        copy(self.ask_price, first, rows.ask_price);
        copy(self.ask_quantity, first, rows.ask_quantity);
        copy(self.traded, first, rows.traded);
        copy(self.notional, first, rows.notional);
        copy(self.microprice, first, rows.microprice);
        copy(self.vwap, first, rows.vwap);
    }
}

/// Tops that stay in the cache until they are copied to where they belong, a block of a column at a time.
///
/// Eight columns that are written row by row are eight lines that the CPU reads before it overwrites
/// them; a copy of a few KiB writes whole lines, which needs no read.
#[derive(Clone, Debug)]
pub(crate) struct TopsBlock {
    bid_price: Vec<i32>,
    bid_quantity: Vec<u64>,
    ask_price: Vec<i32>,
    ask_quantity: Vec<u64>,
    traded: Vec<u32>,
    notional: Vec<i64>,
    microprice: Vec<f64>,
    vwap: Vec<f64>,
}

impl TopsBlock {
    /// For at most so many rows.
    pub fn new(rows: usize) -> Self {
        TopsBlock {
            bid_price: vec![0; rows],
            bid_quantity: vec![0; rows],
            ask_price: vec![0; rows],
            ask_quantity: vec![0; rows],
            traded: vec![0; rows],
            notional: vec![0; rows],
            microprice: vec![0.0; rows],
            vwap: vec![0.0; rows],
        }
    }

    /// The first rows.
    pub fn rows(&mut self, rows: usize) -> Tops<'_> {
        Tops {
            bid_price: &mut self.bid_price[..rows],
            bid_quantity: &mut self.bid_quantity[..rows],
            ask_price: &mut self.ask_price[..rows],
            ask_quantity: &mut self.ask_quantity[..rows],
            traded: &mut self.traded[..rows],
            notional: &mut self.notional[..rows],
            microprice: &mut self.microprice[..rows],
            vwap: &mut self.vwap[..rows],
        }
    }
}

/// The best levels of the instrument after each event: rows of `levels` prices, or quantities, each.
#[derive(Debug)]
pub struct Depths<'a> {
    /// How many levels a row has.
    pub levels: usize,
    /// Bids from the best down.
    pub bid_price: &'a mut [i32],
    /// What rests at them, 0 where there is no such level.
    pub bid_quantity: &'a mut [u64],
    /// Asks from the best up.
    pub ask_price: &'a mut [i32],
    /// What rests at them, 0 where there is no such level.
    pub ask_quantity: &'a mut [u64],
}

impl Depths<'_> {
    /// Whether every column has this many rows.
    pub fn is_of_length(&self, rows: usize) -> bool {
        [
            self.bid_price.len(),
            self.bid_quantity.len(),
            self.ask_price.len(),
            self.ask_quantity.len(),
        ]
        .into_iter()
        .all(|length| Some(length) == rows.checked_mul(self.levels))
    }

    /// Some of the rows.
    pub(crate) fn rows(&mut self, rows: Range<usize>) -> Depths<'_> {
        let places = rows.start * self.levels..rows.end * self.levels;
        Depths {
            levels: self.levels,
            bid_price: &mut self.bid_price[places.clone()],
            bid_quantity: &mut self.bid_quantity[places.clone()],
            ask_price: &mut self.ask_price[places.clone()],
            ask_quantity: &mut self.ask_quantity[places],
        }
    }
}
