//! The arguments of a call: typed ranges of memory, checked before access.

use crate::device::KernelCall;
use crate::error::OpError;
use crate::ops::{Bf16, E4m3, F16, Int8};
use assay_operations::{Arguments, CallError, ElementFormat, Operand, Signature};
use assay_runtime::backend::{BackendError, Operation, Result};
use std::fmt;
use std::marker::PhantomData;

/// A Rust type of operand elements.
pub(super) trait ElementType {
    const FORMAT: ElementFormat;
}

macro_rules! element_type {
    ($($type:ty => $format:ident),*) => {
        $(impl ElementType for $type {
            const FORMAT: ElementFormat = ElementFormat::$format;
        })*
    };
}

element_type!(f32 => F32, F16 => F16, Bf16 => Bf16, i32 => I32, i64 => I64, u8 => U8);
element_type!(E4m3 => F8E4M3, Int8 => I8);

/// A range of elements in one allocation of the device.
pub(super) struct Span<'a, T> {
    first: *mut T,
    count: usize,
    memory: PhantomData<&'a T>,
}

impl<'a, T> Span<'a, T> {
    /// The elements, for reading.
    ///
    /// # Safety
    ///
    /// Nothing writes to them at the same time: stream order guarantees it while a kernel runs.
    pub unsafe fn read(&self) -> &'a [T] {
        // SAFETY: the range was checked to lie in one allocation and to be aligned, every bit
        // pattern is valid, and the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts(self.first, self.count) }
    }

    /// The elements, for writing.
    ///
    /// # Safety
    ///
    /// Nothing else accesses them at the same time: stream order guarantees it while a kernel runs,
    /// and a call's operands do not overlap.
    pub unsafe fn write(&self) -> &'a mut [T] {
        // SAFETY: as for `read`, and the caller has exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.count) }
    }
}

/// A call, and whether it runs now or is only validated.
pub(super) struct Call<'a> {
    arguments: Arguments<'a>,
    launch: &'a KernelCall<'a>,
    runs: bool,
}

pub(super) fn launch_error(message: String) -> BackendError {
    BackendError::Driver { operation: Operation::Launch, message }
}

fn call_error(error: CallError) -> BackendError {
    launch_error(error.to_string())
}

/// An operation's error as a device error.
pub(super) fn op_error(error: OpError) -> BackendError {
    launch_error(error.to_string())
}

impl<'a> Call<'a> {
    pub fn new(
        signature: &'static Signature,
        launch: &'a KernelCall<'a>,
        runs: bool,
    ) -> Result<Self> {
        let arguments = Arguments::new(signature, launch.arguments()).map_err(call_error)?;
        let call = Call { arguments, launch, runs };
        call.check_overlap()?;
        Ok(call)
    }

    /// Whether the kernel runs, and does not only validate the call.
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// An error about one argument of this call.
    pub fn error(
        &self,
        argument: &str,
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) -> BackendError {
        let operation = self.arguments.signature().name;
        launch_error(format!("{operation}: expected {argument} {expected}, got {got}"))
    }

