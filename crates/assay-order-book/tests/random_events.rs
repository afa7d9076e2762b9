//! Random events on every kind of book, checked against a list of orders that is searched.

use assay_order_book::{
    Book, Books, DenseOrders, Depths, Event, Events, Fill, Generator, HashedOrders, Kind, Ladder,
    Levels, MappedOrders, Market, NO_ASK, NO_BID, Orders, Rejection, Replay, Side, Top, Tops,
    Trade, TreeLevels,
};
use proptest::prelude::*;

const IDS: u64 = 40;

/// A book as a list: no index, no levels.
#[derive(Default)]
struct ListBook {
    orders: Vec<(u64, Side, i32, u32)>,
}

impl ListBook {
    fn best(&self, side: Side) -> Option<i32> {
        let prices = self.orders.iter().filter(|order| order.1 == side).map(|order| order.2);
        match side {
            Side::Buy => prices.max(),
            Side::Sell => prices.min(),
        }
    }

    fn quantity(&self, price: Option<i32>) -> u64 {
        let at = self.orders.iter().filter(|order| Some(order.2) == price);
        at.map(|order| u64::from(order.3)).sum()
    }

    fn top(&self) -> Top {
        let (bid, ask) = (self.best(Side::Buy), self.best(Side::Sell));
        Top {
            bid_price: bid.unwrap_or(NO_BID),
            bid_quantity: self.quantity(bid),
            ask_price: ask.unwrap_or(NO_ASK),
            ask_quantity: self.quantity(ask),
        }
    }

    fn trade(&mut self, side: Side, limit: Option<i32>, mut left: u32) -> (u32, Vec<Fill>) {
        let other = if side == Side::Buy { Side::Sell } else { Side::Buy };
        let mut fills = Vec::new();
        while let Some(price) = self.best(other).filter(|_| left != 0) {
            let crosses = limit.is_none_or(|limit| match side {
                Side::Buy => price <= limit,
                Side::Sell => price >= limit,
            });
            if !crosses {
                break;
            }
            // The list is in order of time.
            let index = self.orders.iter().position(|order| order.2 == price).expect("it is best");
            let order = &mut self.orders[index];
            let traded = order.3.min(left);
            order.3 -= traded;
            left -= traded;
            fills.push(Fill { order: order.0, price, quantity: traded });
            if order.3 == 0 {
                self.orders.remove(index);
            }
        }
        (left, fills)
    }

    fn submit(&mut self, event: &Event, side: Side) -> Vec<Fill> {
        let (left, fills) = self.trade(side, Some(event.price), event.quantity);
        if left != 0 {
            self.orders.push((event.order, side, event.price, left));
        }
        fills
    }

    fn apply(&mut self, event: &Event) -> Result<Vec<Fill>, Rejection> {
        let resting = self.orders.iter().position(|order| order.0 == event.order);
        let priced = matches!(event.kind, Kind::Add | Kind::Replace);
        if priced && (event.price == i32::MIN || event.price == i32::MAX) {
            return Err(Rejection::PriceOutOfRange);
        }
        if event.kind != Kind::Cancel && event.quantity == 0 {
            return Err(Rejection::ZeroQuantity);
        }
        match (event.kind, resting) {
            (Kind::Market, _) => Ok(self.trade(event.side, None, event.quantity).1),
            (Kind::Add, Some(_)) => Err(Rejection::DuplicateOrder),
            (Kind::Add, None) => Ok(self.submit(event, event.side)),
            (_, None) => Err(Rejection::UnknownOrder),
            (Kind::Cancel, Some(index)) => {
                self.orders.remove(index);
                Ok(Vec::new())
            }
            (Kind::Replace, Some(index)) => {
                let (_, side, ..) = self.orders.remove(index);
                Ok(self.submit(event, side))
            }
            (Kind::Reduce, Some(index)) => {
                let order = &mut self.orders[index];
                order.3 = order.3.saturating_sub(event.quantity);
                if order.3 == 0 {
                    self.orders.remove(index);
                }
                Ok(Vec::new())
            }
        }
    }
}

