//! The delay kernel: lets its stream wait for as long as a slot in memory says.

use super::cpu_device::CpuDevice;
use super::kernel::{CpuKernel, KernelCall};
use assay_runtime::backend::{
    BackendError, DELAY_SLOT_BYTES, KernelArgument, KernelId, Operation, Result,
};
use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// What the end of a wait spins for: a sleeping thread is woken some 50 us late.
const SPIN: Duration = Duration::from_micros(100);

impl CpuDevice {
    /// Registers the delay kernel, whose argument is the address of a slot.
    pub fn register_delay(&self) -> KernelId {
        self.register_kernel(CpuKernel {
            name: "delay".to_owned(),
            parameters: 1,
            check: Some(Box::new(|call| slot(call).map(|_| ()))),
            body: Box::new(|call| {
                let slot = slot(call)?;
                // SAFETY: the slot is two words of a live allocation, aligned as checked. The host
                // writes them between replays only.
                unsafe {
                    let spent = wait(Duration::from_nanos(slot.read_volatile()));
                    let spent_ns = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
                    let total = slot.add(1).read_volatile().saturating_add(spent_ns);
                    slot.add(1).write_volatile(total);
                }
                Ok(())
            }),
        })
    }
}

fn slot(call: &KernelCall<'_>) -> Result<*mut u64> {
    let [KernelArgument::Pointer(slot)] = call.arguments() else {
        return Err(BackendError::Driver {
            operation: Operation::Launch,
            message: "delay: expected the address of a slot".to_owned(),
        });
    };
    let words = call.pointer(*slot, DELAY_SLOT_BYTES)?.cast::<u64>();
    match words.is_aligned() {
        true => Ok(words),
        false => Err(BackendError::Driver {
            operation: Operation::Launch,
            message: format!("delay: expected a slot of aligned words, got {words:p}"),
        }),
    }
}

/// Sleeps, so that other threads have the core, and spins for the last part.
fn wait(requested: Duration) -> Duration {
    let begin = Instant::now();
    if requested.is_zero() {
        return requested;
    }
    if let Some(asleep) = requested.checked_sub(SPIN) {
        thread::sleep(asleep);
    }
    loop {
        let spent = begin.elapsed();
        if spent >= requested {
            return spent;
        }
        spin_loop();
    }
}
