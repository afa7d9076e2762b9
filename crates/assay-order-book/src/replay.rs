//! Events of many instruments, a batch at a time.

use crate::book::{Book, Fill, NO_ASK, NO_BID, State, Trade};
use crate::columns::{Depths, Events, Tops};
use crate::event::{Event, Rejection, Side};
use crate::level::Levels;
use crate::orders::Orders;

/// Rows whose states are in L1 beside the books' best levels.
const BLOCK_ROWS: usize = 256;

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Replayed {
    /// Events that changed nothing.
    pub rejected: usize,
    /// The first of them, and why.
    pub first: Option<(usize, Rejection)>,
}

/// Books that events are replayed into, however they are made.
pub trait Replay: Send {
    /// Applies events in order and writes the top of the book after each.
    ///
    /// `grouped` takes the events of an instrument together, so that its book stays in the cache.
    ///
    /// # Panics
    ///
    /// Columns must have one length.
    fn replay(
        &mut self,
        events: &Events<'_>,
        tops: &mut Tops<'_>,
        depths: Option<&mut Depths<'_>>,
        grouped: bool,
    ) -> Replayed;

    /// Applies events in order; returns every resting order that traded, with the row of the event.
    fn fills(&mut self, events: &Events<'_>) -> Vec<(usize, Fill)>;

    /// Prices and quantities of a side of an instrument, from the best on.
    fn depth(&self, instrument: usize, side: Side, levels: usize) -> Vec<(i32, u64)>;

    /// Forgets all orders and trades, and keeps the memory.
    fn clear(&mut self);

    /// Checks the invariants of every book; returns how many orders rest.
    fn verify(&mut self) -> Result<usize, String>;
}

/// The books of several instruments.
#[derive(Clone, Debug)]
pub struct Books<L, O> {
    books: Vec<Book<L, O>>,
    /// Rows of a batch by instrument, kept for the next batch.
    rows: Vec<u32>,
    /// States of a block of rows.
    states: Vec<State>,
}

impl<L: Levels + Clone, O: Orders + Clone> Books<L, O> {
    /// A book each, all empty.
    pub fn new(instruments: usize, levels: L, orders: O) -> Self {
        let book = Book::new(levels, orders);
        let states = Vec::with_capacity(BLOCK_ROWS);
        Books { books: vec![book; instruments], rows: Vec::new(), states }
    }
}

impl<L: Levels, O: Orders> Books<L, O> {
    /// Applies an event; returns its book after it.
    #[inline(always)]
    fn step(
        &mut self,
        instrument: u16,
        event: Result<Event, Rejection>,
    ) -> (State, Option<Rejection>) {
        let Some(book) = self.books.get_mut(usize::from(instrument)) else {
            return (State::EMPTY, Some(Rejection::UnknownInstrument));
        };
        let (trade, rejection) = match event.and_then(|event| book.apply(&event, &mut ())) {
            Ok(trade) => (trade, None),
            Err(rejection) => (Trade::default(), Some(rejection)),
        };
        (book.state(trade), rejection)
    }

    /// Orders rows by instrument, those of an instrument as they came.
    fn group(&mut self, events: &Events<'_>) -> Vec<u32> {
        let mut starts = vec![0_u32; self.books.len() + 2];
        let last = self.books.len();
        for &instrument in events.instrument {
            starts[usize::from(instrument).min(last) + 1] += 1;
        }
        for place in 1..starts.len() {
            starts[place] += starts[place - 1];
        }
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        rows.resize(events.len(), 0);
        for (row, &instrument) in events.instrument.iter().enumerate() {
            let start = &mut starts[usize::from(instrument).min(last)];
            rows[*start as usize] = row as u32;
            *start += 1;
        }
        rows
    }
}

fn write_depth<L: Levels, O: Orders>(
    book: Option<&Book<L, O>>,
    row: usize,
    depths: &mut Depths<'_>,
) {
    let rows = row * depths.levels..(row + 1) * depths.levels;
    let sides = [
        (Side::Buy, NO_BID, &mut *depths.bid_price, &mut *depths.bid_quantity),
        (Side::Sell, NO_ASK, &mut *depths.ask_price, &mut *depths.ask_quantity),
    ];
    for (side, nothing, prices, quantities) in sides {
        let mut levels = book.map(|book| book.depth(side)).into_iter().flatten();
        for (price, quantity) in prices[rows.clone()].iter_mut().zip(&mut quantities[rows.clone()])
        {
            (*price, *quantity) = levels.next().unwrap_or((nothing, 0));
        }
    }
}

impl<L: Levels + Send, O: Orders + Send> Replay for Books<L, O> {
    fn replay(
        &mut self,
        events: &Events<'_>,
        tops: &mut Tops<'_>,
        mut depths: Option<&mut Depths<'_>>,
        grouped: bool,
    ) -> Replayed {
        assert!(events.is_rectangular(), "columns of events have one length");
        assert!(tops.is_of_length(events.len()), "columns of tops have the events' length");
        if let Some(depths) = &depths {
            assert!(depths.is_of_length(events.len()), "depths have the events' length");
        }
        let mut replayed = Replayed::default();
        let mut note = |row: usize, rejection: Option<Rejection>| {
            if let Some(rejection) = rejection {
                replayed.rejected += 1;
                if replayed.first.is_none_or(|(first, _)| row < first) {
                    replayed.first = Some((row, rejection));
                }
            }
        };
        let mut states = std::mem::take(&mut self.states);
        // A row is a 32-bit number where rows are sorted.
        if grouped && u32::try_from(events.len()).is_ok() {
            let rows = self.group(events);
            for row in rows.iter().map(|&row| row as usize) {
                let instrument = events.instrument[row];
                let (state, rejection) = self.step(instrument, events.at(row));
                tops.set(row, &state);
                if let Some(depths) = &mut depths {
                    write_depth(self.books.get(usize::from(instrument)), row, depths);
                }
                note(row, rejection);
            }
            self.rows = rows;
        } else {
            for first in (0..events.len()).step_by(BLOCK_ROWS) {
                states.clear();
                let rows = first..(first + BLOCK_ROWS).min(events.len());
                for (row, (instrument, event)) in rows.clone().zip(events.rows(rows).iter()) {
                    let (state, rejection) = self.step(instrument, event);
                    states.push(state);
                    if let Some(depths) = &mut depths {
                        write_depth(self.books.get(usize::from(instrument)), row, depths);
                    }
                    note(row, rejection);
                }
                tops.write(first, &states);
            }
        }
        self.states = states;
        replayed
    }

    fn fills(&mut self, events: &Events<'_>) -> Vec<(usize, Fill)> {
        assert!(events.is_rectangular(), "columns of events have one length");
        let mut fills = Vec::new();
        let mut of_event = Vec::new();
        for row in 0..events.len() {
            let book = self.books.get_mut(usize::from(events.instrument[row]));
            if let (Some(book), Ok(event)) = (book, events.at(row)) {
                let _ = book.apply(&event, &mut of_event);
            }
            fills.extend(of_event.drain(..).map(|fill| (row, fill)));
        }
        fills
    }

    fn depth(&self, instrument: usize, side: Side, levels: usize) -> Vec<(i32, u64)> {
        self.books
            .get(instrument)
            .map_or_else(Vec::new, |book| book.depth(side).take(levels).collect())
    }

    fn clear(&mut self) {
        self.books.iter_mut().for_each(Book::clear);
    }

    fn verify(&mut self) -> Result<usize, String> {
        self.books.iter_mut().map(Book::verify).sum()
    }
}
