//! Levels in an array around the touch, with a bitmap of those that are occupied.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use crate::level::{Level, Levels};

const WORD: usize = u64::BITS as usize;
/// A level that moves costs about as much as this many reads of levels outside of the window.
const READS_PER_LEVEL: usize = 4;

/// Levels of a window of prices in an array, all others in an ordered map.
///
/// A level within the window is found by subtraction, and the next occupied one by the bits of a word.
/// When the touch has been read outside of the window about as often as moving the window costs, it moves
/// there: prices that jump to and fro cost no more than twice what the map costs.
#[derive(Clone, Debug)]
pub struct Ladder {
    levels: Vec<Level>,
    occupied: Vec<u64>,
    base: i32,
    far: BTreeMap<i32, Level>,
    reads_outside: usize,
}

impl Ladder {
    /// Widths that may be asked for: whole words of the bitmap, and no more than a gigabyte of levels.
    pub const WIDTHS: std::ops::RangeInclusive<usize> = WORD..=1 << 26;

    /// A ladder of `width` prices, rounded up to whole words of the bitmap.
    pub fn new(width: usize) -> Ladder {
        let width = width.clamp(*Ladder::WIDTHS.start(), *Ladder::WIDTHS.end());
        let words = width.div_ceil(WORD);
        Ladder {
            levels: vec![Level::EMPTY; words * WORD],
            occupied: vec![0; words],
            base: 0,
            far: BTreeMap::new(),
            reads_outside: 0,
        }
    }

    /// The place of a price in the window; beyond it for all others.
    #[inline]
    fn place(&self, price: i32) -> usize {
        // Below the base it wraps to a number that no window holds.
        price.wrapping_sub(self.base) as u32 as usize
    }

    #[inline]
    fn price(&self, place: usize) -> i32 {
        self.base.wrapping_add(place as i32)
    }

    /// The first price above the window, as a wider number.
    fn end(&self) -> i64 {
        i64::from(self.base) + self.levels.len() as i64
    }

    /// The last occupied place below `place`.
    #[inline]
    fn occupied_below(&self, place: usize) -> Option<usize> {
        let mut word = place / WORD;
        let mut bits = match self.occupied.get(word) {
            Some(bits) => bits & ((1 << (place % WORD)) - 1),
            None => {
                word = self.occupied.len();
                0
            }
        };
        while bits == 0 {
            word = word.checked_sub(1)?;
            bits = self.occupied[word];
        }
        Some(word * WORD + (WORD - 1 - bits.leading_zeros() as usize))
    }

    /// The first occupied place at or above `place`.
    #[inline]
    fn occupied_from(&self, place: usize) -> Option<usize> {
        let mut word = place / WORD;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (place % WORD));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word * WORD + bits.trailing_zeros() as usize)
    }

    /// A level outside of the window, which moves to the first price of an empty book.
    #[cold]
    #[inline(never)]
    fn outside(&mut self, price: i32) -> &mut Level {
        if self.far.is_empty() && self.occupied.iter().all(|&bits| bits == 0) {
            self.follow(price);
            let place = self.place(price);
            return &mut self.levels[place];
        }
        self.far.entry(price).or_default()
    }

    /// Moves the window so that `center` is in its middle.
    #[cold]
    #[inline(never)]
    fn follow(&mut self, center: i32) {
        self.reads_outside = 0;
        let mut from = 0;
        while let Some(place) = self.occupied_from(from) {
            let level = std::mem::take(&mut self.levels[place]);
            self.far.insert(self.price(place), level);
            from = place + 1;
        }
        self.occupied.fill(0);
        let half = (self.levels.len() / 2) as i64;
        let last = i64::from(i32::MAX) - self.levels.len() as i64;
        let base = (i64::from(center) - half).clamp(i64::from(i32::MIN), last);
        self.base = base as i32;
        let above = self.far.split_off(&self.base);
        for (price, level) in above {
            let place = self.place(price);
            if place < self.levels.len() {
                self.levels[place] = level;
                self.occupied[place / WORD] |= 1 << (place % WORD);
            } else {
                self.far.insert(price, level);
            }
        }
    }
}

impl Levels for Ladder {
    #[inline]
    fn at(&mut self, price: i32) -> &mut Level {
        let place = self.place(price);
        if place < self.levels.len() {
            return &mut self.levels[place];
        }
        self.outside(price)
    }

    #[inline]
    fn quantity(&self, price: i32) -> u64 {
        match self.levels.get(self.place(price)) {
            Some(level) => level.quantity,
            None => self.far.get(&price).map_or(0, |level| level.quantity),
        }
    }

    #[inline]
    fn touch(&mut self, price: i32) -> u64 {
        if let Some(level) = self.levels.get(self.place(price)) {
            return level.quantity;
        }
        self.reads_outside += 1;
        if self.reads_outside > self.levels.len() / READS_PER_LEVEL {
            self.follow(price);
        }
        self.quantity(price)
    }

    #[inline]
    fn occupy(&mut self, price: i32) {
        let place = self.place(price);
        if let Some(word) = self.occupied.get_mut(place / WORD) {
            *word |= 1 << (place % WORD);
        }
    }

    #[inline]
    fn vacate(&mut self, price: i32) {
        let place = self.place(price);
        match self.occupied.get_mut(place / WORD) {
            Some(word) => *word &= !(1 << (place % WORD)),
            None => {
                self.far.remove(&price);
            }
        }
    }

    #[inline]
    fn below(&self, price: i32) -> Option<i32> {
        let inside = price >= self.base;
        if inside && i64::from(price) <= self.end() {
            if let Some(place) = self.occupied_below(self.place(price)) {
                return Some(self.price(place));
            }
        } else if inside {
            let end = self.end() as i32;
            if let Some((&above, _)) = self.far.range(end..price).next_back() {
                return Some(above);
            }
            if let Some(place) = self.occupied_below(self.levels.len()) {
                return Some(self.price(place));
            }
        }
        let limit = price.min(self.base);
        self.far.range(..limit).next_back().map(|(&below, _)| below)
    }

    #[inline]
    fn above(&self, price: i32) -> Option<i32> {
        if price < self.base {
            let lower = (Excluded(price), Excluded(self.base));
            // The two bounds may be neighbors, which is an empty range.
            if let Some((&below, _)) = self.far.range(lower).next() {
                return Some(below);
            }
        }
        if i64::from(price) < self.end() {
            let from = if price < self.base { 0 } else { self.place(price) + 1 };
            if let Some(place) = self.occupied_from(from) {
                return Some(self.price(place));
            }
        }
        let last = (self.end() - 1) as i32;
        self.far.range((Excluded(price.max(last)), Unbounded)).next().map(|(&above, _)| above)
    }

    fn clear(&mut self) {
        let mut from = 0;
        while let Some(place) = self.occupied_from(from) {
            self.levels[place] = Level::EMPTY;
            from = place + 1;
        }
        self.occupied.fill(0);
        self.far.clear();
        self.reads_outside = 0;
    }
}
