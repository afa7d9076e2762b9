//! Exact rates: a token bucket that limits, and a reserved rate that guarantees.
//!
//! Both keep one number, the time up to which the rate is used up (as in the generic cell rate
//! algorithm). It is stored multiplied by the rate, so that a cost of n units moves it by exactly
//! n * 10^9 and nothing is rounded: pacing a million grants does not drift.

const NANOSECONDS: u128 = 1_000_000_000;

/// An average rate and a burst size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The average rate.
    pub units_per_second: u64,
    /// The most units at once after an idle period.
    pub burst_units: u64,
}

impl Rate {
    /// This average rate, with bursts of ten milliseconds' worth.
    pub const fn per_second(units_per_second: u64) -> Self {
        Rate { units_per_second, burst_units: units_per_second / 100 }
    }

    fn scaled(self, instant_ns: u64) -> u128 {
        u128::from(instant_ns) * u128::from(self.units_per_second)
    }

    /// The first whole nanosecond at or after a scaled time.
    fn instant_ns(self, scaled: u128) -> u64 {
        let instant = scaled.div_ceil(u128::from(self.units_per_second.max(1)));
        u64::try_from(instant).unwrap_or(u64::MAX)
    }
}

fn scaled_units(units: u64) -> u128 {
    u128::from(units) * NANOSECONDS
}

/// A token bucket: over any t seconds admits at most burst + rate * t, plus at most one grant that
/// is itself larger than the burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    rate: Rate,
    used_up_to: u128,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        TokenBucket { rate, used_up_to: 0 }
    }

    /// When this many units are admitted; a time in the past means now.
    ///
    /// A cost above the burst is admitted when the bucket is full, and leaves it in debt.
    pub fn ready_ns(&self, units: u64) -> u64 {
        let missing = scaled_units(self.rate.burst_units.saturating_sub(units));
        self.rate.instant_ns(self.used_up_to.saturating_sub(missing))
    }

    /// Consumes the units.
    pub fn charge(&mut self, now_ns: u64, units: u64) {
        self.used_up_to = self.used_up_to.max(self.rate.scaled(now_ns)) + scaled_units(units);
    }

    /// Replaces an earlier charge by the measured cost.
    pub fn correct(&mut self, charged: u64, measured: u64) {
        self.used_up_to =
            (self.used_up_to + scaled_units(measured)).saturating_sub(scaled_units(charged));
    }
}

/// A reserved rate: tells when the next request is due, however late the earlier ones were served.
///
/// A backlogged task loses nothing of its reservation to delays. One that requests only after the
/// last grant ended may be late by up to the burst without loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReservedRate {
    rate: Rate,
    served_up_to: u128,
}

impl ReservedRate {
    pub fn new(rate: Rate) -> Self {
        ReservedRate { rate, served_up_to: 0 }
    }

    fn start(&self, requested_ns: u64) -> u128 {
        self.served_up_to
            .max(self.rate.scaled(requested_ns).saturating_sub(scaled_units(self.rate.burst_units)))
    }

    /// From when on a request made at `requested_ns` is covered by the reservation.
    pub fn due_ns(&self, requested_ns: u64) -> u64 {
        self.rate.instant_ns(self.start(requested_ns))
    }

    /// By when its grant should end to keep the reserved rate.
    pub fn deadline_ns(&self, requested_ns: u64, units: u64) -> u64 {
        self.rate.instant_ns(self.start(requested_ns) + scaled_units(units))
    }

    /// Charges a grant to the reservation.
    pub fn charge(&mut self, requested_ns: u64, units: u64) {
        self.served_up_to = self.start(requested_ns) + scaled_units(units);
    }

    /// Replaces an earlier charge by the measured cost.
    pub fn correct(&mut self, charged: u64, measured: u64) {
        self.served_up_to =
            (self.served_up_to + scaled_units(measured)).saturating_sub(scaled_units(charged));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { units_per_second: 3, burst_units: 10 };

    #[test]
    fn bucket_admits_the_burst_then_keeps_the_rate_without_drift() {
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
    fn cost_above_the_burst_leaves_a_full_bucket_in_debt() {
        let mut bucket = TokenBucket::new(RATE);
        assert_eq!(bucket.ready_ns(30), 0);
        bucket.charge(0, 30);
        assert_eq!(bucket.ready_ns(1), 7_000_000_000, "20 of debt and 1 more");
        bucket.correct(30, 3);
        assert_eq!(bucket.ready_ns(1), 0, "it cost 3 after all");
    }

    #[test]
    fn idle_time_accumulates_at_most_the_burst() {
        let mut bucket = TokenBucket::new(RATE);
        bucket.charge(1_000_000_000_000, 10);
        assert_eq!(bucket.ready_ns(1), 1_000_333_333_334);
    }

    #[test]
    fn reserved_rate_is_kept_while_backlogged_and_lost_beyond_the_burst_when_late() {
        let mut reserved = ReservedRate::new(Rate { units_per_second: 10, burst_units: 5 });
        let second = 1_000_000_000;
        // Requested at once, served late: due times stay a second apart.
        for grant in 0..100 {
            assert_eq!(reserved.due_ns(0), grant * second);
            assert_eq!(reserved.deadline_ns(0, 10), (grant + 1) * second);
            reserved.charge(0, 10);
        }
        // Requested 0.4 s late, within the burst of 0.5 s; then 10 s late.
        assert_eq!(reserved.due_ns(100 * second + 400_000_000), 100 * second);
        assert_eq!(reserved.due_ns(110 * second), 109 * second + 500_000_000);
    }
}
