//! The clock of all records: CLOCK_REALTIME, which every process of a machine shares.

use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the clock in the header of a trace.
pub const CLOCK: &str = "realtime";

/// A difference of the clocks that no reader would notice.
const NEGLIGIBLE_NS: u64 = 1_000_000;

/// Nanoseconds since 1970.
pub(super) extern "C" fn realtime() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// A sentence where CUPTI's own clock is another one.
pub(super) fn difference_note(cupti_now: u64) -> Option<String> {
    let difference = cupti_now.abs_diff(realtime());
    (difference > NEGLIGIBLE_NS)
        .then(|| format!("times are on CUPTI's own clock, {difference} ns from CLOCK_REALTIME"))
}
