//! The offset between the GPU's global timer and the host's clock.

use super::super::cuda_device::CudaDevice;
use super::super::kernel::{Function, LaunchConfig};
use assay_runtime::backend::{Backend, BackendError, KernelArgument, Operation, Result};
use assay_runtime::clock::Clock;
use assay_runtime::trace::LaunchSpan;
use std::time::{Duration, Instant};

/// Readings of both clocks; the tightest bounds of all count.
const ROUNDS: usize = 24;
const WORDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(2);

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

impl Calibration {
    /// Reads both clocks a few times. A reading of the GPU lies between the launch of the kernel
    /// that makes it and its arrival in host memory.
    pub fn new(device: &CudaDevice, clock_kernel: &Function) -> Result<Self> {
        let stream = &device.default_stream;
        let operation = Operation::SynchronizeStream;
        stream.synchronize(operation, &device.watchdog)?;
        let out = device.allocate_host((WORDS * 8) as u64)?;
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        let mut found = Calibration::default();
        let mut read = || -> Result<()> {
            device.write_host(out, &[0; WORDS * 8])?;
            let before = device.clock.now_ns();
            let config = LaunchConfig {
                grid: [1; 3],
                block: [1; 3],
                shared_bytes: 0,
                cluster: 1,
            };
            // The device addresses pinned memory as the host does.
            let address = KernelArgument::U64(out.0);
            clock_kernel.launch(stream, config, &[address])?;
            let [first, step, last] = wait_for_words(device, out)?;
            let after = device.clock.now_ns();
            low = low.max(before as i64 - first as i64);
            high = high.min(after as i64 - last as i64);
            found.device_ns = last;
            found.resolution_ns = match found.resolution_ns {
                0 => step,
                known => known.min(step),
            };
            stream.synchronize(operation, &device.watchdog)
        };
        let outcome = (0..ROUNDS).try_for_each(|_| read());
        device.free_host(out)?;
        outcome?;
        found.offset_ns = low.midpoint(high);
        found.error_ns = high.saturating_sub(low).unsigned_abs().div_ceil(2);
        Ok(found)
    }
}

fn wait_for_words(
    device: &CudaDevice,
    out: assay_runtime::backend::HostPointer,
) -> Result<[u64; WORDS]> {
    let begun = Instant::now();
    let mut bytes = [0; WORDS * 8];
    loop {
        device.read_host(out, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        let mut values = [0; WORDS];
        for (value, word) in values.iter_mut().zip(words) {
            *value = u64::from_ne_bytes(*word);
        }
        // The last word is stored last.
        if values[WORDS - 1] != 0 {
            return Ok(values);
        }
        if begun.elapsed() > LIMIT {
            return Err(BackendError::Driver {
                operation: Operation::SynchronizeStream,
                message: "the GPU's clock could not be read within 2 seconds".to_owned(),
            });
        }
        std::hint::spin_loop();
    }
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
        ClockMap {
            start,
            drift: if elapsed == 0 {
                0.0
            } else {
                moved as f64 / elapsed as f64
            },
        }
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
