//! The part of a thread's active capture that allocations read.
//!
//! `capture` updates this; it is a separate module because captures hold allocations.

use std::cell::RefCell;
use std::collections::HashSet;

use pyo3::prelude::*;

use super::errors;

thread_local! {
    /// Addresses of the allocation records that captured work writes; None without a capture.
    static WRITTEN: RefCell<Option<HashSet<usize>>> = const { RefCell::new(None) };
}

pub(super) fn begin() {
    WRITTEN.set(Some(HashSet::new()));
}

pub(super) fn end() {
    WRITTEN.set(None);
}

/// Whether this thread is capturing.
pub(super) fn is_capturing() -> bool {
    WRITTEN.with_borrow(Option::is_some)
}

/// Records that captured work writes an allocation.
pub(super) fn add_written(allocation: usize) {
    WRITTEN.with_borrow_mut(|written| {
        if let Some(written) = written {
            written.insert(allocation);
        }
    });
}

/// Rejects a wait for memory that captured work writes, since that work has not run.
pub(super) fn refuse_wait(allocation: usize) -> PyResult<()> {
    let written = |written: &Option<HashSet<usize>>| {
        written.as_ref().is_some_and(|one| one.contains(&allocation))
    };
    match WRITTEN.with_borrow(written) {
        true => Err(errors::invalid(
            "read: expected memory that holds its values, got memory that captured work will \
             write\nhint: read it after graph.replay()",
        )),
        false => Ok(()),
    }
}
