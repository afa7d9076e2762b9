//! Orders of one price, first in first out.

use crate::orders::NONE;

/// A level; 16 bytes, four to a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// What all its orders have left.
    pub quantity: u64,
    /// The order that trades first.
    pub head: u32,
    /// The order that trades last.
    pub tail: u32,
}

impl Level {
    /// A level without orders.
    pub const EMPTY: Level = Level { quantity: 0, head: NONE, tail: NONE };
}

impl Default for Level {
    fn default() -> Self {
        Level::EMPTY
    }
}

/// The levels of a book, by price.
pub trait Levels {
    /// The level of a price, to be changed; empty where there was none.
    fn at(&mut self, price: i32) -> &mut Level;

    /// The quantity of a level, 0 where there is none.
    fn quantity(&self, price: i32) -> u64;

    /// The quantity of the best level of a side, which the levels may follow as it moves.
    fn touch(&mut self, price: i32) -> u64;

    /// The level of this price has orders now.
    fn occupy(&mut self, price: i32);

    /// The level of this price has none left.
    fn vacate(&mut self, price: i32);

    /// The next occupied price below one.
    fn below(&self, price: i32) -> Option<i32>;

    /// The next occupied price above one.
    fn above(&self, price: i32) -> Option<i32>;

    /// Forgets all levels.
    fn clear(&mut self);
}