fn price() -> impl Strategy<Value = i32> {
    prop_oneof![
        12 => 95_i32..=105,
        2 => -40_i32..300,
        // Far from every window, and the two that stand for nothing.
        1 => prop_oneof![
            Just(i32::MIN), Just(i32::MIN + 1), Just(i32::MAX - 1), Just(i32::MAX), any::<i32>()
        ],
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![
        6 => Just(Kind::Add), 3 => Just(Kind::Cancel), 2 => Just(Kind::Replace),
        1 => Just(Kind::Market), 1 => Just(Kind::Reduce)
    ];
    let side = prop_oneof![Just(Side::Buy), Just(Side::Sell)];
    let quantity = prop_oneof![1 => Just(0_u32), 20 => 1_u32..30, 1 => any::<u32>()];
    (kind, side, 0..IDS, price(), quantity).prop_map(|(kind, side, order, price, quantity)| Event {
        kind,
        side,
        order,
        price,
        quantity,
    })
}

fn check<L: Levels, O: Orders>(events: &[Event], levels: L, orders: O) {
    let mut book = Book::new(levels, orders);
    let mut list = ListBook::default();
    for event in events {
        let mut fills = Vec::new();
        let trade = book.apply(event, &mut fills);
        let expected = list.apply(event);
        assert_eq!(trade, expected.as_ref().copied_trade(), "{event:?}");
        assert_eq!(fills, expected.unwrap_or_default(), "{event:?}");
        assert_eq!(book.top(), list.top(), "{event:?}");
        assert_eq!(book.verify(), Ok(list.orders.len()), "{event:?}");
    }
}

trait CopiedTrade {
    fn copied_trade(self) -> Result<Trade, Rejection>;
}

impl CopiedTrade for Result<&Vec<Fill>, &Rejection> {
    fn copied_trade(self) -> Result<Trade, Rejection> {
        let fills = self.map_err(|rejection| *rejection)?;
        let notional = fills.iter().map(|fill| i64::from(fill.price) * i64::from(fill.quantity));
        let quantity = fills.iter().map(|fill| fill.quantity).sum();
        Ok(Trade { quantity, notional: notional.sum() })
    }
}

struct Columns {
    kind: Vec<u8>,
    side: Vec<u8>,
    instrument: Vec<u16>,
    order: Vec<u64>,
    price: Vec<i32>,
    quantity: Vec<u32>,
}

impl Columns {
    fn events(&self) -> Events<'_> {
        Events {
            kind: &self.kind,
            side: &self.side,
            instrument: &self.instrument,
            order: &self.order,
            price: &self.price,
            quantity: &self.quantity,
        }
    }
}

#[derive(Default, PartialEq, Eq, Debug)]
struct Answers {
    bid_price: Vec<i32>,
    bid_quantity: Vec<u64>,
    ask_price: Vec<i32>,
    ask_quantity: Vec<u64>,
    traded: Vec<u32>,
    notional: Vec<i64>,
    /// Bits, so that NaN equals NaN.
    microprice: Vec<u64>,
    vwap: Vec<u64>,
    depth_price: [Vec<i32>; 2],
    depth_quantity: [Vec<u64>; 2],
    replayed: assay_order_book::Replayed,
    resting: Option<usize>,
}

