//! Where the GPU's clock and the host's meet.

use assay_runtime::trace::LaunchSpan;

/// Where the two clocks meet.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Calibration {
    /// A time of the GPU.
    pub device_ns: u64,
    /// What to add to it to get the host's time.
    pub offset_ns: i64,
    /// How far the offset may be off.
    pub error_ns: u64,
    /// The smallest step of the GPU's clock that was seen.
    pub resolution_ns: u64,
}

/// The map from the GPU's clock to the host's, with the drift between two calibrations.
pub(super) struct ClockMap {
    start: Calibration,
    /// Nanoseconds of the host more than the GPU's, for each of the GPU's.
    drift: f64,
}

impl ClockMap {
    pub fn new(start: Calibration, end: Calibration) -> Self {
        let elapsed = end.device_ns.saturating_sub(start.device_ns);
        let moved = end.offset_ns - start.offset_ns;
        ClockMap { start, drift: if elapsed == 0 { 0.0 } else { moved as f64 / elapsed as f64 } }
    }

    fn host_ns(&self, device_ns: u64) -> u64 {
        let since = device_ns as i64 - self.start.device_ns as i64;
        let moved = (since as f64 * self.drift).round() as i64;
        (device_ns as i64 + self.start.offset_ns + moved).max(0) as u64
    }

    pub fn span(&self, span: LaunchSpan) -> LaunchSpan {
        LaunchSpan {
            start_ns: self.host_ns(span.start_ns),
            end_ns: self.host_ns(span.end_ns),
            ..span
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_mapped_with_offset_and_drift() {
        let at = |device_ns, offset_ns| Calibration {
            device_ns,
            offset_ns,
            error_ns: 1,
            resolution_ns: 32,
        };
        let map = ClockMap::new(at(1_000_000, -900_000), at(2_000_000, -899_900));
        assert_eq!(map.host_ns(1_000_000), 100_000);
        assert_eq!(map.host_ns(2_000_000), 1_100_100);
        assert_eq!(map.host_ns(1_500_000), 600_050);
        let same = ClockMap::new(at(5, 10), at(5, 10));
        assert_eq!(same.host_ns(7), 17);
    }
}
