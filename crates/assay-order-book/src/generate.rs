//! Events of a random market, the same for a seed on every machine.
//!
//! Orders arrive, are replaced and canceled, and trade, as in zero-intelligence models of the
//! order book (Smith, Farmer, Gillemot and Krishnamurthy 2003): no one in it has a plan. Distances from
//! the other side's best price follow a power law, as Bouchaud, Mezard and Potters (2002) and Zovko and
//! Farmer (2002) found of real limit orders; of the two exponents that they report this is between. All
//! arithmetic is on integers.

use crate::book::{Book, Fill, NO_ASK, NO_BID};
use crate::dense::DenseOrders;
use crate::event::{Event, Kind, Side};
use crate::ladder::Ladder;

/// A market to generate events of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Market {
    /// The same number gives the same events.
    pub seed: u64,
    /// How many instruments there are, the first ones with more events than the last.
    pub instruments: u16,
    /// About how many orders of an instrument rest, once its book is full.
    pub resting: u32,
}

/// The prices that instruments begin at, in ticks.
const FIRST_PRICE: i32 = 10_000;
const WIDTH: usize = 4_096;
/// Shares of events out of 256.
const MARKETS: u64 = 8;
const REPLACES: u64 = 20;
/// Orders that cross the spread, out of 256 that are added.
const CROSSING: u64 = 8;
/// Half of all cancellations are of orders among this many of the last ones.
const RECENT: usize = 64;

/// Generates events one after the other.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    instruments: Vec<Instrument>,
    resting: u32,
    fills: Vec<Fill>,
}

#[derive(Debug)]
struct Instrument {
    book: Book<Ladder, DenseOrders>,
    /// Ids of resting orders in any order, and the place of each id there.
    live: Vec<u64>,
    places: Vec<u32>,
    /// What traders think it is worth: a random walk.
    value: i32,
}

impl Generator {
    /// A market that has not opened.
    pub fn new(market: Market) -> Generator {
        let instrument = |_| Instrument {
            book: Book::new(Ladder::new(WIDTH), DenseOrders::new(u64::from(u32::MAX))),
            live: Vec::new(),
            places: Vec::new(),
            value: FIRST_PRICE,
        };
        Generator {
            random: Random(market.seed),
            instruments: (0..market.instruments.max(1)).map(instrument).collect(),
            resting: market.resting.max(2),
            fills: Vec::new(),
        }
    }

    /// The next event, and the number of its instrument.
    pub fn event(&mut self) -> (u16, Event) {
        let number = self.random.rank(self.instruments.len() as u64);
        let instrument = &mut self.instruments[number as usize];
        let event = instrument.draw(&mut self.random, self.resting);
        instrument.follow(&event, &mut self.fills);
        (number as u16, event)
    }
}

impl Instrument {
    fn draw(&mut self, random: &mut Random, resting: u32) -> Event {
        if random.below(64) == 0 {
            self.value += random.below(3) as i32 - 1;
        }
        // Books fill to about the number wanted: with none resting all events add, with twice as many none.
        let share = random.below(256);
        let adds = random.below(2 * u64::from(resting)) >= self.live.len() as u64;
        let quantity = (10 << random.distance_bits(4)) + 10 * random.below(10) as u32;
        let kind = match share {
            _ if self.live.len() < 2 => Kind::Add,
            _ if share < MARKETS => Kind::Market,
            _ if share < MARKETS + REPLACES => Kind::Replace,
            _ if adds => Kind::Add,
            _ => Kind::Cancel,
        };
        match kind {
            Kind::Add => {
                let side = if random.below(2) == 0 { Side::Buy } else { Side::Sell };
                let order = self.places.len() as u64;
                if random.below(256) < CROSSING {
                    let side = self.informed_side(random);
                    let price = self.price(side, -(random.below(3) as i32));
                    return Event { kind, side, order, price, quantity };
                }
                let price = self.price(side, random.distance(10) as i32);
                Event { kind, side, order, price, quantity }
            }
            Kind::Market => {
                let side = self.informed_side(random);
                Event { kind, side, order: 0, price: 0, quantity }
            }
            Kind::Cancel | Kind::Reduce => {
                Event { kind, side: Side::Buy, order: self.pick(random), price: 0, quantity: 0 }
            }
            Kind::Replace => {
                let order = self.pick(random);
                let side = if self.is_bid(order) { Side::Buy } else { Side::Sell };
                let price = self.price(side, random.distance(6) as i32);
                Event { kind, side, order, price, quantity }
            }
        }
    }

    /// Three of four times the side that moves the price toward the value.
    fn informed_side(&self, random: &mut Random) -> Side {
        let (bid, ask) = (self.book.best_bid, self.book.best_ask);
        let cheap = bid != NO_BID && ask != NO_ASK && bid + ask < 2 * self.value;
        if cheap == (random.below(4) != 0) { Side::Buy } else { Side::Sell }
    }

    /// A price so far from the best one of the other side.
    fn price(&self, side: Side, distance: i32) -> i32 {
        let (bid, ask) = (self.book.best_bid, self.book.best_ask);
        match side {
            Side::Buy if ask != NO_ASK => ask - distance,
            Side::Buy => self.value - distance,
            Side::Sell if bid != NO_BID => bid + distance,
            Side::Sell => self.value + distance,
        }
    }

    fn pick(&self, random: &mut Random) -> u64 {
        let count = self.live.len();
        let among = if random.below(2) == 0 { count.min(RECENT) } else { count };
        self.live[count - 1 - random.below(among as u64) as usize]
    }

    fn is_bid(&self, order: u64) -> bool {
        self.book.price_of(order).is_some_and(|price| price <= self.book.best_bid)
    }

    /// Applies an event and keeps the list of resting orders.
    fn follow(&mut self, event: &Event, fills: &mut Vec<Fill>) {
        fills.clear();
        let applied = self.book.apply(event, fills);
        debug_assert!(applied.is_ok(), "{event:?} is valid");
        if event.kind == Kind::Add {
            self.places.push(self.live.len() as u32);
            self.live.push(event.order);
        }
        if event.kind != Kind::Market && self.book.price_of(event.order).is_none() {
            self.forget(event.order);
        }
        for fill in fills.iter() {
            if self.book.price_of(fill.order).is_none() {
                self.forget(fill.order);
            }
        }
    }

    fn forget(&mut self, order: u64) {
        let place = self.places[order as usize] as usize;
        self.live.swap_remove(place);
        if let Some(&moved) = self.live.get(place) {
            self.places[moved as usize] = place as u32;
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, by the high half of a product.
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number of bits, each one half as likely as the one before, and no more than `most`.
    fn distance_bits(&mut self, most: u32) -> u32 {
        self.next().trailing_zeros().min(most)
    }

    /// A positive number that is at least `k` once in `k` times.
    fn distance(&mut self, most_bits: u32) -> u64 {
        let first = 1 << self.distance_bits(most_bits);
        first + self.below(first)
    }

    /// A number below `end`, small ones more often: the lesser of two.
    fn rank(&mut self, end: u64) -> u64 {
        self.below(end).min(self.below(end))
    }
}
