//! Events and what follows from them, as columns.

use crate::book::State;
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
        event(self.kind[row], self.side[row], self.order[row], self.price[row], self.quantity[row])
    }

    /// Instruments and events, row by row.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, Result<Event, Rejection>)> {
        let codes = self.kind.iter().zip(self.side);
        let what = self.order.iter().zip(self.price).zip(self.quantity);
        let rows = self.instrument.iter().zip(codes).zip(what);
        rows.map(|((&instrument, (&kind, &side)), ((&order, &price), &quantity))| {
            (instrument, event(kind, side, order, price, quantity))
        })
    }
}

/// What columns say of an event.
#[inline(always)]
fn event(kind: u8, side: u8, order: u64, price: i32, quantity: u32) -> Result<Event, Rejection> {
    Ok(Event {
        kind: Kind::of_code(kind).ok_or(Rejection::UnknownKind)?,
        side: Side::of_code(side).ok_or(Rejection::UnknownSide)?,
        order,
        price,
        quantity,
    })
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

    /// Writes the rows from `first` on, a column after the other.
    pub(crate) fn write(&mut self, first: usize, states: &[State]) {
        fn write<T>(column: &mut [T], first: usize, states: &[State], of: impl Fn(&State) -> T) {
            for (to, state) in column[first..first + states.len()].iter_mut().zip(states) {
                *to = of(state);
            }
        }
        write(self.bid_price, first, states, |state| state.top.bid_price);
        write(self.bid_quantity, first, states, |state| state.top.bid_quantity);
        write(self.ask_price, first, states, |state| state.top.ask_price);
        write(self.ask_quantity, first, states, |state| state.top.ask_quantity);
        write(self.traded, first, states, |state| state.trade.quantity);
        write(self.notional, first, states, |state| state.trade.notional);
        write(self.microprice, first, states, |state| state.top.microprice());
        write(self.vwap, first, states, State::vwap);
    }

    /// Writes a row.
    #[inline(always)]
    pub(crate) fn set(&mut self, row: usize, state: &State) {
        self.bid_price[row] = state.top.bid_price;
        self.bid_quantity[row] = state.top.bid_quantity;
        self.ask_price[row] = state.top.ask_price;
        self.ask_quantity[row] = state.top.ask_quantity;
        self.traded[row] = state.trade.quantity;
        self.notional[row] = state.trade.notional;
        self.microprice[row] = state.top.microprice();
        self.vwap[row] = state.vwap();
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
}
