//! Software prefetch: requests the inputs of the next chunk while the current one is computed.
//!
//! A chunk reads every varying input at a new address, too briefly for the hardware prefetcher to
//! detect a stream; with hundreds of inputs evaluation would be bound by memory latency.

/// Floats per cache line.
const LINE: usize = 8;

/// A walk over the cache lines of a chunk, column by column.
pub(super) struct Prefetch {
    columns: Vec<*const f64>,
    column: usize,
    line: usize,
    lines_per_column: usize,
    /// Index of the chunk's first number in each column.
    start: usize,
    /// Lines to prefetch per call.
    lines_per_call: usize,
}

impl Prefetch {
    /// A prefetcher of these columns; [`Prefetch::begin`] sets the range.
    pub(super) fn new(columns: Vec<*const f64>) -> Prefetch {
        Prefetch { columns, column: 0, line: 0, lines_per_column: 0, start: 0, lines_per_call: 0 }
    }

    /// Begins a walk over `lanes` numbers from `start` on of each column, in `calls` calls.
    pub(super) fn begin(&mut self, start: usize, lanes: usize, calls: usize) {
        self.column = 0;
        self.line = 0;
        self.lines_per_column = lanes.div_ceil(LINE);
        self.start = start;
        self.lines_per_call = (self.columns.len() * self.lines_per_column).div_ceil(calls.max(1));
    }

    /// Prefetches the next lines.
    #[inline]
    pub(super) fn advance(&mut self) {
        for _ in 0..self.lines_per_call {
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
