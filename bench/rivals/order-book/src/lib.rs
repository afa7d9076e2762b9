//! nanobook and hftbacktest on columns of events.
//!
//! Both get more than a caller would give them: `open` makes books and translates ids before the clock
//! starts, `replay` is what is timed, and `close` drops the books after it has stopped.

use std::hint::black_box;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use hftbacktest::depth::{L3MarketDepth, MarketDepth, ROIVectorMarketDepth};
use nanobook::{Exchange, OrderId, Price, Side, TimeInForce};

const ADD: u8 = 0;
const CANCEL: u8 = 1;
const REPLACE: u8 = 2;
const MARKET: u8 = 3;
const BUY: u8 = 0;

/// Columns of events, and where the top of the book after each goes.
#[repr(C)]
pub struct Columns {
    events: usize,
    rows: usize,
    instruments: usize,
    kind: *const u8,
    side: *const u8,
    instrument: *const u16,
    order: *const u64,
    price: *const i32,
    quantity: *const u32,
    /// The row of each event in the answer; several messages may belong to one.
    row: *const u32,
    bid_price: *mut i32,
    bid_quantity: *mut u64,
    ask_price: *mut i32,
    ask_quantity: *mut u64,
}

struct Slices<'a> {
    kind: &'a [u8],
    side: &'a [u8],
    instrument: &'a [u16],
    order: &'a [u64],
    price: &'a [i32],
    quantity: &'a [u32],
    row: &'a [u32],
    bid_price: &'a mut [i32],
    bid_quantity: &'a mut [u64],
    ask_price: &'a mut [i32],
    ask_quantity: &'a mut [u64],
}

/// # Safety
///
/// Every pointer is to as many elements as the columns say, apart from each other.
unsafe fn slices<'a>(columns: *const Columns) -> (Slices<'a>, usize) {
    // SAFETY: the caller guarantees it.
    unsafe {
        let columns = &*columns;
        let (events, rows) = (columns.events, columns.rows);
        let slices = Slices {
            kind: from_raw_parts(columns.kind, events),
            side: from_raw_parts(columns.side, events),
            instrument: from_raw_parts(columns.instrument, events),
            order: from_raw_parts(columns.order, events),
            price: from_raw_parts(columns.price, events),
            quantity: from_raw_parts(columns.quantity, events),
            row: from_raw_parts(columns.row, events),
            bid_price: from_raw_parts_mut(columns.bid_price, rows),
            bid_quantity: from_raw_parts_mut(columns.bid_quantity, rows),
            ask_price: from_raw_parts_mut(columns.ask_price, rows),
            ask_quantity: from_raw_parts_mut(columns.ask_quantity, rows),
        };
        (slices, columns.instruments)
    }
}

/// The ids that nanobook gives: one after the other, to market and replaced orders too.
fn nanobook_ids(columns: &Slices<'_>, instruments: usize) -> Vec<OrderId> {
    let mut last = vec![0_u64; instruments];
    let mut current: Vec<Vec<u64>> = vec![Vec::new(); instruments];
    let mut ids = Vec::with_capacity(columns.kind.len());
    for (event, &kind) in columns.kind.iter().enumerate() {
        let instrument = usize::from(columns.instrument[event]);
        let (order, known) = (columns.order[event] as usize, &mut current[instrument]);
        if kind == MARKET {
            last[instrument] += 1;
            ids.push(OrderId(0));
            continue;
        }
        if known.len() <= order {
            known.resize(order + 1, 0);
        }
        ids.push(OrderId(known[order]));
        if kind != CANCEL {
            last[instrument] += 1;
            known[order] = last[instrument];
        }
    }
    ids
}

/// Books of nanobook, and the ids that it will give.
pub struct Nanobook {
    exchanges: Vec<Exchange>,
    ids: Vec<OrderId>,
}

/// # Safety
///
/// As of [`slices`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanobook_open(columns: *const Columns) -> *mut Nanobook {
    // SAFETY: the caller guarantees it.
    let (columns, instruments) = unsafe { slices(columns) };
    let ids = nanobook_ids(&columns, instruments);
    let exchanges = (0..instruments).map(|_| Exchange::new()).collect();
    Box::into_raw(Box::new(Nanobook { exchanges, ids }))
}

