//! What operations share: compiled kernel variants.

use super::define::Define;
use super::error::launch_error;
use crate::compiler::Source;
use crate::device::{Function, LaunchOptions, Queue};
use crate::sources;
use assay_runtime::backend::Result;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// What traced kernels store: 2 for starts and ends, 1 for starts (`ASSAY_TRACE_ENDS=0`).
fn trace_level() -> u64 {
    static LEVEL: OnceLock<u64> = OnceLock::new();
    *LEVEL.get_or_init(|| match std::env::var("ASSAY_TRACE_ENDS").as_deref() {
        Ok("0") => 1,
        _ => 2,
    })
}

/// Whether a source can be compiled to store when its kernel ran.
fn stores_times(file: &str) -> bool {
    static TRACED: OnceLock<Vec<&str>> = OnceLock::new();
    let traced = TRACED.get_or_init(|| {
        let traced = sources::sources().iter().filter(|(_, text)| text.contains("TRACE_SPAN("));
        traced.filter_map(|(name, _)| name.strip_suffix(".cu")).collect()
    });
    traced.contains(&file)
}

/// The most macros of a kernel.
const MAX_DEFINES: usize = 20;

#[derive(PartialEq, Eq, Hash)]
struct Variant {
    kernel: &'static str,
    defines: [Option<Define>; MAX_DEFINES],
}

/// A fast word-wise hasher: keys are our own macros, so that collisions cannot be provoked.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = self.0.rotate_left(23) ^ number;
        self.0 = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The state that all operations of a device share.
#[derive(Default)]
pub(super) struct OperationContext {
    functions: Mutex<HashMap<Variant, Arc<Function>, BuildHasherDefault<WordHasher>>>,
    /// The same by a number for kernel and macros: a faster lookup for launches that cost the host
    /// more than the device.
    numbered: RwLock<HashMap<u64, Arc<Function>, BuildHasherDefault<WordHasher>>>,
}

impl OperationContext {
    /// The function stored under this number.
    pub fn numbered_function(&self, number: u64) -> Option<Arc<Function>> {
        let functions = self.numbered.read().unwrap_or_else(PoisonError::into_inner);
        functions.get(&number).cloned()
    }

    /// Stores a function under a number.
    pub fn store_numbered(&self, number: u64, function: &Arc<Function>) {
        let functions = self.numbered.write();
        let mut functions = functions.unwrap_or_else(PoisonError::into_inner);
        functions.insert(number, Arc::clone(function));
    }

    /// One of several entry points of a file.
    pub fn entry(
        &self,
        queue: &Queue<'_>,
        file: &'static str,
        kernel: &'static str,
        defines: &[Define],
    ) -> Result<Arc<Function>> {
        let stores_times = queue.is_traced() && stores_times(file);
        if defines.len() + usize::from(stores_times) > MAX_DEFINES {
            let got = defines.len();
            return Err(launch_error(format!(
                "{kernel}: expected at most {MAX_DEFINES} macros, got {got}"
            )));
        }
        let mut filled = [None; MAX_DEFINES];
        let trace = stores_times.then_some(("TRACE", trace_level().into()));
        let all = defines.iter().copied().chain(trace);
        for (slot, define) in filled.iter_mut().zip(all) {
            *slot = Some(define);
        }
        let variant = Variant { kernel, defines: filled };
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = functions.get(&variant) {
            return Ok(Arc::clone(known));
        }
        let defines: Vec<Define> = filled.iter().flatten().copied().collect();
        let compiled = Arc::new(compile(queue, file, kernel, &defines, stores_times)?);
        functions.insert(variant, Arc::clone(&compiled));
        Ok(compiled)
    }
}

fn compile(
    queue: &Queue<'_>,
    file: &'static str,
    kernel: &'static str,
    defines: &[Define],
    stores_times: bool,
) -> Result<Function> {
    let name = format!("{file}.cu");
    let Some(text) = sources::source(&name) else {
        return Err(launch_error(format!("there is no source {name}")));
    };
    let options: Vec<String> =
        defines.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
    let source = Source { name: &name, text, headers: &sources::headers(), options: &options };
    let module = queue.device().compile(&source);
    let module = module.map_err(|error| launch_error(error.to_string()))?;
    // Every kernel of ours calls wait_on_dependency(), so that launches may overlap.
    module.function(kernel, LaunchOptions { programmatic_dependent_launch: true, stores_times })
}
