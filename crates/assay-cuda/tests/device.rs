//! The GPU held to the contract of backends, and what it adds to it.
//!
//! Skipped, with the reason printed, where there is no GPU, driver or NVRTC.

use assay_cuda::compiler::Source;
use assay_cuda::device::{CudaDevice, CudaOptions, DeviceError, LaunchOptions, LoadError};
use assay_cuda::discovery::{CudaUnavailable, discover};
use assay_runtime::backend::contract::check;
use assay_runtime::backend::*;
use std::time::{Duration, Instant};

const KERNELS: &str = r#"
extern "C" __global__ void increment(unsigned char* bytes, unsigned long long count) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        bytes[i] += 1;
}
// Not extern "C": found by its C++ name.
__global__ void spin(long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - start < nanoseconds);
}
extern "C" __global__ void trap() { asm volatile("trap;"); }
extern "C" __global__ void wide(int* out) {
    extern __shared__ int space[];
    space[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = space[blockDim.x - 1 - threadIdx.x];
}
"#;

/// A device, or `None` with the reason printed.
fn device(options: CudaOptions) -> Option<CudaDevice> {
    match CudaDevice::new(options) {
        Ok(device) => Some(device),
        Err(DeviceError::CudaUnavailable(missing)) => {
            eprintln!("skipped: {missing}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn kernel(device: &CudaDevice, name: &str) -> KernelId {
    let source = Source { name: "kernels.cu", text: KERNELS, headers: &[], options: &[] };
    let module = device.compile(&source).expect("the source compiles");
    let function =
        module.function(name, LaunchOptions::default()).expect("the source has the kernel");
    device.register_function(function)
}

fn launch(kernel: KernelId, arguments: Vec<KernelArgument>) -> Launch {
    Launch { kernel, grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, arguments }
}

#[test]
fn gpu_satisfies_the_backend_contract() {
    for _ in 0..3 {
        let Some(device) = device(CudaOptions::default()) else {
            return;
        };
        let kernel = kernel(&device, "increment");
        check(&device, kernel).expect("contract");
    }
}

#[test]
fn unavailable_cuda_has_the_documented_message() {
    let found = discover();
    let Some(missing) = found.missing(0) else {
        return;
    };
    let refused = CudaDevice::new(CudaOptions::default()).err();
    assert_eq!(refused, Some(DeviceError::CudaUnavailable(missing.clone())));
    let words = [
        "CUDA driver not detected",
        "CUDA driver did not start",
        "NVRTC JIT compiler not available",
        "No GPU devices found (cuDeviceGetCount == 0)",
        "GPU too old",
    ];
    let sentence = missing.message();
    assert!(words.iter().any(|word| sentence.starts_with(word)), "{sentence}");
}

#[test]
fn unknown_ordinal_is_refused() {
    if discover().missing(0).is_some() {
        return;
    }
    let refused = CudaDevice::new(CudaOptions { ordinal: 99, ..CudaOptions::default() });
    let Some(DeviceError::CudaUnavailable(CudaUnavailable::Ordinal { ordinal, .. })) =
        refused.err()
    else {
        panic!("expected a refusal that names the number");
    };
    assert_eq!(ordinal, 99);
}

#[test]
fn synchronizing_one_stream_does_not_wait_for_another() {
    let Some(device) = device(CudaOptions::default()) else {
        return;
    };
    let (slow, fast) = (
        device.create_stream(StreamPriority::Normal).unwrap(),
        device.create_stream(StreamPriority::Normal).unwrap(),
    );
    let spin = kernel(&device, "spin");
    let increment = kernel(&device, "increment");
    let pointer = device.allocate_device(1 << 20).unwrap();
    let half_a_second = vec![KernelArgument::I64(500_000_000)];
    let arguments = vec![KernelArgument::Pointer(pointer), KernelArgument::U64(1 << 20)];
    // Once beforehand: loading code is not what is measured.
    device.launch(fast, &launch(increment, arguments.clone())).unwrap();
    device.launch(slow, &launch(spin, vec![KernelArgument::I64(1)])).unwrap();
    device.synchronize_stream(slow).unwrap();
    let beginning = Instant::now();
    device.launch(slow, &launch(spin, half_a_second)).unwrap();
    device.fill(fast, pointer.into(), 1, 1 << 20).unwrap();
    device.launch(fast, &launch(increment, arguments)).unwrap();
    device.synchronize_stream(fast).unwrap();
    // Allocating and freeing device memory waits for nothing either.
    let other = device.allocate_device(64 << 20).unwrap();
    device.free_device(other).unwrap();
    let waited = beginning.elapsed();
    assert!(!device.query_stream(slow).unwrap(), "the slow stream still runs");
    assert!(waited < Duration::from_millis(250), "{waited:?}");
    device.synchronize_stream(slow).unwrap();
    assert!(beginning.elapsed() >= Duration::from_millis(490));
}

#[test]
fn freed_memory_is_not_reused_under_running_work() {
    let Some(device) = device(CudaOptions::default()) else {
        return;
    };
    let bytes = 256 << 20;
    let stream = device.create_stream(StreamPriority::Normal).unwrap();
    let spin = kernel(&device, "spin");
    let host = device.allocate_host(64).unwrap();
    for _ in 0..4 {
        let victim = device.allocate_device(bytes).unwrap();
        device.launch(stream, &launch(spin, vec![KernelArgument::I64(20_000_000)])).unwrap();
        device.fill(stream, victim.into(), 7, bytes).unwrap();
        device.copy(stream, victim.into(), host.into(), 64).unwrap();
        device.free_device(victim).unwrap();
        // New memory may be written at once, and must not overlap the running fill.
        let next = device.allocate_device(bytes).unwrap();
        device.fill(StreamId(0), next.into(), 9, bytes).unwrap();
        device.synchronize_stream(stream).unwrap();
        let mut seen = [0; 64];
        device.read_host(host, &mut seen).unwrap();
        assert_eq!(seen, [7; 64]);
        device.copy(StreamId(0), next.into(), host.into(), 64).unwrap();
        device.synchronize_stream(StreamId(0)).unwrap();
        device.read_host(host, &mut seen).unwrap();
        assert_eq!(seen, [9; 64]);
        device.free_device(next).unwrap();
    }
}

#[test]
fn destroying_a_graph_waits_for_its_launches_on_a_stream_that_captures_now() {
    let Some(device) = device(CudaOptions::default()) else {
        return;
    };
    let stream = device.create_stream(StreamPriority::Normal).unwrap();
    let spin = kernel(&device, "spin");
    device.begin_capture(stream).unwrap();
    device.launch(stream, &launch(spin, vec![KernelArgument::I64(200_000_000)])).unwrap();
    let graph = device.end_capture(stream).unwrap();
    device.launch_graph(graph, stream).unwrap();
    device.synchronize_stream(stream).unwrap();
    let beginning = Instant::now();
    device.launch_graph(graph, stream).unwrap();
    device.begin_capture(stream).unwrap();
    device.destroy_graph(graph).unwrap();
    assert!(beginning.elapsed() >= Duration::from_millis(190));
    let empty = device.end_capture(stream).unwrap();
    device.destroy_graph(empty).unwrap();
    device.destroy_stream(stream).unwrap();
}

#[test]
fn kernel_may_use_all_shared_memory_and_argument_errors_are_named() {
    let Some(device) = device(CudaOptions::default()) else {
        return;
    };
    let wide = kernel(&device, "wide");
    let out = device.allocate_device(4096).unwrap();
    let mut asked = launch(wide, vec![KernelArgument::Pointer(out)]);
    asked.block = [1024, 1, 1];
    asked.shared_bytes = device.facts().shared_bytes;
    device.launch(StreamId(0), &asked).unwrap();
    let host = device.allocate_host(4096).unwrap();
    device.copy(StreamId(0), out.into(), host.into(), 4096).unwrap();
    device.synchronize_stream(StreamId(0)).unwrap();
    let mut bytes = [0; 4096];
    device.read_host(host, &mut bytes).unwrap();
    assert_eq!(bytes[..4], 1023u32.to_le_bytes());
    let narrow = launch(wide, vec![KernelArgument::U32(1)]);
    let message = device.launch(StreamId(0), &narrow).unwrap_err().to_string();
    assert!(
        message.contains("kernel wide: expected 8 bytes for argument 0, got U32(1)"),
        "{message}"
    );
    asked.shared_bytes += 1;
    assert_eq!(device.launch(StreamId(0), &asked).unwrap_err().code(), "driver");
    // The refusal left the device whole.
    device.synchronize_stream(StreamId(0)).unwrap();
}

#[test]
fn out_of_memory_reports_free_bytes() {
    let Some(device) = device(CudaOptions::default()) else {
        return;
    };
    let info = device.memory_info().unwrap();
    let error = device.allocate_device(info.total_bytes - 4096).unwrap_err();
    let BackendError::OutOfMemory { requested, free, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(requested, info.total_bytes - 4096);
    assert!(free > 0 && free < info.total_bytes);
    let pointer = device.allocate_device(info.free_bytes / 2).unwrap();
    device.free_device(pointer).unwrap();
    let again = device.allocate_device(info.free_bytes / 4 * 3).unwrap();
    device.free_device(again).unwrap();
}

#[test]
fn compile_errors_leave_the_device_usable() {
    let Some(device) = device(CudaOptions::default()) else {
        return;
    };
    let source = Source {
        name: "bad.cu",
        text: "extern \"C\" __global__ void f() { nothing; }",
        headers: &[],
        options: &[],
    };
    let Err(LoadError::Compile(error)) = device.compile(&source) else {
        panic!("expected an error of the compiler");
    };
    assert_eq!(error.code(), "compile");
    device.synchronize_stream(StreamId(0)).unwrap();
}

/// Set in processes that lose their device on purpose.
const CHILD: &str = "ASSAY_TEST_LOSES_ITS_DEVICE";

/// Runs one test of this file in a process of its own, whose device may be lost.
fn in_child(test: &str) {
    if let Some(missing) = discover().missing(0) {
        eprintln!("skipped: {missing}");
        return;
    }
    let this = std::env::current_exe().expect("this program has a path");
    let outcome = std::process::Command::new(this)
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("this program starts");
    let message = String::from_utf8_lossy(&outcome.stderr);
    let ran = String::from_utf8_lossy(&outcome.stdout).contains("1 passed");
    assert!(outcome.status.success() && ran, "{message}");
}

#[test]
fn trap_is_a_device_fault() {
    in_child("child_traps");
    let Some(device) = device(CudaOptions::default()) else {
        return;
    };
    let kernel = kernel(&device, "increment");
    check(&device, kernel).expect("contract");
}

#[test]
fn watchdog_timeout_is_a_typed_error() {
    in_child("child_spins");
}

#[test]
fn child_traps() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let device = device(CudaOptions::default()).expect("a device");
    let trap = kernel(&device, "trap");
    device.launch(StreamId(0), &launch(trap, vec![])).unwrap();
    let error = device.synchronize_stream(StreamId(0)).unwrap_err();
    assert_eq!(error.code(), "device_fault");
    let message = error.to_string();
    assert!(message.contains("kernel trap of stream 0"), "{message}");
    // Everything after it says the same.
    let later = device.allocate_device(64).unwrap_err();
    assert_eq!(later.code(), "device_fault");
    assert!(later.to_string().contains("kernel trap of stream 0"), "{later}");
}

#[test]
fn child_spins() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let device =
        device(CudaOptions { watchdog: Some(Duration::from_secs(1)), ..CudaOptions::default() });
    let device = device.expect("a device");
    let spin = kernel(&device, "spin");
    let three_seconds = vec![KernelArgument::I64(3_000_000_000)];
    device.launch(StreamId(0), &launch(spin, three_seconds)).unwrap();
    let beginning = Instant::now();
    let error = device.synchronize_stream(StreamId(0)).unwrap_err();
    let waited = beginning.elapsed();
    assert_eq!(error.code(), "watchdog");
    assert!(error.to_string().contains("kernel spin"), "{error}");
    assert!(waited >= Duration::from_secs(1) && waited < Duration::from_millis(1500), "{waited:?}");
}