fn answers(columns: &Columns, mut books: impl Replay, grouped: bool) -> Answers {
    // What was before leaves no trace.
    books.fills(&columns.events());
    books.clear();
    let (rows, levels) = (columns.kind.len(), 3);
    let mut all = Answers {
        bid_price: vec![0; rows],
        bid_quantity: vec![0; rows],
        ask_price: vec![0; rows],
        ask_quantity: vec![0; rows],
        traded: vec![0; rows],
        notional: vec![0; rows],
        depth_price: [vec![0; rows * levels], vec![0; rows * levels]],
        depth_quantity: [vec![0; rows * levels], vec![0; rows * levels]],
        ..Answers::default()
    };
    let (mut microprice, mut vwap) = (vec![0.0; rows], vec![0.0; rows]);
    let mut tops = Tops {
        bid_price: &mut all.bid_price,
        bid_quantity: &mut all.bid_quantity,
        ask_price: &mut all.ask_price,
        ask_quantity: &mut all.ask_quantity,
        traded: &mut all.traded,
        notional: &mut all.notional,
        microprice: &mut microprice,
        vwap: &mut vwap,
    };
    let [bid_price, ask_price] = &mut all.depth_price;
    let [bid_quantity, ask_quantity] = &mut all.depth_quantity;
    let mut depths = Depths { levels, bid_price, bid_quantity, ask_price, ask_quantity };
    all.replayed = books.replay(&columns.events(), &mut tops, Some(&mut depths), grouped);
    all.microprice = microprice.into_iter().map(f64::to_bits).collect();
    all.vwap = vwap.into_iter().map(f64::to_bits).collect();
    all.resting = Some(books.verify().expect("the invariants hold"));
    for row in 0..rows {
        assert_eq!(all.depth_price[0][row * levels], all.bid_price[row]);
        assert_eq!(all.depth_quantity[1][row * levels], all.ask_quantity[row]);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn books_agree_with_a_list(events in prop::collection::vec(event(), 1..160)) {
        check(&events, Ladder::new(64), DenseOrders::new(IDS));
        check(&events, Ladder::new(256), HashedOrders::default());
        check(&events, TreeLevels::default(), MappedOrders::default());
    }

    #[test]
    fn replays_agree(
        rows in prop::collection::vec((event(), 0_u16..4, 0_u8..40, 0_u8..40), 1..200)
    ) {
        // Now and then a code that means nothing.
        let code = |valid: u8, draw: u8| if draw == 0 { 9 } else { valid };
        let columns = Columns {
            kind: rows.iter().map(|row| code(row.0.kind as u8, row.2)).collect(),
            side: rows.iter().map(|row| code(row.0.side as u8, row.3)).collect(),
            instrument: rows.iter().map(|row| row.1).collect(),
            order: rows.iter().map(|row| row.0.order).collect(),
            price: rows.iter().map(|row| row.0.price).collect(),
            quantity: rows.iter().map(|row| row.0.quantity).collect(),
        };
        // One instrument fewer than the events name.
        let plain = Books::new(3, TreeLevels::default(), MappedOrders::default());
        let expected = answers(&columns, plain.clone(), false);
        let traded: u64 = expected.traded.iter().map(|&traded| u64::from(traded)).sum();
        let filled = plain.clone().fills(&columns.events());
        prop_assert_eq!(traded, filled.iter().map(|(_, fill)| u64::from(fill.quantity)).sum::<u64>());
        let dense = Books::new(3, Ladder::new(64), DenseOrders::new(IDS));
        let hashed = Books::new(3, Ladder::new(128), HashedOrders::default());
        prop_assert_eq!(&answers(&columns, plain, true), &expected);
        prop_assert_eq!(&answers(&columns, dense.clone(), false), &expected);
        prop_assert_eq!(&answers(&columns, dense, true), &expected);
        prop_assert_eq!(&answers(&columns, hashed, false), &expected);
    }
}

#[test]
fn hashed_orders_survive_growth_and_removal() {
    let mut orders = HashedOrders::default();
    let mut slots = Vec::new();
    for id in 0..5_000_u64 {
        let slot = orders.reserve(id << 40).expect("it is new");
        orders.at_mut(slot).quantity = 1;
        slots.push(slot);
    }
    assert_eq!(orders.reserve(7 << 40), Err(Rejection::DuplicateOrder));
    for id in (0..5_000).step_by(2) {
        orders.release(slots[id]);
    }
    for id in 0..5_000_u64 {
        let expected = (id % 2 == 1).then(|| slots[id as usize]);
        assert_eq!(orders.find(id << 40), expected);
    }
}

#[test]
fn dense_ids_have_a_limit() {
    let mut orders = DenseOrders::new(10);
    assert_eq!(orders.reserve(10), Err(Rejection::OrderOutOfRange));
    assert_eq!(orders.reserve(u64::MAX), Err(Rejection::OrderOutOfRange));
    assert_eq!(orders.reserve(9), Ok(9));
    assert_eq!(orders.find(u64::MAX), None);
}

#[test]
fn a_generated_market_is_valid_and_stays_near_its_size() {
    let market = Market { seed: 7, instruments: 3, resting: 200 };
    let mut generator = Generator::new(market);
    let mut again = Generator::new(market);
    let mut books = vec![Book::new(TreeLevels::default(), MappedOrders::default()); 3];
    let mut kinds = [0_usize; 5];
    for _ in 0..20_000 {
        let (instrument, event) = generator.event();
        assert_eq!((instrument, event), again.event());
        kinds[event.kind as usize] += 1;
        let book = &mut books[usize::from(instrument)];
        assert!(book.apply(&event, &mut ()).is_ok(), "{event:?}");
    }
    assert!(kinds[..4].iter().all(|&count| count > 200), "{kinds:?}");
    for book in &mut books {
        let resting = book.verify().expect("the invariants hold");
        assert!((100..400).contains(&resting), "{resting}");
    }
}
