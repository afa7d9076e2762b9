//! Interned elementwise expressions: a call carries an id, a kernel's source the text.
//!
//! An expression calls functions of `kernels/expressions.cuh` on `a0`, `a1` and `a2`, such as
//! `multiply(add(a0,a1),a2)`. Each text has one id per process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The interned texts in the order of their ids, and the ids by text.
static INTERNER: Mutex<Option<Interner>> = Mutex::new(None);

#[derive(Default)]
struct Interner {
    texts: Vec<&'static str>,
    ids: HashMap<&'static str, u32>,
}

fn with<T>(work: impl FnOnce(&mut Interner) -> T) -> T {
    // No code under this lock panics halfway through a change.
    let mut interner = INTERNER.lock().unwrap_or_else(PoisonError::into_inner);
    work(interner.get_or_insert_default())
}

/// The id of an expression. Texts are never freed, since kernels refer to them.
pub fn number(text: &str) -> u32 {
    with(|interner| match interner.ids.get(text) {
        Some(id) => *id,
        None => {
            let text: &'static str = Box::leak(text.into());
            let id = interner.texts.len() as u32;
            interner.texts.push(text);
            interner.ids.insert(text, id);
            id
        }
    })
}

/// The expression of this id.
pub fn text(id: u32) -> Option<&'static str> {
    with(|interner| interner.texts.get(id as usize).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_the_same_id() {
        let sum = number("add(a0,a1)");
        let other = number("subtract(a0,a1)");
        assert_ne!(sum, other);
        assert_eq!(number("add(a0,a1)"), sum);
        assert_eq!(text(other), Some("subtract(a0,a1)"));
        assert_eq!(text(u32::MAX), None);
    }
}