    /// Refuses written operands that overlap others.
    fn check_overlap(&self) -> Result<()> {
        let rules = self.arguments.signature().operands;
        for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.access.writes()) {
            let Some(written) = self.arguments.operand_at(index).map_err(call_error)? else {
                continue;
            };
            for (other_index, other_rule) in rules.iter().enumerate() {
                if other_index == index {
                    continue;
                }
                let Some(other) = self.arguments.operand_at(other_index).map_err(call_error)?
                else {
                    continue;
                };
                let end = |operand: Operand| operand.pointer.0.saturating_add(operand.bytes);
                if written.pointer.0 < end(other) && other.pointer.0 < end(written) {
                    let expected = format_args!("apart from {}", other_rule.name);
                    return Err(self.error(rule.name, expected, "memory of both"));
                }
            }
        }
        Ok(())
    }

    /// An integer argument that is an extent or a count.
    pub fn size(&self, name: &str) -> Result<usize> {
        let value = self.arguments.integer(name).map_err(call_error)?;
        usize::try_from(value).map_err(|_| self.error(name, "of 0 or more", value))
    }

    /// The one of these that an integer argument stands for.
    pub fn chosen<T: Copy>(&self, name: &str, all: &[T]) -> Result<T> {
        let code = self.size(name)?;
        let last = all.len() - 1;
        let known = all.get(code).copied();
        known.ok_or_else(|| self.error(name, format_args!("from 0 to {last}"), code))
    }

    /// An integer argument that is a flag.
    pub fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.arguments.integer(name).map_err(call_error)? != 0)
    }

    /// A floating-point argument.
    pub fn float(&self, name: &str) -> Result<f32> {
        Ok(self.arguments.float(name).map_err(call_error)? as f32)
    }

    fn operand(&self, name: &str) -> Result<Option<Operand>> {
        self.arguments.operand(name).map_err(call_error)
    }

    fn required(&self, name: &str) -> Result<Operand> {
        self.operand(name)?.ok_or_else(|| self.error("operand", name, "none"))
    }

    /// An operand's element format.
    pub fn format(&self, name: &str) -> Result<ElementFormat> {
        Ok(self.required(name)?.format)
    }

    /// The elements of an operand of this shape.
    pub fn span<T: ElementType>(&self, name: &str, shape: &[usize]) -> Result<Span<'a, T>> {
        let operand = self.required(name)?;
        self.span_of(name, operand, shape)
    }

    /// The same for an optional operand.
    pub fn optional<T: ElementType>(
        &self,
        name: &str,
        shape: &[usize],
    ) -> Result<Option<Span<'a, T>>> {
        match self.operand(name)? {
            Some(operand) => self.span_of(name, operand, shape).map(Some),
            None => Ok(None),
        }
    }

    /// All elements of an optional operand.
    pub fn all<T: ElementType>(&self, name: &str) -> Result<Option<Span<'a, T>>> {
        match self.operand(name)? {
            Some(operand) => {
                let count = operand.bytes as usize / size_of::<T>();
                self.span_of(name, operand, &[count]).map(Some)
            }
            None => Ok(None),
        }
    }

    fn span_of<T: ElementType>(
        &self,
        name: &str,
        operand: Operand,
        shape: &[usize],
    ) -> Result<Span<'a, T>> {
        if operand.format != T::FORMAT {
            return Err(self.error(name, format_args!("of {}", T::FORMAT), operand.format));
        }
        self.raw(name, operand, shape)
    }

    /// The bytes of an operand of any format.
    pub fn bytes(&self, name: &str, bytes: usize) -> Result<Span<'a, u8>> {
        self.raw(name, self.required(name)?, &[bytes])
    }

    fn raw<T>(&self, name: &str, operand: Operand, shape: &[usize]) -> Result<Span<'a, T>> {
        let elements = shape.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
        let bytes = elements.and_then(|count| count.checked_mul(size_of::<T>()));
        let (Some(count), Some(bytes)) = (elements, bytes) else {
            return Err(self.error(name, "in memory", format_args!("shape {shape:?}")));
        };
        if count == 0 {
            return Ok(Span { first: std::ptr::dangling_mut(), count, memory: PhantomData });
        }
        if bytes as u64 > operand.bytes {
            let expected = format_args!("of shape {shape:?}, {bytes} bytes");
            return Err(self.error(name, expected, format_args!("{} bytes", operand.bytes)));
        }
        let first = self.launch.pointer(operand.pointer, bytes as u64)?.cast::<T>();
        if !first.is_aligned() {
            return Err(self.error(name, "aligned to its elements", "an odd address"));
        }
        Ok(Span { first, count, memory: PhantomData })
    }
}

/// Expands `$body` with the element type of a dense format, or returns an error.
macro_rules! for_element {
    ($call:expr, $name:expr, $type:ident => $body:expr) => {
        match $call.format($name)? {
            assay_operations::ElementFormat::F32 => {
                type $type = f32;
                $body
            }
            assay_operations::ElementFormat::F16 => {
                type $type = crate::ops::F16;
                $body
            }
            assay_operations::ElementFormat::Bf16 => {
                type $type = crate::ops::Bf16;
                $body
            }
            other => Err($call.error($name, "of f32, f16 or bf16", other)),
        }
    };
}

/// The same with the formats of the KV cache.
macro_rules! for_cache_element {
    ($call:expr, $name:expr, $type:ident => $body:expr) => {
        match $call.format($name)? {
            assay_operations::ElementFormat::F8E4M3 => {
                type $type = crate::ops::E4m3;
                $body
            }
            assay_operations::ElementFormat::I8 => {
                type $type = crate::ops::Int8;
                $body
            }
            _ => crate::kernels::call::for_element!($call, $name, $type => $body),
        }
    };
}

pub(super) use {for_cache_element, for_element};
