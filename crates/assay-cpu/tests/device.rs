//! The CPU device: the backend contract, and what it adds to it.

use assay_cpu::device::{CpuDevice, CpuKernel, CpuOptions};
use assay_runtime::backend::contract::check;
use assay_runtime::backend::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn device() -> CpuDevice {
    CpuDevice::new(CpuOptions { memory_bytes: Some(1 << 30), workers: 2 }).expect("valid options")
}

fn increment(device: &CpuDevice) -> KernelId {
    device.register_kernel(CpuKernel {
        name: "increment".to_owned(),
        parameters: 2,
        check: None,
        body: Box::new(|call| {
            let [KernelArgument::Pointer(pointer), KernelArgument::U64(length)] = call.arguments()
            else {
                panic!("increment takes a pointer and a length");
            };
            let first = call.pointer(*pointer, *length)?;
            // SAFETY: the range was checked, and the test orders its work by streams.
            let bytes = unsafe { std::slice::from_raw_parts_mut(first, *length as usize) };
            for byte in bytes {
                *byte = byte.wrapping_add(1);
            }
            Ok(())
        }),
    })
}

fn launch(kernel: KernelId, arguments: Vec<KernelArgument>) -> Launch {
    Launch { kernel, grid: [1; 3], block: [1; 3], shared_bytes: 0, arguments }
}

#[test]
fn cpu_device_satisfies_the_backend_contract() {
    for _ in 0..20 {
        let device = device();
        let kernel = increment(&device);
        check(&device, kernel).expect("contract");
        assert_eq!(device.memory().used_bytes(), 0, "left in memory");
    }
}

#[test]
fn default_stream_is_synchronous() {
    let device = device();
    let pointer = device.allocate_device(1 << 20).unwrap();
    device.fill(StreamId(0), pointer.into(), 41, 1 << 20).unwrap();
    let kernel = increment(&device);
    let arguments = vec![KernelArgument::Pointer(pointer), KernelArgument::U64(1 << 20)];
    device.launch(StreamId(0), &launch(kernel, arguments)).unwrap();
    let bytes = device.memory().snapshot(pointer.into(), 1 << 20).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 42));
}

#[test]
fn default_stream_waits_for_events_of_other_streams() {
    let device = device();
    let pointer = device.allocate_device(64).unwrap();
    let slow = device.register_kernel(CpuKernel {
        name: "slow".to_owned(),
        parameters: 0,
        check: None,
        body: Box::new(|_| {
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        }),
    });
    let side = device.create_stream(StreamPriority::Normal).unwrap();
    let event = device.create_event().unwrap();
    device.launch(side, &launch(slow, vec![])).unwrap();
    device.fill(side, pointer.into(), 5, 64).unwrap();
    device.record_event(event, side).unwrap();
    device.wait_event(StreamId(0), event).unwrap();
    let kernel = increment(&device);
    let arguments = vec![KernelArgument::Pointer(pointer), KernelArgument::U64(64)];
    device.launch(StreamId(0), &launch(kernel, arguments)).unwrap();
    assert_eq!(device.memory().snapshot(pointer.into(), 64).unwrap(), [6; 64]);
}

#[test]
fn kernel_panic_fails_only_its_stream() {
    let device = device();
    let pointer = device.allocate_device(64).unwrap();
    let bad = device.register_kernel(CpuKernel {
        name: "bad".to_owned(),
        parameters: 0,
        check: None,
        body: Box::new(|_| panic!("planned")),
    });
    let (broken, waiting, whole) = (
        device.create_stream(StreamPriority::Normal).unwrap(),
        device.create_stream(StreamPriority::Normal).unwrap(),
        device.create_stream(StreamPriority::Normal).unwrap(),
    );
    let event = device.create_event().unwrap();
    device.launch(broken, &launch(bad, vec![])).unwrap();
    device.fill(broken, pointer.into(), 1, 64).unwrap();
    device.record_event(event, broken).unwrap();
    // Either the wait is queued and fails its stream, or it is refused at once.
    let refused = device.wait_event(waiting, event).err();
    device.fill(whole, pointer.into(), 2, 64).unwrap();
    let failed = BackendError::Asynchronous {
        operation: Operation::Launch,
        stream: broken,
        node: None,
        message: "bad panicked: planned".into(),
    };
    assert_eq!(device.synchronize_stream(broken), Err(failed.clone()));
    assert_eq!(device.synchronize_event(event), Err(failed.clone()));
    let spread = refused.or(device.synchronize_stream(waiting).err());
    assert_eq!(spread, Some(failed));
    device.synchronize_stream(whole).unwrap();
    assert_eq!(device.memory().snapshot(pointer.into(), 64).unwrap(), [2; 64]);
    // Recovered, the stream runs what is queued from then on.
    device.recover_stream(broken).unwrap();
    device.fill(broken, pointer.into(), 3, 64).unwrap();
    device.synchronize_stream(broken).unwrap();
    assert_eq!(device.memory().snapshot(pointer.into(), 64).unwrap(), [3; 64]);
}