/// # Safety
///
/// As of [`slices`]; the books were opened for these columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanobook_replay(books: *mut Nanobook, columns: *const Columns) {
    // SAFETY: the caller guarantees it.
    let ((columns, _), Nanobook { exchanges, ids }) = unsafe { (slices(columns), &mut *books) };
    for (event, &kind) in columns.kind.iter().enumerate() {
        let exchange = &mut exchanges[usize::from(columns.instrument[event])];
        let side = if columns.side[event] == BUY { Side::Buy } else { Side::Sell };
        let price = Price(i64::from(columns.price[event]));
        let quantity = u64::from(columns.quantity[event]);
        match kind {
            ADD => drop(black_box(exchange.submit_limit(side, price, quantity, TimeInForce::GTC))),
            CANCEL => drop(black_box(exchange.cancel(ids[event]))),
            REPLACE => drop(black_box(exchange.modify(ids[event], price, quantity))),
            _ => drop(black_box(exchange.submit_market(side, quantity))),
        }
        let book = exchange.book();
        let row = columns.row[event] as usize;
        let (bid, ask) = (book.bids().best_level(), book.asks().best_level());
        columns.bid_price[row] = bid.map_or(i32::MIN, |level| level.price().0 as i32);
        columns.bid_quantity[row] = bid.map_or(0, |level| level.total_quantity());
        columns.ask_price[row] = ask.map_or(i32::MAX, |level| level.price().0 as i32);
        columns.ask_quantity[row] = ask.map_or(0, |level| level.total_quantity());
    }
}

/// # Safety
///
/// The books were opened, and are not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanobook_close(books: *mut Nanobook) {
    // SAFETY: the caller guarantees it.
    drop(unsafe { Box::from_raw(books) });
}

/// Books of hftbacktest for prices from the lowest to the highest of the columns.
///
/// # Safety
///
/// As of [`slices`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hftbacktest_open(
    columns: *const Columns,
) -> *mut Vec<ROIVectorMarketDepth> {
    // SAFETY: the caller guarantees it.
    let (columns, instruments) = unsafe { slices(columns) };
    let lowest = f64::from(columns.price.iter().copied().min().unwrap_or(0));
    let highest = f64::from(columns.price.iter().copied().max().unwrap_or(0));
    let book = |_| ROIVectorMarketDepth::new(1.0, 1.0, lowest, highest);
    Box::into_raw(Box::new((0..instruments).map(book).collect()))
}

/// Messages of a feed: orders added, canceled, replaced, and reduced to a quantity; nothing crosses.
///
/// # Safety
///
/// As of [`slices`]; the books were opened for these columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hftbacktest_replay(
    books: *mut Vec<ROIVectorMarketDepth>,
    columns: *const Columns,
) {
    // SAFETY: the caller guarantees it.
    let ((columns, _), books) = unsafe { (slices(columns), &mut *books) };
    for (message, &kind) in columns.kind.iter().enumerate() {
        let book = &mut books[usize::from(columns.instrument[message])];
        let order = columns.order[message];
        let price = f64::from(columns.price[message]);
        let quantity = f64::from(columns.quantity[message]);
        // Nothing of a valid feed fails, and the top of the book would tell.
        match (kind, columns.side[message]) {
            (ADD, BUY) => drop(black_box(book.add_buy_order(order, price, quantity, 0))),
            (ADD, _) => drop(black_box(book.add_sell_order(order, price, quantity, 0))),
            (CANCEL, _) => drop(black_box(book.delete_order(order, 0))),
            _ => drop(black_box(book.modify_order(order, price, quantity, 0))),
        }
        let row = columns.row[message] as usize;
        let (bid, ask) = (book.best_bid_tick(), book.best_ask_tick());
        columns.bid_price[row] = i32::try_from(bid).unwrap_or(i32::MIN);
        columns.bid_quantity[row] =
            if bid == i64::MIN { 0 } else { book.bid_qty_at_tick(bid) as u64 };
        columns.ask_price[row] = i32::try_from(ask).unwrap_or(i32::MAX);
        columns.ask_quantity[row] =
            if ask == i64::MAX { 0 } else { book.ask_qty_at_tick(ask) as u64 };
    }
}

/// # Safety
///
/// The books were opened, and are not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hftbacktest_close(books: *mut Vec<ROIVectorMarketDepth>) {
    // SAFETY: the caller guarantees it.
    drop(unsafe { Box::from_raw(books) });
}
