//! CUPTI opened at run time: the functions that are used, the supported versions, the statuses.

use super::error::CuptiError;
use crate::library::{
    LibraryProblem, Opened, cupti_candidates, loaded_library, open_first, usable_libraries,
};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Mutex;

/// `CUPTI_SUCCESS`.
pub(super) const SUCCESS: u32 = 0;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const MULTIPLE_SUBSCRIBERS: u32 = 39;
/// `CUPTI_ERROR_MAX_LIMIT_REACHED`: no further record in a buffer.
pub(super) const NO_MORE_RECORDS: u32 = 12;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`.
pub(super) const FLUSH_FORCED: u32 = 1;
/// `CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM`: threads by the number that the system gave them.
const SYSTEM_THREAD_IDS: c_int = 1;

type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
type Callback = extern "C" fn(*mut c_void, u32, u32, *const c_void);
type TimestampCallback = extern "C" fn() -> u64;

/// Declares the table of functions; the optional ones came with later versions.
macro_rules! cupti_functions {
    (
        required { $( $name:ident ( $($argument:ty),* $(,)? ); )* }
        optional { $( $optional:ident ( $($given:ty),* $(,)? ); )* }
    ) => {
        #[allow(non_snake_case)]
        struct Functions {
            $( $name: unsafe extern "C" fn($($argument),*) -> u32, )*
            $( $optional: Option<unsafe extern "C" fn($($given),*) -> u32>, )*
        }

        impl Functions {
            fn load(opened: &Opened) -> Result<Self, LibraryProblem> {
                Ok(Functions {
                    $(
                        // SAFETY: the signature is that of NVIDIA's header, the status a C enum.
                        $name: unsafe {
                            match opened.library.get(concat!(stringify!($name), "\0").as_bytes()) {
                                Ok(found) => *found,
                                Err(_) => {
                                    return Err(LibraryProblem::TooOld {
                                        library: opened.name.clone(),
                                        symbol: stringify!($name),
                                    });
                                }
                            }
                        },
                    )*
                    $(
                        // SAFETY: as above.
                        $optional: unsafe {
                            opened
                                .library
                                .get(concat!(stringify!($optional), "\0").as_bytes())
                                .ok()
                                .map(|found| *found)
                        },
                    )*
                })
            }
        }
    };
}

cupti_functions! {
    required {
        cuptiGetVersion(*mut u32);
        cuptiGetResultString(u32, *mut *const c_char);
        cuptiSubscribe(*mut *mut c_void, Callback, *mut c_void);
        cuptiUnsubscribe(*mut c_void);
        cuptiActivityRegisterCallbacks(BufferRequested, BufferCompleted);
        cuptiActivityEnable(u32);
        cuptiActivityDisable(u32);
        cuptiActivityFlushAll(u32);
        cuptiActivityGetNextRecord(*mut u8, usize, *mut *mut u8);
        cuptiActivityGetNumDroppedRecords(*mut c_void, u32, *mut usize);
        cuptiGetCallbackName(u32, u32, *mut *const c_char);
        cuptiGetTimestamp(*mut u64);
    }
    optional {
        cuptiActivityRegisterTimestampCallback(TimestampCallback);
        cuptiSetThreadIdType(c_int);
        cuptiSubscribe_v2(*mut *mut c_void, Callback, *mut c_void, *mut SubscriberParameters);
        InitializeInjectionNvtx2(*mut c_void);
    }
}

/// `CUpti_SubscriberParams`.
#[repr(C)]
struct SubscriberParameters {
    size: usize,
    name: *const c_char,
    old_name: *mut c_char,
    old_size: usize,
    allow_multiple: u8,
    padding: [u8; 7],
}

/// CUPTI of this process.
pub(super) struct Cupti {
    functions: Functions,
    /// Where it was opened.
    pub path: String,
    /// `cuptiGetVersion`.
    pub version: u32,
}

/// Opened once: CUPTI keeps state in the process.
static OPENED: Mutex<Option<&'static Cupti>> = Mutex::new(None);

/// The CUDA major that a CUPTI version belongs to; none where it is older than CUDA 12.
///
/// Versions count up to CUDA 12.9; from 13.0 on they are major, minor, update: 130001.
fn cuda_major(version: u32) -> Option<u32> {
    match version {
        19..=99 => Some(12),
        130_000.. => Some(version / 10_000),
        _ => None,
    }
}

/// Majors whose records are known.
const SUPPORTED_MAJORS: [u32; 2] = [12, 13];

impl Cupti {
    /// CUPTI of this process; the first call searches `paths`, wheels, the toolkit and the system.
    ///
    /// A copy that is loaded already, such as PyTorch's, is taken: CUPTI keeps its state in the
    /// library, and two copies in one process disturb each other.
    pub fn open(driver_major: u32, paths: &[PathBuf]) -> Result<&'static Cupti, CuptiError> {
        let mut opened = OPENED.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some(cupti) = *opened {
            return Ok(cupti);
        }
        let loaded = loaded_library("libcupti.so.");
        let candidates = loaded
            .into_iter()
            .chain(usable_libraries(paths, driver_major))
            .chain(cupti_candidates(driver_major));
        let library = open_first(candidates).map_err(CuptiError::Library)?;
        let functions = Functions::load(&library).map_err(CuptiError::Library)?;
        let mut version = 0;
        // SAFETY: CUPTI stores one number.
        let status = unsafe { (functions.cuptiGetVersion)(&raw mut version) };
        let cupti = Cupti { functions, path: library.name, version };
        cupti.check("cuptiGetVersion", status)?;
        match cuda_major(version) {
            Some(major) if SUPPORTED_MAJORS.contains(&major) && major <= driver_major => {}
            major => {
                return Err(CuptiError::Version { path: cupti.path, version, major, driver_major });
            }
        }
        let cupti: &'static Cupti = Box::leak(Box::new(cupti));
        *opened = Some(cupti);
        Ok(cupti)
    }

    /// CUPTI's name of a status.
    fn describe(&self, status: u32) -> String {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: CUPTI stores a pointer to a string of its own, or leaves null.
        unsafe {
            (self.functions.cuptiGetResultString)(status, &raw mut text);
            if text.is_null() {
                return format!("error {status}");
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    fn check(&self, function: &'static str, status: u32) -> Result<(), CuptiError> {
        if status == SUCCESS {
            return Ok(());
        }
        Err(CuptiError::Call { function, status, message: self.describe(status) })
    }

    /// Takes the one place of a subscriber.
    pub fn subscribe(&self) -> Result<Subscriber, CuptiError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the callback ignores its arguments; no callback is enabled.
        let status = unsafe {
            (self.functions.cuptiSubscribe)(&raw mut handle, ignore, std::ptr::null_mut())
        };
        if status == MULTIPLE_SUBSCRIBERS {
            let name = self.other_subscriber();
            return Err(CuptiError::OtherSubscriber { name });
        }
        self.check("cuptiSubscribe", status)?;
        Ok(Subscriber(handle))
    }

    /// The name of the subscriber that is there already, where CUPTI tells it.
    fn other_subscriber(&self) -> Option<String> {
        let subscribe = self.functions.cuptiSubscribe_v2?;
        let mut name = [0 as c_char; 128];
        let mut parameters = SubscriberParameters {
            size: size_of::<SubscriberParameters>(),
            name: c"Assay".as_ptr(),
            old_name: name.as_mut_ptr(),
            old_size: name.len(),
            allow_multiple: 0,
            padding: [0; 7],
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: CUPTI writes at most `old_size` bytes, and the last byte stays zero.
        unsafe {
            parameters.old_size -= 1;
            let status =
                subscribe(&raw mut handle, ignore, std::ptr::null_mut(), &raw mut parameters);
            if status == SUCCESS {
                (self.functions.cuptiUnsubscribe)(handle);
            }
            let name = CStr::from_ptr(name.as_ptr()).to_string_lossy();
            (!name.is_empty()).then(|| name.into_owned())
        }
    }

    /// Gives the place of the subscriber back.
    pub fn unsubscribe(&self, subscriber: Subscriber) {
        // SAFETY: the handle came from cuptiSubscribe and is used once.
        unsafe { (self.functions.cuptiUnsubscribe)(subscriber.0) };
    }

    /// Sets the clock of all records; false where CUPTI is too old for it.
    pub fn set_clock(&self, clock: TimestampCallback) -> Result<bool, CuptiError> {
        let Some(register) = self.functions.cuptiActivityRegisterTimestampCallback else {
            return Ok(false);
        };
        // SAFETY: the function lives as long as this library, which is never unloaded.
        let status = unsafe { register(clock) };
        self.check("cuptiActivityRegisterTimestampCallback", status)?;
        Ok(true)
    }

    /// CUPTI's clock now.
    pub fn timestamp(&self) -> Result<u64, CuptiError> {
        let mut now = 0;
        // SAFETY: CUPTI stores one number.
        let status = unsafe { (self.functions.cuptiGetTimestamp)(&raw mut now) };
        self.check("cuptiGetTimestamp", status)?;
        Ok(now)
    }

    /// Has records name threads as the system does, where CUPTI can.
    pub fn use_system_thread_ids(&self) {
        if let Some(set) = self.functions.cuptiSetThreadIdType {
            // SAFETY: a plain setting; where it fails, the default stays.
            unsafe { set(SYSTEM_THREAD_IDS) };
        }
    }

    /// Registers the functions that give and take buffers.
    pub fn register(
        &self,
        requested: BufferRequested,
        completed: BufferCompleted,
    ) -> Result<(), CuptiError> {
        // SAFETY: both functions live as long as this library, which is never unloaded.
        let status =
            unsafe { (self.functions.cuptiActivityRegisterCallbacks)(requested, completed) };
        self.check("cuptiActivityRegisterCallbacks", status)
    }

    /// Starts records of a kind.
    pub fn enable(&self, kind: u32) -> Result<(), CuptiError> {
        // SAFETY: a plain setting.
        let status = unsafe { (self.functions.cuptiActivityEnable)(kind) };
        if status == MULTIPLE_SUBSCRIBERS {
            return Err(CuptiError::OtherSubscriber { name: None });
        }
        self.check("cuptiActivityEnable", status)
    }

    /// Ends records of a kind.
    pub fn disable(&self, kind: u32) -> Result<(), CuptiError> {
        // SAFETY: a plain setting.
        let status = unsafe { (self.functions.cuptiActivityDisable)(kind) };
        self.check("cuptiActivityDisable", status)
    }

    /// Delivers buffers; part-filled ones too, unless a record in them is not complete.
    pub fn flush(&self, flag: u32) -> Result<(), CuptiError> {
        // SAFETY: callbacks are registered; none of our locks is held.
        let status = unsafe { (self.functions.cuptiActivityFlushAll)(flag) };
        self.check("cuptiActivityFlushAll", status)
    }

    /// The record after `record` in a buffer, null for the first; none after the last.
    ///
    /// # Safety
    ///
    /// `buffer` has `valid` bytes that CUPTI filled, and `record` is null or a record in it.
    pub unsafe fn next_record(
        &self,
        buffer: *mut u8,
        valid: usize,
        record: *mut u8,
    ) -> Result<Option<*mut u8>, CuptiError> {
        let mut next = record;
        // SAFETY: the caller vouches for the buffer.
        let status =
            unsafe { (self.functions.cuptiActivityGetNextRecord)(buffer, valid, &raw mut next) };
        if status == NO_MORE_RECORDS {
            return Ok(None);
        }
        self.check("cuptiActivityGetNextRecord", status)?;
        Ok((!next.is_null()).then_some(next))
    }

    /// Records lost since the last call.
    pub fn take_dropped(&self) -> usize {
        let mut dropped = 0;
        // SAFETY: CUPTI stores one number; all buffers belong to no context.
        let status = unsafe {
            (self.functions.cuptiActivityGetNumDroppedRecords)(
                std::ptr::null_mut(),
                0,
                &raw mut dropped,
            )
        };
        if status == SUCCESS { dropped } else { 0 }
    }

    /// The name of a function of the driver (domain 1) or the runtime (2).
    pub fn function_name(&self, domain: u32, function: u32) -> Option<String> {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: CUPTI stores a pointer to a string of its own, or leaves null.
        unsafe {
            let status = (self.functions.cuptiGetCallbackName)(domain, function, &raw mut name);
            if status != SUCCESS || name.is_null() {
                return None;
            }
            Some(CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// Connects CUPTI with an NVTX client that asked for a tool.
    ///
    /// # Safety
    ///
    /// `export_table` is the pointer that NVTX gave to `InitializeInjectionNvtx2`.
    pub unsafe fn connect_nvtx(&self, export_table: *mut c_void) -> bool {
        let Some(connect) = self.functions.InitializeInjectionNvtx2 else {
            return false;
        };
        // SAFETY: the caller vouches for the pointer.
        unsafe { connect(export_table) != 0 }
    }
}

/// A subscriber's handle.
pub(super) struct Subscriber(*mut c_void);

// SAFETY: CUPTI's functions may be called from any thread.
unsafe impl Send for Subscriber {}
// SAFETY: as above; the handle is only copied.
unsafe impl Sync for Subscriber {}

extern "C" fn ignore(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_name_their_cuda_major() {
        assert_eq!(cuda_major(18), None);
        assert_eq!(cuda_major(19), Some(12));
        assert_eq!(cuda_major(28), Some(12));
        assert_eq!(cuda_major(130_000), Some(13));
        assert_eq!(cuda_major(130_401), Some(13));
        assert_eq!(cuda_major(140_000), Some(14));
    }
}
