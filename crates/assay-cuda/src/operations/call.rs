//! A call as its body reads it: extents, and operands whose sizes are checked.

use super::context::OperationContext;
use super::define::Define;
use super::error::launch_error;
use crate::device::{Function, Queue};
use assay_operations::{Arguments, ElementFormat, Operand, expressions};
use assay_runtime::backend::{BackendError, DevicePointer, KernelArgument, Result};
use std::fmt;
use std::sync::Arc;

/// A call of an operation, and where its kernels are queued.
pub(super) struct Call<'a> {
    arguments: Arguments<'a>,
    pub context: &'a OperationContext,
    pub queue: &'a Queue<'a>,
}

/// Bytes of one element; none for block formats.
pub(super) fn element_bytes(format: ElementFormat) -> Option<u64> {
    format.element_bytes()
}

/// The type of a float format in the kernels' sources.
pub(super) fn float_type_name(format: ElementFormat) -> Option<&'static str> {
    match format {
        ElementFormat::F32 => Some("float"),
        ElementFormat::F16 => Some("fp16"),
        ElementFormat::Bf16 => Some("bf16"),
        _ => None,
    }
}

impl<'a> Call<'a> {
    pub fn new(
        context: &'a OperationContext,
        queue: &'a Queue<'a>,
        arguments: Arguments<'a>,
    ) -> Self {
        Call { arguments, context, queue }
    }

    /// The kernel with these macros; file and entry point share the name.
    pub fn function(&self, kernel: &'static str, defines: &[Define]) -> Result<Arc<Function>> {
        self.context.entry(self.queue, kernel, kernel, defines)
    }

    /// One of several entry points of a file.
    pub fn entry(
        &self,
        file: &'static str,
        kernel: &'static str,
        defines: &[Define],
    ) -> Result<Arc<Function>> {
        self.context.entry(self.queue, file, kernel, defines)
    }

    /// Scratch memory of the stream for one purpose, at least this long, zeroed when allocated.
    pub fn scratch(&self, purpose: &'static str, bytes: u64) -> Result<DevicePointer> {
        self.queue.scratch(purpose, bytes)
    }

