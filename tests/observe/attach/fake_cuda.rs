//! A driver and a CUPTI that have no GPU: they deliver records through the real callbacks.
//!
//! Tests compile it with rustc and name it libcuda.so.1 and libcupti.so.13. `fake_*` functions stand
//! for a program's work. FAKE_* environment variables choose versions and faults.

#![allow(clippy::missing_safety_doc, non_snake_case)]

use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

type Requested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

const MULTIPLE_SUBSCRIBERS: u32 = 39;
const MAX_LIMIT_REACHED: u32 = 12;
const INVALID_OPERATION: u32 = 7;

struct Buffer {
    start: *mut u8,
    size: usize,
    most: usize,
    used: usize,
    records: usize,
    incomplete: usize,
}

struct State {
    requested: Option<Requested>,
    completed: Option<Completed>,
    clock: Option<extern "C" fn() -> u64>,
    enabled: [bool; 64],
    subscribed: bool,
    buffer: Option<Buffer>,
    dropped: usize,
    correlation: u32,
    ranges: Vec<u32>,
    next_range: u32,
    flushes: u32,
    nvtx_clients: u32,
}

unsafe impl Send for State {}

static STATE: Mutex<State> = Mutex::new(State {
    requested: None,
    completed: None,
    clock: None,
    enabled: [false; 64],
    subscribed: false,
    buffer: None,
    dropped: 0,
    correlation: 0,
    ranges: Vec::new(),
    next_range: 0,
    flushes: 0,
    nvtx_clients: 0,
});

fn state() -> std::sync::MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|poison| poison.into_inner())
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

// The driver.

#[no_mangle]
pub unsafe extern "C" fn cuInit(_flags: u32) -> u32 {
    if let Some(path) = std::env::var_os("CUDA_INJECTION64_PATH") {
        let path = CString::new(path.into_encoded_bytes()).unwrap();
        let library = dlopen(path.as_ptr(), 2);
        if !library.is_null() {
            let entry = dlsym(library, c"InitializeInjection".as_ptr());
            assert!(!entry.is_null(), "no InitializeInjection");
            let entry: extern "C" fn() -> c_int = std::mem::transmute(entry);
            entry();
        }
    }
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    *version = setting("FAKE_DRIVER_VERSION", 13000) as c_int;
    0
}

// CUPTI.

