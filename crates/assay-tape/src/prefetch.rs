//! Fetches the inputs of the next chunk while the present one is computed.
//!
//! A chunk touches every varying input at a new address, too briefly for the processor to
//! notice a pattern; with hundreds of inputs most of the time would go into waiting for memory.

/// Floats per cache line.
const LINE: usize = 8;

/// A walk over the lines of a chunk, column by column.
pub(super) struct Prefetch {
    columns: Vec<*const f64>,
    column: usize,
    line: usize,
    lines_per_column: usize,
    /// Index of the chunk's first number in each column.
    start: usize,
    /// Lines to fetch at a time.
    pace: usize,
}

impl Prefetch {
    /// Fetches from these columns, once it is told what.
    pub(super) fn new(columns: Vec<*const f64>) -> Prefetch {
        Prefetch {
            columns,
            column: 0,
            line: 0,
            lines_per_column: 0,
            start: 0,
            pace: 0,
        }
    }

    /// Begins a walk over `lanes` numbers from `start` on of each column, in `calls` calls.
    pub(super) fn begin(&mut self, start: usize, lanes: usize, calls: usize) {
        self.column = 0;
        self.line = 0;
        self.lines_per_column = lanes.div_ceil(LINE);
        self.start = start;
        self.pace = (self.columns.len() * self.lines_per_column).div_ceil(calls.max(1));
    }

    /// Asks for the next lines.
    #[inline]
    pub(super) fn advance(&mut self) {
        for _ in 0..self.pace {
            if self.line >= self.lines_per_column {
                self.line = 0;
                self.column += 1;
            }
            let Some(column) = self.columns.get(self.column) else {
                return;
            };
            fetch(column.wrapping_add(self.start + self.line * LINE));
            self.line += 1;
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch(address: *const f64) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a hint, which may name any address and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch(_address: *const f64) {}