#[test]
fn default_stream_failure_is_returned_by_its_own_call() {
    let device = device();
    let stream = device.default_stream();
    let pointer = device.allocate_device(64).unwrap();
    let bad = device.register_kernel(CpuKernel {
        name: "bad".to_owned(),
        parameters: 0,
        check: None,
        body: Box::new(|_| {
            Err(BackendError::Driver {
                operation: Operation::Launch,
                message: "bad: expected rain, got sun".to_owned(),
            })
        }),
    });
    let failure = |node| BackendError::Asynchronous {
        operation: Operation::Launch,
        stream,
        node,
        message: "bad: expected rain, got sun".into(),
    };
    let refused = device.launch(stream, &launch(bad, vec![]));
    assert_eq!(refused, Err(failure(None)));
    device.fill(stream, pointer.into(), 7, 64).unwrap();
    device.synchronize_stream(stream).unwrap();
    // Of a graph the piece that failed is named, and those behind it are not run.
    let side = device.create_stream(StreamPriority::Normal).unwrap();
    device.begin_capture(side).unwrap();
    device.fill(side, pointer.into(), 8, 64).unwrap();
    device.launch(side, &launch(bad, vec![])).unwrap();
    device.fill(side, pointer.into(), 9, 64).unwrap();
    let graph = device.end_capture(side).unwrap();
    assert_eq!(device.launch_graph(graph, stream), Err(failure(Some(1))));
    assert_eq!(device.memory().snapshot(pointer.into(), 64).unwrap(), [8; 64]);
    // The failure of another stream is returned by the first call behind a wait for it.
    let event = device.create_event().unwrap();
    device.launch(side, &launch(bad, vec![])).unwrap();
    device.record_event(event, side).unwrap();
    let failure =
        device.wait_event(stream, event).and_then(|()| device.fill(stream, pointer.into(), 1, 64));
    assert!(failure.is_err());
    device.fill(stream, pointer.into(), 2, 64).unwrap();
}

#[test]
fn freeing_waits_for_queued_work() {
    let device = device();
    let pointer = device.allocate_device(1 << 20).unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let slow = device.register_kernel(CpuKernel {
        name: "slow".to_owned(),
        parameters: 0,
        check: None,
        body: Box::new(move |_| {
            std::thread::sleep(Duration::from_millis(5));
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }),
    });
    let side = device.create_stream(StreamPriority::Normal).unwrap();
    for _ in 0..4 {
        device.launch(side, &launch(slow, vec![])).unwrap();
        device.fill(side, pointer.into(), 1, 1 << 20).unwrap();
    }
    device.destroy_stream(side).unwrap();
    device.free_device(pointer).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 4);
}

#[test]
fn kernel_check_refuses_before_queueing() {
    let device = device();
    let picky = device.register_kernel(CpuKernel {
        name: "picky".to_owned(),
        parameters: 1,
        check: Some(Box::new(|call| match call.arguments()[0] {
            KernelArgument::U32(_) => Ok(()),
            other => Err(BackendError::Driver {
                operation: Operation::Launch,
                message: format!("picky takes a u32, got {other:?}"),
            }),
        })),
        body: Box::new(|_| Ok(())),
    });
    let wrong = launch(picky, vec![KernelArgument::F32(1.0)]);
    let outcome = device.launch(StreamId(0), &wrong).unwrap_err();
    assert_eq!(outcome.to_string(), "driver failed in launch: picky takes a u32, got F32(1.0)");
    device.launch(StreamId(0), &launch(picky, vec![KernelArgument::U32(1)])).unwrap();
}

#[test]
fn invalid_options_are_named() {
    for (options, name) in [
        (CpuOptions { memory_bytes: Some(0), workers: 1 }, "memory_bytes"),
        (CpuOptions { memory_bytes: None, workers: 0 }, "workers"),
    ] {
        let error = CpuDevice::new(options).err().expect("refused");
        assert_eq!(error.code(), "invalid_option");
        assert!(error.to_string().contains(name), "{error}");
    }
}
