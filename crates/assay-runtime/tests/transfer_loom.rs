//! Loom models of threads that share one transfer engine, over every interleaving with a bounded
//! number of preemptions.
//!
//! Run with: RUSTFLAGS="--cfg loom" cargo test -p assay-runtime --test transfer_loom
#![cfg(loom)]

use assay_runtime::backend::{Backend, DevicePointer};
use assay_runtime::dispatch::Recorder;
use assay_runtime::sim::{SimBackend, SimOptions};
use assay_runtime::transfer::*;
use loom::thread;
use std::sync::Arc;

fn engine() -> (Arc<SimBackend>, TransferEngine) {
    let device = Arc::new(SimBackend::new(SimOptions::default()).expect("valid"));
    let options =
        TransferOptions { slot_bytes: 2, slots: 1, timing: false, ..TransferOptions::default() };
    let engine = TransferEngine::new(device.clone(), options, Arc::new(Recorder::new(4)));
    (device, engine.expect("valid"))
}

fn upload(engine: &TransferEngine, bytes: &[u8], memory: DevicePointer) -> Transfer {
    let source: HostSource = Arc::new(bytes.to_vec());
    let attributes = TransferAttributes::default();
    engine.upload("upload", source, memory, attributes).expect("room")
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

#[test]
fn threads_sharing_one_slot_both_finish_with_their_own_bytes() {
    // Two chunks each, so that the slot changes hands in the middle of a transfer.
    model(3, || {
        let (device, engine) = engine();
        let memory = [0, 1].map(|_| device.allocate_device(3).expect("room"));
        let elsewhere = engine.clone();
        let other = thread::spawn(move || upload(&elsewhere, &[4, 5, 6], memory[1]).wait());
        assert_eq!(upload(&engine, &[1, 2, 3], memory[0]).wait(), Ok(()));
        assert_eq!(other.join().expect("no panic"), Ok(()));
        for (memory, expected) in memory.into_iter().zip([[1, 2, 3], [4, 5, 6]]) {
            let mut bytes = [0; 3];
            device.peek(memory.into(), &mut bytes).expect("allocated");
            assert_eq!(bytes, expected);
        }
        let usage = engine.usage().expect("sound");
        assert_eq!((usage.transfers, usage.slots_used), (0, 0));
    });
}

#[test]
fn cancel_racing_with_a_waiting_thread_ends_the_wait_and_frees_the_slot() {
    model(3, || {
        let (device, engine) = engine();
        let memory = device.allocate_device(4).expect("room");
        let transfer = Arc::new(upload(&engine, &[1, 2, 3, 4], memory));
        let waiting = Arc::clone(&transfer);
        let waiter = thread::spawn(move || waiting.wait());
        transfer.cancel().expect("sound");
        let outcome = waiter.join().expect("no panic");
        assert!(outcome.is_ok() || outcome.map_err(|error| error.code()) == Err("cancelled"));
        let usage = engine.usage().expect("sound");
        assert_eq!((usage.transfers, usage.slots_used), (0, 0));
    });
}
