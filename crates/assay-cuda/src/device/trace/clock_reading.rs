//! Readings of the GPU's global timer beside the host's clock.

use super::super::cuda_device::CudaDevice;
use super::super::kernel::{Function, LaunchConfig};
use super::calibration::Calibration;
use assay_runtime::backend::{
    Backend, BackendError, HostPointer, KernelArgument, Operation, Result,
};
use assay_runtime::clock::Clock;
use std::time::{Duration, Instant};

/// Readings of both clocks; the tightest bounds of all count.
const ROUNDS: usize = 24;
const WORDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(2);

/// Reads both clocks a few times. A reading of the GPU lies between the launch of the kernel
/// that makes it and its arrival in host memory.
pub(super) fn read_clocks(device: &CudaDevice, clock_kernel: &Function) -> Result<Calibration> {
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
            prefers_l1: false,
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

fn wait_for_words(device: &CudaDevice, out: HostPointer) -> Result<[u64; WORDS]> {
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
