//! NVTX clients of this process, connected with CUPTI once it records.
//!
//! NVTX asks for a tool at its first call, through `InitializeInjectionNvtx2` of the library that
//! `NVTX_INJECTION64_PATH` names. It then keeps a table of functions that a tool may fill at any time.
//! The injected library only remembers the client; CUPTI is not even loaded until a session starts.

use super::api::Cupti;
use std::ffi::c_void;
use std::sync::Mutex;

struct Client(*mut c_void);

// SAFETY: a pointer to a function, called under the lock.
unsafe impl Send for Client {}

struct Clients {
    waiting: Vec<Client>,
    cupti: Option<&'static Cupti>,
}

static CLIENTS: Mutex<Clients> = Mutex::new(Clients { waiting: Vec::new(), cupti: None });

/// Remembers a client, or connects it at once where CUPTI records.
///
/// # Safety
///
/// `export_table` is what NVTX gave to `InitializeInjectionNvtx2`: a function of the process that
/// stays valid.
pub unsafe fn add_nvtx_client(export_table: *mut c_void) {
    let mut clients = CLIENTS.lock().unwrap_or_else(|poison| poison.into_inner());
    match clients.cupti {
        Some(cupti) => {
            // SAFETY: the caller vouches for the pointer.
            unsafe { cupti.connect_nvtx(export_table) };
        }
        None => clients.waiting.push(Client(export_table)),
    }
}

/// Connects every client.
pub(super) fn connect(cupti: &'static Cupti) {
    let mut clients = CLIENTS.lock().unwrap_or_else(|poison| poison.into_inner());
    clients.cupti = Some(cupti);
    for client in std::mem::take(&mut clients.waiting) {
        // SAFETY: `add_nvtx_client` was given it by NVTX.
        unsafe { cupti.connect_nvtx(client.0) };
    }
}