#[no_mangle]
pub unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> u32 {
    *version = setting("FAKE_CUPTI_VERSION", 130000);
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiGetResultString(status: u32, text: *mut *const c_char) -> u32 {
    *text = match status {
        MULTIPLE_SUBSCRIBERS => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED".as_ptr(),
        _ => c"CUPTI_ERROR_UNKNOWN".as_ptr(),
    };
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiSubscribe(
    handle: *mut *mut c_void,
    _callback: *const c_void,
    _data: *mut c_void,
) -> u32 {
    let mut state = state();
    if state.subscribed || setting("FAKE_OTHER_SUBSCRIBER", 0) == 1 {
        return MULTIPLE_SUBSCRIBERS;
    }
    state.subscribed = true;
    *handle = 8 as *mut c_void;
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiUnsubscribe(_handle: *mut c_void) -> u32 {
    state().subscribed = false;
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiActivityRegisterCallbacks(
    requested: Requested,
    completed: Completed,
) -> u32 {
    let mut state = state();
    state.requested = Some(requested);
    state.completed = Some(completed);
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiActivityRegisterTimestampCallback(
    clock: extern "C" fn() -> u64,
) -> u32 {
    state().clock = Some(clock);
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiSetThreadIdType(_kind: c_int) -> u32 {
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiActivityEnable(kind: u32) -> u32 {
    if setting("FAKE_FAILING_KIND", 0) == kind {
        return 999;
    }
    state().enabled[kind as usize] = true;
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiActivityDisable(kind: u32) -> u32 {
    state().enabled[kind as usize] = false;
    0
}

fn record_size(kind: u32) -> usize {
    match kind {
        1 => 104,
        2 => 88,
        // Kernel9, Kernel10 and Kernel13.
        10 => match setting("FAKE_CUPTI_VERSION", 130000) {
            0..=28 => 208,
            29..=130399 => 216,
            _ => 248,
        },
        4 | 5 => 40,
        12 => 56,
        17 => 56,
        22 => 96,
        38 => 56,
        39 => 24,
        51 => 56,
        other => panic!("no size of kind {other}"),
    }
}

/// Gives the buffer to the completed callback.
fn deliver(buffer: Buffer, completed: Completed) {
    completed(
        std::ptr::null_mut(),
        0,
        buffer.start,
        buffer.size,
        buffer.used,
    );
}

#[no_mangle]
pub unsafe extern "C" fn cuptiActivityFlushAll(flag: u32) -> u32 {
    let (buffer, completed) = {
        let mut state = state();
        state.flushes += 1;
        let Some(completed) = state.completed else {
            return INVALID_OPERATION;
        };
        match state.buffer.take() {
            Some(buffer) if flag == 0 && buffer.incomplete > 0 => {
                state.buffer = Some(buffer);
                return 0;
            }
            Some(buffer) => (buffer, completed),
            None => return 0,
        }
    };
    deliver(buffer, completed);
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid: usize,
    record: *mut *mut u8,
) -> u32 {
    let next = if (*record).is_null() {
        buffer
    } else {
        (*record).add(record_size((*record).cast::<u32>().read()))
    };
    if next as usize - buffer as usize >= valid {
        return MAX_LIMIT_REACHED;
    }
    *record = next;
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: *mut c_void,
    _stream: u32,
    dropped: *mut usize,
) -> u32 {
    *dropped = std::mem::take(&mut state().dropped);
    0
}

#[no_mangle]
pub unsafe extern "C" fn cuptiGetCallbackName(
    domain: u32,
    function: u32,
    name: *mut *const c_char,
) -> u32 {
    *name = match (domain, function) {
        (2, 211) => c"cudaLaunchKernel_v7000".as_ptr(),
        (1, 307) => c"cuLaunchKernel".as_ptr(),
        _ => return 1,
    };
    0
}

fn now() -> u64 {
    let clock = state().clock;
    match clock {
        Some(clock) => clock(),
        None => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64,
    }
}

#[no_mangle]
pub unsafe extern "C" fn cuptiGetTimestamp(time: *mut u64) -> u32 {
    *time = now();
    0
}

#[no_mangle]
pub unsafe extern "C" fn InitializeInjectionNvtx2(_table: *mut c_void) -> c_int {
    state().nvtx_clients += 1;
    1
}

/// Appends a record: a buffer is requested where there is none, and delivered once it is full.
unsafe fn append(kind: u32, incomplete: bool, fill: impl FnOnce(*mut u8)) {
    let size = record_size(kind);
    let (enabled, has_buffer, requested) = {
        let state = state();
        (
            state.enabled[kind as usize],
            state.buffer.is_some(),
            state.requested,
        )
    };
    let (true, Some(requested)) = (enabled, requested) else {
        return;
    };
    if !has_buffer {
        let (mut start, mut bytes, mut most) = (std::ptr::null_mut(), 0, 0);
        requested(&mut start, &mut bytes, &mut most);
        let mut state = state();
        if start.is_null() {
            state.dropped += 1;
            return;
        }
        assert_eq!(start as usize % 8, 0, "buffers are aligned to 8 bytes");
        state.buffer = Some(Buffer {
            start,
            size: bytes,
            most: if most == 0 { usize::MAX } else { most },
            used: 0,
            records: 0,
            incomplete: 0,
        });
    }
    let full = {
        let mut state = state();
        let Some(buffer) = state.buffer.as_mut() else {
            return;
        };
        let place = buffer.start.add(buffer.used);
        place.write_bytes(0, size);
        place.cast::<u32>().write(kind);
        fill(place);
        buffer.used += size;
        buffer.records += 1;
        buffer.incomplete += usize::from(incomplete);
        let is_full = buffer.records >= buffer.most || buffer.used + 256 > buffer.size;
        let is_full = is_full && buffer.incomplete == 0;
        match (is_full, state.completed) {
            (true, Some(completed)) => state.buffer.take().map(|buffer| (buffer, completed)),
            _ => None,
        }
    };
    if let Some((buffer, completed)) = full {
        deliver(buffer, completed);
    }
}

unsafe fn put<T>(record: *mut u8, offset: usize, value: T) {
    record.add(offset).cast::<T>().write_unaligned(value);
}

fn next_correlation() -> u32 {
    let mut state = state();
    state.correlation += 1;
    state.correlation
}

// A program's work.

/// Kernels of a microsecond each; with a graph, they are its nodes 1, 2, 3 ...
#[no_mangle]
pub unsafe extern "C" fn fake_launch(count: u32, graph: u32, name: *const c_char) {
    for number in 0..count {
        let correlation = next_correlation();
        let end = now();
        append(10, false, |record| {
            put(record, 6, 32_u16);
            put(record, 16, end - 1000);
            put(record, 24, end);
            put(record, 44, 1_u32);
            put(record, 48, 7_u32);
            for (place, value) in [(52, 132_i32), (56, 2), (60, 1), (64, 256), (68, 1), (72, 1)] {
                put(record, place, value);
            }
            put(record, 80, 4096_i32);
            put(record, 92, correlation);
            put(record, 104, name);
            if graph != 0 {
                put(
                    record,
                    144,
                    (u64::from(graph) << 32) | u64::from(number + 1),
                );
                put(record, 156, graph);
            }
        });
    }
}

/// A kernel that never ends.
#[no_mangle]
pub unsafe extern "C" fn fake_launch_endless(name: *const c_char) {
    let correlation = next_correlation();
    append(10, true, |record| {
        put(record, 92, correlation);
        put(record, 104, name);
    });
}

#[no_mangle]
pub unsafe extern "C" fn fake_copy(bytes: u64) {
    let (correlation, end) = (next_correlation(), now());
    append(1, false, |record| {
        put(record, 4, [1_u8, 2, 3, 1]);
        put(record, 8, bytes);
        put(record, 16, end - 500);
        put(record, 24, end);
        put(record, 40, 7_u32);
        put(record, 44, correlation);
    });
}

#[no_mangle]
pub unsafe extern "C" fn fake_peer_copy(bytes: u64) {
    let (correlation, end) = (next_correlation(), now());
    append(22, false, |record| {
        put(record, 4, [10_u8, 3, 3, 1]);
        put(record, 8, bytes);
        put(record, 16, end - 500);
        put(record, 24, end);
        put(record, 40, 7_u32);
        put(record, 52, 1_u32);
        put(record, 60, correlation);
    });
}

#[no_mangle]
pub unsafe extern "C" fn fake_fill(bytes: u64) {
    let (correlation, end) = (next_correlation(), now());
    append(2, false, |record| {
        put(record, 4, 9_u32);
        put(record, 8, bytes);
        put(record, 16, end - 250);
        put(record, 24, end);
        put(record, 40, 7_u32);
        put(record, 44, correlation);
        put(record, 50, 3_u16);
    });
}

/// A call of the runtime inside a framework's operation, and the kernel it launches.
#[no_mangle]
pub unsafe extern "C" fn fake_call(external: u64, name: *const c_char) {
    let end = now();
    let correlation = state().correlation + 1;
    append(39, false, |record| {
        put(record, 4, 3_u32);
        put(record, 8, external);
        put(record, 16, correlation);
    });
    append(5, false, |record| {
        put(record, 4, 211_u32);
        put(record, 8, end - 3000);
        put(record, 16, end - 2000);
        put(record, 24, std::process::id());
        put(record, 28, 77_u32);
        put(record, 32, correlation);
    });
    fake_launch(1, 0, name);
}

#[no_mangle]
pub unsafe extern "C" fn fake_synchronize() {
    let end = now();
    append(38, false, |record| {
        put(record, 4, 4_u32);
        put(record, 8, end - 100);
        put(record, 16, end);
        put(record, 32, u32::MAX);
    });
}

#[no_mangle]
pub unsafe extern "C" fn fake_overhead() {
    let end = now();
    append(17, false, |record| {
        put(record, 4, 1_u32 << 16);
        put(record, 8, 2_u32);
        put(record, 12, [std::process::id(), 77, 0]);
        put(record, 24, end - 100);
        put(record, 32, end);
    });
}

#[no_mangle]
pub unsafe extern "C" fn fake_range_push(name: *const c_char, domain: *const c_char) {
    let (time, id) = (now(), {
        let mut state = state();
        state.next_range += 1;
        let id = state.next_range;
        state.ranges.push(id);
        id
    });
    append(12, false, |record| {
        put(record, 4, 2_u32);
        put(record, 8, time);
        put(record, 16, id);
        put(record, 20, 2_u32);
        put(record, 24, [std::process::id(), 77, 0]);
        put(record, 40, name);
        put(record, 48, domain);
    });
}

#[no_mangle]
pub unsafe extern "C" fn fake_range_pop() {
    let (time, id) = (now(), state().ranges.pop().unwrap_or(0));
    append(12, false, |record| {
        put(record, 4, 4_u32);
        put(record, 8, time);
        put(record, 16, id);
        put(record, 20, 2_u32);
    });
}

/// Records that CUPTI loses.
#[no_mangle]
pub unsafe extern "C" fn fake_drop(count: usize) {
    state().dropped += count;
}

/// NVTX asks for a tool, as at its first call.
#[no_mangle]
pub unsafe extern "C" fn fake_nvtx_start() -> c_int {
    let Some(path) = std::env::var_os("NVTX_INJECTION64_PATH") else {
        return 0;
    };
    let path = CString::new(path.into_encoded_bytes()).unwrap();
    let library = dlopen(path.as_ptr(), 2);
    let entry = dlsym(library, c"InitializeInjectionNvtx2".as_ptr());
    assert!(!entry.is_null(), "no InitializeInjectionNvtx2");
    let entry: extern "C" fn(*mut c_void) -> c_int = std::mem::transmute(entry);
    entry(16 as *mut c_void)
}

/// What the tool did: subscribed, kinds enabled, flushes, NVTX clients.
#[no_mangle]
pub unsafe extern "C" fn fake_tool(found: *mut u32) {
    let state = state();
    *found = u32::from(state.subscribed);
    *found.add(1) = state.enabled.iter().filter(|one| **one).count() as u32;
    *found.add(2) = state.flushes;
    *found.add(3) = state.nvtx_clients;
}
