//! Levels in the standard library's ordered map: the plain way.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use crate::level::{Level, Levels};

/// Levels by price in a [`BTreeMap`].
#[derive(Clone, Debug, Default)]
pub struct TreeLevels(BTreeMap<i32, Level>);

impl Levels for TreeLevels {
    fn at(&mut self, price: i32) -> &mut Level {
        self.0.entry(price).or_default()
    }

    fn quantity(&self, price: i32) -> u64 {
        self.0.get(&price).map_or(0, |level| level.quantity)
    }

    fn touch(&mut self, price: i32) -> u64 {
        self.quantity(price)
    }

    fn occupy(&mut self, _price: i32) {}

    fn vacate(&mut self, price: i32) {
        self.0.remove(&price);
    }

    fn below(&self, price: i32) -> Option<i32> {
        self.0.range(..price).next_back().map(|(&below, _)| below)
    }

    fn above(&self, price: i32) -> Option<i32> {
        self.0.range((Excluded(price), Unbounded)).next().map(|(&above, _)| above)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
