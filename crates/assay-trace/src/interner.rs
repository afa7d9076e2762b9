//! Texts of few distinct values, each stored once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Gives each distinct text a number, in the order of its first use.
#[derive(Default)]
pub struct Interner {
    numbers: HashMap<Box<str>, u32, TextHash>,
    bytes: usize,
}

impl Interner {
    /// The number of a text.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        // A table has at most BATCH_ROWS rows, so numbers never reach the limit of u32.
        let number = self.numbers.len() as u32;
        self.bytes += text.len();
        self.numbers.insert(text.into(), number);
        number
    }

    /// The bytes of all distinct texts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The texts by number.
    pub fn texts(&self) -> Vec<&str> {
        let mut texts = vec![""; self.numbers.len()];
        for (text, &number) in &self.numbers {
            texts[number as usize] = text;
        }
        texts
    }

    /// Forgets every text.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.bytes = 0;
    }
}

/// Hashes by folded multiplication, eight bytes a step: kernel names have hundreds of bytes, and
/// SipHash would be a third of the time of an import. The seed is random, as names are hostile data.
#[derive(Clone)]
pub(crate) struct TextHash {
    seed: u64,
}

impl Default for TextHash {
    fn default() -> Self {
        TextHash { seed: RandomState::new().hash_one(0_u8) }
    }
}

impl BuildHasher for TextHash {
    type Hasher = TextHasher;

    fn build_hasher(&self) -> TextHasher {
        TextHasher { state: self.seed }
    }
}

/// The state of [`TextHash`].
pub(crate) struct TextHasher {
    state: u64,
}

fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64) ^ ((product >> 64) as u64)
}

impl TextHasher {
    fn mix(&mut self, word: u64) {
        self.state = fold(self.state ^ word, 0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }
}

impl Hasher for TextHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ ((rest.len() as u64) << 56));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_i64(&mut self, word: i64) {
        self.mix(word.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        fold(self.state, 0xd6e8_feb8_6659_fd93)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_first_use() {
        let mut interner = Interner::default();
        let numbers: Vec<u32> = ["b", "a", "b", "", "a"].map(|text| interner.number(text)).into();
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        assert_eq!(interner.texts(), ["b", "a", ""]);
        interner.clear();
        assert_eq!((interner.number("a"), interner.bytes()), (0, 1));
    }

    #[test]
    fn hash_tells_lengths_apart() {
        let hash = TextHash::default();
        let of = |text: &str| hash.hash_one(text);
        assert_ne!(of("a"), of("a\0"));
        assert_ne!(of("12345678"), of("12345678\0"));
    }
}
