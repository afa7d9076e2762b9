//! Compiled variants of kernels, and memory that kernels work in.

use super::refused;
use crate::compiler::Source;
use crate::device::{Function, LaunchOptions, Queue};
use crate::sources;
use assay_operations::Activation;
use assay_runtime::backend::{DevicePointer, Result, StreamId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// An option of a kernel's source: its name and its value.
pub(super) type Setting = (&'static str, Value);

/// The value of an option.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Value {
    Number(u64),
    Name(&'static str),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Number(u64::from(flag))
    }
}

impl From<Activation> for Value {
    fn from(activation: Activation) -> Self {
        Value::Number(u64::from(activation.code()))
    }
}

impl From<&'static str> for Value {
    fn from(name: &'static str) -> Self {
        Value::Name(name)
    }
}

/// As many options as any kernel may have.
const MOST: usize = 16;

#[derive(PartialEq, Eq, Hash)]
struct Variant {
    kernel: &'static str,
    settings: [Option<Setting>; MOST],
}

/// Hashes whole words, which is quick: options are our own, and nobody chooses them to collide.
#[derive(Default)]
struct Words(u64);

impl Hasher for Words {
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

/// What all operations of a device share.
#[derive(Default)]
pub(super) struct Tools {
    functions: Mutex<HashMap<Variant, Arc<Function>, BuildHasherDefault<Words>>>,
    /// The same by a number that stands for kernel and options, for launches that cost the host
    /// more than the device.
    numbered: RwLock<HashMap<u64, Arc<Function>, BuildHasherDefault<Words>>>,
    scratch: Mutex<HashMap<(StreamId, &'static str), Scratch>>,
}

#[derive(Clone, Copy)]
struct Scratch {
    pointer: DevicePointer,
    bytes: u64,
}

impl Tools {
    /// The kernel of this name with these options; file and function share the name.
    pub fn function(
        &self,
        queue: &Queue<'_>,
        kernel: &'static str,
        settings: &[Setting],
    ) -> Result<Arc<Function>> {
        self.entry(queue, kernel, kernel, settings)
    }

    /// The kernel that was kept under this number.
    pub fn kept(&self, number: u64) -> Option<Arc<Function>> {
        let kept = self.numbered.read().unwrap_or_else(PoisonError::into_inner);
        kept.get(&number).cloned()
    }

    /// Keeps a kernel under a number.
    pub fn keep(&self, number: u64, function: &Arc<Function>) {
        let kept = self.numbered.write();
        let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
        kept.insert(number, Arc::clone(function));
    }

    /// One of several kernels of a file.
    pub fn entry(
        &self,
        queue: &Queue<'_>,
        file: &'static str,
        kernel: &'static str,
        settings: &[Setting],
    ) -> Result<Arc<Function>> {
        if settings.len() > MOST {
            let got = settings.len();
            return Err(refused(format!(
                "{kernel}: expected {MOST} options, got {got}"
            )));
        }
        let mut filled = [None; MOST];
        for (place, setting) in filled.iter_mut().zip(settings) {
            *place = Some(*setting);
        }
        let variant = Variant {
            kernel,
            settings: filled,
        };
        let mut functions = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = functions.get(&variant) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(compile(queue, file, kernel, settings)?);
        functions.insert(variant, Arc::clone(&made));
        Ok(made)
    }

    /// Memory of a stream for one purpose, at least this long, zero when it is new.
    ///
    /// What is outgrown is kept, since graphs may name it.
    pub fn scratch(
        &self,
        queue: &Queue<'_>,
        purpose: &'static str,
        bytes: u64,
    ) -> Result<DevicePointer> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (queue.stream_id(), purpose);
        if let Some(known) = scratch.get(&key).filter(|known| known.bytes >= bytes) {
            return Ok(known.pointer);
        }
        let bytes = bytes.next_power_of_two();
        let pointer = queue.allocate_zeros(bytes)?;
        scratch.insert(key, Scratch { pointer, bytes });
        Ok(pointer)
    }
}

fn compile(
    queue: &Queue<'_>,
    file: &'static str,
    kernel: &'static str,
    settings: &[Setting],
) -> Result<Function> {
    let name = format!("{file}.cu");
    let Some(text) = sources::source(&name) else {
        return Err(refused(format!("there is no source {name}")));
    };
    let options: Vec<String> = settings
        .iter()
        .map(|(name, value)| match value {
            Value::Number(number) => format!("-D{name}={number}"),
            Value::Name(text) => format!("-D{name}={text}"),
        })
        .collect();
    let source = Source {
        name: &name,
        text,
        headers: &sources::headers(),
        options: &options,
    };
    let module = queue.device().compile(&source);
    let module = module.map_err(|error| refused(error.to_string()))?;
    // Every kernel of ours waits itself for the one before it.
    module.function(kernel, LaunchOptions { overlaps: true })
}
