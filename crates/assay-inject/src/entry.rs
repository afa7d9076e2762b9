//! What the driver and NVTX call.

use crate::FOLDER_VARIABLE;
use crate::folder::check_file;
use crate::tracer::{POLL, Tracer};
use assay_cuda::cupti::add_nvtx_client;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

static TRACER: Mutex<Option<Tracer>> = Mutex::new(None);
static START: Once = Once::new();
static AT_EXIT: Once = Once::new();
/// The process that the library was loaded into.
static OWNER: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

/// Stack of the thread that looks at the control file; arming decodes and writes on it.
const STACK_BYTES: usize = 1 << 20;

fn tracer() -> MutexGuard<'static, Option<Tracer>> {
    TRACER.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Called by the CUDA driver when it starts. The program runs on whatever happens here.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    let _ = catch_unwind(|| START.call_once(start));
    1
}

/// Called by NVTX at its first use, once for every copy of NVTX in the process.
///
/// # Safety
///
/// Only NVTX calls it, with its table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(export_table: *mut c_void) -> c_int {
    let added = catch_unwind(|| {
        // SAFETY: the caller vouches for it.
        unsafe { add_nvtx_client(export_table) }
    });
    c_int::from(added.is_ok())
}

fn start() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else {
        return;
    };
    OWNER.store(std::process::id(), Ordering::Release);
    let started = file_of(start as fn() as *const c_void)
        .ok_or_else(|| std::io::Error::other("the library does not know its file"))
        .and_then(|library| check_file(&library))
        .and_then(|()| Tracer::open(&folder, register_end))
        .and_then(|mut opened| {
            // Armed already: the first kernel must not be missed.
            opened.poll()?;
            *tracer() = Some(opened);
            let builder = std::thread::Builder::new().name("assay-trace".to_owned());
            builder.stack_size(STACK_BYTES).spawn(watch).map(drop)
        });
    if let Err(error) = started {
        // Standard error belongs to the program, but silence would look like a trace without events.
        eprintln!("assay: this process is not traced: {error}");
    }
}

/// Looks at the control file until the process ends.
fn watch() {
    let mut told = false;
    while !ENDED.load(Ordering::Acquire) {
        std::thread::sleep(POLL);
        let mut tracer = tracer();
        if ENDED.load(Ordering::Acquire) {
            return;
        }
        let Some(tracer) = tracer.as_mut() else {
            return;
        };
        match tracer.poll() {
            Ok(()) => told = false,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // The folder is gone: nobody waits for the trace any more.
                tracer.disarm();
            }
            Err(error) => {
                if !told {
                    eprintln!("assay: control file not followed: {error}");
                    told = true;
                }
            }
        }
    }
}

fn register_end() {
    AT_EXIT.call_once(|| {
        // SAFETY: the function takes nothing and may run at any time; the library is never closed.
        unsafe { libc::atexit(end) };
    });
}

/// At the exit of the process, before CUPTI's own end: everything is delivered.
extern "C" fn end() {
    let _ = catch_unwind(|| {
        ENDED.store(true, Ordering::Release);
        // In a forked child the lock may be held by a thread that did not come along.
        if OWNER.load(Ordering::Acquire) != std::process::id() {
            return;
        }
        if let Some(tracer) = tracer().as_mut() {
            tracer.disarm();
        }
    });
}

/// The file that holds the code at an address.
fn file_of(address: *const c_void) -> Option<PathBuf> {
    // SAFETY: an all-zero answer is a value of it; the loader fills it, and keeps the name.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &raw mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        let name = CStr::from_ptr(found.dli_fname);
        Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
    }
}
