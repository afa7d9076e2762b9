//! Expressions of elements, by number: a call carries numbers, a kernel's source the text.
//!
//! The names in an expression are those of the kernels' own table, over `a0`, `a1` and `a2`, such
//! as `multiply(add(a0,a1),a2)`. Every text has one number in a process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The texts in the order of their numbers, and the numbers by text.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

#[derive(Default)]
struct Known {
    texts: Vec<&'static str>,
    numbers: HashMap<&'static str, u32>,
}

fn with<T>(act: impl FnOnce(&mut Known) -> T) -> T {
    // Nothing under this lock can panic half way.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    act(known.get_or_insert_default())
}

/// The number of an expression. Texts stay to the end of the process, since kernels name them.
pub fn number(text: &str) -> u32 {
    with(|known| match known.numbers.get(text) {
        Some(number) => *number,
        None => {
            let kept: &'static str = Box::leak(text.into());
            let number = known.texts.len() as u32;
            known.texts.push(kept);
            known.numbers.insert(kept, number);
            number
        }
    })
}

/// The expression of this number.
pub fn text(number: u32) -> Option<&'static str> {
    with(|known| known.texts.get(number as usize).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_number() {
        let sum = number("add(a0,a1)");
        let other = number("subtract(a0,a1)");
        assert_ne!(sum, other);
        assert_eq!(number("add(a0,a1)"), sum);
        assert_eq!(text(other), Some("subtract(a0,a1)"));
        assert_eq!(text(u32::MAX), None);
    }
}
