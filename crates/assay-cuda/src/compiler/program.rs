//! An NVRTC program.

use super::architecture::Target;
use super::diagnostics::diagnostics;
use super::error::CompileError;
use super::ptxas::ptxas_errors;
use super::source::Source;
use crate::library::Nvrtc;
use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};
use std::ffi::{CString, c_char};
use std::ptr;

/// No error.
const SUCCESS: u32 = nvrtcResult::NVRTC_SUCCESS as u32;
/// The source has errors, listed in the log.
const COMPILATION: u32 = nvrtcResult::NVRTC_ERROR_COMPILATION as u32;

/// Capabilities for which this NVRTC generates cubins.
pub(super) fn supported(nvrtc: &Nvrtc) -> Vec<u32> {
    let mut count = 0;
    // SAFETY: stores one number.
    if unsafe { (nvrtc.nvrtcGetNumSupportedArchs)(&raw mut count) } != SUCCESS {
        return Vec::new();
    }
    let mut found = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: stores `count` numbers.
    if unsafe { (nvrtc.nvrtcGetSupportedArchs)(found.as_mut_ptr()) } != SUCCESS {
        return Vec::new();
    }
    found.into_iter().filter_map(|one| u32::try_from(one).ok()).collect()
}

pub(super) struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: nvrtcProgram,
}

fn text(name: &str, text: &str) -> Result<CString, CompileError> {
    CString::new(text).map_err(|_| CompileError::ZeroByte { name: name.to_owned() })
}

fn texts<'s>(name: &str, all: impl Iterator<Item = &'s str>) -> Result<Vec<CString>, CompileError> {
    all.map(|one| text(name, one)).collect()
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|one| one.as_ptr()).collect()
}

fn refused(source: &Source<'_>, status: u32) -> Result<(), CompileError> {
    match status {
        SUCCESS => Ok(()),
        status => Err(CompileError::Refused { name: source.name.to_owned(), status }),
    }
}

impl<'a> Program<'a> {
    pub fn new(nvrtc: &'a Nvrtc, source: &Source<'_>) -> Result<Self, CompileError> {
        let (body, name) = (text(source.name, source.text)?, text(source.name, source.name)?);
        let names = texts(source.name, source.headers.iter().map(|header| header.0))?;
        let bodies = texts(source.name, source.headers.iter().map(|header| header.1))?;
        let (names, bodies) = (pointers(&names), pointers(&bodies));
        let mut handle = ptr::null_mut();
        // SAFETY: every pointer is to a zero-terminated text that outlives the call, in which
        // NVRTC copies them; both lists have `bodies.len()` entries.
        let status = unsafe {
            (nvrtc.nvrtcCreateProgram)(
                &raw mut handle,
                body.as_ptr(),
                name.as_ptr(),
                i32::try_from(bodies.len()).unwrap_or(0),
                bodies.as_ptr(),
                names.as_ptr(),
            )
        };
        refused(source, status)?;
        Ok(Program { nvrtc, handle })
    }

    pub fn compile(&self, source: &Source<'_>, options: &[String]) -> Result<(), CompileError> {
        let options = texts(source.name, options.iter().map(String::as_str))?;
        let options = pointers(&options);
        let count = i32::try_from(options.len()).unwrap_or(0);
        // SAFETY: the program lives, and the options are zero-terminated and as many as counted.
        let status =
            unsafe { (self.nvrtc.nvrtcCompileProgram)(self.handle, count, options.as_ptr()) };
        match status {
            SUCCESS => Ok(()),
            COMPILATION => {
                let log = self.log();
                let mut found = diagnostics(&log);
                if found.is_empty() {
                    found = ptxas_errors(&log, source);
                }
                Err(CompileError::Source { name: source.name.to_owned(), diagnostics: found })
            }
            // Such as an unknown option; the log has the details.
            status => {
                let log = self.log();
                match log.trim() {
                    "" => refused(source, status),
                    message => Err(CompileError::Options {
                        name: source.name.to_owned(),
                        message: message.to_owned(),
                    }),
                }
            }
        }
    }

    pub fn log(&self) -> String {
        let bytes = self.fetch(self.nvrtc.nvrtcGetProgramLogSize, self.nvrtc.nvrtcGetProgramLog);
        let bytes = bytes.unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }

    /// The cubin, or zero-terminated PTX.
    pub fn image(&self, source: &Source<'_>, target: &Target) -> Result<Vec<u8>, CompileError> {
        let fetched = match target {
            Target::Cubin(_) => self.fetch(self.nvrtc.nvrtcGetCUBINSize, self.nvrtc.nvrtcGetCUBIN),
            Target::Ptx(_) => self.fetch(self.nvrtc.nvrtcGetPTXSize, self.nvrtc.nvrtcGetPTX),
        };
        fetched.map_err(|status| CompileError::Refused { name: source.name.to_owned(), status })
    }

    fn fetch(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> u32,
        get: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> u32,
    ) -> Result<Vec<u8>, u32> {
        let mut length = 0;
        // SAFETY: the program lives; stores one number.
        match unsafe { size(self.handle, &raw mut length) } {
            SUCCESS => {}
            status => return Err(status),
        }
        let mut bytes = vec![0u8; length];
        // SAFETY: writes `length` bytes.
        match unsafe { get(self.handle, bytes.as_mut_ptr().cast()) } {
            SUCCESS => Ok(bytes),
            status => Err(status),
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program lives, and nothing of it is used after this.
        unsafe { (self.nvrtc.nvrtcDestroyProgram)(&raw mut self.handle) };
    }
}
