//! Names of what records count by number.

use super::api::Cupti;
use cpp_demangle::{DemangleOptions, Symbol};
use std::collections::HashMap;
use std::ffi::{CStr, c_char};

/// `Memcpy HtoD (Pinned -> Device)`, as PyTorch's profiler has it.
pub(super) fn memcpy(copy_kind: u8, source: u8, destination: u8) -> String {
    let direction = match copy_kind {
        1 => "HtoD",
        2 => "DtoH",
        3 => "HtoA",
        4 => "AtoH",
        5 => "AtoA",
        6 => "AtoD",
        7 => "DtoA",
        8 => "DtoD",
        9 => "HtoH",
        10 => "PtoP",
        _ => "Unknown",
    };
    format!("Memcpy {direction} ({} -> {})", memory(source.into()), memory(destination.into()))
}

/// The name of a `CUpti_ActivityMemoryKind`.
pub(super) fn memory(kind: u16) -> &'static str {
    match kind {
        1 => "Pageable",
        2 => "Pinned",
        3 => "Device",
        4 => "Array",
        5 => "Managed",
        6 => "Device Static",
        7 => "Managed Static",
        _ => "Unknown",
    }
}

/// The name of a `CUpti_ActivitySynchronizationType`.
pub(super) fn synchronization(wait: u32) -> &'static str {
    match wait {
        1 => "Event Synchronize",
        2 => "Stream Wait Event",
        3 => "Stream Synchronize",
        4 => "Context Synchronize",
        _ => "Synchronize",
    }
}

/// The name of a `CUpti_ActivityOverheadKind`.
pub(super) fn overhead(kind: u32) -> &'static str {
    match kind {
        1 => "Driver Compiler",
        0x1_0000 => "Activity Buffer Flush",
        0x2_0000 => "Instrumentation",
        0x3_0000 => "Resource",
        0x4_0000 => "Runtime Triggered Module Loading",
        0x5_0000 => "Lazy Function Loading",
        0x6_0000 => "Command Buffer Full",
        0x7_0000 => "Activity Buffer Request",
        0x8_0000 => "UVM Activity Init",
        _ => "Overhead",
    }
}

/// Names that were made before: a program has few kernels and launches them often.
#[derive(Default)]
pub(super) struct NameCache {
    kernels: HashMap<Box<CStr>, Box<str>>,
    functions: HashMap<(u32, u32), Box<str>>,
}

/// Distinct kernels kept; a program that compiles names without end must not fill the memory.
const MOST_KERNELS: usize = 1 << 16;

impl NameCache {
    /// The demangled name of a kernel.
    ///
    /// # Safety
    ///
    /// `name` is null or a string that ends with a zero byte.
    pub unsafe fn kernel(&mut self, name: *const c_char) -> &str {
        if name.is_null() {
            return "unknown kernel";
        }
        // SAFETY: the caller vouches for it.
        let name = unsafe { CStr::from_ptr(name) };
        if self.kernels.len() >= MOST_KERNELS {
            self.kernels.clear();
        }
        if !self.kernels.contains_key(name) {
            let readable = demangle(&name.to_string_lossy());
            self.kernels.insert(name.into(), readable.into());
        }
        self.kernels.get(name).map_or("unknown kernel", |name| name)
    }

    /// The name of a function of the driver (domain 1) or the runtime (2), without its version.
    pub fn function(&mut self, cupti: &Cupti, domain: u32, function: u32) -> &str {
        self.functions.entry((domain, function)).or_insert_with(|| {
            match cupti.function_name(domain, function) {
                Some(name) => without_version(&name).into(),
                None => format!("function {function} of domain {domain}").into(),
            }
        })
    }
}

/// `cudaLaunchKernel_v7000` is how CUPTI calls `cudaLaunchKernel`.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((start, digits))
            if digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            start
        }
        _ => name,
    }
}

/// A C++ name as it was written; other names as they are.
fn demangle(name: &str) -> String {
    if !name.starts_with("_Z") {
        return name.to_owned();
    }
    let options = DemangleOptions::new();
    let symbol = Symbol::new_with_options(name.as_bytes(), &Default::default());
    match symbol.ok().and_then(|symbol| symbol.demangle_with_options(&options).ok()) {
        Some(readable) => readable,
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_demangled() {
        let mangled = "_ZN2at6native29vectorized_elementwise_kernelILi4EEEvif";
        assert_eq!(
            demangle(mangled),
            "void at::native::vectorized_elementwise_kernel<4>(int, float)"
        );
        assert_eq!(demangle("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
        assert_eq!(demangle("_Zbroken"), "_Zbroken");
    }

    #[test]
    fn functions_lose_their_version() {
        assert_eq!(without_version("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(without_version("cuMemAlloc_v2"), "cuMemAlloc_v2");
        assert_eq!(without_version("cudaMemcpyAsync_ptsz_v7000"), "cudaMemcpyAsync_ptsz");
    }

    #[test]
    fn copies_are_named_as_in_pytorch() {
        assert_eq!(memcpy(1, 2, 3), "Memcpy HtoD (Pinned -> Device)");
        assert_eq!(memcpy(77, 0, 99), "Memcpy Unknown (Unknown -> Unknown)");
    }
}