    pub fn name(&self) -> &'static str {
        self.arguments.signature().name
    }

    pub fn error(&self, expected: impl fmt::Display, got: impl fmt::Display) -> BackendError {
        launch_error(format!("{}: expected {expected}, got {got}", self.name()))
    }

    /// An extent that fits a kernel's 32-bit counters.
    pub fn size(&self, name: &str) -> Result<u64> {
        let value = self.integer(name)?;
        match u32::try_from(value) {
            Ok(size) if size <= i32::MAX as u32 => Ok(u64::from(size)),
            _ => Err(self.error(format_args!("{name} from 0 to 2**31 - 1"), value)),
        }
    }

    /// The one of these that a number stands for.
    pub fn chosen<T: Copy>(&self, name: &str, all: &[T]) -> Result<T> {
        let code = self.size(name)?;
        let last = all.len() - 1;
        let known = all.get(code as usize).copied();
        known.ok_or_else(|| self.error(format_args!("{name} from 0 to {last}"), code))
    }

    pub fn integer(&self, name: &str) -> Result<i64> {
        let value = self.arguments.integer(name);
        value.map_err(|error| launch_error(error.to_string()))
    }

    /// The number at this index of the signature.
    pub fn integer_at(&self, index: usize) -> Result<i64> {
        let value = self.arguments.integer_at(index);
        value.map_err(|error| launch_error(error.to_string()))
    }

    pub fn float(&self, name: &str) -> Result<f32> {
        let value = self.arguments.float(name);
        value.map(|value| value as f32).map_err(|error| launch_error(error.to_string()))
    }

    /// A count of 0 or more, of 64 bits.
    pub fn count(&self, name: &str) -> Result<u64> {
        let value = self.integer(name)?;
        u64::try_from(value).map_err(|_| self.error(format_args!("{name} of 0 or more"), value))
    }

    /// A float in double precision.
    pub fn double(&self, name: &str) -> Result<f64> {
        let value = self.arguments.float(name);
        value.map_err(|error| launch_error(error.to_string()))
    }

    /// The text of an expression, from its code.
    pub fn expression(&self, name: &str) -> Result<&'static str> {
        let code = self.integer(name)?;
        let found = u32::try_from(code).ok().and_then(expressions::text);
        found.ok_or_else(|| self.error(format_args!("{name} as a known expression"), code))
    }

    /// An element format, from its code.
    pub fn format(&self, name: &str) -> Result<ElementFormat> {
        let code = self.integer(name)?;
        let format = u32::try_from(code).ok().and_then(ElementFormat::from_code);
        format.ok_or_else(|| self.error(format_args!("{name} as a known format"), code))
    }

    /// The numbers of the layout.
    pub fn layout(&self) -> impl Iterator<Item = i64> {
        self.arguments.layout()
    }

    /// The operand at this index of the signature, of any format and size.
    pub fn raw_at(&self, index: usize) -> Result<Option<Operand>> {
        let found = self.arguments.operand_at(index);
        found.map_err(|error| launch_error(error.to_string()))
    }

    /// An operand that may be absent, checked to hold the product of the extents.
    pub fn optional(&self, name: &str, extents: &[u64]) -> Result<Option<Operand>> {
        let found = self.arguments.operand(name);
        let Some(operand) = found.map_err(|error| launch_error(error.to_string()))? else {
            return Ok(None);
        };
        let count = extents.iter().try_fold(1u64, |all, one| all.checked_mul(*one));
        let required = operand
            .format
            .element_bytes()
            .and_then(|bytes| count.and_then(|count| count.checked_mul(bytes)));
        match required {
            Some(required) if operand.bytes >= required => Ok(Some(operand)),
            Some(required) => Err(self.error(
                format_args!("{name} of {required} bytes, for {extents:?} of {}", operand.format),
                operand.bytes,
            )),
            None => Err(self.error(format_args!("{name} of unpacked elements"), operand.format)),
        }
    }

    /// As [`Call::optional`], for a required operand.
    pub fn operand(&self, name: &str, extents: &[u64]) -> Result<Operand> {
        let found = self.optional(name, extents)?;
        found.ok_or_else(|| self.error(format_args!("operand {name}"), "none"))
    }

    /// A required operand of any format and size.
    pub fn raw(&self, name: &str) -> Result<Operand> {
        let found = self.arguments.operand(name);
        let found = found.map_err(|error| launch_error(error.to_string()))?;
        found.ok_or_else(|| self.error(format_args!("operand {name}"), "none"))
    }

    /// An operand of this format.
    pub fn typed(&self, name: &str, format: ElementFormat, extents: &[u64]) -> Result<Operand> {
        let found = self.operand(name, extents)?;
        self.same(name, format, found)
    }

    /// An operand of this format that may be absent.
    pub fn optional_typed(
        &self,
        name: &str,
        format: ElementFormat,
        extents: &[u64],
    ) -> Result<Option<Operand>> {
        let found = self.optional(name, extents)?;
        found.map(|found| self.same(name, format, found)).transpose()
    }

    fn same(&self, name: &str, format: ElementFormat, found: Operand) -> Result<Operand> {
        match found.format == format {
            true => Ok(found),
            false => Err(self.error(format_args!("{name} of {format}"), found.format)),
        }
    }

    /// The float type of an operand in the kernels' sources.
    pub fn float_type(&self, name: &str, operand: Operand) -> Result<&'static str> {
        let found = float_type_name(operand.format);
        found.ok_or_else(|| self.error(format_args!("{name} of f32, f16 or bf16"), operand.format))
    }
}

/// A kernel's argument for an operand.
pub(super) fn pointer(operand: Operand) -> KernelArgument {
    KernelArgument::Pointer(operand.pointer)
}

/// A kernel's argument for an operand that may be absent.
pub(super) fn pointer_or_null(operand: Option<Operand>) -> KernelArgument {
    KernelArgument::Pointer(operand.map_or(DevicePointer(0), |operand| operand.pointer))
}

/// A kernel's argument for an extent, which was checked to fit.
pub(super) fn int(size: u64) -> KernelArgument {
    KernelArgument::I32(size as i32)
}

/// The elements of one vectorized access: 16 bytes, where row widths and addresses are aligned.
pub(super) fn vector(format: ElementFormat, width: u64, operands: &[Option<Operand>]) -> u64 {
    let wide = 16 / format.element_bytes().unwrap_or(16);
    let aligned = operands.iter().flatten().all(|operand| operand.pointer.0.is_multiple_of(16));
    if aligned && width.is_multiple_of(wide) { wide } else { 1 }
}
