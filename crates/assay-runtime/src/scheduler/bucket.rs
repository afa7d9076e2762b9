//! Rates kept exactly: a ceiling that paces, and a floor that promises.
//!
//! Both keep one number, the moment up to which the rate is used up. It is stored multiplied by
//! the rate, so that a cost of n units moves it by exactly n * 10^9 and nothing is ever rounded:
//! pacing a million turns drifts by nothing.

const NANOSECONDS: u128 = 1_000_000_000;

/// So many units a second on average, and so many at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The average.
    pub units_per_second: u64,
    /// How much may go at once after a rest.
    pub burst_units: u64,
}

impl Rate {
    /// This average, with bursts of ten milliseconds' worth.
    pub const fn per_second(units_per_second: u64) -> Self {
        Rate {
            units_per_second,
            burst_units: units_per_second / 100,
        }
    }

    fn scaled(self, instant_ns: u64) -> u128 {
        u128::from(instant_ns) * u128::from(self.units_per_second)
    }

    /// The first whole nanosecond at or after a scaled moment.
    fn instant_ns(self, scaled: u128) -> u64 {
        let instant = scaled.div_ceil(u128::from(self.units_per_second.max(1)));
        u64::try_from(instant).unwrap_or(u64::MAX)
    }
}

fn scaled_units(units: u64) -> u128 {
    u128::from(units) * NANOSECONDS
}

/// A token bucket: over any t seconds lets through at most burst + rate * t, plus at most one turn
/// that is itself larger than the burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    rate: Rate,
    used_up_to: u128,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        TokenBucket {
            rate,
            used_up_to: 0,
        }
    }

    /// When this many units may go; a moment already past means now.
    ///
    /// More units than the burst go when the bucket is full, and leave it in debt.
    pub fn ready_ns(&self, units: u64) -> u64 {
        let missing = scaled_units(self.rate.burst_units.saturating_sub(units));
        self.rate
            .instant_ns(self.used_up_to.saturating_sub(missing))
    }

    /// Takes the units out.
    pub fn charge(&mut self, now_ns: u64, units: u64) {
        self.used_up_to = self.used_up_to.max(self.rate.scaled(now_ns)) + scaled_units(units);
    }

    /// Corrects an earlier charge by what the turn was found to cost.
    pub fn correct(&mut self, charged: u64, measured: u64) {
        self.used_up_to =
            (self.used_up_to + scaled_units(measured)).saturating_sub(scaled_units(charged));
    }
}

/// A reserved rate: says when the next turn is due, however late the earlier ones came.
///
/// A task with turns waiting loses nothing of its reservation to delays. One that asks only after
/// the last turn ended may be late by up to the burst without loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReservedRate {
    rate: Rate,
    served_up_to: u128,
}

impl ReservedRate {
    pub fn new(rate: Rate) -> Self {
        ReservedRate {
            rate,
            served_up_to: 0,
        }
    }

    fn start(&self, asked_ns: u64) -> u128 {
        self.served_up_to.max(
            self.rate
                .scaled(asked_ns)
                .saturating_sub(scaled_units(self.rate.burst_units)),
        )
    }

    /// From when on a turn asked for at `asked_ns` belongs to the reservation.
    pub fn due_ns(&self, asked_ns: u64) -> u64 {
        self.rate.instant_ns(self.start(asked_ns))
    }

    /// By when that turn should be over to keep the reserved rate.
    pub fn deadline_ns(&self, asked_ns: u64, units: u64) -> u64 {
        self.rate
            .instant_ns(self.start(asked_ns) + scaled_units(units))
    }

    /// Counts a turn as served under the reservation.
    pub fn charge(&mut self, asked_ns: u64, units: u64) {
        self.served_up_to = self.start(asked_ns) + scaled_units(units);
    }

    /// Corrects an earlier charge by what the turn was found to cost.
    pub fn correct(&mut self, charged: u64, measured: u64) {
        self.served_up_to =
            (self.served_up_to + scaled_units(measured)).saturating_sub(scaled_units(charged));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        units_per_second: 3,
        burst_units: 10,
    };

    #[test]
    fn a_bucket_lets_the_burst_through_and_then_keeps_the_rate() {
        let mut bucket = TokenBucket::new(RATE);
        assert_eq!(bucket.ready_ns(10), 0);
        bucket.charge(0, 10);
        assert_eq!(bucket.ready_ns(1), 333_333_334);
        let mut now = 0;
        for _ in 0..3_000 {
            now = bucket.ready_ns(1).max(now);
            bucket.charge(now, 1);
        }
        assert_eq!(now, 1_000_000_000_000, "3000 units at 3 a second, no drift");
    }

    #[test]
    fn more_than_the_burst_goes_from_a_full_bucket_and_is_paid_back() {
        let mut bucket = TokenBucket::new(RATE);
        assert_eq!(bucket.ready_ns(30), 0);
        bucket.charge(0, 30);
        assert_eq!(bucket.ready_ns(1), 7_000_000_000, "20 of debt and 1 more");
        bucket.correct(30, 3);
        assert_eq!(bucket.ready_ns(1), 0, "it cost 3 after all");
    }

    #[test]
    fn a_rest_saves_up_no_more_than_the_burst() {
        let mut bucket = TokenBucket::new(RATE);
        bucket.charge(1_000_000_000_000, 10);
        assert_eq!(bucket.ready_ns(1), 1_000_333_333_334);
    }

    #[test]
    fn a_waiting_turn_loses_nothing_and_a_late_one_loses_what_exceeds_the_burst() {
        let mut reserved = ReservedRate::new(Rate {
            units_per_second: 10,
            burst_units: 5,
        });
        let second = 1_000_000_000;
        // Asked for at once, served late: due moments stay a second apart all the same.
        for turn in 0..100 {
            assert_eq!(reserved.due_ns(0), turn * second);
            assert_eq!(reserved.deadline_ns(0, 10), (turn + 1) * second);
            reserved.charge(0, 10);
        }
        // Asked for 0.4 s late, within the burst of 0.5 s; then 10 s late.
        assert_eq!(reserved.due_ns(100 * second + 400_000_000), 100 * second);
        assert_eq!(reserved.due_ns(110 * second), 109 * second + 500_000_000);
    }
}
